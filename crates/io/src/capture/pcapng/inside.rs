//! Which interface of a pcapng file is the inside one.

use wire::Side;

use super::super::order::Order;

const IF_NAME: u16 = 2;
/// Names that an error lists.
const LISTED: usize = 8;
/// Characters of each.
const LISTED_CHARS: usize = 64;

/// Which interface of a capture is inside. All others are outside.
pub(super) struct Inside {
    /// Its name, or its number in its section.
    wanted: String,
    number: Option<u32>,
    is_found: bool,
    /// What the interfaces so far are called, the first ones.
    known: Vec<String>,
}

impl Inside {
    pub fn new(wanted: &str) -> Inside {
        Inside { wanted: wanted.to_owned(), number: wanted.parse().ok(), is_found: false, known: Vec::new() }
    }

    /// The side of the section's next interface, which has this number.
    pub fn side_of(&mut self, order: Order, number: usize, options: &[u8]) -> Side {
        let name = option(order, options, IF_NAME).map(|name| {
            // Some writers end it with a zero.
            let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
            String::from_utf8_lossy(&name[..end])
        });
        let is_number = self.number.is_some_and(|wanted| wanted as usize == number);
        let is_inside = is_number || name.as_deref() == Some(self.wanted.as_str());
        self.is_found |= is_inside;
        if self.known.len() < LISTED {
            let name = name.map(|name| format!(" ({})", name.chars().take(LISTED_CHARS).collect::<String>()));
            self.known.push(format!("{number}{}", name.unwrap_or_default()));
        }
        if is_inside { Side::Inside } else { Side::Outside }
    }

    /// What there is in place of an interface that there is not; `None` if there is one.
    pub fn missing(&self) -> Option<(String, String)> {
        (!self.is_found).then(|| (self.wanted.clone(), self.known.join(", ")))
    }
}

/// The value of an option.
fn option(order: Order, options: &[u8], wanted: u16) -> Option<&[u8]> {
    let mut at = 0;
    loop {
        let header = options.get(at..at + 4)?;
        let (code, len) = (order.u16(header, 0), usize::from(order.u16(header, 2)));
        let value = options.get(at + 4..at + 4 + len)?;
        match code {
            0 => return None,
            code if code == wanted => return Some(value),
            _ => at += 4 + len.next_multiple_of(4),
        }
    }
}

//! The network interfaces that a chain file names, and the side that each is on: `[[interface]]`.
//!
//! ```text
//!        side "inside"  ── lan0 ──┐
//!                                 ├── the chain ── wan0 ── side "outside"
//!        side "dmz"     ── dmz0 ──┘
//! ```
//!
//! A chain has two directions, whatever number of interfaces: what is not `outside` is inside. Sides inside are told apart by
//! the prefixes of their hosts. So a rule about a side means the same over a capture, where no interface is known, and on every
//! core; and a port drops what comes by an interface with the address of another side ([`others`]).

use std::fmt::Write;

use nf::prefix::PrefixSet;
use wire::Side;

/// The side that is not inside.
pub(crate) const OUTSIDE: &str = "outside";
/// What the inside is called where it is one side.
pub(crate) const INSIDE: &str = "inside";

/// The most interfaces that a chain file names.
pub(crate) const INTERFACES_MAX: usize = 16;

/// The longest name of an interface: the kernel's (`IFNAMSIZ`, with a zero).
pub(crate) const NAME_BYTES_MAX: usize = 15;

/// One `[[interface]]` of a chain file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainInterface {
    /// Its name, as `ip link` shows it.
    pub name: String,
    /// The side that it is on: `outside`, or any name for one of those inside.
    pub side: String,
    /// The hosts of its side, as far as it names them; empty outside.
    pub prefixes: PrefixSet,
}

impl ChainInterface {
    /// In which direction its packets go through the chain.
    pub fn direction(&self) -> Side {
        if self.side == OUTSIDE { Side::Outside } else { Side::Inside }
    }
}

/// All hosts inside that interfaces name.
pub(crate) fn inside(interfaces: &[ChainInterface]) -> PrefixSet {
    union(interfaces.iter())
}

/// By interface, the hosts of other sides inside: a packet with such a source that comes by it is forged.
pub fn others(interfaces: &[ChainInterface]) -> Vec<PrefixSet> {
    let of =
        |interface: &ChainInterface| union(interfaces.iter().filter(|other| other.side != interface.side));
    interfaces.iter().map(of).collect()
}

/// The sides whose hosts are named, in the order of their names, as the text of a TOML value:
/// `{ dmz = ["10.0.1.0/24"], inside = ["10.0.0.0/24"] }`; `None` where there is none.
pub(crate) fn sides_in_words(interfaces: &[ChainInterface]) -> Option<String> {
    let mut names: Vec<&str> = interfaces.iter().map(|interface| interface.side.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let mut text = String::new();
    for name in names {
        let hosts = union(interfaces.iter().filter(|interface| interface.side == name));
        if hosts.is_empty() {
            continue;
        }
        let prefixes: Vec<String> = hosts.prefixes().map(|(ip, bits)| format!("\"{ip}/{bits}\"")).collect();
        let separator = if text.is_empty() { "" } else { ", " };
        // A `String` takes all.
        let _ = write!(text, "{separator}\"{name}\" = [{}]", prefixes.join(", "));
    }
    (!text.is_empty()).then(|| format!("{{ {text} }}"))
}

fn union<'a>(interfaces: impl Iterator<Item = &'a ChainInterface>) -> PrefixSet {
    interfaces.fold(PrefixSet::default(), |all, interface| all.union(&interface.prefixes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(name: &str, side: &str, prefixes: &[&str]) -> ChainInterface {
        let prefixes: Vec<String> = prefixes.iter().map(ToString::to_string).collect();
        let prefixes = PrefixSet::parse("prefixes", &prefixes).expect("prefixes");
        ChainInterface { name: name.to_owned(), side: side.to_owned(), prefixes }
    }

    #[test]
    fn hosts_of_other_sides_are_forged_and_those_of_the_own_side_are_not() {
        let all = [
            interface("lan0", "inside", &["10.0.0.0/24"]),
            interface("lan1", "inside", &["10.0.9.0/24"]),
            interface("dmz0", "dmz", &["10.0.1.0/24", "2001:db8:1::/64"]),
            interface("wan0", OUTSIDE, &[]),
        ];
        let others: Vec<String> = others(&all).iter().map(ToString::to_string).collect();
        let (inside_hosts, dmz) = ("10.0.0.0/24, 10.0.9.0/24", "10.0.1.0/24, 2001:db8:1::/64");
        assert_eq!(others[..3], [dmz, dmz, inside_hosts]);
        assert_eq!(inside(&all).to_string(), "10.0.0.0/23, 10.0.9.0/24, 2001:db8:1::/64");
        assert_eq!(
            sides_in_words(&all).expect("some are named"),
            "{ \"dmz\" = [\"10.0.1.0/24\", \"2001:db8:1::/64\"], \"inside\" = [\"10.0.0.0/24\", \"10.0.9.0/24\"] }"
        );
        assert_eq!(sides_in_words(&all[3..]), None);
        let directions: Vec<Side> = all.iter().map(ChainInterface::direction).collect();
        assert_eq!(directions[1..], [Side::Inside, Side::Inside, Side::Outside]);
    }
}

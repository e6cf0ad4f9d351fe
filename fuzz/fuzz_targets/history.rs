//! Any bytes as packets with history, and packets of a sequencer with bytes changed: what a plain reader
//! takes is taken and read the same, all else is rejected, and a receiver only goes forward. Of both versions of the format.
//!
//! Input: mask, cores, flags, a length; then the changes to packets of a sequencer, or the packets. With the highest bit of
//! the cores it is version 2, and the mask says which parts its items have.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sequencer::{
    Form, HEADER_LEN, History, ItemLayout, Kind, Layout, Part, Receiver, Rejected, Sequencer, TypedLayout,
    outer_ethernet, write_key,
};
use wire::{Headers, LinkType};

#[path = "../../crates/sequencer/tests/invariants/mod.rs"]
mod invariants;

fuzz_target!(|input: &[u8]| {
    let Some((mask, rest)) = input.split_first_chunk::<8>() else { return };
    let Some((&[cores, flags, len], rest)) = rest.split_first_chunk::<3>() else { return };
    let run = Run { cores: usize::from(cores % 64) + 1, flags, len, rest };
    if cores & 0x80 != 0 {
        run.over(&Typed::new(mask), |_| ());
    } else {
        let layout = ItemLayout::new(u64::from_le_bytes(*mask));
        run.over(&layout, |frame| invariants::check_bytes(frame, &layout).unwrap());
    }
});

/// What the input says beside the layout.
struct Run<'a> {
    cores: usize,
    flags: u8,
    len: u8,
    rest: &'a [u8],
}

impl Run<'_> {
    fn over<L: Layout + Clone>(&self, layout: &L, check: impl Fn(&[u8])) {
        let Run { cores, flags, len, rest } = *self;
        let frames = match flags & 1 == 0 {
            true => rest
                .chunks(usize::from(len) * 4 + 1)
                .map(|bytes| dressed(bytes, layout.form(), flags))
                .collect(),
            false => sequenced(layout, cores, flags, rest),
        };
        let mut receiver = Receiver::starting_at(0);
        for frame in &frames {
            check(frame);
            invariants::check_items(frame, layout).unwrap();
            let Ok(history) = History::parse(frame, layout) else { continue };
            assert_eq!(Kind::of(frame).map(|kind| kind.version), Some(layout.form().version));
            let before = receiver.expected();
            match receiver.accept(&history) {
                Ok(arrival) => {
                    assert!(arrival.lost.start == before && arrival.lost.end >= before);
                    assert!(arrival.known <= history.count());
                    let first_new = history.first_seq() + arrival.known as u64;
                    assert!(first_new == arrival.lost.end || history.count() == arrival.known);
                }
                Err(reason) => {
                    assert_eq!(reason, Rejected::SequenceGoesBack);
                    assert!(history.stamp().seq < before && receiver.expected() == before);
                }
            }
        }
    }
}

/// Items with a part for each byte of a mask that is not 0: a key if it is odd, else a meta as long.
#[derive(Clone)]
struct Typed(TypedLayout);

impl Typed {
    fn new(mask: &[u8; 8]) -> Typed {
        let part = |byte: &u8| match byte & 1 {
            0 => Part::Meta { function: "any", reads: 0, bytes: usize::from(*byte) / 2 },
            _ => Part::Key { fields: u32::from(*byte), is_symmetric: false, bytes: 16 },
        };
        let parts: Vec<Part<'_>> = mask.iter().filter(|byte| **byte != 0).map(part).collect();
        Typed(TypedLayout::new("fuzz", &parts, u64::from_le_bytes(*mask)).unwrap())
    }
}

impl Layout for Typed {
    fn form(&self) -> Form {
        self.0.form()
    }

    fn write(&self, headers: &Headers, time_ns: u64, item: &mut [u8]) {
        let port = headers.dst_port as u8;
        self.0.begin(time_ns, !headers.is_well_formed(), item);
        for place in self.0.places().iter().filter(|place| port >> (place.mark % 8) & 1 == 0) {
            match place.len {
                20 => write_key(port.into(), port.into(), place.of_mut(item)),
                _ => place.of_mut(item).fill(port),
            }
            place.mark(true, item);
            assert!(place.is_marked(item) && place.of(item).len() == place.len);
        }
        assert_eq!(TypedLayout::is_malformed(item), !headers.is_well_formed());
    }
}

/// Bytes behind what no search would find: magic, version and layout.
fn dressed(bytes: &[u8], form: Form, flags: u8) -> Vec<u8> {
    let mut frame = bytes.to_vec();
    if let Some(header) = frame.first_chunk_mut::<HEADER_LEN>()
        && flags & 2 == 0
    {
        header[..4].copy_from_slice(b"PLHI");
        header[4] = form.version as u8;
        header[24..32].copy_from_slice(&form.layout.to_be_bytes());
        header[32..34].copy_from_slice(&(form.item_len as u16).to_be_bytes());
        if form.table_seed != 0
            && let Some(table_seed) = frame.get_mut(40..48)
        {
            table_seed.copy_from_slice(&form.table_seed.to_be_bytes());
        }
    }
    frame
}

/// Packets of a sequencer; of each four bytes, two change one of its packet's.
fn sequenced<L: Layout + Clone>(layout: &L, cores: usize, flags: u8, changes: &[u8]) -> Vec<Vec<u8>> {
    let mut sequencer = Sequencer::new(layout.clone(), cores).unwrap();
    let frame = |&[passed, number, at, change]: &[u8; 4]| {
        let headers = Headers { dst_port: number.into(), malformed_code: number >> 4, ..Headers::default() };
        let placed = sequencer.next(&headers, u64::from(passed) << (flags >> 4));
        if passed == 0 {
            sequencer.flush();
        }
        let mut frame = if flags & 4 == 0 { Vec::new() } else { outer_ethernet(placed.core as u16).to_vec() };
        let start = frame.len();
        frame.resize(start + sequencer.prefix_len(), 0);
        sequencer.prefix(LinkType::Ethernet, &mut frame[start..]);
        let at = (usize::from(at) * if flags & 8 == 0 { 1 } else { 18 }) % frame.len();
        frame[at] ^= change;
        frame
    };
    changes.as_chunks::<4>().0.iter().map(frame).collect()
}

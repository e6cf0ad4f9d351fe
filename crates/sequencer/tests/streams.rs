//! Any stream over any number of cores with any loss: what a core reads is what was sent. Bytes flipped or
//! cut are rejected or do no harm. And each check seen failing, over frames with a fault planted.

extern crate paceline_sequencer as sequencer;

mod invariants;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use sequencer::{ETHERNET_LEN, HEADER_LEN, History, ItemLayout, Receiver, Sequencer, outer_ethernet};
use wire::{Headers, LinkType, Stamp};
use zerocopy::{FromBytes, IntoBytes};

/// A packet that comes in, and what happens on its way to its core.
#[derive(Clone, Debug)]
struct Packet {
    headers: [u64; 8],
    /// Since the one before; the clock may step back.
    passed_ns: i16,
    is_lost: bool,
    /// Traffic stops after it for a while.
    is_last: bool,
}

#[derive(Clone, Debug)]
struct Stream {
    mask: u64,
    cores: usize,
    has_ethernet: bool,
    packets: Vec<Packet>,
}

/// A frame on its way to a core.
struct Frame {
    core: usize,
    bytes: Vec<u8>,
}

/// What was sent: every packet as history shows it, and every frame that arrives, in order.
struct Sent {
    layout: ItemLayout,
    cores: usize,
    packets: Vec<(Stamp, Headers)>,
    frames: Vec<Frame>,
}

impl Stream {
    fn send(&self) -> Sent {
        let layout = ItemLayout::new(self.mask);
        let mut sequencer = Sequencer::new(layout.clone(), self.cores).unwrap();
        assert_eq!((sequencer.layout(), sequencer.cores()), (&layout, self.cores));
        let mut sent = Sent { layout, cores: self.cores, packets: Vec::new(), frames: Vec::new() };
        let mut now_ns = 1_000_000_u64;
        for packet in &self.packets {
            now_ns = now_ns.saturating_add_signed(packet.passed_ns.into());
            let mut headers = Headers::read_from_bytes(packet.headers.as_bytes()).unwrap();
            let placed = sequencer.next(&headers, now_ns);
            let bytes = self.frame(&sequencer, placed.core, &placed.stamp.seq.to_be_bytes());
            if !packet.is_lost {
                sent.frames.push(Frame { core: placed.core, bytes });
            }
            let kept = headers.as_mut_bytes().iter_mut().enumerate();
            kept.for_each(|(i, byte)| *byte *= (sent.layout.header_bytes() >> i & 1) as u8);
            sent.packets.push((placed.stamp, headers));
            if packet.is_last {
                sequencer.flush();
                let flush = |core| Frame { core, bytes: self.frame(&sequencer, core, &[]) };
                sent.frames.extend((0..self.cores).map(flush));
            }
        }
        sent
    }

    fn frame(&self, sequencer: &Sequencer, core: usize, packet: &[u8]) -> Vec<u8> {
        let ethernet = outer_ethernet(core as u16);
        let mut bytes = if self.has_ethernet { ethernet.to_vec() } else { Vec::new() };
        let start = bytes.len();
        bytes.resize(start + sequencer.prefix_len() + sequencer.first_len(), 0);
        sequencer.prefix(LinkType::Ethernet, &mut bytes[start..]);
        bytes.extend(packet);
        bytes
    }
}

/// What a core knows after all its frames: for each packet whether it came, itself or as history.
#[derive(Clone, Debug)]
struct Core {
    receiver: Receiver,
    knows: Vec<bool>,
}

/// Every core reads what was sent: each packet once and in order, itself or as an item, or is told of its
/// loss. Gives what the cores know in the end.
fn check(sent: &Sent, cores: usize) -> Result<Vec<Core>, String> {
    let core = Core { receiver: Receiver::starting_at(0), knows: Vec::new() };
    let mut all = vec![core; cores];
    for frame in &sent.frames {
        take(&mut all[frame.core], &frame.bytes, sent)
            .map_err(|reason| format!("core {}: {reason}", frame.core))?;
    }
    Ok(all)
}

fn take(core: &mut Core, bytes: &[u8], sent: &Sent) -> Result<(), String> {
    invariants::check_bytes(bytes, &sent.layout)?;
    invariants::check_items(bytes, &sent.layout)?;
    let history = History::parse(bytes, &sent.layout).map_err(|rejected| rejected.to_string())?;
    let arrival = core.receiver.accept(&history).map_err(|rejected| rejected.to_string())?;
    let expected = core.knows.len() as u64;
    if arrival.lost.start != expected {
        return Err(format!("{arrival:?}, and packet {expected} comes next"));
    }
    core.knows.resize(arrival.lost.end as usize, false);
    if history.ring_items() + 1 != sent.cores {
        return Err(format!("{} items for {} cores", history.ring_items(), sent.cores));
    }
    for (index, (stamp, headers)) in history.items().enumerate() {
        // The same where it lies.
        let mut read = Headers::default();
        let time_ns = sent.layout.read_into(history.item_bytes(index), &mut read);
        if (time_ns, read) != (stamp.time_ns, headers) {
            return Err(format!("item {index} lies elsewhere"));
        }
    }
    let mut items = history.items_after(arrival.known);
    for left in (0..history.count() - arrival.known).rev() {
        let item = items.next().ok_or("an item is missing")?;
        if items.len() != left {
            return Err(format!("{items:?}, and {left} are left"));
        }
        let next = sent.packets.get(core.knows.len());
        if Some(&item) != next {
            return Err(format!("an item says {item:?}, sent was {next:?}"));
        }
        core.knows.push(true);
    }
    if history.is_flush() {
        let last = sent.packets[core.knows.len() - 1].0;
        let stamp = Stamp { seq: last.seq + 1, ..last };
        return if history.stamp() == stamp { Ok(()) } else { Err(format!("{history:?} after {last:?}")) };
    }
    let own = sent.packets[core.knows.len()].0;
    if history.stamp() != own || bytes[history.packet_offset()..] != own.seq.to_be_bytes() {
        return Err(format!("{history:?} before packet {own:?}"));
    }
    core.knows.push(true);
    Ok(())
}

fn packet() -> impl Strategy<Value = Packet> {
    let passed_ns = prop_oneof![4 => 0..500_i16, 1 => -300..0_i16];
    let (is_lost, is_last) = (prop::bool::weighted(0.2), prop::bool::weighted(0.1));
    (any::<[u64; 8]>(), passed_ns, is_lost, is_last)
        .prop_map(|(headers, passed_ns, is_lost, is_last)| Packet { headers, passed_ns, is_lost, is_last })
}

fn stream() -> impl Strategy<Value = Stream> {
    let mask = prop_oneof![any::<u64>(), any::<u64>().prop_map(|m| m & m >> 7 & m >> 13), Just(u64::MAX)];
    let cores = prop_oneof![1..9_usize, 1..=64_usize];
    (mask, cores, any::<bool>(), vec(packet(), 1..120))
        .prop_map(|(mask, cores, has_ethernet, packets)| Stream { mask, cores, has_ethernet, packets })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4 * ProptestConfig::default().cases))]

    #[test]
    fn a_core_reads_what_was_sent(stream in stream()) {
        let sent = stream.send();
        let cores = check(&sent, stream.cores);
        prop_assert!(cores.is_ok(), "{cores:?}");
    }

    #[test]
    fn without_loss_every_core_knows_every_packet(mut stream in stream()) {
        stream.packets.iter_mut().for_each(|packet| packet.is_lost = false);
        stream.packets.last_mut().unwrap().is_last = true;
        let sent = stream.send();
        for core in check(&sent, stream.cores).unwrap() {
            prop_assert_eq!(core.knows, vec![true; sent.packets.len()]);
        }
    }

    // What a core has lost, it has lost in a row of its own frames: one that came brings the k - 1 before it.
    #[test]
    fn a_core_lacks_no_more_than_was_lost(stream in stream()) {
        let sent = stream.send();
        for (number, core) in check(&sent, stream.cores).unwrap().into_iter().enumerate() {
            for seq in (0..core.knows.len()).filter(|seq| !core.knows[*seq]) {
                // The core's own turn at this packet or after it is what would have told.
                let turn = seq + (number + stream.cores - seq % stream.cores) % stream.cores;
                prop_assert!(stream.packets[turn].is_lost, "core {number} lacks {seq}");
            }
        }
    }

    #[test]
    fn bytes_that_are_flipped_or_cut_are_rejected_or_do_no_harm(
        stream in stream(),
        which in any::<Index>(),
        flips in vec((any::<Index>(), any::<u8>()), 0..4),
        in_header: bool,
        len in any::<Index>(),
        is_cut: bool,
    ) {
        let sent = stream.send();
        prop_assume!(!sent.frames.is_empty());
        let mut bytes = which.get(&sent.frames).bytes.clone();
        for (index, change) in flips {
            let end = if in_header { HEADER_LEN + ETHERNET_LEN * usize::from(stream.has_ethernet) } else { bytes.len() };
            bytes[index.index(end)] ^= change;
        }
        if is_cut {
            bytes.truncate(len.index(bytes.len() + 1));
        }
        let checked = invariants::check_bytes(&bytes, &sent.layout);
        prop_assert!(checked.is_ok(), "{checked:?}");
    }
}

/// Whatever one bit of the fixed header says instead, items keep their numbers, or the packet is rejected:
/// only the sequence number, the time and the link type stand for themselves.
#[test]
fn a_bit_of_the_header_cannot_move_an_item() {
    let sent = steady(4).send();
    let frame = &sent.frames[10].bytes;
    let items: Vec<_> = History::parse(frame, &sent.layout).unwrap().items().collect();
    for bit in (0..8 * HEADER_LEN).filter(|bit| !(48..192).contains(bit)) {
        let mut bytes = frame.clone();
        bytes[bit / 8] ^= 1 << (7 - bit % 8);
        if let Ok(history) = History::parse(&bytes, &sent.layout) {
            panic!("bit {bit}: {:?} instead of {items:?}", history.items().collect::<Vec<_>>());
        }
    }
}

/// Packets that differ, at times that differ, without loss.
fn steady(cores: usize) -> Stream {
    let packet = |number: u64| Packet {
        headers: [number + 1; 8],
        passed_ns: 100,
        is_lost: false,
        is_last: number % 20 == 19,
    };
    Stream { mask: 0xf0f0, cores, has_ethernet: false, packets: (0..40_u64).map(packet).collect() }
}

/// A fault of a sequencer, as a change to the frames that it sends.
type Fault = fn(&mut Sent);

fn each(sent: &mut Sent, change: impl Fn(&mut [u8], usize)) {
    let item_len = sent.layout.item_len();
    sent.frames.iter_mut().for_each(|frame| change(&mut frame.bytes, item_len));
}

/// The ring of a sequencer for four cores.
fn ring(bytes: &mut [u8], item_len: usize) -> &mut [u8] {
    &mut bytes[HEADER_LEN..][..3 * item_len]
}

const FAULTS: [(&str, Fault); 11] = [
    ("the ring rotated, not in place", |sent| {
        each(sent, |bytes, item_len| ring(bytes, item_len).rotate_left(item_len))
    }),
    ("the oldest is off by one", |sent| each(sent, |bytes, _| bytes[39] = (bytes[39] + 1) % 3)),
    ("one item is left out", |sent| each(sent, |bytes, _| bytes[37] = bytes[37].saturating_sub(1))),
    ("the oldest is left out as if there were no more", |sent| {
        each(sent, |bytes, _| {
            let count = bytes[37].saturating_sub(1);
            bytes[39] = (bytes[39] + bytes[37] - count) % 3;
            bytes[37] = count;
        })
    }),
    ("history with the packet itself, not before it", |sent| {
        let own = sent.packets.clone();
        let layout = sent.layout.clone();
        each(sent, |bytes, item_len| {
            let (stamp, headers) = own[usize::from(bytes[15]).min(own.len() - 1)];
            let slot = bytes[15] as usize % 3;
            layout.write(&headers, stamp.time_ns, &mut ring(bytes, item_len)[slot * item_len..][..item_len]);
        })
    }),
    ("items have the packet's time", |sent| {
        each(sent, |bytes, item_len| {
            let mut time = [0; 8];
            time.copy_from_slice(&bytes[16..24]);
            time.reverse();
            ring(bytes, item_len).chunks_mut(item_len).for_each(|item| item[..8].copy_from_slice(&time));
        })
    }),
    ("items are not renewed", |sent| {
        let first = sent.frames[3].bytes.clone();
        each(sent, |bytes, item_len| {
            ring(bytes, item_len).copy_from_slice(&first[HEADER_LEN..][..3 * item_len])
        })
    }),
    ("a packet goes to the wrong core", |sent| sent.frames[9].core = 2),
    ("a packet is sent twice", |sent| {
        let Frame { core, bytes } = &sent.frames[9];
        let again = Frame { core: *core, bytes: bytes.clone() };
        sent.frames.insert(10, again);
    }),
    ("two packets change places", |sent| sent.frames.swap(5, 9)),
    ("a flush takes a number", |sent| {
        each(sent, |bytes, _| {
            if bytes[5] == 1 {
                bytes[15] += 1;
                bytes[39] = (bytes[39] + 1) % 3;
            }
        })
    }),
];

#[test]
fn faults_of_a_sequencer_are_seen() {
    let sound = steady(4);
    check(&sound.send(), 4).unwrap();
    for (name, fault) in FAULTS {
        let mut sent = sound.send();
        fault(&mut sent);
        let all_known = |cores: Vec<Core>| {
            let lacks = cores.iter().any(|core| core.knows.contains(&false) || core.knows.len() < 40);
            if lacks { Err("a packet is lacking".to_owned()) } else { Ok(()) }
        };
        let seen = check(&sent, 4).and_then(all_known);
        assert!(seen.is_err(), "not seen: {name}");
    }
}

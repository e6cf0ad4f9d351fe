//! Edits become bytes: the last step of a packet's way before it is sent.

use io::{EngineDrop, Fate, Frame, Note, Port, Unedited};
use wire::{Edits, Fields, Headers};

use crate::path::batch::Batch;
use crate::path::packets::bits;

/// Not inlined, so that the loop has the registers.
#[inline(never)]
pub(super) fn apply_edits(port: &mut impl Port, batch: &mut Batch) {
    let own = batch.own();
    let most = own & batch.live & batch.plain;
    for packet in bits(most) {
        let Batch { frames, headers, edits, .. } = &mut *batch;
        let (frame, headers, edits) = (&mut frames[packet], &headers[packet], &mut edits[packet]);
        if edits.is_empty() {
            continue;
        }
        if frame.note.is_quotable() {
            keep_unedited(frame, headers, edits, port);
        }
        let data = frame.data();
        let bytes = port.buffer_mut(frame).get_mut(data);
        match bytes.is_some_and(|bytes| wire::apply_plain(edits, headers, bytes)) {
            true => edits.clear(),
            false => apply_any(packet, port, batch),
        }
    }
    for packet in bits(own & !most) {
        match batch.fates[packet] {
            _ if batch.edits[packet].is_empty() => (),
            Fate::Drop(_) | Fate::DropBy { .. } => batch.edits[packet].clear(),
            _ => apply_any(packet, port, batch),
        }
    }
    bits(batch.history).for_each(|packet| batch.edits[packet].clear());
}

/// Edits that may move the packet's borders in its buffer, as a VLAN tag does, or a packet that is not plain.
#[inline(never)]
fn apply_any(packet: usize, port: &mut impl Port, batch: &mut Batch) {
    let Batch { frames, headers, edits, .. } = &mut *batch;
    let (frame, headers, edits) = (&mut frames[packet], &headers[packet], &edits[packet]);
    if frame.note.is_quotable() {
        keep_unedited(frame, headers, edits, port);
    }
    let (mut data, link) = (frame.data(), frame.link);
    let buffer = port.buffer_mut(frame);
    match wire::apply_by_layers(edits, headers, link, buffer, &mut data) {
        Ok(()) => {
            frame.set_data(data);
            frame.note = noted(frame.note, edits);
        }
        Err(wire::ApplyError::NoRoom) => batch.end(packet, Fate::Drop(EngineDrop::NoRoom)),
    }
    batch.edits[packet].clear();
}

/// What is known of a packet that was edited so. In a tunnel it is inside what leaves; if nothing else of it was changed, its port
/// can quote it from there.
#[inline]
fn noted(note: Note, edits: &Edits) -> Note {
    const AROUND: Fields = Fields::TUNNEL.union(Fields::SRC_MAC).union(Fields::DST_MAC);
    let is_inside = edits.fields().contains(Fields::TUNNEL) && AROUND.contains(edits.fields());
    if note.is_quotable() && is_inside { note.inside_a_tunnel() } else { note }
}

/// Keeps what the packet was, as its port asks. Where a tag or a tunnel comes or goes, headers would not be found again.
#[inline(never)]
fn keep_unedited(frame: &mut Frame, headers: &Headers, edits: &Edits, port: &mut impl Port) {
    let start = frame.data().start;
    let is_moved = edits.fields().intersects(Fields::VLAN | Fields::TUNNEL);
    if !is_moved && Unedited::keep(port.buffer_mut(frame), start, headers) {
        frame.note = frame.note.edited();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use io::capture::Record;
    use io::{MemoryPort, Trace};
    use wire::{Addr, Edits, LinkType};

    use super::*;
    use crate::path::packets::all_bits;
    use crate::path::parse::parse;

    /// UDP over IPv4 in an Ethernet frame with this tag, and so many bytes of IP options.
    fn udp(tag: &[u8], options: usize) -> Vec<u8> {
        let mut frame = vec![2; 12];
        frame.extend(tag);
        let words = 5 + options as u8 / 4;
        frame.extend([8, 0, 0x40 | words, 0, 0, 28 + options as u8, 0, 0, 0, 0, 64, 17, 0x12, 0x34]);
        frame.extend([192, 0, 2, 1, 192, 0, 2, 2]);
        // No-operation options.
        frame.extend(std::iter::repeat_n(1, options));
        frame.extend([0, 53, 0, 54, 0, 8, 0x43, 0x21]);
        frame
    }

    fn trace(frames: &[Vec<u8>]) -> Trace {
        let mut trace = Trace::default();
        for (time_ns, data) in (1..).zip(frames) {
            let wire_len = data.len() as u32;
            trace.push(&Record { time_ns, wire_len, link: LinkType::Ethernet, data });
        }
        trace
    }

    /// What becomes of frames, with `mistake` made behind the parse; and what layer by layer becomes of them.
    fn edited(mistake: impl Fn(&mut Batch)) -> [Vec<Vec<u8>>; 2] {
        let frames = [udp(&[], 0), udp(&[0x81, 0, 0, 7], 0), udp(&[], 4), udp(&[], 0), udp(&[], 0)];
        let numbers: Vec<u32> = (0..frames.len() as u32).collect();
        let mut port = MemoryPort::new(&trace(&frames), &numbers, 8, Arc::new(AtomicBool::new(false)));
        let mut batch = Batch::new();
        port.receive(&mut batch.frames, frames.len());
        parse(&port, &mut batch);
        let mut edits = Edits::NONE;
        edits.set_dst(Addr::v4([198, 51, 100, 7]));
        edits.set_src_port(4_321);
        batch.edits[..frames.len()].fill(edits);
        // The fourth is dropped, and goes on as it is; nothing is asked of the fifth.
        batch.end(3, Fate::Drop(EngineDrop::Malformed));
        batch.edits[4].clear();
        mistake(&mut batch);
        apply_edits(&mut port, &mut batch);
        assert!(batch.edits.iter().all(Edits::is_empty), "none are left for the next batch");
        let found = batch.frames.iter().map(|frame| port.bytes(frame).to_vec()).collect();
        let expected = |(number, mut frame): (usize, Vec<u8>)| {
            let (headers, mut data) = (wire::parse(LinkType::Ethernet, &frame, 0), 0..frame.len());
            if number < 3 {
                wire::apply_by_layers(&edits, &headers, LinkType::Ethernet, &mut frame, &mut data)
                    .expect("room");
            }
            frame
        };
        [found, frames.into_iter().enumerate().map(expected).collect()]
    }

    /// A packet that its port may have to quote lies whole inside the tunnel, unless something else of it was edited.
    #[test]
    fn what_goes_into_a_tunnel_as_it_came_is_noted() {
        let (from, to) = (Addr::v4([192, 0, 2, 9]), Addr::v4([198, 51, 100, 7]));
        let tunnel = wire::Tunnel { src: from, dst: to, via: wire::TunnelVia::Ip };
        for (is_quotable, is_edited, is_inside) in
            [(true, false, true), (true, true, false), (false, false, false)]
        {
            let frames = [udp(&[], 0), udp(&[], 4)];
            let mut port = MemoryPort::new(&trace(&frames), &[0, 1], 8, Arc::new(AtomicBool::new(false)));
            let mut batch = Batch::new();
            port.receive(&mut batch.frames, frames.len());
            parse(&port, &mut batch);
            for packet in 0..2 {
                let note = batch.frames[packet].note;
                batch.frames[packet].note = if is_quotable { note.quotable() } else { note };
                batch.edits[packet].set_tunnel(tunnel);
                batch.edits[packet].set_dst_mac([2; 6]);
                if is_edited {
                    batch.edits[packet].set_src(from);
                }
            }
            apply_edits(&mut port, &mut batch);
            for (frame, sent) in batch.frames.iter().zip(&frames) {
                assert_eq!(frame.note.is_inside_a_tunnel(), is_inside, "{is_quotable} {is_edited}");
                assert!(!frame.note.is_edited(), "nothing was kept where the outer header is");
                let bytes = port.bytes(frame);
                assert_eq!(bytes.len(), sent.len() + 20);
                assert_eq!(bytes[34..] == sent[14..], !is_edited);
            }
        }
    }

    #[test]
    fn packets_are_edited_whether_plain_or_not() {
        let [found, expected] = edited(|batch| assert_eq!(batch.plain, 0b11001));
        assert_eq!(found, expected);
    }

    /// Planted: a packet that is taken for plain is written where its fields are not.
    #[test]
    fn what_is_wrongly_plain_is_found() {
        let [found, expected] = edited(|batch| batch.plain = all_bits(3));
        assert_eq!(found[0], expected[0]);
        assert_ne!(found[1], expected[1], "a tag");
        assert_ne!(found[2], expected[2], "an option");
    }
}

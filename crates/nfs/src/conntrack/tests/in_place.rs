//! The short way of packets that pass, in place and in a step, beside the rules as they are written out.

use proptest::prelude::*;
use wire::{Edits, Stamp};

use super::properties::packet;
use super::*;
use crate::conntrack::{Meta, now_ms};

/// What a step does to a connection, and what it counts.
#[derive(Debug, PartialEq)]
struct Outcome {
    state: Option<State>,
    verdict: Verdict,
    events: Vec<u64>,
}

impl Outcome {
    fn of(
        flow: Option<State>,
        stamp: Stamp,
        step: impl FnOnce(&mut Option<State>, &mut nf::Cx<'_, ()>) -> Verdict,
    ) -> Outcome {
        let (mut state, mut edits, mut pool) = (flow, Edits::NONE, ());
        let mut events = vec![0; Conntrack::ABOUT.events.len() + 1];
        let mut cx = nf::Cx::new(stamp, &mut edits, &mut pool, &mut events, 0);
        let verdict = step(&mut state, &mut cx);
        Outcome { state, verdict, events }
    }
}

/// A fault in the steps in place, which the comparison has to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// The segment is held to the window of the other direction.
    OtherSide,
    /// What is counted is lost.
    MissedEvent,
    /// A TCP state that the packet leads to is lost.
    LostTransition,
    /// The connection does not live longer for the packet.
    NotRenewed,
    /// A packet that is refused has changed what it found.
    Began,
}

/// Steps `packets` as the rules have it. Beside them each is stepped by [`Conntrack::step`], and in place where there is a
/// connection: says how many passed in place, or where they came out otherwise.
fn in_place_as_by_rules(
    tracker: &Conntrack,
    packets: &[(u64, Headers)],
    fault: Fault,
) -> Result<usize, String> {
    let (mut flow, mut time_ns, mut passed) = (None::<State>, 1_700_000_000_000_000_000, 0);
    for (number, (gap_ns, headers)) in packets.iter().enumerate() {
        time_ns += gap_ns;
        let Some(meta) = Conntrack::project(headers) else { continue };
        let stamp = Stamp { seq: number as u64, time_ns };
        let by_rules = Outcome::of(flow, stamp, |flow, cx| tracker.step_any(flow, &meta, now_ms(stamp), cx));
        let by_step = Outcome::of(flow, stamp, |flow, cx| tracker.step(flow, &meta, cx));
        if by_step != by_rules {
            return Err(format!("step {number}: {by_step:?} in place of {by_rules:?}"));
        }
        if let Some(before) = flow {
            let mut is_done = false;
            let in_place = Outcome::of(flow, stamp, |flow, cx| {
                let state = flow.as_mut().expect("a connection");
                is_done = faulty(tracker, fault, state, &meta, headers, cx);
                Verdict::Forward
            });
            passed += usize::from(is_done);
            let events = vec![0; Conntrack::ABOUT.events.len() + 1];
            let untouched = Outcome { state: Some(before), verdict: Verdict::Forward, events };
            let expected = if is_done { &by_rules } else { &untouched };
            if in_place != *expected {
                return Err(format!("in place {number}: {in_place:?} in place of {expected:?}"));
            }
            // What passes and goes on is done in place, whatever it is.
            let goes_on = by_rules.state.is_some() && by_rules.verdict == Verdict::Forward;
            let reopens = by_rules.events[crate::conntrack::event::REOPENED] > 0;
            let is_invalid = by_rules.events[crate::conntrack::event::PASSED_INVALID] > 0
                || by_rules.events[crate::conntrack::event::PASSED_OUT_OF_WINDOW] > 0;
            if !is_done && goes_on && !reopens && !is_invalid {
                return Err(format!("in place {number}: not done, though it passes: {by_rules:?}"));
            }
        }
        flow = by_rules.state;
    }
    Ok(passed)
}

/// A step in place with a fault in it.
fn faulty(
    tracker: &Conntrack,
    fault: Fault,
    state: &mut State,
    meta: &Meta,
    headers: &Headers,
    cx: &mut nf::Cx<'_, ()>,
) -> bool {
    let before = *state;
    match fault {
        Fault::OtherSide => {
            let Headers { src, dst, src_port, dst_port, .. } = *headers;
            let turned = Headers { src: dst, dst: src, src_port: dst_port, dst_port: src_port, ..*headers };
            return tracker.in_place(state, &Meta::of(&turned).expect("TCP"), cx);
        }
        Fault::MissedEvent => {
            let (mut edits, mut pool) = (Edits::NONE, ());
            let mut events = vec![0; Conntrack::ABOUT.events.len() + 1];
            let mut cx = nf::Cx::new(cx.stamp, &mut edits, &mut pool, &mut events, 0);
            return tracker.in_place(state, meta, &mut cx);
        }
        _ => {}
    }
    let is_done = tracker.in_place(state, meta, cx);
    match fault {
        Fault::LostTransition if is_done => state.tcp = before.tcp,
        Fault::NotRenewed if is_done => state.keep_time_of(&before),
        Fault::Began if !is_done => state.count_down(now_ms(cx.stamp).wrapping_add(1)),
        _ => {}
    }
    is_done
}

/// One end of a connection, as it counts.
#[derive(Clone, Copy)]
struct End {
    seq: u32,
    scale: u8,
}

/// What happens next on a connection: who sends, what, how many bytes, how large its window is; and what goes wrong.
type Turn = (bool, u8, u16, u16, u8, u32);

/// A connection as two ends have it, with packets of which some are lost, late, sent again, or forged.
fn exchange((first_seqs, scales, turns): ([u32; 2], [u8; 2], Vec<Turn>)) -> Vec<(u64, Headers)> {
    let mut ends = [0, 1].map(|end| End { seq: first_seqs[end], scale: scales[end] });
    let mut packets = Vec::new();
    let mut send = |ends: &[End; 2], from_client: bool, letters: &str, len: u16, window: u16, wrong: u32| {
        let (sender, receiver) = (ends[usize::from(!from_client)], ends[usize::from(from_client)]);
        let (from, to) = if from_client { (CLIENT, SERVER) } else { (SERVER, CLIENT) };
        let mut headers = tcp(from, to, letters.chars().map(flag).sum());
        headers.seq = sender.seq.wrapping_add(if wrong & 1 != 0 { wrong >> 8 } else { 0 });
        headers.ack = receiver.seq.wrapping_sub(if wrong & 2 != 0 { wrong >> 8 } else { 0 });
        headers.sack = headers.ack.wrapping_add(if wrong & 4 != 0 { wrong >> 20 } else { 0 });
        headers.window = window;
        headers.l3_len += len;
        if letters.contains('S') {
            headers.tcp_shape = (5 << 4) | sender.scale;
            headers.marks.set(Marks::SACK_PERMITTED, sender.scale.is_multiple_of(2));
        }
        headers.marks.set(Marks::FIRST_FRAGMENT, wrong & 8 != 0);
        packets.push((u64::from(wrong % 1_000) * 1_000_000, headers));
    };
    send(&ends, true, "S", 0, 60_000, 0);
    ends[0].seq = ends[0].seq.wrapping_add(1);
    send(&ends, false, "SA", 0, 60_000, 0);
    ends[1].seq = ends[1].seq.wrapping_add(1);
    send(&ends, true, "A", 0, 512, 0);
    for (from_client, kind, len, window, luck, wrong) in turns {
        let sender = usize::from(!from_client);
        let letters = match kind {
            0 => "FA",
            1 => "R",
            2 => "S",
            3 => "SA",
            4 => "RA",
            _ => "PA",
        };
        // Most packets are as they should be, and most others are lost ahead of the tracker or sent again.
        match luck {
            0 => send(&ends, from_client, letters, len, window, wrong),
            1 => {}
            _ => send(&ends, from_client, letters, len, window, 0),
        }
        if luck != 2 && kind > 4 {
            ends[sender].seq = ends[sender].seq.wrapping_add(len.into());
        }
    }
    packets
}

fn exchanges() -> impl Strategy<Value = Vec<(u64, Headers)>> {
    let window = prop_oneof![1 => Just(0u16), 8 => any::<u16>()];
    let len = prop_oneof![4 => Just(0u16), 6 => 1u16..1461];
    let kind = prop_oneof![1 => 0u8..5, 20 => Just(9)];
    let turn = (any::<bool>(), kind, len, window, 0u8..20, any::<u32>());
    let seqs = prop_oneof![1 => any::<[u32; 2]>(), 1 => Just([u32::MAX - 700, (1 << 31) - 700])];
    (seqs, [0u8..16, 0u8..16], prop::collection::vec(turn, 0..80)).prop_map(exchange)
}

fn options() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "",
        "gaps = \"resync\"",
        "liberal = true",
        "invalid = \"pass\"\nout_of_window = \"pass\"",
        "pick_up = false\ngaps = \"resync\"",
        "tcp_timeout_established = 200",
        "tcp_timeout_max_retrans = 1000\ntcp_timeout_unacknowledged = 2",
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn connections_pass_in_place_as_by_the_rules(options in options(), packets in exchanges()) {
        let compared = in_place_as_by_rules(&conntrack(options), &packets, Fault::None);
        prop_assert!(compared.is_ok(), "{}", compared.unwrap_err());
    }

    #[test]
    fn any_packets_pass_in_place_as_by_the_rules(
        options in options(),
        packets in prop::collection::vec(packet(), 0..40),
    ) {
        let packets: Vec<_> = packets.into_iter().map(|(gap_ns, _, headers)| (gap_ns, headers)).collect();
        let compared = in_place_as_by_rules(&conntrack(options), &packets, Fault::None);
        prop_assert!(compared.is_ok(), "{}", compared.unwrap_err());
    }
}

/// A whole connection: handshake, data both ways, a close; then a packet that no connection has.
fn whole() -> Vec<(u64, Headers)> {
    let turn = |number: u32| (number.is_multiple_of(3), 9, 100 * (number % 2) as u16, 500, 9, 0);
    let data = (0..20).map(turn);
    let close = [(true, 0, 0, 500, 9, 0), (false, 9, 0, 500, 9, 0), (false, 0, 0, 500, 9, 0)];
    let forged = [(true, 9, 10, 500, 0, (1 << 30) | 1)];
    exchange(([7, 9], [7, 7], data.chain(forged).chain(close).collect()))
}

#[test]
fn each_fault_is_found() {
    let (tracker, packets) = (conntrack(""), whole());
    let passed = in_place_as_by_rules(&tracker, &packets, Fault::None).expect("as by the rules");
    // All but the SYN, which opens, and the one that is forged.
    assert_eq!(passed, packets.len() - 2);
    for fault in
        [Fault::OtherSide, Fault::MissedEvent, Fault::LostTransition, Fault::NotRenewed, Fault::Began]
    {
        let compared = in_place_as_by_rules(&tracker, &packets, fault);
        assert!(
            compared.as_ref().is_err_and(|error| error.starts_with("in place")),
            "{fault:?}: {compared:?}"
        );
    }
}

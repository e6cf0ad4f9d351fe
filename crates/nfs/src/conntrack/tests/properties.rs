//! Properties of the connection tracker, on random packets.

use proptest::prelude::*;
use zerocopy::IntoBytes;

use super::*;
use crate::conntrack::state::Flags;

/// Any packet between two ends, more often one that could belong.
pub(super) fn packet() -> impl Strategy<Value = (u64, bool, Headers)> {
    let number = || {
        prop_oneof![
            4 => 0u32..4,
            4 => prop::sample::select(vec![0u32, 1, 1000, 65_535, 66_000, 1 << 31, (1 << 31) - 1, u32::MAX]),
            1 => any::<u32>(),
        ]
    };
    let flags = prop_oneof![
        8 => prop::sample::select(vec!["S", "SA", "A", "PA", "FA", "R", "RA"])
            .prop_map(|letters| letters.chars().map(flag).sum::<u8>()),
        1 => any::<u8>(),
    ];
    let shape = (any::<u8>(), any::<bool>(), prop::bool::weighted(0.1));
    let sizes = (prop_oneof![0u16..4, any::<u16>()], prop_oneof![Just(0u16), 0u16..4, 0u16..65_000]);
    let gap_ns = prop_oneof![9 => 0u64..1_000_000_000, 1 => 0u64..500_000_000_000_000];
    (gap_ns, any::<bool>(), flags, (number(), number(), number()), sizes, shape).prop_map(
        |(gap_ns, from_client, flags, (seq, ack, more), (window, len), (scale, sack_permitted, fragment))| {
            let (from, to) = if from_client { (CLIENT, SERVER) } else { (SERVER, CLIENT) };
            let mut headers = tcp(from, to, flags);
            (headers.seq, headers.ack, headers.window) = (seq, ack, window);
            headers.sack = ack.wrapping_add(more % (1 << 31));
            headers.l3_len += len;
            headers.tcp_shape = (5 << 4) | (scale % 16);
            headers.marks.set(Marks::SACK_PERMITTED, sack_permitted);
            headers.marks.set(Marks::FIRST_FRAGMENT, fragment);
            (gap_ns, from_client, headers)
        },
    )
}

fn options() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["", "pick_up = false", "liberal = true", "tcp_timeout_established = 2147483"])
}

/// Verdict and state after each packet. `mirrored` exchanges both ends of each.
fn run(options: &str, packets: &[(u64, bool, Headers)], mirrored: bool) -> Vec<(Verdict, Option<State>)> {
    let mut rig = Rig::new(conntrack(options));
    let mut time_ns = 1_700_000_000_000_000_000;
    let step = |(gap_ns, from_client, headers): &(u64, bool, Headers)| {
        let (from, to) = if *from_client != mirrored { (CLIENT, SERVER) } else { (SERVER, CLIENT) };
        let headers = Headers { src: from.0, src_port: from.1, dst: to.0, dst_port: to.1, ..*headers };
        time_ns += gap_ns;
        (rig.packet(time_ns, &headers), rig.state(&headers).copied())
    };
    packets.iter().map(step).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Sequence numbers come from anybody: no arithmetic may overflow, and equal sequences of packets
    /// leave equal bytes.
    #[test]
    fn no_packets_break_it_and_it_depends_on_them_only(
        options in options(),
        packets in prop::collection::vec(packet(), 0..40),
    ) {
        let (once, again) = (run(options, &packets, false), run(options, &packets, false));
        for ((verdict, state), (verdict_again, state_again)) in once.iter().zip(&again) {
            prop_assert_eq!(verdict, verdict_again);
            prop_assert_eq!(state.as_ref().map(IntoBytes::as_bytes), state_again.as_ref().map(IntoBytes::as_bytes));
            prop_assert!(!matches!(verdict, Verdict::TransmitBack | Verdict::Host));
            if let Some(state) = state {
                prop_assert!(conntrack(options).idle_timeout_ns(state) > 0);
            }
        }
    }

    /// Which end has the lesser address decides nothing but one bit.
    #[test]
    fn both_ends_are_alike(options in options(), packets in prop::collection::vec(packet(), 0..40)) {
        let mirrored = run(options, &packets, true).into_iter().map(|(verdict, state)| {
            let turned = state.map(|mut state| {
                state.flags.toggle(Flags::ORIGINATOR_IS_LOW);
                state
            });
            (verdict, turned)
        });
        prop_assert_eq!(run(options, &packets, false), mirrored.collect::<Vec<_>>());
    }

    /// Policies decide over verdicts, never over states.
    #[test]
    fn policies_leave_states_alone(packets in prop::collection::vec(packet(), 0..40)) {
        let strict = run("", &packets, false);
        let lenient = run("invalid = \"pass\"\nout_of_window = \"pass\"", &packets, false);
        for ((_, strict), (verdict, lenient)) in strict.iter().zip(&lenient) {
            prop_assert_eq!(strict, lenient);
            prop_assert_eq!(*verdict, Verdict::Forward);
        }
    }
}

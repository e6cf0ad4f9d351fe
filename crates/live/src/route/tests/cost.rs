//! What a packet costs.
//!
//! ```sh
//! ./x bench tests
//! ```

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::lab::*;
use crate::route::Decision;
use crate::route::message::Change;
use crate::route::mirror::How;
use crate::route::snapshot::hash_of;

const FRAMES: u64 = 4_096;
const ROUNDS: usize = 200;

/// Packets to random destinations, and the time for each, ns: to forward, and to parse.
fn cost(lab: &mut Lab, to: impl Fn(u64) -> String, from: &str) -> (f64, f64) {
    let random = |index| hash_of(addr("::"), addr("::"), index);
    let mut frames: Vec<Vec<u8>> = (0..FRAMES).map(|index| udp(from, &to(random(index)), 255, 22)).collect();
    let parsed: Vec<_> = frames.iter().map(|frame| headers(frame)).collect();
    // The best round: others share the machine.
    let mut best = [Duration::MAX; 2];
    for _ in 0..ROUNDS {
        let start = Instant::now();
        for (frame, headers) in frames.iter_mut().zip(&parsed) {
            frame[..6].copy_from_slice(&station(INSIDE));
            let decision = lab.forwarder.forward(black_box(frame), headers, INSIDE);
            assert!(matches!(black_box(decision), Decision::Send { .. }), "{decision:?}");
        }
        best[0] = best[0].min(start.elapsed());
        let start = Instant::now();
        frames.iter().for_each(|frame| _ = black_box(headers(black_box(frame))));
        best[1] = best[1].min(start.elapsed());
    }
    let each = |time: Duration| time.as_secs_f64() * 1e9 / FRAMES as f64;
    (each(best[0]), each(best[1]))
}

#[test]
#[ignore = "a measurement: ./x bench tests"]
fn forward_cost() {
    for routes in [1_000_u64, 100_000, 500_000] {
        let mut lab = Lab::new();
        for index in 0..routes {
            // As long as most prefixes of the Internet are.
            let random = hash_of(addr("::1"), addr("::"), index);
            let len = 16 + random % 9;
            let bits = (20 << 24 | random >> 40 & 0x1fff_ffff) & (u64::from(u32::MAX) << (32 - len));
            let prefix = format!("{}/{len}", std::net::Ipv4Addr::from(bits as u32));
            lab.mirror.apply(Change::Route(main_route(&prefix, hop(OUTSIDE, Some("10.0.3.2")))), How::Listed);
            let bits = u128::from(random) << 64 | 0x2a << 120;
            let len = 32 + random % 17;
            let bits = bits & (u128::MAX << (128 - len));
            let prefix = format!("{}/{len}", std::net::Ipv6Addr::from(bits));
            let way = hop(OUTSIDE, Some("2001:db8:3::2"));
            lab.mirror.apply(Change::Route(main_route(&prefix, way)), How::Listed);
        }
        let start = Instant::now();
        let snapshot = Arc::new(compiled(&lab.mirror));
        let build = start.elapsed();
        lab.board.post(snapshot);
        lab.forwarder.refresh(1);
        let to_v4 =
            |random: u64| std::net::Ipv4Addr::from((20 << 24 | random as u32 & 0x1fff_ffff) | 1).to_string();
        let to_v6 = |random: u64| {
            std::net::Ipv6Addr::from(u128::from(random) << 64 & !(0xff << 120) | 0x2a << 120 | 1).to_string()
        };
        let (ipv4, parse4) = cost(&mut lab, to_v4, "10.0.2.9");
        let (ipv6, parse6) = cost(&mut lab, to_v6, "2001:db8:2::9");
        println!(
            "{routes} routes of each family: IPv4 {ipv4:.1} ns a packet (parsing {parse4:.1}), \
             IPv6 {ipv6:.1} ns (parsing {parse6:.1}); a snapshot takes {:.1} ms",
            build.as_secs_f64() * 1e3
        );
    }
}

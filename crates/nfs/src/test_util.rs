//! What the tests of several functions share.

use std::collections::BTreeMap;
use std::string::String;
use std::vec::Vec;

use nf::{Cx, NetworkFunction, Verdict};
use proptest::prelude::*;
use wire::{Addr, Edits, Headers, Marks, Stamp, protocol};
use zerocopy::IntoBytes;

/// A TCP packet from `10.0.0.src:4000` to `192.0.2.1:80`.
pub(crate) fn tcp(src: u8) -> Headers {
    Headers {
        src: Addr::v4([10, 0, 0, src]),
        dst: Addr::v4([192, 0, 2, 1]),
        src_port: 4000,
        dst_port: 80,
        l3_len: 100,
        protocol: protocol::TCP,
        marks: Marks::IPV4,
        ..Headers::default()
    }
}

/// A TCP packet between IPv6 addresses, from `2001:db8::src`.
pub(crate) fn tcp_v6(src: u8) -> Headers {
    let addr = |last| Addr([0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
    Headers { src: addr(src), dst: addr(255), marks: Marks::IPV6, ..tcp(0) }
}

/// An ICMP error from `sender` to 10.0.0.1 about its TCP packet from port 4000 to port 80 of 192.0.2.1.
pub(crate) fn icmp_error(sender: [u8; 4], from_outside: bool) -> Headers {
    let Headers { src, dst, src_port, dst_port, .. } = tcp(1);
    let sender = Addr::v4(sender);
    let from_another = if sender == dst { 0 } else { 8 };
    let side = if from_outside { Marks::FROM_OUTSIDE } else { Marks::empty() };
    Headers {
        src: sender,
        dst: src,
        src_port: dst_port,
        dst_port: src_port,
        protocol: protocol::ICMP,
        seq: 0x0304_0000,
        ack: u32::from_be_bytes(dst.last4()),
        tcp_shape: 0x20 | 4 | from_another,
        marks: Marks::IPV4 | side,
        ..Headers::default()
    }
}

/// What no function here minds: ARP, say.
pub(crate) fn not_ip() -> Headers {
    Headers::default()
}

/// Milliseconds, as nanoseconds.
pub(crate) const fn ms(ms: u64) -> u64 {
    ms * 1_000_000
}

/// A function with `options` as chain files write them.
pub(crate) fn function<F: NetworkFunction>(options: &str) -> F {
    match F::new(toml::from_str(options).expect("options that parse")) {
        Ok(function) => function,
        Err(error) => panic!("{error}"),
    }
}

/// The message of the [`OptionError`](nf::OptionError) that `options` lead to.
pub(crate) fn option_error<F: NetworkFunction>(options: &str) -> String {
    match F::new(toml::from_str(options).expect("options that parse")) {
        Ok(_) => panic!("accepted: {options}"),
        Err(error) => std::format!("{error}"),
    }
}

/// The verdicts of a core that never forgets a flow, to compare with one on which flows expire.
pub(crate) fn verdicts_without_expiry<F: NetworkFunction>(
    function: &F,
    packets: &[(u64, Headers)],
) -> Vec<Verdict> {
    let mut flows: BTreeMap<Vec<u8>, Option<F::State>> = BTreeMap::new();
    let (mut edits, mut pool) = (Edits::NONE, (F::EXTRAS.pool.make)(function));
    let mut events = std::vec![0; F::ABOUT.events.len()];
    let mut verdicts = Vec::new();
    for (seq, (time_ns, headers)) in packets.iter().enumerate() {
        let meta = F::project(headers).expect("a packet of the function");
        let flow = flows.entry(F::key(&meta).as_bytes().to_vec()).or_default();
        let stamp = Stamp { seq: seq as u64, time_ns: *time_ns };
        verdicts.push(function.step(flow, &meta, &mut Cx::new(stamp, &mut edits, &mut pool, &mut events, 0)));
    }
    verdicts
}

/// What `rejected` says of a packet that begins a flow.
pub(crate) fn verdict_when_full<F: NetworkFunction>(function: &F, headers: &Headers) -> Verdict {
    let meta = F::project(headers).expect("a packet of the function");
    let (mut edits, mut pool) = (Edits::NONE, (F::EXTRAS.pool.make)(function));
    let mut events = std::vec![0; F::ABOUT.events.len()];
    let mut cx = Cx::new(Stamp::default(), &mut edits, &mut pool, &mut events, 0);
    let mut flow = None;
    function.step(&mut flow, &meta, &mut cx);
    (F::EXTRAS.full_table.rejected)(function, &flow.expect("a packet that begins a flow"), &meta, &mut cx)
}

/// What [`SlidingCount`](crate::SlidingCount) counts, written plainly: a log of all that came.
pub(crate) struct Log {
    window_ns: u64,
    start_ns: u64,
    /// When, and how much.
    seen: Vec<(u64, u64)>,
}

impl Log {
    pub(crate) fn new(window_ns: u64) -> Log {
        Log { window_ns, start_ns: 0, seen: Vec::new() }
    }

    pub(crate) fn add(&mut self, now_ns: u64, amount: u64) {
        if self.seen.is_empty() || now_ns >= self.start_ns + 2 * self.window_ns {
            self.start_ns = now_ns;
        } else if now_ns >= self.start_ns + self.window_ns {
            self.start_ns += self.window_ns;
        }
        self.seen.push((now_ns, amount));
    }

    /// What came from `from_ns` on and before `to_ns`.
    pub(crate) fn between(&self, from_ns: u64, to_ns: u64) -> u64 {
        self.seen.iter().filter(|(at, _)| (from_ns..to_ns).contains(at)).map(|(_, amount)| amount).sum()
    }

    pub(crate) fn previous(&self) -> u64 {
        self.between(self.start_ns.saturating_sub(self.window_ns), self.start_ns)
    }

    /// How far `now_ns` is into the current window.
    pub(crate) fn elapsed_ns(&self, now_ns: u64) -> u64 {
        now_ns - self.start_ns
    }

    /// The estimate for the window that ends now, times the window.
    pub(crate) fn estimate_by_window(&self, now_ns: u64) -> u64 {
        let remaining_ns = self.window_ns - self.elapsed_ns(now_ns);
        self.between(self.start_ns, u64::MAX) * self.window_ns + self.previous() * remaining_ns
    }
}

/// Times of packets, ns: dense at times, with pauses long and short.
pub(crate) fn arrivals() -> impl Strategy<Value = Vec<u64>> {
    let gap = prop_oneof![8 => 0_u64..ms(4), 2 => ms(4)..ms(40), 1 => ms(40)..ms(400)];
    proptest::collection::vec(gap, 1..300).prop_map(|gaps| {
        let running = |now_ns: &mut u64, gap| {
            *now_ns += gap;
            Some(*now_ns)
        };
        gaps.into_iter().scan(0, running).collect()
    })
}

//! What the tests of several functions share.

use std::collections::BTreeMap;
use std::string::String;
use std::vec::Vec;

use nf::{Cx, NetworkFunction, Verdict};
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

/// The same between IPv6 addresses, from `2001:db8::src`.
pub(crate) fn tcp_v6(src: u8) -> Headers {
    let addr = |last| Addr([0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
    Headers { src: addr(src), dst: addr(255), marks: Marks::IPV6, ..tcp(0) }
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
    let (mut edits, mut pool) = (Edits::NONE, function.pool());
    let mut events = std::vec![0; F::EVENTS.len()];
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
    let (mut edits, mut pool) = (Edits::NONE, function.pool());
    let mut events = std::vec![0; F::EVENTS.len()];
    let mut cx = Cx::new(Stamp::default(), &mut edits, &mut pool, &mut events, 0);
    let mut flow = None;
    function.step(&mut flow, &meta, &mut cx);
    function.rejected(&flow.expect("a packet that begins a flow"), &meta, &mut cx)
}

//! The packets of a trace that no hash of a chain can spread: see [`TopKey`].

use std::collections::HashMap;

use engine::{Chain, Plan};
use io::Trace;
use wire::{Fields, Headers};

use crate::TopKey;
use crate::trial::share;

/// The heaviest value of the fields that `plan` hashes. `None` where it hashes none, and for chains that stand between two
/// sides, whose packets are hashed by other fields on the way back. Memory grows with the number of such values.
pub(crate) fn top_key(chain: &Chain, plan: &Plan, trace: &Trace) -> Option<TopKey> {
    let fields = plan.hash_fields.filter(|_| chain.shapes().iter().all(|shape| !shape.has_sides))?;
    let is_symmetric = fields.fields() == fields.fields().mirrored();
    let input = |headers: &Headers| {
        let mut input = [0; 36];
        let len = fields.input(headers, &mut input);
        (input, len)
    };
    let mut packets: HashMap<([u8; 36], usize), u64> = HashMap::new();
    for index in 0..trace.len() {
        let record = trace.packet(index);
        let headers = wire::parse(record.link, record.data, record.wire_len);
        if !headers.is_ip() || !headers.is_well_formed() {
            continue;
        }
        let there = input(&headers);
        // The hash of both directions is the same (`strategy::SYMMETRIC_KEY`).
        let key = if is_symmetric { there.min(input(&mirrored(&headers))) } else { there };
        *packets.entry(key).or_default() += 1;
    }
    let most = packets.into_values().max()?;
    let what = name(fields.fields()).to_owned();
    Some(TopKey { what, share: share(most, trace.len() as u64) })
}

/// The header of an answer, as far as it is hashed.
fn mirrored(headers: &Headers) -> Headers {
    let Headers { src, dst, src_port, dst_port, .. } = *headers;
    Headers { src: dst, dst: src, src_port: dst_port, dst_port: src_port, ..*headers }
}

/// What packets have in common that agree in these fields.
fn name(fields: Fields) -> &'static str {
    let hashed = fields & (Fields::ADDRS | Fields::PORTS);
    match () {
        () if hashed == Fields::ADDRS | Fields::PORTS => "connection",
        () if hashed == Fields::ADDRS => "pair of addresses",
        () if hashed == Fields::SRC_ADDR => "source address",
        () if hashed == Fields::DST_ADDR => "destination address",
        () if hashed == Fields::SRC_ADDR | Fields::SRC_PORT => "source address and port",
        () if hashed == Fields::DST_ADDR | Fields::DST_PORT => "destination address and port",
        () => "value of the hashed fields",
    }
}

#[cfg(test)]
mod tests {
    use engine::strategies::RSS;
    use io::capture::Record;
    use traffic::Model;
    use wire::LinkType;

    use super::*;

    fn top(function: &str, model: &str) -> TopKey {
        let mut trace = Trace::default();
        Model::parse(model).expect("a model").generate(|time_ns, data| {
            trace.push(&Record { time_ns, wire_len: data.len() as u32, link: LinkType::Ethernet, data });
        });
        let text = format!("[[function]]\nuse = \"{function}\"\nflows = 1024\n");
        let chain = Chain::parse("test.toml", &text, &stock::registry()).expect("a chain");
        let plan = Plan::new(&chain, RSS, 1).expect("a plan");
        top_key(&chain, &plan, &trace).expect("a hash")
    }

    /// A connection in both directions: as flows each has half of the packets, and no hash tells them apart.
    #[test]
    fn both_directions_are_one() {
        let both = top("conntrack", "single-flow:packets=1000");
        assert_eq!((both.what.as_str(), both.share), ("connection", 1.0));
        // The symmetric hash does not tell directions apart for a function either that would.
        assert_eq!(top("flow-statistics", "single-flow:packets=1000").share, 1.0);
    }

    #[test]
    fn a_key_is_what_the_chain_has() {
        let source = top("ddos", "single-flow:packets=1000");
        assert_eq!(source.what, "source address");
        assert!((0.3..0.7).contains(&source.share), "each end sends its own: {}", source.share);
        let elephant = top("heavy-hitters", "elephant:packets=20000,flows=500,share=0.5");
        assert!((0.48..0.52).contains(&elephant.share), "{}", elephant.share);
    }
}

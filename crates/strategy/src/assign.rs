use wire::Headers;

use crate::{HashFields, SYMMETRIC_KEY, Toeplitz};

/// Entries of the indirection table: what common cards have.
pub const INDIRECTION_ENTRIES: usize = 128;

/// Which core gets a packet.
pub trait Assign: Send {
    /// The core's number, below the number of cores. Called for each packet in arrival order.
    fn core(&mut self, headers: &Headers) -> usize;

    /// Whether `core` looks at the headers; if not, the port need not parse.
    fn reads_headers(&self) -> bool {
        true
    }
}

/// All packets to core 0.
#[derive(Clone, Copy, Debug, Default)]
pub struct Single;

impl Assign for Single {
    fn core(&mut self, _: &Headers) -> usize {
        0
    }

    fn reads_headers(&self) -> bool {
        false
    }
}

/// Receive-side scaling: Toeplitz hash with the symmetric key, then the indirection table.
#[derive(Clone)]
pub struct Rss {
    toeplitz: Toeplitz,
    fields: HashFields,
    indirection: [u16; INDIRECTION_ENTRIES],
}

impl Rss {
    /// Spreads the entries of the indirection table evenly, as drivers do by default.
    ///
    /// # Panics
    /// If `cores` is 0 or above [`INDIRECTION_ENTRIES`].
    pub fn new(fields: HashFields, cores: usize) -> Rss {
        assert!((1..=INDIRECTION_ENTRIES).contains(&cores), "{cores} cores");
        Rss {
            toeplitz: Toeplitz::new(&SYMMETRIC_KEY),
            fields,
            indirection: core::array::from_fn(|entry| (entry % cores) as u16),
        }
    }
}

impl Assign for Rss {
    /// Packets that are not IP have no address and all go where the hash of zeros points.
    #[inline]
    fn core(&mut self, headers: &Headers) -> usize {
        let mut input = [0; 36];
        let len = self.fields.input(headers, &mut input);
        let hash = self.toeplitz.hash(&input[..len]);
        usize::from(self.indirection[hash as usize % INDIRECTION_ENTRIES])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nf::{Connection, FiveTuple, FlowKey, SrcAddr};
    use proptest::prelude::*;
    use wire::{Addr, Marks};

    use crate::FunctionShape;

    fn headers() -> impl proptest::strategy::Strategy<Value = Headers> {
        // Both of one family, as in any packet that is well-formed.
        let v4 = || any::<[u8; 4]>().prop_map(Addr::v4);
        let v6 = || any::<[u8; 16]>().prop_map(Addr);
        let addrs = prop_oneof![
            (v4(), v4(), Just(Marks::IPV4)),
            (v6(), v6(), Just(Marks::IPV6))
                .prop_filter("mapped", |(src, dst, _)| { src.to_v4().is_none() && dst.to_v4().is_none() }),
        ];
        (addrs, any::<u16>(), any::<u16>(), any::<u8>()).prop_map(
            |((src, dst, marks), src_port, dst_port, protocol)| Headers {
                src,
                dst,
                src_port,
                dst_port,
                protocol,
                marks,
                ..Headers::default()
            },
        )
    }

    fn rss<K: FlowKey>(cores: usize) -> Rss {
        let shape = FunctionShape {
            name: "f",
            sharding: K::SHARDING,
            edits: wire::Fields::empty(),
            has_sides: false,
        };
        Rss::new(HashFields::derive(&[shape]).unwrap(), cores)
    }

    proptest! {
        /// The promise that sharding rests on: one key, one core.
        #[test]
        fn packets_of_one_key_meet_on_one_core(a in headers(), b in headers(), cores in 1..9usize) {
            let back = Headers { src: a.dst, dst: a.src, src_port: a.dst_port, dst_port: a.src_port, ..a };
            prop_assert_eq!(Connection::of(&a), Connection::of(&back));
            let mut by_connection = rss::<Connection>(cores);
            prop_assert_eq!(by_connection.core(&a), by_connection.core(&back));

            let same_source = Headers { src: a.src, dst: a.src, src_port: b.src_port, ..a };
            let mut by_source = rss::<SrcAddr>(cores);
            prop_assert_eq!(by_source.core(&a), by_source.core(&same_source));

            let same_tuple = Headers { ttl: 9, seq: 7, l3_len: 900, ..a };
            let mut by_tuple = rss::<FiveTuple>(cores);
            prop_assert_eq!(by_tuple.core(&a), by_tuple.core(&same_tuple));
            prop_assert!(by_tuple.core(&b) < cores);
        }
    }

    #[test]
    fn flows_spread_over_all_cores() {
        let mut rss = rss::<FiveTuple>(8);
        let mut packets = [0; 8];
        for port in 0..8_000u16 {
            let src = Addr::v4([10, 0, (port >> 8) as u8, port as u8]);
            let headers = Headers {
                src,
                src_port: port.wrapping_mul(40_503),
                marks: Marks::IPV4,
                ..Headers::default()
            };
            packets[rss.core(&headers)] += 1;
        }
        assert!(packets.iter().all(|count| (500..1_500).contains(count)), "{packets:?}");
    }
}

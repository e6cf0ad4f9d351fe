//! How packets are assigned to cores: the contract, and RSS.

use wire::{Headers, Stamp};

use crate::{HashFields, Toeplitz};

/// Entries of the indirection table, where nothing else is said: what common cards have.
pub const INDIRECTION_ENTRIES: usize = 128;

/// How many entries cards' tables have.
pub const INDIRECTION_SIZES: [usize; 2] = [INDIRECTION_ENTRIES, 512];

/// Which core gets a packet, in the two steps of a card: its hash points to an entry of the indirection table,
/// and the entry names a core.
pub trait Assign: Send {
    /// The entry that a packet's hash points to: the same for all packets of a key. 0 where nothing is hashed.
    fn entry(&self, headers: &Headers) -> u16;

    /// The number of the core that gets the next packet, below the number of cores. Called for each packet, in
    /// order of arrival.
    fn core(&mut self, entry: u16) -> usize;

    /// Whether `entry` looks at the headers; if not, the port need not parse.
    fn reads_headers(&self) -> bool {
        true
    }

    /// Entries that go to other cores from the packet with this stamp on. Called for each packet, ahead of
    /// [`Assign::core`]; most strategies have none.
    #[inline]
    fn moves(&mut self, _stamp: Stamp) -> &[Move] {
        &[]
    }
}

/// An entry of the indirection table goes from one core to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// Which entry.
    pub entry: u16,
    /// The core that had it.
    pub from: u16,
    /// The core that has it now.
    pub to: u16,
}

/// All packets to core 0.
#[derive(Clone, Copy, Debug, Default)]
pub struct Single;

impl Assign for Single {
    fn entry(&self, _: &Headers) -> u16 {
        0
    }

    fn core(&mut self, _: u16) -> usize {
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
    indirection: Box<[u16]>,
}

impl Rss {
    /// Spreads the entries of the indirection table evenly, as drivers do by default.
    ///
    /// # Panics
    /// If `entries` is not one of [`INDIRECTION_SIZES`], or `cores` is 0 or above it.
    pub fn new(fields: HashFields, cores: usize, entries: usize) -> Rss {
        assert!(INDIRECTION_SIZES.contains(&entries), "{entries} entries");
        assert!((1..=entries).contains(&cores), "{cores} cores");
        Rss::through(fields, (0..entries).map(|entry| (entry % cores) as u16).collect())
    }

    /// With an indirection table of any size, which says the core of each entry.
    ///
    /// # Panics
    /// If the number of entries is not a power of two.
    pub fn through(fields: HashFields, indirection: Vec<u16>) -> Rss {
        assert!(indirection.len().is_power_of_two(), "{} entries", indirection.len());
        Rss { toeplitz: Toeplitz::symmetric(), fields, indirection: indirection.into() }
    }

    /// The core of each entry.
    pub fn indirection(&self) -> &[u16] {
        &self.indirection
    }

    /// The core of each entry, to be changed.
    pub fn indirection_mut(&mut self) -> &mut [u16] {
        &mut self.indirection
    }
}

impl Assign for Rss {
    /// Packets that are not IP have no address and all go where the hash of zeros points.
    #[inline]
    fn entry(&self, headers: &Headers) -> u16 {
        let mut input = [0; 36];
        let len = self.fields.input(headers, &mut input);
        // The lowest bits, as cards take them: sizes are powers of two.
        (self.toeplitz.hash(&input[..len]) as usize & (self.indirection.len() - 1)) as u16
    }

    #[inline]
    fn core(&mut self, entry: u16) -> usize {
        usize::from(self.indirection[usize::from(entry)])
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
        Rss::new(HashFields::derive(&[shape]).unwrap(), cores, INDIRECTION_ENTRIES)
    }

    fn core(rss: &mut Rss, headers: &Headers) -> usize {
        rss.core(rss.entry(headers))
    }

    proptest! {
        /// The promise that sharding rests on: one key, one core.
        #[test]
        fn packets_of_one_key_meet_on_one_core(a in headers(), b in headers(), cores in 1..9usize) {
            let back = Headers { src: a.dst, dst: a.src, src_port: a.dst_port, dst_port: a.src_port, ..a };
            prop_assert_eq!(Connection::of(&a), Connection::of(&back));
            let mut by_connection = rss::<Connection>(cores);
            prop_assert_eq!(core(&mut by_connection, &a), core(&mut by_connection, &back));

            let same_source = Headers { src: a.src, dst: a.src, src_port: b.src_port, ..a };
            let mut by_source = rss::<SrcAddr>(cores);
            prop_assert_eq!(core(&mut by_source, &a), core(&mut by_source, &same_source));

            let same_tuple = Headers { ttl: 9, seq: 7, l3_len: 900, ..a };
            let mut by_tuple = rss::<FiveTuple>(cores);
            prop_assert_eq!(core(&mut by_tuple, &a), core(&mut by_tuple, &same_tuple));
            prop_assert!(core(&mut by_tuple, &b) < cores);
        }
    }

    #[test]
    fn one_core_gets_all_unread_and_a_hash_reads_headers() {
        let (headers, stamp) = (Headers::default(), Stamp::default());
        let entry = Single.entry(&headers);
        assert_eq!((entry, Single.core(entry), Single.reads_headers()), (0, 0, false));
        let mut rss = rss::<FiveTuple>(2);
        assert!(rss.reads_headers());
        assert_eq!((Single.moves(stamp), rss.moves(stamp)), (&[][..], &[][..]));
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
            packets[core(&mut rss, &headers)] += 1;
        }
        assert!(packets.iter().all(|count| (500..1_500).contains(count)), "{packets:?}");
    }
}

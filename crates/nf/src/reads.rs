//! Checks by trial that a function reads the header fields that it declares, and no others.

use core::fmt;

use alloc::vec::Vec;

use wire::{Fields, Headers};
use zerocopy::{FromBytes, IntoBytes};

use crate::{FlowKey, NetworkFunction, hash_bytes};

/// Holds [`NetworkFunction::READS`] to what [`NetworkFunction::project`] reads, by trial on `samples`:
/// [`sample_headers`](crate::sample_headers) has some. Malformed ones count for nothing.
///
/// No field but those declared may be among [`fields_read`], nor make a difference together with others, and
/// every declared one must be. 4,000 samples are enough for the stock functions; one that minds something rare
/// needs samples of its own, or the check says that its fields are not read.
///
/// # Errors
/// [`ReadsError`] names the fields.
pub fn check_reads<F: NetworkFunction>(samples: &[Headers]) -> Result<(), ReadsError> {
    const { assert_reads_key::<F>() };
    let read = fields_read::<F>(samples);
    let declared = F::READS | Fields::MALFORMED;
    if !declared.contains(read) {
        return Err(ReadsError::Undeclared { fields: read - declared });
    }
    for (headers, others) in trials(samples) {
        if F::project(headers).is_some_and(|meta| F::key(&meta) != F::Key::of(headers)) {
            return Err(ReadsError::Key { headers: *headers });
        }
        let differs = |rest: &Headers| !is_alike::<F>(headers, &with(declared, headers, rest));
        if others.iter().any(differs) {
            return Err(ReadsError::Undeclared { fields: declared.complement() });
        }
    }
    let not_read = F::READS - read;
    if not_read.is_empty() { Ok(()) } else { Err(ReadsError::NotRead { fields: not_read }) }
}

/// The header fields of which each, changed alone, changes the meta or the key of one of `samples`, or whether
/// there is one: changed to 0, to what another sample has, and to anything.
pub fn fields_read<F: NetworkFunction>(samples: &[Headers]) -> Fields {
    let mut read = Fields::empty();
    for (headers, others) in trials(samples) {
        for field in Fields::all() - read - Fields::MALFORMED {
            let differs = |other: &Headers| !is_alike::<F>(headers, &with(field, other, headers));
            read.set(field, others.iter().any(differs));
        }
    }
    read
}

/// Well-formed samples, each with headers to take other values from.
fn trials(samples: &[Headers]) -> impl Iterator<Item = (&Headers, [Headers; 3])> {
    let samples: Vec<&Headers> = samples.iter().filter(|headers| headers.is_well_formed()).collect();
    (0..samples.len()).map(move |index| {
        let another = *samples[(index * 31 + 1) % samples.len()];
        (samples[index], [Headers::default(), another, anything(index as u64)])
    })
}

/// Why [`NetworkFunction::READS`] is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadsError {
    /// These are read and not declared: replicas that do not have them would differ.
    Undeclared {
        /// Those that make a difference alone; if none does, all that are not declared.
        fields: Fields,
    },
    /// These are declared, and no sample shows that they are read: history would carry them for nothing.
    NotRead {
        /// Which.
        fields: Fields,
    },
    /// The key that [`NetworkFunction::key`] gives is not that of the headers.
    Key {
        /// A packet of which this is so.
        headers: Headers,
    },
}

impl fmt::Display for ReadsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |fields: &Fields| fields.names().collect::<Vec<_>>().join(", ");
        match self {
            ReadsError::Undeclared { fields } => {
                write!(f, "read but not declared in READS: {}", names(fields))
            }
            ReadsError::NotRead { fields } => write!(f, "declared in READS but not read: {}", names(fields)),
            ReadsError::Key { headers } => write!(f, "`key` is not the key of {headers:?}"),
        }
    }
}

impl core::error::Error for ReadsError {}

/// For `const` blocks where functions are made use of: fails to compile where
/// [`NetworkFunction::READS`] lacks fields that the key is made of.
pub const fn assert_reads_key<F: NetworkFunction>() {
    let sharding = F::Key::SHARDING;
    assert!(F::READS.contains(sharding.fields), "READS lacks fields that the key is made of");
    assert!(
        !sharding.symmetric || F::READS.contains(sharding.fields.mirrored()),
        "READS lacks fields that the key of the other direction is made of"
    );
}

/// `fields` from one, all else from the other.
fn with(fields: Fields, from: &Headers, rest: &Headers) -> Headers {
    let mut headers = *rest;
    headers.copy_fields(fields, from);
    headers
}

fn is_alike<F: NetworkFunction>(a: &Headers, b: &Headers) -> bool {
    match (F::project(a), F::project(b)) {
        (None, None) => true,
        (Some(one), Some(other)) => {
            one.as_bytes() == other.as_bytes()
                && F::key(&one) == F::key(&other)
                && F::Key::of(a) == F::Key::of(b)
        }
        _ => false,
    }
}

/// Bytes that no packet need have.
fn anything(index: u64) -> Headers {
    let words: [u64; 8] = core::array::from_fn(|word| hash_bytes([index, word as u64].as_bytes(), 0));
    Headers::read_from_bytes(words.as_bytes()).expect("any 64 bytes are headers")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{About, Connection, Cx, OptionError, Sharding, SrcAddr, Verdict, sample_headers};
    use alloc::string::ToString;
    use core::marker::PhantomData;
    use wire::Addr;

    /// Declares what it is told to, and reads the source address, the TTL of TCP segments that carry
    /// something, and whether a packet is IP.
    struct Reader<const READS: u32, K = SrcAddr>(PhantomData<fn() -> K>);

    #[derive(Clone, Copy, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::TryFromBytes)]
    #[repr(C)]
    struct Meta {
        src: Addr,
        ttl: u8,
    }

    impl<const READS: u32, K: FlowKey + TestKey> NetworkFunction for Reader<READS, K> {
        const ABOUT: About = About { name: "reader", ..About::NONE };
        const READS: Fields = Fields::from_bits_retain(READS);
        type Key = K;
        type Meta = Meta;
        type State = u64;
        type Pool = ();
        type Options = u64;

        fn new(_: u64) -> Result<Self, OptionError> {
            Ok(Reader(PhantomData))
        }

        fn project(headers: &Headers) -> Option<Meta> {
            let ttl = if headers.protocol == 6 { headers.ttl } else { 0 };
            headers.is_ip().then_some(Meta { src: headers.src, ttl })
        }

        fn key(meta: &Meta) -> K {
            K::from_src(meta.src)
        }

        fn step(&self, _: &mut Option<u64>, _: &Meta, _: &mut Cx<'_, ()>) -> Verdict {
            Verdict::Forward
        }

        fn idle_timeout_ns(&self, _: &u64) -> u64 {
            1
        }
    }

    trait TestKey {
        fn from_src(src: Addr) -> Self;
    }

    impl TestKey for SrcAddr {
        fn from_src(src: Addr) -> Self {
            SrcAddr(src)
        }
    }

    impl TestKey for Connection {
        fn from_src(src: Addr) -> Self {
            Connection::of(&Headers { src, ..Headers::default() })
        }
    }

    const RIGHT: Fields = Fields::SRC_ADDR.union(Fields::TTL).union(Fields::PROTOCOL).union(Fields::MARKS);
    const RIGHT_BITS: u32 = RIGHT.bits();
    const WITHOUT_TTL: u32 = RIGHT.difference(Fields::TTL).bits();
    const WITHOUT_MARKS: u32 = RIGHT.difference(Fields::MARKS).bits();
    const WITHOUT_PROTOCOL: u32 = RIGHT.difference(Fields::PROTOCOL).bits();
    const TOO_WIDE: u32 = RIGHT.union(Fields::WINDOW).union(Fields::SRC_MAC).bits();
    const ALL: u32 = Fields::all().bits();

    fn check<F: NetworkFunction>() -> Result<(), ReadsError> {
        check_reads::<F>(&sample_headers(3).take(1_000).collect::<Vec<_>>())
    }

    fn undeclared<F: NetworkFunction>() -> Fields {
        match check::<F>() {
            Err(ReadsError::Undeclared { fields }) => fields,
            other => panic!("{other:?}"),
        }
    }

    /// Is the same for both directions; of what either sends, one field.
    #[derive(
        Clone,
        Copy,
        Debug,
        PartialEq,
        Eq,
        zerocopy::FromBytes,
        zerocopy::IntoBytes,
        zerocopy::Immutable,
        zerocopy::KnownLayout,
    )]
    #[repr(transparent)]
    struct EitherPort(u16);

    impl fmt::Display for EitherPort {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            Ok(())
        }
    }

    impl FlowKey for EitherPort {
        const SHARDING: Sharding = Sharding { fields: Fields::SRC_PORT, symmetric: true };

        fn of(headers: &Headers) -> EitherPort {
            EitherPort(headers.src_port.max(headers.dst_port))
        }
    }

    impl TestKey for EitherPort {
        fn from_src(_: Addr) -> Self {
            EitherPort(0)
        }
    }

    #[test]
    #[should_panic(expected = "READS lacks fields that the key is made of")]
    fn a_key_of_fields_that_are_not_declared_is_refused() {
        assert_reads_key::<Reader<RIGHT_BITS, Connection>>();
    }

    #[test]
    #[should_panic(expected = "READS lacks fields that the key of the other direction is made of")]
    fn so_is_one_of_both_directions_of_which_one_is_declared() {
        assert_reads_key::<Reader<{ Fields::PORTS.bits() }, EitherPort>>();
        assert_reads_key::<Reader<{ Fields::SRC_PORT.bits() }, EitherPort>>();
    }

    #[test]
    fn what_is_read_and_declared_is_right() {
        assert_eq!(check::<Reader<RIGHT_BITS>>(), Ok(()));
    }

    #[test]
    fn a_field_that_is_read_and_not_declared_is_caught() {
        assert_eq!(undeclared::<Reader<WITHOUT_TTL>>(), Fields::TTL);
        assert_eq!(undeclared::<Reader<WITHOUT_MARKS>>(), Fields::MARKS);
        assert_eq!(undeclared::<Reader<WITHOUT_PROTOCOL>>(), Fields::PROTOCOL);
    }

    /// Two fields of which either is enough: to change one makes no difference.
    struct Either;

    impl NetworkFunction for Either {
        const ABOUT: About = About { name: "either", ..About::NONE };
        const READS: Fields = Fields::SRC_ADDR;
        type Key = SrcAddr;
        type Meta = SrcAddr;
        type State = u64;
        type Pool = ();
        type Options = u64;

        fn new(_: u64) -> Result<Self, OptionError> {
            Ok(Either)
        }

        fn project(headers: &Headers) -> Option<SrcAddr> {
            (headers.is_ip() || headers.ttl > 0).then(|| SrcAddr::of(headers))
        }

        fn key(meta: &SrcAddr) -> SrcAddr {
            *meta
        }

        fn step(&self, _: &mut Option<u64>, _: &SrcAddr, _: &mut Cx<'_, ()>) -> Verdict {
            Verdict::Forward
        }

        fn idle_timeout_ns(&self, _: &u64) -> u64 {
            1
        }
    }

    #[test]
    fn fields_that_make_a_difference_only_together_are_caught() {
        let ip: Vec<Headers> =
            sample_headers(3).filter(|headers| headers.is_ip() && headers.ttl > 0).take(500).collect();
        assert_eq!(fields_read::<Either>(&ip), Fields::SRC_ADDR);
        let error = check_reads::<Either>(&ip).unwrap_err();
        assert_eq!(
            error,
            ReadsError::Undeclared { fields: (Fields::SRC_ADDR | Fields::MALFORMED).complement() }
        );
    }

    #[test]
    fn a_field_that_is_declared_and_not_read_is_caught() {
        let error = check::<Reader<TOO_WIDE>>().unwrap_err();
        assert_eq!(error, ReadsError::NotRead { fields: Fields::WINDOW | Fields::SRC_MAC });
        assert_eq!(error.to_string(), "declared in READS but not read: source MAC, window");
        let error = check::<Reader<ALL>>().unwrap_err();
        assert_eq!(error, ReadsError::NotRead { fields: RIGHT.complement() });
    }

    #[test]
    fn a_meta_that_does_not_hold_the_key_is_caught() {
        assert!(matches!(check::<Reader<ALL, Connection>>(), Err(ReadsError::Key { .. })));
    }

    /// Samples that are alike, with fields that are 0: other values are tried all the same.
    #[test]
    fn what_no_sample_has_is_tried_too() {
        let alike = [Headers { marks: wire::Marks::IPV4, protocol: 6, ..Headers::default() }; 2];
        assert_eq!(fields_read::<Reader<RIGHT_BITS>>(&alike), RIGHT - Fields::PROTOCOL);
    }

    #[test]
    fn malformed_packets_come_to_nobody() {
        let malformed: Vec<Headers> =
            sample_headers(3).filter(|headers| !headers.is_well_formed()).take(50).collect();
        let error = check_reads::<Reader<RIGHT_BITS>>(&malformed).unwrap_err();
        assert_eq!(error, ReadsError::NotRead { fields: RIGHT }, "none is a sample");
    }
}

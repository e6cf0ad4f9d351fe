//! What a port may hash, found without any rule: all pairs of packets are tried, with all that functions before may have
//! written into them. Where two packets can have one key, their hashes have to be one.

use nf::{AddrPair, Connection, DstAddr, FiveTuple, FlowKey, SrcAddr, SrcEndpoint, Stateless};
use proptest::prelude::*;
use wire::Fields;

use super::{FunctionShape, HashFields};

/// What packets are told apart by, each beside its mirror.
const FIELDS: [Fields; 4] = [Fields::SRC_ADDR, Fields::DST_ADDR, Fields::SRC_PORT, Fields::DST_PORT];

/// A packet. Behind a function with two sides those from outside are given as the hosts inside get them: that function sends
/// them to the core of their host, whatever address and port it was known by outside.
#[derive(Clone, Copy, Debug)]
struct Packet {
    is_from_outside: bool,
    values: [u8; 4],
}

fn mirror(field: usize) -> usize {
    field ^ 1
}

/// Two values of each field. With sides the hosts of one are not those of the other.
fn packets(both_ways: bool, has_sides: bool) -> Vec<Packet> {
    let directions: &[bool] = if both_ways { &[false, true] } else { &[false] };
    let mut packets = Vec::new();
    for is_from_outside in directions.iter().copied() {
        for bits in 0..16u8 {
            let mut values = [0, 1, 2, 3].map(|field| bits >> field & 1);
            if both_ways && has_sides {
                values[usize::from(!is_from_outside)] += 2;
            }
            packets.push(Packet { is_from_outside, values });
        }
    }
    packets
}

/// Fields that may have any value when the packet comes to function `index`, whatever it arrived with.
fn written(functions: &[FunctionShape<'_>], index: usize, packet: Packet, both_ways: bool) -> Fields {
    let meets = |other: usize| if packet.is_from_outside { other > index } else { other < index };
    let writes = |other: usize| match functions[other].has_sides && both_ways {
        // Inside of it both directions have the hosts' own ends; outside of it both have others.
        true => other < index,
        false => meets(other),
    };
    let all = (0..functions.len()).filter(|other| *other != index && writes(*other));
    all.fold(Fields::empty(), |fields, other| fields | functions[other].edits)
}

fn can_share_a_key(
    functions: &[FunctionShape<'_>],
    index: usize,
    [a, b]: [Packet; 2],
    both_ways: bool,
) -> bool {
    let shape = &functions[index];
    let of = |packet: Packet| {
        let written = written(functions, index, packet, both_ways);
        // What a function between two sides has its state by is the destination of packets from outside.
        let is_turned = shape.has_sides && packet.is_from_outside;
        [0, 1, 2, 3].map(|field| {
            let field = if is_turned { mirror(field) } else { field };
            (!written.contains(FIELDS[field])).then_some(packet.values[field])
        })
    };
    let (a, b) = (of(a), of(b));
    let keyed = || (0..4).filter(|field| shape.sharding.fields.contains(FIELDS[*field]));
    let can_equal = |a: Option<u8>, b: Option<u8>| a.zip(b).is_none_or(|(a, b)| a == b);
    keyed().all(|field| can_equal(a[field], b[field]))
        || shape.sharding.symmetric && keyed().all(|field| can_equal(a[field], b[mirror(field)]))
}

/// Exchanging two addresses, or two ports, leaves the hash as it is. With sides, packets from outside are hashed mirrored.
fn have_one_hash(hashed: Fields, [a, b]: [Packet; 2], has_sides: bool) -> bool {
    let of = |packet: Packet, first: usize| {
        let is_turned = has_sides && packet.is_from_outside;
        let mut pair = [first, mirror(first)].map(|field| {
            let from = if is_turned { mirror(field) } else { field };
            hashed.contains(FIELDS[field]).then_some(packet.values[from])
        });
        if pair.iter().all(Option::is_some) {
            pair.sort_unstable();
        }
        pair
    };
    [0, 2].iter().all(|first| of(a, *first) == of(b, *first))
}

fn is_sound(functions: &[FunctionShape<'_>], hashed: Fields, both_ways: bool) -> bool {
    let has_sides = both_ways && functions.iter().any(|shape| shape.has_sides);
    let packets = packets(both_ways, has_sides);
    let stateful = |index: &usize| !functions[*index].sharding.is_stateless();
    (0..functions.len()).filter(stateful).all(|index| {
        let pairs = packets.iter().flat_map(|a| packets.iter().map(|b| [*a, *b]));
        pairs.into_iter().all(|pair| {
            have_one_hash(hashed, pair, has_sides) || !can_share_a_key(functions, index, pair, both_ways)
        })
    })
}

/// All that may be hashed, with an address.
fn sound(functions: &[FunctionShape<'_>], both_ways: bool) -> Vec<Fields> {
    let some = |bits: u8| {
        let fields = (0..4).filter(|field| bits >> field & 1 == 1);
        fields.fold(Fields::empty(), |all, field| all | FIELDS[field])
    };
    let all = (0..16).map(some).filter(|fields| fields.intersects(Fields::ADDRS));
    all.filter(|fields| is_sound(functions, *fields, both_ways)).collect()
}

/// What is derived may be hashed, and nothing that may be is missing. Beside a function with two sides something may be:
/// what another edits counts in both directions there, also where packets of one never meet that edit.
fn agrees(functions: &[FunctionShape<'_>], both_ways: bool) -> Result<Option<Fields>, String> {
    let derived = match both_ways {
        false => HashFields::derive(functions),
        true => HashFields::derive_both_ways(functions),
    };
    let derived = derived.ok().map(HashFields::fields);
    let sound = sound(functions, both_ways);
    let may_be_narrow = both_ways && functions.iter().any(|shape| shape.has_sides);
    let is_sound = derived.is_none_or(|derived| sound.contains(&derived));
    let is_widest = sound.iter().all(|fields| derived.is_some_and(|derived| derived.contains(*fields)));
    match is_sound && (is_widest || may_be_narrow) {
        true => Ok(derived),
        false => Err(format!("{functions:?}, both ways: {both_ways}: {derived:?} is derived, of {sound:?}")),
    }
}

const EDITS: [Fields; 5] = [
    Fields::empty(),
    Fields::DST_ADDR,
    Fields::SRC_ADDR.union(Fields::SRC_PORT),
    Fields::DST_ADDR.union(Fields::DST_PORT),
    Fields::ADDRS.union(Fields::SRC_PORT).union(Fields::DST_PORT),
];

fn shapes() -> Vec<FunctionShape<'static>> {
    let shardings = [
        FiveTuple::SHARDING,
        Connection::SHARDING,
        SrcAddr::SHARDING,
        DstAddr::SHARDING,
        AddrPair::SHARDING,
        SrcEndpoint::SHARDING,
        Stateless::SHARDING,
    ];
    let shape = |sharding, edits| FunctionShape { name: "f", sharding, edits, has_sides: false };
    shardings.into_iter().flat_map(|sharding| EDITS.map(|edits| shape(sharding, edits))).collect()
}

const NAT: FunctionShape<'static> =
    FunctionShape { name: "nat", sharding: SrcEndpoint::SHARDING, edits: EDITS[4], has_sides: true };

#[test]
fn for_one_function_and_two_what_is_derived_is_all_that_may_be_hashed() {
    let shapes = shapes();
    let mut hashed = [0; 2];
    for first in &shapes {
        for second in &shapes {
            for both_ways in [false, true] {
                for chain in [&[*first][..], &[*first, *second]] {
                    let derived = agrees(chain, both_ways).unwrap_or_else(|differs| panic!("{differs}"));
                    hashed[usize::from(derived.is_some())] += 1;
                }
            }
        }
    }
    assert!(hashed.iter().all(|chains| *chains > 500), "{hashed:?}");
}

#[test]
fn beside_a_nat_what_is_derived_may_be_hashed() {
    let mut hashed = [0; 2];
    for other in shapes() {
        // A balancer, which rewrites destinations.
        let balancer = FunctionShape { sharding: Connection::SHARDING, edits: EDITS[3], ..other };
        for chain in [&[NAT, other][..], &[other, NAT], &[other, balancer, NAT], &[balancer, NAT, other]] {
            let derived = agrees(chain, true).unwrap_or_else(|differs| panic!("{differs}"));
            hashed[usize::from(derived.is_some())] += 1;
        }
    }
    assert!(hashed.iter().all(|chains| *chains >= 5), "{hashed:?}");
}

proptest! {
    #[test]
    fn in_longer_chains_what_is_derived_may_be_hashed(
        functions in prop::collection::vec(prop::sample::select(shapes()), 2..4),
        nat in prop::option::of(0..3usize),
        both_ways: bool,
    ) {
        let mut functions = functions;
        if let Some(at) = nat {
            functions.insert(at.min(functions.len()), NAT);
        }
        let agreed = agrees(&functions, both_ways);
        prop_assert!(agreed.is_ok(), "{}", agreed.unwrap_err());
    }
}

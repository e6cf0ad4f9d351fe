//! Which header fields a card has to hash so that each key of a chain stays on one core.

use std::fmt;

use nf::{FiveTuple, FlowKey, Sharding};
use wire::{Fields, Headers, Marks};

/// What sharding needs to know of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionShape<'a> {
    /// As the chain file calls it.
    pub name: &'a str,
    /// What its key is made of.
    pub sharding: Sharding,
    /// The fields that its edits may change.
    pub edits: Fields,
    /// Whether what its key names is the destination of packets from outside.
    pub has_sides: bool,
}

/// The header fields that a port hashes to pick a core, so that every key of a chain stays on one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashFields(Fields);

/// Two functions of a chain whose keys have no hash in common, so that no spread of packets keeps
/// both keys on one core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conflict<'a> {
    /// The earlier function.
    pub first: FunctionShape<'a>,
    /// The later one; the same as `first` if a function cannot be sharded even alone.
    pub second: FunctionShape<'a>,
    /// Why they conflict.
    pub cause: Cause,
}

/// Why two functions of a chain conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Their keys have no field in common that could be hashed.
    Keys,
    /// The first edits what the second's key is made of, and ports hash packets as they arrive.
    Edits,
    /// The first edits what the second's key is made of, on packets from outside, which meet the first before the
    /// second.
    EditsFromOutside,
    /// The first stands between two sides, and the second's key has only one end of a packet.
    Sides,
}

impl HashFields {
    /// The widest set of fields such that packets alike in any function's key are alike in these.
    ///
    /// - A key can vouch only for the fields it holds: hence the intersection over all functions.
    /// - A key that is the same for both directions vouches for a pair of fields, not for either one:
    ///   where a key is symmetric, a field stays only if its mirror does.
    /// - A port hashes the packet as it arrives. A field that an earlier function edits is not what
    ///   the later key holds.
    /// - Protocol and VLAN are left out: cards do not hash them, and they spread little.
    /// - A function without state does not care.
    ///
    /// # Errors
    /// [`Conflict`] if no address is left.
    pub fn derive<'a>(functions: &[FunctionShape<'a>]) -> Result<HashFields, Conflict<'a>> {
        Self::of_order(functions, Order::OneWay)
    }

    /// The widest set of fields for a chain with two directions: packets from outside meet its functions in
    /// reverse.
    ///
    /// - What a function edits comes before all others, in one direction or the other.
    /// - Beside a function that stands between the sides, packets are hashed as they look from inside: those from
    ///   outside by the mirrored fields. A key that holds both ends of a packet vouches for the inside end.
    /// - That function hands its addresses and ports out so that packets to them come to the core of the host that they stand
    ///   for. So its edits take nothing from keys on its inside, and the hash has no fields but those of its key.
    /// - Keys on its outside are made of what it handed out, which one core does otherwise: they count as edited.
    ///
    /// # Errors
    /// As [`HashFields::derive`].
    pub fn derive_both_ways<'a>(functions: &[FunctionShape<'a>]) -> Result<HashFields, Conflict<'a>> {
        Self::of_order(functions, Order::BothWays)
    }

    /// The source port alone, if that is hashed: where a function between two sides keeps ports as they are, both
    /// sides of a connection have it, and addresses differ.
    pub fn port_alone(self) -> HashFields {
        if self.0.contains(Fields::SRC_PORT) { HashFields(Fields::SRC_PORT) } else { self }
    }

    fn of_order<'a>(functions: &[FunctionShape<'a>], order: Order) -> Result<HashFields, Conflict<'a>> {
        let usable = usable_fields(functions, order);
        let all = common(usable.iter().copied());
        if all.intersects(Fields::ADDRS) {
            return Ok(HashFields(all));
        }
        let hashes = |usable: &[Usable]| common(usable.iter().copied()).intersects(Fields::ADDRS);
        for (j, second) in functions.iter().enumerate() {
            for (i, first) in functions[..=j].iter().enumerate() {
                if !hashes(&[usable[i], usable[j]]) {
                    return Err(conflict(functions, order, [(i, first), (j, second)], hashes));
                }
            }
        }
        // Each pair agrees on something and all together do not: name the outermost two that have a key.
        let mut keyed = functions.iter().filter(|shape| !shape.sharding.is_stateless());
        let first = *keyed.next().unwrap_or(&functions[0]);
        Err(Conflict { first, second: *keyed.next_back().unwrap_or(&first), cause: Cause::Keys })
    }

    /// The fields.
    pub fn fields(self) -> Fields {
        self.0
    }

    /// Writes the hash input of a packet into `input` and returns its length: source address,
    /// destination address, source port, destination port, those that are hashed, in network order;
    /// addresses with 4 bytes for IPv4. What ICMP has in place of ports ([`wire::IcmpPorts`]) is hashed as ports are,
    /// which cards do not do.
    #[inline]
    pub fn input(self, headers: &Headers, input: &mut [u8; 36]) -> usize {
        let mut len = 0;
        let mut put = |bytes: &[u8]| {
            input[len..len + bytes.len()].copy_from_slice(bytes);
            len += bytes.len();
        };
        let skip = if headers.marks.contains(Marks::IPV4) { 12 } else { 0 };
        for (field, addr) in [(Fields::SRC_ADDR, &headers.src), (Fields::DST_ADDR, &headers.dst)] {
            if self.0.contains(field) {
                put(&addr.0[skip..]);
            }
        }
        for (field, port) in [(Fields::SRC_PORT, headers.src_port), (Fields::DST_PORT, headers.dst_port)] {
            if self.0.contains(field) {
                put(&port.to_be_bytes());
            }
        }
        len
    }
}

/// What keeps two functions, with their indices, from having a hash in common.
fn conflict<'a>(
    functions: &[FunctionShape<'a>],
    order: Order,
    [(i, first), (j, second)]: [(usize, &FunctionShape<'a>); 2],
    hashes: impl Fn(&[Usable]) -> bool,
) -> Conflict<'a> {
    let without_edits = |order| {
        usable_fields(&[i, j].map(|i| FunctionShape { edits: Fields::empty(), ..functions[i] }), order)
    };
    if !hashes(&without_edits(Order::OneWay)) && !hashes(&without_edits(order)) {
        return Conflict { first: *first, second: *second, cause: Cause::Keys };
    }
    // The keys alone would do: something before one of them is in the way.
    let pair = if hashes(&without_edits(order)) { vec![(j, second), (i, first)] } else { Vec::new() };
    for (index, shape) in pair {
        let edits = |editor: &usize| {
            let edits = order.edits_seen(functions, *editor, index);
            edits.intersects(shape.sharding.fields & Fields::FIVE_TUPLE)
        };
        if let Some(editor) = (0..functions.len()).find(edits) {
            let cause = if editor < index { Cause::Edits } else { Cause::EditsFromOutside };
            return Conflict { first: functions[editor], second: *shape, cause };
        }
    }
    let sided = functions.iter().find(|shape| shape.has_sides).unwrap_or(first);
    let other = if sided.name == second.name { first } else { second };
    Conflict { first: *sided, second: *other, cause: Cause::Sides }
}

impl fmt::Display for HashFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.names().collect::<Vec<_>>().join(", "))
    }
}

impl fmt::Display for Conflict<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = |shape: &FunctionShape<'_>| {
            let fields = shape.sharding.fields.names().collect::<Vec<_>>().join(", ");
            let both = if shape.sharding.symmetric { ", both directions as one" } else { "" };
            format!("{fields}{both}")
        };
        let Conflict { first, second, cause } = self;
        match cause {
            Cause::Keys => (),
            Cause::Edits => {
                return write!(
                    f,
                    "`{}` changes header fields that `{}` behind it is keyed by, and packets are spread by what \
                     they arrive with; put `{}` first",
                    first.name, second.name, second.name
                );
            }
            Cause::EditsFromOutside => {
                return write!(
                    f,
                    "`{}` changes header fields that `{}` is keyed by, packets from outside come to it first, and \
                     they are spread by what they arrive with",
                    first.name, second.name
                );
            }
            Cause::Sides => {
                return write!(
                    f,
                    "beside `{}`, packets from outside are spread by their destination and those from inside by \
                     their source, and `{}` is keyed by [{}]",
                    first.name,
                    second.name,
                    key(second)
                );
            }
        }
        if first == second {
            return write!(
                f,
                "`{}` is keyed by [{}], which no hash keeps on one core",
                first.name,
                key(first)
            );
        }
        write!(
            f,
            "`{}` is keyed by [{}] and `{}` by [{}]: no hash of header fields keeps both on one core",
            first.name,
            key(first),
            second.name,
            key(second)
        )
    }
}

impl std::error::Error for Conflict<'_> {}

#[derive(Clone, Copy)]
struct Usable {
    fields: Fields,
    symmetric: bool,
}

/// In which order packets meet functions.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    /// One after the other.
    OneWay,
    /// So, and in reverse.
    BothWays,
}

impl Order {
    /// What function `editor` may have edited when packets come to function `index`, and no division of what it
    /// hands out makes up for.
    fn edits_seen(self, functions: &[FunctionShape<'_>], editor: usize, index: usize) -> Fields {
        let is_seen = match self {
            Order::OneWay => editor < index,
            // From a function between the sides, those on its inside get packets from outside that it has led to
            // the core of the host inside.
            Order::BothWays => editor != index && !(functions[editor].has_sides && index < editor),
        };
        if is_seen { functions[editor].edits } else { Fields::empty() }
    }
}

/// What each function's key can vouch for at the port: its fields less those edited before it.
fn usable_fields(functions: &[FunctionShape<'_>], order: Order) -> Vec<Usable> {
    let hashable = Fields::ADDRS | Fields::SRC_PORT | Fields::DST_PORT;
    let is_mirrored = order == Order::BothWays && functions.iter().any(|shape| shape.has_sides);
    let of = |(index, shape): (usize, &FunctionShape<'_>)| {
        if shape.sharding.is_stateless() {
            return Usable { fields: hashable, symmetric: FiveTuple::SHARDING.symmetric };
        }
        let Sharding { fields, symmetric } = shape.sharding;
        let seen = (0..functions.len()).map(|editor| order.edits_seen(functions, editor, index));
        let edited = seen.fold(Fields::empty(), Fields::union);
        if !is_mirrored {
            return Usable { fields: (fields & hashable) - edited, symmetric };
        }
        // Which end is inside the side tells; of packets from outside the mirrored fields are hashed.
        let both = if shape.has_sides { fields } else { fields & fields.mirrored() };
        Usable { fields: (both & hashable) - edited - edited.mirrored(), symmetric: false }
    };
    functions.iter().enumerate().map(of).collect()
}

fn common(usable: impl Iterator<Item = Usable>) -> Fields {
    let (fields, symmetric) = usable.fold((Fields::all(), false), |(fields, symmetric), next| {
        (fields & next.fields, symmetric || next.symmetric)
    });
    if symmetric { fields & fields.mirrored() } else { fields }
}

#[cfg(test)]
mod model;

#[cfg(test)]
mod tests {
    use super::*;
    use nf::{AddrPair, Connection, DstAddr, SrcAddr, SrcEndpoint, Stateless};

    fn shape(name: &str, sharding: Sharding) -> FunctionShape<'_> {
        FunctionShape { name, sharding, edits: Fields::empty(), has_sides: false }
    }

    const PORTS: Fields = Fields::SRC_PORT.union(Fields::DST_PORT);

    #[test]
    fn the_widest_common_fields_are_found() {
        let five = shape("five", FiveTuple::SHARDING);
        let both = shape("both", Connection::SHARDING);
        let src = shape("src", SrcAddr::SHARDING);
        let pair = shape("pair", AddrPair::SHARDING);
        let derive = |functions: &[FunctionShape<'static>]| HashFields::derive(functions).unwrap().fields();
        assert_eq!(derive(&[five]), Fields::ADDRS | PORTS);
        assert_eq!(derive(&[both, five]), Fields::ADDRS | PORTS);
        assert_eq!(derive(&[both, pair]), Fields::ADDRS);
        assert_eq!(derive(&[five, src]), Fields::SRC_ADDR);
        assert_eq!(derive(&[pair, src, src]), Fields::SRC_ADDR);
    }

    #[test]
    fn chains_without_common_fields_are_refused_by_name() {
        let both = shape("tracker", Connection::SHARDING);
        let src = shape("by-source", SrcAddr::SHARDING);
        let dst = shape("by-destination", DstAddr::SHARDING);
        let five = shape("five", FiveTuple::SHARDING);
        let names = |functions: &[FunctionShape<'static>]| {
            let conflict = HashFields::derive(functions).unwrap_err();
            (conflict.first.name, conflict.second.name)
        };
        assert_eq!(names(&[both, src]), ("tracker", "by-source"));
        assert_eq!(names(&[five, src, dst]), ("by-source", "by-destination"));
        let message = HashFields::derive(&[five, both, src]).unwrap_err().to_string();
        assert!(message.starts_with("`tracker` is keyed by [source address"), "{message}");
    }

    #[test]
    fn a_conflict_says_what_is_in_the_way() {
        let message =
            |functions: &[FunctionShape<'static>]| HashFields::derive(functions).unwrap_err().to_string();
        let port = Sharding { fields: Fields::SRC_PORT, symmetric: false };
        let alone = "`by-port` is keyed by [source port], which no hash keeps on one core";
        assert_eq!(message(&[shape("by-port", port)]), alone);
        let two = [shape("by-source", SrcAddr::SHARDING), shape("by-destination", DstAddr::SHARDING)];
        let both = "`by-source` is keyed by [source address] and `by-destination` by [destination address]: no hash of header fields \
                    keeps both on one core";
        assert_eq!(message(&two), both);
        // Of two that edit, the one that edits what the key is made of.
        let edits = |name, edits| FunctionShape { edits, ..shape(name, Stateless::SHARDING) };
        let editors = [edits("to-backend", Fields::DST_ADDR), edits("masquerade", Fields::SRC_ADDR)];
        let [first, second] = editors;
        let conflict = HashFields::derive(&[first, second, two[0]]).unwrap_err();
        assert_eq!(
            (conflict.first.name, conflict.second.name, conflict.cause),
            ("masquerade", "by-source", Cause::Edits)
        );
    }

    #[test]
    fn beside_two_sides_keys_vouch_for_the_inside_end() {
        let nat = FunctionShape {
            name: "nat",
            sharding: SrcEndpoint::SHARDING,
            edits: Fields::ADDRS | PORTS,
            has_sides: true,
        };
        let end = Fields::SRC_ADDR | Fields::SRC_PORT;
        let five = shape("five", FiveTuple::SHARDING);
        let stateless = shape("stateless", Stateless::SHARDING);
        let derive = |functions: &[FunctionShape<'static>]| HashFields::derive_both_ways(functions);
        assert_eq!(derive(&[nat]).unwrap().fields(), end);
        assert_eq!(derive(&[five, stateless, nat, stateless]).unwrap().fields(), end);
        // A connection has one inside end, whichever direction a packet goes.
        let both = shape("both", Connection::SHARDING);
        assert_eq!(derive(&[both, five, nat]).unwrap().fields(), end);
        assert_eq!(derive(&[shape("pair", AddrPair::SHARDING), nat]).unwrap().fields(), Fields::SRC_ADDR);
        assert_eq!(derive(&[both, nat]).unwrap().port_alone().fields(), Fields::SRC_PORT);
        // Of packets from outside the destination is hashed, which says nothing of their source.
        let why = |functions: &[FunctionShape<'static>]| {
            let conflict = derive(functions).unwrap_err();
            (conflict.first.name, conflict.second.name, conflict.cause)
        };
        assert_eq!(why(&[shape("source", SrcAddr::SHARDING), nat]), ("nat", "source", Cause::Sides));
        // What one inside writes as a destination is what packets from outside are hashed by.
        let to_backend =
            FunctionShape { edits: Fields::DST_ADDR, ..shape("to-backend", Stateless::SHARDING) };
        assert_eq!(why(&[to_backend, nat]), ("nat", "to-backend", Cause::Sides));
        // What the nat wrote is what the next one sees.
        assert_eq!(why(&[nat, five]), ("nat", "five", Cause::Edits));
        assert_eq!(why(&[nat, both]), ("nat", "both", Cause::Edits));
        assert_eq!(
            why(&[stateless, five, nat, shape("twice", nat.sharding)]),
            ("nat", "twice", Cause::Edits)
        );
    }

    #[test]
    fn with_two_directions_every_function_comes_before_the_others() {
        let rewrites_dst = FunctionShape {
            name: "balancer",
            sharding: FiveTuple::SHARDING,
            edits: Fields::DST_ADDR | Fields::DST_PORT,
            has_sides: false,
        };
        let five = shape("five", FiveTuple::SHARDING);
        let dst = shape("by-destination", DstAddr::SHARDING);
        for functions in [[five, rewrites_dst], [rewrites_dst, five]] {
            let fields = HashFields::derive_both_ways(&functions).unwrap().fields();
            assert_eq!(fields, Fields::SRC_ADDR | Fields::SRC_PORT);
        }
        let cause =
            |functions: &[FunctionShape<'static>]| HashFields::derive_both_ways(functions).unwrap_err().cause;
        assert_eq!(cause(&[dst, rewrites_dst]), Cause::EditsFromOutside);
        assert_eq!(cause(&[rewrites_dst, dst]), Cause::Edits);
        assert_eq!(HashFields::derive(&[dst, rewrites_dst]).unwrap().fields(), Fields::DST_ADDR);
    }

    #[test]
    fn what_an_earlier_function_edits_cannot_be_hashed_for_a_later_one() {
        let rewrites_dst = FunctionShape {
            name: "balancer",
            sharding: FiveTuple::SHARDING,
            edits: Fields::DST_ADDR | Fields::DST_PORT,
            has_sides: false,
        };
        let five = shape("five", FiveTuple::SHARDING);
        let dst = shape("by-destination", DstAddr::SHARDING);
        let both = shape("tracker", Connection::SHARDING);
        assert_eq!(
            HashFields::derive(&[rewrites_dst, five]).unwrap().fields(),
            Fields::SRC_ADDR | Fields::SRC_PORT
        );
        // The other way round nothing is edited before the keys are taken.
        assert_eq!(HashFields::derive(&[five, rewrites_dst]).unwrap().fields(), Fields::ADDRS | PORTS);
        assert!(HashFields::derive(&[rewrites_dst, dst]).is_err());
        assert!(HashFields::derive(&[rewrites_dst, both]).is_err());
        let stateless = shape("stateless", Stateless::SHARDING);
        assert_eq!(HashFields::derive(&[rewrites_dst, stateless]).unwrap().fields(), Fields::ADDRS | PORTS);
    }
}

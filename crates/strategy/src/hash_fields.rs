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
    /// - Beside a function with two sides, packets from outside are hashed by the mirrored fields: the
    ///   other functions' keys must vouch for these, too.
    /// - Protocol and VLAN are left out: cards do not hash them, and they spread little.
    /// - A function without state does not care.
    ///
    /// # Errors
    /// [`Conflict`] if no address is left.
    pub fn derive<'a>(functions: &[FunctionShape<'a>]) -> Result<HashFields, Conflict<'a>> {
        let usable = usable_fields(functions);
        let all = common(usable.iter().copied());
        if all.intersects(Fields::ADDRS) {
            return Ok(HashFields(all));
        }
        let hashes = |usable: &[Usable]| common(usable.iter().copied()).intersects(Fields::ADDRS);
        for (j, second) in functions.iter().enumerate() {
            for (i, first) in functions[..=j].iter().enumerate() {
                if !hashes(&[usable[i], usable[j]]) {
                    return Err(conflict(functions, [(i, first), (j, second)], hashes));
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
    [(i, first), (j, second)]: [(usize, &FunctionShape<'a>); 2],
    hashes: impl Fn(&[Usable]) -> bool,
) -> Conflict<'a> {
    let plain = |index: usize| {
        let shape = FunctionShape { edits: Fields::empty(), has_sides: false, ..functions[index] };
        usable_fields(&[shape])[0]
    };
    if !hashes(&[plain(i), plain(j)]) {
        return Conflict { first: *first, second: *second, cause: Cause::Keys };
    }
    // The keys alone would do: something before one of them is in the way.
    for (index, shape) in [(j, second), (i, first)] {
        let edits =
            |before: &&FunctionShape<'a>| before.edits.intersects(shape.sharding.fields & Fields::FIVE_TUPLE);
        if let Some(editor) = functions[..index].iter().find(edits) {
            return Conflict { first: *editor, second: *shape, cause: Cause::Edits };
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

/// What each function's key can vouch for at the port: its fields less those edited before it.
fn usable_fields(functions: &[FunctionShape<'_>]) -> Vec<Usable> {
    let hashable = Fields::ADDRS | Fields::SRC_PORT | Fields::DST_PORT;
    let mut edited = Fields::empty();
    let has_sides = functions.iter().any(|shape| shape.has_sides);
    let of = |shape: &FunctionShape<'_>| {
        let Sharding { fields, symmetric } = match shape.sharding.is_stateless() {
            true => FiveTuple::SHARDING,
            false => shape.sharding,
        };
        let kept = if shape.sharding.is_stateless() { Fields::empty() } else { edited };
        let both = if has_sides && !shape.has_sides { fields & fields.mirrored() } else { fields };
        let usable = Usable { fields: (both & hashable) - kept, symmetric };
        edited |= shape.edits;
        usable
    };
    functions.iter().map(of).collect()
}

fn common(usable: impl Iterator<Item = Usable>) -> Fields {
    let (fields, symmetric) = usable.fold((Fields::all(), false), |(fields, symmetric), next| {
        (fields & next.fields, symmetric || next.symmetric)
    });
    if symmetric { fields & fields.mirrored() } else { fields }
}

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
    fn beside_two_sides_keys_vouch_for_both_ends() {
        let nat = FunctionShape {
            name: "nat",
            sharding: SrcEndpoint::SHARDING,
            edits: Fields::ADDRS | PORTS,
            has_sides: true,
        };
        let end = Fields::SRC_ADDR | Fields::SRC_PORT;
        let five = shape("five", FiveTuple::SHARDING);
        let stateless = shape("stateless", Stateless::SHARDING);
        assert_eq!(HashFields::derive(&[nat]).unwrap().fields(), end);
        assert_eq!(HashFields::derive(&[five, stateless, nat, stateless]).unwrap().fields(), end);
        // Of packets from outside the destination is hashed, which says nothing of their source.
        let why = |functions: &[FunctionShape<'static>]| {
            let conflict = HashFields::derive(functions).unwrap_err();
            (conflict.first.name, conflict.second.name, conflict.cause)
        };
        assert_eq!(why(&[shape("source", SrcAddr::SHARDING), nat]), ("nat", "source", Cause::Sides));
        assert_eq!(why(&[shape("both", Connection::SHARDING), nat]), ("both", "nat", Cause::Keys));
        // What the nat wrote is what the next one sees.
        assert_eq!(why(&[nat, five]), ("nat", "five", Cause::Edits));
        assert_eq!(
            why(&[stateless, five, nat, shape("twice", nat.sharding)]),
            ("nat", "twice", Cause::Edits)
        );
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

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
        for (j, second) in functions.iter().enumerate() {
            for (i, first) in functions[..=j].iter().enumerate() {
                if !common([usable[i], usable[j]].into_iter()).intersects(Fields::ADDRS) {
                    return Err(Conflict { first: *first, second: *second });
                }
            }
        }
        // Each pair agrees on something and all together do not: name the outermost two.
        Err(Conflict { first: functions[0], second: functions[functions.len() - 1] })
    }

    /// The fields.
    pub fn fields(self) -> Fields {
        self.0
    }

    /// Writes the hash input of a packet into `input` and returns its length: source address,
    /// destination address, source port, destination port, those that are hashed, in network order;
    /// addresses with 4 bytes for IPv4.
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
        let Conflict { first, second } = self;
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
        assert!(HashFields::derive(&[shape("source", SrcAddr::SHARDING), nat]).is_err());
        assert!(HashFields::derive(&[shape("both", Connection::SHARDING), nat]).is_err());
        assert!(HashFields::derive(&[nat, five]).is_err(), "five sees what the nat wrote");
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

//! The sides of a chain: what its file and its functions say of them.

use std::net::IpAddr;

use nf::FixedEnds;
use nf::prefix::PrefixSet;
use wire::SidePrefix;

use crate::chain::FunctionSpec;
use crate::path::sides::Sides;

impl Sides {
    /// The sides of a chain of these functions, whose file says that `inside` is inside, if it says so. `None`: it
    /// has no sides.
    ///
    /// # Errors
    /// Says what does not fit together, and what to do.
    pub(crate) fn of_chain(
        inside: Option<PrefixSet>,
        functions: &[FunctionSpec],
    ) -> Result<Option<Sides>, String> {
        let sides = |spec: &FunctionSpec| Some((spec.name.clone(), spec.function.sides()?));
        let sided: Vec<(String, nf::Sides)> = functions.iter().filter_map(sides).collect();
        check_neighbours(&sided)?;
        let of_functions =
            sided.iter().fold(PrefixSet::default(), |all, (_, sides)| all.union(&sides.inside));
        if let (Some(inside), Some((name, _))) = (&inside, sided.first())
            && inside.v4() != of_functions.v4()
        {
            return Err(format!(
                "the chain says that {} is inside, and `{name}` that {of_functions} is; \
                 write the same IPv4 prefixes in both, or leave `inside` out of the chain",
                inside.v4()
            ));
        }
        let external = sided.iter().fold(PrefixSet::default(), |all, (_, sides)| all.union(&sides.external));
        if inside.is_none() && sided.is_empty() {
            let wants = |spec: &FunctionSpec| Some((spec.name.clone(), spec.function.wants_sides()?));
            return match functions.iter().find_map(wants) {
                None => Ok(None),
                Some((name, why)) => Err(format!(
                    "`{name}`: `{why}` makes a difference between inside and outside, and the chain does not say \
                     what is inside; add `inside = [\"10.0.0.0/8\"]`, with your prefixes, at the top of the file"
                )),
            };
        }
        let fixed = FixedEnds::new(sided.iter().flat_map(|(_, sides)| sides.fixed.iter()));
        let spreads_by_inside = !sided.is_empty();
        let sides = Sides::new(inside.unwrap_or(of_functions), external, spreads_by_inside);
        Ok(Some(sides.with_fixed(fixed)))
    }
}

impl Sides {
    /// All that it knows: of an address the longest prefix says where it is, and one of none is outside.
    pub(crate) fn prefixes(&self) -> Vec<SidePrefix> {
        // These are the fewest that make up a set, so a prefix that lies in a set lies in one of its own.
        let (inside, external): (Vec<_>, Vec<_>) =
            (self.inside.prefixes().collect(), self.external.prefixes().collect());
        let lies_in = |set: &[(IpAddr, u32)], (address, bits): (IpAddr, u32)| {
            set.iter().any(|(of, common)| *common <= bits && cut(*of, *common) == cut(address, *common))
        };
        let mut all: Vec<SidePrefix> = Vec::new();
        for prefix in inside.iter().chain(&external).copied() {
            let (address, bits) = prefix;
            let (is_inside, is_external) = (lies_in(&inside, prefix), lies_in(&external, prefix));
            all.push(SidePrefix { address, bits, is_inside, is_external });
        }
        all
    }
}

/// The family of an address, and so many of its bits.
fn cut(address: IpAddr, bits: u32) -> (bool, u128) {
    let (is_ipv4, all, width) = match address {
        IpAddr::V4(v4) => (true, v4.to_bits().into(), 32),
        IpAddr::V6(v6) => (false, v6.to_bits(), 128),
    };
    (is_ipv4, all.checked_shr(width - bits).unwrap_or(0))
}

/// Whether functions that stand between sides can stand beside each other: two NATs for different hosts, or one
/// behind the other.
fn check_neighbours(sided: &[(String, nf::Sides)]) -> Result<(), String> {
    for (index, (inner, a)) in sided.iter().enumerate() {
        for (outer, b) in &sided[index + 1..] {
            if let Some(addr) = a.inside.common(&b.inside) {
                let addr = std::net::IpAddr::from(addr);
                return Err(format!(
                    "`{inner}` and `{outer}` both translate {addr}, of which `{outer}` would never hear: take it out \
                     of the `inside` of one"
                ));
            }
            if let Some(addr) = a.external.common(&b.external) {
                let addr = std::net::IpAddr::from(addr);
                return Err(format!(
                    "`{inner}` and `{outer}` both have the external address {addr}, and would give its ports out \
                     twice: give each its own"
                ));
            }
            if let Some(addr) = a.inside.common(&b.external) {
                let addr = std::net::IpAddr::from(addr);
                return Err(format!(
                    "`{outer}` translates to {addr}, which is inside of `{inner}`: functions stand from inside to \
                     outside, so put `{outer}` before `{inner}`"
                ));
            }
        }
    }
    Ok(())
}

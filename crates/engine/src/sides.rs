//! The two sides of a chain: which packets come from inside, and which from outside.
//!
//! What comes from inside meets the functions in the order of the chain file, what comes from outside in reverse. So
//! each function sees the addresses of its own place both times: with `conntrack` before `nat` in the file, the
//! tracker sees inside addresses in both directions.
//!
//! The side is decided once, from the headers as received ([`Sides::mark`]), and rides in
//! [`Marks::FROM_OUTSIDE`]: the dispatcher, history, and every function see the same. A live port will know it from
//! the interface, and set the mark itself.

use nf::prefix::PrefixSet;
use wire::{Headers, Marks};

use crate::Batch;
use crate::batch::bits;
use crate::chain::FunctionSpec;

/// Which packets come from inside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sides {
    inside: PrefixSet,
    /// Addresses that functions of the chain have outside: what is sent to them is for hosts inside.
    external: PrefixSet,
}

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
        Ok(Some(Sides { inside: inside.unwrap_or(of_functions), external }))
    }

    /// Notes in the headers of a packet, as it was received, which side it comes from.
    #[inline]
    pub fn mark(&self, headers: &mut Headers) {
        let is_from_outside = headers.is_ip() && !self.inside.contains(headers.src);
        headers.marks.set(Marks::FROM_OUTSIDE, is_from_outside);
    }

    /// Whether a packet, as it was received, goes from one side to the other.
    #[inline]
    pub fn crosses(&self, headers: &Headers) -> bool {
        match headers.marks.contains(Marks::FROM_OUTSIDE) {
            true => self.inside.contains(headers.dst) || self.external.contains(headers.dst),
            false => !self.inside.contains(headers.dst),
        }
    }

    /// The packet as its connection looks from inside: of one from outside, source and destination are exchanged.
    /// Both directions of a connection that does not cross look alike, too.
    pub(crate) fn seen_from_inside(&self, headers: &Headers) -> Headers {
        let Headers { src, dst, src_port, dst_port, marks, .. } = *headers;
        let is_mirrored = match self.crosses(headers) {
            true => marks.contains(Marks::FROM_OUTSIDE),
            false => (src, src_port) > (dst, dst_port),
        };
        match is_mirrored {
            true => Headers { src: dst, dst: src, src_port: dst_port, dst_port: src_port, ..*headers },
            false => *headers,
        }
    }

    /// Of the live packets of a batch, as they were received: those from outside, and those that cross.
    pub(crate) fn of(&self, batch: &Batch) -> (u64, u64) {
        bits(batch.live).fold((0, 0), |(outside, crossing), packet| {
            let headers = &batch.headers[packet];
            let is_from_outside = headers.marks.contains(Marks::FROM_OUTSIDE);
            let crosses = self.crosses(headers);
            (outside | u64::from(is_from_outside) << packet, crossing | u64::from(crosses) << packet)
        })
    }

    /// What is inside, for people: `10.0.0.0/8, 2001:db8::/32`.
    pub fn inside(&self) -> String {
        self.inside.to_string()
    }
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

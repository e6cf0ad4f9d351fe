//! Sets of packets, as rules of nftables and of `firewall` can tell packets apart: unions of boxes, with intersection and
//! difference.
//!
//! A box has an interval set for each thing that rules ask for. The protocol comes before ports, so that a difference keeps ports
//! with the protocols that have them: what is not "TCP to port 22" is "not TCP", and "TCP, and not to port 22".

use std::ops::RangeInclusive;

/// What rules ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dim {
    /// One of [`STATES`].
    State,
    Protocol,
    /// Addresses are 128 bits, those of IPv4 mapped ([`V4`]).
    Src,
    Dst,
    SrcPort,
    DstPort,
    /// The type of an ICMP or ICMPv6 message.
    IcmpType,
    TcpFlags,
    /// 0 is inside, 1 is outside.
    Side,
}

const DIMS: usize = 9;
/// The largest number of each.
const LAST: [u128; DIMS] = [4, 255, u128::MAX, u128::MAX, 0xffff, 0xffff, 255, 255, 1];
/// The states of `firewall`, by their numbers here.
pub const STATES: [&str; 5] = ["new", "established", "related", "invalid", "untracked"];
/// The addresses that stand for IPv4: `::ffff:0:0/96`.
pub const V4: RangeInclusive<u128> = 0xffff_0000_0000..=0xffff_ffff_ffff;

/// Numbers, as disjoint ranges in ascending order that do not touch.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ranges(Vec<(u128, u128)>);

impl Ranges {
    /// The union of ranges, first and last of each.
    pub fn of(mut ranges: Vec<(u128, u128)>) -> Ranges {
        ranges.retain(|(first, last)| first <= last);
        ranges.sort_unstable();
        ranges.dedup_by(|next, kept| {
            let touches = next.0 <= kept.1.saturating_add(1);
            if touches {
                kept.1 = kept.1.max(next.1);
            }
            touches
        });
        Ranges(ranges)
    }

    pub fn one(number: impl Into<u128>) -> Ranges {
        let number = number.into();
        Ranges(vec![(number, number)])
    }

    pub fn numbers(numbers: impl IntoIterator<Item = u8>) -> Ranges {
        Ranges::of(numbers.into_iter().map(|number| (number.into(), number.into())).collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn contains(&self, number: u128) -> bool {
        self.0.iter().any(|(first, last)| (*first..=*last).contains(&number))
    }

    pub fn iter(&self) -> impl Iterator<Item = (u128, u128)> + '_ {
        self.0.iter().copied()
    }

    pub fn and(&self, other: &Ranges) -> Ranges {
        let (mut both, mut i, mut j) = (Vec::new(), 0, 0);
        while let (Some(a), Some(b)) = (self.0.get(i), other.0.get(j)) {
            let (first, last) = (a.0.max(b.0), a.1.min(b.1));
            if first <= last {
                both.push((first, last));
            }
            if a.1 < b.1 { i += 1 } else { j += 1 }
        }
        Ranges(both)
    }

    pub fn or(&self, other: &Ranges) -> Ranges {
        Ranges::of([&self.0[..], &other.0].concat())
    }

    /// All numbers up to `last` that are not among these.
    fn not(&self, last: u128) -> Ranges {
        let (mut others, mut next) = (Vec::new(), Some(0));
        for (first, end) in self.iter() {
            if let Some(start) = next.filter(|start| *start < first) {
                others.push((start, first - 1));
            }
            next = end.checked_add(1);
        }
        others.extend(next.filter(|start| *start <= last).map(|start| (start, last)));
        Ranges(others)
    }
}

/// The addresses of IPv4, or of IPv6.
pub fn family(is_v6: bool) -> Ranges {
    let v4 = Ranges(vec![(*V4.start(), *V4.end())]);
    if is_v6 { v4.not(u128::MAX) } else { v4 }
}

/// Packets of which each thing is in a set of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region([Ranges; DIMS]);

impl Region {
    pub fn all() -> Region {
        Region(LAST.map(|last| Ranges(vec![(0, last)])))
    }

    pub fn of(&self, dim: Dim) -> &Ranges {
        &self.0[dim as usize]
    }

    /// Those of these packets of which this one thing is in `ranges`.
    pub fn with(mut self, dim: Dim, ranges: &Ranges) -> Region {
        self.0[dim as usize] = self.0[dim as usize].and(ranges);
        self
    }

    /// Those of these packets of which this one thing is not in `ranges`.
    pub fn without_numbers(self, dim: Dim, ranges: &Ranges) -> Region {
        self.with(dim, &ranges.not(LAST[dim as usize]))
    }

    /// These packets, whatever the one thing is.
    pub fn without(mut self, dim: Dim) -> Region {
        self.0[dim as usize] = Ranges(vec![(0, LAST[dim as usize])]);
        self
    }

    /// Whether the one thing may be anything.
    pub fn is_any(&self, dim: Dim) -> bool {
        self.0[dim as usize].0 == [(0, LAST[dim as usize])]
    }

    fn is_empty(&self) -> bool {
        self.0.iter().any(Ranges::is_empty)
    }

    fn and(&self, other: &Region) -> Region {
        let mut both = self.clone();
        for (own, other) in both.0.iter_mut().zip(&other.0) {
            *own = own.and(other);
        }
        both
    }

    /// These packets without those of `other`, in boxes that do not overlap.
    fn minus(&self, other: &Region) -> Vec<Region> {
        if self.and(other).is_empty() {
            return vec![self.clone()];
        }
        let (mut rest, mut left) = (Vec::new(), self.clone());
        for (index, last) in LAST.into_iter().enumerate() {
            let outside = left.0[index].and(&other.0[index].not(last));
            if !outside.is_empty() {
                let mut region = left.clone();
                region.0[index] = outside;
                rest.push(region);
            }
            left.0[index] = left.0[index].and(&other.0[index]);
        }
        rest
    }

    /// Both as one box, where they differ in one thing.
    fn joined(&self, other: &Region) -> Option<Region> {
        let mut differ = (0..DIMS).filter(|index| self.0[*index] != other.0[*index]);
        let index = differ.next();
        if differ.next().is_some() {
            return None;
        }
        let mut joined = self.clone();
        if let Some(index) = index {
            joined.0[index] = joined.0[index].or(&other.0[index]);
        }
        Some(joined)
    }
}

/// The most boxes of one set of packets: more is no rule that a person would look at.
const REGIONS_MAX: usize = 1024;

/// A set of packets would take more than [`REGIONS_MAX`] boxes.
#[derive(Debug, PartialEq, Eq)]
pub struct TooMany;

/// A set of packets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Regions(Vec<Region>);

impl Regions {
    pub fn of(regions: Vec<Region>) -> Regions {
        Regions(regions.into_iter().filter(|region| !region.is_empty()).collect())
    }

    pub fn all() -> Regions {
        Regions(vec![Region::all()])
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Region> {
        self.0.iter()
    }

    pub fn and(&self, other: &Regions) -> Result<Regions, TooMany> {
        let mut both = Vec::new();
        for (a, b) in self.0.iter().flat_map(|a| other.0.iter().map(move |b| (a, b))) {
            both.extend(Some(a.and(b)).filter(|region| !region.is_empty()));
            if both.len() > REGIONS_MAX {
                return Err(TooMany);
            }
        }
        Ok(Regions(both))
    }

    pub fn minus(&self, other: &Regions) -> Result<Regions, TooMany> {
        let mut rest = self.0.clone();
        for taken in &other.0 {
            rest = rest.iter().flat_map(|region| region.minus(taken)).collect();
            if rest.len() > REGIONS_MAX {
                return Err(TooMany);
            }
        }
        Ok(Regions(rest))
    }

    /// One box, where all are alike but for one thing, however many they are.
    pub fn united(self) -> Regions {
        let Some(first) = self.0.first() else { return self };
        let mut differ =
            (0..DIMS).filter(|index| self.0.iter().any(|region| region.0[*index] != first.0[*index]));
        let (Some(index), None) = (differ.next(), differ.next()) else { return self };
        let mut united = first.clone();
        united.0[index] = Ranges::of(self.0.iter().flat_map(|region| region.0[index].iter()).collect());
        Regions(vec![united])
    }

    /// These packets in fewer boxes, where two are alike but for one thing.
    pub fn simple(&self) -> Regions {
        let mut regions = self.0.clone();
        let mut index = 0;
        while index < regions.len() {
            let partner = (index + 1..regions.len())
                .find_map(|other| Some((other, regions[index].joined(&regions[other])?)));
            match partner {
                Some((other, joined)) => {
                    regions.remove(other);
                    regions[index] = joined;
                    index = 0;
                }
                None => index += 1,
            }
        }
        Regions(regions)
    }
}

/// Packets that a condition of nftables may be about. It is about all of `sure`, and about none that are not in `may`; the two
/// are the same where `firewall` can ask for what nftables asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reach {
    pub sure: Regions,
    pub may: Regions,
}

impl Reach {
    /// Just these packets.
    pub fn exact(regions: Regions) -> Reach {
        Reach { sure: regions.clone(), may: regions }
    }

    pub fn all() -> Reach {
        Reach::exact(Regions::all())
    }

    /// Some of these packets; which ones cannot be told.
    pub fn some(may: Regions) -> Reach {
        Reach { sure: Regions::default(), may }
    }

    pub fn and(&self, other: &Reach) -> Result<Reach, TooMany> {
        Ok(Reach { sure: self.sure.and(&other.sure)?, may: self.may.and(&other.may)? })
    }

    pub fn minus(&self, other: &Reach) -> Result<Reach, TooMany> {
        Ok(Reach { sure: self.sure.minus(&other.may)?, may: self.may.minus(&other.sure)? })
    }

    pub fn or(mut self, other: Reach) -> Reach {
        self.sure.0.extend(other.sure.0);
        self.may.0.extend(other.may.0);
        self
    }

    /// What is in no set of these, of all packets.
    pub fn not(&self) -> Result<Reach, TooMany> {
        Reach::all().minus(self)
    }
}

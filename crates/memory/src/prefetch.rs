//! Prefetches: they ask the processor for cache lines that are needed soon.

use std::sync::OnceLock;

use crate::LINE_BYTES;

/// How near to the core a prefetch brings a line.
///
/// Measured in turns (docs/performance.md): what one family of processors gains by the one, another loses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Into all levels of cache: `prefetcht0` of x86-64.
    Near,
    /// Into the second level and those behind it: `prefetcht1` of x86-64.
    Far,
    /// Not at all: to measure what prefetches are worth.
    Off,
}

/// Set by [`Reach::prefer`], or else by the first question.
static REACH: OnceLock<Reach> = OnceLock::new();

impl Reach {
    /// [`Reach::Near`], as [`prefetch_lines_to`] takes it.
    pub const NEAR: u8 = Reach::Near as u8;
    /// [`Reach::Far`], as [`prefetch_lines_to`] takes it.
    pub const FAR: u8 = Reach::Far as u8;
    /// [`Reach::Off`], as [`prefetch_lines_to`] takes it.
    pub const OFF: u8 = Reach::Off as u8;

    /// What tables of this process ask with: that of [`Reach::prefer`], else that with which a processor of this family was faster.
    pub fn here() -> Reach {
        *REACH.get_or_init(|| Reach::of_family(family()))
    }

    /// Has tables of this process ask so, whatever the processor is. `false`: it was decided before.
    pub fn prefer(self) -> bool {
        REACH.set(self).is_ok()
    }

    /// AMD's family 26 (Zen 5) does more than twice the look-ups with near ones; family 25 (Zen 3, Zen 4) has chains a third slower
    /// by them, and Intel's servers look-ups 10%. What was not measured is as most are.
    fn of_family(family: Option<Family>) -> Reach {
        match family {
            Some(Family { is_amd: true, number: 26.. }) => Reach::Near,
            _ => Reach::Far,
        }
    }
}

/// A family of x86-64 processors, as its vendor numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Family {
    is_amd: bool,
    number: u32,
}

impl Family {
    /// By the vendor's name and by leaf 1 of CPUID: the base family, to which the extended one is added where that is 15.
    fn of(vendor: &[u8; 12], signature: u32) -> Family {
        let base = signature >> 8 & 0xf;
        let number = if base == 15 { base + (signature >> 20 & 0xff) } else { base };
        Family { is_amd: vendor == b"AuthenticAMD", number }
    }
}

#[cfg(target_arch = "x86_64")]
#[allow(unused_unsafe, unsafe_code)]
fn family() -> Option<Family> {
    use core::arch::x86_64::__cpuid;
    // SAFETY: every x86-64 processor has CPUID with these two leaves.
    let (name, about) = unsafe { (__cpuid(0), __cpuid(1)) };
    let mut vendor = [0; 12];
    let words = [name.ebx, name.edx, name.ecx];
    vendor.chunks_exact_mut(4).zip(words).for_each(|(to, word)| to.copy_from_slice(&word.to_le_bytes()));
    Some(Family::of(&vendor, about.eax))
}

#[cfg(not(target_arch = "x86_64"))]
fn family() -> Option<Family> {
    None
}

/// Asks for the `lines` cache lines from `at` on, to be read or written soon, as near as `REACH` says: see [`Reach`]. No
/// effect but on time, wherever it points.
#[inline(always)]
#[allow(unsafe_code)]
pub fn prefetch_lines_to<const REACH: u8>(at: *const u8, lines: usize) {
    if REACH == Reach::OFF {
        return;
    }
    #[cfg(target_arch = "x86_64")]
    for line in 0..lines {
        use core::arch::x86_64::{_MM_HINT_T0, _MM_HINT_T1, _mm_prefetch};
        let at = at.wrapping_add(line * LINE_BYTES).cast();
        // SAFETY: a prefetch has no architectural effect, whatever the address.
        unsafe {
            if REACH == Reach::NEAR {
                _mm_prefetch::<_MM_HINT_T0>(at)
            } else {
                _mm_prefetch::<_MM_HINT_T1>(at)
            }
        };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (at, lines);
}

/// Asks for the `lines` cache lines from `at` on, to be read or written soon: [far](Reach::Far). No effect but on time,
/// wherever it points.
#[inline(always)]
pub fn prefetch_lines(at: *const u8, lines: usize) {
    prefetch_lines_to::<{ Reach::FAR }>(at, lines);
}

/// Asks for the line that `at` points to. No effect but on time, wherever it points.
#[inline(always)]
pub fn prefetch(at: *const u8) {
    prefetch_lines(at, 1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_told_as_their_vendors_number_them() {
        let signatures = [
            (b"AuthenticAMD", 0x00b0_0f21, 26, Reach::Near),
            (b"AuthenticAMD", 0x00a1_0f11, 25, Reach::Far),
            (b"AuthenticAMD", 0x0080_0f12, 23, Reach::Far),
            (b"GenuineIntel", 0x0008_06f8, 6, Reach::Far),
        ];
        for (vendor, signature, number, reach) in signatures {
            let family = Family::of(vendor, signature);
            assert_eq!((family.number, Reach::of_family(Some(family))), (number, reach), "{signature:#x}");
        }
        assert_eq!(Reach::of_family(None), Reach::Far);
    }

    #[test]
    fn what_is_decided_stays() {
        let here = Reach::here();
        let other = if here == Reach::Near { Reach::Far } else { Reach::Near };
        assert!(!other.prefer(), "tables may ask already");
        assert_eq!(Reach::here(), here);
    }
}

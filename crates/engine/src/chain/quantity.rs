//! Quantities with units in chain files: `"10 Mbit/s"`, `"250 ms"`, `"64 Ki"`.
//!
//! An option's name ends with its unit, and its value is a whole number of that. A text with a number and a unit may
//! stand in its place. Time-outs that have Linux's names have no unit in them, and are in seconds.

/// What an option is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Time,
    Bytes,
    ByteRate,
    PacketRate,
    Count,
}

/// How names end, longer ends first: what such options are counted in, and how much of [`Kind::units`] is one.
const ENDS: [(&str, Kind, u128); 7] = [
    ("_bytes_per_s", Kind::ByteRate, 8),
    ("_packets_per_s", Kind::PacketRate, 1),
    ("_bytes", Kind::Bytes, 1),
    ("_ns", Kind::Time, 1),
    ("_us", Kind::Time, 1_000),
    ("_ms", Kind::Time, 1_000_000),
    ("_s", Kind::Time, 1_000_000_000),
];

impl Kind {
    /// Units, each with how much it is of the smallest.
    fn units(self) -> &'static [(&'static str, u128)] {
        match self {
            Kind::Time => &[
                ("ns", 1),
                ("us", 1_000),
                ("µs", 1_000),
                ("ms", 1_000_000),
                ("s", 1_000_000_000),
                ("min", 60_000_000_000),
                ("h", 3_600_000_000_000),
                ("d", 86_400_000_000_000),
            ],
            Kind::Bytes => &[
                ("B", 1),
                ("kB", 1_000),
                ("MB", 1_000_000),
                ("GB", 1_000_000_000),
                ("KiB", 1 << 10),
                ("MiB", 1 << 20),
                ("GiB", 1 << 30),
            ],
            Kind::ByteRate => &[
                ("bit/s", 1),
                ("kbit/s", 1_000),
                ("Mbit/s", 1_000_000),
                ("Gbit/s", 1_000_000_000),
                ("B/s", 8),
                ("kB/s", 8_000),
                ("MB/s", 8_000_000),
                ("GB/s", 8_000_000_000),
            ],
            Kind::PacketRate => &[("pps", 1), ("kpps", 1_000), ("Mpps", 1_000_000)],
            Kind::Count => {
                &[("k", 1_000), ("M", 1_000_000), ("Ki", 1 << 10), ("Mi", 1 << 20), ("Gi", 1 << 30)]
            }
        }
    }

    fn example(self) -> &'static str {
        match self {
            Kind::Time => "\"250 ms\"",
            Kind::Bytes => "\"64 KiB\"",
            Kind::ByteRate => "\"10 Mbit/s\"",
            Kind::PacketRate => "\"20 kpps\"",
            Kind::Count => "\"64 Ki\"",
        }
    }
}

fn kind(option: &str) -> (Kind, u128) {
    let ended = ENDS.iter().find(|(end, ..)| option.ends_with(end));
    let other = match option.split('_').any(|word| word == "timeout") {
        true => (Kind::Time, 1_000_000_000),
        false => (Kind::Count, 1),
    };
    ended.map_or(other, |(_, kind, one)| (*kind, *one))
}

/// The option of these that `name` is without its unit: `rate` for `rate_bytes_per_s`; `None` if there are none or two.
pub fn whole_name<'a>(name: &str, mut options: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let is_it = |option: &&str| without_unit(option) == Some(name);
    let found = options.find(is_it)?;
    options.find(is_it).is_none().then_some(found)
}

/// The name of an option without its unit; `None` if it has none. A chain file may write so where the value is a text with a
/// unit.
pub fn without_unit(option: &str) -> Option<&str> {
    ENDS.iter().find_map(|(end, ..)| option.strip_suffix(end))
}

/// What a text says, in the unit of the option.
///
/// # Errors
/// Says what is wrong with it, and gives an example.
pub fn parse(option: &str, text: &str) -> Result<i64, String> {
    let (kind, one) = kind(option);
    let malformed = || {
        let units: Vec<&str> = kind.units().iter().map(|(name, _)| *name).collect();
        format!("write a number with a unit such as {}: {}", kind.example(), units.join(", "))
    };
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && !matches!(c, '.' | '_')).unwrap_or(text.len());
    let (number, unit) = (text[..end].replace('_', ""), text[end..].trim_start());
    let (whole, fraction) = number.split_once('.').unwrap_or((&number, "0"));
    if whole.is_empty() || fraction.is_empty() || fraction.len() > 12 {
        return Err(malformed());
    }
    let (Ok(whole), Ok(fraction_value)) = (whole.parse::<u64>(), fraction.parse::<u64>()) else {
        return Err(malformed());
    };
    let unit_value = match unit {
        "" => one,
        unit => kind.units().iter().find(|(name, _)| *name == unit).ok_or_else(malformed)?.1,
    };
    let tens = 10u128.pow(fraction.len() as u32);
    // Whole parts below 2^64, units below 2^47, tens up to 10^12 (2^40): one after the other, checked.
    let all = u128::from(whole).checked_mul(unit_value).and_then(|whole| whole.checked_mul(tens));
    let all = all.and_then(|all| all.checked_add(u128::from(fraction_value) * unit_value));
    let per = tens * one;
    match all.map(|all| (all / per, all % per)) {
        Some((value, 0)) => i64::try_from(value).map_err(|_| "is more than any option takes".to_owned()),
        Some(_) => Err(format!("`{option}` is a whole number, and {text} is none of it")),
        None => Err("is more than any option takes".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_whole_numbers_of_the_unit() {
        let cases = [
            ("rate_bytes_per_s", "10 Mbit/s", 1_250_000),
            ("rate_bytes_per_s", "2.5MB/s", 2_500_000),
            ("rate_packets_per_s", "20 kpps", 20_000),
            ("burst_bytes", "64 KiB", 65_536),
            ("burst_bytes", "1 MB", 1_000_000),
            ("window_ms", "250 ms", 250),
            ("window_ms", "1.5 s", 1_500),
            ("idle_timeout_s", "5 d", 432_000),
            ("idle_timeout_s", "2 min", 120),
            ("tcp_timeout_established", "5 d", 432_000),
            ("udp_timeout", "30", 30),
            ("flows", "64 Ki", 65_536),
            ("threshold_packets", "10 k", 10_000),
            ("threshold_packets", "10_000", 10_000),
        ];
        for (option, text, value) in cases {
            assert_eq!(parse(option, text), Ok(value), "{option} = {text}");
        }
    }

    #[test]
    fn what_is_no_whole_number_of_a_unit_is_refused_with_an_example() {
        let refused = [
            ("window_ms", "10 Mbit/s", "\"250 ms\""),
            ("window_ms", "", "\"250 ms\""),
            ("window_ms", "ms", "\"250 ms\""),
            ("window_ms", "-1 ms", "\"250 ms\""),
            ("window_ms", "1.2.3 ms", "\"250 ms\""),
            ("flows", "64 KB", "\"64 Ki\""),
            ("idle_timeout_s", "250 ms", "whole number"),
            ("rate_bytes_per_s", "1 bit/s", "whole number"),
            ("idle_timeout_s", "999999999999999 d", "more than any"),
            ("idle_timeout_s", "18446744073709551615 d", "more than any"),
            ("idle_timeout_s", "18446744073709551615.999999999999 d", "more than any"),
        ];
        for (option, text, why) in refused {
            let error = parse(option, text).expect_err(text);
            assert!(error.contains(why), "{option} = {text}: {error}");
        }
    }

    #[test]
    fn names_without_their_unit_are_found_where_there_is_one() {
        let options = ["rate_bytes_per_s", "burst_bytes", "idle_ms", "idle_s"];
        assert_eq!(whole_name("rate", options.into_iter()), Some("rate_bytes_per_s"));
        assert_eq!(whole_name("idle", options.into_iter()), None);
        assert_eq!(whole_name("burst_bytes", options.into_iter()), None);
        assert_eq!(whole_name("rate_bytes_per", options.into_iter()), None, "the longest end is the unit");
    }
}

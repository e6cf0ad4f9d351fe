//! Tests of numbers with units in chain files.

use super::*;

fn parse(options: &str) -> Result<Chain, String> {
    let text = format!("[[function]]\nuse = \"policer\"\n{options}\n");
    Chain::parse("limit.toml", &text, &Registry::of_tests()).map_err(|error| error.in_words())
}

#[test]
fn numbers_may_have_units() {
    let plain = parse("flows = 65536\nrate_bytes_per_s = 1_250_000\nburst_bytes = 65536\naction = \"mark\"")
        .expect("a chain");
    for options in [
        "flows = \"64 Ki\"\nrate_bytes_per_s = \"10 Mbit/s\"\nburst_bytes = \"64 KiB\"\naction = \"mark\"",
        "flows = 65536\nrate = \"1.25 MB/s\"\nburst = \"65536\"\naction = \"mark\"",
    ] {
        let chain = parse(options).expect("a chain");
        assert_eq!(chain.functions[0].flows, 65_536);
        assert_eq!(chain.functions[0].options, plain.functions[0].options, "{options}");
    }
}

#[test]
fn wrong_units_are_pointed_at() {
    let error = parse("rate = \"10 Mbit\"").err().expect("no rate");
    assert!(error.starts_with("limit.toml:3:8: `rate`: write a number with a unit"), "{error}");
    let error = parse("burst = \"1 kB\"\nburst_bytes = 1000").err().expect("twice");
    assert!(error.contains("`burst` and `burst_bytes` are one option"), "{error}");
    let error = parse("flows = \"a few\"").err().expect("no number");
    assert!(error.contains("\"64 Ki\""), "{error}");
    // A number that its function does not take is pointed at where it is written.
    let error = parse("rate = \"0 Mbit/s\"").err().expect("no rate");
    assert!(error.starts_with("limit.toml:3:8: `policer`: `rate_bytes_per_s` must be at least 1"), "{error}");
    let error = parse("rate = 1000").err().expect("a number has the unit of the name");
    assert!(error.contains("has no option `rate`") && error.contains("rate_bytes_per_s"), "{error}");
}

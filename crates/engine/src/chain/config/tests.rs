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

/// A chain with these tables ahead of its function.
fn with_interfaces(tables: &str) -> Result<Chain, String> {
    let text = format!("{tables}\n[[function]]\nuse = \"policer\"\n");
    Chain::parse("office.toml", &text, &Registry::of_tests()).map_err(|error| error.in_words())
}

/// An `[[interface]]` in one line.
fn interface(name: &str, side: &str, prefixes: &str) -> String {
    let prefixes = if prefixes.is_empty() { String::new() } else { format!("prefixes = [\"{prefixes}\"]\n") };
    format!("[[interface]]\nname = \"{name}\"\nside = \"{side}\"\n{prefixes}")
}

#[test]
fn interfaces_say_what_is_inside() {
    let [lan, dmz, wan] =
        [("lan0", "inside", "10.0.0.0/24"), ("dmz0", "dmz", "10.0.2.0/24"), ("wan0", "outside", "")]
            .map(|(name, side, prefixes)| interface(name, side, prefixes));
    let chain = with_interfaces(&[&*lan, &dmz, &wan].concat()).expect("a chain");
    let names: Vec<&str> = chain.interfaces.iter().map(|interface| interface.name.as_str()).collect();
    assert_eq!(names, ["lan0", "dmz0", "wan0"]);
    assert_eq!(chain.sides.expect("two directions").inside(), "10.0.0.0/24, 10.0.2.0/24");
    // Where there is one side inside, the chain may say what it is.
    let plain = [&*interface("lan0", "inside", ""), &wan].concat();
    assert!(with_interfaces(&plain).expect("a chain").sides.is_none());
    let chain = with_interfaces(&format!("inside = [\"10.0.0.0/8\"]\n{plain}")).expect("a chain");
    assert_eq!(chain.sides.expect("two directions").inside(), "10.0.0.0/8");
}

#[test]
fn wrong_interfaces_are_pointed_at() {
    let (lan, wan) = (interface("lan0", "inside", "10.0.0.0/24"), interface("wan0", "outside", ""));
    let many: String = (0..17).map(|number| interface(&format!("lan{number}"), "inside", "")).collect();
    for (tables, expected) in [
        ("interface = 1".to_owned(), "`interface` is not a list of tables"),
        (lan.clone(), "`side = \"outside\"` says which is outside"),
        (wan.clone(), "`side = \"outside\"` says which is outside"),
        ([&*many, &wan].concat(), "at most 16 interfaces"),
        ([&*lan, &lan, &wan].concat(), "the interface `lan0` is here twice"),
        ([&*lan, &interface("dmz0", "dmz", ""), &wan].concat(), "`prefixes` of `dmz0` is missing"),
        ([&*interface("lan0", "office", ""), &wan].concat(), "`prefixes` of `lan0` is missing"),
        (
            [&*lan, &interface("dmz0", "dmz", "10.0.0.128/25"), &wan].concat(),
            "hosts of `dmz0` are on the side `inside` and on `dmz`",
        ),
        ([&*lan, &interface("wan0", "outside", "0.0.0.0/0")].concat(), "outside is whatever is not inside"),
        ([&*lan, &interface("dmz0", "dmz", "10.0.1.1/24"), &wan].concat(), "10.0.1.0/24"),
        (
            [&*lan, &interface("a name too long", "dmz", ""), &wan].concat(),
            "no interface is called `a name too long`",
        ),
        ([&*lan, &interface("dmz0", "the dmz", ""), &wan].concat(), "write letters, digits, - and _"),
        ([&*lan, "[[interface]]\nname = \"wan0\"\n"].concat(), "an interface has a name and a side"),
        ([&*lan, &wan, "prefix = 1\n"].concat(), "did you mean `prefixes`?"),
        (
            [&*format!("inside = [\"10.0.0.0/24\"]\n{lan}"), &wan].concat(),
            "the interfaces' prefixes are inside",
        ),
    ] {
        let error = with_interfaces(&tables).err().unwrap_or_else(|| panic!("{tables} is taken"));
        assert!(error.contains(expected), "{tables}: {error}");
    }
}

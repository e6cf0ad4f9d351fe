//! What may be asked for, and what is answered otherwise.

use super::*;

#[test]
fn a_model_is_a_line_of_text() {
    let zipf = model("zipf:flows=1000,a=1.25,packets=50,seed=3");
    assert_eq!(zipf.kind(), Kind::Zipf { exponent: 1.25 });
    assert_eq!((zipf.options().flows, zipf.options().packets, zipf.options().seed), (Some(1_000), 50, 3));
    let all = "zipf:packets=50,flows=1000,a=1.25,seed=3,sizes=fixed:60,gap-ns=100,burst=1,ipv6-share=0";
    assert_eq!(zipf.to_string(), all);
    for name in Kind::NAMES {
        let model = model(name);
        assert_eq!(model.kind().name(), name);
        assert_eq!(Model::parse(&model.to_string()), Ok(model));
    }
    // Default sizes make room for IPv6.
    assert_eq!(model("uniform:ipv6-share=0.1").options().sizes, Sizes::Fixed(62));
    assert_eq!(model("backbone:ipv6-share=1").options().sizes, Sizes::Mix(vec![(75, 69), (1_514, 31)]));
    let more = Model::parse_with("zipf:flows=10", &[("a", "2")]).map(|model| model.kind());
    assert_eq!(more, Ok(Kind::Zipf { exponent: 2.0 }));
}

#[test]
fn mistakes_are_explained() {
    for (text, expected) in [
        ("zipff", "there is no model `zipff`"),
        ("", "there is no model ``"),
        ("zipf:", "`` is no option with its value"),
        ("zipf:flows", "`flows` is no option with its value"),
        ("zipf:flows=1,flows=2", "`flows` is given twice"),
        ("zipf:share=0.1", "zipf has no option `share`"),
        ("single-flow:flows=2", "single-flow has no option `flows`"),
        ("uniform:concurrent=2", "uniform has no option `concurrent`"),
        ("uniform:packets=0", "packets=0: must be 1 to 4294967295"),
        ("uniform:packets=4294967296", "packets=4294967296: must be 1 to 4294967295"),
        ("uniform:packets=-1", "packets=-1: must be a whole number"),
        ("uniform:packets=+1", "packets=+1: must be a whole number"),
        ("uniform:packets=", "packets=: must be a whole number"),
        ("uniform:flows=0", "flows=0: must be 1 to 67108864"),
        ("uniform:gap-ns=1000000001", "gap-ns=1000000001: must be 0 to 1000000000"),
        ("uniform:burst=0", "burst=0: must be 1 to 1000000"),
        ("uniform:ipv6-share=1.1", "ipv6-share=1.1: must be 0 to 1"),
        (
            "uniform:sizes=fixed:41",
            "sizes=fixed:41: frames of 41 bytes are too short for UDP over IPv4, which takes 42",
        ),
        (
            "uniform:sizes=60+61,ipv6-share=0.1",
            "sizes=60x1+61x1: frames of 60 bytes are too short for UDP over IPv6",
        ),
        ("uniform:sizes=fixed:65550", "sizes=fixed:65550: frames of 65550 bytes are too long"),
        ("datacenter:sizes=fixed:59", "sizes=fixed:59: frames of 59 bytes are too short for TCP over IPv4"),
        (
            "datacenter:sizes=fixed:60,ipv6-share=1",
            "sizes=fixed:60: frames of 60 bytes are too short for TCP over IPv6",
        ),
        ("datacenter:sizes=fixed:9015", "sizes=fixed:9015: frames of 9015 bytes are too long for TCP"),
        ("zipf:a=11", "a=11: must be 0 to 10"),
        ("zipf:a=NaN", "a=NaN: must be 0 to 10"),
        ("zipf:a=-0.5", "a=-0.5: must be 0 to 10"),
        ("elephant:share=1", "share=1: must be above 0 and below 1"),
        ("elephant:share=0", "share=0: must be above 0 and below 1"),
        ("elephant:flows=1", "flows=1: must be at least 2"),
        ("single-flow:ipv6-share=0.5", "ipv6-share=0.5: must be 0 or 1"),
        ("single-flow:one-way=yes", "one-way=yes: must be true or false"),
        ("syn-flood:legit=1", "legit=1: must be below 1"),
        ("syn-flood:flows=10", "flows=10: is about the connections that mean it"),
        ("syn-flood:sources=0", "sources=0: must be 1 to 4294967295"),
        ("port-scan:scanners=0", "scanners=0: must be 1 to 4194304"),
        ("port-scan:share=0", "share=0: must be above 0"),
        ("datacenter:concurrent=0", "concurrent=0: must be 1 to"),
        // 9 packets make the least connection with both directions, 2 one with one.
        (
            "datacenter:packets=89,flows=10",
            "flows=10: so many connections take at least 90 packets, and there are 89 for them",
        ),
        (
            "backbone:packets=19,flows=10",
            "flows=10: so many connections take at least 20 packets, and there are 19 for them",
        ),
        (
            "syn-flood:packets=100,flows=10,legit=0.5",
            "flows=10: so many connections take at least 90 packets, and there are 50",
        ),
    ] {
        let error = Model::parse(text).expect_err(text).to_string();
        assert!(error.starts_with(expected), "{text}: {error}");
    }
    assert!(Model::parse("datacenter:packets=90,flows=10").is_ok());
    assert!(Model::parse("uniform:sizes=fixed:42").is_ok());
}

#[test]
fn options_made_in_code_are_held_to_the_same() {
    let options = Options { sizes: Sizes::Mix(Vec::new()), ..Options::of(Kind::Uniform) };
    assert!(Model::new(Kind::Uniform, options).is_err());
    let options = Options { packets: 0, ..Options::of(Kind::Datacenter) };
    assert!(Model::new(Kind::Datacenter, options).is_err());
    assert!(Model::new(Kind::Datacenter, Options::of(Kind::Datacenter)).is_ok());
}

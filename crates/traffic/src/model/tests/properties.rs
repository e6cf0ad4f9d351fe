//! What holds for any options.

use proptest::prelude::*;

use super::*;

prop_compose! {
    /// Options that a model may have, or not.
    fn any_text()(
        name in prop::sample::select(Kind::NAMES.to_vec()),
        packets in 1u64..1_500,
        flows in prop::option::of(1u64..300),
        seed in any::<u64>(),
        sizes in prop::sample::select(vec!["imix", "fixed:60", "fixed:75", "fixed:1514", "42x3+9014", "fixed:41", "80x2+600"]),
        gap_ns in prop::sample::select(vec![0, 1, 7, 100, 1_000_000_000u64]),
        burst in 1u32..20,
        ipv6 in prop::sample::select(vec!["0", "0.3", "1"]),
        own in prop::sample::select(vec!["", "share=0.3", "legit=0.4", "one-way=true", "a=0.9", "sources=3", "scanners=9", "concurrent=3"]),
    ) -> String {
        let flows = flows.map(|flows| format!("flows={flows},")).unwrap_or_default();
        let own = if own.is_empty() { String::new() } else { format!(",{own}") };
        format!("{name}:{flows}packets={packets},seed={seed},sizes={sizes},gap-ns={gap_ns},burst={burst},ipv6-share={ipv6}{own}")
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_allowed_gives_good_packets(text in any_text()) {
        let Ok(model) = Model::parse(&text) else { return Ok(()) };
        prop_assert_eq!(Model::parse(&model.to_string()), Ok(model.clone()));
        let (mut count, mut last_ns) = (0u64, 0);
        let mut all_good = true;
        model.generate(|time_ns, frame| {
            let headers = parse(frame);
            all_good &= time_ns >= last_ns && headers.is_ip() && headers.is_well_formed() && headers.has_transport();
            count += 1;
            last_ns = time_ns;
        });
        prop_assert!(all_good);
        let asked = model.options().packets;
        if model.kind().is_drawn() {
            prop_assert_eq!(count, asked);
        } else {
            prop_assert!(count >= asked);
        }
        prop_assert!(last_ns <= count * model.options().gap_ns);
    }

    #[test]
    fn no_text_makes_it_panic(text in "[a-z-]{0,12}:?[a-z0-9=,:.x+-]{0,40}") {
        let _ = Model::parse(&text);
    }
}

/// Most of the random options are allowed, so that the property is about something.
#[test]
fn random_options_are_mostly_allowed() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let mut texts = (0..200).map(|_| any_text().new_tree(&mut runner).expect("a value").current());
    let allowed = texts.by_ref().filter(|text| Model::parse(text).is_ok()).count();
    assert!(allowed > 15, "{allowed} of 200");
}

//! What holds for every stock function.

use core::fmt::Debug;
use std::collections::BTreeSet;
use std::string::String;
use std::vec::Vec;
use std::{format, println};

use nf::NetworkFunction;
use serde::de::{DeserializeOwned, Deserializer, Error, Visitor as FieldVisitor};

use wire::Headers;

use crate::{Visitor, for_each};

/// Words of lower-case letters and digits, joined by `joint`.
fn is_words(name: &str, joint: char) -> bool {
    name.split(joint).all(|word| {
        !word.is_empty() && word.chars().all(|char| char.is_ascii_lowercase() || char.is_ascii_digit())
    })
}

/// The names that a struct's derived `Deserialize` takes.
fn fields_of<T: DeserializeOwned>() -> Vec<&'static str> {
    struct Recorder<'a>(&'a mut Vec<&'static str>);

    impl<'de> Deserializer<'de> for Recorder<'_> {
        type Error = serde::de::value::Error;

        fn deserialize_struct<V: FieldVisitor<'de>>(
            self,
            _: &'static str,
            fields: &'static [&'static str],
            _: V,
        ) -> Result<V::Value, Self::Error> {
            self.0.extend(fields);
            Err(Error::custom("recorded"))
        }

        fn deserialize_any<V: FieldVisitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
            Err(Error::custom("options must be a struct"))
        }

        serde::forward_to_deserialize_any! {
            bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit
            unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
        }
    }

    let mut fields = Vec::new();
    let _ = T::deserialize(Recorder(&mut fields));
    fields
}

/// Options that must be given, with something that will do: the default of each is refused by its name.
const NEEDED: [(&str, &str, &str); 1] = [("nat", "external", "[\"203.0.113.1\"]")];

fn needed<F: NetworkFunction>(option: &str) -> Option<&'static str> {
    NEEDED.iter().find(|(name, of, _)| (*name, *of) == (F::ABOUT.name, option)).map(|(.., value)| *value)
}

/// The defaults, and what there is no default for.
fn documented_options<F: NetworkFunction>() -> String {
    let value = |option: &nf::OptionDoc| needed::<F>(option.name).unwrap_or(option.default);
    F::ABOUT.options.iter().map(|option| format!("{} = {}\n", option.name, value(option))).collect()
}

pub(crate) fn documented_defaults_are_the_default<F: NetworkFunction>()
where
    F::Options: Default + PartialEq + Debug,
{
    let defaults: String =
        F::ABOUT.options.iter().map(|option| format!("{} = {}\n", option.name, option.default)).collect();
    let documented: F::Options = toml::from_str(&defaults).unwrap();
    assert_eq!(documented, F::Options::default(), "{}", F::ABOUT.name);
    assert_eq!(toml::from_str::<F::Options>("").unwrap(), F::Options::default(), "{}", F::ABOUT.name);
}

#[test]
fn every_function_says_what_people_need_to_know() {
    struct Check(Vec<&'static str>);
    impl Visitor for Check {
        fn visit<F: NetworkFunction>(&mut self) {
            assert!(is_words(F::ABOUT.name, '-'), "{}", F::ABOUT.name);
            assert!(!F::ABOUT.summary.is_empty() && !F::ABOUT.spec.is_empty(), "{}", F::ABOUT.name);
            for name in F::ABOUT.drop_reasons.iter().chain(F::ABOUT.events) {
                assert!(is_words(name, '-'), "{}: {name}", F::ABOUT.name);
            }
            for names in [F::ABOUT.drop_reasons, F::ABOUT.events] {
                assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "{}", F::ABOUT.name);
            }
            for option in F::ABOUT.options {
                assert!(
                    is_words(option.name, '_') && !option.help.is_empty(),
                    "{}: {option:?}",
                    F::ABOUT.name
                );
            }
            println!(
                "{:15} key {} meta {} state {}",
                F::ABOUT.name,
                size_of::<F::Key>(),
                size_of::<F::Meta>(),
                size_of::<F::State>()
            );
            self.0.push(F::ABOUT.name);
        }
    }
    let mut check = Check(Vec::new());
    for_each(&mut check);
    assert!(check.0.is_sorted_by(|a, b| a < b), "names are in order, each once: {:?}", check.0);
}

/// Replicas see nothing of a packet but what is declared; what is declared and not read they carry for nothing.
#[test]
fn every_function_reads_what_it_declares() {
    struct Check(Vec<Headers>);
    impl Visitor for Check {
        fn visit<F: NetworkFunction>(&mut self) {
            if let Err(error) = nf::check_reads::<F>(&self.0) {
                panic!("{}: {error}", F::ABOUT.name);
            }
            // Were one field less declared, the check would say so of each.
            assert_eq!(nf::fields_read::<F>(&self.0), F::READS, "{}", F::ABOUT.name);
        }

        fn visit_either<A, B>(&mut self, _: fn(&A::Options) -> bool)
        where
            A: NetworkFunction,
            B: NetworkFunction<Options = A::Options>,
        {
            self.visit::<A>();
            self.visit::<B>();
        }
    }
    for_each(&mut Check(nf::sample_headers(1).take(4_000).collect()));
}

/// Packets that a function leaps over, where it never leaps to another state than steps lead to.
fn leapt<F: NetworkFunction>(options: &str) -> u64 {
    let function = F::new(toml::from_str(options).unwrap()).unwrap();
    let samples: Vec<Headers> = nf::sample_headers(2).take(4_000).collect();
    match nf::check_leaps(&function, &samples) {
        Ok(leapt) => leapt,
        Err(error) => panic!("{}: {error}", F::ABOUT.name),
    }
}

#[test]
fn functions_leap_to_where_they_would_step() {
    struct Check;
    impl Visitor for Check {
        fn visit<F: NetworkFunction>(&mut self) {
            leapt::<F>(&documented_options::<F>());
        }
    }
    for_each(&mut Check);
    // Where windows end, thresholds are met and buckets run full or empty.
    let counts = [
        leapt::<crate::Ddos>("threshold_packets = 4\nwindow_ms = 1\nblock_ms = 2"),
        leapt::<crate::Ddos>("threshold_packets = 3\nwindow_ms = 500\nblock_ms = 500\nextend = true"),
        leapt::<crate::HeavyHitters>("threshold_bytes = 400\nwindow_ms = 1\nidle_ms = 2"),
        leapt::<crate::HeavyHitters>("threshold_bytes = 400\nwindow_ms = 0\nidle_ms = 1"),
        leapt::<crate::Policer>("rate_bytes_per_s = 1000000\nburst_bytes = 300"),
        leapt::<crate::Policer>("rate_bytes_per_s = 100\nburst_bytes = 600"),
        leapt::<crate::RateLimiter>("rate_packets_per_s = 1000\nburst_packets = 3"),
        leapt::<crate::PortKnock>("ports = [80]\nopen_ms = 1"),
        leapt::<crate::PortKnock>("ports = [80, 443]\nopen_ms = 0\nallow = [\"10.0.0.0/31\"]"),
    ];
    println!("{counts:?}");
    assert!(counts.iter().all(|leapt| *leapt > 500), "{counts:?}");
}

/// Packets that a function steps in place, where it never does what a step would not.
fn stepped_in_place<F: NetworkFunction>(options: &str) -> u64 {
    let function = F::new(toml::from_str(options).unwrap()).unwrap();
    let samples: Vec<Headers> = nf::sample_headers(3).take(4_000).collect();
    match nf::check_in_place(&function, &samples) {
        Ok(stepped) => stepped,
        Err(error) => panic!("{}: {error}", F::ABOUT.name),
    }
}

#[test]
fn functions_do_in_place_what_they_would_step() {
    struct Check;
    impl Visitor for Check {
        fn visit<F: NetworkFunction>(&mut self) {
            stepped_in_place::<F>(&documented_options::<F>());
        }
    }
    for_each(&mut Check);
    fn balancer<F: NetworkFunction>(policy: &str, vip: &str, protocol: &str) -> u64 {
        let backends =
            "[{ address = \"10.0.0.1\", port = 9 }, { address = \"10.0.0.2\", mac = \"02:00:00:00:00:02\" }]";
        let service =
            format!("vip = \"{vip}\"\nport = \"any\"\nprotocol = \"{protocol}\"\nbackends = {backends}");
        stepped_in_place::<F>(&format!("policy = \"{policy}\"\n[[services]]\n{service}"))
    }
    // Where windows and records end, thresholds are met and buckets run full or empty.
    let counts = [
        stepped_in_place::<crate::FlowStatistics>("idle_ms = 1\nactive_ms = 1"),
        stepped_in_place::<crate::SourceStatistics>("idle_ms = 100\nactive_ms = 150"),
        stepped_in_place::<crate::Ddos>("threshold_packets = 4\nwindow_ms = 1\nblock_ms = 2"),
        stepped_in_place::<crate::Ddos>(
            "threshold_packets = 3\nwindow_ms = 500\nblock_ms = 500\nextend = true",
        ),
        stepped_in_place::<crate::HeavyHitters>("threshold_bytes = 3000\nwindow_ms = 1\nidle_ms = 2"),
        stepped_in_place::<crate::HeavyHitters>("threshold_bytes = 400\nwindow_ms = 0\nidle_ms = 1"),
        stepped_in_place::<crate::Policer>("rate_bytes_per_s = 1000000\nburst_bytes = 300"),
        stepped_in_place::<crate::Policer>("rate_bytes_per_s = 100\nburst_bytes = 600\naction = \"mark\""),
        stepped_in_place::<crate::RateLimiter>("rate_packets_per_s = 1000\nburst_packets = 3"),
        stepped_in_place::<crate::PortKnock>("ports = [80]\nopen_ms = 1"),
        stepped_in_place::<crate::Nat>("inside = [\"0.0.0.0/1\"]\nexternal = [\"203.0.113.1\"]"),
        stepped_in_place::<crate::Nat>(
            "inside = [\"0.0.0.0/1\"]\nexternal = [\"203.0.113.1\", \"203.0.113.7\"]\nport_choice = \"preserve\"",
        ),
        stepped_in_place::<crate::Conntrack>(""),
        stepped_in_place::<crate::Conntrack>("gaps = \"strict\"\ntcp_timeout_established = 1"),
        stepped_in_place::<crate::Firewall>("default = \"accept\""),
        stepped_in_place::<crate::Firewall>(
            "default = \"accept\"\nudp_stream_timeout_s = 1\nrules = [\"drop any from any to any state invalid\"]",
        ),
        balancer::<crate::LoadBalancer>("maglev", "0.0.0.0/0", "tcp"),
        balancer::<crate::LoadBalancer>("round-robin", "0.0.0.0/0", "udp"),
        balancer::<crate::LoadBalancer<nf::Connection>>("maglev", "10.0.0.0/9", "tcp"),
    ];
    assert!(counts.iter().all(|stepped| *stepped > 100), "{counts:?}");
}

#[test]
fn every_option_is_documented_and_unknown_ones_are_refused() {
    struct Check;
    impl Visitor for Check {
        fn visit<F: NetworkFunction>(&mut self) {
            let documented: Vec<&str> = F::ABOUT.options.iter().map(|option| option.name).collect();
            assert_eq!(documented, fields_of::<F::Options>(), "{}", F::ABOUT.name);
            let options = toml::from_str::<F::Options>(&documented_options::<F>());
            assert!(F::new(options.unwrap()).is_ok(), "{}", F::ABOUT.name);
            match F::new(toml::from_str("").unwrap()) {
                Ok(_) => assert!(F::ABOUT.options.iter().all(|option| needed::<F>(option.name).is_none())),
                Err(error) => assert!(needed::<F>(error.option).is_some(), "{}: {error}", F::ABOUT.name),
            }
            let error = toml::from_str::<F::Options>("no_such_option = 1").err().expect("refused");
            assert!(error.message().contains("no_such_option"), "{}: {error}", F::ABOUT.name);
        }
    }
    for_each(&mut Check);
}

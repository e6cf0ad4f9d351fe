//! What the drop reasons of the stock functions, of malformed packets and of the engine mean.

use engine::Registry;
use wire::Malformed;

/// What a reason means, where `by` drops for it.
pub struct Dropped {
    /// A function, `engine`, or `malformed`.
    pub by: &'static str,
    /// What it means. Nothing is known of a function that is not a stock one.
    pub means: &'static str,
}

/// Drop reasons: the reason, who drops for it (empty: each function that has it), what it means.
const REASONS: &[(&str, &str, &str)] = &[
    (
        "ack-out-of-window",
        "conntrack",
        "A TCP segment acknowledges what the other end did not send. Option `out_of_window` has such segments pass.",
    ),
    (
        "backend-down",
        "load-balancer",
        "TCP of a connection whose backend is down, by hand or by its checks. `when_down` says what becomes of such connections.",
    ),
    ("denied-by-default", "access-list", "No rule matches, and `default` is \"deny\"."),
    ("denied-by-rule", "access-list", "The first rule that matches says deny."),
    ("dropped-by-default", "firewall", "No rule matches, and the chain's default drops what none accepts."),
    (
        "dropped-by-rule",
        "firewall",
        "The first rule that matches says drop. `paceline ctl rules` counts what each rule decided.",
    ),
    (
        "fragment",
        "",
        "A fragment: only the first one of a datagram has ports, so the others cannot be given to a connection. With `fragments = \"follow\"` in the \
         chain file they are: docs/fragments.md.",
    ),
    ("invalid-flags", "conntrack", "A TCP segment has flags that no stack sends together. Scanners do."),
    (
        "invalid-reset",
        "conntrack",
        "A TCP reset does not fit the connection, so that a stranger could have sent it (RFC 5961).",
    ),
    ("invalid-transition", "conntrack", "A TCP segment does not fit the state of its connection."),
    ("later-fragment", "port-knock", "A later fragment has no ports, and its source is not open."),
    (
        "logged",
        "firewall",
        "A rule that ends in `log` says drop. `run --log FILE` and `--drops FILE` name the rule: docs/trace.md.",
    ),
    (
        "no-backend",
        "load-balancer",
        "The service has no active backend: all of them are drained, down, or failed their checks.",
    ),
    (
        "no-connection",
        "conntrack",
        "A segment of a connection whose begin was not seen. Option `pick_up` has such connections followed from their middle.",
    ),
    (
        "no-mapping",
        "nat",
        "A packet for an external endpoint that no inside host has: a stranger, or an answer behind the mapping's time-out. ICMP errors \
         about packets without a mapping, too. Over a capture, answers that were recorded go to the ports of the gateway that was there: \
         `port_choice = \"preserve\"` gives out the hosts' own ports, as Linux does, where \"random\", the default, gives others. With \
         `hairpinning = false`, what an inside host sends to an external address.",
    ),
    (
        "no-port",
        "nat",
        "The host's external address has no free port left on that core. More `external` addresses or shorter time-outs help.",
    ),
    ("not-open", "port-knock", "The source has not knocked, or its time is over."),
    (
        "opened-from-outside",
        "conntrack",
        "An outside host begins a connection, and `open_from` is \"inside\".",
    ),
    (
        "other-protocol",
        "port-knock",
        "A packet of another protocol, from a source that is not open. Option `other` decides this.",
    ),
    (
        "over-rate",
        "",
        "The flow, or what the function meters, sends faster than `rate_bytes_per_s` and `burst_bytes` allow.",
    ),
    (
        "over-threshold",
        "heavy-hitters",
        "The flow is above the threshold, and the chain file has the function drop it.",
    ),
    ("pattern", "pattern-scanner", "The payload holds one of the patterns."),
    ("ports-per-host", "nat", "The inside host has as many mappings as it may have."),
    (
        "ping-answered",
        "load-balancer",
        "A ping to a VIP, which the balancer answers itself: its sender gets the reply. `answer_pings = false` lets it pass.",
    ),
    (
        "rejected",
        "firewall",
        "A rule or the default rejects it, and its sender is told: docs/guides/firewall.md.",
    ),
    (
        "reply-without-request",
        "conntrack",
        "An ICMP reply that no host asked for, or whose request is longer ago than `icmp_timeout`.",
    ),
    ("scanner", "port-scan", "The source tried too many ports or services, and `action` is \"drop\"."),
    (
        "seq-out-of-window",
        "conntrack",
        "A TCP segment lies outside what its receiver takes. Option `out_of_window` has such segments pass.",
    ),
    ("source-blocked", "ddos", "The source went over the threshold, and its block is not over."),
    (
        "table-full",
        "",
        "The table has no room for a new flow. More `flows` or shorter time-outs make room; `paceline check CHAIN.toml` says who \
         can fill a table, and docs/floods.md what happens then.",
    ),
    ("unrelated-error", "conntrack", "An ICMP error that quotes a packet of no known connection."),
    (
        "untranslated",
        "nat",
        "A packet of another protocol, or an ICMP message that cannot be translated. Option `other_protocols` has other protocols pass.",
    ),
    ("no-room", "engine", "An edit makes the packet longer than its buffer allows."),
    (
        "history-not-taken",
        "engine",
        "The packet came with a history that could not be taken, or as a history without a packet: docs/history-format.md.",
    ),
    (
        "overtaken",
        "engine",
        "Its core went on with the state of another core, which was past this packet: docs/recovery.md.",
    ),
    ("queue-full", "engine", "The port lost the packet before a core saw it: more came than the cores did."),
];

/// Says who drops packets for a reason of this name, and why. Empty where nobody does.
pub fn dropped(name: &str, registry: &Registry) -> Vec<Dropped> {
    let means = |by: &str| {
        // A rule's log has a number of its own.
        let name = if name.starts_with("logged-") { "logged" } else { name };
        let found = REASONS.iter().find(|(reason, of, _)| *reason == name && (of.is_empty() || *of == by));
        found.map_or("The function's own page says when.", |(.., means)| *means)
    };
    let functions = registry.functions().filter(|info| info.about.drop_reasons.contains(&name));
    let mut all: Vec<Dropped> =
        functions.map(|info| Dropped { by: info.about.name, means: means(info.about.name) }).collect();
    if REASONS.iter().any(|(reason, by, _)| *reason == name && *by == "engine") {
        all.push(Dropped { by: "engine", means: means("engine") });
    }
    if name == "malformed" || Malformed::ALL.iter().any(|malformed| malformed.name() == name) {
        let means = "The headers or checksums are wrong or cut off, or a fragment does not fit its datagram, and the chain says \
                     `malformed = \"drop\"`. docs/fragments.md says what is checked when.";
        all.push(Dropped { by: "malformed", means });
    }
    all
}

/// All names of drop reasons: of these functions, and of the engine. Those of malformed packets are left out.
pub fn names(registry: &Registry) -> Vec<&'static str> {
    let of_functions = registry.functions().flat_map(|info| info.about.drop_reasons.iter().copied());
    let of_engine = REASONS.iter().filter(|(_, by, _)| *by == "engine").map(|(reason, ..)| *reason);
    let mut names: Vec<&str> =
        of_functions.filter(|name| !name.starts_with("logged-")).chain(of_engine).collect();
    names.sort_unstable();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A new drop reason needs a line here, and a reason that went away must not stay.
    #[test]
    fn every_drop_reason_is_explained_and_no_other() {
        let registry = stock::registry();
        for info in registry.functions() {
            for reason in info.about.drop_reasons {
                let dropped = dropped(reason, &registry);
                let of_it = dropped.iter().find(|dropped| dropped.by == info.about.name);
                let means = of_it.map(|dropped| dropped.means);
                assert!(
                    means.is_some_and(|means| !means.contains("own page")),
                    "{}: {reason}",
                    info.about.name
                );
            }
        }
        for (reason, by, _) in REASONS {
            let name = if *reason == "logged" { "logged-01" } else { reason };
            let dropped = dropped(name, &registry);
            assert!(dropped.iter().any(|dropped| by.is_empty() || dropped.by == *by), "{reason} of {by}");
        }
        assert_eq!(dropped("udp-checksum", &registry).len(), 1);
        assert_eq!(dropped("fragment", &registry).len(), 3, "of two functions, and of malformed packets");
    }
}

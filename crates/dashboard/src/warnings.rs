//! Sentences about a run: what it does, and what is wrong now.

use crate::view::View;

/// A table so full is near its end.
const NEAR_FULL: f64 = 0.9;

/// A table that is full so soon is worth a warning.
const SOON_SECONDS: f64 = 300.0;

/// A core so busy has no room for a burst.
const BUSY: f64 = 0.95;

/// Something that is wrong now.
#[derive(Clone, Debug, PartialEq)]
pub struct Warning {
    /// What it is about, with no number in it: as long as this is there, it is one warning.
    pub what: String,
    /// What is wrong, in a sentence.
    pub text: String,
}

impl Warning {
    fn new(what: String, text: String) -> Warning {
        Warning { what, text }
    }
}

/// What is wrong now. Packets that a function drops by its rules are its work, and no warning.
pub fn find(view: &View) -> Vec<Warning> {
    let mut found = Vec::new();
    for interface in view.interfaces.iter().filter(|interface| interface.lost_per_s > 0.0) {
        let why =
            interface.lost_most.as_deref().map_or_else(String::new, |why| format!(", most of all for {why}"));
        let (name, lost) = (&interface.name, rate(interface.lost_per_s));
        found.push(Warning::new(
            format!("{name} loses packets"),
            format!("{name} loses {lost} packets/s{why}."),
        ));
    }
    for drop in view.drops.iter().filter(|drop| drop.by == "engine" && drop.per_s > 0.0) {
        let text = match drop.reason.as_str() {
            "queue-full" => format!("{} packets/s found no room in a core's queue.", rate(drop.per_s)),
            _ => format!("{} packets/s are dropped, as edits do not fit their buffers.", rate(drop.per_s)),
        };
        found.push(Warning::new(format!("packets are dropped for {}", drop.reason), text));
    }
    for function in &view.functions {
        let (name, Some(table)) = (&function.name, &function.table) else { continue };
        if table.rejected_per_s > 0.0 {
            let refused = rate(table.rejected_per_s);
            let text = format!("{name} refuses {refused} new flows/s: its table is full.");
            found.push(Warning::new(format!("{name} refuses new flows"), text));
        } else if table.evicted_per_s > 0.0 {
            let evicted = rate(table.evicted_per_s);
            let text =
                format!("{name} forgets {evicted} flows/s to make room for new ones: its table is full.");
            found.push(Warning::new(format!("{name} forgets flows to make room"), text));
        } else {
            let soon = table.full_in_seconds.filter(|seconds| *seconds < SOON_SECONDS);
            let (load, core) = (percent(table.load), table.fullest_core);
            let what = format!("the table of {name} fills up");
            match soon {
                Some(seconds) => found.push(Warning::new(
                    what,
                    format!(
                        "The table of {name} is {load} full on core {core}, and full in {} as it grows.",
                        time(seconds)
                    ),
                )),
                None if table.load >= NEAR_FULL => {
                    found.push(Warning::new(
                        what,
                        format!("The table of {name} is {load} full on core {core}."),
                    ));
                }
                None => (),
            }
        }
    }
    for core in view.cores.iter().filter(|core| core.busy >= BUSY) {
        let number = core.core;
        let text = format!("Core {number} is busy for {} of its time.", percent(core.busy));
        found.push(Warning::new(format!("core {number} is busy all the time"), text));
    }
    if let Some(told) = &view.told
        && let (Some(objective), Some(measured)) = (told.p99_objective_us, told.p99_measured_us)
        && measured > objective
    {
        let text = format!("99% of packets waited up to {measured} us, and may wait {objective} us.");
        found.push(Warning::new("packets wait longer than the objective".to_owned(), text));
    }
    found
}

/// Rate and verdict of a run.
pub fn headline(view: &View) -> String {
    if view.packets == 0 {
        return "No packet has come in yet.".to_owned();
    }
    if view.seconds < 0.5 {
        return "The run has just begun.".to_owned();
    }
    if view.packets_per_s == 0.0 {
        return "No packets come in now.".to_owned();
    }
    let (packets, bits) = (rate(view.packets_per_s), rate(view.bits_per_s));
    let dropped = view.verdicts.iter().find(|verdict| verdict.verdict == "drop");
    let dropped = dropped.map_or(0.0, |dropped| dropped.per_s);
    let verdict = match view.drops.first().filter(|_| dropped > 0.0) {
        None => "nothing is dropped".to_owned(),
        Some(most) => {
            let share = percent((dropped / view.packets_per_s).min(1.0));
            let all = if most.per_s >= dropped { "all" } else { "most" };
            format!("{share} is dropped, {all} of it for {} by {}", most.reason, most.by)
        }
    };
    format!("{packets} packets/s, {bits}bit/s; {verdict}.")
}

/// A number with three digits and a prefix: 1.23 M.
fn rate(number: f64) -> String {
    let (scaled, prefix) = match number {
        n if n >= 1e9 => (n / 1e9, "G"),
        n if n >= 1e6 => (n / 1e6, "M"),
        n if n >= 1e3 => (n / 1e3, "k"),
        n => (n, ""),
    };
    let digits = if scaled >= 100.0 || (prefix.is_empty() && scaled.fract() == 0.0) {
        0
    } else if scaled >= 10.0 {
        1
    } else {
        2
    };
    format!("{scaled:.digits$} {prefix}").trim_end().to_owned()
}

/// A share without a digit too many: neither 0% of something nor 100% of not all.
fn percent(share: f64) -> String {
    match 100.0 * share {
        percent if percent > 0.0 && percent < 0.1 => "less than 0.1%".to_owned(),
        percent if percent < 10.0 => format!("{percent:.1}%"),
        percent if percent < 100.0 && percent > 99.0 => format!("{:.1}%", (percent * 10.0).floor() / 10.0),
        percent => format!("{percent:.0}%"),
    }
}

fn time(seconds: f64) -> String {
    if seconds < 100.0 { format!("{seconds:.0} s") } else { format!("{:.0} min", seconds / 60.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_at_most() {
        let of = [0.3, 7.0, 12.34, 999.0, 1_234.0, 45_600.0, 1_230_000.0, 2.5e9].map(rate);
        assert_eq!(of, ["0.30", "7", "12.3", "999", "1.23 k", "45.6 k", "1.23 M", "2.50 G"]);
        let of = [0.0, 0.0004, 0.09, 0.42, 0.9996, 1.0].map(percent);
        assert_eq!(of, ["0.0%", "less than 0.1%", "9.0%", "42%", "99.9%", "100%"]);
    }
}

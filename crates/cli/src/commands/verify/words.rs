//! Promises and answers in words.

use engine::{Answer, Chain, Plan, SharedCheck};
use io::{EngineDrop, Fate};
use nf::WhenShared;

// What became of packets of a function that allocates, before a judge of each run.
pub const RENAMED: &str = "compared with what it allocated renamed";
pub const ALONE: &str = "judged alone: in the other run what they are for is another's, or nobody's";
pub const TOUCHED: &str = "not compared: packets judged alone had come for the same inside end";
pub const IN_FLIGHT: &str = "not compared: right in either order of packets in flight";
pub const REFUSED: &str = "refused in one run alone, whose pool was empty";
pub const UNATTRIBUTED: &str = "not judged: they may have ended before they came to it";

/// What keeps a promise of a function from holding, in words; `None` if it holds.
pub fn found(failure: Option<&str>, excused: Option<&str>) -> Option<String> {
    match (failure, excused) {
        (Some(failure), _) => Some(format!("BROKEN: {failure}")),
        (None, Some(why)) => Some(format!("not held, its table was full: {why}")),
        (None, None) => None,
    }
}

/// What a function promises that is not compared packet by packet, in words.
pub fn promise(plan: &Plan, check: &SharedCheck) -> String {
    match (check.promise, &check.behind) {
        (Some(WhenShared::Totals), _) => "totals equal".to_owned(),
        (Some(WhenShared::Bound { .. }), _) => "never above the rate, and its rate less one burst".to_owned(),
        (None, Some(editor)) => format!("not compared: it sees what `{editor}` edits, which is not promised"),
        (None, None) => format!("not compared: {} promises nothing of it", plan.strategy.name()),
    }
}

/// An answer in words; where only bytes differ, the first of them.
pub fn describe(chain: &Chain, answer: &Answer, other: &Answer) -> String {
    let fate = fate(chain, answer.fate);
    if answer.fate != other.fate {
        return fate;
    }
    let (a, b) = (&answer.bytes, &other.bytes);
    let differs = a.iter().zip(b).position(|(a, b)| a != b).unwrap_or(a.len().min(b.len()));
    let end = a.len().min(differs + 8);
    let shown: Vec<_> = a[differs..end].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{fate}, {} bytes, from byte {differs}: {}", a.len(), shown.join(" "))
}

fn fate(chain: &Chain, fate: Fate) -> String {
    match fate {
        Fate::Forward => "forward".to_owned(),
        Fate::TransmitBack => "transmit back".to_owned(),
        Fate::Host => "pass to the host".to_owned(),
        Fate::Drop(EngineDrop::Malformed) => "drop: malformed".to_owned(),
        Fate::Drop(EngineDrop::NoRoom) => "drop: no room for its edits".to_owned(),
        Fate::Drop(EngineDrop::NotTaken) => "drop: its history was not taken".to_owned(),
        Fate::Drop(EngineDrop::Overtaken) => "drop: its core went on with the state of another".to_owned(),
        Fate::DropBy { function, reason } => {
            let spec = chain.functions.get(usize::from(function));
            let name = spec.map_or("?", |spec| spec.name.as_str());
            let reasons = spec.map_or(&[][..], |spec| spec.function.info().about.drop_reasons);
            format!("drop by {name}: {}", reasons.get(usize::from(reason)).unwrap_or(&"unnamed"))
        }
    }
}

//! What was found, for the terminal.

use engine::report::{ChangesReport, HistoryReport, MovesReport, ReloadReport, hex};
use engine::strategies::States;
use engine::{
    AllocationEvent, Answered, Broken, Chain, HistoryCheck, Judged, Mismatch, Plan, SharedCheck, Uncompared,
    Verified, Wrong,
};

use super::words::{self, describe, promise};
use crate::output::{count, plural, table};

/// The outcome, what differs, what is not promised, and each function's state.
pub fn render(chain: &Chain, plan: &Plan, verified: &Verified) -> String {
    let strategy = plan.strategy.name();
    let simulated = plan.simulation.map(|seed| format!(", simulated with seed {seed},")).unwrap_or_default();
    let on_cores = format!("{strategy} on {}{simulated}", plural(plan.cores as u64, "core"));
    if verified.stopped {
        let compared = match verified.packets {
            0 => "no packet was compared".to_owned(),
            packets => format!(
                "of {} compared, {} had another answer",
                plural(packets, "packet"),
                if verified.different == 0 { "none".to_owned() } else { count(verified.different) }
            ),
        };
        return format!("{}: {on_cores} INTERRUPTED: nothing is proved; {compared}\n", chain.name);
    }
    if verified.packets == 0 {
        let cores = verified.history.iter().flat_map(|check| &check.outcome.cores);
        let why = match (verified.oddities.lost, cores.flat_map(|core| core.rejected).sum()) {
            (1.., _) => "every packet was lost on the way, as --loss asks",
            (0, 0_u64) => "the input has no packets",
            _ => "every packet was dropped for its history",
        };
        return format!("{}: nothing to compare: {why}\n", chain.name);
    }
    if !verified.has_compared() && verified.is_same() {
        return format!(
            "{}: {on_cores}: nothing to compare with single\n\n{}",
            chain.name,
            shared_rows(plan, verified)
        );
    }
    let is_same = verified.is_same();
    let up_to = up_to(plan, verified);
    let partly = match &verified.input_error {
        Some(_) => " up to the end of the input, which is cut short",
        None => "",
    };
    let mut text = format!(
        "{}: {on_cores} {} single{}{partly}\n",
        chain.name,
        if is_same { "EQUALS" } else { "DIFFERS FROM" },
        if is_same { &*up_to } else { "" },
    );
    text += &match verified.different {
        0 => format!(
            " {}: every verdict and every byte sent is the same{}\n",
            plural(verified.packets, "packet"),
            if up_to.is_empty() { "" } else { ", but for that" }
        ),
        different => {
            format!(" {} of {} have another answer\n", count(different), plural(verified.packets, "packet"))
        }
    };
    if let Some(first) = &verified.first {
        text += &mismatch(chain, strategy, first);
    }
    for reloaded in &verified.reloads {
        text += &format!(" {}\n", ReloadReport::new(reloaded).text().trim_end().replace('\n', "\n "));
    }
    text += &order(plan, verified);
    text += &verified.history.as_ref().map(history).unwrap_or_default();
    text += &verified.answered.map(answered).unwrap_or_default();
    verified.judged.iter().for_each(|judged| text += &self::judged(judged));
    for Uncompared { function, packets } in &verified.uncompared {
        let packets = plural(*packets, "packet");
        let help = if verified.answered.is_none() { "; --answer leaves out those from outside" } else { "" };
        text += &format!(
            " note: the state of {function} is not compared: {packets} judged alone, or right in either order, came to it, or had \
             others answered otherwise{help}\n"
        );
    }
    text += &full(plan, verified);
    text += &allocation_events(strategy, verified);
    for oddity in verified.oddities.sentences() {
        text += &format!(" note: {oddity}\n");
    }
    for Broken { function, strategy, message } in &verified.broken {
        text += &format!(" BROKEN under {strategy}: {function}: {message}\n");
    }
    if !verified.shared.is_empty() {
        text += &format!("\n{}", shared_rows(plan, verified));
    }
    let rows: Vec<_> = verified
        .digests
        .iter()
        .map(|(name, single, other)| {
            let same = if single == other { "same" } else { "DIFFERENT" };
            vec![name.clone(), hex(*single), hex(*other), same.to_owned()]
        })
        .collect();
    if rows.is_empty() {
        return text;
    }
    text + "\n" + &table(&["state of", "single", strategy, ""], &rows, 4)
}

/// Tables that were full and pools that were empty: what that means for the comparison.
fn full(plan: &Plan, verified: &Verified) -> String {
    let note = |names: &[String], what: &str, help: &str| match names {
        [] => String::new(),
        // Each replica's table is full, and its pool empty, when the single core's is.
        _ if plan.states == States::Replicated => {
            format!(" note: {what}; what it turned away was held to be the same\n")
        }
        _ if plan.is_striped() => {
            format!(" note: {what}; what it turned away is not held to anything, all else is: {help}\n")
        }
        _ if verified.is_told => {
            format!(
                " note: {what}; single turned away what it turned away, and all else was held to be the same\n"
            )
        }
        _ if verified.is_same() => format!(" note: {what}; all was the same even so\n"),
        _ => format!(" note: {what}, which is no reason for what differs\n"),
    };
    let table = format!("the table of {} was full at some time", verified.filled.join(", "));
    let ports = format!("{} ran out of ports at some time", verified.exhausted.join(", "));
    note(&verified.filled, &table, "raise `flows`")
        + &note(
            &verified.exhausted,
            &ports,
            "each core has its share; give it more ports, or more addresses in `external`",
        )
}

/// What judges had to say of a function that allocates, and what was compared without it.
fn judged(judged: &Judged) -> String {
    let Judged { function, not_judged, renamed, alone, in_flight, refused, unattributed, wrong, touched } =
        judged;
    if let Some(why) = not_judged {
        return format!(
            " note: {function} was not judged, because {why}: what it allocates is compared with nothing\n"
        );
    }
    let mut text = String::new();
    for Wrong { strategy, count: answers, first } in wrong {
        let answers = plural(*answers, "answer");
        text += &format!(" WRONG under {strategy}: {function}: {answers}, the first: {first}\n");
    }
    let notes = [
        (*renamed, words::RENAMED),
        (*alone, words::ALONE),
        (*touched, words::TOUCHED),
        (*in_flight, words::IN_FLIGHT),
        (*refused, words::REFUSED),
        (*unattributed, words::UNATTRIBUTED),
    ];
    for (packets, what) in notes.iter().filter(|(packets, _)| *packets > 0) {
        text += &format!(" {function}: {} {what}\n", plural(*packets, "packet"));
    }
    text
}

/// Answers that each run got to what it sent. Packets are numbered with them.
fn answered(Answered { answered, unsent, left_out }: Answered) -> String {
    let mut text = format!(
        " answered: {} to what went out, as each run sent it; {} of the capture left out, which answered another run\n",
        plural(answered, "answer"),
        plural(left_out, "packet"),
    );
    if unsent > 0 {
        text += &format!(" not answered: {}, to packets that did not go out\n", plural(unsent, "answer"));
    }
    text
}

/// Events that count what was taken from a pool, and differ.
fn allocation_events(strategy: &str, verified: &Verified) -> String {
    let note = |AllocationEvent { function, event, single, other }: &AllocationEvent| {
        format!(
            " note: {function} counted {event} {} under single and {} under {strategy}: it depends on the share of its pool \
             that each core has, as allocation does\n",
            plural(*single, "time"),
            plural(*other, "time"),
        )
    };
    verified.allocation_events.iter().map(note).collect()
}

/// What was checked of functions that are not compared packet by packet.
fn shared_rows(plan: &Plan, verified: &Verified) -> String {
    let row = |check: &SharedCheck| {
        let found = words::found(check.failure.as_deref(), check.excused.as_deref());
        vec![check.function.clone(), found.unwrap_or_else(|| promise(plan, check))]
    };
    let rows: Vec<_> = verified.shared.iter().map(row).collect();
    table(&["shared by all cores", "what holds"], &rows, 2)
}

/// In what the answers may differ and be right.
fn up_to(plan: &Plan, verified: &Verified) -> String {
    let named = |names: Vec<String>| -> String {
        names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
    };
    let mut parts = Vec::new();
    if verified.is_told && !verified.filled.is_empty() {
        parts.push(format!("which flows the full table of {} turns away", named(verified.filled.clone())));
    }
    if verified.is_told && !verified.exhausted.is_empty() {
        parts.push(format!("who gets nothing from the empty pool of {}", named(verified.exhausted.clone())));
    }
    if verified.is_up_to_allocation() {
        let judged = verified.judged.iter().filter(|judged| judged.not_judged.is_none());
        let judged = judged.map(|judged| judged.function.clone());
        let names = verified.allocated.iter().map(|(name, _)| name.clone()).chain(judged).collect();
        parts.push(format!("allocation by {}", named(names)));
    }
    if !plan.shared.is_empty() {
        let names = verified.shared.iter().map(|check| check.function.clone()).collect();
        parts.push(format!("what cores share in {}", named(names)));
    }
    if parts.is_empty() { String::new() } else { format!(" up to {}", parts.join(" and ")) }
}

fn mismatch(chain: &Chain, strategy: &str, first: &Mismatch) -> String {
    let flow = first.flow.map_or("not IP, or malformed".to_owned(), |flow| flow.to_string());
    let width = strategy.len().max("single".len());
    format!(
        " first: packet {} of the capture, {flow}\n  {:width$}  {}\n  {strategy:width$}  {}\n",
        count(first.number),
        "single",
        describe(chain, &first.single, &first.other),
        describe(chain, &first.other, &first.single),
    )
}

/// What was lost of packets that came with history, and what the replicas did about it.
fn history(check: &HistoryCheck) -> String {
    let mut text = String::new();
    if check.lost_to_all > 0 {
        text += &format!(" {} lost to all cores, and stepped by none\n", plural(check.lost_to_all, "packet"));
    }
    if check.diverged() > 0 {
        text += &format!(
            " REPLICAS DIVERGED: {} missed by a core and stepped by another; recovery is off\n",
            plural(check.diverged(), "packet")
        );
    }
    text + &HistoryReport::new(&check.outcome).to_string()
}

/// The order in which packets left, and what went from core to core.
fn order(plan: &Plan, verified: &Verified) -> String {
    let mut text = match verified.out_of_order {
        Some(0) => " of each flow, packets left in the order in which they came\n".to_owned(),
        Some(packets) => format!(" {} left after a later one of their flow\n", plural(packets, "packet")),
        None => String::new(),
    };
    if let Some(moves) = MovesReport::new(plan, &verified.moves) {
        moves.text().lines().for_each(|line| text += &format!(" {line}\n"));
    }
    if let Some(changes) = ChangesReport::new(&verified.changes) {
        changes.summary().lines().for_each(|line| text += &format!(" {line}\n"));
    }
    text
}

#[cfg(test)]
mod tests {

    use super::super::report::VerifyReport;
    use super::*;

    #[test]
    fn an_interrupted_comparison_proves_nothing() {
        let chain =
            Chain::parse("a.toml", "[[function]]\nuse = \"ddos\"\n", &stock::registry()).expect("a chain");
        let plan = Plan::new(&chain, engine::strategies::RSS, 2).expect("a plan");
        for different in [0, 3] {
            let verified = Verified {
                packets: 9,
                different,
                first: None,
                digests: Vec::new(),
                uncompared: Vec::new(),
                shared: Vec::new(),
                allocated: Vec::new(),
                allocation_events: Vec::new(),
                judged: Vec::new(),
                broken: Vec::new(),
                filled: Vec::new(),
                exhausted: Vec::new(),
                oddities: engine::Oddities::default(),
                out_of_order: Some(0),
                moves: engine::Moves::default(),
                reloads: Vec::new(),
                changes: engine::strategies::Changes::default(),
                input_error: None,
                stopped: true,
                history: None,
                answered: None,
                is_told: false,
            };
            let text = render(&chain, &plan, &verified);
            assert!(text.contains("INTERRUPTED: nothing is proved; of 9 packets compared, "), "{text}");
            assert!(!text.contains("EQUALS") && !text.contains("DIFFERS"), "{text}");
            assert!(!VerifyReport::new(&chain, &plan, &verified).holds);
        }
    }
}

//! Functions whose answers depend on how a pool is shared out: a judge of each run says whether they are right, and what
//! they gave out is renamed before runs are compared.

use std::collections::HashSet;

use io::capture::Record;
use io::{EngineDrop, Fate, REPLAY_FRAMES_MAX};
use nf::{Counted, Hearing, Judge, Left, Passage, Ruling};
use table::WhenFull;
use wire::{Fields, Headers, Marks};

use crate::chain::Chain;
use crate::executor::outcome::RunOutcome;
use crate::executor::seen::Seen;
use crate::strategies::plan::{Plan, States};
use crate::verify::answering::Responds;
use crate::verify::compare::stages;
use crate::verify::promises::allocates_otherwise;
use crate::verify::verified::{Judged, Wrong};

/// Which function of a chain is judged, and which are not.
#[derive(Debug)]
pub(super) struct Docket {
    /// The function's place in the chain.
    pub(super) judged: Option<usize>,
    /// Places of functions that allocate and are not judged, with why.
    not_judged: Vec<(usize, String)>,
    /// Whether the runs may allocate otherwise, so that what they compare is renamed.
    pub(super) renames: bool,
    /// Whether functions beside the one that is judged have states.
    has_states_beside: bool,
}

/// Allocations that packets judged alone were for in one run or the other: what functions beside the judged one know of
/// their flows need not be the same any more. And those that such packets, or packets in flight, were sent by: where one run lets a
/// hairpinned packet in and the other does not, its sender's allocation lives on, or is made, in one alone.
#[derive(Clone, Debug, Default)]
pub(super) struct Reached {
    has_states_beside: bool,
    allocations: HashSet<u32>,
}

/// What is remembered of a packet of the first run, beside its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Named {
    own: u32,
    meant: u32,
    /// A hash of its bytes as they were.
    bytes: u32,
    in_flight: bool,
    /// Refused, since the pool was empty.
    refused: bool,
}

/// What two rulings on one packet make of the comparison of its answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparable {
    /// Alike have to be: what it is for, and its answers.
    Yes,
    /// What its sender has was made for another packet in the other run: it differs.
    OtherLife,
    /// No: it means another allocation in the other run, or is right in either order of packets in flight.
    No,
}

/// One run before its judge.
pub(super) struct Trial<'a> {
    chain: &'a Chain,
    index: usize,
    judge: Box<dyn Judge>,
    /// Whether the function's table evicts.
    evicts: bool,
    heard: Heard,
}

/// What a judge had to say of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Heard {
    wrong: u64,
    first: Option<String>,
    /// Packets of which nobody can tell whether they came to the function.
    unattributed: u64,
}

/// What came of comparing two judged runs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    renamed: u64,
    alone: u64,
    touched: u64,
    in_flight: u64,
    refused: u64,
    /// Those of `alone` and `in_flight` that were sent by an allocation in one run or the other.
    sent_apart: u64,
}

impl Docket {
    pub(super) fn of(chain: &Chain, plan: &Plan, is_reloaded: bool) -> Docket {
        let renames = allocates_otherwise(plan);
        let hearing =
            Hearing { is_divided: false, shares: 1, spreads_by_port: false, evicts: false, in_flight: 0 };
        let mut docket = Docket { judged: None, not_judged: Vec::new(), renames, has_states_beside: false };
        for (index, spec) in chain.functions.iter().enumerate() {
            if spec.function.allocates().is_empty() {
                continue;
            }
            let others = chain.functions.iter().enumerate().filter(|(other, _)| *other != index);
            let ends = Fields::ADDRS | Fields::PORTS | spec.function.allocates();
            let editor =
                others.map(|(_, other)| other).find(|other| other.function.info().edits.intersects(ends));
            let why = match editor {
                _ if plan.shared.contains(&index) => Some("all cores share its states".to_owned()),
                _ if is_reloaded => Some("the chain changes while it runs".to_owned()),
                Some(editor) => Some(format!("`{}` edits addresses and ports, too", editor.name)),
                None if spec.function.judge(hearing).is_none() => Some("it has no judge".to_owned()),
                None => None,
            };
            match why {
                None => docket.judged = Some(index),
                Some(why) => docket.not_judged.push((index, why)),
            }
        }
        let mut beside =
            chain.functions.iter().enumerate().filter(|(index, _)| docket.judged != Some(*index));
        docket.has_states_beside = beside.any(|(_, spec)| spec.function.info().state_bytes > 0);
        docket
    }

    /// Nothing yet.
    pub(super) fn reached(&self) -> Reached {
        Reached { has_states_beside: self.has_states_beside, ..Reached::default() }
    }

    /// In whose place packets are answered instead of those of the capture.
    ///
    /// # Errors
    /// Why in nobody's.
    pub(super) fn responds(&self, chain: &Chain) -> Result<Responds, String> {
        let responds = self.judged.and_then(|index| Responds::in_place_of(chain, index));
        // Backends differ from run to run, and so does what functions beside see of their answers.
        if let (Some(Responds::Behind(_)), [_, _, ..]) = (&responds, &chain.functions[..]) {
            return Err(
                "other functions of the chain would see answers of other backends in each run".to_owned()
            );
        }
        if let Some(responds) = responds {
            return Ok(responds);
        }
        Err(match self.not_judged.first() {
            Some((index, why)) => format!("`{}` was not judged, because {why}", chain.functions[*index].name),
            None => "no function of the chain gives external endpoints out, or rewrites what backends answer in turns"
                .to_owned(),
        })
    }

    /// A run of `plan`; `None` if nothing is judged.
    pub(super) fn trial<'a>(&self, chain: &'a Chain, plan: &Plan) -> Option<Trial<'a>> {
        let index = self.judged?;
        let is_divided = allocates_otherwise(plan);
        let hearing = Hearing {
            is_divided,
            shares: if is_divided { shares(plan) as u64 } else { 1 },
            spreads_by_port: plan.hash_fields.is_some_and(|hashed| hashed.fields() == Fields::SRC_PORT),
            evicts: chain.functions[index].when_full == WhenFull::EvictOldest,
            in_flight: if is_divided { REPLAY_FRAMES_MAX as u64 } else { 0 },
        };
        let (judge, evicts) = (chain.functions[index].function.judge(hearing)?, hearing.evicts);
        Some(Trial { chain, index, judge, evicts, heard: Heard::default() })
    }

    /// What there is to say of functions that allocate.
    pub(super) fn verdicts(
        &self,
        chain: &Chain,
        tally: Tally,
        heard: [(&'static str, Heard); 2],
    ) -> Vec<Judged> {
        let name = |index: usize| chain.functions[index].name.clone();
        let judged = self.judged.map(|index| {
            let unattributed = heard.iter().map(|(_, heard)| heard.unattributed).sum();
            let wrong = heard.into_iter().filter(|(_, heard)| heard.wrong > 0);
            let wrong = wrong.map(|(strategy, Heard { wrong, first, .. })| Wrong {
                strategy,
                count: wrong,
                first: first.unwrap_or_default(),
            });
            let Tally { renamed, alone, touched, in_flight, refused, .. } = tally;
            Judged {
                function: name(index),
                not_judged: None,
                renamed,
                alone,
                touched,
                in_flight,
                refused,
                unattributed,
                wrong: wrong.collect(),
            }
        });
        let unjudged = self.not_judged.iter().filter(|_| self.renames).map(|(index, why)| Judged {
            function: name(*index),
            not_judged: Some(why.clone()),
            ..Judged::default()
        });
        judged.into_iter().chain(unjudged).collect()
    }
}

impl Named {
    pub(super) fn new(ruling: &Ruling, seen: &Seen<'_>, empty: Option<Fate>) -> Named {
        Named {
            own: ruling.own as u32,
            meant: ruling.meant as u32,
            bytes: nf::hash_bytes(seen.bytes, 0) as u32,
            in_flight: ruling.in_flight,
            refused: Some(seen.fate) == empty,
        }
    }
}

impl Tally {
    /// Whether there are packets that each judge alone has said the right answer of.
    pub(super) fn has_apart(self) -> bool {
        self.alone + self.in_flight > 0
    }

    /// Whether a function's state at the end, and what it counted, need not be the same: it sees packets judged alone, or what
    /// was answered otherwise on their account. `index` is its place in the chain, `judged` that of the one with a judge.
    pub(super) fn opens(self, chain: &Chain, index: usize, judged: Option<usize>) -> bool {
        // What comes from outside meets the functions inside of the judged one behind it.
        let is_inside = chain.sides.is_some() && judged.is_some_and(|judged| index < judged);
        // What has no sides keeps states of what answers its own hosts, too.
        let is_inside =
            is_inside || judged == Some(index) && chain.functions[index].function.sides().is_none();
        self.touched + self.sent_apart > 0 || self.alone > 0 && is_inside
    }

    /// Packets that were not compared, since they were judged alone or in flight, or on account of such.
    pub(super) fn apart(self) -> u64 {
        self.alone + self.in_flight + self.touched
    }

    /// Whether two runs made the same of a packet, as far as they have to; `is_same`: their answers are alike.
    pub(super) fn is_same(&mut self, reached: &mut Reached, [one, other]: [Named; 2], is_same: bool) -> bool {
        let Tally { alone, in_flight, .. } = *self;
        let is_comparable = match self.compare(one, other) {
            Comparable::Yes if is_same => return true,
            Comparable::Yes | Comparable::OtherLife => true,
            Comparable::No => false,
        };
        let is_alone = self.alone > alone;
        let is_sent = (is_alone || self.in_flight > in_flight) && one.own.max(other.own) > 0;
        self.sent_apart += u64::from(is_sent);
        let is_excused = reached.tell([one, other], is_alone, is_sent);
        self.touched += u64::from(is_comparable && is_excused);
        !is_comparable || is_excused
    }

    /// Compares what both runs have to say of one packet.
    fn compare(&mut self, first: Named, second: Named) -> Comparable {
        if first.in_flight || second.in_flight {
            self.in_flight += 1;
            return Comparable::No;
        }
        if first.meant != second.meant {
            self.alone += 1;
            return Comparable::No;
        }
        self.refused += u64::from(first.refused != second.refused);
        if first.own != second.own {
            return Comparable::OtherLife;
        }
        self.renamed += u64::from(first.bytes != second.bytes && first.own > 0);
        Comparable::Yes
    }
}

impl Reached {
    /// Whether a packet is of a reached allocation. `is_alone`: it is judged alone, and reaches those that it is for, of which
    /// functions beside know something. `is_sent`: it reaches those that it is sent by.
    fn tell(&mut self, [one, other]: [Named; 2], is_alone: bool, is_sent: bool) -> bool {
        let meant = if self.has_states_beside { [one.meant, other.meant] } else { [0; 2] };
        let of_packet = [one.own, other.own].into_iter().chain(meant).filter(|made| *made > 0);
        let is_reached = is_sent
            || self.has_states_beside && is_alone
            || of_packet.clone().any(|made| self.allocations.contains(&made));
        if is_reached {
            self.allocations.extend(of_packet);
        }
        is_reached
    }
}

impl Trial<'_> {
    /// Judges the next packet of the run, of which the record says how it came.
    pub(super) fn see(&mut self, seen: &Seen<'_>, record: Option<&Record<'_>>) -> Ruling {
        let Some(record) = record else { return Ruling::NONE };
        let headers = self.chain.headers(record.link, record.data, record.wire_len);
        let Some(left) = left(self.chain, self.index, seen, &headers, &mut self.heard.unattributed) else {
            return Ruling::NONE;
        };
        let mut ruling = self.judge.packet(&Passage {
            stamp: seen.stamp,
            link: record.link,
            wire_len: record.wire_len,
            came: record.data,
            left,
        });
        if let Some(why) = &ruling.wrong {
            self.heard.note(|| format!("packet {}: {why}", seen.stamp.seq + 1));
        }
        // What was evicted may by chance be given out again: nobody sees with which packet that began.
        if self.evicts && ruling.own > 0 {
            ruling.own = 1;
        }
        ruling
    }

    /// The run has ended.
    pub(super) fn end(mut self, outcome: &RunOutcome) -> Heard {
        if outcome.stopped || outcome.input_error.is_some() {
            return self.heard;
        }
        let (mut events, mut evicted, mut rejected) = (Vec::new(), 0, 0);
        for stage in stages(outcome, self.index) {
            let counters = stage.counters();
            events.resize(counters.events.len(), 0);
            events.iter_mut().zip(counters.events).for_each(|(sum, count)| *sum += count);
            let flows = counters.flows;
            (evicted, rejected) = match outcome.is_replicated {
                true => (flows.evicted.max(evicted), flows.rejected.max(rejected)),
                false => (flows.evicted + evicted, flows.rejected + rejected),
            };
        }
        for why in self.judge.end(&Counted { events: &events, evicted, rejected }) {
            self.heard.note(|| why);
        }
        self.heard
    }
}

impl Heard {
    fn note(&mut self, why: impl FnOnce() -> String) {
        self.wrong += 1;
        self.first.get_or_insert_with(why);
    }
}

/// How many have a share of a pool each: cores, or entries that go from core to core.
fn shares(plan: &Plan) -> usize {
    match plan.states {
        States::Changing => plan.entries().max(plan.cores),
        _ => plan.owners().map_or(plan.cores, |owners| owners.len()),
    }
}

/// What became of a packet that came to function number `index`; `None` if it did not come there.
fn left<'a>(
    chain: &Chain,
    index: usize,
    seen: &Seen<'a>,
    headers: &Headers,
    unattributed: &mut u64,
) -> Option<Left<'a>> {
    if !headers.is_well_formed() || seen.refused.is_some() {
        return None;
    }
    let is_reversed = chain.sides.is_some() && headers.marks.contains(Marks::FROM_OUTSIDE);
    let is_before = |other: usize| if is_reversed { other > index } else { other < index };
    match seen.fate {
        Fate::Forward => Some(Left::Sent(seen.bytes)),
        Fate::DropBy { function, reason } if usize::from(function) == index => Some(Left::Dropped(reason)),
        Fate::DropBy { function, .. } => (!is_before(usize::from(function))).then_some(Left::Unseen),
        Fate::TransmitBack | Fate::Host => {
            let may_be_before = (0..chain.functions.len()).any(is_before);
            *unattributed += u64::from(may_be_before);
            (!may_be_before).then_some(Left::Unseen)
        }
        Fate::Drop(EngineDrop::NoRoom) => Some(Left::Unseen),
        Fate::Drop(_) => None,
    }
}

#[cfg(test)]
mod tests;

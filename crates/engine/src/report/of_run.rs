//! A run as a report: what each core and each function counted, put together.

use std::collections::BTreeMap;

use nf::WhenShared;
use wire::Malformed;

use crate::chain::{Chain, FunctionSpec, MalformedPolicy};
use crate::executor::oddities::Oddities;
use crate::executor::outcome::RunOutcome;
use crate::executor::publish::UNNAMED;
use crate::path::core::ChainCore;
use crate::path::counters::{CoreCounters, StageCounters};
use crate::path::group::Stage;
use crate::report::changes::ChangesReport;
use crate::report::history::{EgressReport, HistoryReport};
use crate::report::moves::MovesReport;
use crate::report::skipped;
use crate::report::words::{count, plural};
use crate::report::{
    ChecksumReport, CoreReport, Flows, FragmentReport, FunctionSummary, MemoryReport, ReloadReport, Report,
    RunReport, SeedReport, SharedFunction, SidesReport, TimeRanBack, Verdicts, hex,
};
use crate::strategies::plan::Plan;

impl RunReport {
    /// What `outcome` tells. Takes a pass over every table.
    pub fn new(chain: &Chain, plan: &Plan, outcome: &RunOutcome) -> RunReport {
        let cores: Vec<CoreReport> = core_reports(plan, outcome);
        let digests = function_digests(chain, outcome);
        let summary = |(index, digest): (usize, &u64)| function_summary(chain, outcome, index, *digest);
        let functions: Vec<FunctionSummary> = digests.iter().enumerate().map(summary).collect();
        let counted = |count: fn(&CoreCounters) -> u64| -> u64 {
            outcome.cores.iter().map(|(counters, _)| count(counters)).sum()
        };
        let seconds = outcome.elapsed.as_secs_f64();
        let notes = unused(chain, plan).into_iter().chain(filled_by_others(chain, plan, &functions));
        let oddities = Oddities::of(outcome).sentences().into_iter().chain(notes).collect();
        let malformed = malformed(outcome);
        let mut drops = BTreeMap::new();
        for function in &functions {
            for (reason, count) in &function.drops {
                drops.insert(format!("{}/{reason}", function.name), *count);
            }
        }
        if counted(|core| core.dropped_malformed) > 0 {
            let drops_all = chain.malformed == MalformedPolicy::Drop;
            let dropped =
                malformed.iter().filter(|(reason, _)| drops_all || *reason == Malformed::Spoofed.name());
            drops.extend(dropped.map(|(reason, count)| (format!("malformed/{reason}"), *count)));
        }
        let no_room = counted(|core| core.dropped_no_room);
        if no_room > 0 {
            drops.insert("engine/no-room".to_owned(), no_room);
        }
        let error = match (&outcome.input_error, outcome.stopped) {
            (Some(error), _) => Some(error.to_string()),
            (None, true) => Some("interrupted".to_owned()),
            (None, false) => None,
        };
        RunReport {
            paceline: env!("CARGO_PKG_VERSION").to_owned(),
            chain: chain.name.clone(),
            strategy: plan.strategy.name().to_owned(),
            hash_fields: plan
                .hash_fields
                .map(|fields| fields.fields().names().map(str::to_owned).collect())
                .unwrap_or_default(),
            shared_functions: plan.shared.iter().map(|index| shared_function(chain, *index)).collect(),
            seed: SeedReport::new(chain),
            sides: chain.sides.as_ref().map(|sides| SidesReport {
                inside: sides.inside(),
                packets_from_outside: counted(|core| core.from_outside),
            }),
            packets: outcome.packets,
            bytes: counted(|core| core.bytes),
            seconds,
            mpps: if seconds > 0.0 { outcome.packets as f64 / seconds / 1e6 } else { 0.0 },
            verdicts: cores.iter().fold(Verdicts::default(), |sum, core| sum.plus(core.verdicts)),
            drops,
            checksums: ChecksumReport {
                sample: outcome.checksums,
                refused: malformed.iter().filter(|(why, _)| why.ends_with("-checksum")).map(|(_, n)| n).sum(),
                unverifiable: counted(|core| core.unverifiable),
            },
            fragments: FragmentReport {
                policy: chain.fragments,
                refused: malformed.iter().filter(|(why, _)| why.contains("fragment")).map(|(_, n)| n).sum(),
            },
            malformed,
            interfaces: Vec::new(),
            routing: None,
            answers: None,
            cores,
            digest: hex(combined(&digests)),
            functions,
            time_ran_back: TimeRanBack::new(outcome.ran_back),
            has_ip: outcome.has_ip,
            oddities,
            skipped: skipped(&outcome.remarks),
            history: outcome.history.as_ref().map(HistoryReport::new),
            moves: MovesReport::new(plan, &outcome.moves),
            changes: ChangesReport::new(&outcome.changes),
            timeline: None,
            egress: EgressReport::new(&outcome.egress),
            memory: MemoryReport::now(),
            reloads: outcome.reloads.iter().map(ReloadReport::new).collect(),
            complete: error.is_none(),
            error,
        }
    }
}

/// What the chain file says and the strategy does not look at.
fn unused(chain: &Chain, plan: &Plan) -> Option<String> {
    let said = [("`[slo]`", chain.slo.is_some()), ("`[[class]]`", !chain.classes.is_empty())];
    let said: Vec<&str> = said.into_iter().filter_map(|(what, is_said)| is_said.then_some(what)).collect();
    let strategy = plan.strategy.name();
    (plan.shards.is_none() && !said.is_empty()).then(|| {
        format!(
            "{} of the chain file: for strategy `dyssect`, `{strategy}` does not look at it",
            said.join(" and ")
        )
    })
}

/// Functions that found the table full where another, that shares it, has most of it.
fn filled_by_others(chain: &Chain, plan: &Plan, functions: &[FunctionSummary]) -> Vec<String> {
    let note = |group: &[FunctionSummary], refused: &FunctionSummary| {
        let fullest = group.iter().max_by_key(|function| function.flows.live)?;
        let (name, Flows { live, rejected, .. }) = (&refused.name, refused.flows);
        (rejected > 0 && fullest.flows.live > 2 * live).then(|| {
            format!(
                "`{name}` found the table full for {} and has {} in it: it shares the table with `{}`, which has {}",
                plural(rejected, "new flow"),
                count(live),
                fullest.name,
                count(fullest.flows.live)
            )
        })
    };
    let groups = chain.groups_keeping(&plan.keeping()).into_iter().map(|group| &functions[group]);
    groups.flat_map(|group| group.iter().filter_map(move |refused| note(group, refused))).collect()
}

/// The digest of each function's flows, over all cores.
fn function_digests(chain: &Chain, outcome: &RunOutcome) -> Vec<u64> {
    let of = |index| whole(outcome, index).map(|stage| stage.digest(outcome.last)).fold(0, u64::wrapping_add);
    (0..chain.functions.len()).map(of).collect()
}

/// One number for the digests of all functions, in order.
fn combined(digests: &[u64]) -> u64 {
    digests.iter().fold(0, |seed, digest| nf::hash_bytes(&digest.to_le_bytes(), seed))
}

/// The stages that have each flow once.
fn whole(outcome: &RunOutcome, index: usize) -> impl Iterator<Item = Stage<'_>> {
    outcome.whole().iter().map(move |(_, chain): &(_, ChainCore)| chain.stage(index))
}

fn stages(outcome: &RunOutcome, index: usize) -> impl Iterator<Item = Stage<'_>> {
    outcome.cores.iter().map(move |(_, chain): &(_, ChainCore)| chain.stage(index))
}

fn shared_function(chain: &Chain, index: usize) -> SharedFunction {
    let FunctionSpec { name, function, .. } = &chain.functions[index];
    let promise = match function.info().when_shared {
        Some(WhenShared::Bound { .. }) => "bound",
        Some(WhenShared::Totals) => "totals",
        None => "none",
    };
    SharedFunction { function: name.clone(), promise: promise.to_owned() }
}

fn core_reports(plan: &Plan, outcome: &RunOutcome) -> Vec<CoreReport> {
    let flows = |chain: &ChainCore| {
        let own = chain.stages().enumerate().filter(|(index, _)| !plan.shared.contains(index));
        own.map(|(_, stage)| stage.counters().live as u64).sum()
    };
    let report = |(core, (counters, chain)): (usize, &(CoreCounters, ChainCore))| CoreReport {
        core,
        packets: counters.packets,
        bytes: counters.bytes,
        share: counters.packets as f64 / outcome.packets.max(1) as f64,
        busy_seconds: counters.busy_ns as f64 / 1e9,
        verdicts: Verdicts {
            forward: counters.forward,
            drop: counters.dropped_by_function + counters.dropped_malformed + counters.dropped_no_room,
            transmit_back: counters.transmit_back,
            host: counters.host,
        },
        flows: flows(chain),
    };
    outcome.cores.iter().enumerate().map(report).collect()
}

fn malformed(outcome: &RunOutcome) -> BTreeMap<String, u64> {
    let count = |reason: &Malformed| -> u64 {
        outcome.cores.iter().map(|(counters, _)| counters.malformed[*reason as usize - 1]).sum()
    };
    let counts = Malformed::ALL.iter().map(|reason| (reason.name().to_owned(), count(reason)));
    counts.filter(|(_, count)| *count > 0).collect()
}

fn function_summary(chain: &Chain, outcome: &RunOutcome, index: usize, digest: u64) -> FunctionSummary {
    let FunctionSpec { name, function, .. } = &chain.functions[index];
    let info = function.info();
    let mut verdicts = Verdicts::default();
    let mut flows = Flows::default();
    let mut packets = 0;
    let mut drops = BTreeMap::new();
    let mut events = BTreeMap::new();
    for stage in stages(outcome, index) {
        let counters = stage.counters();
        packets += counters.packets;
        verdicts = verdicts.plus(Verdicts {
            forward: counters.forward,
            drop: counters.drops.iter().sum(),
            transmit_back: counters.transmit_back,
            host: counters.host,
        });
        let reasons = info.about.drop_reasons.iter().copied().chain([UNNAMED]);
        add_named(&mut drops, reasons, counters.drops);
        add_named(&mut events, info.about.events.iter().copied(), counters.events);
    }
    whole(outcome, index).for_each(|stage| add_flows(&mut flows, &stage.counters()));
    let hint = function.hint(packets, &drops);
    drops.retain(|_, count| *count > 0);
    let all: Vec<Stage<'_>> = whole(outcome, index).collect();
    let reports = function.report(&all, outcome.last).into_iter().map(Report::from).collect();
    FunctionSummary {
        name: name.clone(),
        packets,
        verdicts,
        drops,
        events,
        flows,
        digest: hex(digest),
        reports,
        hint,
    }
}

fn add_named<'a>(sums: &mut BTreeMap<String, u64>, names: impl Iterator<Item = &'a str>, counts: &[u64]) {
    for (name, count) in names.zip(counts) {
        *sums.entry(name.to_owned()).or_default() += count;
    }
}

fn add_flows(flows: &mut Flows, counters: &StageCounters<'_>) {
    flows.live += counters.live as u64;
    flows.created += counters.flows.created;
    flows.removed += counters.flows.removed;
    flows.expired += counters.flows.expired;
    flows.evicted += counters.flows.evicted;
    flows.rejected += counters.flows.rejected;
    flows.capacity_per_core = counters.capacity as u64;
    flows.load = flows.load.max(counters.live as f64 / counters.capacity.max(1) as f64);
}

//! What the paper measured, as far as it can be measured here: programs, traffic, strategies, cores.

use clap::ValueEnum;
use clap::builder::PossibleValue;
use engine::strategies::{SCR, Strategy, steady};
use engine::{Loss, SequencedAs};
use measure::InPackets;

/// A figure of the paper (State-Compute Replication, NSDI'25).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    SingleFlow,
    Programs,
    Conntrack,
    Compute,
    History,
    Loss,
    Model,
}

/// One comparison: a program over traffic.
#[derive(Clone, Debug)]
pub struct Contestants {
    /// What the program is called, and its chain file.
    pub name: String,
    pub chain: String,
    /// As `paceline generate` takes it.
    pub model: String,
    pub strategies: Vec<&'static dyn Strategy>,
    pub cores: Vec<usize>,
    /// How packets bring their history along; `None`: it is in a log.
    pub history: Option<InPackets>,
    /// What the series is called, where a chart has several of one strategy.
    pub series: Option<&'static str>,
}

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Size<'a> {
    /// Packets of each trace.
    pub packets: usize,
    /// A few programs, models and numbers of cores instead of all.
    pub is_quick: bool,
    /// Numbers of cores; the paper's if there are none.
    pub cores: &'a [usize],
}

/// The paper's programs with the numbers of cores that its packets had room for the history of (§4.2).
const PROGRAMS: [(&str, &[usize]); 5] = [
    ("ddos", &[1, 2, 4, 7, 10, 14]),
    ("heavy-hitters", &[1, 2, 4, 7]),
    ("policer", &[1, 2, 4, 7]),
    (PORT_KNOCK, &[1, 2, 4, 7, 10, 14]),
    (CONNTRACK, &[1, 2, 4, 7]),
];

const CONNTRACK: &str = "conntrack";
const PORT_KNOCK: &str = "port-knock";

const MODELS: [&str; 3] = ["university", "backbone", "datacenter"];

/// Frames without their check sequence; the paper cut packets to these lengths (§4.2).
const FRAME_BYTES: usize = 188;
const CONNTRACK_FRAME_BYTES: usize = 252;
const SHORT_FRAME_BYTES: usize = 60;

/// Accesses of the synthetic function, one after the other, in memory that stays in the first cache.
const ACCESSES: [usize; 6] = [0, 16, 32, 64, 128, 256];

/// Figure 10b: what its series are called, whether losses are recovered, and the share of packets that is lost.
const LOSSES: [(&str, bool, &str); 5] = [
    ("off, 0", false, "0"),
    ("on, 0", true, "0"),
    ("on, 0.01%", true, "0.0001"),
    ("on, 0.1%", true, "0.001"),
    ("on, 1%", true, "0.01"),
];

/// As many as all programs were run on.
const LOSS_CORES: [usize; 4] = [1, 2, 4, 7];

/// Any: the same packets are lost in each run.
const LOSS_SEED: u64 = 1;

impl Figure {
    pub const EACH: [Figure; 7] = [
        Figure::SingleFlow,
        Figure::Programs,
        Figure::Conntrack,
        Figure::Compute,
        Figure::History,
        Figure::Loss,
        Figure::Model,
    ];

    /// Its number in the paper.
    pub fn number(self) -> &'static str {
        self.words().0
    }

    /// What it shows.
    pub fn title(self) -> &'static str {
        self.words().1
    }

    fn words(self) -> (&'static str, &'static str) {
        match self {
            Figure::SingleFlow => ("1", "Throughput of a single TCP connection"),
            Figure::Programs => ("6", "Throughput of four programs"),
            Figure::Conntrack => ("7", "Throughput of the connection tracker"),
            Figure::Compute => ("9", "Growing compute, dispatch as it is"),
            Figure::History => ("10a", "Short packets, on which history weighs most"),
            Figure::Loss => ("10b", "Loss recovery off and on, and packets lost"),
            Figure::Model => ("11", "Predicted and measured throughput of scr"),
        }
    }

    /// What is measured for it.
    pub fn contestants(self, size: &Size<'_>) -> Vec<Contestants> {
        let programs = |is_wanted: fn(&str) -> bool| {
            let programs = PROGRAMS.iter().filter(move |(name, _)| is_wanted(name));
            let some = if size.is_quick { 1 } else { MODELS.len() };
            let all = programs.flat_map(move |program| MODELS[..some].iter().map(|model| (*program, *model)));
            all.map(|((name, cores), model)| contestants(size, name, cores, model, &steady()))
                .collect::<Vec<_>>()
        };
        match self {
            Figure::SingleFlow => {
                let of = |(name, cores): &(&'static str, &[usize])| {
                    contestants(size, name, cores, "single-flow", &steady())
                };
                let is_shown = |(name, _): &&(&str, _)| !size.is_quick || *name == CONNTRACK;
                PROGRAMS.iter().filter(is_shown).map(of).collect()
            }
            Figure::Programs => programs(|name| name != CONNTRACK),
            Figure::Conntrack => programs(|name| name == CONNTRACK),
            Figure::Compute => {
                let some: &[usize] = if size.is_quick { &[0, 32, 256] } else { &ACCESSES };
                some.iter().map(|accesses| synthetic(size, *accesses)).collect()
            }
            Figure::History => {
                let cores = &[1, 2, 4, 7, 9, 11, 14];
                let mut policer = contestants(size, "policer", cores, "university", &steady());
                policer.model = with_frames("university", size.packets, SHORT_FRAME_BYTES);
                vec![policer]
            }
            Figure::Loss => {
                let some = if size.is_quick { 1 } else { PROGRAMS.len() };
                let ported = PROGRAMS.iter().filter(|(name, _)| !size.is_quick || *name == PORT_KNOCK);
                let all =
                    ported.take(some).flat_map(|program| LOSSES.iter().map(move |loss| (program, loss)));
                all.map(|((name, _), loss)| with_losses(size, name, &LOSS_CORES, loss)).collect()
            }
            Figure::Model => {
                let of = |(name, cores): &(&'static str, &[usize])| {
                    contestants(size, name, cores, model_of(name), &[SCR])
                };
                let some = if size.is_quick { 2 } else { PROGRAMS.len() };
                PROGRAMS[..some].iter().map(of).collect()
            }
        }
    }
}

fn contestants(
    size: &Size<'_>,
    program: &str,
    cores: &[usize],
    model: &str,
    strategies: &[&'static dyn Strategy],
) -> Contestants {
    let frame_bytes = if program == CONNTRACK { CONNTRACK_FRAME_BYTES } else { FRAME_BYTES };
    Contestants {
        name: program.to_owned(),
        chain: format!("name = \"{program}\"\n[[function]]\nuse = \"{program}\"\n"),
        model: with_frames(model, size.packets, frame_bytes),
        strategies: strategies.to_vec(),
        cores: cores_of(size, cores),
        history: None,
        series: None,
    }
}

/// The tracker was run over the trace of a data center alone.
fn model_of(program: &str) -> &'static str {
    if program == CONNTRACK { "datacenter" } else { "university" }
}

/// Under `scr`, with history in the packets.
fn with_losses(
    size: &Size<'_>,
    program: &str,
    cores: &[usize],
    (series, has_recovery, share): &(&'static str, bool, &str),
) -> Contestants {
    let model = model_of(program);
    let loss = Loss::new(share.parse().expect("a share"), LOSS_SEED);
    Contestants {
        history: Some(InPackets {
            version: SequencedAs::Newest,
            has_recovery: *has_recovery,
            loss: Some(loss),
        }),
        series: Some(series),
        ..contestants(size, program, cores, model, &[SCR])
    }
}

/// So many accesses to the first cache, under `scr`.
fn synthetic(size: &Size<'_>, accesses: usize) -> Contestants {
    Contestants {
        name: format!("{accesses} accesses"),
        chain: format!(
            "name = \"synthetic\"\n[[function]]\nuse = \"synthetic\"\naccesses = {accesses}\nbytes = 16384\n"
        ),
        model: with_frames("university", size.packets, FRAME_BYTES),
        strategies: vec![SCR],
        cores: cores_of(size, &[1, 2, 4, 7]),
        history: None,
        series: None,
    }
}

fn with_frames(model: &str, packets: usize, frame_bytes: usize) -> String {
    format!("{model}:packets={packets},sizes=fixed:{frame_bytes}")
}

fn cores_of(size: &Size<'_>, papers: &[usize]) -> Vec<usize> {
    match (size.cores, size.is_quick) {
        ([], false) => papers.to_vec(),
        ([], true) => vec![1, 4],
        (asked, _) => asked.to_vec(),
    }
}

impl ValueEnum for Figure {
    fn value_variants<'a>() -> &'a [Self] {
        &Figure::EACH
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.number()).help(self.title()))
    }
}

#[cfg(test)]
mod tests {
    use engine::Chain;
    use traffic::Model;

    use super::*;

    #[test]
    fn each_chain_and_each_model_can_be_read() {
        for is_quick in [false, true] {
            let size = Size { packets: 1_000, is_quick, cores: &[] };
            for contestants in Figure::EACH.iter().flat_map(|figure| figure.contestants(&size)) {
                let chain = Chain::parse("preset", &contestants.chain, &stock::registry());
                assert!(chain.is_ok(), "{}", contestants.chain);
                Model::parse(&contestants.model).expect("a model");
                assert!(contestants.cores.contains(&1) && contestants.strategies.contains(&SCR));
            }
        }
    }

    #[test]
    fn the_papers_grid() {
        let count = |figure: Figure, is_quick| {
            figure.contestants(&Size { packets: 1_000, is_quick, cores: &[] }).len()
        };
        assert_eq!(Figure::EACH.map(|figure| count(figure, false)), [5, 12, 3, 6, 1, 25, 5]);
        assert_eq!(Figure::EACH.map(|figure| count(figure, true)), [1, 4, 1, 3, 1, 5, 2]);
        let asked = Size { packets: 1_000, is_quick: false, cores: &[1, 3] };
        assert!(Figure::Programs.contestants(&asked).iter().all(|one| one.cores == [1, 3]));
    }
}

//! The settings of comparisons: tables, strategy, cores, and what is done to the strategy.

use std::fmt;

use engine::strategies::{RSSPP, SCR, Strategy};
use engine::{
    Beside, Chain, ExternalInput, ExternalPackets, Loss, LossShare, Plan, PlanError, Progress, Recovery,
    SequencedAs, Verified, VerifyError, verify_external,
};
use strategy::{Every, Rebalancing};
use table::WhenFull;

use crate::Capture;

/// How large the tables of a chain are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tables {
    /// As the chain says.
    AsWritten,
    /// All of one size.
    Of {
        /// Flows that each core's table holds.
        flows: usize,
        /// What happens when there are more.
        when_full: WhenFull,
    },
}

/// A strategy, with what is done to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Way {
    /// The strategy that is compared with `single`.
    pub strategy: &'static dyn Strategy,
    /// Under `rsspp` and `dyssect`: entries or shards move every so many packets, whatever the loads; `None`: as the loads
    /// ask for.
    pub move_every: Option<u64>,
    /// Under `scr`: packets come with their history from a sequencer outside, and this share of them is lost.
    pub loss: Option<LossShare>,
    /// Whether cores take turns on one thread, in an order that the setting's seed draws: see [`Plan::simulation`].
    pub is_simulated: bool,
}

impl Way {
    /// The strategy as it is.
    pub fn plain(strategy: &'static dyn Strategy) -> Way {
        Way { strategy, move_every: None, loss: None, is_simulated: false }
    }

    /// `rsspp` with forced moves every so many packets.
    pub fn moving(packets: u64) -> Way {
        Way::plain(RSSPP).forced(packets)
    }

    /// This way with forced moves every so many packets.
    pub fn forced(self, packets: u64) -> Way {
        Way { move_every: Some(packets), ..self }
    }

    /// `scr` behind a sequencer outside, with losses on the way.
    pub fn lossy(share: LossShare) -> Way {
        Way { loss: Some(share), ..Way::plain(SCR) }
    }
}

/// Under what one comparison runs, beside chain and capture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    /// How large the tables are.
    pub tables: Tables,
    /// The strategy.
    pub way: Way,
    /// Its cores.
    pub cores: usize,
    /// What the tables' hashes begin with, and what losses and the turns of simulated cores are drawn from.
    pub seed: u64,
}

/// All settings that a sweep goes through: each of the tables with each of the ways and numbers of cores.
#[derive(Clone, Debug)]
pub struct Matrix {
    /// How large the tables are.
    pub tables: Vec<Tables>,
    /// The strategies.
    pub ways: Vec<Way>,
    /// Numbers of cores.
    pub cores: Vec<usize>,
}

impl Matrix {
    /// Each setting, with this seed.
    pub fn settings(&self, seed: u64) -> Vec<Setting> {
        let mut settings = Vec::new();
        for tables in &self.tables {
            for way in &self.ways {
                let of = |cores: &usize| Setting { tables: *tables, way: *way, cores: *cores, seed };
                settings.extend(self.cores.iter().map(of));
            }
        }
        settings
    }
}

impl Setting {
    /// This setting with cores that take turns on one thread.
    pub fn simulated(self) -> Setting {
        Setting { way: Way { is_simulated: true, ..self.way }, ..self }
    }

    /// The chain with these tables.
    pub fn chain(&self, chain: &Chain) -> Chain {
        let chain = Chain { table_seed: self.seed, ..chain.clone().with_seed(self.seed) };
        match self.tables {
            Tables::AsWritten => chain,
            Tables::Of { flows, when_full } => chain.with_flows(flows, when_full),
        }
    }

    /// The plan for such a chain.
    ///
    /// # Errors
    /// The chain cannot run so.
    pub fn plan(&self, chain: &Chain) -> Result<Plan, PlanError> {
        let plan = Plan::new(chain, self.way.strategy, self.cores)?;
        let plan = Plan { simulation: self.way.is_simulated.then_some(self.seed), ..plan };
        let Some(packets) = self.way.move_every else { return Ok(plan) };
        let rebalancing = Some(Rebalancing { every: Every::Packets(packets), update_latency_ns: 0 });
        Ok(Plan { rebalancing, ..plan })
    }

    /// Bytes that all tables of a comparison take, both sides together.
    pub fn table_bytes(&self, chain: &Chain) -> u64 {
        chain.table_bytes(self.cores, &[]).saturating_add(chain.table_bytes(1, &[]))
    }

    /// Compares with `single`. `chain` is what [`Setting::chain`] made.
    ///
    /// # Errors
    /// [`VerifyError`]. Different answers are no error but a result.
    pub fn verify(
        &self,
        chain: &Chain,
        capture: &Capture,
        progress: &Progress,
    ) -> Result<Verified, VerifyError> {
        self.verify_beside(&mut Beside::default(), chain, capture, progress)
    }

    /// Compares with `single` as [`Setting::verify`] does, beside what `single` made of the same chain and capture
    /// under another setting, if that is known.
    fn verify_beside(
        &self,
        beside: &mut Beside,
        chain: &Chain,
        capture: &Capture,
        progress: &Progress,
    ) -> Result<Verified, VerifyError> {
        let plan = self.plan(chain)?;
        let Some(share) = self.way.loss else {
            return beside.verify(chain, &plan, &|| Ok(capture.open()), progress);
        };
        let open = || {
            Ok(ExternalInput {
                packets: ExternalPackets::Capture(capture.open().into(), SequencedAs::Newest),
                speed: None,
                loss: Some(Loss::new(share, self.seed)),
                recovery: Recovery::On,
            })
        };
        verify_external(chain, &plan, &open, progress)
    }

    /// This setting as options of `paceline verify`.
    pub fn options(&self) -> Vec<String> {
        let mut options = vec!["--strategy".to_owned(), self.way.strategy.name().to_owned()];
        let mut add = |name: &str, value: String| options.extend([name.to_owned(), value]);
        add("--cores", self.cores.to_string());
        if let Some(packets) = self.way.move_every {
            add("--move-every", packets.to_string());
        }
        if let Some(share) = self.way.loss {
            add("--sequencer", "external".to_owned());
            add("--loss", share.to_string());
            add("--loss-seed", self.seed.to_string());
        }
        if self.way.is_simulated {
            add("--simulate", self.seed.to_string());
        }
        if let Tables::Of { flows, when_full } = self.tables {
            add("--flows", flows.to_string());
            add("--table-full", when_full.name().to_owned());
        }
        add("--seed", self.seed.to_string());
        add("--table-seed", self.seed.to_string());
        options
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {} cores", self.way.strategy.name(), self.cores)?;
        if let Some(packets) = self.way.move_every {
            write!(f, ", moves every {packets} packets")?;
        }
        if let Some(share) = self.way.loss {
            write!(f, ", loss {share}")?;
        }
        if self.way.is_simulated {
            write!(f, ", simulated with seed {}", self.seed)?;
        }
        match self.tables {
            Tables::AsWritten => Ok(()),
            Tables::Of { flows, when_full } => write!(f, ", tables of {flows}, {}", when_full.name()),
        }
    }
}

/// One comparison, as [`verify_each`] shows it.
pub struct Compared<'a> {
    /// The chain with the setting's tables.
    pub chain: &'a Chain,
    /// The capture's name.
    pub name: &'a str,
    /// The capture.
    pub capture: &'a Capture,
    /// Under what it ran.
    pub setting: Setting,
    /// What came out.
    pub verified: Verified,
}

/// Compares a chain over each capture under each setting, one after another, and shows each to `see`: for tests, which
/// hold what came out to more than [`sweep`](crate::sweep()) does.
///
/// # Panics
/// If a comparison cannot be made.
pub fn verify_each(
    chain: &Chain,
    captures: &[(String, Capture)],
    settings: &[Setting],
    see: &mut dyn FnMut(&Compared<'_>),
) {
    for (name, capture) in captures {
        let (mut beside, mut of) = (Beside::default(), None);
        for setting in settings {
            // `single` makes the same of the same tables, whatever it is compared with.
            if of.replace((setting.tables, setting.seed)) != Some((setting.tables, setting.seed)) {
                beside = Beside::default();
            }
            let chain = &setting.chain(chain);
            let verified = setting.verify_beside(&mut beside, chain, capture, &Progress::default());
            let verified = verified.unwrap_or_else(|error| panic!("{}: {setting}: {error}", chain.name));
            see(&Compared { chain, name, capture, setting: *setting, verified });
        }
    }
}

impl fmt::Display for Compared<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} under {} over {}", self.chain.name, self.setting, self.name)
    }
}

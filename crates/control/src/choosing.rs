//! Which strategy runs a chain, and on how many cores: decided anew at the end of each epoch, from what was measured in it.
//!
//! ```text
//!   loads by entry ──► shares of the busiest core ─┐
//!   busy time of cores ──► costs of a packet ──────┴─► rate of each choice ──► worth ──► one much better, for long: change
//! ```
//!
//! Rates are those of the model that `paceline plan` has ([`Costs`], [`busiest_shares`]). The same measurements lead to the
//! same decisions.

use std::fmt;

use crate::rates::{self, Learning, Load, RateModel};
use crate::relief::replay_sixteenths;
use crate::throughput::Costs;

/// A way to run a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// What the strategy is expected to do.
    pub model: &'static RateModel,
    /// On how many cores.
    pub cores: usize,
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.model.name, self.cores)
    }
}

/// What a core did in an epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Packets of its own.
    pub packets: u64,
    /// Time that it spent on them, and on those of others.
    pub busy_ns: u64,
}

/// An epoch, beside what each core did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// How long it was.
    pub elapsed_ns: u64,
    /// Packets that found no room where they were to wait for the cores.
    pub lost: u64,
}

/// A change that is decided on, and why.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decision {
    /// What ran.
    pub from: Choice,
    /// What is to run.
    pub to: Choice,
    /// The rate predicted for what ran, million packets per second.
    pub from_mpps: f64,
    /// The rate predicted for what is to run.
    pub to_mpps: f64,
    /// What a packet costs its core, ns.
    pub packet_ns: f64,
    /// What a packet of another core costs a replica, ns.
    pub replay_ns: f64,
    /// Whether that was measured; else it is a guess.
    pub has_measured_replay: bool,
    /// Share of the busiest core, of as many cores as are to run, if a hash picked the core.
    pub busiest_share: f64,
}

/// What an epoch came to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Epoch {
    /// The rate at which the busiest core would have had no pause, million packets per second; `None` of an epoch with too
    /// few packets to tell.
    pub measured_mpps: Option<f64>,
    /// What is to change.
    pub decision: Option<Decision>,
}

/// A change has to promise so much more, as a share.
const GAIN: f64 = 0.05;

/// For so many epochs, one after the other.
const LASTING: u32 = 3;

/// What a core more has to add at least, as a share: else it is better left to others.
const CORE: f64 = 0.005;

/// Epochs with fewer packets say nothing.
const PACKETS: u64 = 1_000;

/// What a packet of another core costs as long as nobody has measured it, as a share of what one's own costs: as much as that of
/// functions in the paper's Table 4 that cost most (SCR, NSDI'25).
const REPLAY: f64 = 0.28;

/// Packets of other cores that `hybrid` has cores step for each packet, from which on it is told what one costs.
const REPLAYS: f64 = 0.25;

/// Where more packets are lost than this share cores could do no more than they did, even if they paused: packets, or
/// moved flows, come in bursts that queues do not hold.
const LOST: f64 = 0.01;

/// A sequencer's time for a packet, ns, which nobody measures while a run goes on: in the table of `docs/scr.md` it is 27 to 41.
const SEQUENCER_NS: f64 = 35.0;

/// Costs that only those know who have measured them beforehand: see [`Costs`].
#[derive(Clone, Copy, Debug)]
struct Beside {
    carry_ns: f64,
    sequencer_ns: f64,
}

impl Default for Beside {
    fn default() -> Beside {
        Beside { carry_ns: 0.0, sequencer_ns: SEQUENCER_NS }
    }
}

/// Decides.
#[derive(Clone, Debug)]
pub struct Chooser {
    choices: Vec<Choice>,
    now: Choice,
    /// Packets by entry: those of the last epoch, and ever less of those before.
    loads: Vec<u64>,
    packet_ns: Option<f64>,
    replay_ns: Option<f64>,
    /// What one of a few flows costs it under `hybrid`, where it follows others of the same flow: less than one of any flow.
    told_ns: Option<f64>,
    /// What `hybrid` takes a replay for when it decides what to promote.
    guessed_sixteenths: u64,
    /// What nobody measures while a run goes on.
    beside: Beside,
    /// How much longer cores are busy under a strategy than the model predicts, since flows move or traffic comes in bursts: a factor
    /// for each that has run. While packets are lost cores count as busy all the time.
    excess: Vec<(&'static RateModel, Option<f64>)>,
    /// What has promised more, and in how many epochs.
    ahead: Option<(&'static RateModel, u32)>,
}

impl Chooser {
    /// A change has to promise so much more, as a share, in so many epochs, one after the other.
    pub const HYSTERESIS: (f64, u32) = (GAIN, LASTING);

    /// Among `choices`, of which `now` runs, for a hash that points to so many `entries`.
    pub fn new(choices: Vec<Choice>, now: Choice, entries: usize) -> Chooser {
        // Nothing is allocated while packets come.
        let mut excess: Vec<(&'static RateModel, Option<f64>)> = Vec::new();
        for choice in choices.iter().chain([&now]) {
            if !excess.iter().any(|(model, _)| *model == choice.model) {
                excess.push((choice.model, None));
            }
        }
        Chooser {
            choices,
            now,
            loads: vec![0; entries],
            packet_ns: None,
            replay_ns: None,
            told_ns: None,
            guessed_sixteenths: replay_sixteenths(1, false),
            beside: Beside::default(),
            excess,
            ahead: None,
        }
    }

    /// A chooser that knows what packets cost, and how many have come by entry.
    pub fn knowing(choices: Vec<Choice>, now: Choice, costs: &Costs, loads: Vec<u64>) -> Chooser {
        let Costs { carry_ns, sequencer_ns, replay_ns, .. } = *costs;
        Chooser {
            packet_ns: Some(costs.packet_ns()),
            replay_ns: Some(replay_ns),
            beside: Beside { carry_ns, sequencer_ns },
            loads,
            ..Chooser::new(choices, now, 0)
        }
    }

    /// Takes a replay under `hybrid` for so many sixteenths of a packet's time: see [`replay_sixteenths`].
    pub fn guessing(self, sixteenths: u64) -> Chooser {
        Chooser { guessed_sixteenths: sixteenths, ..self }
    }

    /// What runs.
    pub fn now(&self) -> Choice {
        self.now
    }

    /// What there is to choose among.
    pub fn choices(&self) -> &[Choice] {
        &self.choices
    }

    /// What has promised enough more to change to, and in how many epochs, one after the other, up to now.
    pub fn ahead(&self) -> Option<(&'static RateModel, u32)> {
        self.ahead
    }

    /// What a packet costs its core, and a replica on another core, ns, where it has been measured.
    pub fn measured_ns(&self) -> (Option<f64>, Option<f64>) {
        (self.packet_ns, self.replay_ns)
    }

    /// The end of an epoch, `span`, with so many packets by entry, in which the cores that ran did this.
    ///
    /// # Panics
    /// If there are not as many loads as entries.
    pub fn end_epoch(&mut self, loads: &[u64], cores: &[Work], span: Span) -> Epoch {
        let packets: u64 = cores.iter().map(|core| core.packets).sum();
        if packets < PACKETS {
            return Epoch::default();
        }
        assert_eq!(loads.len(), self.loads.len(), "a load for each entry");
        for (sum, load) in self.loads.iter_mut().zip(loads) {
            *sum = *sum - *sum / 4 + load;
        }
        self.learn(packets, cores, span);
        let busiest_ns = cores.iter().map(|core| core.busy_ns).max().unwrap_or(0);
        let measured_mpps = (busiest_ns > 0).then(|| packets as f64 * 1e3 / busiest_ns as f64);
        let decision = self.decide();
        Epoch { measured_mpps, decision }
    }

    /// What packets cost, from the time that cores spent on them.
    fn learn(&mut self, packets: u64, cores: &[Work], span: Span) {
        // Of the core that was interrupted least, of those that had something to do.
        let had_work = |core: &&Work| 4 * core.packets * cores.len() as u64 >= packets;
        let of_core = |core: &Work| core.busy_ns as f64 / core.packets as f64;
        let each_ns = cores.iter().filter(had_work).map(of_core).fold(f64::INFINITY, f64::min);
        let others = self.now.cores.saturating_sub(1) as f64;
        let learning = self.now.model.learning;
        let writing_ns = match learning {
            Learning::Replays { writes_history: true } => self.costs().writing_ns(),
            _ => 0.0,
        };
        match (learning, self.packet_ns) {
            (Learning::Replays { .. }, Some(packet_ns)) if others > 0.0 => {
                let replay_ns = ((each_ns - writing_ns - packet_ns) / others).max(packet_ns / 100.0);
                smooth(&mut self.replay_ns, replay_ns);
            }
            (Learning::Replays { .. }, None) if others > 0.0 => {
                let packet_ns = (each_ns - writing_ns).max(each_ns / 2.0) / (1.0 + others * REPLAY);
                self.packet_ns = Some(packet_ns);
            }
            // What is told takes its time on all cores.
            (Learning::Promotions, Some(packet_ns)) => {
                let busy_ns: u64 = cores.iter().map(|core| core.busy_ns).sum();
                let replays = others * self.load().promoted(self.now.cores).0;
                if replays >= REPLAYS {
                    let told_ns = (busy_ns as f64 / packets as f64 - packet_ns) / replays;
                    smooth(&mut self.told_ns, told_ns.max(packet_ns / 100.0));
                }
            }
            // A packet's time has what moves cost in it.
            (Learning::Moves, Some(_)) | (Learning::Promotions, None) => {}
            _ => smooth(&mut self.packet_ns, each_ns),
        }
        if self.packet_ns.is_some() {
            self.learn_excess(packets, each_ns, cores, span);
        }
    }

    /// Learns how much longer cores were busy than the model predicts.
    fn learn_excess(&mut self, packets: u64, each_ns: f64, cores: &[Work], Span { elapsed_ns, lost }: Span) {
        let is_full = lost as f64 > LOST * (packets + lost) as f64;
        let full_ns = if is_full { elapsed_ns as f64 } else { 0.0 };
        let busiest_ns = match self.now.model.learning {
            Learning::Moves => cores.iter().map(|core| core.packets).max().unwrap_or(0) as f64 * each_ns,
            Learning::Promotions => cores.iter().map(|core| core.busy_ns).max().unwrap_or(0) as f64,
            // Nothing moves: what costs and shares are taken for comes from how long cores are busy.
            Learning::Packets | Learning::Replays { .. } => 0.0,
        };
        let aim_ns = packets as f64 * 1e3 / self.ideal_mpps(self.now);
        let factor = (full_ns.max(busiest_ns) / aim_ns.max(1.0)).max(1.0);
        let now = self.now.model;
        let known = self.excess_of(now);
        // Traffic changes: some day another strategy is worth another try.
        let usual = self.usual_excess();
        for (model, excess) in &mut self.excess {
            if *model == now {
                *excess = Some((known + factor) / 2.0);
                continue;
            }
            let aim = if **model == rates::RSS { 1.0 } else { usual };
            excess.iter_mut().for_each(|excess| *excess += (aim - *excess) / 100.0);
        }
    }

    /// What `rss` loses, where nothing moves, others are expected to lose as long as they have not run: the machine may be the
    /// reason, or bursts.
    fn usual_excess(&self) -> f64 {
        self.known_excess(&rates::RSS).unwrap_or(1.0)
    }

    fn excess_of(&self, model: &RateModel) -> f64 {
        self.known_excess(model).unwrap_or_else(|| self.usual_excess())
    }

    /// `None` of what has not run.
    fn known_excess(&self, model: &RateModel) -> Option<f64> {
        self.excess.iter().find(|(of, _)| *of == model)?.1
    }

    /// What the costs are taken for.
    fn costs(&self) -> Costs {
        let packet_ns = self.packet_ns.unwrap_or(1.0);
        let replay_ns = self.replay_ns.unwrap_or(packet_ns * REPLAY);
        let Beside { carry_ns, sequencer_ns } = self.beside;
        Costs { dispatch_ns: packet_ns, compute_ns: 0.0, replay_ns, carry_ns, sequencer_ns }
    }

    /// What rates are predicted from.
    fn load(&self) -> Load<'_> {
        Load {
            costs: self.costs(),
            told_ns: self.told_ns,
            packets: &self.loads,
            replay_sixteenths: self.guessed_sixteenths,
        }
    }

    /// The rate predicted for a choice, million packets per second.
    pub fn predict(&self, choice: Choice) -> f64 {
        self.ideal_mpps(choice) / self.excess_of(choice.model)
    }

    /// The rate predicted for a choice, million packets per second, if flows were where they should be, to move
    /// them cost nothing, and packets came evenly.
    fn ideal_mpps(&self, Choice { model, cores }: Choice) -> f64 {
        (model.mpps)(&self.load(), cores)
    }

    /// What a choice is worth: its rate, and a little less for each core that it takes.
    pub fn worth(&self, choice: Choice) -> f64 {
        self.predict(choice) * (1.0 - CORE).powi(choice.cores as i32 - 1)
    }

    /// The choice that is worth most; the first of those that are equal but for rounding.
    pub fn best(&self) -> Choice {
        let worths = self.choices.iter().map(|choice| (*choice, self.worth(*choice)));
        let better = |best: (Choice, f64), other: (Choice, f64)| {
            if other.1 > best.1 * (1.0 + 1e-9) { other } else { best }
        };
        worths.fold((self.now, self.worth(self.now)), better).0
    }

    fn decide(&mut self) -> Option<Decision> {
        let (from, to) = (self.now, self.best());
        if self.worth(to) < (1.0 + GAIN) * self.worth(from) {
            self.ahead = None;
            return None;
        }
        let epochs = match self.ahead {
            Some((model, epochs)) if model == to.model => epochs + 1,
            _ => 1,
        };
        self.ahead = Some((to.model, epochs));
        if epochs < LASTING {
            return None;
        }
        (self.now, self.ahead) = (to, None);
        let costs = self.costs();
        let measured_ns = match to.model.learning {
            Learning::Promotions => self.told_ns,
            _ => self.replay_ns,
        };
        Some(Decision {
            from,
            to,
            from_mpps: self.predict(from),
            to_mpps: self.predict(to),
            packet_ns: costs.packet_ns(),
            replay_ns: measured_ns.unwrap_or(costs.replay_ns),
            has_measured_replay: measured_ns.is_some(),
            busiest_share: self.load().shares(to.cores).0,
        })
    }
}

/// Half of what is known, and half of what is measured now.
fn smooth(known: &mut Option<f64>, now: f64) {
    *known = Some(known.map_or(now, |known| (known + now) / 2.0));
}

#[cfg(test)]
mod tests;

//! What is offered to a chain behind a simulated card.

use clap::Args;
use measure::search::Limits;
use measure::{Clock, Question, Settings};

use crate::args::number;

/// What is offered, and what may be lost of it.
#[derive(Args)]
#[command(next_help_heading = "Load")]
pub struct LoadArgs {
    /// Share of the packets that may be lost at the rate found, 4% as in SCR (NSDI'25, §4.1); 0 for a rate without loss
    #[arg(long, value_name = "SHARE", default_value_t = 0.04, value_parser = loss)]
    pub loss: f64,
    /// Receive descriptors of each queue of the simulated card
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = number(1..=65_536))]
    pub descriptors: usize,
    /// Packets of each trial
    #[arg(long, value_name = "N", default_value_t = 1_048_576, value_parser = clap::value_parser!(u32).range(1..=1 << 28))]
    pub packets: u32,
    /// Let packets come with the bursts and lulls of the trace, and not at one distance
    #[arg(long)]
    pub shaped: bool,
    /// Time that each packet a core receives takes beside what is done with it: to see what a strategy gives on a
    /// backend whose dispatch costs so much more
    #[arg(long, value_name = "NS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=100_000))]
    pub dispatch_ns: u64,
}

impl LoadArgs {
    /// What trials have in common.
    pub fn settings(&self, clock: Clock) -> Settings {
        Settings {
            clock,
            descriptors: self.descriptors,
            is_shaped: self.shaped,
            dispatch_ns: self.dispatch_ns,
        }
    }

    /// What is searched for.
    pub fn question(&self, searches: usize, latency: &Shares) -> Question {
        Question {
            limits: Limits { loss: self.loss, ..Limits::default() },
            searches,
            packets: self.packets,
            latency_loads: latency.0.clone(),
        }
    }
}

/// Shares of a rate.
#[derive(Clone, Debug)]
pub struct Shares(pub Vec<f64>);

pub fn shares(text: &str) -> Result<Shares, String> {
    let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
    let share = |word: &str| match word.parse() {
        Ok(share) if share > 0.0 && share <= 1.0 => Ok(share),
        _ => Err(format!("{word}: a share must be above 0 and no more than 1")),
    };
    words.map(share).collect::<Result<_, _>>().map(Shares)
}

fn loss(text: &str) -> Result<f64, String> {
    let loss: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    match (0.0..1.0).contains(&loss) {
        true => Ok(loss),
        false => Err("must be 0 or more, and below 1; 4% is 0.04".to_owned()),
    }
}

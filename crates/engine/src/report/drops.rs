//! Why single packets were dropped, in words.

use io::{EngineDrop, Fate, MarkedDrops};
use serde::{Deserialize, Serialize};
use wire::{LinkType, Malformed};

use crate::chain::Chain;
use crate::path::checks::Checks;

/// Why a packet was dropped.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WhyDropped {
    /// Who dropped it: a function's name, as reports have it; `malformed` where none has seen it; `engine` else.
    pub by: String,
    /// Why, as reports have it.
    pub reason: String,
    /// The rule that dropped it, if it asks for a log.
    pub rule: Option<LoggedRule>,
}

/// A rule that asks for a log of what it drops.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LoggedRule {
    /// Its name: its number in the chain file, from 1.
    pub name: String,
    /// As the chain file has it.
    pub text: String,
}

/// A packet as it was when it was dropped.
#[derive(Clone, Copy, Debug)]
pub struct DroppedPacket<'a> {
    /// What became of it.
    pub fate: Fate,
    /// Its bytes that are here.
    pub bytes: &'a [u8],
    /// Its bytes on the wire.
    pub wire_len: u32,
    /// What its bytes begin with.
    pub link: LinkType,
    /// See [`Seen::refused`](crate::Seen::refused).
    pub refused: Option<Malformed>,
}

impl Chain {
    /// Which of this chain's drops are answered, and which a rule asks to have in a log.
    pub fn marked_drops(&self) -> MarkedDrops {
        let of = |function: usize| &self.functions[function].function;
        MarkedDrops::new(
            self.functions.len(),
            |function, reason| of(function).answers(reason),
            |function, reason| of(function).logged_rule(reason).is_some(),
        )
    }

    /// Why this chain dropped a packet; `None` of one that was not.
    pub fn why_dropped(&self, packet: &DroppedPacket<'_>) -> Option<WhyDropped> {
        let DroppedPacket { fate, bytes, wire_len, link, refused } = *packet;
        let why = |by: &str, reason: &str| Some(WhyDropped::new(by, reason));
        match fate {
            Fate::Forward | Fate::TransmitBack | Fate::Host => None,
            Fate::DropBy { function, reason } => {
                let Some(spec) = self.functions.get(usize::from(function)) else {
                    return why("unknown", "unnamed");
                };
                let reasons = spec.function.info().about.drop_reasons;
                let name = reasons.get(usize::from(reason)).copied().unwrap_or("unnamed");
                let rule = spec.function.logged_rule(reason).map(|(name, text)| LoggedRule { name, text });
                Some(WhyDropped { rule, ..WhyDropped::new(&spec.name, name) })
            }
            Fate::Drop(EngineDrop::Malformed) => {
                // With nothing else wrong it was a checksum.
                let checks = Checks { verifies_checksums: true, ..self.checks() };
                let reason = checks.headers(link, bytes, wire_len, refused, None).malformed();
                why("malformed", reason.map_or("unknown", Malformed::name))
            }
            Fate::Drop(EngineDrop::NoRoom) => why("engine", "no-room"),
            Fate::Drop(EngineDrop::NotTaken) => why("engine", "history-not-taken"),
            Fate::Drop(EngineDrop::Overtaken) => why("engine", "overtaken"),
        }
    }
}

impl WhyDropped {
    /// Without a rule.
    pub fn new(by: &str, reason: &str) -> WhyDropped {
        WhyDropped { by: by.to_owned(), reason: reason.to_owned(), rule: None }
    }

    /// For people: `dropped by policer: over-rate`; `dropped by firewall: logged-01, rule 7: drop udp from any to any log`.
    pub fn text(&self) -> String {
        let text = match self.by.as_str() {
            "malformed" => format!("dropped as malformed: {}", self.reason),
            by => format!("dropped by {by}: {}", self.reason),
        };
        match &self.rule {
            Some(rule) => format!("{text}, rule {}: {}", rule.name, rule.text),
            None => text,
        }
    }
}

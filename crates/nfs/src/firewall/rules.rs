//! The rules of a chain file in their order, and what they say of a packet.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use nf::prefix::PrefixSet;
use nf::{OptionError, Verdict};

use super::classifier::Classifier;
use super::options::Options;
use super::rate::{Buckets, Places, RATES_MAX};
use super::rule::{Action, Judged, OUTSIDE, Rule};
use super::state::{LOGGED_RULES_MAX, Ruling, logged};
use crate::selector::{Packet, Sets};

/// The most rules.
pub(super) const RULES_MAX: usize = 10_000;
/// The most named sets.
pub(super) const SETS_MAX: usize = 100;
/// The most prefixes of a set.
pub const MEMBERS_MAX: usize = 1_000_000;
/// The most ranges of addresses that all rules ask for: each rule that names a set has them once more.
pub(super) const RANGES_MAX: usize = 4_000_000;

/// The rules of a chain file.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    list: Arc<[Rule]>,
    classifier: Arc<Classifier>,
    texts: Arc<[String]>,
    default: Action,
    /// Where the buckets of rules with a rate are.
    places: Places,
    /// Which chain file of a run they are of. It wraps around.
    pub(super) number: u16,
}

/// What the rules say of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// The index of the rule that decides; that of the default is behind the last.
    pub(super) index: usize,
    pub(super) ruling: Ruling,
    /// [`Rule::log`] of that rule.
    log: Option<u8>,
    /// Whether a rule's rate had a say.
    by_rate: bool,
}

impl Found {
    #[inline]
    pub(super) fn verdict(self) -> Verdict {
        self.log.map_or_else(|| self.ruling.verdict(), logged)
    }

    /// Whether the ruling is on one packet alone and not kept for others: where each is to name the rule, or takes a token.
    #[inline]
    pub(super) fn is_on_one(self) -> bool {
        self.log.is_some() || self.by_rate
    }
}

impl Rules {
    pub(super) fn new(options: &Options) -> Result<Rules, OptionError> {
        let texts = &options.rules;
        let error = |message| OptionError { option: "rules", message };
        if texts.len() > RULES_MAX {
            return Err(error(format!("are {}; at most {RULES_MAX} are possible", texts.len())));
        }
        let sets = parse_sets("sets", &options.sets)?;
        let sides = parse_sets("sides", &options.sides)?;
        if sides.contains_key(OUTSIDE) {
            let message = "names hosts outside; outside is whatever is on no other side".to_string();
            return Err(OptionError { option: "sides", message });
        }
        let mut list: Vec<Rule> = Vec::with_capacity(texts.len());
        let (mut ranges, mut logged, mut rates) = (0, 0, 0);
        for (number, text) in (1..).zip(texts) {
            let mut rule = Rule::parse(text, &sets, &sides)
                .map_err(|wrong| error(format!("rule {number}, \"{text}\", {wrong}")))?;
            if let Some(log) = &mut rule.log {
                if logged == LOGGED_RULES_MAX {
                    return Err(error(format!(
                        "have \"log\" more than {LOGGED_RULES_MAX} times, first in rule {number}; leave it to the rules that matter"
                    )));
                }
                *log = logged;
                logged += 1;
            }
            if let Some(rate) = &mut rule.rate {
                let is_one_more = |_| {
                    error(format!(
                        "have a rate more than {RATES_MAX} times, first in rule {number}; have fewer rules with a rate of their own"
                    ))
                };
                rate.number = u8::try_from(rates).map_err(is_one_more)?;
                rates += 1;
            }
            ranges += rule.ranges();
            if ranges > RANGES_MAX {
                return Err(error(format!(
                    "ask for more than {RANGES_MAX} ranges of addresses up to rule {number}; each rule that names a set counts all of \
                     the set's: have fewer rules name the largest sets"
                )));
            }
            list.push(rule);
        }
        let classifier = Arc::new(Classifier::new(&list).map_err(error)?);
        let (list, texts) = (list.into(), texts.clone().into());
        let places = Places::first(rates);
        Ok(Rules { list, classifier, texts, default: options.default, places, number: 0 })
    }

    /// These rules, where they follow `old` while the firewall runs: with the number of `old` if they say what it says.
    pub(super) fn following(&self, old: &Rules) -> Rules {
        let is_same = self.list == old.list && self.default == old.default;
        let number = if is_same { old.number } else { old.number.wrapping_add(1) };
        let places = old.places.of_following(&self.rated(), old.rated());
        Rules { number, places, ..self.clone() }
    }

    /// Those with a rate: its number, and the rule's words.
    fn rated(&self) -> Vec<(u8, String)> {
        let rated =
            self.list.iter().zip(&*self.texts).filter_map(|(rule, text)| Some((rule.rate?.number, text)));
        rated.map(|(number, text)| (number, text.split_whitespace().collect::<Vec<_>>().join(" "))).collect()
    }

    /// Whether one of them has a rate.
    pub(super) fn have_rates(&self) -> bool {
        self.list.iter().any(|rule| rule.rate.is_some())
    }

    /// What is said of a packet. Rules that match but for their rate take a token, in their order, up to the one that decides.
    #[inline(always)]
    pub(super) fn judge(&self, judged: &Judged, now_ns: u64, buckets: &mut Buckets) -> Found {
        let found = self.found(self.classifier.first(judged));
        if found.by_rate { self.judge_by_rate(found, judged, now_ns, buckets) } else { found }
    }

    /// A call of its own, so that packets of other rules pay for a comparison alone.
    #[cold]
    #[inline(never)]
    fn judge_by_rate(&self, found: Found, judged: &Judged, now_ns: u64, buckets: &mut Buckets) -> Found {
        self.by_rate(found, now_ns, buckets, |behind| self.classifier.next(judged, behind))
    }

    /// What is said of a later fragment: it passes if its first one might, in either direction. It takes tokens as any packet.
    pub(super) fn judge_later_fragment(
        &self,
        packet: &Packet,
        is_from_outside: bool,
        now_ns: u64,
        buckets: &mut Buckets,
    ) -> Found {
        let mut first = |packet: &Packet, is_from_outside| {
            let found = self.found(self.classifier.first_of_later_fragment(packet, is_from_outside));
            let next = |behind| self.classifier.next_of_later_fragment(packet, is_from_outside, behind);
            if found.by_rate { self.by_rate(found, now_ns, buckets, next) } else { found }
        };
        let found = first(packet, is_from_outside);
        either(found, || first(&packet.reversed(), !is_from_outside))
    }

    /// What is said where the first rule that matches has a rate.
    fn by_rate(
        &self,
        mut found: Found,
        now_ns: u64,
        buckets: &mut Buckets,
        next: impl Fn(usize) -> Option<usize>,
    ) -> Found {
        while let Some(rate) = self.list.get(found.index).and_then(|rule| rule.rate.as_ref()) {
            if buckets.matches(rate, self.places.of(rate.number), now_ns) {
                break;
            }
            found = self.found(next(found.index));
        }
        Found { by_rate: true, ..found }
    }

    /// [`Rules::judge`] in plain code, to compare with.
    #[cfg(test)]
    pub(super) fn judge_one_by_one(&self, judged: &Judged, now_ns: u64, buckets: &mut Buckets) -> Found {
        self.found_one_by_one(now_ns, buckets, |rule| rule.matches(judged))
    }

    /// [`Rules::judge_later_fragment`] in plain code, to compare with.
    #[cfg(test)]
    pub(super) fn judge_later_fragment_one_by_one(
        &self,
        packet: &Packet,
        is_from_outside: bool,
        now_ns: u64,
        buckets: &mut Buckets,
    ) -> Found {
        let mut first = |packet: &Packet, is_from_outside| {
            self.found_one_by_one(now_ns, buckets, |rule| rule.may_accept_or_drops(packet, is_from_outside))
        };
        let found = first(packet, is_from_outside);
        either(found, || first(&packet.reversed(), !is_from_outside))
    }

    #[cfg(test)]
    fn found_one_by_one(
        &self,
        now_ns: u64,
        buckets: &mut Buckets,
        mut matches: impl FnMut(&Rule) -> bool,
    ) -> Found {
        let mut by_rate = false;
        let index = self.list.iter().position(|rule| {
            matches(rule)
                && rule.rate.is_none_or(|rate| {
                    by_rate = true;
                    buckets.matches(&rate, self.places.of(rate.number), now_ns)
                })
        });
        Found { by_rate, ..self.found(index) }
    }

    #[inline]
    fn found(&self, index: Option<usize>) -> Found {
        let found = index.and_then(|index| self.list.get(index).map(|rule| (index, rule)));
        let Some((index, rule)) = found else {
            let index = self.list.len();
            return Found {
                index,
                ruling: Ruling::of(self.default, index, index),
                log: None,
                by_rate: false,
            };
        };
        let ruling = Ruling::of(rule.action, index, self.list.len());
        Found { index, ruling, log: rule.log, by_rate: rule.rate.is_some() }
    }

    /// The index of the rule with this number among those that ask for a log.
    pub(super) fn logged(&self, log: u8) -> Option<usize> {
        self.list.iter().position(|rule| rule.log == Some(log))
    }

    /// Whether the rule with this number among those that ask for a log rejects what it logs.
    pub(super) fn rejects(&self, log: u8) -> bool {
        self.list.iter().any(|rule| rule.log == Some(log) && rule.action == Action::Reject)
    }

    /// Whether a rule makes a difference between the sides.
    pub(super) fn ask_for_side(&self) -> bool {
        self.list.iter().any(Rule::asks_for_side)
    }

    /// Whether a rule asks for TCP flags.
    pub(super) fn ask_for_flags(&self) -> bool {
        self.list.iter().any(Rule::asks_for_flags)
    }

    /// How many they are with the default.
    pub(super) fn len(&self) -> usize {
        self.texts.len() + 1
    }

    /// The name of a rule by its index, for people.
    pub(super) fn name(&self, index: usize) -> String {
        if index < self.texts.len() { (index + 1).to_string() } else { "default".to_string() }
    }

    /// The text of a rule by its index, for people.
    pub(super) fn text(&self, index: usize) -> String {
        let default = match self.default {
            Action::Accept => "accept what is left",
            Action::Drop => "drop what is left",
            Action::Reject => "reject what is left",
        };
        self.texts.get(index).map_or(default, String::as_str).to_string()
    }
}

/// What is said of a packet if it accepts it, else what is said of its answer if that accepts it.
fn either(found: Found, of_answer: impl FnOnce() -> Found) -> Found {
    if found.ruling == Ruling::Accept {
        return found;
    }
    let of_answer = of_answer();
    if of_answer.ruling == Ruling::Accept { of_answer } else { found }
}

fn parse_sets(option: &'static str, named: &BTreeMap<String, Vec<String>>) -> Result<Sets, OptionError> {
    let error = |message| OptionError { option, message };
    if named.len() > SETS_MAX {
        return Err(error(format!("are {}; at most {SETS_MAX} are possible", named.len())));
    }
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
    let mut sets = Sets::new();
    for (name, prefixes) in named {
        if name.is_empty() || !name.chars().all(is_letter) {
            return Err(error(format!("has the name \"{name}\"; write letters, digits, - and _")));
        }
        let set = PrefixSet::parse_up_to(MEMBERS_MAX, option, prefixes)
            .map_err(|wrong| error(format!("\"{name}\" {}", wrong.message)))?;
        sets.insert(name.clone(), set);
    }
    Ok(sets)
}

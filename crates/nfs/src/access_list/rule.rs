//! One rule: how it is written, and what it matches.

use alloc::format;
use alloc::string::String;

use serde::Deserialize;

use crate::selector::{Grammar, Packet, Selector, goes_on_with};

/// How a rule is written, for error messages.
const FORM: &str = "\"allow|deny PROTOCOL from ADDRESSES [port PORTS] to ADDRESSES [port PORTS]\"";

/// What a rule does with the packets that it matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// They pass, and so do their answers.
    Allow,
    /// They are dropped.
    Deny,
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) action: Action,
    selector: Selector,
}

impl Rule {
    /// Whether the rule decides about a packet.
    #[inline]
    pub(super) fn matches(&self, packet: &Packet) -> bool {
        self.selector.matches(packet)
    }

    /// Whether the rule decides about packets of which the ports are not known: it might allow them, or
    /// denies them whatever their ports are.
    pub(super) fn may_allow_or_denies(&self, packet: &Packet) -> bool {
        self.selector.matches_but_for_ports(packet)
            && (self.action == Action::Allow || !self.selector.asks_for_ports())
    }

    /// The rule that `text` says, or what is wrong with it, to follow its name in a sentence. `option`
    /// is where it stands.
    pub(super) fn parse(option: &'static str, text: &str) -> Result<Rule, String> {
        let mut words = text.split_whitespace().peekable();
        let action = match words.next() {
            Some("allow") => Action::Allow,
            Some("deny") => Action::Deny,
            None => return Err(format!("is empty; write {FORM}")),
            Some(word) => {
                return Err(format!("begins with \"{word}\"; rules begin with \"allow\" or \"deny\""));
            }
        };
        let selector = Selector::parse(&mut words, &Grammar { option, form: FORM, sets: None })?;
        match words.next() {
            Some(word) => Err(goes_on_with(word)),
            None => Ok(Rule { action, selector }),
        }
    }
}

//! What rules of functions decided: rates between two looks, and those that decide most where there are many.

use std::collections::BTreeMap;
use std::time::Duration;

use telemetry::RuleSnapshot;

use crate::view::{RuleView, RulesView, tenths};

/// Rules that are shown, at most: a chain may have thousands.
pub(crate) const SHOWN: usize = 50;

/// Follows counts of rules. A look is about once a second, and not with each snapshot: cores are asked for it.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    counts: BTreeMap<(String, String), u64>,
    at: Duration,
    pub(crate) view: RulesView,
}

impl Rules {
    /// What is shown from now on, at a time since the run began.
    pub(crate) fn look(&mut self, now: Duration, rules: Vec<RuleSnapshot>) {
        let seconds = now.saturating_sub(self.at).as_secs_f64();
        let before = std::mem::take(&mut self.counts);
        let mut all = Vec::with_capacity(rules.len());
        for RuleSnapshot { function, rule, text, decided } in rules {
            let named = (function.clone(), rule.clone());
            // Of a rule that was not there before, or whose count began anew with a reload, nothing is known of the time before.
            let since = before.get(&named).map(|before| decided.checked_sub(*before).unwrap_or(decided));
            let per_s = since.map_or(0.0, |since| tenths(since as f64 / seconds.max(f64::MIN_POSITIVE)));
            self.counts.insert(named, decided);
            all.push(RuleView { function, rule, text, per_s, decided });
        }
        self.at = now;
        self.view = most(all);
    }
}

/// Those that decide most, in the order of the chain.
fn most(rules: Vec<RuleView>) -> RulesView {
    let left_out = rules.len().saturating_sub(SHOWN);
    let mut numbered: Vec<(usize, RuleView)> = rules.into_iter().enumerate().collect();
    numbered.sort_by(|(_, a), (_, b)| b.per_s.total_cmp(&a.per_s).then(b.decided.cmp(&a.decided)));
    numbered.truncate(SHOWN);
    numbered.sort_by_key(|(number, _)| *number);
    RulesView { shown: numbered.into_iter().map(|(_, rule)| rule).collect(), left_out }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(number: usize, decided: u64) -> RuleSnapshot {
        let text = format!("accept any from any to any port {number}");
        RuleSnapshot { function: "firewall".to_owned(), rule: number.to_string(), text, decided }
    }

    fn rates(rules: &Rules) -> Vec<f64> {
        rules.view.shown.iter().map(|rule| rule.per_s).collect()
    }

    #[test]
    fn rates_are_of_the_time_between_two_looks() {
        let mut rules = Rules::default();
        rules.look(Duration::from_secs(10), vec![rule(1, 500), rule(2, 0)]);
        assert_eq!(rates(&rules), [0.0, 0.0], "nothing is known of the time before the first look");
        rules.look(Duration::from_secs(12), vec![rule(1, 700), rule(2, 3)]);
        assert_eq!(rates(&rules), [100.0, 1.5]);
        // Another chain, whose counts begin anew, and which has a rule more.
        rules.look(Duration::from_secs(13), vec![rule(1, 40), rule(2, 3), rule(3, 9)]);
        assert_eq!(rates(&rules), [40.0, 0.0, 0.0]);
        rules.look(Duration::from_secs(14), Vec::new());
        assert_eq!(rules.view, RulesView::default());
    }

    #[test]
    fn of_many_rules_those_that_decide_most_are_shown_in_their_order() {
        let mut rules = Rules::default();
        let at = |per_s: &dyn Fn(usize) -> u64| (1..=1_000).map(|n| rule(n, per_s(n))).collect::<Vec<_>>();
        rules.look(Duration::from_secs(1), at(&|_| 1_000_000));
        rules.look(Duration::from_secs(2), at(&|n| 1_000_000 + if n % 20 == 0 { n as u64 } else { 0 }));
        let shown: Vec<usize> =
            rules.view.shown.iter().map(|rule| rule.rule.parse().expect("a number")).collect();
        assert_eq!(shown, (1..=50).map(|n| 20 * n).collect::<Vec<_>>());
        assert_eq!(rules.view.left_out, 950);
    }
}

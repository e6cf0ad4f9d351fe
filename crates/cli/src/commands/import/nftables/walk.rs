//! The way of packets through the chains of a ruleset, as a list of decisions of which the first that matches counts.
//!
//! A chain that is jumped to is written in place, under the conditions of the jump. `return` and `goto` take packets out of what
//! follows in their chain. Where a condition cannot be said, a rule that accepts gets those packets that it accepts for sure, and
//! one that drops gets all that it may drop: so the list accepts nothing that the ruleset drops.

use serde_json::Value;

use super::limits::{Limit, is_exact};
use super::matches::{self, Context, Key, Unfit, WITH_PORTS};
use super::ruleset::{Chain, Rule, Table};
use super::say;
use super::space::{Dim, Ranges, Reach, Region, Regions, TooMany, family};

/// So deep chains may jump (NFT_JUMP_STACK_SIZE of the kernel).
const DEPTH_MAX: usize = 16;
/// The most rules that are looked at, each as often as chains lead to it.
const RULES_MAX: usize = 30_000;
/// The most decisions: there are not more rules in `firewall`.
const DECISIONS_MAX: usize = 10_000;

/// What comes of a statement that is left out, and of a rule without a verdict.
const SAME: &str = "verdicts are as before";

/// What the first decision about a packet says.
#[derive(Debug)]
pub struct Decision {
    pub says: Says,
    pub packets: Regions,
    /// It is for so many of them, and the others meet the next decisions.
    pub limit: Option<Limited>,
    /// Index into [`Walk::origins`].
    pub origin: usize,
}

/// A limit of a rule.
#[derive(Clone, Debug)]
pub struct Limited {
    pub limit: Limit,
    /// Table, chain and rule: all decisions of one rule have one bucket.
    pub place: String,
    pub expression: String,
}

/// What becomes of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Says {
    Accept,
    Drop,
    /// They are dropped, and their senders told.
    Reject,
}

/// What does not fit.
#[derive(Debug, PartialEq, Eq)]
pub struct Problem {
    /// Table, chain and rule.
    pub place: String,
    /// The expression, as nft writes it if it is known here.
    pub expression: String,
    pub why: String,
    /// What the chain does instead.
    pub instead: &'static str,
}

/// Why there is no list.
#[derive(Debug)]
pub enum Failed {
    /// With the rule's place.
    TooMany(String),
    TooDeep(String),
    NoChain(String),
}

pub struct Walk<'a> {
    context: Context<'a>,
    /// Chains that packets meet, in this order.
    bases: &'a [&'a Chain],
    pub decisions: Vec<Decision>,
    pub problems: Vec<Problem>,
    /// A line for each rule, or policy, that a decision comes from.
    pub origins: Vec<String>,
}

/// Where a chain stands.
#[derive(Clone, Copy)]
struct At {
    /// Index of the base chain.
    base: usize,
    /// Whether packets go back from its end to a chain that jumped to it.
    goes_back: bool,
    depth: usize,
}

/// What a rule makes of packets, behind its conditions.
enum Verdict<'v> {
    Accept,
    Drop,
    Reject,
    Jump(&'v str),
    Goto(&'v str),
    Return,
}

impl<'v> Verdict<'v> {
    fn of(kind: &str, value: &'v Value) -> Option<Verdict<'v>> {
        let target = || value.get("target").and_then(Value::as_str);
        Some(match kind {
            "accept" => Verdict::Accept,
            "drop" => Verdict::Drop,
            "reject" if is_known_reject(value) => Verdict::Reject,
            "reject" => Verdict::Drop,
            "return" => Verdict::Return,
            "jump" => Verdict::Jump(target()?),
            "goto" => Verdict::Goto(target()?),
            _ => return None,
        })
    }
}

/// What an expression that is no condition does to a rule.
enum Statement {
    /// Nothing that verdicts depend on.
    Harmless,
    /// The rule goes on with some of its packets.
    Condition,
    /// Packets are changed, or go elsewhere.
    Action,
}

impl Statement {
    fn of(kind: &str, value: &Value) -> Statement {
        match kind {
            // Marks are not matched; packets that a flow table takes past the chain are judged by what follows.
            "log" | "set" | "map" | "dup" | "flow" | "notrack" | "ct helper" | "ct timeout"
            | "ct expectation" | "secmark" | "last" => Statement::Harmless,
            "mangle" if value.pointer("/key/payload").is_none() && value.pointer("/key/exthdr").is_none() => {
                Statement::Harmless
            }
            // The clamp of the segment size (`tcp option maxseg size set rt mtu`).
            "mangle" if value.pointer("/key/tcp option").is_some() => Statement::Harmless,
            "quota" | "ct count" => Statement::Condition,
            _ => Statement::Action,
        }
    }
}

impl<'a> Walk<'a> {
    /// What base chains, in their order, do with all packets.
    ///
    /// # Errors
    /// Why it is no list of rules.
    pub fn new(context: Context<'a>, bases: &'a [&'a Chain]) -> Result<Walk<'a>, Failed> {
        let mut walk =
            Walk { context, bases, decisions: Vec::new(), problems: Vec::new(), origins: Vec::new() };
        let origin = walk.origin("what no chain of the hook sees".to_owned());
        walk.base(0, &Reach::all(), origin)?;
        Ok(walk)
    }

    fn origin(&mut self, text: String) -> usize {
        self.origins.push(text);
        self.origins.len() - 1
    }

    /// Packets come to a base chain, those of another family to the next. Behind the last they are accepted.
    fn base(&mut self, base: usize, live: &Reach, origin: usize) -> Result<(), Failed> {
        let Some(chain) = self.bases.get(base).copied() else {
            return self.decide(Says::Accept, &live.sure, origin);
        };
        let name = place(&chain.table, &chain.name);
        let failed = |_: TooMany| Failed::TooMany(name.clone());
        let seen = match chain.table.family.as_str() {
            "ip" => of_family(false),
            "ip6" => of_family(true),
            _ => Reach::all(),
        };
        let (inside, others) = (live.and(&seen).map_err(failed)?, live.minus(&seen).map_err(failed)?);
        if !inside.may.is_empty() {
            self.chain(chain, inside, At { base, goes_back: false, depth: 0 })?;
        }
        if !others.may.is_empty() {
            self.base(base + 1, &others, origin)?;
        }
        Ok(())
    }

    fn chain(&mut self, chain: &'a Chain, mut live: Reach, at: At) -> Result<(), Failed> {
        if at.depth > DEPTH_MAX {
            return Err(Failed::TooDeep(place(&chain.table, &chain.name)));
        }
        for rule in &chain.rules {
            if live.may.is_empty() {
                break;
            }
            if self.origins.len() >= RULES_MAX {
                return Err(Failed::TooMany(place(&chain.table, &chain.name)));
            }
            self.rule(chain, rule, &mut live, at)?;
        }
        if at.goes_back { Ok(()) } else { self.policy(&live, at.base, None) }
    }

    /// What a base chain does with packets that come to its end.
    fn policy(&mut self, live: &Reach, base: usize, origin: Option<usize>) -> Result<(), Failed> {
        let Some((chain, policy)) =
            self.bases.get(base).and_then(|chain| Some((*chain, chain.base.as_ref()?)))
        else {
            return Ok(());
        };
        let word = if policy.accepts { "accept" } else { "drop" };
        let origin = match origin {
            Some(origin) => origin,
            None => self.origin(format!("{}: policy {word}", place(&chain.table, &chain.name))),
        };
        match policy.accepts {
            true => self.base(base + 1, live, origin),
            false => self.decide(Says::Drop, &live.may, origin),
        }
    }

    fn rule(&mut self, chain: &'a Chain, rule: &'a Rule, live: &mut Reach, at: At) -> Result<(), Failed> {
        let place = format!("{} rule {}", place(&chain.table, &chain.name), rule.handle);
        let too_many = || Failed::TooMany(place.clone());
        let known = self.problems.len();
        let mut packets = live.clone();
        let mut is_action = false;
        let mut keys = Vec::new();
        let comment = rule.comment.as_ref().map_or_else(String::new, |comment| format!(" # {comment}"));
        let origin = self.origin(format!("{place}: {}{comment}", say::rule(&rule.expressions)));
        let mut verdicts: Vec<(Verdict<'a>, Reach)> = Vec::new();
        let mut limit: Option<Limited> = None;
        for expression in &rule.expressions {
            let Some((kind, value)) = expression.as_object().and_then(|map| map.iter().next()) else {
                continue;
            };
            let lists = |walk: &mut Walk<'a>, why: Unfit, instead: &'static str| match why {
                Unfit::TooMany => Err(Failed::TooMany(place.clone())),
                Unfit::Why(why) => {
                    let (place, expression) = (place.clone(), say::expression(expression));
                    walk.problems.push(Problem { place, expression, why, instead });
                    Ok(())
                }
            };
            let unfit = |walk: &mut Walk<'a>, why: Unfit| lists(walk, why, "");
            if matches!(kind.as_str(), "match" | "vmap" | "limit" | "quota" | "ct count")
                && let Some(Limited { expression, .. }) = limit.take()
            {
                let why = "a rate of `firewall` counts packets that all other conditions match".to_owned();
                self.problems.push(Problem { place: place.clone(), expression, why, instead: "" });
                packets = Reach::some(packets.may);
            }
            if let Some(verdict) = Verdict::of(kind, value) {
                if kind == "reject" && !is_known_reject(value) {
                    let why = "`firewall` answers with TCP resets and \"administratively prohibited\" alone";
                    lists(self, why.into(), "packets are dropped, and their senders are not told")?;
                }
                verdicts.push((verdict, packets.clone()));
                break;
            }
            match kind.as_str() {
                "counter" | "continue" | "comment" => {}
                "limit" => match Limit::of(value) {
                    Ok(known) => {
                        let (place, expression) = (place.clone(), say::expression(expression));
                        limit = Some(Limited { limit: known, place, expression });
                    }
                    Err(why) => {
                        unfit(self, why.into())?;
                        packets = Reach::some(packets.may);
                    }
                },
                "match" => {
                    if let Some(name) = matches::empty_set(value, &chain.table, self.context.ruleset) {
                        let why =
                            format!("@{name} has no elements in the file; were they left out, by `nft -t`?");
                        lists(self, why.into(), "it is taken as empty")?;
                    }
                    let condition = match matches::of_match(value, &chain.table, &self.context) {
                        Ok(reach) => reach,
                        Err((why, reach)) => {
                            unfit(self, why)?;
                            Reach::some(reach.may)
                        }
                    };
                    keys.extend(
                        matches::keys_of(value.get("left").unwrap_or(&Value::Null)).unwrap_or_default(),
                    );
                    packets = packets.and(&condition).map_err(|_| too_many())?;
                }
                "vmap" => {
                    keys.extend(
                        matches::keys_of(value.get("key").unwrap_or(&Value::Null)).unwrap_or_default(),
                    );
                    match self.map(value, &chain.table, &packets) {
                        Ok(found) => verdicts.extend(found),
                        Err(why) => {
                            unfit(self, why)?;
                            packets = Reach::some(packets.may);
                            is_action = true;
                        }
                    }
                    break;
                }
                _ => match Statement::of(kind, value) {
                    Statement::Harmless => lists(self, "this is not done".into(), SAME)?,
                    Statement::Condition => {
                        unfit(self, "`firewall` does not count this".into())?;
                        packets = Reach::some(packets.may);
                    }
                    Statement::Action => {
                        unfit(self, "`firewall` cannot do this".into())?;
                        packets = Reach::some(packets.may);
                        is_action = true;
                    }
                },
            }
        }
        for why in self.unclear(&keys, &packets.may) {
            let (place, expression) = (place.clone(), say::rule(&rule.expressions));
            self.problems.push(Problem { place, expression, why, instead: "" });
        }
        if verdicts.is_empty() && is_action {
            verdicts.push((Verdict::Drop, packets.clone()));
        }
        if let Some(Limited { limit: known, expression, .. }) = &limit
            && let Some(why) = self.unfit_limit(known, &verdicts, at).map_err(|_| too_many())?
        {
            let (place, expression) = (place.clone(), expression.clone());
            self.problems.push(Problem { place, expression, why: why.to_owned(), instead: "" });
            verdicts.iter_mut().for_each(|(_, packets)| *packets = Reach::some(packets.may.clone()));
            limit = None;
        }
        let instead = match &verdicts[..] {
            [(Verdict::Accept, packets)] if packets.sure.is_empty() => {
                "the rule is left out, and its packets meet the next ones"
            }
            [(Verdict::Accept, _)] => "the rule accepts what is sure",
            [(Verdict::Drop, _)] => "all packets that the rule may be about are dropped",
            [(Verdict::Reject, _)] => "all packets that the rule may be about are rejected",
            [] => SAME,
            _ => "what it leads to accepts what is sure, and drops all packets that it may be about",
        };
        let open = self.problems[known..].iter_mut().filter(|problem| problem.instead.is_empty());
        open.for_each(|problem| problem.instead = instead);
        let first = self.decisions.len();
        for (verdict, packets) in verdicts {
            self.verdict(&verdict, chain, &packets, live, at, origin, &place)?;
        }
        // Decisions of chains that a rule leads to have limits of their own, and it has none.
        if limit.is_some() {
            self.decisions[first..].iter_mut().for_each(|decision| decision.limit.clone_from(&limit));
        }
        Ok(())
    }

    /// Why a limit in front of these verdicts does not fit, if it does not.
    fn unfit_limit(
        &self,
        limit: &Limit,
        verdicts: &[(Verdict<'_>, Reach)],
        at: At,
    ) -> Result<Option<&'static str>, TooMany> {
        // Nothing depends on it.
        let [(verdict, packets)] = verdicts else { return Ok(None) };
        let accepts = match verdict {
            Verdict::Accept if at.base + 1 < self.bases.len() => {
                return Ok(Some(
                    "what it lets pass meets other chains of the hook, where `firewall` has one list",
                ));
            }
            Verdict::Accept => true,
            Verdict::Drop | Verdict::Reject => false,
            Verdict::Jump(_) | Verdict::Goto(_) | Verdict::Return => {
                return Ok(Some("it leads to other rules, and a rate of `firewall` is one rule's"));
            }
        };
        Ok(match (limit.closes(accepts), is_exact(packets)?) {
            (false, _) => Some("where the bucket is empty earlier than the kernel's, more would pass"),
            (true, false) => Some("which packets it counts is not sure"),
            (true, true) => None,
        })
    }

    /// What a rule with these keys leaves open of these packets.
    fn unclear(&self, keys: &[Key], packets: &Regions) -> Vec<String> {
        let with_ports = Ranges::numbers(WITH_PORTS);
        let has_other =
            |region: &Region| region.of(Dim::Protocol).and(&with_ports) != *region.of(Dim::Protocol);
        let mut why = Vec::new();
        if keys.iter().any(|key| matches!(key, Key::Port { protocol: None, .. }))
            && packets.iter().any(has_other)
        {
            why.push(
                "it reads ports of protocols that have none; ask for `meta l4proto { tcp, udp }` too"
                    .to_owned(),
            );
        }
        for (is_v6, name) in [(false, "IPv4"), (true, "IPv6")] {
            let is_open =
                self.context.sides.is_some_and(|sides| sides.prefixes.and(&family(is_v6)).is_empty());
            let has_some = |region: &Region| !region.of(Dim::Dst).and(&family(is_v6)).is_empty();
            if is_open && keys.contains(&Key::OutInterface) && packets.iter().any(has_some) {
                why.push(format!("by which interface does {name} leave? --inside-prefixes has none of it"));
            }
        }
        why
    }

    #[expect(clippy::too_many_arguments, reason = "where it is, what it says, and what it is about")]
    fn verdict(
        &mut self,
        verdict: &Verdict<'_>,
        chain: &Chain,
        packets: &Reach,
        live: &mut Reach,
        at: At,
        origin: usize,
        place: &str,
    ) -> Result<(), Failed> {
        let target = |name: &str| {
            let found = self.context.ruleset.chain(&chain.table, name);
            found.ok_or_else(|| Failed::NoChain(format!("{place} leads to \"{name}\"")))
        };
        let leave = |live: &mut Reach| {
            *live = live.minus(packets).map_err(|_| Failed::TooMany(place.to_owned()))?;
            Ok(())
        };
        let deeper = At { depth: at.depth + 1, ..at };
        match verdict {
            Verdict::Accept => self.base(at.base + 1, packets, origin),
            Verdict::Drop => self.decide(Says::Drop, &packets.may, origin),
            Verdict::Reject => self.decide(Says::Reject, &packets.may, origin),
            Verdict::Jump(name) => {
                self.chain(target(name)?, packets.clone(), At { goes_back: true, ..deeper })
            }
            Verdict::Goto(name) => {
                self.chain(target(name)?, packets.clone(), deeper)?;
                leave(live)
            }
            Verdict::Return => {
                if !at.goes_back {
                    self.policy(packets, at.base, Some(origin))?;
                }
                leave(live)
            }
        }
    }

    /// The verdicts of a map, each with its packets.
    fn map(
        &self,
        value: &'a Value,
        table: &Table,
        packets: &Reach,
    ) -> Result<Vec<(Verdict<'a>, Reach)>, Unfit> {
        let keys = matches::keys_of(value.get("key").unwrap_or(&Value::Null))?;
        let data = value.get("data").unwrap_or(&Value::Null);
        let elements = match data.as_str().and_then(|name| name.strip_prefix('@')) {
            Some(name) => match self.context.ruleset.sets.get(&(table.clone(), name.to_owned())) {
                Some(map) if !map.changes => &map.elements,
                _ => return Err(format!("packets or time change the map @{name}, or it is not there").into()),
            },
            None => data.get("set").and_then(Value::as_array).ok_or("a map without a list of elements")?,
        };
        let packets = packets.and(&matches::readable(&keys)?)?;
        let mut others = packets.clone();
        let (mut found, mut of_others) = (Vec::new(), None);
        for element in elements {
            let Some([key, verdict]) = element.as_array().map(Vec::as_slice) else {
                return Err("an element that is no pair".into());
            };
            let kind = verdict.as_object().and_then(|map| map.iter().next());
            let Some((kind, value)) = kind else { return Err("an element without a verdict".into()) };
            let verdict = match kind.as_str() {
                "continue" => None,
                "reject" => return Err("an element with a verdict that is not known here".into()),
                _ => {
                    Some(Verdict::of(kind, value).ok_or("an element with a verdict that is not known here")?)
                }
            };
            if key.pointer("/elem/val").unwrap_or(key) == "*" {
                of_others = verdict;
                continue;
            }
            let of_key =
                packets.and(&matches::is_one_of(&keys, std::slice::from_ref(key), &self.context)?)?;
            others = others.minus(&of_key)?;
            found.extend(verdict.map(|verdict| (verdict, of_key)));
        }
        found.extend(of_others.map(|verdict| (verdict, others)));
        Ok(found)
    }

    fn decide(&mut self, says: Says, packets: &Regions, origin: usize) -> Result<(), Failed> {
        if packets.is_empty() {
            return Ok(());
        }
        if self.decisions.len() >= DECISIONS_MAX {
            return Err(Failed::TooMany(self.origins[origin].clone()));
        }
        self.decisions.push(Decision { says, packets: packets.simple(), limit: None, origin });
        Ok(())
    }
}

/// Whether `firewall` rejects so: plainly, which nft also writes as "port unreachable" (what the sender is told is another reason
/// then), with a TCP reset, or as prohibited.
fn is_known_reject(value: &Value) -> bool {
    let kind = value.get("type").and_then(Value::as_str);
    let reason = value.get("expr").and_then(Value::as_str);
    match (kind, reason) {
        (None, None) | (Some("tcp reset"), None) => true,
        (Some("icmpx" | "icmp" | "icmpv6"), reason) => {
            matches!(reason, Some("admin-prohibited" | "port-unreachable"))
        }
        _ => false,
    }
}

fn of_family(is_v6: bool) -> Reach {
    let addrs = family(is_v6);
    Reach::exact(Regions::of(vec![Region::all().with(Dim::Src, &addrs).with(Dim::Dst, &addrs)]))
}

fn place(table: &Table, chain: &str) -> String {
    format!("{table} {chain}")
}

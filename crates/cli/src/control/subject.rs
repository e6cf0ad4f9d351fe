//! What is controlled.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use engine::report::{ReloadReport, WhyReport};
use engine::{Chain, Doomed, Flows, Progress, Registry, Reloaded, Traces};
use io::Tap;
use io::filter::Filter;
use live::ExternalAddresses;
use strategy::Tunable;
use toml::{Table, Value};

use super::expiries::Changes;
use super::flow::FlowWords;
use super::health::{Health, write_news};
use super::unwritten::Unwritten;
use super::wanted::{FlowFilter, Wanted};
use super::words::{COUNT_MAX, CoreStatus, InterfaceCounts, RuleLine, Status, TunableLine};
use crate::input::read_text;
use crate::output::plural;
use crate::service;

/// How long a run may take to begin, and how often that is looked for.
const BEGINNING: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(5);

/// Packets that are traced and not told yet, at most.
const ROOM: usize = 256;

/// The most flows that are removed at once, or a portion more.
const KILLED: usize = 1 << 20;

/// What is controlled.
pub struct Subject {
    pub registry: Registry,
    pub progress: Arc<Progress>,
    pub interfaces: Vec<String>,
    pub board: live::Board,
    /// The chain file, to be read again.
    pub chain: PathBuf,
    pub begin: Instant,
    pub reloads: AtomicU64,
    /// Where the port leaves copies of dropped packets.
    pub tap: Arc<Tap>,
    /// Where it leaves copies of those that a rule asks to have in a log.
    pub log: Arc<Tap>,
    /// Which of the host's addresses are the chain's.
    pub external: ExternalAddresses,
    /// Whether all of them are: it guards the host.
    pub guards_host: bool,
    /// Captures that could not be written.
    pub unwritten: Unwritten,
    /// Changes of sets, and of the chain: one at a time.
    pub changes: Changes,
    /// What checks of backends found.
    pub health: Health,
}

/// Which addresses are a chain's though they may be this host's: all of them where it guards the host.
pub fn external(chain: &Chain, guards_host: bool) -> ExternalAddresses {
    match guards_host {
        true => ExternalAddresses::new(|_| true),
        false => ExternalAddresses::new(of_chains(vec![chain.clone()])),
    }
}

/// The time, as packets are stamped on interfaces: ns since 1970.
pub(super) fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

/// Whether an address is one of these chains'.
fn of_chains(chains: Vec<Chain>) -> impl Fn(IpAddr) -> bool + Send {
    move |address| chains.iter().any(|chain| chain.has_address(address))
}

impl Subject {
    /// Waits until the run has its tables, and begins: a client that asks at once need not ask again.
    pub fn wait(&self) {
        let begin = Instant::now();
        let Progress { reloads, stop, .. } = &*self.progress;
        while !reloads.has_begun() && !stop.load(Ordering::Relaxed) && begin.elapsed() < BEGINNING {
            thread::sleep(LOOK);
        }
    }

    /// Has cores trace packets, or says why not.
    pub fn trace(&self, filter: Filter, count: u64) -> Result<Traces, String> {
        if !(1..=COUNT_MAX).contains(&count) {
            return Err(format!("`count` is {count}, and may be 1 to {COUNT_MAX}"));
        }
        let tracing = &self.progress.tracing;
        tracing.start(filter, count as usize, ROOM).map_err(|busy| busy.to_string())
    }

    /// Lists flows that live now, and says which of them are wanted; or says why not.
    pub fn flows(&self, filter: &FlowFilter) -> Result<(Flows, Wanted), String> {
        let wanted = filter.wanted()?;
        let listing = &self.progress.listing;
        let flows = listing.flows(filter.function.as_deref(), now_ns).map_err(|error| error.to_string())?;
        Ok((flows, wanted))
    }

    /// How often the rules of functions have decided, or why that is not known.
    pub fn rules(&self) -> Result<Vec<RuleLine>, String> {
        let (chain, _) = self.progress.reloads.current().ok_or("the run is over, or has not begun")?;
        if chain.functions.iter().all(|spec| spec.function.rules().is_empty()) {
            return Err("no function of the chain has rules: `firewall` and `access-list` do".to_owned());
        }
        match self.progress.listing.rules() {
            none if none.is_empty() => {
                Err("cores do not answer: another chain takes over; ask again".to_owned())
            }
            rules => Ok(rules.into_iter().map(RuleLine::new).collect()),
        }
    }

    /// Removes flows, and says how many; or why not.
    pub fn kill(&self, filter: &FlowFilter) -> Result<String, String> {
        if filter.is_empty() {
            return Err("which flows are to be removed? Say at least one thing of them".to_owned());
        }
        let (mut flows, wanted) = self.flows(filter)?;
        let (mut doomed, mut count) = (BTreeMap::<String, Vec<Vec<u8>>>::new(), 0);
        while count < KILLED
            && let Some(portion) = flows.next_portion()
        {
            for flow in portion.into_iter().filter(|flow| wanted.has(flow)) {
                doomed.entry(flow.function).or_default().push(flow.state.key_bytes);
                count += 1;
            }
        }
        if count == 0 {
            return Ok("no such flow".to_owned());
        }
        let doomed = doomed.into_iter().map(|(function, keys)| Doomed { function, keys }).collect();
        let removed = self.progress.reloads.remove(doomed).map_err(|error| error.to_string())?;
        live::give_back_heap();
        let told = ReloadReport::new(&removed).text().trim_end().to_owned();
        let more = if count < KILLED { "" } else { "\nThere may be more: ask again." };
        Ok(told + more)
    }

    /// Has a chain take over, or says why not.
    pub fn reload(&self, name: &str, text: &str) -> Result<ReloadReport, String> {
        let mut expiries = self.changes.begin();
        let chain = Chain::parse(name, text, &self.registry).map_err(|error| error.in_words())?;
        let runs = self.progress.reloads.current();
        if runs.is_some_and(|(runs, _)| runs.interfaces != chain.interfaces) {
            return Err("its [[interface]] tables are others than those of the chain that runs, whose interfaces are open, each \
                        with the hosts of its side\nEnd the run, and start it with this file."
                .to_owned());
        }
        // Checks know more of backends than its file does.
        let chain = match self.health.news(&chain) {
            none if none.is_empty() => chain,
            news => self.edited(&chain, |_, table| Ok(write_news(table, &news)))?.unwrap_or(chain),
        };
        let report = self.replace(chain)?;
        // Its sets are those of its file.
        expiries.clear();
        Ok(report)
    }

    /// Has the run's own chain file take over, read again.
    pub(super) fn reload_own_file(&self) -> Result<ReloadReport, String> {
        let name = self.chain.display().to_string();
        let text = read_text("the chain file", &self.chain).map_err(|failure| failure.to_string())?;
        self.reload(&name, &text)
    }

    /// Has the chain that runs take over from itself, with a change to its file; `None` if `edit` says that nothing changes. Nobody else
    /// may change it meanwhile.
    pub(super) fn change_chain(
        &self,
        edit: impl FnOnce(&Chain, &mut Table) -> Result<bool, String>,
    ) -> Result<Option<ReloadReport>, String> {
        let (before, _) = self.progress.reloads.current().ok_or("the run is over, or has not begun")?;
        self.edited(&before, edit)?.map(|chain| self.replace(chain)).transpose()
    }

    /// A chain with a change to its file.
    fn edited(
        &self,
        before: &Chain,
        edit: impl FnOnce(&Chain, &mut Table) -> Result<bool, String>,
    ) -> Result<Option<Chain>, String> {
        let mut table: Table = before.text.parse().map_err(|error| format!("{error}"))?;
        table.insert("name".to_owned(), Value::String(before.name.clone()));
        if !edit(before, &mut table)? {
            return Ok(None);
        }
        let text = toml::to_string(&table).map_err(|error| error.to_string())?;
        let mut chain =
            Chain::parse(&before.name, &text, &self.registry).map_err(|error| error.in_words())?;
        // The command line may have given other tables than the file.
        for (spec, before) in chain.functions.iter_mut().zip(&before.functions) {
            (spec.flows, spec.when_full) = (before.flows, before.when_full);
        }
        Ok(Some(chain))
    }

    /// Has a chain that has been read take over.
    pub(super) fn replace(&self, chain: Chain) -> Result<ReloadReport, String> {
        let _told = service::Reloading::begin();
        let reloaded = self.take_over(chain)?;
        self.reloads.fetch_add(1, Ordering::Relaxed);
        self.health.chain_changed();
        live::give_back_heap();
        Ok(ReloadReport::new(&reloaded))
    }

    /// Where the chain has other external addresses packets to them come here ahead of it: the host would refuse answers to
    /// what it has sent. Those of the chain before are left to the host when it is gone.
    fn take_over(&self, chain: Chain) -> Result<Reloaded, String> {
        let Progress { reloads, .. } = &*self.progress;
        let before = reloads.current().map(|(before, _)| before);
        let before =
            before.filter(|before| !self.guards_host && before.side_prefixes() != chain.side_prefixes());
        let Some(before) = before else { return reloads.reload(chain).map_err(|error| error.to_string()) };
        let after = chain.clone();
        self.external.change(of_chains(vec![before.clone(), after.clone()]));
        let reloaded = reloads.reload(chain);
        self.external.change(of_chains(vec![if reloaded.is_ok() { after } else { before }]));
        reloaded.map_err(|error| error.to_string())
    }

    /// Has so many cores get packets, and says in words which are parked, or why not.
    pub fn cores(&self, active: usize) -> Result<String, String> {
        let Progress { reloads, .. } = &*self.progress;
        reloads.set_cores(active).map_err(|error| error.to_string())?;
        let cores = reloads.current().map_or(active, |(_, plan)| plan.cores);
        let parked = plural((cores - active) as u64, "core");
        Ok(format!("{} from the next packet on, {parked} parked", plural(active as u64, "core")))
    }

    /// Has an entry or a shard go to a core, and stay there if it is pinned.
    pub fn put(&self, entry: u16, core: u16, is_pinned: bool) -> Result<String, String> {
        self.progress.reloads.put(entry, core, is_pinned).map_err(|error| error.to_string())?;
        let then = if is_pinned { "stays there" } else { "goes on as loads ask for" };
        Ok(format!("{} {entry} goes to core {core} at the end of the period, and {then}", self.unit()))
    }

    /// Has an entry or a shard go as loads ask for.
    pub fn unpin(&self, entry: u16) -> Result<String, String> {
        let was_pinned = self.progress.reloads.unpin(entry).map_err(|error| error.to_string())?;
        let unit = self.unit();
        match was_pinned {
            true => Ok(format!("{unit} {entry} goes as loads ask for")),
            false => Err(format!("{unit} {entry} is not pinned")),
        }
    }

    fn unit(&self) -> &'static str {
        let current = self.progress.reloads.current();
        if current.is_some_and(|(_, plan)| plan.shards.is_some()) { "shard" } else { "entry" }
    }

    /// Sets a number that the strategy declares, if one is given, and says what all of them are; or why not.
    pub fn tune(&self, set: Option<&(String, u64)>) -> Result<Vec<TunableLine>, String> {
        let (_, plan) = self.progress.reloads.current().ok_or("the run is over, or has not begun")?;
        let strategy = plan.strategy.name();
        if let Some((name, value)) = set {
            plan.tunables.set_live(name, *value).map_err(|why| format!("strategy `{strategy}`: {why}"))?;
        }
        let line = |(tunable, value): (&Tunable, u64)| TunableLine {
            name: tunable.name.to_owned(),
            value,
            range: (*tunable.range.start(), *tunable.range.end()),
            live: tunable.is_live,
            help: tunable.help.to_owned(),
        };
        let lines: Vec<_> = plan.tunables.iter().map(line).collect();
        match lines.is_empty() {
            true => Err(format!("strategy `{strategy}` declares no number that can be set")),
            false => Ok(lines),
        }
    }

    /// What the strategy decided last and why, and where a flow's packets go, if there is one.
    pub fn why(&self, flow: Option<&FlowWords>) -> Result<WhyReport, String> {
        let (chain, plan) = self.progress.reloads.current().ok_or("the run is over, or has not begun")?;
        let why = WhyReport::new(&plan);
        match flow {
            None => Ok(why),
            Some(flow) => Ok(why.with_flow(&chain, &plan, flow.text(), &flow.headers()?)),
        }
    }

    pub fn status(&self) -> Option<Status> {
        let (chain, plan) = self.progress.reloads.current()?;
        let snapshot = self.progress.telemetry.as_ref()?.snapshot();
        let cores: Vec<CoreStatus> = snapshot
            .cores
            .iter()
            .map(|core| CoreStatus {
                packets: core.counts.packets,
                bytes: core.counts.bytes,
                forward: core.counts.forward,
                transmit_back: core.counts.transmit_back,
                host: core.counts.host,
                dropped: core.counts.dropped_by_function
                    + core.counts.dropped_malformed
                    + core.counts.dropped_no_room,
            })
            .collect();
        Some(Status {
            paceline: env!("CARGO_PKG_VERSION").to_owned(),
            chain: chain.name.clone(),
            functions: chain.functions.iter().map(|spec| spec.name.clone()).collect(),
            strategy: plan.strategy.name().to_owned(),
            interfaces: self.interfaces.clone(),
            uptime_seconds: self.begin.elapsed().as_secs_f64(),
            reloads: self.reloads.load(Ordering::Relaxed),
            packets: cores.iter().map(|core| core.packets).sum(),
            active_cores: plan.active.get(),
            updates: plan.moves_entries().then(|| plan.updates.times().into()),
            cores,
            counters: self.board.read().into_iter().map(InterfaceCounts::new).collect(),
            unwritten: self.unwritten.read(),
            kernel: None,
        })
    }
}

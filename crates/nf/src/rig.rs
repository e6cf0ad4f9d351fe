use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use alloc::{vec, vec::IntoIter};

use wire::{Edits, Headers, Stamp, Stamper};
use zerocopy::IntoBytes;

use crate::{
    Cx, Ended, FunctionReport, NetworkFunction, Records, Verdict, assert_reads_key, began_anew,
    undeclared_event,
};

/// One function on one core with a table that is never full, in plain code: for a function's own
/// tests, and as the oracle that the engine's fast path is held to.
///
/// Headers go in, verdicts come out. Slow on purpose: a sorted map, one packet at a time.
///
/// ```
/// # use paceline_nf as nf;
/// # use nf::{About, Cx, FiveTuple, FlowKey, NetworkFunction, OptionError, Rig, Verdict};
/// # use wire::{Fields, Headers};
/// # #[derive(serde::Deserialize)] struct None {}
/// # struct CountToTwo;
/// # impl NetworkFunction for CountToTwo {
/// #     const ABOUT: About = About { name: "count-to-two", drop_reasons: &["third"], ..About::NONE };
/// #     const READS: Fields = Fields::FIVE_TUPLE;
/// #     type Key = FiveTuple; type Meta = FiveTuple; type State = u64; type Pool = (); type Options = None;
/// #     fn new(_: None) -> Result<Self, OptionError> { Ok(CountToTwo) }
/// #     fn project(headers: &Headers) -> Option<FiveTuple> { Some(FiveTuple::of(headers)) }
/// #     fn key(meta: &FiveTuple) -> FiveTuple { *meta }
/// #     fn step(&self, flow: &mut Option<u64>, _: &FiveTuple, _: &mut Cx<'_, ()>) -> Verdict {
/// #         let seen = flow.get_or_insert(0);
/// #         *seen += 1;
/// #         if *seen > 2 { Verdict::Drop(0) } else { Verdict::Forward }
/// #     }
/// #     fn idle_timeout_ns(&self, _: &u64) -> u64 { 1_000 }
/// # }
/// let mut rig = Rig::new(CountToTwo);
/// let packet = Headers { src_port: 4000, ..Headers::default() };
/// assert_eq!(rig.packet(0, &packet), Verdict::Forward);
/// assert_eq!(rig.packet(100, &packet), Verdict::Forward);
/// assert_eq!(rig.packet(200, &packet), Verdict::Drop(0));
/// assert_eq!(rig.packet(1_200, &packet), Verdict::Forward); // idle for 1,000 ns: a new flow
/// ```
pub struct Rig<F: NetworkFunction> {
    function: F,
    flows: BTreeMap<Vec<u8>, Flow<F>>,
    pool: F::Pool,
    ended: Ended<F::Key, F::State>,
    events: Vec<u64>,
    stamper: Stamper,
    now: Stamp,
    edits: Edits,
    seed: u64,
}

struct Flow<F: NetworkFunction> {
    key: F::Key,
    state: F::State,
    deadline_ns: u64,
}

impl<F: NetworkFunction> Rig<F> {
    /// A rig with no flows.
    pub fn new(function: F) -> Rig<F> {
        const { assert_reads_key::<F>() };
        let pool = (F::EXTRAS.pool.make)(&function);
        let ended = Ended::new((F::EXTRAS.records.keep)(&function));
        Rig {
            function,
            flows: BTreeMap::new(),
            pool,
            ended,
            events: vec![0; F::ABOUT.events.len() + 1],
            stamper: Stamper::default(),
            now: Stamp::default(),
            edits: Edits::NONE,
            seed: 0,
        }
    }

    /// The same with the seed that [`Cx::random`] draws from.
    pub fn with_seed(self, seed: u64) -> Rig<F> {
        Rig { seed, ..self }
    }

    /// Steps the function with a packet that arrives at `time_ns`. What the function does not
    /// project is forwarded. The packet's payload is empty.
    ///
    /// # Panics
    /// If the function drops for a reason, or counts an event, that it does not declare.
    pub fn packet(&mut self, time_ns: u64, headers: &Headers) -> Verdict {
        self.packet_with_payload(time_ns, headers, &[])
    }

    /// The same with a payload, for a function that inspects it.
    pub fn packet_with_payload(&mut self, time_ns: u64, headers: &Headers, payload: &[u8]) -> Verdict {
        let stamp = self.stamper.stamp(time_ns);
        let verdict = self.step(stamp, headers);
        let verdict = match (F::EXTRAS.inspect, F::project(headers)) {
            (Some(inspect), Some(meta)) if verdict == Verdict::Forward => {
                let no_pool = &mut ();
                let mut cx = Cx::new(stamp, &mut self.edits, no_pool, &mut self.events, self.seed);
                inspect(&self.function, payload, &meta, &mut cx)
            }
            _ => verdict,
        };
        self.assert_declared(verdict);
        verdict
    }

    fn assert_declared(&self, verdict: Verdict) {
        if let Verdict::Drop(reason) = verdict {
            let reasons = F::ABOUT.drop_reasons;
            let is_declared = usize::from(reason) < reasons.len();
            assert!(
                is_declared,
                "`{}` drops for reason {reason}: drop_reasons are {reasons:?}",
                F::ABOUT.name
            );
        }
        if let Some(event) = undeclared_event(&self.events) {
            panic!("`{}` counts event {event}: events are {:?}", F::ABOUT.name, F::ABOUT.events);
        }
    }

    /// Steps the function with a packet and a stamp from elsewhere, and inspects nothing.
    pub fn step(&mut self, stamp: Stamp, headers: &Headers) -> Verdict {
        self.now = stamp;
        self.edits = Edits::NONE;
        self.expire();
        let Some(meta) = F::project(headers) else { return Verdict::Forward };
        let key = F::key(&meta);
        let before = self.flows.get(key.as_bytes()).map(|flow| flow.state);
        let mut state = before;
        let mut cx = Cx::new(stamp, &mut self.edits, &mut self.pool, &mut self.events, self.seed);
        let totals = F::EXTRAS.records.totals;
        let verdict = self.function.step(&mut state, &meta, &mut cx);
        if let (true, Some(before), Some(after)) = (F::EXTRAS.records.begin_anew, &before, &state)
            && began_anew(totals(&self.function, before), totals(&self.function, after))
        {
            end(&self.function, &mut self.ended, &key, before);
        }
        match state {
            Some(state) => {
                let idle_timeout_ns = self.function.idle_timeout_ns(&state);
                let deadline_ns = match self.flows.get(key.as_bytes()) {
                    Some(flow) if !(F::EXTRAS.refreshes)(&meta) => flow.deadline_ns,
                    _ => stamp.time_ns.saturating_add(idle_timeout_ns),
                };
                self.flows.insert(key.as_bytes().to_vec(), Flow { key, state, deadline_ns });
            }
            None => {
                self.flows.remove(key.as_bytes());
            }
        }
        verdict
    }

    /// The state of the flow that `headers` belongs to, if it lives.
    pub fn state(&self, headers: &Headers) -> Option<&F::State> {
        let key = F::key(&F::project(headers)?);
        self.flows.get(key.as_bytes()).map(|flow| &flow.state)
    }

    /// How many flows live.
    pub fn len(&self) -> usize {
        self.flows.len()
    }

    /// Whether no flow lives.
    pub fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    /// Every live flow, in the order of the keys' bytes.
    pub fn flows(&self) -> impl Iterator<Item = (&F::Key, &F::State)> {
        self.flows.values().map(|flow| (&flow.key, &flow.state))
    }

    /// The edits of the last packet.
    pub fn edits(&self) -> &Edits {
        &self.edits
    }

    /// The pool.
    pub fn pool(&self) -> &F::Pool {
        &self.pool
    }

    /// How often the event called `name` was counted.
    ///
    /// # Panics
    /// If the function has no such event.
    pub fn event(&self, name: &str) -> u64 {
        let index = F::ABOUT.events.iter().position(|event| *event == name);
        self.events[index.expect("an event of this function")]
    }

    /// What the function reports.
    pub fn report(&self) -> Vec<FunctionReport> {
        let flows: Vec<(&F::Key, &F::State)> = self.flows().collect();
        let mut flows: IntoIter<_> = flows.into_iter();
        (F::EXTRAS.reports.report)(&self.function, &mut flows, &self.ended, self.now)
    }

    /// Advances time without a packet, so that idle flows expire.
    pub fn wait_until(&mut self, time_ns: u64) {
        self.now.time_ns = self.now.time_ns.max(time_ns);
        self.expire();
    }

    fn expire(&mut self) {
        let now_ns = self.now.time_ns;
        let Rig { function, flows, pool, ended, .. } = self;
        flows.retain(|_, flow| {
            let live = flow.deadline_ns > now_ns;
            if !live {
                (F::EXTRAS.pool.gone)(function, &flow.key, &flow.state, pool);
                end(function, ended, &flow.key, &flow.state);
            }
            live
        });
    }
}

/// Notes a record that has ended, if the function wants to know.
fn end<F: NetworkFunction>(
    function: &F,
    ended: &mut Ended<F::Key, F::State>,
    key: &F::Key,
    state: &F::State,
) {
    let Records { keep, rank, totals, .. } = F::EXTRAS.records;
    if keep(function) > 0 {
        ended.add(rank(function, state), totals(function, state), key, state);
    }
}

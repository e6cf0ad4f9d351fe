//! A rig for a function's own tests: one function on one core, with a plain map as its table.

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
        let rules = F::EXTRAS.rules.map_or(0, |rules| rules(&function).len());
        Rig {
            function,
            flows: BTreeMap::new(),
            pool,
            ended,
            events: vec![0; F::ABOUT.events.len() + 1 + rules],
            stamper: Stamper::default(),
            now: Stamp::default(),
            edits: Edits::NONE,
            seed: 0,
        }
    }

    /// Sets the seed that [`Cx::random`] draws from.
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

    /// Steps the function as [`Rig::packet`] does, with a packet that has a payload for the function to inspect.
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
        if let Some(event) = undeclared_event(&self.events[..F::ABOUT.events.len() + 1]) {
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

    /// How often each of the function's rules has decided: see [`Extras::rules`](crate::Extras::rules).
    pub fn rules(&self) -> &[u64] {
        &self.events[F::ABOUT.events.len() + 1..]
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

#[cfg(test)]
mod tests {
    use alloc::format;

    use wire::{Addr, Fields};
    use zerocopy::{Immutable, TryFromBytes};

    use super::*;
    use crate::{About, Extras, FlowKey, InPlace, OptionError, Pooled, Reports, SrcAddr, drawn};

    /// Counts packets of a source up to 3, drops the next one and goes on from 1: that ends a record. A TTL of 0 ends the
    /// flow, one of 9 does not keep it alive. The pool counts packets, and 1,000 for each flow that is gone.
    struct Three {
        drops_for: u8,
        counts: usize,
    }

    #[derive(Clone, Copy, IntoBytes, TryFromBytes, Immutable)]
    #[repr(C)]
    struct Meta {
        src: Addr,
        ttl: u8,
    }

    impl NetworkFunction for Three {
        const ABOUT: About = About {
            name: "three",
            drop_reasons: &["fourth", "payload"],
            events: &["packets", "inspected"],
            ..About::NONE
        };
        const READS: Fields = Fields::SRC_ADDR.union(Fields::TTL).union(Fields::MARKS);
        const EXTRAS: Extras<Self> = Extras {
            pool: Pooled { make: |_| 40, gone: |_, _, _, pool| *pool += 1_000, ..Pooled::NONE },
            records: Records {
                totals: |_, state| [*state, 1],
                begin_anew: true,
                keep: |_| 2,
                rank: |_, state| *state,
            },
            reports: Reports {
                report: |_, flows, ended, now| {
                    let title =
                        format!("{} live, {:?} ended, at {}", flows.count(), ended.largest(), now.time_ns);
                    vec![FunctionReport { title, columns: vec![], rows: vec![] }]
                },
                ..Reports::NONE
            },
            refreshes: |meta| meta.ttl != 9,
            inspect: Some(|_, payload, _, cx| {
                cx.count(1);
                if payload == b"bad" { Verdict::Drop(1) } else { Verdict::Forward }
            }),
            ..Extras::NONE
        };
        type Key = SrcAddr;
        type Meta = Meta;
        type State = u64;
        type Pool = u64;
        type Options = ();

        fn new((): ()) -> Result<Self, OptionError> {
            Ok(Three { drops_for: 0, counts: 0 })
        }

        fn project(headers: &Headers) -> Option<Meta> {
            headers.is_ip().then_some(Meta { src: headers.src, ttl: headers.ttl })
        }

        fn key(meta: &Meta) -> SrcAddr {
            SrcAddr(meta.src)
        }

        fn step(&self, flow: &mut Option<u64>, meta: &Meta, cx: &mut Cx<'_, u64>) -> Verdict {
            cx.count(self.counts);
            *cx.pool += 1;
            cx.edits.set_ttl(cx.random() as u8);
            let count = flow.map_or(1, |count| count + 1);
            *flow = (meta.ttl > 0).then_some(if count == 4 { 1 } else { count });
            if count == 4 { Verdict::Drop(self.drops_for) } else { Verdict::Forward }
        }

        fn idle_timeout_ns(&self, _: &u64) -> u64 {
            1_000
        }
    }

    fn packet(source: u8, ttl: u8) -> Headers {
        Headers { src: Addr::v4([10, 0, 0, source]), ttl, marks: wire::Marks::IPV4, ..Headers::default() }
    }

    #[test]
    fn a_rig_does_what_an_engine_does() {
        let mut rig = Rig::new(Three { drops_for: 0, counts: 0 }).with_seed(7);
        assert!(rig.is_empty() && rig.state(&packet(1, 64)).is_none());
        let verdicts: Vec<_> = (0..5).map(|time_ns| rig.packet(time_ns, &packet(1, 64))).collect();
        let forward = Verdict::Forward;
        assert_eq!(verdicts, [forward, forward, forward, Verdict::Drop(0), forward]);
        let mut edits = Edits::NONE;
        edits.set_ttl(drawn(4_u64.as_bytes(), 7) as u8);
        assert_eq!(rig.edits(), &edits);
        assert_eq!((rig.state(&packet(1, 64)), rig.len(), rig.is_empty()), (Some(&2), 1, false));
        assert_eq!(
            (rig.event("packets"), rig.event("inspected")),
            (5, 4),
            "what is dropped is not inspected"
        );
        assert_eq!(rig.packet_with_payload(5, &packet(2, 64), b"bad"), Verdict::Drop(1));
        assert_eq!(rig.packet(6, &Headers::default()), forward, "not its business");
        assert_eq!((rig.edits(), rig.event("packets")), (&Edits::NONE, 6));
        let flows: Vec<_> = rig.flows().map(|(key, state)| (format!("{key}"), *state)).collect();
        assert_eq!(flows, [("10.0.0.1".into(), 2), ("10.0.0.2".into(), 1)]);

        // Both flows live up to 1,000 after the last packet that keeps them alive.
        assert_eq!(rig.packet(500, &packet(1, 9)), forward);
        rig.wait_until(1_003);
        assert_eq!((rig.len(), *rig.pool()), (2, 47));
        rig.wait_until(1_004);
        assert_eq!((rig.len(), *rig.pool()), (1, 1_047), "the first one's deadline is not shifted");
        let title = &rig.report()[0].title;
        let (key, anew) = (SrcAddr::of(&packet(1, 0)), 3);
        assert_eq!(*title, format!("1 live, {:?} ended, at 1004", [(&key, &3), (&key, &anew)]));
        assert_eq!(rig.packet(1_004, &packet(2, 0)), forward);
        assert!(rig.is_empty());
        assert_eq!(*rig.pool(), 1_048, "a flow that a step ends is not gone, for the pool");
    }

    #[test]
    #[should_panic(expected = "drops for reason 2")]
    fn a_reason_that_is_not_declared_is_found() {
        let mut rig = Rig::new(Three { drops_for: 2, counts: 0 });
        (0..4).for_each(|time_ns| _ = rig.packet(time_ns, &packet(1, 64)));
    }

    #[test]
    #[should_panic(expected = "counts event 2")]
    fn an_event_that_is_not_declared_is_found() {
        Rig::new(Three { drops_for: 0, counts: 2 }).packet(0, &packet(1, 64));
    }

    #[test]
    fn what_a_function_does_not_say_is_taken_from_its_types() {
        let three = Three { drops_for: 0, counts: 0 };
        assert!((Three::EXTRAS.pool.steps_in_order)(&three), "there is a pool, which steps change");
        assert!(InPlace::<Three>::Never.is_never());
        assert!(!InPlace::<Three>::Flow(|_, _, _, _, _| false).is_never());
    }
}

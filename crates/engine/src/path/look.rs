//! What a function knows of a packet's flow, and what it has counted: asked before a step and after it.

use std::fmt::Write;

use nf::{FlowKey, NetworkFunction, StateValue};
use wire::Headers;
use zerocopy::IntoBytes;

use crate::path::counters::StageCounters;

/// A function's view of a packet, between two steps.
#[derive(Default)]
pub(crate) struct Look {
    /// Whether the packet is the function's business.
    pub(crate) is_its_business: bool,
    /// The packet's key; `None` for a function without states.
    pub(crate) key: Option<String>,
    /// The state that the packet finds.
    pub(crate) flow: Option<TracedFlow>,
    pub(crate) tally: Tally,
}

/// A flow's state, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracedFlow {
    /// Names and values: see [`nf::Reports::state`].
    pub state: Vec<(&'static str, StateValue)>,
    /// When the flow expires if nothing steps it, ns; `u64::MAX` is never.
    pub deadline_ns: u64,
}

/// What a function has counted so far.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) transmit_back: u64,
    pub(crate) host: u64,
    /// By reason.
    pub(crate) drops: Vec<u64>,
    /// By event.
    pub(crate) events: Vec<u64>,
    pub(crate) evicted: u64,
    pub(crate) rejected: u64,
}

impl Look {
    /// The view of `function`, which has counted `counters`; `find` gives the state under a key, and when it dies.
    pub(crate) fn of<F: NetworkFunction>(
        function: &F,
        headers: &Headers,
        now_ns: u64,
        counters: &StageCounters<'_>,
        find: impl FnOnce(&F::Key) -> Option<(F::State, u64)>,
    ) -> Look {
        let key = F::project(headers).map(|meta| F::key(&meta));
        let found = key.as_ref().and_then(find).filter(|(_, deadline_ns)| *deadline_ns > now_ns);
        let flow =
            found.map(|(state, deadline_ns)| TracedFlow { state: shown(function, &state), deadline_ns });
        Look {
            is_its_business: key.is_some(),
            key: key.filter(|_| !F::Key::SHARDING.is_stateless()).map(|key| key.to_string()),
            flow,
            tally: Tally::of(counters),
        }
    }
}

impl Tally {
    fn of(counters: &StageCounters<'_>) -> Tally {
        Tally {
            transmit_back: counters.transmit_back,
            host: counters.host,
            drops: counters.drops.into(),
            events: counters.events.into(),
            evicted: counters.flows.evicted,
            rejected: counters.flows.rejected,
        }
    }
}

/// A state in names and values; its bytes where the function has no names.
pub(crate) fn shown<F: NetworkFunction>(function: &F, state: &F::State) -> Vec<(&'static str, StateValue)> {
    let named = (F::EXTRAS.reports.state)(function, state);
    if !named.is_empty() {
        return named;
    }
    let mut bytes = String::new();
    for byte in state.as_bytes() {
        let _ = write!(bytes, "{byte:02x}");
    }
    vec![("bytes", bytes.into())]
}

//! The web page of a run: what its cores count, shown in a browser while the run goes on.
//!
//! ```text
//!  Telemetry ── snapshot, once a second ──► Watch ──► View ── JSON ──► GET /events: server-sent events
//!                                                                      GET /: the page, one file
//!  Inspect ◄── questions, while a browser wants the answers ────────────  GET /flows: the fastest flows
//!                                                                      POST /trace: a few packets, step by step
//!                                                                      POST /reload: another chain, with a token
//! ```
//!
//! [`Dashboard`] is the server. It has one thread, which reads what the cores publish ([`telemetry`]) and answers all
//! clients: no core waits for it, and no client can hold a run up. What is asked of the run itself ([`Inspect`]) waits in
//! threads of its own. A [`View`] is all that the page shows, with rates and sentences worked out here, so that the page only
//! draws. The page is built from `web/` and checked in as `page.html`.

mod content;
mod flows;
mod hall;
mod hosts;
mod inspect;
mod log;
mod rules;
mod server;
mod token;
mod traces;
mod view;
mod warnings;
mod watch;

pub use hosts::Hosts;
pub use inspect::{Flow, Inspect, Matched, Portion, Seen, TraceFilter};
pub use server::{CLIENTS_MAX, Dashboard};
pub use token::{TOKEN_LEAST, Token};
pub use traces::{TRACE_PACKETS, TRACE_TIME};
pub use view::{
    CoreView, DropView, EventView, FlowView, FlowsView, FunctionView, InterfaceView, LogEntry, Point,
    RuleView, RulesView, StrategyView, TableView, TraceEndView, TraceView, Verdict, View,
};
pub use watch::Watch;

//! All tests of the engine over captures, as one program: each program links the whole engine.
//!
//! A new file is named here. `no_alloc` and `flood` are programs of their own, since memory is the whole process's.

#[path = "auto.rs"]
mod auto;
#[path = "balancer.rs"]
mod balancer;
#[path = "balancer_backends.rs"]
mod balancer_backends;
#[path = "balancer_judged.rs"]
mod balancer_judged;
#[path = "batches.rs"]
mod batches;
#[path = "capture.rs"]
mod capture;
#[path = "card.rs"]
mod card;
#[path = "checksums.rs"]
mod checksums;
#[path = "classes.rs"]
mod classes;
#[path = "contract.rs"]
mod contract;
#[path = "cores.rs"]
mod cores;
#[path = "dyssect.rs"]
mod dyssect;
#[path = "egress.rs"]
mod egress;
#[path = "external.rs"]
mod external;
#[path = "faults.rs"]
mod faults;
#[path = "firewall_rates.rs"]
mod firewall_rates;
#[path = "fragments.rs"]
mod fragments;
#[path = "full_tables.rs"]
mod full_tables;
#[path = "gateway.rs"]
mod gateway;
#[path = "hybrid.rs"]
mod hybrid;
#[path = "listing.rs"]
mod listing;
#[path = "live.rs"]
mod live;
#[path = "mixed_keys.rs"]
mod mixed_keys;
#[path = "nat.rs"]
mod nat;
#[path = "nat_deadlines.rs"]
mod nat_deadlines;
#[path = "nat_fixed.rs"]
mod nat_fixed;
#[path = "nat_judged.rs"]
mod nat_judged;
#[path = "nat_limits.rs"]
mod nat_limits;
#[path = "own_ports.rs"]
mod own_ports;
#[path = "own_turns.rs"]
mod own_turns;
#[path = "pins.rs"]
mod pins;
#[path = "reads.rs"]
mod reads;
#[path = "reload.rs"]
mod reload;
#[path = "reports.rs"]
mod reports;
#[path = "router_errors.rs"]
mod router_errors;
#[path = "rsspp.rs"]
mod rsspp;
#[path = "scr.rs"]
mod scr;
#[path = "scr_simulation.rs"]
mod scr_simulation;
#[path = "seed.rs"]
mod seed;
#[path = "shared.rs"]
mod shared;
#[path = "shared_time.rs"]
mod shared_time;
#[path = "simulation.rs"]
mod simulation;
#[path = "small_tables.rs"]
mod small_tables;
#[path = "strangers.rs"]
mod strangers;
#[path = "own_strategy.rs"]
mod strategy_from_outside;
#[path = "sweep.rs"]
mod sweep;
#[path = "telemetry.rs"]
mod telemetry;
#[path = "trace.rs"]
mod trace;
#[path = "typed_history.rs"]
mod typed_history;
#[path = "undeclared.rs"]
mod undeclared;
#[path = "verify.rs"]
mod verify;

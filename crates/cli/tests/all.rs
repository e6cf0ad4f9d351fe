//! All tests of the program, as one: each test program links the whole engine. A new file is named here.

#[path = "answers.rs"]
mod answers;
#[path = "backends.rs"]
mod backends;
#[path = "bench.rs"]
mod bench;
#[path = "card.rs"]
mod card;
#[path = "check.rs"]
mod check;
#[path = "../../dashboard/tests/chromium.rs"]
mod chromium;
#[path = "cli.rs"]
mod cli;
#[path = "connections.rs"]
mod connections;
#[path = "control.rs"]
mod control;
#[path = "control_packets.rs"]
mod control_packets;
#[path = "cores.rs"]
mod cores;
#[path = "curl.rs"]
mod curl;
#[path = "dns.rs"]
mod dns;
#[path = "drains.rs"]
mod drains;
#[path = "drops.rs"]
mod drops;
#[path = "egress.rs"]
mod egress;
#[path = "emulate.rs"]
mod emulate;
#[path = "emulate_run.rs"]
mod emulate_run;
#[path = "exit_status.rs"]
mod exit_status;
#[path = "explain.rs"]
mod explain;
#[path = "external.rs"]
mod external;
#[path = "flows.rs"]
mod flows;
#[path = "fragmented.rs"]
mod fragmented;
#[path = "fragments.rs"]
mod fragments;
#[path = "../../live/tests/xdp/frames.rs"]
mod frames;
#[path = "own_function.rs"]
mod function_from_outside;
#[path = "guarded.rs"]
mod guarded;
#[path = "html.rs"]
mod html;
#[path = "import.rs"]
mod import;
#[path = "installed.rs"]
mod installed;
#[path = "iperf.rs"]
mod iperf;
#[path = "jumbo.rs"]
mod jumbo;
#[path = "../../live/tests/lab/mod.rs"]
mod lab;
#[path = "linux/mod.rs"]
mod linux;
#[path = "live.rs"]
mod live;
#[path = "looks.rs"]
mod looks;
#[path = "meant.rs"]
mod meant;
#[path = "mice.rs"]
mod mice;
#[path = "oddities.rs"]
mod oddities;
#[path = "office.rs"]
mod office;
#[path = "offload.rs"]
mod offload;
#[path = "on_death.rs"]
mod on_death;
#[path = "own_moves.rs"]
mod own_moves;
#[path = "own_sockets.rs"]
mod own_sockets;
#[path = "p4.rs"]
mod p4;
#[path = "pages.rs"]
mod pages;
#[path = "path_mtu.rs"]
mod path_mtu;
#[path = "plan.rs"]
mod plan;
#[path = "ports.rs"]
mod ports;
#[path = "queues.rs"]
mod queues;
#[path = "raw.rs"]
mod raw;
#[path = "referred.rs"]
mod referred;
#[path = "reject.rs"]
mod reject;
#[path = "report.rs"]
mod report;
#[path = "self_test.rs"]
mod self_test;
#[path = "service.rs"]
mod service;
#[path = "sets.rs"]
mod sets;
#[path = "sides.rs"]
mod sides;
#[path = "signals.rs"]
mod signals;
#[path = "soak.rs"]
mod soak;
#[path = "own_strategy.rs"]
mod strategy_from_outside;
mod support;
#[path = "sweep.rs"]
mod sweep;
#[path = "tap.rs"]
mod tap;
#[path = "timeline.rs"]
mod timeline;
#[path = "trace.rs"]
mod trace;
#[path = "translated.rs"]
mod translated;
#[path = "unresolved.rs"]
mod unresolved;
#[path = "vanish.rs"]
mod vanish;
#[path = "vlan.rs"]
mod vlan;
#[path = "web.rs"]
mod web;
#[path = "web_live.rs"]
mod web_live;
#[path = "web_service.rs"]
mod web_service;
#[path = "why.rs"]
mod why;
#[path = "xdp.rs"]
mod xdp;

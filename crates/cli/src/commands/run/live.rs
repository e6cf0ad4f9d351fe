//! `paceline run` on network interfaces.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use engine::report::{InterfaceReport, RoutingReport, RunReport};
use engine::{Chain, Plan, Registry, RunError, guests, run_live};
use io::Pool;
use live::route::{RouteCounters, RouteDrop};
use live::xdp::{HostPort, Steering};
use live::{Interface, LiveError, LivePort, Lost, Mode, Poll, PortOptions, Routes, Sockets, host_addresses};

use super::record::Recorded;
use super::{RunArgs, serve};
use crate::control::{Control, Hangups, Subject, default_path};
use crate::failure::Failure;
use crate::input::read_chain;
use crate::output::Reports;
use crate::progress::interruptible;

const LIVE: &str = "Network interfaces, in place of --pcap";

/// Options that say where packets come from, in place of a capture.
pub const PLACES: [&str; 4] = ["inside", "outside", "mirror", "on"];

/// Frames that packets are received into.
const FRAMES: usize = 8_192;

/// How often a thread that waits for the end of a run looks.
const LOOK: Duration = Duration::from_millis(20);

#[derive(Args)]
pub struct LiveArgs {
    /// Stand between two interfaces: the one where the hosts are that the chain is for
    #[arg(long, value_name = "IF", requires = "outside", help_heading = LIVE)]
    inside: Option<String>,
    /// The one where everybody else is
    #[arg(long, value_name = "IF", requires = "inside", help_heading = LIVE)]
    outside: Option<String>,
    /// How packets go between the two
    #[arg(long, value_enum, value_name = "MODE", requires = "inside", default_value = "bridge", help_heading = LIVE)]
    mode: ModeArg,
    /// Look at what an interface receives, and send nothing
    #[arg(long, value_name = "IF", conflicts_with_all = ["inside", "on"], help_heading = LIVE)]
    mirror: Option<String>,
    /// Stand beside the way, with one interface: packets are routed, and leave by it again
    #[arg(long, value_name = "IF", conflicts_with = "inside", help_heading = LIVE)]
    on: Option<String>,
    /// Leave packets to this host's own addresses and this port to it, such as `tcp/22`; may be repeated. AF_XDP only:
    /// AF_PACKET leaves it all packets
    #[arg(long, value_name = "PORT", help_heading = LIVE)]
    pass_to_host: Vec<String>,
    /// Write the packets that come in to this pcap, with the times that the chain goes by: `paceline run --pcap` gives
    /// again what --out has of the packets that leave. Slows a run down
    #[arg(long, value_name = "IN.pcap", help_heading = LIVE)]
    record: Option<PathBuf>,
    /// By which sockets
    #[arg(long, value_enum, value_name = "KIND", default_value = "auto", help_heading = LIVE)]
    socket: SocketArg,
    /// What to do while no packets arrive
    #[arg(long, value_enum, value_name = "HOW", default_value = "adaptive", help_heading = LIVE)]
    poll: PollArg,
    /// Answer `paceline ctl` at this socket [default: $XDG_RUNTIME_DIR/paceline.sock, else /run/paceline.sock, if no other
    /// run has it]
    #[arg(long, value_name = "PATH", help_heading = LIVE)]
    control: Option<PathBuf>,
    /// End after so many seconds [default: at Ctrl-C, or `kill`]
    #[arg(long, value_name = "SECONDS", help_heading = LIVE)]
    duration: Option<u64>,
}

#[derive(Clone, Copy, ValueEnum)]
enum ModeArg {
    /// Out of the other one, unchanged but for what the chain edits
    Bridge,
    /// As a router: by this machine's routes and neighbours, as `ip route` and `ip neigh` show them
    Route,
}

#[derive(Clone, Copy, ValueEnum)]
enum PollArg {
    /// Look again and again: the shortest latency, and all of a processor
    Busy,
    /// Sleep after some 50 us until a packet arrives, which then waits some 20 to 60 us for it
    Adaptive,
}

#[derive(Clone, Copy, ValueEnum)]
enum SocketArg {
    /// AF_XDP where it can be had, else AF_PACKET
    Auto,
    /// AF_XDP: past the kernel's own stack
    Xdp,
    /// AF_PACKET: with every driver; the kernel's own stack sees packets as well
    Packet,
}

/// Interfaces, and how packets go between them.
pub struct Place<'a> {
    names: Vec<&'a str>,
    way: Way,
}

/// How packets go between interfaces.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Bridge,
    Mirror,
    Route,
}

impl LiveArgs {
    /// Where packets come from, if not from a capture.
    pub fn place(&self) -> Option<Place<'_>> {
        let LiveArgs { inside, outside, mode, mirror, on, .. } = self;
        let (names, way) = match (inside, outside, mirror, on) {
            (Some(inside), Some(outside), ..) => match mode {
                ModeArg::Bridge => (vec![inside, outside], Way::Bridge),
                ModeArg::Route => (vec![inside, outside], Way::Route),
            },
            (_, _, Some(mirror), _) => (vec![mirror], Way::Mirror),
            (.., Some(on)) => (vec![on], Way::Route),
            _ => return None,
        };
        Some(Place { names: names.into_iter().map(String::as_str).collect(), way })
    }
}

pub fn command(args: &RunArgs, place: &Place<'_>, registry: &Registry) -> Result<ExitCode, Failure> {
    if args.speed.is_some() || args.history.is_given() || args.reload.is_given() {
        return Err(Failure::usage(
            "--speed, --reload-at and history that comes with packets are for captures\n\
             Leave them out, or give --pcap in place of interfaces.",
        ));
    }
    let chain = read_chain(&args.chain.chain, registry)?;
    let strategy = args.strategy.0;
    let cores = args.chain.cores.unwrap_or_else(|| Plan::default_cores(strategy));
    let plan = Plan { egress: args.egress.0, ..args.card.plan(&chain, strategy, cores)? };
    let (came_in, left) = (args.live.record.as_deref(), args.out.as_deref());
    let reports = Reports::open(&[args.chain.chain.as_path()], left, args.json.as_deref())?;
    let open = |name: &&str| Interface::open(name).map_err(cannot);
    let interfaces = place.names.iter().map(open).collect::<Result<Vec<_>, _>>()?;
    let longest = interfaces.iter().map(|interface| interface.mtu).max().unwrap_or_default();
    let (mut pool, guests) = Pool::chunks(FRAMES, LivePort::chunk_bytes(longest), guests(&plan));
    let frames = pool.free();
    // Ends with the run.
    let (mode, _routes) = match place.way {
        Way::Bridge => (Mode::Bridge, None),
        Way::Mirror => (Mode::Mirror, None),
        Way::Route => {
            let (routes, forwarder) = Routes::start().map_err(cannot)?;
            routes.remarks.iter().for_each(|remark| eprintln!("note: {remark}"));
            (Mode::Route(Box::new(forwarder)), Some(routes))
        }
    };
    let sockets = match args.live.socket {
        SocketArg::Auto => Sockets::Auto,
        SocketArg::Xdp => Sockets::Xdp,
        SocketArg::Packet => Sockets::Packet,
    };
    let poll = match args.live.poll {
        PollArg::Busy => Poll::Busy,
        PollArg::Adaptive => Poll::Adaptive,
    };
    let options = PortOptions { sockets, poll, steering: steering(args, place, &chain)? };
    let mut port = LivePort::open(&interfaces, mode, pool, &options).map_err(cannot)?;
    port.remarks().iter().for_each(|remark| eprintln!("note: {remark}"));
    for (interface, socket, _) in port.interfaces() {
        eprintln!("{}: {}, MTU {}, {socket}", interface.name, driver(&interface), interface.mtu);
    }
    let hangups = Hangups::keep();
    let telemetry = Some(Arc::new(plan.telemetry(&chain)));
    let server = args.metrics.as_ref().zip(telemetry.as_ref());
    let _server = server.map(|(address, telemetry)| serve(address, telemetry)).transpose()?;
    let progress = interruptible(telemetry);
    let subject = Arc::new(Subject {
        registry: registry.clone(),
        progress: Arc::clone(&progress),
        interfaces: place.names.iter().map(|name| (*name).to_owned()).collect(),
        chain: args.chain.chain.clone(),
        begin: Instant::now(),
        reloads: AtomicU64::new(0),
    });
    let _control = control(args.live.control.as_deref(), &subject)?;
    hangups.reload(Arc::clone(&subject));
    eprintln!("{} runs, strategy {} on {} cores; Ctrl-C ends it", chain.name, strategy.name(), plan.cores);
    if let Some(seconds) = args.live.duration {
        let progress = Arc::clone(&progress);
        let begin = Instant::now();
        thread::spawn(move || {
            while begin.elapsed() < Duration::from_secs(seconds) && !progress.stop.load(Ordering::Relaxed) {
                thread::sleep(LOOK);
            }
            progress.stop.store(true, Ordering::Relaxed);
        });
    }
    let guests = (guests, frames);
    let outcome = match (came_in, left) {
        (None, None) => run_live(&chain, &plan, &mut port, guests, &progress),
        _ => {
            let mut recorded = Recorded::new(&mut port, came_in, left)?;
            let outcome = run_live(&chain, &plan, &mut recorded, guests, &progress);
            recorded.finish()?;
            outcome
        }
    };
    let outcome = outcome.map_err(|error| match error {
        RunError::Seen(failure) => failure,
        memory @ RunError::OutOfMemory { .. } => Failure::usage(memory),
        error => Failure::defect(error),
    })?;
    let interfaces = port.interfaces().into_iter().map(|(interface, socket, counters)| {
        let lost = Lost::ALL.iter().zip(counters.lost).filter(|(_, count)| *count > 0);
        InterfaceReport {
            name: interface.name,
            socket,
            received: counters.received,
            received_bytes: counters.received_bytes,
            sent: counters.sent,
            sent_bytes: counters.sent_bytes,
            lost: lost.map(|(why, count)| (why.name().to_owned(), count)).collect::<BTreeMap<_, _>>(),
        }
    });
    let (chain, plan) = outcome.chain.as_ref().map_or((&chain, &plan), |(chain, plan)| (chain, plan));
    let report = RunReport {
        interfaces: interfaces.collect(),
        routing: port.routed().map(routing),
        ..RunReport::new(chain, plan, &outcome)
    };
    reports.write(&report, &report.text(None))?;
    let (frames, at_home) = (port.frames(), port.at_home());
    if at_home != frames {
        return Err(Failure::defect(format!(
            "{} of {frames} frames did not come back to their pool; this is a defect, please report it",
            frames - at_home
        )));
    }
    Ok(ExitCode::SUCCESS)
}

/// Which packets of each interface are the host's own business.
fn steering(args: &RunArgs, place: &Place<'_>, chain: &Chain) -> Result<Vec<Steering>, Failure> {
    let port = |text: &String| text.parse::<HostPort>().map_err(cannot);
    let pass_ports = args.live.pass_to_host.iter().map(port).collect::<Result<Vec<_>, _>>()?;
    let is_router = place.way == Way::Route;
    let host_addresses = if is_router || !pass_ports.is_empty() { host_addresses() } else { Ok(Vec::new()) };
    let all = host_addresses.map_err(cannot)?.into_iter();
    let (port_addresses, host_addresses) = all.partition(|address| chain.translates_to(*address));
    let steering = Steering {
        pass_neighbours: is_router,
        pass_groups: is_router,
        pass_host_addresses: is_router,
        pass_ports,
        host_addresses,
        port_addresses,
    };
    Ok(vec![steering; place.names.len()])
}

fn routing(counters: &RouteCounters) -> RoutingReport {
    let dropped = |reason: &RouteDrop| (reason.name().to_owned(), counters.dropped(*reason));
    RoutingReport {
        sent: counters.sent,
        hairpins: counters.hairpins,
        host: counters.host,
        dropped: RouteDrop::ALL.iter().map(dropped).filter(|(_, count)| *count > 0).collect(),
        icmp_errors: counters.replies,
        icmp_errors_limited: counters.replies_limited,
    }
}

/// The control socket that was asked for; else the one where everybody looks, if it is free.
fn control(path: Option<&Path>, subject: &Arc<Subject>) -> Result<Option<Control>, Failure> {
    let started = Control::start(&path.map_or_else(default_path, Path::to_owned), Arc::clone(subject));
    match started {
        Ok(control) => Ok(Some(control)),
        Err(failure) if path.is_some() => Err(failure),
        Err(failure) => {
            eprintln!("note: no `paceline ctl` for this run: {failure}");
            Ok(None)
        }
    }
}

fn cannot(error: LiveError) -> Failure {
    Failure::usage(error)
}

fn driver(interface: &Interface) -> String {
    let queues = match interface.queues {
        1 => "1 queue".to_owned(),
        queues => format!("{queues} queues"),
    };
    if interface.driver.is_empty() { queues } else { format!("{}, {queues}", interface.driver) }
}

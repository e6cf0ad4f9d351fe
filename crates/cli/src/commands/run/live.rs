//! `paceline run` on network interfaces.

use std::collections::BTreeMap;
use std::io::{Write, stderr};
use std::mem;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use engine::report::{AnswersReport, InterfaceReport, RoutingReport, RunReport, SeedReport};
use engine::{Chain, Plan, Registry, SpoofedPolicy, hosts_of_other_sides, run_live, run_live_each};
use live::rights;
use live::route::{RouteCounters, RouteDrop};
use live::xdp::{HostPort, OnDeath, Pins, Steering};
use live::{
    AnswerCounters, CardHash, ExternalAddresses, Interface, InterfaceStatus, LiveError, LivePort, Lost, Poll,
    PortOptions, Sockets, TapDevice, host_addresses,
};

use nf::prefix::PrefixSet;
use strategy::{HashFields, SYMMETRIC_KEY};
use telemetry::InterfaceSnapshot;
use wire::Fields;

use super::card::{Telling, with_card};
use super::document::Page;
use super::guarding;
use super::metrics::{listen, serve_on};
use super::opening;
use super::options::{HostArg, OnDeathArg, Place, PollArg, RunArgs, SocketArg, TAP, Way};
use super::record::{Recorded, names_interfaces};
use crate::connections::Connections;
use crate::control::{
    Changes, Checking, Control, Hangups, Health, Subject, Unwritten, default_path, external,
};
use crate::failure::{Failure, Failures};
use crate::output::{Reports, check_outputs, plural, tell_format};
use crate::progress::interruptible;
use crate::service::{Service, Watched};
use crate::timeline::Timeline;

/// How often a thread that waits for the end of a run looks.
const LOOK: Duration = Duration::from_millis(20);

pub fn command(
    args: &RunArgs,
    place: &Place<'_>,
    chain: &Chain,
    registry: &Registry,
) -> Result<ExitCode, Failure> {
    if args.speed.is_some() || args.history.is_given() || args.reload.is_given() || args.tables.is_given() {
        return Err(Failure::usage(
            "--speed, --flows, --table-full, --table-seed, --reload-at, --cores-at and history that comes with packets are for captures\n\
             Leave them out, or give --pcap in place of interfaces.",
        ));
    }
    if args.trace.trace.is_some() || args.drops.drops.is_some() || args.drops.log.is_some() {
        return Err(Failure::usage(
            "--trace, --drops and --log are for captures\n\
             On interfaces ask a run that goes on: `paceline ctl trace FILTER`, `paceline ctl drops --out FILE`.",
        ));
    }
    let strategy = args.strategy.of_chain()?;
    let cores = args.chain.cores.unwrap_or_else(|| Plan::default_cores(strategy));
    let plan = Plan { egress: args.egress.0, ..args.card.plan(chain, strategy, cores)? };
    let plan = with_card(args, place, plan)?;
    let (came_in, left) = (args.live.record.as_deref(), args.out.as_deref());
    let inputs = [args.chain.chain.as_path()];
    let records = args.connections.as_deref();
    let outputs = [
        ("--out", left),
        ("--json", args.json.as_deref()),
        ("--report", args.report.as_deref()),
        ("--connections", records),
    ];
    check_outputs(&inputs, &outputs)?;
    tell_format(came_in.filter(|path| !names_interfaces(path)));
    let reports = Reports::open(&inputs, left.or(records.filter(|path| *path == "-")), args.json.as_deref())?;
    let connections = Connections::open(records, chain)?;
    let document = Page::open(args)?;
    if place.names.len() > 2 && came_in.is_some_and(names_interfaces) {
        return Err(Failure::usage(
            "--record IN.pcapng tells two interfaces apart, by their side, and here are more\nRecord into IN.pcap.",
        ));
    }
    let blocks = blocks(args, place)?;
    guarding::check(args, place)?;
    let guards_host = args.live.host == HostArg::Chain;
    let socket = args.live.control.clone().unwrap_or_else(default_path);
    let written = written(args, &socket, blocks);
    let written: Vec<&Path> = written.iter().map(PathBuf::as_path).collect();
    // Ahead of all threads: they leave the signal alone, and are confined, as this one is.
    let hangups = Hangups::keep();
    let tun = [Path::new("/dev/net/tun")];
    let is_tap = |name: &&str| name.starts_with(TAP);
    let by_tun = if place.way == Way::Route || place.names.iter().any(is_tap) { &tun[..] } else { &[] };
    let confined = rights::confine(&[&written[..], by_tun].concat());
    let opened = place.names.iter().map(|name| open(name, place.way)).collect::<Result<Vec<_>, _>>()?;
    let (taps, interfaces): (Vec<_>, Vec<_>) = opened.into_iter().unzip();
    let sockets = match args.live.socket {
        // AF_PACKET keeps nothing from the host, so it can block nothing.
        SocketArg::Auto if blocks || guards_host || plan.card.is_some() => Sockets::Xdp,
        // What AF_XDP takes the host behind a mirror would not get.
        SocketArg::Auto if place.way == Way::Mirror => Sockets::Packet,
        SocketArg::Auto => Sockets::Auto,
        SocketArg::Xdp => Sockets::Xdp,
        SocketArg::Packet => Sockets::Packet,
    };
    let poll = match args.live.poll {
        PollArg::Busy => Poll::Busy,
        PollArg::Driver => Poll::Driver,
        PollArg::Adaptive => Poll::Adaptive,
    };
    let external = external(chain, guards_host);
    let options = PortOptions {
        sockets,
        poll,
        steering: steering(args, place, &external, (blocks, plan.card_flows))?,
        external: Some(external.clone()),
        sides: place.sides.clone(),
        others: others(place, chain),
        taps,
        card_hash: args.live.card_rss.then(|| card_hash(&plan)),
        answers_per_second: args.live.answers_per_second,
        tell: Some(tell),
    };
    let mut opened = opening::open(args, place, chain, plan, &interfaces, options).map_err(cannot)?;
    let (plan, ports) = (&opened.plan, &mut opened.ports);
    if place.way == Way::Route && ports[0].shares_with_host() {
        eprintln!(
            "note: this host's own stack sees the packets as well: it must not forward (net.ipv4.ip_forward = 0), and it \
             resets connections to addresses of its own that a NAT or a load balancer has"
        );
    }
    for (interface, socket, _) in LivePort::all_interfaces(ports) {
        eprintln!("{}: {}, MTU {}, {socket}", interface.name, driver(&interface), interface.mtu);
    }
    opened.cores.iter().for_each(|line| eprintln!("{line}"));
    guarding::notes(args, place, chain, ports[0].shares_with_host())
        .iter()
        .for_each(|note| eprintln!("note: {note}"));
    eprint!("{}", SeedReport::new(chain).text());
    let telemetry = Some(Arc::new(plan.telemetry(chain)));
    let board = ports[0].board();
    telemetry.iter().for_each(|telemetry| {
        let board = board.clone();
        telemetry.tell_interfaces(move || board.read().into_iter().map(counted).collect());
    });
    let listener = args.metrics.as_ref().map(listen).transpose()?;
    let page = args.web.listen()?;
    // What is needed from here on; threads that start now have no more.
    let for_files = rights::for_files(&written, &[&args.chain.chain]).map_err(cannot)?;
    let kept = rights::keep(&for_files).map_err(cannot)?;
    eprintln!("{}", rights_line(&kept, confined));
    let server = listener.zip(telemetry.as_ref());
    let _server = server.map(|(listener, telemetry)| serve_on(listener, telemetry)).transpose()?;
    let timeline = Page::follow(document.as_ref(), telemetry.as_ref());
    let progress = interruptible(telemetry.clone());
    let unwritten = Unwritten::default();
    let subject = Arc::new(Subject {
        registry: registry.clone(),
        progress: Arc::clone(&progress),
        interfaces: interfaces.iter().map(|interface| interface.name.clone()).collect(),
        board: ports[0].board(),
        chain: args.chain.chain.clone(),
        begin: Instant::now(),
        reloads: AtomicU64::new(0),
        tap: ports[0].tap(),
        log: ports[0].log(),
        external,
        guards_host,
        unwritten: unwritten.clone(),
        changes: Changes::default(),
        health: Health::default(),
    });
    let _page = args.web.serve(page, telemetry.as_ref(), Some(Arc::clone(&subject) as _))?;
    let _control = Control::start_at(args.live.control.as_deref(), &subject)?;
    hangups.reload(Arc::clone(&subject));
    let _checking = Checking::start(&subject);
    let cores = plural(plan.cores as u64, "core");
    let line = format!("{} runs, strategy {} on {cores}", chain.name, strategy.name());
    let pulses = ports.iter().map(LivePort::pulse).collect();
    let telling = Telling::start(plan, ports[0].card(), tell);
    let service = Service::start(Watched { progress: Arc::clone(&progress), line, pulses });
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
    // From here on, whatever happens but a good end.
    ports.iter_mut().for_each(|port| port.outlive(true));
    let guests = (mem::take(&mut opened.guests), ports[0].frames());
    let mut failures = Failures::default();
    let outcome = match (came_in, left) {
        (None, None) if plan.has_own_ports => {
            let table = opening::table(ports);
            run_live_each(chain, plan, ports, table, &progress)
        }
        (None, None) => run_live(chain, plan, &mut ports[0], guests, &progress),
        _ => {
            let mut recorded = Recorded::new(&mut ports[0], &place.names, (came_in, left), unwritten)?;
            let outcome = run_live(chain, plan, &mut recorded, guests, &progress);
            // The report comes all the same.
            failures.of(recorded.finish());
            outcome
        }
    };
    drop((service, telling));
    let outcome = outcome.map_err(Failure::of_run)?;
    let timeline = timeline.map(Timeline::finish);
    ports.iter_mut().for_each(|port| {
        port.finish();
        port.outlive(false);
    });
    let interfaces = LivePort::all_interfaces(ports).into_iter().map(|(interface, socket, counters)| {
        let lost = Lost::ALL.iter().zip(counters.lost).filter(|(_, count)| *count > 0);
        InterfaceReport {
            name: interface.name,
            socket,
            received: counters.received,
            received_bytes: counters.received_bytes,
            sent: counters.sent,
            sent_bytes: counters.sent_bytes,
            completed: counters.completed,
            lost: lost.map(|(why, count)| (why.name().to_owned(), count)).collect::<BTreeMap<_, _>>(),
        }
    });
    let (chain, plan) = outcome.chain.as_ref().map_or((chain, plan), |(chain, plan)| (chain, plan));
    let mut report = RunReport {
        interfaces: interfaces.collect(),
        routing: LivePort::all_routed(ports).as_ref().map(routing),
        answers: answers(LivePort::all_answers(ports)),
        timeline,
        ..RunReport::new(chain, plan, &outcome)
    };
    let recorded = failures.of(connections.write(&mut report)).flatten();
    failures.of(document.map_or(Ok(()), |document| document.write(&report)));
    let recorded = recorded.map(|told| told + "\n").unwrap_or_default();
    failures.of(reports.write(&report, &(args.text(&report, None) + &recorded)));
    let (frames, at_home) = (ports[0].frames(), LivePort::at_home(ports));
    if at_home != frames {
        return Err(Failure::defect(format!(
            "{} of {frames} frames did not come back to their pool; this is a defect, please report it",
            frames - at_home
        )));
    }
    failures.first().map(|()| ExitCode::SUCCESS)
}

/// An interface, and that it is a TAP interface if it is one.
fn open(name: &str, way: Way) -> Result<(Option<TapDevice>, Interface), Failure> {
    match name.strip_prefix(TAP) {
        Some(_) if way == Way::Route => Err(Failure::usage(format!(
            "{name}: a router sends by interfaces that this host's routes name, and the other end of a TAP interface is this \
             host itself\nUse --mode bridge, or an interface with another host at its other end."
        ))),
        Some(tap) => {
            let (device, interface) = TapDevice::open(tap).map_err(cannot)?;
            Ok((Some(device), interface))
        }
        None => Ok((None, Interface::open(name).map_err(cannot)?)),
    }
}

/// By interface, the hosts of other sides inside. They are believed where the chain says so of all forged sources, and where one
/// interface has packets of all sides.
fn others(place: &Place<'_>, chain: &Chain) -> Vec<PrefixSet> {
    match chain.spoofed {
        SpoofedPolicy::Drop if place.names.len() == chain.interfaces.len() => {
            hosts_of_other_sides(&chain.interfaces)
        }
        _ => Vec::new(),
    }
}

/// Which packets of each interface are the host's own business.
fn steering(
    args: &RunArgs,
    place: &Place<'_>,
    external: &ExternalAddresses,
    (blocks, card_flows): (bool, usize),
) -> Result<Vec<Steering>, Failure> {
    let port = |text: &String| text.parse::<HostPort>().map_err(cannot);
    let pass_ports = args.live.pass_to_host.iter().map(port).collect::<Result<Vec<_>, _>>()?;
    let is_router = place.way == Way::Route;
    let host_addresses = if is_router || !pass_ports.is_empty() { host_addresses() } else { Ok(Vec::new()) };
    let (port_addresses, host_addresses) = external.split(&host_addresses.map_err(cannot)?);
    let steering = Steering {
        pass_neighbours: is_router,
        pass_groups: is_router,
        pass_host_addresses: is_router,
        pass_ports,
        host_addresses,
        port_addresses,
        spread: None,
        card_flows: card_flows as u32,
        // A queue that comes later is no way past the chain. A mirror's chain stands in nobody's way.
        drops_unserved: place.way != Way::Mirror,
        on_death: if blocks { OnDeath::Block } else { OnDeath::Pass },
        pins: Pins::at(&args.live.pins),
    };
    Ok(vec![steering; place.names.len()])
}

/// What the strategy hashes; addresses and ports where it hashes nothing.
fn card_hash(plan: &Plan) -> CardHash {
    let fields = plan.hash_fields.map_or(Fields::ADDRS | Fields::PORTS, HashFields::fields);
    CardHash { key: SYMMETRIC_KEY.to_vec(), fields }
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

/// What senders of rejected packets and of pings were told, if there were any.
fn answers(counters: AnswerCounters) -> Option<AnswersReport> {
    let AnswerCounters { resets, errors, pings, unanswerable, limited } = counters;
    let report = AnswersReport { resets, icmp_errors: errors, echo_replies: pings, unanswerable, limited };
    (report != AnswersReport::default()).then_some(report)
}

/// Says what happened to an interface. Where standard error is closed nobody reads this.
fn tell(line: &str) {
    let _ = writeln!(stderr(), "{line}");
}

/// What an interface counts, for metrics.
fn counted(InterfaceStatus { name, counters, .. }: InterfaceStatus) -> InterfaceSnapshot {
    let lost = |why: Lost| counters.lost[why as usize];
    InterfaceSnapshot {
        overflowed: lost(Lost::NoBuffer) + lost(Lost::QueueFull),
        name,
        received: counters.received,
        received_bytes: counters.received_bytes,
        sent: counters.sent,
        sent_bytes: counters.sent_bytes,
        lost: Lost::ALL.iter().zip(counters.lost).map(|(why, count)| (why.name(), count)).collect(),
    }
}

/// Files that are made in the course of a run, and so the folders that it writes in.
fn written(args: &RunArgs, socket: &Path, blocks: bool) -> Vec<PathBuf> {
    let files = [&args.out, &args.json, &args.report, &args.connections, &args.live.record];
    let files = files.into_iter().flatten().filter(|path| path.as_os_str() != "-");
    // Removed at the end, or by the first run that needs it no more.
    let pins = if blocks || args.live.pins.exists() { Some(args.live.pins.join("pin")) } else { None };
    files.cloned().chain([socket.to_owned()]).chain(pins).collect()
}

/// Whether nothing is to pass when the process dies.
fn blocks(args: &RunArgs, place: &Place<'_>) -> Result<bool, Failure> {
    match args.live.on_death {
        Some(OnDeathArg::Block) if place.way == Way::Mirror => Err(Failure::usage(
            "--on-death block is not for a mirror, which holds no packet up\nLeave it out.",
        )),
        Some(OnDeathArg::Block) if args.live.socket == SocketArg::Packet => Err(Failure::usage(
            "--on-death block needs AF_XDP: by AF_PACKET the kernel has all packets, too, and what it does with them is its own \
             business\nLeave --socket packet out, or have the kernel pass nothing: sysctl net.ipv4.ip_forward=0 \
             net.ipv6.conf.all.forwarding=0",
        )),
        Some(OnDeathArg::Keep) => Err(Failure::usage(
            "--on-death keep is for --backend xdp: packets of a chain are worked on by this program, and by nobody without it\nUse \
             pass or block.",
        )),
        Some(OnDeathArg::Block) => {
            Pins::at(&args.live.pins).make().map_err(cannot)?;
            Ok(true)
        }
        Some(OnDeathArg::Pass) => {
            if let Some(why) = nothing_passes(place.way) {
                eprintln!("note: nothing passes when this program dies: {why}");
            }
            Ok(false)
        }
        None => Ok(false),
    }
}

/// Why the kernel passes nothing on when it gets the packets.
pub fn nothing_passes(way: Way) -> Option<&'static str> {
    let forwards = |path: &str| std::fs::read_to_string(path).is_ok_and(|text| text.trim() == "1");
    match way {
        Way::Mirror => None,
        Way::Bridge => Some("this host is no bridge, unless a bridge of the kernel has both interfaces"),
        Way::Route if forwards("/proc/sys/net/ipv4/ip_forward") => None,
        Way::Route => Some("the kernel does not forward (net.ipv4.ip_forward = 0)"),
    }
}

/// What the threads that work on packets may do.
fn rights_line(kept: &[rights::Capability], confined: rights::Confined) -> String {
    let kept: Vec<String> = kept.iter().map(ToString::to_string).collect();
    let kept = if kept.is_empty() { "no capabilities for packets".to_owned() } else { kept.join(" ") };
    format!("rights: {kept}, those for sockets for interfaces that come back; {confined}")
}

fn cannot(error: LiveError) -> Failure {
    Failure::usage(error)
}

fn driver(interface: &Interface) -> String {
    let queues = plural(interface.queues.into(), "queue");
    if interface.driver.is_empty() { queues } else { format!("{}, {queues}", interface.driver) }
}

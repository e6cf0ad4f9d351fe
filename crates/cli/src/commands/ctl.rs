//! `paceline ctl`: asks a run on interfaces how it goes on, and has it do something else.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use engine::report::{FlowReport, WhyDropped};
use engine::{Registry, parse_quantity};
use live::xdp::Pins;
use wire::LinkType;

use crate::args::{number, tuning};
use crate::control::{
    BackendChange, BackendStatus, COUNT, COUNT_MAX, FlowFilter, FlowWords, Line, ListEnd, MEMBERS,
    MEMBERS_MAX, PER_SECOND, Request, RuleLine, SetStatus, TableListing, TunableLine, ask, default_path,
    follow, program_of,
};
use crate::drops::DropsFile;
use crate::explain::Code;
use crate::failure::Failure;
use crate::filter::read_filter;
use crate::input::read_text;
use crate::output::{self, count, plural};

#[derive(Args)]
pub struct CtlArgs {
    /// The run's control socket [default: $XDG_RUNTIME_DIR/paceline.sock, else /run/paceline.sock]
    #[arg(long, value_name = "PATH", global = true)]
    pub control: Option<PathBuf>,
    /// Write the answer as JSON
    #[arg(long, global = true)]
    pub json: bool,
    #[command(subcommand)]
    pub what: What,
}

#[derive(Subcommand)]
pub enum What {
    /// Say what runs, for how long, and what each core did
    Status,
    /// Have another chain take over, with the flows of functions that stay; says which began anew, and why
    Reload {
        /// The chain that is to run
        #[arg(value_name = "CHAIN.toml")]
        chain: PathBuf,
    },
    /// Have so many of the run's cores get packets, and park the others; flows go to the cores that get their packets
    Cores {
        /// How many: 1 to those that the run was started with
        #[arg(value_name = "N")]
        cores: usize,
    },
    /// Say what the strategy decided last, and why; of a flow, which core has it, and since when
    Why {
        /// The flow's protocol as its packets come in: tcp, udp, sctp, dccp, or the number of another one
        #[arg(value_name = "PROTOCOL", requires = "dst")]
        protocol: Option<String>,
        /// Where its packets come from: 192.0.2.1:80, [2001:db8::1]:80; without a port where the protocol has none
        #[arg(value_name = "SRC")]
        src: Option<String>,
        /// Where they go
        #[arg(value_name = "DST")]
        dst: Option<String>,
    },
    /// Have an entry of the indirection table, or a shard, go to a core with its flows; then it goes on as loads ask for
    Move {
        /// Its number: `ctl why` of a flow says the flow's
        #[arg(value_name = "ENTRY")]
        entry: u16,
        /// The core's number
        #[arg(value_name = "CORE")]
        core: u16,
    },
    /// Have it go there, and stay, whatever the loads
    Pin {
        /// Its number
        #[arg(value_name = "ENTRY")]
        entry: u16,
        /// The core's number
        #[arg(value_name = "CORE")]
        core: u16,
    },
    /// Have what is pinned go as loads ask for
    Unpin {
        /// Its number
        #[arg(value_name = "ENTRY")]
        entry: u16,
    },
    /// Say what can be set of the strategy while it runs, and set it; what it is, is the strategy's own
    Tune {
        /// What to set [default: nothing]
        #[arg(value_name = "NAME=VALUE", value_parser = tuning)]
        set: Option<(String, u64)>,
    },
    /// Show the way of packets through the chain: key, state before and after, verdict, edits. Ends at Ctrl-C at the latest
    Trace {
        /// Which packets: an expression of pcap-filter(7), as tcpdump takes it; '' is all
        #[arg(value_name = "FILTER")]
        filter: String,
        /// How many packets, at most
        #[arg(long, value_name = "N", default_value_t = COUNT, value_parser = clap::value_parser!(u64).range(1..=COUNT_MAX))]
        count: u64,
        /// How long, at most [default: until there are as many]
        #[arg(long, value_name = "S")]
        seconds: Option<u64>,
    },
    /// Write dropped packets to a pcapng, each with the function and its reason as comment. Ends at Ctrl-C at the latest
    Drops {
        /// The file; `-` is standard output
        #[arg(long, value_name = "DROPS.pcapng")]
        out: PathBuf,
        /// How long, at most [default: until Ctrl-C]
        #[arg(long, value_name = "S")]
        seconds: Option<u64>,
        /// The most of them for each second
        #[arg(long, value_name = "N", default_value_t = PER_SECOND)]
        per_second: u64,
    },
    /// Show packets that rules with `log` drop, a line each, as they come. With --json lines of JSON. Ends at Ctrl-C at the latest
    Log {
        /// How long, at most [default: until Ctrl-C]
        #[arg(long, value_name = "S")]
        seconds: Option<u64>,
        /// The most lines for each second
        #[arg(long, value_name = "N", default_value_t = PER_SECOND)]
        per_second: u64,
    },
    /// List the sets of addresses of the chain's functions, or change one; flows go on
    Set {
        #[command(subcommand)]
        what: SetWhat,
    },
    /// List the backends of `load-balancer`, or have some drain, go down, come back, or take another share; flows go on
    Backend {
        #[command(subcommand)]
        what: BackendWhat,
    },
    /// List the tables of a program in P4 whose entries come from outside, or change one; packets go on (--backend xdp)
    Table {
        #[command(subcommand)]
        what: TableWhat,
    },
    /// List flows, as `conntrack -L`: function, key, packets and bytes, age, time left, core, state. With --json a line each
    Flows(FlowsArgs),
    /// Say how often each rule of `firewall` and `access-list` has decided
    Rules,
    /// List the mappings of `nat`: inside and outside end, packets out, how far they are, time left. With --json as `flows`
    Nat(MappingArgs),
    /// End the run, after the packets on their way
    Stop,
    /// Have packets pass again that a run with --on-death block stopped when it died. Asks no run
    Unblock {
        /// The interface, in this network namespace
        #[arg(value_name = "IF")]
        interface: String,
        /// The folder that the run had as --pins [default: /sys/fs/bpf/paceline, else all BPF file systems are searched]
        #[arg(long, value_name = "FOLDER")]
        pins: Option<PathBuf>,
    },
}

#[derive(Subcommand)]
pub enum TableWhat {
    /// Add an entry to a table
    Add {
        /// The table's name, or how it ends
        #[arg(value_name = "TABLE")]
        name: String,
        /// [PRIORITY] KEY:VALUE... ACTION(VALUE, ...), as test files have it: hdr.ipv4.dst_addr:10.0.0.0/8 'forward(1)'
        #[arg(value_name = "ENTRY", required = true)]
        entry: Vec<String>,
    },
    /// Remove an entry from a table
    #[command(visible_alias = "del")]
    Remove {
        /// The table's name, or how it ends
        #[arg(value_name = "TABLE")]
        name: String,
        /// [PRIORITY] KEY:VALUE..., as it was added
        #[arg(value_name = "KEY", required = true)]
        keys: Vec<String>,
    },
    /// Set what a table does where no entry matches
    Default {
        /// The table's name, or how it ends
        #[arg(value_name = "TABLE")]
        name: String,
        /// ACTION(VALUE, ...)
        #[arg(value_name = "ACTION", required = true)]
        action: Vec<String>,
    },
    /// List what is in the tables, in the order in which entries match
    List {
        /// The table's name, or how it ends [default: all tables]
        #[arg(value_name = "TABLE")]
        name: Option<String>,
        /// How many entries of each, at most
        #[arg(long, value_name = "N", default_value_t = MEMBERS, value_parser = number(0..=MEMBERS_MAX as u64))]
        most: usize,
    },
}

impl TableWhat {
    fn request(&self) -> Request {
        let line = |command: &str, name: &str, words: &[String]| Request::Table {
            line: format!("{command} {name} {}", words.join(" ")),
        };
        match self {
            TableWhat::Add { name, entry } => line("add", name, entry),
            TableWhat::Remove { name, keys } => line("remove", name, keys),
            TableWhat::Default { name, action } => line("setdefault", name, action),
            TableWhat::List { name, most } => Request::Tables { name: name.clone(), most: *most },
        }
    }
}

#[derive(Subcommand)]
pub enum BackendWhat {
    /// List backends: state, weight, and what checks found
    List {
        /// A backend's name, or its address [default: all backends]
        #[arg(value_name = "NAME")]
        name: Option<String>,
    },
    /// Have a backend take new flows as its weight says, 0 to 1000; 0 is none
    Weight {
        #[command(flatten)]
        which: WhichBackend,
        /// Its share, relative to the other backends'
        #[arg(value_name = "N")]
        weight: u32,
    },
    /// Have a backend get no new flows, and keep those that it has
    Drain(WhichBackend),
    /// Have a backend take new flows again
    Up(WhichBackend),
    /// Have a backend get no packets; what becomes of its flows, the chain says (`when_down`)
    Down(WhichBackend),
}

#[derive(Args)]
pub struct WhichBackend {
    /// The backend's name as `list` has it, 198.51.100.21:8080, or its address, for all its ports
    #[arg(value_name = "NAME")]
    name: String,
    /// The service, as `list` has it: 'tcp 198.51.100.10:80' [default: all services that have the backend]
    #[arg(long, value_name = "SERVICE")]
    service: Option<String>,
}

impl BackendWhat {
    fn request(&self) -> Request {
        let (which, change) = match self {
            BackendWhat::List { name } => return Request::Backends { name: name.clone() },
            BackendWhat::Weight { which, weight } => (which, BackendChange::Weight(*weight)),
            BackendWhat::Drain(which) => (which, BackendChange::Drain),
            BackendWhat::Up(which) => (which, BackendChange::Up),
            BackendWhat::Down(which) => (which, BackendChange::Down),
        };
        Request::Backend { name: which.name.clone(), service: which.service.clone(), change }
    }
}

#[derive(Subcommand)]
pub enum SetWhat {
    /// Put addresses into a set
    Add {
        /// The set's name, as the chain's rules write it behind @
        #[arg(value_name = "NAME")]
        name: String,
        /// Prefixes, such as 198.51.100.7, 198.51.100.0/24 or 2001:db8::/32
        #[arg(value_name = "PREFIX", required = true)]
        prefixes: Vec<String>,
        /// How long they stay, by the machine's clock: 90s, 1h, '2 d' [default: until they are removed, or another chain is loaded]
        #[arg(long = "for", value_name = "TIME")]
        lasts: Option<String>,
    },
    /// Take addresses out of a set, each as the set lists it
    Remove {
        /// The set's name
        #[arg(value_name = "NAME")]
        name: String,
        /// Prefixes that it lists
        #[arg(value_name = "PREFIX", required = true)]
        prefixes: Vec<String>,
    },
    /// List what is in the sets, and for how long
    List {
        /// The set's name [default: all sets]
        #[arg(value_name = "NAME")]
        name: Option<String>,
        /// How many prefixes of each, at most
        #[arg(long, value_name = "N", default_value_t = MEMBERS, value_parser = number(0..=MEMBERS_MAX as u64))]
        most: usize,
    },
}

impl SetWhat {
    fn request(&self) -> Result<Request, Failure> {
        Ok(match self {
            SetWhat::Add { name, prefixes, lasts } => {
                let seconds = lasts.as_deref().map(|text| {
                    let seconds = parse_quantity("for_s", text)
                        .map_err(|wrong| Failure::usage(format!("--for \"{text}\": {wrong}")))?;
                    match u64::try_from(seconds) {
                        Ok(seconds) if seconds > 0 => Ok(seconds),
                        _ => Err(Failure::usage(format!("--for \"{text}\" is less than a second"))),
                    }
                });
                let seconds = seconds.transpose()?;
                Request::Set { name: name.clone(), add: prefixes.clone(), remove: Vec::new(), seconds }
            }
            SetWhat::Remove { name, prefixes } => {
                Request::Set { name: name.clone(), add: Vec::new(), remove: prefixes.clone(), seconds: None }
            }
            SetWhat::List { name, most } => Request::Sets { name: name.clone(), most: *most },
        })
    }
}

#[derive(Args)]
pub struct FlowsArgs {
    /// Those of this function, by its name in the chain
    #[arg(long, value_name = "NAME")]
    function: Option<String>,
    /// Those with this address in their key, or one of this prefix
    #[arg(long, value_name = "ADDRESS")]
    host: Option<String>,
    /// Those with this port in their key
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Those of this protocol: tcp, udp, icmp, icmpv6, sctp, dccp, or a number
    #[arg(long, value_name = "PROTOCOL")]
    protocol: Option<String>,
    /// Those with this value in their state: established, or by name: phase=open
    #[arg(long, value_name = "VALUE")]
    state: Option<String>,
    /// The most flows
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// Remove them, in place of listing them, as `conntrack -D`; says how many. It takes at least one of the conditions above
    #[arg(long, conflicts_with = "limit")]
    kill: bool,
}

#[derive(Args)]
pub struct MappingArgs {
    /// Those of inside hosts with this address, or one of this prefix
    #[arg(long, value_name = "ADDRESS")]
    host: Option<String>,
    /// Those of this inside port
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Those of this protocol: tcp, udp, icmp
    #[arg(long, value_name = "PROTOCOL")]
    protocol: Option<String>,
    /// The NAT, by its name in the chain
    #[arg(long, value_name = "NAME", default_value = "nat")]
    function: String,
    /// The most mappings
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
}

impl MappingArgs {
    fn flows(&self) -> FlowsArgs {
        let MappingArgs { host, port, protocol, function, limit } = self;
        let function = Some(function.clone());
        let (host, protocol) = (host.clone(), protocol.clone());
        FlowsArgs { function, host, port: *port, protocol, state: None, limit: *limit, kill: false }
    }
}

impl FlowsArgs {
    fn filter(&self) -> Result<FlowFilter, Failure> {
        let FlowsArgs { function, host, protocol, state, .. } = self;
        let [function, host, protocol, state] = [function, host, protocol, state].map(Clone::clone);
        let filter = FlowFilter { function, host, port: self.port, protocol, state };
        // Before anybody is asked.
        filter.wanted().map_err(Failure::usage)?;
        Ok(filter)
    }
}

pub fn command(args: &CtlArgs, _: &Registry) -> Result<ExitCode, Failure> {
    let path = args.control.clone().unwrap_or_else(default_path);
    let request = match &args.what {
        What::Trace { filter, count, seconds } => {
            let filter = read_filter(filter)?;
            let (program, filter) = (program_of(&filter), filter.expression().to_owned());
            return trace(
                &path,
                &Request::Trace { filter, program, count: *count, seconds: *seconds },
                args.json,
            );
        }
        What::Drops { out, seconds, per_second } => {
            return drops(&path, out, *per_second, *seconds);
        }
        What::Log { seconds, per_second } => return log(&path, *per_second, *seconds, args.json),
        What::Flows(flows) if flows.kill => {
            let filter = flows.filter()?;
            if filter.is_empty() {
                return Err(Failure::usage(
                    "which flows are to be removed? Give --function, --host, --port, --protocol or --state",
                ));
            }
            Request::KillFlows { filter }
        }
        What::Flows(flows) => return list(&path, flows, args.json, FlowReport::text),
        What::Nat(mappings) => return list(&path, &mappings.flows(), args.json, FlowReport::mapping_text),
        What::Rules => Request::Rules,
        What::Status => Request::Status,
        What::Stop => Request::Stop,
        What::Cores { cores } => Request::Cores { cores: *cores },
        What::Why { protocol, src, dst } => {
            let all = (protocol.clone(), src.clone(), dst.clone());
            let flow = match all {
                (Some(protocol), Some(src), Some(dst)) => Some(FlowWords { protocol, src, dst }),
                _ => None,
            };
            // Before anybody is asked.
            flow.iter().try_for_each(|flow| flow.headers().map(drop).map_err(Failure::usage))?;
            Request::Why { flow }
        }
        What::Move { entry, core } => Request::Move { entry: *entry, core: *core },
        What::Pin { entry, core } => Request::Pin { entry: *entry, core: *core },
        What::Tune { set } => Request::Tune { set: set.clone() },
        What::Unpin { entry } => Request::Unpin { entry: *entry },
        What::Set { what } => what.request()?,
        What::Backend { what } => what.request(),
        What::Table { what } => what.request(),
        What::Unblock { interface, pins } => return unblock(interface, pins.as_deref()),
        What::Reload { chain } => {
            let name = chain.display().to_string();
            let text = read_text("the chain file", chain)?;
            Request::Reload { name, text }
        }
    };
    let answer = ask(&path, &request)?;
    if args.json {
        output::print(&output::json(&answer)?)?;
    } else if let Some(status) = &answer.status {
        output::print(&status.text())?;
    } else if let Some(why) = &answer.why {
        output::print(&why.text())?;
    } else if let Some(sets) = &answer.sets {
        output::print(&sets.iter().map(SetStatus::text).collect::<String>())?;
    } else if let Some(backends) = &answer.backends {
        output::print(&BackendStatus::text(backends))?;
    } else if let Some(tables) = &answer.tables {
        output::print(&tables.iter().map(TableListing::text).collect::<String>())?;
    } else if let Some(tunables) = &answer.tunables {
        output::print(&tunables.iter().map(TunableLine::text).collect::<String>())?;
    } else if let Some(rules) = &answer.rules {
        output::print(&rules_text(rules))?;
    } else if let Some(told) = &answer.told {
        output::print(&format!("{told}\n"))?;
    }
    match answer.ok {
        true => Ok(ExitCode::SUCCESS),
        false => Err(Failure::usage(format!(
            "the run refused: {}",
            answer.error.as_deref().unwrap_or("it does not say why")
        ))
        .coded(Code::RunRefused)),
    }
}

/// Takes off what keeps packets from an interface.
fn unblock(interface: &str, pins: Option<&Path>) -> Result<ExitCode, Failure> {
    let first = pins.map_or_else(Pins::default, Pins::at);
    let mut was_there = first.unblock(interface).map_err(Failure::usage)?;
    if !was_there && pins.is_none() {
        for elsewhere in Pins::search(interface) {
            was_there |= elsewhere.unblock(interface).map_err(Failure::usage)?;
            eprintln!("note: the run had --pins {}", elsewhere.folder().display());
        }
    }
    match was_there {
        true => output::print(&format!("packets of {interface} go to the kernel again\n"))?,
        false => return Err(Failure::usage(nothing_blocks(interface, &first, pins.is_none()))),
    }
    Ok(ExitCode::SUCCESS)
}

/// Where it was looked for what keeps packets from an interface, and where else it may be.
fn nothing_blocks(interface: &str, first: &Pins, is_searched: bool) -> String {
    let mounted: Vec<String> = Pins::file_systems().iter().map(|path| path.display().to_string()).collect();
    let looked = match (is_searched, &mounted[..]) {
        (false, _) => format!("in {}", first.folder().display()),
        (true, []) => "here: no BPF file system is mounted".to_owned(),
        (true, mounted) => format!("in the BPF file systems mounted here, {}", mounted.join(" and ")),
    };
    let with_pins = if is_searched { "" } else { ", and with its --pins, or without that option" };
    match Pins::is_any_at(interface) {
        true => format!(
            "no dead run that blocks interface `{interface}` is found\nIt has an XDP program, and none of a run is named {looked}. If \
             a run's is named in a BPF file system that is not mounted here, ask where it is: `ip netns exec` hides /sys/fs/bpf, \
             `nsenter --net=/run/netns/NAME` does not. If the program is another's: ip link set dev {interface} xdp off"
        ),
        false => format!(
            "no dead run blocks interface `{interface}`\nThere is nothing of it {looked}, and no XDP program is at an interface of \
             that name. Ask in the network namespace of the run{with_pins}."
        ),
    }
}

/// Shows the way of packets, as long as there are some.
fn trace(path: &Path, request: &Request, is_json: bool) -> Result<ExitCode, Failure> {
    let mut told = 0;
    let has_ended = follow(path, request, &mut |line| {
        if is_json {
            return output::print(&(serde_json::to_string(&line).map_err(Failure::defect)? + "\n"));
        }
        if let Some(traced) = &line.traced {
            told += 1;
            output::print(&traced.text())?;
        }
        if let Some(end) = &line.end {
            let matched = end.matched.unwrap_or(end.told);
            let missed = match end.missed {
                0 => String::new(),
                missed => format!("; {} missed, as they came faster than they were shown", count(missed)),
            };
            let told = plural(end.told, "packet");
            output::print(&format!("traced {told} of {} that matched{missed}\n", count(matched)))?;
        }
        Ok(())
    })?;
    if !has_ended {
        eprintln!("note: the run is over; traced {}", plural(told, "packet"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Rules in columns, how often they decided first.
fn rules_text(rules: &[RuleLine]) -> String {
    let row = |RuleLine { function, rule, text, decided }: &RuleLine| {
        format!("{:>15}  {function:<13} {rule:>7}  {text}\n", count(*decided))
    };
    rules.iter().map(row).collect()
}

/// Lists flows.
fn list(
    path: &Path,
    args: &FlowsArgs,
    is_json: bool,
    text: fn(&FlowReport) -> String,
) -> Result<ExitCode, Failure> {
    let request = Request::Flows { filter: args.filter()?, limit: args.limit };
    let mut told = 0;
    let has_ended = follow(path, &request, &mut |line| {
        if is_json {
            return output::print(&(serde_json::to_string(&line).map_err(Failure::defect)? + "\n"));
        }
        if let Some(flow) = &line.flow {
            told += 1;
            output::print(&text(flow))?;
        }
        if let Some(list) = line.end.and_then(|end| end.list) {
            eprint!("{}", told_of(told, &list));
        }
        Ok(())
    })?;
    if !has_ended {
        eprintln!("note: the run is over; {} listed", plural(told, "flow"));
    }
    Ok(ExitCode::SUCCESS)
}

/// What is to be known of a list of so many flows, in lines.
fn told_of(told: u64, list: &ListEnd) -> String {
    let more = if list.limited { ", and there are more" } else { "" };
    let mut text = format!("{}{more}\n", plural(told, "flow"));
    if list.moved > 0 {
        let moved = plural(list.moved, "flow");
        text += &format!(
            "note: {moved} went from core to core meanwhile: so many may be listed twice, or not at all\n"
        );
    }
    if list.changed {
        text +=
            "note: another chain or strategy took over meanwhile, or the run ended: flows may be missing\n";
    }
    text
}

/// Writes dropped packets to a file, as long as there are some.
fn drops(path: &Path, out: &Path, per_second: u64, seconds: Option<u64>) -> Result<ExitCode, Failure> {
    // The run sees to the rate.
    let mut file = DropsFile::create(out, u64::MAX)?;
    let mut missed = 0;
    let has_ended =
        follow(path, &Request::Drops { per_second, seconds }, &mut |Line { dropped, end, .. }| {
            missed = end.map_or(missed, |end| end.missed);
            let Some(dropped) = dropped else { return Ok(()) };
            let why = WhyDropped { by: dropped.by, reason: dropped.reason, rule: dropped.rule };
            let comment = format!("{} (packet {})", why.text(), dropped.packet);
            let bytes = bytes_of(&dropped.data)
                .ok_or_else(|| Failure::usage("the run told of bytes that are none"))?;
            let interface = (dropped.interface.as_str(), LinkType::Ethernet);
            file.packet(interface, dropped.time_ns, (dropped.bytes, &bytes), &comment)
        })?;
    let written = file.finish(missed, "--per-second", per_second)?;
    if !has_ended {
        eprintln!("note: the run is over");
    }
    match out == "-" {
        true => eprintln!("{written}"),
        false => output::print(&format!("{written}\n"))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Shows packets that rules with `log` drop, as long as there are some.
fn log(path: &Path, per_second: u64, seconds: Option<u64>, is_json: bool) -> Result<ExitCode, Failure> {
    let mut told = 0;
    let has_ended =
        follow(path, &Request::Log { per_second, seconds }, &mut |Line { logged, end, .. }| {
            if let Some(entry) = &logged {
                told += 1;
                let text = match is_json {
                    true => serde_json::to_string(entry).map_err(Failure::defect)? + "\n",
                    false => entry.text(),
                };
                output::print(&text)?;
            }
            if let Some(end) = end.filter(|end| end.missed > 0) {
                eprintln!(
                    "note: {} left out, beyond --per-second {per_second}",
                    plural(end.missed, "packet")
                );
            }
            Ok(())
        })?;
    if !has_ended {
        eprintln!("note: the run is over; {} shown", plural(told, "packet"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Bytes in hexadecimal.
fn bytes_of(text: &str) -> Option<Vec<u8>> {
    let digit = |digit: u8| char::from(digit).to_digit(16);
    let byte = |pair: &[u8]| match pair {
        [high, low] => Some((digit(*high)? << 4 | digit(*low)?) as u8),
        _ => None,
    };
    text.as_bytes().chunks(2).map(byte).collect()
}

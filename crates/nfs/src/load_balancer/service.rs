//! Services and their backends, checked and ready to be looked up.

use core::fmt;
use core::net::{IpAddr, SocketAddr};

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use nf::{Check, OptionError, hash_bytes};
use wire::{Addr, Edits, Fields, Tunnel, protocol};
use zerocopy::{Immutable, IntoBytes};

use super::judge::{BackendRule, ServiceRule};
use super::maglev::{Candidate, ENTRIES, Maglev};
use super::options::WhenDown;
use super::options::{BackendOptions, BackendState, Forward, Health, Mac, Options, Policy, ServiceOptions};
use super::round_robin::RoundRobin;
use super::state::{Meta, State, known};
use super::vip::{End, ServicePort, Vip};

const SERVICES_MAX: usize = 64;
const BACKENDS_MAX: usize = 512;
const WEIGHT_MAX: u32 = 1000;

// Maglev §3.4: with 100 times as many entries, shares are off by 1% at most.
const _: () = assert!(100 * BACKENDS_MAX < ENTRIES);

/// Every service, and whose answers come from where.
#[derive(Clone, Debug)]
pub(super) struct Services {
    /// In the order of the chain file.
    services: Vec<Service>,
    /// Where in `services` those of one address and port are; ascending.
    by_socket: BySocket<u8>,
    /// Where the others are, in the order of the chain file.
    ranges: Vec<u8>,
    /// Address and port that packets from such a backend get; by the backend's socket, ascending.
    by_backend: BySocket<(Addr, u16)>,
    /// Address and port that packets from such a backend get; by what ICMP errors tell of the backend's address,
    /// ascending.
    by_quoted: BySocket<(Addr, u16)>,
    /// VIPs whose pings are answered, ascending, and whether one of each VIP's services takes new flows.
    pings: Vec<(Addr, bool)>,
}

/// Address, port and protocol.
type Socket = (Addr, u16, u8);

/// Sorted, to be searched by halves.
type BySocket<T> = Vec<(Socket, T)>;

impl Services {
    pub(super) fn new(options: &Options) -> Result<Services, OptionError> {
        let count = options.services.len();
        if count > SERVICES_MAX {
            return Err(error(format!("are {count}; at most {SERVICES_MAX} are possible")));
        }
        check_tunnels(options)?;
        let checked = options.services.iter().map(|service| Service::new(service, options));
        let services = checked.collect::<Result<Vec<_>, _>>()?;
        let is_second = |at: &usize| services[..*at].iter().any(|first| first.end == services[*at].end);
        if let Some(at) = (0..count).find(is_second) {
            let service = &services[at];
            return Err(error(format!("name {service} twice; give it all its backends in one place")));
        }
        let by_backend = if options.rewrite_answers { by_backend(&services)? } else { Vec::new() };
        let by_quoted = by_quoted(&by_backend);
        let (mut by_socket, mut ranges) = (Vec::new(), Vec::new());
        for (at, service) in (0..).zip(&services) {
            match service.socket() {
                Some(socket) => by_socket.push((socket, at)),
                None => ranges.push(at),
            }
        }
        by_socket.sort_unstable();
        let pings = if options.answer_pings { pings(&services) } else { Vec::new() };
        Ok(Services { services, by_socket, ranges, by_backend, by_quoted, pings })
    }

    /// The service that packets to `addr` and `port` go to, and its position. A flow stays with the one
    /// that it has; else the one of this very address and port, else the first range that holds them.
    #[inline]
    pub(super) fn to(
        &self,
        flow: Option<&State>,
        addr: &Addr,
        port: u16,
        protocol: u8,
    ) -> Option<(u8, &Service)> {
        if let Some(State { service: at, .. }) = flow
            && let Some(service) = self.services.get(usize::from(*at))
            && service.end.has(addr, port, protocol)
        {
            return Some((*at, service));
        }
        // By value, so that the meta's address need not be in memory for it.
        self.search(*addr, port, protocol)
    }

    #[inline(never)]
    fn search(&self, addr: Addr, port: u16, protocol: u8) -> Option<(u8, &Service)> {
        let has = |at: &u8| self.services[usize::from(*at)].end.has(&addr, port, protocol);
        let range = || self.ranges.iter().copied().find(has);
        let at = find(&self.by_socket, (addr, port, protocol)).or_else(range)?;
        Some((at, &self.services[usize::from(at)]))
    }

    /// Whether it is the one address of a service. A range is no address that one gives to a host.
    pub(super) fn have_address(&self, address: Addr) -> bool {
        self.services.iter().any(|service| service.vip.is_one() && Addr::from(service.vip.address) == address)
    }

    /// Whether a ping to an address is to be answered now; `None` where it is none of the balancer's.
    pub(super) fn answers_ping(&self, address: Addr) -> Option<bool> {
        let at = self.pings.binary_search_by_key(&address, |(vip, _)| *vip).ok()?;
        Some(self.pings[at].1)
    }

    /// Address and port of the service for which the packet's sender answers, if any.
    #[inline]
    pub(super) fn answered_by(&self, meta: &Meta) -> Option<(Addr, u16)> {
        find(&self.by_backend, (meta.src, meta.src_port, meta.protocol))
    }

    /// Whether a packet goes to a backend itself.
    pub(super) fn is_to_backend(&self, meta: &Meta) -> bool {
        find(&self.by_backend, (meta.dst, meta.dst_port, meta.protocol)).is_some()
    }

    /// Address and port of the service that was asked by the packet that an ICMP error quotes, which went to a
    /// backend.
    pub(super) fn asked_by_quoted(&self, error: &Meta) -> Option<(Addr, u16)> {
        find(&self.by_quoted, (error.quoted_destination(), error.src_port, error.about))
    }

    #[inline]
    pub(super) fn get(&self, position: u8) -> Option<&Service> {
        self.services.get(usize::from(position))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Service> {
        self.services.iter()
    }
}

/// By halves, `O(log sockets)`.
#[inline]
fn find<T: Copy>(sockets: &[(Socket, T)], socket: Socket) -> Option<T> {
    sockets.binary_search_by_key(&socket, |(socket, _)| *socket).ok().map(|at| sockets[at].1)
}

/// The VIPs that are one address, and whether a service of each takes new flows.
fn pings(services: &[Service]) -> Vec<(Addr, bool)> {
    let ones = services.iter().filter(|service| service.vip.is_one());
    let mut all: Vec<(Addr, bool)> =
        ones.map(|service| (service.vip.address.into(), service.weight_total() > 0)).collect();
    // Of one VIP the services that take flows come first, and those are kept.
    all.sort_unstable_by_key(|(vip, takes)| (*vip, !takes));
    all.dedup_by_key(|(vip, _)| *vip);
    all
}

/// Backends that errors do not tell apart are left out.
fn by_quoted(by_backend: &BySocket<(Addr, u16)>) -> BySocket<(Addr, u16)> {
    let quoted =
        |((addr, port, protocol), vip): &(Socket, (Addr, u16))| ((known(*addr), *port, *protocol), *vip);
    let mut all: Vec<_> = by_backend.iter().map(quoted).collect();
    all.sort_unstable();
    let alone = all.chunk_by(|a, b| a.0 == b.0).filter(|alike| alike.len() == 1);
    alone.map(|alike| alike[0]).collect()
}

fn by_backend(services: &[Service]) -> Result<BySocket<(Addr, u16)>, OptionError> {
    let refused = |message| Err(OptionError { option: "rewrite_answers", message });
    let mut sockets = Vec::new();
    for service in services {
        let Some((vip, port, protocol)) = service.socket() else {
            return refused(format!(
                "cannot be true while {service} is a service: nobody can tell from which of its addresses or \
                 ports an answer has to come; give it one address and port"
            ));
        };
        for backend in &service.backends {
            let Backend { what, .. } = backend;
            if backend.has_addr() {
                sockets.push(((what.addr, what.port, protocol), (vip, port)));
            }
        }
    }
    sockets.sort_unstable();
    match sockets.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        None => Ok(sockets),
        Some(shared) => {
            let ((addr, port, _), first) = shared[0];
            refused(format!(
                "cannot be true while backend {} serves both {} and {}: nobody can tell which one it answers \
                 for; give it a port for each",
                socket(addr, port),
                socket(first.0, first.1),
                socket(shared[1].1.0, shared[1].1.1),
            ))
        }
    }
}

/// One service with its backends.
#[derive(Clone, Debug)]
pub(super) struct Service {
    vip: Vip,
    port: ServicePort,
    protocol: u8,
    /// The three of them.
    end: End,
    /// In the order of the chain file.
    backends: Vec<Backend>,
    pub(super) maglev: Maglev,
    /// Empty unless that is the policy.
    pub(super) round_robin: RoundRobin,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Backend {
    /// What lets a packet go there.
    edits: Edits,
    what: What,
    /// A hash of `what` and of the service.
    pub(super) id: u32,
    weight: u32,
    state: BackendState,
    is_failed: bool,
    /// Its hash if flows that it has stay with it, else a number that is no flow's: so one comparison says both.
    kept_id: u64,
}

/// What tells one backend from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, IntoBytes, Immutable)]
#[repr(C)]
struct What {
    /// Unspecified if the destination address stays.
    addr: Addr,
    /// 0 if the destination port stays.
    port: u16,
    /// Zero if the destination MAC address stays.
    mac: [u8; 6],
}

impl Service {
    fn new(service: &ServiceOptions, all: &Options) -> Result<Service, OptionError> {
        let ServiceOptions { vip, port, protocol, forward, backends, .. } = service;
        let name = name(*vip, *port);
        let wrong = |message: String| Err(error(format!("has a service {name} that {message}")));
        if *port == ServicePort::One(0) {
            return wrong("has port 0; write a port from 1 to 65535, or \"any\"".into());
        }
        if forward.via(all.gue_port).is_some() && all.policy == Policy::RoundRobin {
            let forward = forward.name();
            return wrong(format!(
                "has `forward = \"{forward}\"`, which `policy = \"round-robin\"` does not know: `verify` cannot judge turns \
                 by packets that are inside others; take \"maglev\" or \"random\""
            ));
        }
        if !(1..=BACKENDS_MAX).contains(&backends.len()) {
            return wrong(format!("has {} backends; 1 to {BACKENDS_MAX} are possible", backends.len()));
        }
        let end = End::new(*vip, *port, protocol.number());
        let mut checked: Vec<Backend> = Vec::with_capacity(backends.len());
        for (number, options) in (1..).zip(backends) {
            let backend = match Backend::new(options, service, end, all) {
                Ok(backend) if checked.iter().any(|other| other.what == backend.what) => {
                    return wrong(format!("has the backend {} twice", backend.what));
                }
                Ok(backend) => backend,
                Err(message) => return wrong(format!("has a backend, number {number}, that {message}")),
            };
            checked.push(backend);
        }
        Ok(Service {
            vip: *vip,
            port: *port,
            protocol: protocol.number(),
            end,
            maglev: maglev(&checked),
            round_robin: if all.policy == Policy::RoundRobin {
                round_robin(&checked)
            } else {
                Default::default()
            },
            backends: checked,
        })
    }

    /// Its address, port and protocol, if it has one of each.
    fn socket(&self) -> Option<Socket> {
        match self.port {
            ServicePort::One(port) if self.vip.is_one() => {
                Some((self.vip.address.into(), port, self.protocol))
            }
            _ => None,
        }
    }

    /// Whether packets to there are the service's.
    #[inline]
    pub(super) fn has(&self, addr: &Addr, port: u16, protocol: u8) -> bool {
        self.end.has(addr, port, protocol)
    }

    /// As the chain file has it, with those backends that take new flows, and all that answer.
    pub(super) fn rule(&self) -> ServiceRule {
        let backend = |backend: &Backend| BackendRule {
            addr: backend.has_addr().then_some(backend.what.addr),
            port: (backend.what.port != 0).then_some(backend.what.port),
            mac: backend.edits.dst_mac(),
            weight: backend.weight.into(),
        };
        let taking = self.backends.iter().filter(|backend| backend.takes_flows());
        ServiceRule {
            name: self.to_string(),
            vip: self.vip.address.into(),
            bits: if self.vip.address.is_ipv4() { 96 + self.vip.length } else { self.vip.length },
            port: match self.port {
                ServicePort::One(port) => Some(port),
                ServicePort::Any => None,
            },
            protocol: self.protocol,
            backends: taking.map(backend).collect(),
            answering: {
                let answering = self.backends.iter().filter(|backend| backend.has_addr());
                answering.map(|backend| (backend.what.addr, backend.what.port)).collect()
            },
        }
    }

    /// How many backends there are.
    pub(super) fn len(&self) -> usize {
        self.backends.len()
    }

    /// The backend of a flow, if it is where it was and still takes the flow's packets. These come to the service then,
    /// since they came to one of this address, port and protocol.
    #[inline(always)]
    pub(super) fn goes_on(&self, state: &State) -> Option<&Backend> {
        let backend = self.backends.get(usize::from(state.backend))?;
        (backend.kept_id == u64::from(state.backend_id)).then_some(backend)
    }

    /// The backend of a flow and its position, if it still takes the flow's packets.
    #[inline]
    pub(super) fn find(&self, state: &State) -> Option<(u16, &Backend)> {
        self.had(state).filter(|(_, backend)| backend.keeps_flows())
    }

    /// The backend of a flow and its position, if it is in the list, also if it takes no packets.
    #[inline]
    pub(super) fn had(&self, state: &State) -> Option<(u16, &Backend)> {
        match self.backends.get(usize::from(state.backend)) {
            Some(backend) if backend.id == state.backend_id => Some((state.backend, backend)),
            // The list is not the one that the flow began with.
            _ => self.find_elsewhere(state.backend_id),
        }
    }

    #[cold]
    fn find_elsewhere(&self, id: u32) -> Option<(u16, &Backend)> {
        (0..).zip(&self.backends).find(|(_, backend)| backend.id == id)
    }

    /// The backend at a position that [`Service::maglev`] or [`Service::round_robin`] gave.
    #[inline]
    pub(super) fn get(&self, position: u16) -> Option<(u16, &Backend)> {
        self.backends.get(usize::from(position)).map(|backend| (position, backend))
    }

    /// A backend's name, what it takes, and what it weighs among those that take new flows.
    pub(super) fn describe(&self, backend: usize) -> (String, &'static str, u64) {
        let backend = &self.backends[backend];
        let takes = match backend.state {
            BackendState::Active | BackendState::Drain if backend.is_failed => "failed",
            BackendState::Active if backend.weight == 0 => BackendState::Drain.name(),
            state => state.name(),
        };
        (backend.what.to_string(), takes, backend.active_weight())
    }

    /// Its backends, to be listed, changed and checked; it is the service of this number.
    pub(super) fn list(&self, at: usize, checks: &[Option<Check>]) -> Vec<nf::Backend> {
        let list = |((own, backend), check): ((usize, &Backend), &Option<Check>)| nf::Backend {
            place: (at, own),
            service: self.to_string(),
            name: backend.what.to_string(),
            address: (backend.what.addr != Addr::UNSPECIFIED).then(|| backend.what.addr.into()),
            state: backend.state.name(),
            weight: backend.weight,
            is_failed: backend.is_failed,
            check: check.clone(),
        };
        self.backends.iter().enumerate().zip(checks).map(list).collect()
    }

    /// What all backends weigh together that take new flows.
    pub(super) fn weight_total(&self) -> u64 {
        self.backends.iter().map(Backend::active_weight).sum()
    }
}

/// `tcp 192.0.2.80:80`, `udp 198.18.0.0/15 port any`
impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocol = if self.protocol == protocol::TCP { "tcp" } else { "udp" };
        write!(f, "{protocol} {}", name(self.vip, self.port))
    }
}

/// As people write it: `192.0.2.80:80`, `[2001:db8::80]:80`, `198.18.0.0/15 port any`.
fn name(vip: Vip, port: ServicePort) -> String {
    match port {
        ServicePort::One(port) if vip.is_one() => SocketAddr::new(vip.address, port).to_string(),
        _ => format!("{vip} port {port}"),
    }
}

impl Backend {
    /// Or what is wrong with the backend.
    fn new(
        options: &BackendOptions,
        of: &ServiceOptions,
        service: End,
        all: &Options,
    ) -> Result<Backend, String> {
        let BackendOptions { address, port, mac, weight, state, health, .. } = *options;
        let ServiceOptions { vip, forward, .. } = *of;
        let stays = if let ServicePort::One(port) = of.port { port } else { 0 };
        if address.is_none() && mac.is_none() {
            return Err("has neither an `address` nor a `mac`".into());
        }
        if address.is_none() && port.is_some() {
            return Err("has a `port` and no `address`".into());
        }
        if forward != Forward::Rewrite && port.is_some() {
            return Err(format!(
                "has a `port`, and `forward = \"{}\"` leaves packets as they came; leave `port` out",
                forward.name()
            ));
        }
        if forward == Forward::Mac && mac.is_none() {
            return Err("has no `mac`, to which `forward = \"mac\"` sends".into());
        }
        let tunnel = match forward.via(all.gue_port) {
            None => None,
            Some(via) => {
                let dst = address.ok_or_else(|| {
                    format!(
                        "has no `address`, at which the tunnel of `forward = \"{}\"` ends",
                        forward.name()
                    )
                })?;
                Some(Tunnel { src: tunnel_source(dst, all)?, dst: dst.into(), via })
            }
        };
        if let Some(address) = address {
            if address.is_ipv4() != vip.address.is_ipv4() && forward == Forward::Rewrite {
                return Err(format!(
                    "has the address {address}, of another IP version than the service; `forward = \"ipip\"` or \"gue\" takes \
                     packets there as they are"
                ));
            }
            let is_vip = vip.is_one() && address == vip.address && port.unwrap_or(stays) == stays;
            if is_vip && (mac.is_none() || tunnel.is_some()) {
                return Err("is the service itself".into());
            }
            if address.is_unspecified() || address.is_multicast() {
                return Err(format!("has the address {address}, which is nobody's"));
            }
        }
        if port == Some(0) {
            return Err("has port 0; write a port from 1 to 65535".into());
        }
        if mac == Some(Mac([0; 6])) {
            return Err("has a `mac` of zeroes, which is nobody's".into());
        }
        if weight > WEIGHT_MAX {
            return Err(format!("has the weight {weight}; it may be 0, for no new flows, to {WEIGHT_MAX}"));
        }
        let what = What {
            addr: address.map_or(Addr::UNSPECIFIED, Addr::from),
            port: port.unwrap_or(stays),
            mac: mac.map_or([0; 6], |mac| mac.0),
        };
        let mut edits = Edits::NONE;
        if let Some(tunnel) = tunnel {
            edits.set_tunnel(tunnel);
        } else if address.is_some() && forward == Forward::Rewrite {
            edits.set_dst(what.addr);
            if what.port != 0 {
                edits.set_dst_port(what.port);
            }
        }
        if mac.is_some() {
            edits.set_dst_mac(what.mac);
        }
        let id = hash_bytes(what.as_bytes(), service.hash()) as u32;
        let is_failed = health == Health::Failed;
        let is_down = is_failed || state == BackendState::Down;
        Ok(Backend {
            edits,
            what,
            id,
            weight,
            state,
            is_failed,
            kept_id: if is_down && all.when_down != WhenDown::Stay { u64::MAX } else { id.into() },
        })
    }

    /// Whether packets to it are rewritten to its address.
    fn has_addr(&self) -> bool {
        self.edits.fields().contains(Fields::DST_ADDR)
    }

    /// Whether flows that it has stay with it.
    pub(super) fn keeps_flows(&self) -> bool {
        self.kept_id == u64::from(self.id)
    }

    /// Lets a packet go there.
    #[inline]
    pub(super) fn direct(&self, edits: &mut Edits) {
        edits.append(&self.edits);
    }

    /// Whether new flows may go there: hand and checks have to say so, both.
    fn takes_flows(&self) -> bool {
        self.state == BackendState::Active && !self.is_failed && self.weight > 0
    }

    fn active_weight(&self) -> u64 {
        if self.takes_flows() { self.weight.into() } else { 0 }
    }
}

/// `198.51.100.10:8080`, or a MAC address, or both.
impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has_addr = self.addr != Addr::UNSPECIFIED;
        if has_addr {
            match self.port {
                0 => write!(f, "{}", IpAddr::from(self.addr))?,
                port => write!(f, "{}", socket(self.addr, port))?,
            }
        }
        match self.mac {
            [0, 0, 0, 0, 0, 0] => Ok(()),
            mac if has_addr => write!(f, " {}", Mac(mac)),
            mac => write!(f, "{}", Mac(mac)),
        }
    }
}

fn maglev(backends: &[Backend]) -> Maglev {
    let candidates = (0..)
        .zip(backends)
        .filter(|(_, backend)| backend.takes_flows())
        .map(|(index, backend)| Candidate { index, name: backend.what.as_bytes(), weight: backend.weight });
    Maglev::new(candidates.collect())
}

fn round_robin(backends: &[Backend]) -> RoundRobin {
    let active = (0..).zip(backends).filter(|(_, backend)| backend.takes_flows());
    RoundRobin::new(&active.map(|(index, backend)| (index, backend.weight)).collect::<Vec<_>>())
}

/// Where a tunnel to this address begins, or why it cannot.
fn tunnel_source(to: IpAddr, all: &Options) -> Result<Addr, String> {
    let alike = |source: &&IpAddr| source.is_ipv4() == to.is_ipv4();
    let source = all.tunnel_sources.iter().find(alike).ok_or_else(|| {
        let (version, example) =
            if to.is_ipv4() { ("IPv4", "192.0.2.254") } else { ("IPv6", "2001:db8::254") };
        format!(
            "is at {to}, and `tunnel_sources` has no {version} address for a tunnel to begin at; write one of this host's, as \
             in `tunnel_sources = [\"{example}\"]`"
        )
    })?;
    Ok(Addr::from(*source))
}

/// What is wrong with the addresses that tunnels begin at, and the port that they end at.
fn check_tunnels(options: &Options) -> Result<(), OptionError> {
    let wrong = |message| Err(OptionError { option: "tunnel_sources", message });
    let sources = &options.tunnel_sources;
    if let Some(source) = sources.iter().find(|source| source.is_unspecified() || source.is_multicast()) {
        return wrong(format!("has the address {source}, which is nobody's; write one of this host's"));
    }
    let of_v4 = sources.iter().filter(|source| source.is_ipv4()).count();
    if of_v4 > 1 || sources.len() - of_v4 > 1 {
        return wrong(
            "has two addresses of one IP version; a tunnel begins at one, so leave the other out".into(),
        );
    }
    match options.gue_port {
        0 => Err(OptionError {
            option: "gue_port",
            message: "is 0; write a port from 1 to 65535, such as 6080".into(),
        }),
        _ => Ok(()),
    }
}

fn socket(addr: Addr, port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::from(addr), port)
}

fn error(message: String) -> OptionError {
    OptionError { option: "services", message }
}

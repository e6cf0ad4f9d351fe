//! Services and their backends, checked and ready to be looked up.

use core::fmt;
use core::net::{IpAddr, SocketAddr};

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use nf::{OptionError, hash_bytes};
use wire::{Addr, Edits, protocol};
use zerocopy::{Immutable, IntoBytes};

use super::maglev::{Candidate, ENTRIES, Maglev};
use super::options::{BackendOptions, BackendState, Mac, ServiceOptions};
use super::{Meta, State};

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
    /// Where each service is in `services`; by its end, ascending.
    by_vip: ByEnd<u16>,
    /// Address and port that packets from such a backend get; by the backend's end, ascending.
    by_backend: ByEnd<(Addr, u16)>,
}

/// Address, port and protocol.
type End = (Addr, u16, u8);

/// Sorted, to be searched by halves.
type ByEnd<T> = Vec<(End, T)>;

impl Services {
    pub(super) fn new(options: &[ServiceOptions], rewrite_answers: bool) -> Result<Services, OptionError> {
        if options.len() > SERVICES_MAX {
            let message = format!("are {}; at most {SERVICES_MAX} are possible", options.len());
            return Err(error(message));
        }
        let services = options.iter().map(Service::new).collect::<Result<Vec<_>, _>>()?;
        let mut by_vip: Vec<_> = (0..).zip(&services).map(|(at, service)| (service.end(), at)).collect();
        by_vip.sort_unstable();
        if let Some(twice) = by_vip.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            let service = &services[usize::from(twice[0].1)];
            return Err(error(format!("name {service} twice; give it all its backends in one place")));
        }
        let by_backend = if rewrite_answers { by_backend(&services)? } else { Vec::new() };
        Ok(Services { services, by_vip, by_backend })
    }

    /// The service that a packet goes to.
    #[inline]
    pub(super) fn to(&self, meta: &Meta) -> Option<&Service> {
        let at = self.position(meta.dst, meta.dst_port, meta.protocol)?;
        Some(&self.services[at])
    }

    /// Address and port of the service for which the packet's sender answers, if any.
    #[inline]
    pub(super) fn answered_by(&self, meta: &Meta) -> Option<(Addr, u16)> {
        find(&self.by_backend, (meta.src, meta.src_port, meta.protocol))
    }

    #[inline]
    pub(super) fn position(&self, addr: Addr, port: u16, protocol: u8) -> Option<usize> {
        find(&self.by_vip, (addr, port, protocol)).map(usize::from)
    }

    pub(super) fn get(&self, position: usize) -> &Service {
        &self.services[position]
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Service> {
        self.services.iter()
    }
}

/// By halves, `O(log services)`.
#[inline]
fn find<T: Copy>(ends: &[(End, T)], end: End) -> Option<T> {
    ends.binary_search_by_key(&end, |(end, _)| *end).ok().map(|at| ends[at].1)
}

fn by_backend(services: &[Service]) -> Result<ByEnd<(Addr, u16)>, OptionError> {
    let mut ends = Vec::new();
    for service in services {
        for Backend { what, .. } in &service.backends {
            if what.addr != Addr::UNSPECIFIED {
                ends.push(((what.addr, what.port, service.protocol), (service.vip, service.port)));
            }
        }
    }
    ends.sort_unstable();
    match ends.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        None => Ok(ends),
        Some(shared) => {
            let ((addr, port, _), first) = shared[0];
            let message = format!(
                "cannot be true while backend {} serves both {} and {}: nobody can tell which one it answers \
                 for; give it a port for each",
                socket(addr, port),
                socket(first.0, first.1),
                socket(shared[1].1.0, shared[1].1.1),
            );
            Err(OptionError { option: "rewrite_answers", message })
        }
    }
}

/// One service with its backends.
#[derive(Clone, Debug)]
pub(super) struct Service {
    vip: Addr,
    port: u16,
    protocol: u8,
    /// In the order of the chain file.
    backends: Vec<Backend>,
    pub(super) maglev: Maglev,
}

#[derive(Clone, Copy, Debug)]
struct Backend {
    what: What,
    id: u32,
    weight: u32,
    state: BackendState,
}

/// What tells one backend from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, IntoBytes, Immutable)]
#[repr(C)]
struct What {
    /// Unspecified if the destination address stays.
    addr: Addr,
    port: u16,
    /// Zero if the destination MAC address stays.
    mac: [u8; 6],
}

impl Service {
    fn new(options: &ServiceOptions) -> Result<Service, OptionError> {
        let ServiceOptions { vip, port, protocol, backends } = options;
        let vip_and_port = SocketAddr::new(*vip, *port);
        let wrong = |message: String| Err(error(format!("has a service {vip_and_port} that {message}")));
        if *port == 0 {
            return wrong("has port 0; write a port from 1 to 65535".into());
        }
        if !(1..=BACKENDS_MAX).contains(&backends.len()) {
            return wrong(format!("has {} backends; 1 to {BACKENDS_MAX} are possible", backends.len()));
        }
        let mut checked: Vec<Backend> = Vec::with_capacity(backends.len());
        for (number, options) in (1..).zip(backends) {
            let backend = match Backend::new(options, vip_and_port) {
                Ok(backend) if checked.iter().any(|other| other.what == backend.what) => {
                    return wrong(format!("has the backend {} twice", backend.what));
                }
                Ok(backend) => backend,
                Err(message) => return wrong(format!("has a backend, number {number}, that {message}")),
            };
            checked.push(backend);
        }
        let maglev = maglev(&checked);
        Ok(Service {
            vip: (*vip).into(),
            port: *port,
            protocol: protocol.number(),
            backends: checked,
            maglev,
        })
    }

    fn end(&self) -> End {
        (self.vip, self.port, self.protocol)
    }

    /// How many backends there are.
    pub(super) fn len(&self) -> usize {
        self.backends.len()
    }

    /// The backend of a flow, if it still takes the flow's packets.
    #[inline]
    pub(super) fn find(&self, state: &State) -> Option<u16> {
        let at = usize::from(state.backend);
        match self.backends.get(at) {
            Some(backend) if backend.id == state.backend_id => backend.keeps_flows().then_some(state.backend),
            // The list is not the one that the flow began with.
            _ => (0..).zip(&self.backends).find_map(|(at, backend)| {
                (backend.id == state.backend_id && backend.keeps_flows()).then_some(at)
            }),
        }
    }

    #[inline]
    pub(super) fn id(&self, backend: u16) -> u32 {
        self.backends[usize::from(backend)].id
    }

    /// Lets a packet go to a backend.
    #[inline]
    pub(super) fn direct(&self, backend: u16, edits: &mut Edits) {
        let What { addr, port, mac } = self.backends[usize::from(backend)].what;
        if addr != Addr::UNSPECIFIED {
            edits.set_dst(addr);
            edits.set_dst_port(port);
        }
        if mac != [0; 6] {
            edits.set_dst_mac(mac);
        }
    }

    /// A backend's name, what it takes, and what it weighs among those that take new flows.
    pub(super) fn describe(&self, backend: usize) -> (String, BackendState, u64) {
        let backend = &self.backends[backend];
        (backend.what.to_string(), backend.state, backend.active_weight())
    }

    /// What all backends weigh together that take new flows.
    pub(super) fn weight_total(&self) -> u64 {
        self.backends.iter().map(Backend::active_weight).sum()
    }
}

/// `tcp 192.0.2.80:80`
impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocol = if self.protocol == protocol::TCP { "tcp" } else { "udp" };
        write!(f, "{protocol} {}", socket(self.vip, self.port))
    }
}

impl Backend {
    /// Or what is wrong with the backend.
    fn new(options: &BackendOptions, service: SocketAddr) -> Result<Backend, String> {
        let BackendOptions { address, port, mac, weight, state } = *options;
        if address.is_none() && mac.is_none() {
            return Err("has neither an `address` nor a `mac`".into());
        }
        if address.is_none() && port.is_some() {
            return Err("has a `port` and no `address`".into());
        }
        if let Some(address) = address {
            if address.is_ipv4() != service.is_ipv4() {
                return Err(format!("has the address {address}, of another IP version than the service"));
            }
            if SocketAddr::new(address, port.unwrap_or(service.port())) == service && mac.is_none() {
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
        if !(1..=WEIGHT_MAX).contains(&weight) {
            return Err(format!(
                "has the weight {weight}; it must be from 1 to {WEIGHT_MAX}; for no new flows \
                 write `state = \"drain\"`"
            ));
        }
        let what = What {
            addr: address.map_or(Addr::UNSPECIFIED, Addr::from),
            port: port.unwrap_or(service.port()),
            mac: mac.map_or([0; 6], |mac| mac.0),
        };
        Ok(Backend { what, id: hash_bytes(what.as_bytes(), 0) as u32, weight, state })
    }

    #[inline]
    fn keeps_flows(&self) -> bool {
        self.state != BackendState::Down
    }

    fn active_weight(&self) -> u64 {
        if self.state == BackendState::Active { self.weight.into() } else { 0 }
    }
}

/// `198.51.100.10:8080`, or a MAC address, or both.
impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has_addr = self.addr != Addr::UNSPECIFIED;
        if has_addr {
            write!(f, "{}", socket(self.addr, self.port))?;
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
        .filter(|(_, backend)| backend.state == BackendState::Active)
        .map(|(index, backend)| Candidate { index, name: backend.what.as_bytes(), weight: backend.weight });
    Maglev::new(candidates.collect())
}

fn socket(addr: Addr, port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::from(addr), port)
}

fn error(message: String) -> OptionError {
    OptionError { option: "services", message }
}

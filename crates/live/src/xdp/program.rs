//! The XDP program at an interface, which steers its packets to sockets or to the host: bpf/steer.bpf.c.

use std::collections::HashSet;
use std::error::Error;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ::io::Reference;
use aya::maps::lpm_trie::{Key, LpmTrie};
use aya::maps::{Array, HashMap, MapData, MapError, PerCpuArray, XskMap};
use aya::programs::{ProgramError, ProgramFd, SchedClassifier, Xdp};
use aya::sys::SyscallError;
use aya::{Ebpf, EbpfLoader, TestRun, TestRunOptions};

use super::bound;
use super::link::{self, AttachMode};
use super::pins::{MODES, Pin};
use super::socket::XdpSocket;
use super::spread::{Spread, address_key, side_entry};
use super::steering::{OnDeath, Steered, Steering};
use crate::{Interface, LiveError};

/// What an address passes, as in bpf/steer.bpf.c.
const ALL: u8 = 1;
const ITS_PORTS: u8 = 2;

/// The driver that holds a tag where its sender left it: beside the frame, or in it. Others have a switch for that.
pub(crate) const HOLDS_TAGS: &str = "veth";

/// `enum xdp_action` of linux/bpf.h.
const XDP_DROP: u32 = 1;
const XDP_PASS: u32 = 2;

/// Empty if this crate was built without clang.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/steer.bpf.o"));

/// What the program does with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// To the socket of its queue.
    Redirect,
    /// To nobody: there is no socket.
    Drop,
    /// To the host's network stack.
    Pass,
    /// Anything else that a program can answer, by the kernel's number: never, from this one.
    Other(u32),
}

/// The XDP program of an interface. The kernel detaches it when this value is dropped, and when the process ends, by
/// SIGKILL too, so that the host gets all packets again; with [`OnDeath::Block`] nobody gets any then.
pub struct XdpProgram {
    ebpf: Ebpf,
    /// The function of bpf/steer.bpf.c that was loaded.
    entry: &'static str,
    interface: Interface,
    mode: AttachMode,
    /// Whether it is bound to the interface, and sees tags that its driver holds beside frames.
    asks_for_tags: bool,
    /// The program that is bound to the interface, if it is that one.
    bound: Option<OwnedFd>,
    /// Holds the program at the interface.
    link: OwnedFd,
    /// Holds the one behind it, in the network stack.
    guard: Option<OwnedFd>,
    /// How many cores have a socket each at every queue.
    cores: usize,
    /// Packets of queues without a socket, as they were counted last, and how many came before there was any socket.
    unserved: Arc<AtomicU64>,
    before: u64,
    /// Hold them there when this process is gone, too.
    pin: Option<Pin>,
    guard_pin: Option<Pin>,
}

impl XdpProgram {
    /// Loads the program and attaches it: in the driver if the driver supports XDP, otherwise in the network stack.
    /// [`XdpProgram::mode`] says which. Until a socket is [inserted](XdpProgram::insert), all packets go to the host, or are
    /// dropped where [`Steering::drops_unserved`] is set.
    ///
    /// # Errors
    /// [`LiveError`] if the interface has an XDP program, this process may not attach one, the kernel refuses it, or this
    /// crate was built without clang.
    pub fn attach(interface: &Interface, steering: &Steering) -> Result<XdpProgram, LiveError> {
        XdpProgram::attach_for(interface, steering, false)
    }

    /// Loads and attaches as [`XdpProgram::attach`] does. With `takes_parts` the program takes frames in several
    /// parts (Linux 5.18), and is also taken by interfaces whose frames are longer than a page. It reads headers in
    /// the first part alone.
    ///
    /// # Errors
    /// As [`XdpProgram::attach`].
    pub fn attach_for(
        interface: &Interface,
        steering: &Steering,
        takes_parts: bool,
    ) -> Result<XdpProgram, LiveError> {
        let name = &interface.name;
        if let Some(why) = steering.spread.as_ref().and_then(|spread| spread.refusal(interface.queues)) {
            let help = "Use fewer cores, or one thread in front of them: --front.";
            return Err(LiveError::refused(
                format!("interface `{name}` cannot have a socket for each core: {why}"),
                help,
            ));
        }
        let mut ebpf = load(steering, name)?;
        let program = program(&mut ebpf, entry(takes_parts))
            .map_err(|error| failed("cannot load the XDP program", name, &error))?;
        let fd = program.fd().map_err(|error| failed("cannot load the XDP program", name, &error))?;
        let fd = fd.try_clone().map_err(|error| failed("cannot load the XDP program", name, &error))?;
        // With an older kernel, or in its stack, a program cannot ask for tags beside frames.
        let bound = match interface.driver == HOLDS_TAGS {
            true => bound::load(OBJECT, &ebpf, interface.index, takes_parts).ok(),
            false => None,
        };
        // What a run that died left there.
        let of_mode = |mode| if mode == AttachMode::Native { bound.as_ref() } else { None };
        let found = MODES.into_iter().find_map(|mode| {
            let program = of_mode(mode).map_or(fd.as_fd(), AsFd::as_fd);
            let (link, pin) = steering.pins.take_over(interface, mode, program)?;
            Some((link, mode, pin))
        });
        let ((link, mode), found) = match found {
            Some((link, mode, pin)) => ((link, mode), Some(pin)),
            None => (attach(bound.as_ref().map(AsFd::as_fd), fd.as_fd(), interface)?, None),
        };
        let asks_for_tags = of_mode(mode).is_some();
        let pin = match (&steering.on_death, found) {
            // Where it goes on to be there it stays: nothing passes meanwhile.
            (OnDeath::Block, Some(pin)) => Some(pin),
            (OnDeath::Block, None) => Some(steering.pins.pin(interface, link.as_fd(), mode)?),
            (OnDeath::Pass, found) => {
                found.into_iter().for_each(Pin::remove);
                None
            }
        };
        // An older kernel cannot: see `has_guard`.
        let guard = match without_socket(steering) {
            XDP_PASS => None,
            _ => guard(&mut ebpf)
                .and_then(|program| link::create_behind(program.as_fd(), interface.index))
                .ok(),
        };
        let is_to_stay = steering.on_death == OnDeath::Block;
        let named = guard.as_ref().filter(|_| is_to_stay).map(AsFd::as_fd);
        let guard_pin = steering.pins.pin_guard(interface, named)?;
        let mut program = XdpProgram {
            ebpf,
            bound: bound.filter(|_| asks_for_tags),
            guard,
            guard_pin,
            entry: entry(takes_parts),
            interface: interface.clone(),
            mode,
            asks_for_tags,
            cores: steering.spread.as_ref().map_or(1, |spread| spread.cores),
            link,
            pin,
            unserved: Arc::default(),
            before: 0,
        };
        for (at, hash) in (0..).zip(steering.spread.iter().flat_map(|spread| spread.hash.as_flattened())) {
            let mut hashes: Array<_, u32> = program.map("hashes")?;
            let set = hashes.set(at, hash, 0);
            set.map_err(|error| failed("cannot say how packets are hashed", name, &error))?;
        }
        for prefix in steering.spread.iter().flat_map(|spread| &spread.sides).flatten() {
            let (bits, address, side) = side_entry(prefix);
            let mut prefixes: LpmTrie<_, [u8; 16], u8> = program.map("prefixes")?;
            let inserted = prefixes.insert(&Key::new(bits, address), side, 0);
            inserted.map_err(|error| failed("cannot say which addresses are inside", name, &error))?;
        }
        for (entry, owner) in (0..).zip(steering.spread.iter().flat_map(|spread| &spread.owners)) {
            program.set_owner(entry, usize::from(*owner))?;
        }
        program.set_host_addresses(&steering.host_addresses)?;
        program.add_addresses(&steering.port_addresses, ITS_PORTS)?;
        for port in &steering.pass_ports {
            let mut ports: HashMap<_, u32, u8> = program.map("host_ports")?;
            let inserted = ports.insert(port.key(), 1, 0);
            inserted.map_err(|error| failed(&format!("cannot pass {port} to the host"), name, &error))?;
        }
        Ok(program)
    }

    /// Whether there is a program behind it that drops what went past it by queues that the interface gets later, where that is
    /// [asked for](Steering::drops_unserved). It takes Linux 6.6.
    pub(crate) fn has_guard(&self) -> bool {
        self.guard.is_some()
    }

    /// Installs the program once more, for queues that the interface has got: drivers may have left it out there.
    ///
    /// # Errors
    /// [`LiveError`] if the kernel refuses.
    pub(crate) fn install_again(&mut self) -> Result<(), LiveError> {
        let name = &self.interface.name;
        let what = "cannot install the XDP program at new queues";
        let error_of = |error: ProgramError| failed(what, name, &error);
        let fd_of = |ebpf: &mut Ebpf, entry: &str| -> Result<ProgramFd, ProgramError> {
            let program: &mut Xdp = ebpf.program_mut(entry).ok_or(ProgramError::NotLoaded)?.try_into()?;
            if program.fd().is_err() {
                program.load()?;
            }
            Ok(program.fd()?.try_clone()?)
        };
        let own = fd_of(&mut self.ebpf, self.entry).map_err(error_of)?;
        // The kernel does nothing where a program takes its own place.
        let other = fd_of(&mut self.ebpf, "drop").map_err(error_of)?;
        let again = self.bound.as_ref().map_or(own.as_fd(), AsFd::as_fd);
        let installed = link::update(self.link.as_fd(), other.as_fd())
            .and_then(|()| link::update(self.link.as_fd(), again));
        installed.map_err(|error| failed(what, name, &error))
    }

    /// Whether the program stays at the interface when this value is dropped, as it does when the process is killed; for
    /// [`OnDeath::Block`] alone. It does not unless this is called.
    pub fn outlive(&mut self, outlives: bool) {
        self.pin.iter_mut().chain(&mut self.guard_pin).for_each(|pin| pin.outlives = outlives);
    }

    /// Where it runs.
    pub fn mode(&self) -> AttachMode {
        self.mode
    }

    /// Whether it sees VLAN tags that the interface's driver holds beside frames, and puts them back into those that go to
    /// sockets: at a `veth`, since Linux 6.8. No other driver is asked.
    pub fn asks_for_tags(&self) -> bool {
        self.asks_for_tags
    }

    /// The interface that it is at.
    pub fn interface(&self) -> &Interface {
        &self.interface
    }

    /// Redirects the packets of the socket's queue to the socket. When the socket is dropped, they go where those of queues
    /// without one go.
    ///
    /// # Errors
    /// [`LiveError`] if the socket is of another interface, or its queue has a number above 4,095.
    pub fn insert(&mut self, socket: &XdpSocket) -> Result<(), LiveError> {
        self.insert_for(0, socket)
    }

    /// Redirects the packets of one core to the socket, where packets are [spread](Steering::spread) over several.
    ///
    /// # Errors
    /// As [`XdpProgram::insert`].
    pub fn insert_for(&mut self, core: usize, socket: &XdpSocket) -> Result<(), LiveError> {
        let (queue, of) = (socket.queue(), &socket.interface().name);
        if socket.interface().index != self.interface.index {
            return Err(LiveError::refused(
                format!(
                    "a socket of interface `{of}` gets no packets of interface `{}`",
                    self.interface.name
                ),
                "Attach a program to each interface.",
            ));
        }
        let place = queue * self.cores as u32 + core as u32;
        let mut sockets: XskMap<_> = self.map("sockets")?;
        let set = sockets.set(place, socket.fd().as_raw_fd(), 0);
        set.map_err(|error| failed(&format!("cannot steer packets to queue {queue}"), of, &error))
    }

    /// Where [`XdpProgram::note_unserved`] notes what it counts, for a thread that has no time to ask the kernel.
    pub(crate) fn unserved(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.unserved)
    }

    /// Packets that came by queues without a socket from now on are lost; those before came when nothing was set up.
    pub(crate) fn begin(&mut self) {
        self.before = self.counters().map_or(0, |counts| counts.no_socket);
    }

    /// Notes how many packets have come by queues without a socket. Where the kernel does not say, it stays as it was.
    pub(crate) fn note_unserved(&self) {
        if let Ok(counts) = self.counters() {
            self.unserved.store(counts.no_socket.saturating_sub(self.before), Ordering::Relaxed);
        }
    }

    /// Has packets of an entry go to another core's sockets from now on, where they are [spread](Steering::spread). Those that
    /// the program has seen before go to the one before.
    ///
    /// # Errors
    /// [`LiveError`] if the kernel refuses: there is no such entry.
    pub fn set_owner(&mut self, entry: u32, core: usize) -> Result<(), LiveError> {
        let name = self.interface.name.clone();
        let mut owners: Array<_, u32> = self.map("owners")?;
        let set = owners.set(entry, core as u32, 0);
        set.map_err(|error| failed(&format!("cannot give entry {entry} to core {core}"), &name, &error))
    }

    /// Replaces the host's own addresses, those of which only ports pass included. The rules that use them are those of [`Steering`] at
    /// [attach](XdpProgram::attach): there the rule `pass_host_addresses`, or a port and an address, has to be set.
    ///
    /// # Errors
    /// [`LiveError`] if there are more than 1,024. Some of them are set then.
    pub fn set_host_addresses(&mut self, addresses: &[IpAddr]) -> Result<(), LiveError> {
        let name = self.interface.name.clone();
        let error_of = |error: MapError| failed("cannot say which addresses are the host's", &name, &error);
        let mut map: HashMap<_, [u8; 16], u8> = self.map("host_addresses")?;
        let wanted: HashSet<[u8; 16]> = addresses.iter().map(address_key).collect();
        let there = map.keys().collect::<Result<HashSet<_>, _>>().map_err(error_of)?;
        for gone in there.difference(&wanted) {
            map.remove(gone).map_err(error_of)?;
        }
        for new in wanted.difference(&there) {
            map.insert(new, ALL, 0).map_err(error_of)?;
        }
        Ok(())
    }

    /// Replaces all addresses by those of `steering`, whose rules are those of the program. Others stay as they are
    /// meanwhile.
    ///
    /// # Errors
    /// As [`XdpProgram::set_host_addresses`].
    pub(crate) fn set_addresses(&mut self, steering: &Steering) -> Result<(), LiveError> {
        let name = self.interface.name.clone();
        let error_of = |error: MapError| failed("cannot say which addresses are the host's", &name, &error);
        let mut map: HashMap<_, [u8; 16], u8> = self.map("host_addresses")?;
        let all = steering.host_addresses.iter().map(|address| (address_key(address), ALL));
        let ports = steering.port_addresses.iter().map(|address| (address_key(address), ITS_PORTS));
        let wanted: std::collections::HashMap<[u8; 16], u8> = all.chain(ports).collect();
        let there = map.keys().collect::<Result<Vec<_>, _>>().map_err(error_of)?;
        for gone in there.iter().filter(|key| !wanted.contains_key(*key)) {
            map.remove(gone).map_err(error_of)?;
        }
        wanted.iter().try_for_each(|(key, passes)| map.insert(key, passes, 0).map_err(error_of))
    }

    fn add_addresses(&mut self, addresses: &[IpAddr], passes: u8) -> Result<(), LiveError> {
        let name = self.interface.name.clone();
        let error_of = |error: MapError| failed("cannot say which addresses are the host's", &name, &error);
        let mut map: HashMap<_, [u8; 16], u8> = self.map("host_addresses")?;
        let mut keys = addresses.iter().map(address_key);
        keys.try_for_each(|key| map.insert(key, passes, 0).map_err(error_of))
    }

    /// Has the program put this before packets of a flow from now on, in the 8 bytes before each that goes to a socket; with
    /// [`Reference::NONE`] nothing is known of the flow any more. For programs with [`Steering::card_flows`].
    ///
    /// A flow is 40 bytes, as `nf::FiveTuple` has them: 16 of the source address (of IPv4 as IPv6 has it), 16 of the
    /// destination's, 2 of each port in this machine's byte order, the source's first, 1 of the protocol, 3 zeros.
    ///
    /// # Errors
    /// [`LiveError`] if the kernel has no room.
    pub fn set_reference(&mut self, flow: &[u8; 40], reference: Reference) -> Result<(), LiveError> {
        let mut references: HashMap<_, [u8; 40], u64> = self.map("references")?;
        let key = reference_key(flow);
        if reference == Reference::NONE {
            // One that is not there need not go.
            let _ = references.remove(&key);
            return Ok(());
        }
        let set = references.insert(key, reference.0.to_le(), 0);
        set.map_err(|error| failed("cannot say where a flow is", &self.interface.name, &error))
    }

    /// Counts of packets so far, on all cores.
    ///
    /// # Errors
    /// [`LiveError`] if the kernel does not say.
    pub fn counters(&self) -> Result<Steered, LiveError> {
        let error_of =
            |error: MapError| failed("cannot read the XDP program's counters", &self.interface.name, &error);
        let map = self.ebpf.map("counters").ok_or_else(|| error_of(missing("counters")))?;
        let counters: PerCpuArray<&MapData, u64> = PerCpuArray::try_from(map).map_err(error_of)?;
        let mut sums = [0; Steered::COUNTERS as usize];
        for (i, sum) in (0..).zip(&mut sums) {
            *sum = counters.get(&i, 0).map_err(error_of)?.iter().sum();
        }
        Ok(Steered::new(sums))
    }

    /// Runs the program on a frame, as if the frame had arrived at queue 0 (`BPF_PROG_TEST_RUN`), and says what it
    /// decided. The program counts the frame, too.
    ///
    /// # Errors
    /// [`LiveError`] if the kernel refuses the frame, because it is shorter than an Ethernet header.
    pub fn try_out(&self, frame: &[u8]) -> Result<Action, LiveError> {
        let error_of =
            |error: ProgramError| failed("cannot try the XDP program out", &self.interface.name, &error);
        let program: &Xdp = self
            .ebpf
            .program(self.entry)
            .ok_or_else(|| error_of(ProgramError::NotLoaded))?
            .try_into()
            .map_err(error_of)?;
        let options = TestRunOptions { data_in: Some(frame), ..TestRunOptions::default() };
        Ok(match program.test_run(options).map_err(error_of)?.return_value {
            XDP_DROP => Action::Drop,
            XDP_PASS => Action::Pass,
            4 => Action::Redirect,
            other => Action::Other(other),
        })
    }

    /// For tests: to which entry the hash of a frame points (`BPF_PROG_TEST_RUN`), and which core has it.
    ///
    /// # Errors
    /// As [`XdpProgram::try_out`].
    pub fn pick(&mut self, frame: &[u8]) -> Result<(u16, u16), LiveError> {
        let picked = self.answer("pick", frame)?;
        Ok((picked as u16, (picked >> 16) as u16))
    }

    /// For tests: the lower half of the [reference](XdpProgram::set_reference) that a frame's flow has (`BPF_PROG_TEST_RUN`).
    ///
    /// # Errors
    /// As [`XdpProgram::try_out`].
    pub fn look_up(&mut self, frame: &[u8]) -> Result<u32, LiveError> {
        self.answer("look_up", frame)
    }

    /// What a program for tests answers.
    fn answer(&mut self, program: &str, frame: &[u8]) -> Result<u32, LiveError> {
        let error_of =
            |error: ProgramError| failed("cannot try the XDP program out", &self.interface.name, &error);
        let program: &mut Xdp = self
            .ebpf
            .program_mut(program)
            .ok_or(ProgramError::NotLoaded)
            .and_then(TryInto::try_into)
            .map_err(error_of)?;
        if program.fd().is_err() {
            program.load().map_err(error_of)?;
        }
        let options = TestRunOptions { data_in: Some(frame), ..TestRunOptions::default() };
        Ok(program.test_run(options).map_err(error_of)?.return_value)
    }

    fn map<'a, M>(&'a mut self, name: &str) -> Result<M, LiveError>
    where
        M: TryFrom<&'a mut aya::maps::Map, Error = MapError>,
    {
        let interface = &self.interface.name;
        let map = self.ebpf.map_mut(name).ok_or_else(|| missing(name)).and_then(M::try_from);
        map.map_err(|error| failed(&format!("cannot use the map `{name}`"), interface, &error))
    }
}

/// A flow as the program has it: ports in network byte order.
fn reference_key(flow: &[u8; 40]) -> [u8; 40] {
    let mut key = *flow;
    for port in key[32..36].as_chunks_mut::<2>().0 {
        *port = u16::from_ne_bytes(*port).to_be_bytes();
    }
    key
}

fn missing(name: &str) -> MapError {
    MapError::InvalidName { name: name.to_owned() }
}

/// In the driver, there with the program that is bound to the interface if there is one; else in the network stack.
fn attach(
    bound: Option<BorrowedFd<'_>>,
    fd: BorrowedFd<'_>,
    interface: &Interface,
) -> Result<(OwnedFd, AttachMode), LiveError> {
    let name = &interface.name;
    match link::create(bound.unwrap_or(fd), interface.index, link::NATIVE) {
        Ok(link) => Ok((link, AttachMode::Native)),
        Err(error) if is_taken(&error) => Err(taken(error, name)),
        Err(_) => match link::create(fd, interface.index, link::GENERIC) {
            Ok(link) => Ok((link, AttachMode::Generic)),
            Err(error) if is_taken(&error) => Err(taken(error, name)),
            Err(error) => Err(refused(error, name)),
        },
    }
}

/// What becomes of packets of queues without a socket.
fn without_socket(steering: &Steering) -> u32 {
    match steering.on_death {
        OnDeath::Pass if !steering.drops_unserved => XDP_PASS,
        OnDeath::Pass | OnDeath::Block => XDP_DROP,
    }
}

/// The program for the entry of the network stack.
fn guard(ebpf: &mut Ebpf) -> io::Result<ProgramFd> {
    let program: Result<&mut SchedClassifier, ProgramError> =
        ebpf.program_mut("guard").ok_or(ProgramError::NotLoaded).and_then(TryInto::try_into);
    let loaded = program.and_then(|program| {
        program.load()?;
        Ok(program.fd()?.try_clone()?)
    });
    loaded.map_err(io::Error::other)
}

fn load(steering: &Steering, interface: &str) -> Result<Ebpf, LiveError> {
    if OBJECT.is_empty() {
        return Err(LiveError::refused(
            format!(
                "interface `{interface}` cannot have an XDP program: this program was built without clang"
            ),
            "Install clang and build again, or use AF_PACKET.",
        ));
    }
    let rules = steering.rules();
    let without_socket = without_socket(steering);
    let spread = steering.spread.as_ref();
    let cores = spread.map_or(0, |spread| spread.cores as u32);
    let hashed = spread.map_or(0, Spread::hashed);
    let has_sides = spread.map_or(0, |spread| u32::from(spread.sides.is_some()));
    let mask = spread.map_or(0, |spread| spread.owners.len() as u32 - 1);
    let has_references = u32::from(steering.card_flows > 0);
    let mut loader = EbpfLoader::new();
    loader.override_global("has_references", &has_references, true);
    loader.map_max_entries("references", steering.card_flows.max(1));
    loader.override_global("cores", &cores, true);
    loader.override_global("hash_fields", &hashed, true);
    loader.override_global("has_sides", &has_sides, true);
    loader.override_global("entry_mask", &mask, true);
    let loader = loader.override_global("rules", &rules, true);
    let loaded = loader.override_global("without_socket", &without_socket, true).load(OBJECT);
    loaded.map_err(|error| failed("cannot load the XDP program", interface, &error))
}

/// The function of bpf/steer.bpf.c for frames that come in one part, or in several.
fn entry(takes_parts: bool) -> &'static str {
    if takes_parts { "steer_parts" } else { "steer" }
}

fn program<'a>(ebpf: &'a mut Ebpf, entry: &str) -> Result<&'a mut Xdp, ProgramError> {
    let program: &mut Xdp = ebpf.program_mut(entry).ok_or(ProgramError::NotLoaded)?.try_into()?;
    program.load()?;
    Ok(program)
}

/// The kernel refuses a second program of the same mode so. One in the other mode it refuses otherwise, and so the
/// second try meets this.
fn is_taken(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EBUSY)
}

fn taken(error: io::Error, interface: &str) -> LiveError {
    LiveError::helped(
        format!("interface `{interface}` has another XDP program"),
        error,
        format!(
            "Take it off: ip link set dev {interface} xdp off (or xdpgeneric off). If that is refused, the program that \
             attached it still runs: end that. If it is a run of Paceline that died: paceline ctl unblock {interface}"
        ),
    )
}

fn refused(error: io::Error, interface: &str) -> LiveError {
    let what = format!("cannot attach an XDP program to interface `{interface}`");
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => LiveError::of(what, error),
        _ => LiveError::helped(
            what,
            error,
            format!(
                "It takes Linux 5.9, and frames of less than a page (ip link set dev {interface} mtu 1500). AF_PACKET works without."
            ),
        ),
    }
}

/// An error of the loader library, with what the kernel said at its root.
fn failed(what: &str, interface: &str, error: &(dyn Error + 'static)) -> LiveError {
    let what = format!("{what} for interface `{interface}`");
    let mut chain = vec![error.to_string()];
    let (mut at, mut root) = (Some(error), None);
    while let Some(error) = at {
        let of_call = error.downcast_ref::<SyscallError>().map(|error| &error.io_error);
        root = of_call.or(error.downcast_ref::<io::Error>()).and_then(io::Error::raw_os_error).or(root);
        at = error.source();
        chain.extend(at.map(ToString::to_string));
    }
    chain.dedup();
    // What the kernel's verifier has to say fills pages, and is never the same twice.
    chain.iter_mut().for_each(|text| text.truncate(text.find(". Verifier output").unwrap_or(text.len())));
    match root {
        // Rights that are missing are EPERM. This is the verifier's answer.
        Some(code @ libc::EACCES) => LiveError::helped(
            format!("{what}: {}", chain.join(": ")),
            io::Error::from_raw_os_error(code),
            "The kernel's verifier refuses the program: please report it, with `uname -r`. AF_PACKET works without.",
        ),
        Some(code) => {
            LiveError::of(format!("{what}: {}", chain.join(": ")), io::Error::from_raw_os_error(code))
        }
        None => LiveError::of(what, io::Error::other(chain.join(": "))),
    }
}

//! The kernel's side: a namespace that forwards between two tun devices, under a ruleset of nftables.

#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, Read, Write};
use std::mem;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Command, Stdio};

use super::packet::Side;
use crate::lab::{Lab, Namespace};

/// How long the kernel is waited for where it says less than our side, ms: it may leave work to another thread. So long where the
/// book explains the difference, and so long where nothing does.
pub const LATE_MS: i32 = 2;
pub const TOO_LATE_MS: i32 = 500;
const DEVICE: &str = "/dev/net/tun";
const NAMES: [&str; 2] = ["lan0", "wan0"];
/// Its own addresses on both interfaces, and one that a NAT may use.
const ADDRESSES: [(&str, &str); 5] = [
    ("lan0", "10.0.0.254/24"),
    ("lan0", "fd00::fe/64 nodad"),
    ("wan0", "192.0.2.254/24"),
    ("wan0", "203.0.113.1/32"),
    ("wan0", "2001:db8:1::fe/64 nodad"),
];

pub struct Kernel {
    lan: File,
    wan: File,
    namespace: Namespace,
    _lab: Lab,
}

/// What came out of a gateway for a packet that went in, from the IP header on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Out of the other side.
    pub passed: Vec<Vec<u8>>,
    /// Back to where the packet came from.
    pub answered: Vec<Vec<u8>>,
}

impl Kernel {
    /// `None`, with the reason printed, where this machine cannot do it.
    pub fn new() -> Option<Kernel> {
        if Command::new("nft").arg("--version").output().is_err() {
            println!("skipped: `nft` (package nftables) does not run");
            return None;
        }
        let mut lab = Lab::new("linux")?;
        let namespace = lab.namespace("gateway");
        let [lan, wan] = match namespace.inside(|| NAMES.map(tun)) {
            [Ok(lan), Ok(wan)] => [lan, wan],
            [Err(error), _] | [_, Err(error)] => {
                println!("skipped: {DEVICE}: {error}");
                return None;
            }
        };
        let kernel = Kernel { lan, wan, namespace, _lab: lab };
        for name in NAMES {
            kernel.set(&format!("ipv6/conf/{name}/addr_gen_mode"), "1");
            kernel.namespace.ip(&format!("link set {name} mtu 65535 up"));
            kernel.set(&format!("ipv4/conf/{name}/rp_filter"), "0");
            kernel.set(&format!("ipv4/conf/{name}/send_redirects"), "0");
        }
        ADDRESSES
            .iter()
            .for_each(|(name, addr)| _ = kernel.namespace.ip(&format!("addr add {addr} dev {name}")));
        for (name, value) in [
            ("ipv4/ip_forward", "1"),
            ("ipv4/conf/all/rp_filter", "0"),
            ("ipv4/conf/all/send_redirects", "0"),
            ("ipv6/conf/all/forwarding", "1"),
            ("ipv4/icmp_ratelimit", "0"),
            ("ipv6/icmp/ratelimit", "0"),
            ("ipv4/icmp_msgs_per_sec", "1000000000"),
            ("ipv4/icmp_msgs_burst", "1000000000"),
        ] {
            kernel.set(name, value);
        }
        Some(kernel)
    }

    pub fn set(&self, name: &str, value: &str) {
        self.namespace.write(&format!("/proc/sys/net/{name}"), value);
    }

    /// Puts a ruleset in force, and returns what `nft -j list ruleset` says of it.
    ///
    /// # Panics
    /// If `nft` refuses it.
    pub fn rules(&self, ruleset: &str) -> String {
        let mut nft = self.namespace.command("nft");
        nft.args(["-f", "-"]).stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut child = nft.spawn().expect("it was there");
        child.stdin.take().expect("a pipe").write_all(ruleset.as_bytes()).expect("it reads");
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{}\n{ruleset}", String::from_utf8_lossy(&output.stderr));
        let listed = self.namespace.run("nft", "-j list ruleset");
        String::from_utf8(listed.stdout).expect("JSON")
    }

    /// What comes out for packets that go in one after the other.
    pub fn send(&self, from: Side, packets: &[Vec<u8>]) -> io::Result<Outcome> {
        // What came too late is of the packet before.
        self.receive(from, &mut Outcome::default())?;
        for packet in packets {
            self.tun(from).write_all(packet)?;
        }
        let mut outcome = Outcome::default();
        self.receive(from, &mut outcome)?;
        Ok(outcome)
    }

    /// Waits for more of the last packet, where less came than the other side says.
    pub fn late(&self, from: Side, outcome: &mut Outcome, timeout_ms: i32) -> io::Result<()> {
        let mut polled = [from, from.other()].map(|side| libc::pollfd {
            fd: self.tun(side).as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        });
        // SAFETY: two whole entries, which outlive the call.
        unsafe { libc::poll(polled.as_mut_ptr(), 2, timeout_ms) };
        self.receive(from, outcome)
    }

    fn receive(&self, from: Side, outcome: &mut Outcome) -> io::Result<()> {
        outcome.answered.extend(read_all(self.tun(from))?);
        outcome.passed.extend(read_all(self.tun(from.other()))?);
        Ok(())
    }

    fn tun(&self, side: Side) -> &File {
        match side {
            Side::Inside => &self.lan,
            Side::Outside => &self.wan,
        }
    }
}

/// All that a device has, but for what the kernel says to groups of its own accord.
fn read_all(mut tun: &File) -> io::Result<Vec<Vec<u8>>> {
    let (mut packets, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        match tun.read(&mut buffer) {
            Ok(len) if buffer[0] >> 4 == 6 && buffer[24] == 0xff => assert!(len >= 40),
            Ok(len) => packets.push(buffer[..len].to_vec()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(packets),
            Err(error) => return Err(error),
        }
    }
}

/// A tun device in the calling thread's network namespace, as long as the file is open.
fn tun(name: &str) -> io::Result<File> {
    let mut options = File::options();
    let tun = options.read(true).write(true).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC).open(DEVICE)?;
    // SAFETY: all bytes 0 is a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    request.ifr_name.iter_mut().zip(name.bytes()).for_each(|(to, byte)| *to = byte as libc::c_char);
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: the call reads and writes one `ifreq`, which outlives it.
    match unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETIFF as _, &mut request) } {
        0 => Ok(tun),
        _ => Err(io::Error::last_os_error()),
    }
}

//! The recipe "a small office" with real programs: hosts inside, a mail host in a network of its own, and an outside, around a
//! gateway with three interfaces.

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::dns::{answers, query};
use crate::lab::{Lab, Namespace};
use crate::live::{number, of};
use crate::raw::{Raw, station};
use crate::service::Run;
use crate::support::{Folder, paceline, root, stderr, stdout};

/// How long something may stand still on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// So long an answer that is not to come is waited for.
const SHORT: Duration = Duration::from_millis(500);

const RECIPE: &str = "examples/small-office.toml";
/// The line that strategies refuse which hash.
const LIMIT: &str = "ports_per_host = 2000";

const OUTSIDE: &str = "203.0.113.2";
const MAIL: &str = "10.0.1.25:25";
const MAIL_OUTSIDE: &str = "203.0.113.1:25";
const SSH: &str = "10.0.1.25:22";
const WEB: &str = "203.0.113.2:80";
const DNS: &str = "203.0.113.2:53";
/// Addresses of a large answer: 1,800 bytes, two fragments.
const MANY: u16 = 112;
/// The way out is narrower than the links inside.
const NARROW: u32 = 1_400;

/// What the recipe is about. Two hosts inside share a link by a bridge of the kernel's.
struct Office {
    /// 10.0.0.10, from which ssh is allowed.
    admin: Namespace,
    /// 10.0.0.11.
    desk: Namespace,
    mail: Namespace,
    outside: Namespace,
    gateway: Namespace,
    folder: Folder,
    _lab: Lab,
}

impl Office {
    /// `label` is the test's own: its files are in a folder of that name.
    fn new(label: &str) -> Option<Office> {
        let mut lab = Lab::new("office")?;
        let [admin, desk, switch, mail, outside, gateway] =
            ["a", "d", "s", "m", "o", "g"].map(|name| lab.namespace(name));
        lab.pair((&switch, "p0"), (&gateway, "lan0"));
        lab.pair((&switch, "p1"), (&admin, "eth0"));
        lab.pair((&switch, "p2"), (&desk, "eth0"));
        lab.pair((&mail, "eth0"), (&gateway, "dmz0"));
        lab.pair((&outside, "eth0"), (&gateway, "wan0"));
        switch.ip("link add br0 up type bridge");
        ["p0", "p1", "p2"].iter().for_each(|port| _ = switch.ip(&format!("link set {port} master br0")));
        outside.ip(&format!("link set eth0 mtu {NARROW}"));
        gateway.ip(&format!("link set wan0 mtu {NARROW}"));
        gateway.write("/proc/sys/net/ipv4/ip_forward", "0");
        for (host, interface, address) in [
            (&admin, "eth0", "10.0.0.10/24"),
            (&desk, "eth0", "10.0.0.11/24"),
            (&mail, "eth0", "10.0.1.25/24"),
            (&outside, "eth0", "203.0.113.2/24"),
            (&gateway, "lan0", "10.0.0.1/24"),
            (&gateway, "dmz0", "10.0.1.1/24"),
            (&gateway, "wan0", "203.0.113.1/24"),
        ] {
            host.ip(&format!("addr add {address} dev {interface}"));
        }
        for (host, router) in [(&admin, "10.0.0.1"), (&desk, "10.0.0.1"), (&mail, "10.0.1.1")] {
            host.ip(&format!("route add default via {router}"));
        }
        for host in [&admin, &desk, &mail, &outside] {
            host.offload("eth0");
        }
        let folder = Folder::new(&format!("office-{label}"));
        Some(Office { admin, desk, mail, outside, gateway, folder, _lab: lab })
    }

    fn socket(&self) -> String {
        self.folder.file("socket")
    }

    /// The recipe, as the strategy runs it.
    fn recipe(&self, strategy: &str) -> String {
        let text = fs::read_to_string(root().join(RECIPE)).expect("an example");
        assert!(text.contains(LIMIT), "{RECIPE}");
        let text = if has_limit(strategy) { text } else { text.replace(LIMIT, "# none") };
        let path = self.folder.file("small-office.toml");
        fs::write(&path, text).expect("a folder of the test");
        path
    }

    /// The gateway with this chain, once it and its neighbours know each other.
    fn start(&self, chain: &str, strategy: &str) -> Run {
        for address in ["10.0.0.10", "10.0.0.11", "10.0.1.25", OUTSIDE] {
            assert!(self.gateway.ping(address, 1), "{address} is a neighbour");
        }
        let cores = if strategy == "single" { "1" } else { "2" };
        let mut command = self.gateway.command(env!("CARGO_BIN_EXE_paceline"));
        command.current_dir(root()).args(["run", chain, "--mode", "route", "--socket", "xdp", "--json", "-"]);
        command.args(["--strategy", strategy, "--cores", cores, "--control", &self.socket()]);
        Run::start(command)
    }

    fn ctl(&self, arguments: &[&str]) -> String {
        let output = paceline(&[&["ctl"], arguments, &["--control", &self.socket()]].concat());
        assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
        stdout(&output)
    }
}

/// Whether the strategy runs a NAT that counts what each host has.
fn has_limit(strategy: &str) -> bool {
    !matches!(strategy, "rss" | "rsspp")
}

/// Servers that greet with the address that they are asked from, and then echo. They end when this is dropped.
struct Servers<'a>(&'a AtomicBool);

impl Drop for Servers<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

fn serve<'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    host: &Namespace,
    address: &str,
    goes_on: &'scope AtomicBool,
) {
    let address: SocketAddr = address.parse().expect("one");
    let listener = host.bound(|| TcpListener::bind(address));
    listener.set_nonblocking(true).expect("a socket");
    scope.spawn(move || {
        while goes_on.load(Ordering::Relaxed) {
            let Ok((mut stream, peer)) = listener.accept() else {
                thread::sleep(Duration::from_millis(2));
                continue;
            };
            scope.spawn(move || {
                let prepared = stream.set_nonblocking(false);
                let prepared =
                    prepared.and_then(|()| stream.set_read_timeout(Some(Duration::from_millis(200))));
                if prepared.and_then(|()| writeln!(stream, "{}", peer.ip())).is_err() {
                    return;
                }
                let mut buffer = [0; 1_024];
                while goes_on.load(Ordering::Relaxed) {
                    match stream.read(&mut buffer) {
                        Ok(0) => return,
                        Ok(read) if stream.write_all(&buffer[..read]).is_ok() => {}
                        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                        }
                        _ => return,
                    }
                }
            });
        }
    });
}

/// Connects to a server, and says from which address the server thinks that was, and the connection.
fn greeted(
    host: &Namespace,
    to: &str,
    patience: Duration,
) -> std::io::Result<(String, BufReader<TcpStream>)> {
    let to: SocketAddr = to.parse().expect("one");
    let stream = host.inside(|| TcpStream::connect_timeout(&to, patience))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let (mut line, mut reader) = (String::new(), BufReader::new(stream));
    reader.read_line(&mut line)?;
    Ok((line.trim().to_owned(), reader))
}

fn is_refused(host: &Namespace, to: &str) -> bool {
    greeted(host, to, PATIENCE).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}

/// Whether a connection still brings back what is sent.
fn echoes(connection: &mut BufReader<TcpStream>, text: &str) -> bool {
    let sent = writeln!(connection.get_mut(), "{text}");
    let mut line = String::new();
    sent.and_then(|()| connection.read_line(&mut line)).is_ok_and(|_| line.trim() == text)
}

fn runs(program: &str) -> bool {
    let runs = Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
    if !runs {
        println!("skipped: `{program}` does not run");
    }
    runs
}

/// Who reaches whom, with which address, and what senders are told that may not.
fn people_reach_what_they_may(office: &Office) {
    let Office { admin, desk, mail, outside, .. } = office;
    let peer = |host: &Namespace, to: &str| greeted(host, to, PATIENCE).map(|(peer, _)| peer);
    for (host, to, seen) in [
        (desk, WEB, "203.0.113.1"),
        (admin, WEB, "203.0.113.1"),
        (desk, MAIL, "10.0.0.11"),
        (outside, MAIL_OUTSIDE, OUTSIDE),
        (admin, SSH, "10.0.0.10"),
        (mail, "203.0.113.2:25", "203.0.113.1"),
    ] {
        assert_eq!(peer(host, to).expect("it is reached"), seen, "{} to {to}", host.name());
    }
    // Ssh is for one desk; the mail host begins nothing inside, and little outside.
    assert!(is_refused(desk, SSH) && is_refused(mail, "10.0.0.10:7") && is_refused(mail, WEB));
    let silent = greeted(outside, "203.0.113.1:22", SHORT).expect_err("a stranger");
    assert_eq!(silent.kind(), ErrorKind::TimedOut, "{silent}");
    assert!(desk.ping(OUTSIDE, 2) && mail.ping(OUTSIDE, 2) && desk.ping("10.0.1.25", 2));

    // As `traceroute` does it, from both networks inside; and path MTU discovery.
    for (host, router) in [(desk, "10.0.0.1"), (mail, "10.0.1.1")] {
        let output = host.run("ping", &format!("-n -c 1 -W 10 -t 1 {OUTSIDE}"));
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.contains(&format!("From {router} icmp_seq=1 Time to live exceeded")), "{said}");
    }
    let output = desk.run("ping", &format!("-n -c 1 -W 10 -M do -s 1450 {OUTSIDE}"));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains(&format!("mtu = {NARROW}")), "{said}");

    let socket = desk.bound(|| UdpSocket::bind("10.0.0.11:0"));
    socket.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let mut buffer = [0; 4_096];
    for (question, times) in [(query(7, "office.example.com"), 1), (query(8, "large.example.com"), MANY)] {
        socket.send_to(&question, DNS).expect("it is sent");
        let (len, _) = socket.recv_from(&mut buffer).expect("names are answered");
        assert!(buffer[..len] == answers(&question, times));
    }
    if Command::new("dig").arg("-v").output().is_err() {
        println!("skipped: `dig` (package bind9-dnsutils) does not run");
    } else {
        let output = desk.run("dig", "+notcp +ignore +bufsize=4096 +time=30 @203.0.113.2 large.example.com");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let size =
            said.lines().find_map(|line| line.strip_prefix(";; MSG SIZE  rcvd: ")?.trim().parse().ok());
        assert!(size.is_some_and(|size: u32| size >= 1_800), "{said}");
    }
    // In fragments, as large answers come.
    let output = desk.run("ping", &format!("-n -c 2 -i 0.3 -W 30 -s 4000 {OUTSIDE}"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));

    if runs("traceroute") {
        let output = desk.run("traceroute", &format!("-n -m 4 -w 20 {OUTSIDE}"));
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let hops: Vec<_> = said.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1)).collect();
        assert_eq!(hops, ["10.0.0.1", OUTSIDE], "{said}");
    }
    if runs("curl") {
        let output = desk.run("curl", &format!("-sS --http0.9 --max-time 5 --output - http://{WEB}/"));
        // The server never ends its answer, which begins with whom it sees.
        assert!(output.stdout.starts_with(b"203.0.113.1\n"), "{}", stderr(&output));
    }
}

/// A login by ssh, at another host of the dmz, is for one desk alone.
fn ssh_is_for_one_desk(office: &Office) {
    const SERVER: &str = "/usr/sbin/sshd";
    if !Path::new(SERVER).exists() {
        println!("skipped: `sshd` (package openssh-server) is not installed");
        return;
    }
    let Office { admin, desk, mail, folder, .. } = office;
    // Where it gives up its rights.
    fs::create_dir_all("/run/sshd").expect("root may");
    let key = folder.file("key");
    let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f", &key]).status();
    assert!(made.expect("it comes with the server").success());
    mail.ip("addr add 10.0.1.26/24 dev eth0");
    let options =
        "-o ListenAddress=10.0.1.26 -o PidFile=none -o PermitRootLogin=yes -o StrictModes=no -o UsePAM=no";
    let _server =
        mail.start(SERVER, &format!("-D -e -f /dev/null -h {key} {options} -o AuthorizedKeysFile={key}.pub"));
    let login = |host: &Namespace| {
        let options = "-F none -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null";
        host.run("ssh", &format!("{options} -o ConnectTimeout=60 -i {key} root@10.0.1.26 echo in"))
    };
    let begin = Instant::now();
    loop {
        let output = login(admin);
        if output.stdout == b"in\n" {
            break;
        }
        assert!(begin.elapsed() < PATIENCE, "{}", stderr(&output));
        thread::sleep(Duration::from_millis(50));
    }
    let refused = login(desk);
    assert!(stderr(&refused).contains("Connection refused"), "{}", stderr(&refused));
}

/// An address that comes into the block list is refused and dropped at once, and reached again when it leaves.
fn blocked_for_a_while(office: &Office) {
    let Office { desk, outside, .. } = office;
    office.ctl(&["set", "add", "blocklist", OUTSIDE]);
    assert!(is_refused(desk, WEB), "from inside");
    assert!(greeted(outside, MAIL_OUTSIDE, SHORT).is_err(), "from outside");
    office.ctl(&["set", "remove", "blocklist", OUTSIDE]);
    assert!(greeted(desk, WEB, PATIENCE).is_ok() && greeted(outside, MAIL_OUTSIDE, PATIENCE).is_ok());
}

/// A rule with `log` names what it drops, with the interface by which that came.
fn dropped_packets_are_logged(office: &Office) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_paceline"));
    command.args(["ctl", "--control", &office.socket(), "log"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines().map_while(Result::ok);
    let found = thread::scope(|scope| {
        let found = scope.spawn(|| lines.find(|line| line.contains("10.0.1.25:22")));
        // It begins to listen at some time.
        let begin = Instant::now();
        while !found.is_finished() && begin.elapsed() < PATIENCE {
            assert!(is_refused(&office.desk, SSH));
            thread::sleep(Duration::from_millis(20));
        }
        // Ends the search, where nothing came.
        let _ = child.kill();
        found.join().expect("lines")
    });
    let _ = child.wait();
    let line = found.expect("a line");
    assert!(line.contains(" lan0 ") && line.contains("reject tcp"), "{line}");
}

/// Forged sources are dropped ahead of every function: those of another side, of another side inside, and of nobody here.
fn forged(office: &Office) -> u64 {
    let Office { mail, outside, gateway, .. } = office;
    let at = |interface: &str| {
        gateway.inside(|| live::Interface::open(interface).expect("the test made it").address)
    };
    let mut sent = 0;
    for (host, to, sources) in [
        (mail, at("dmz0"), [[10, 0, 0, 11], [198, 51, 100, 1]]),
        (outside, at("wan0"), [[10, 0, 0, 11], [10, 0, 1, 25]]),
    ] {
        let from = station(host);
        host.inside(|| {
            let raw = Raw::open("eth0");
            for source in sources {
                raw.send(&udp(to, from, (source, 5_000), ([203, 0, 113, 2], 99)));
                sent += 1;
            }
        });
    }
    sent
}

/// A datagram without data and checksum (RFC 768).
fn udp(to: [u8; 6], from: [u8; 6], source: ([u8; 4], u16), destination: ([u8; 4], u16)) -> Vec<u8> {
    let data = [&source.1.to_be_bytes()[..], &destination.1.to_be_bytes(), &[0, 8, 0, 0]].concat();
    ip(to, from, wire::protocol::UDP, [source.0, destination.0], &data)
}

/// A SYN without options.
fn syn(to: [u8; 6], from: [u8; 6], source: ([u8; 4], u16), destination: ([u8; 4], u16)) -> Vec<u8> {
    let ports = [source.1.to_be_bytes(), destination.1.to_be_bytes()].concat();
    let mut tcp = [&ports[..], &[0, 0, 0, 1, 0, 0, 0, 0, 0x50, 0x02, 0x20, 0, 0, 0, 0, 0]].concat();
    let pseudo = [&source.0[..], &destination.0, &[0, wire::protocol::TCP, 0, 20]].concat();
    let sum = wire::internet_checksum(&[&pseudo, &tcp]);
    tcp[16..18].copy_from_slice(&sum);
    ip(to, from, wire::protocol::TCP, [source.0, destination.0], &tcp)
}

fn ip(to: [u8; 6], from: [u8; 6], protocol: u8, ends: [[u8; 4]; 2], data: &[u8]) -> Vec<u8> {
    let len = (20 + data.len() as u16).to_be_bytes();
    let mut ip = vec![0x45, 0, len[0], len[1], 0, 0, 0x40, 0, 64, protocol, 0, 0];
    ip.extend(ends.concat());
    let sum = wire::internet_checksum(&[&ip]);
    ip[10..12].copy_from_slice(&sum);
    [&to[..], &from, &[8, 0], &ip, data].concat()
}

/// What `iperf3` received in five seconds, Mbit/s. It is asked again where that is less than a host's share: the server begins, or
/// the machine is busy.
fn megabits(host: &Namespace, port: u16, more: &str) -> f64 {
    let begin = Instant::now();
    loop {
        let output = host.run("iperf3", &format!("-c {OUTSIDE} -p {port} -t 5 -J {more}"));
        let said = serde_json::from_slice::<Value>(&output.stdout).unwrap_or_default();
        match said["end"]["sum_received"]["bits_per_second"].as_f64() {
            Some(bits) if bits >= 15e6 || begin.elapsed() > PATIENCE => return bits / 1e6,
            Some(_) => {}
            None => {
                assert!(begin.elapsed() < PATIENCE, "{}", String::from_utf8_lossy(&output.stdout));
                thread::sleep(Duration::from_millis(100));
            }
        }
    }
}

/// Each host has its share, a direction, whatever the others take and whatever number of connections it has.
fn hosts_have_their_share(office: &Office) {
    if !runs("iperf3") {
        return;
    }
    let _servers = [5_201, 5_202].map(|port| office.outside.start("iperf3", &format!("-s -p {port}")));
    let rates = thread::scope(|scope| {
        let up = scope.spawn(|| megabits(&office.admin, 5_201, ""));
        let many = megabits(&office.desk, 5_202, "-P 4");
        [up.join().expect("a rate"), many, megabits(&office.desk, 5_202, "-R")]
    });
    println!("Mbit/s from admin, from desk by four, to desk: {rates:.1?}");
    assert!(rates.iter().all(|rate| (15.0..22.0).contains(rate)), "{rates:?}");
}

fn an_office(strategy: &str) {
    let Some(office) = Office::new(strategy) else { return };
    let run = office.start(&office.recipe(strategy), strategy);
    let goes_on = AtomicBool::new(true);
    let spoofed = thread::scope(|scope| {
        let _servers = Servers(&goes_on);
        for (host, address) in [
            (&office.outside, WEB),
            (&office.outside, "203.0.113.2:25"),
            (&office.mail, MAIL),
            (&office.mail, SSH),
        ] {
            serve(scope, host, address, &goes_on);
        }
        let names = office.outside.bound(|| UdpSocket::bind(DNS));
        names.set_read_timeout(Some(Duration::from_millis(50))).expect("a socket");
        let goes_on = &goes_on;
        scope.spawn(move || {
            let mut buffer = [0; 512];
            while goes_on.load(Ordering::Relaxed) {
                if let Ok((len, from)) = names.recv_from(&mut buffer) {
                    let is_large = buffer[..len].windows(5).any(|word| word == b"large");
                    let answer = answers(&buffer[..len], if is_large { MANY } else { 1 });
                    names.send_to(&answer, from).expect("it is sent");
                }
            }
        });
        people_reach_what_they_may(&office);
        ssh_is_for_one_desk(&office);
        blocked_for_a_while(&office);
        dropped_packets_are_logged(&office);
        hosts_have_their_share(&office);
        let spoofed = forged(&office);
        // They come before this, and it is answered.
        assert!(office.mail.ping(OUTSIDE, 1) && office.desk.ping(OUTSIDE, 1));
        spoofed
    });
    // Interfaces stay as they are; all else may change.
    let text = fs::read_to_string(office.folder.file("small-office.toml")).expect("the recipe");
    let other = office.folder.file("other.toml");
    fs::write(&other, text.replace("10.0.1.0/24", "10.0.2.0/24").replace("10.0.1.25", "10.0.2.25"))
        .expect("a folder");
    let output = paceline(&["ctl", "reload", &other, "--control", &office.socket()]);
    assert!(stderr(&output).contains("its [[interface]] tables are others"), "{}", stderr(&output));
    office.ctl(&["reload", &office.folder.file("small-office.toml")]);
    let status = office.ctl(&["status"]);
    assert!(["lan0: ", "dmz0: ", "wan0: "].iter().all(|name| status.contains(name)), "{status}");
    run.signal("-TERM");
    let report = run.ended();
    assert_eq!(number(&report["drops"]["malformed/spoofed"]), spoofed, "{:#}", report["drops"]);
    for interface in ["lan0", "dmz0", "wan0"] {
        assert_eq!(of(&report, interface)["lost"], json!({}), "{interface}");
    }
    let dropped = report["routing"]["dropped"].as_object().expect("an object");
    let expected = ["above-mtu", "ttl-expired"];
    assert!(dropped.keys().all(|reason| expected.contains(&reason.as_str())), "{dropped:?}");
}

#[test]
fn an_office_on_one_core() {
    an_office("single");
}

#[test]
fn an_office_under_rss() {
    an_office("rss");
}

#[test]
fn an_office_under_rsspp() {
    an_office("rsspp");
}

#[test]
fn an_office_under_scr() {
    an_office("scr");
}

#[test]
fn an_office_under_auto() {
    an_office("auto");
}

/// So many connections are opened before a flood, and as many while it goes on.
const CONNECTIONS: usize = 50;

/// Frames of a flood that are sent before the sender looks whether it is to go on.
const BURST: u32 = 50;

/// Floods from all sides at once: SYNs to the open port, forged sources, packets that rules deny, and, where the NAT counts what
/// each host has, a host inside that opens one flow after another.
fn flood<'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    office: &'scope Office,
    has_limit: bool,
    goes_on: &'scope AtomicBool,
) {
    let at = |interface: &str| {
        let open = || live::Interface::open(interface).expect("the test made it").address;
        office.gateway.inside(open)
    };
    let (wan, lan) = (at("wan0"), at("lan0"));
    let (stranger, desk) = (station(&office.outside), station(&office.desk));
    let paced = move |host: &'scope Namespace, frame: Box<dyn Fn(u32) -> Vec<u8> + Send>| {
        scope.spawn(move || {
            host.enter();
            let (raw, mut number) = (Raw::open("eth0"), 0_u32);
            while goes_on.load(Ordering::Relaxed) {
                for _ in 0..BURST {
                    raw.send(&frame(number));
                    number = number.wrapping_add(1);
                }
                thread::sleep(Duration::from_millis(10));
            }
        });
    };
    let any = |number: u32| [198, 18 + (number >> 16) as u8 % 2, (number >> 8) as u8, number as u8];
    let gateway = [203, 0, 113, 1];
    paced(
        &office.outside,
        Box::new(move |number| match number % 3 {
            0 => syn(wan, stranger, (any(number), number as u16), (gateway, 25)),
            1 => syn(wan, stranger, ([10, 0, 0, number as u8], number as u16), (gateway, 25)),
            _ => udp(wan, stranger, (any(number), 53), (gateway, number as u16)),
        }),
    );
    if has_limit {
        let to = |number: u32| ([203, 0, 113, 2], (number >> 12) as u16 + 1_000);
        paced(
            &office.desk,
            Box::new(move |number| udp(lan, desk, ([10, 0, 0, 11], number as u16), to(number))),
        );
    }
}

/// Connections that are there go on, and new ones are opened, while floods come from all sides.
fn stands(strategy: &str) {
    let Some(office) = Office::new(&format!("flood-{strategy}")) else { return };
    // What the mail host's own kernel does of a flood is its own business: it answers.
    office.mail.write("/proc/sys/net/ipv4/tcp_syncookies", "2");
    let run = office.start(&office.recipe(strategy), strategy);
    let (goes_on, floods) = (AtomicBool::new(true), AtomicBool::new(true));
    thread::scope(|scope| {
        let _servers = Servers(&goes_on);
        let _floods = Servers(&floods);
        serve(scope, &office.outside, WEB, &goes_on);
        serve(scope, &office.mail, MAIL, &goes_on);
        let open = |number: usize| match number % 2 {
            0 => greeted(&office.admin, WEB, PATIENCE).expect("from inside").1,
            _ => greeted(&office.outside, MAIL_OUTSIDE, PATIENCE).expect("from outside").1,
        };
        let mut all: Vec<_> = (0..CONNECTIONS).map(open).collect();
        flood(scope, &office, has_limit(strategy), &floods);
        // All the floods have begun, and the greedy host has what it may have.
        thread::sleep(Duration::from_secs(2));
        all.extend((0..CONNECTIONS).map(open));
        let standing =
            all.iter_mut().filter_map(|connection| echoes(connection, "still here").then_some(())).count();
        assert_eq!(standing, 2 * CONNECTIONS);
    });
    run.signal("-TERM");
    let report = run.ended();
    let drops = |reason: &str| report["drops"][reason].as_u64().unwrap_or(0);
    println!("{strategy}: {:#}", report["drops"]);
    assert!(drops("malformed/spoofed") > 100 && drops("nat/no-mapping") > 100, "{:#}", report["drops"]);
    if has_limit(strategy) {
        assert!(drops("nat/ports-per-host") > 100, "{:#}", report["drops"]);
    }
}

#[test]
fn an_office_stands_floods_on_one_core() {
    stands("single");
}

#[test]
fn an_office_stands_floods_under_rss() {
    stands("rss");
}

#[test]
fn an_office_stands_floods_under_rsspp() {
    stands("rsspp");
}

#[test]
fn an_office_stands_floods_under_scr() {
    stands("scr");
}

#[test]
fn an_office_stands_floods_under_auto() {
    stands("auto");
}

/// Planted: where forged sources are believed, what the mail host sends as if from a desk reaches the outside.
#[test]
fn a_gateway_that_believes_forged_sources_is_told_apart() {
    let Some(office) = Office::new("believes") else { return };
    let path = office.recipe("single");
    let text = fs::read_to_string(&path).expect("the recipe");
    fs::write(&path, format!("spoofed = \"pass\"\n{text}")).expect("a folder of the test");
    let run = office.start(&path, "single");
    assert!(forged(&office) > 0);
    assert!(office.mail.ping(OUTSIDE, 1) && office.desk.ping(OUTSIDE, 1));
    run.signal("-TERM");
    assert_eq!(run.ended()["drops"]["malformed/spoofed"], Value::Null);
}

/// A router here would not follow policy rules: it does not start beside them.
#[test]
fn a_router_does_not_start_beside_policy_rules() {
    let Some(office) = Office::new("rules") else { return };
    let rule = office.gateway.run("ip", "rule add from 10.0.0.11 table 77");
    if !rule.status.success() {
        println!("skipped: this kernel has no policy rules");
        return;
    }
    let mut command = office.gateway.command(env!("CARGO_BIN_EXE_paceline"));
    command.current_dir(root()).args(["run", RECIPE, "--mode", "route", "--control", &office.socket()]);
    let output = command.output().expect("it starts");
    assert_eq!(output.status.code(), Some(2));
    let said = stderr(&output);
    assert!(said.contains("1 policy rules (`ip rule`") && said.contains("ip rule del"), "{said}");
}

/// What several interfaces do not do is refused with the reason.
#[test]
fn what_several_interfaces_do_not_do_is_refused() {
    let three = ["--inside", "lan0", "--inside", "dmz0", "--outside", "wan0"];
    for (arguments, expected) in [
        (&[RECIPE][..], "a bridge has two interfaces, and here are lan0, dmz0, wan0"),
        (&[RECIPE, "--mode", "route", "--record", "in.pcapng"], "Record into IN.pcap"),
        (&[RECIPE, "--mode", "route", "--inside", "a", "--outside", "b"], "names 2 interfaces for --inside"),
        (
            &[RECIPE, "--mode", "route", "--inside", "a", "--inside", "a", "--outside", "b"],
            "are one interface, `a`",
        ),
        (&[&["examples/p4/elephant.p4", "--backend", "xdp"], &three[..]].concat(), "Give --inside once"),
        (&["examples/edge.toml", "--mode", "route"], "name them in the chain file"),
    ] {
        let output = paceline(&[&["run"], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains(expected), "{arguments:?}: {}", stderr(&output));
    }
}

/// Over a capture, the recipe and a limit of each host without a NAT: what each strategy answers is what one core does, and of no
/// host passes more than its rate, whichever cores its packets come to.
#[test]
fn over_a_capture_strategies_agree() {
    let folder = Folder::new("office-verify");
    let text = fs::read_to_string(root().join(RECIPE)).expect("an example");
    let small = text.replace("20 Mbit/s", "20 kbit/s").replace("500 kB", "2 kB");
    assert_ne!(small, text, "the rate");
    let limited = "[[function]]\nuse = \"policer\"\nby = \"host\"\nrate = \"100 kbit/s\"\nburst = \"5 kB\"\n";
    let plain = format!("inside = [\"10.0.0.0/24\"]\n{limited}");
    for (name, chain) in [("office.toml", small.replace(LIMIT, "# none")), ("plain.toml", plain)] {
        let path = folder.file(name);
        fs::write(&path, chain).expect("a folder of the test");
        for (strategy, cores) in [("rss", "3"), ("rsspp", "3"), ("scr", "3"), ("auto", "2"), ("shared", "2")]
        {
            // Of a NAT and of what stands beside it `shared` promises nothing.
            if (name, strategy) == ("office.toml", "shared") {
                continue;
            }
            let capture = ["--pcap", "captures/gateway.pcap", "--seed", "1"];
            let args = ["verify", &path, "--strategy", strategy, "--cores", cores];
            let output = paceline(&[&args[..], &capture].concat());
            let said = stdout(&output);
            assert_eq!(output.status.code(), Some(0), "{name}, {strategy}: {said}");
            // A host's packets come to many cores: these have its buckets in common.
            let is_shared = matches!(strategy, "rss" | "rsspp" | "shared");
            assert_eq!(said.contains("shared by all cores"), is_shared, "{name}, {strategy}: {said}");
        }
        let output = paceline(&["run", &path, "--pcap", "captures/gateway.pcap", "--json", "-"]);
        let report: Value = serde_json::from_str(&stdout(&output)).expect("a report");
        assert!(number(&report["drops"]["policer/over-rate"]) > 0, "{name}: {:#}", report["drops"]);
    }
}

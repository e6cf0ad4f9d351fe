//! The NAT beside a plain one, which is a map and the RFCs' time-outs. Nobody tells the function in time which
//! mappings are dead: a table sweeps when it comes to it.

use proptest::prelude::*;
use proptest::sample::select;

use super::*;

const EXTERNAL: &str = "203.0.113.1";
const PEER: &str = "192.0.2.1:443";
const FIRST_PORT: u16 = 1024;

/// The function with a table that forgets a dead flow when it meets its key, or when it is swept.
struct Lazy {
    nat: Nat,
    pool: Pool,
    flows: BTreeMap<Vec<u8>, (SrcEndpoint, State, u64)>,
    seq: u64,
}

impl Lazy {
    fn new(options: &str) -> Lazy {
        let nat: Nat = function(options);
        let pool = nat.pool();
        Lazy { nat, pool, flows: BTreeMap::new(), seq: 0 }
    }

    fn packet(&mut self, now_ns: u64, headers: &Headers) -> Result<Headers, &'static str> {
        let meta = Nat::project(headers).unwrap();
        let key = Nat::key(&meta);
        self.forget(now_ns, |other| *other == key);
        self.seq += 1;
        let (mut edits, mut events) = (Edits::NONE, [0; 8]);
        let stamp = Stamp { seq: self.seq, time_ns: now_ns };
        let mut flow = self.flows.get(key.as_bytes()).map(|(_, state, _)| *state);
        let mut cx = Cx::new(stamp, &mut edits, &mut self.pool, &mut events, 7);
        let verdict = self.nat.step(&mut flow, &meta, &mut cx);
        if let Some(state) = flow {
            let deadline_ns = now_ns + self.nat.idle_timeout_ns(&state);
            self.flows.insert(key.as_bytes().to_vec(), (key, state, deadline_ns));
        }
        let mut sent = *headers;
        edits.apply_to_headers(&mut sent);
        match verdict {
            Verdict::Drop(reason) => Err(Nat::ABOUT.drop_reasons[usize::from(reason)]),
            _ => Ok(sent),
        }
    }

    /// Forgets those flows that are dead and meant.
    fn forget(&mut self, now_ns: u64, is_meant: impl Fn(&SrcEndpoint) -> bool) {
        let Lazy { nat, pool, flows, .. } = self;
        flows.retain(|_, (key, state, deadline_ns)| {
            let stays = *deadline_ns > now_ns || !is_meant(key);
            if !stays {
                nat.gone(key, state, pool);
            }
            stays
        });
    }
}

/// RFC 4787 and RFC 5382, in plain code: who has which port, and until when.
#[derive(Default)]
struct Plain {
    /// By protocol and inside endpoint.
    mappings: BTreeMap<(u8, SocketAddrV4), Mapping>,
}

struct Mapping {
    port: u16,
    deadline_ns: u64,
    is_closing: bool,
}

impl Plain {
    fn live(&self, now_ns: u64) -> impl Iterator<Item = (&(u8, SocketAddrV4), &Mapping)> {
        self.mappings.iter().filter(move |(_, mapping)| now_ns < mapping.deadline_ns)
    }

    fn owner(&self, now_ns: u64, protocol: u8, port: u16) -> Option<SocketAddrV4> {
        let owns =
            |((of, _), mapping): &(&(u8, SocketAddrV4), &Mapping)| *of == protocol && mapping.port == port;
        self.live(now_ns).find(owns).map(|((_, inside), _)| *inside)
    }

    fn mapping(&mut self, now_ns: u64, key: (u8, SocketAddrV4)) -> Option<&mut Mapping> {
        self.mappings.get_mut(&key).filter(|mapping| now_ns < mapping.deadline_ns)
    }

    /// A packet of the mapping goes out.
    fn refresh(&mut self, now_ns: u64, key: (u8, SocketAddrV4), port: u16, flags: u8) {
        let is_new = self.mapping(now_ns, key).is_none();
        if is_new {
            self.mappings.insert(key, Mapping { port, deadline_ns: 0, is_closing: false });
        }
        let mapping = self.mappings.get_mut(&key).unwrap();
        let opens = flags & tcp_flags::SYN != 0;
        let ends = flags & (tcp_flags::FIN | tcp_flags::RST) != 0;
        let was_closing = mapping.is_closing;
        mapping.is_closing = ends || was_closing && !opens;
        let timeout_ms = match key.0 {
            protocol::UDP => 300_000,
            protocol::ICMP => 60_000,
            _ if mapping.is_closing || was_closing || is_new => 240_000,
            // The peer is one and the same, and each endpoint begins with a SYN: what follows it is in use.
            _ if opens => 0,
            _ => 7_440_000,
        };
        mapping.deadline_ns = now_ns + ms(timeout_ms);
    }
}

#[derive(Clone, Copy, Debug)]
enum Happening {
    /// An inside endpoint sends to the peer.
    Out { protocol: u8, host: u8, flags: u8 },
    /// The peer sends to an external port.
    In { protocol: u8, port: u16 },
    /// An inside endpoint sends to an external port.
    Hairpin { host: u8, port: u16 },
    /// Nothing, for so many seconds.
    Wait(u64),
    /// The table is swept.
    Sweep,
}

fn happening() -> impl Strategy<Value = Happening> {
    let port = FIRST_PORT - 1..FIRST_PORT + 9;
    let protocol = || select(&[protocol::UDP, protocol::TCP, protocol::ICMP][..]);
    let flags = prop_oneof![
        Just(tcp_flags::SYN),
        Just(tcp_flags::ACK),
        Just(tcp_flags::FIN | tcp_flags::ACK),
        Just(tcp_flags::RST),
    ];
    prop_oneof![
        6 => (protocol(), 0..14_u8, flags).prop_map(|(protocol, host, flags)| Happening::Out { protocol, host, flags }),
        6 => (protocol(), port.clone()).prop_map(|(protocol, port)| Happening::In { protocol, port }),
        2 => (0..14_u8, port).prop_map(|(host, port)| Happening::Hairpin { host, port }),
        3 => (0..400_u64).prop_map(Happening::Wait),
        1 => (0..90_000_u64).prop_map(Happening::Wait),
        1 => Just(Happening::Sweep),
    ]
}

fn query(src: &str, dst: &str) -> Headers {
    Headers { dst_port: 0, tcp_shape: 0x21, ..packet(protocol::ICMP, src, dst) }
}

fn answer(src: &str, dst: &str) -> Headers {
    Headers { src_port: 0, tcp_shape: 0x20 | Headers::ICMP_REPLY, ..packet(protocol::ICMP, src, dst) }
}

/// Plays all of it, and says what does not hold.
fn play(options: &str, happenings: &[Happening]) -> Result<(), String> {
    let (mut nat, mut plain) = (Lazy::new(options), Plain::default());
    let inside = |host: u8| SocketAddrV4::new([10, 0, 0, 1 + host / 2].into(), FIRST_PORT + u16::from(host));
    let mut now_ns = 0;
    for happening in happenings {
        let arrived = match *happening {
            Happening::Wait(seconds) => {
                now_ns += ms(seconds * 1_000);
                continue;
            }
            Happening::Sweep => {
                nat.forget(now_ns, |_| true);
                continue;
            }
            Happening::Out { protocol: protocol::TCP, host, flags } => {
                // Each mapping begins with a SYN, and has no other while it is in use.
                let is_mapped = plain.mapping(now_ns, (protocol::TCP, inside(host)));
                let may_open = is_mapped.is_none_or(|mapping| mapping.is_closing);
                let flags = match (may_open, flags & tcp_flags::SYN != 0) {
                    (false, true) => tcp_flags::ACK,
                    _ => flags,
                };
                tcp(flags, &inside(host).to_string(), PEER)
            }
            Happening::Out { protocol: protocol::ICMP, host, .. } => query(&inside(host).to_string(), PEER),
            Happening::Out { host, .. } => udp(&inside(host).to_string(), PEER),
            Happening::In { protocol: protocol::TCP, port } => {
                tcp(tcp_flags::ACK, PEER, &format!("{EXTERNAL}:{port}"))
            }
            Happening::In { protocol: protocol::ICMP, port } => answer(PEER, &format!("{EXTERNAL}:{port}")),
            Happening::In { port, .. } => udp(PEER, &format!("{EXTERNAL}:{port}")),
            Happening::Hairpin { host, port } => {
                udp(&inside(host).to_string(), &format!("{EXTERNAL}:{port}"))
            }
        };
        let sent = nat.packet(now_ns, &arrived);
        let fail = |what: &str| Err(format!("{happening:?} at {now_ns}: {what}: {sent:?}"));
        let ends = sent.map(|sent| ((sent.src, sent.src_port), (sent.dst, sent.dst_port)));
        let end = |inside: SocketAddrV4| (Addr::v4(inside.ip().octets()), inside.port());
        let external = Addr::v4([203, 0, 113, 1]);
        if arrived.dst == external {
            let owner = plain.owner(now_ns, arrived.protocol, arrived.dst_port);
            match (owner, ends) {
                (None, Err("no-mapping")) | (Some(_), Err("no-port")) => {}
                (Some(owner), Ok((_, dst))) if dst == end(owner) => {}
                _ => return fail(&format!("the port is {owner:?}'s")),
            }
        }
        if let Happening::Out { host, .. } | Happening::Hairpin { host, .. } = *happening {
            let key = (arrived.protocol, inside(host));
            let mine = plain.mapping(now_ns, key).map(|mapping| mapping.port);
            let taken: BTreeSet<u16> = plain
                .live(now_ns)
                .filter(|((of, _), _)| *of == key.0)
                .map(|(_, mapping)| mapping.port)
                .collect();
            let port = match (mine, ends) {
                (Some(port), Ok(((addr, now), _))) if (addr, now) == (external, port) => Some(port),
                // A packet to nobody makes no mapping, and keeps one that is there.
                (mine, Err("no-mapping")) => mine,
                (None, Err("no-port")) if taken.len() == 8 => None,
                (None, Ok(((addr, port), _))) if addr == external && !taken.contains(&port) => Some(port),
                _ => return fail(&format!("its port is {mine:?}, and {taken:?} are taken")),
            };
            if let Some(port) = port {
                plain.refresh(now_ns, key, port, arrived.tcp_flags);
            }
        }
    }
    Ok(())
}

proptest! {
    /// In whatever order packets and pauses come: a host whose mapping is dead is not reached, a host that asks
    /// gets a port as long as there is one without a mapping that lives, and mappings that live are left alone.
    #[test]
    fn a_mapping_is_dead_at_its_deadline_for_both_directions(
        choice in prop_oneof![Just("in-turn"), Just("random"), Just("preserve")],
        happenings in proptest::collection::vec(happening(), 1..300),
    ) {
        let options = SMALL.replace("in-turn", choice);
        prop_assert_eq!(play(&options, &happenings), Ok(()));
    }
}

/// The issue as it was found: an hour after a RST, a day after the last packet.
#[test]
fn strangers_do_not_meet_who_left_long_ago() {
    let mut nat = Lazy::new(SMALL);
    let back = |nat: &mut Lazy, time_ms, of: Headers| nat.packet(ms(time_ms), &of).map(|sent| sent.dst);
    let host = Addr::v4([10, 0, 0, 1]);
    let tcp_back = tcp(tcp_flags::SYN, "198.51.100.9:9", "203.0.113.1:1024");
    nat.packet(0, &tcp(tcp_flags::SYN, "10.0.0.1:4000", PEER)).unwrap();
    nat.packet(1, &tcp(tcp_flags::ACK, "10.0.0.1:4000", PEER)).unwrap();
    nat.packet(2, &tcp(tcp_flags::RST, "10.0.0.1:4000", PEER)).unwrap();
    assert_eq!(back(&mut nat, 239_999, tcp_back), Ok(host));
    assert_eq!(back(&mut nat, 240_001, tcp_back), Err("no-mapping"));
    assert_eq!(back(&mut nat, 3_600_000, tcp_back), Err("no-mapping"));

    let udp_back = udp("198.51.100.9:9", "203.0.113.1:1024");
    nat.packet(ms(3_600_000), &udp("10.0.0.1:4000", PEER)).unwrap();
    assert_eq!(back(&mut nat, 3_899_999, udp_back), Ok(host));
    assert_eq!(back(&mut nat, 3_600_000 + 86_400_000, udp_back), Err("no-mapping"));
}

/// A full pool gives a dead mapping's port to the next host that asks; what the table says of the old one later
/// does not take it from that host.
#[test]
fn a_full_pool_gives_out_dead_ports() {
    let mut nat = Lazy::new(SMALL);
    for number in 0..8 {
        nat.packet(ms(u64::from(number)), &numbered(number)).unwrap();
    }
    assert_eq!(nat.packet(ms(299_999), &numbered(8)), Err("no-port"));
    let sent = nat.packet(ms(300_000), &numbered(8)).expect("the first one's");
    assert_eq!(sent.src_port, 1024);
    assert_eq!(nat.packet(ms(300_000), &numbered(9)), Err("no-port"), "the others live");
    nat.forget(ms(300_000), |_| true);
    assert_eq!(nat.packet(ms(300_000), &numbered(9)), Err("no-port"), "it is the new one's");
    let back = udp(PEER, "203.0.113.1:1024");
    assert_eq!(nat.packet(ms(300_000), &back).map(|sent| sent.dst), Ok(numbered(8).src));
    // The one that has been dead for longest goes first.
    nat.packet(ms(300_001), &numbered(1)).expect("its own, made anew or not");
    assert!(nat.packet(ms(400_000), &numbered(10)).is_ok());
}

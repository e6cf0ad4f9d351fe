//! The mirror's answers beside those of the kernel (`ip route get`), over random routes, before and after changes.

use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::thread;
use std::time::Duration;

use wire::Addr;

use super::Planted;
use super::namespace::{in_namespace, ip, ip_batch, try_ip};
use crate::route::forwarder::source;
use crate::route::{Route, Snapshot, Tables};

/// Numbers that look random (xorshift64*).
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 16) % end
    }
}

/// A prefix in a crowded part of the address space, so that many are in others.
fn prefix(draw: &mut Draw, is_ipv4: bool) -> (IpAddr, u8) {
    let bits = draw.next() & 0x3003_00ff_03ff_0f0f;
    if is_ipv4 {
        let len = 9 + draw.below(24) as u8;
        let address = (30 << 24 | (bits as u32 & 0x0030_f303)) & (u32::MAX << (32 - len));
        (Ipv4Addr::from(address).into(), len)
    } else {
        let len = 33 + draw.below(96) as u8;
        let address = (0x2a00_u128 << 112 | u128::from(bits) << 40 | u128::from(bits & 0xff03))
            & (u128::MAX << (128 - len));
        (Ipv6Addr::from(address).into(), len)
    }
}

/// An address in that part, often just at a prefix.
fn destination(draw: &mut Draw, is_ipv4: bool) -> IpAddr {
    match prefix(draw, is_ipv4).0 {
        IpAddr::V4(ip) if draw.below(3) > 0 => Ipv4Addr::from(ip.to_bits() | draw.below(1024) as u32).into(),
        IpAddr::V6(ip) if draw.below(3) > 0 => {
            Ipv6Addr::from(ip.to_bits() | u128::from(draw.next() & 0xff_0000_0103)).into()
        }
        ip => ip,
    }
}

fn gateway(draw: &mut Draw, is_ipv4: bool) -> String {
    let (link, host) = (draw.below(3), 2 + draw.below(8));
    match is_ipv4 {
        true => format!("via 172.16.{link}.{host} dev v{link}"),
        false => format!("via fd00:{link}::{host} dev v{link}"),
    }
}

/// What `ip route add` takes.
fn random_route(draw: &mut Draw, is_ipv4: bool) -> String {
    let (address, len) = prefix(draw, is_ipv4);
    let metric = 1 + draw.below(3);
    let mtu = if draw.below(4) == 0 { format!("mtu {}", 1_280 + draw.below(200)) } else { String::new() };
    let to = format!("{address}/{len}");
    match draw.below(12) {
        0 => format!("blackhole {to} metric {metric}"),
        1 => format!("unreachable {to} metric {metric}"),
        2 => format!("prohibit {to} metric {metric}"),
        3 => format!("throw {to} metric {metric}"),
        4 => format!("{to} dev v{} metric {metric} {mtu}", draw.below(3)),
        5 => {
            let (one, other) = (gateway(draw, is_ipv4), gateway(draw, is_ipv4));
            format!("{to} metric {metric} nexthop {one} weight 1 nexthop {other} weight 3")
        }
        _ => format!("{to} {} metric {metric} {mtu}", gateway(draw, is_ipv4)),
    }
}

fn routes(draw: &mut Draw, verb: &str, count: usize) -> String {
    let mut lines = String::new();
    for is_ipv4 in [true, false] {
        for _ in 0..count {
            let _ = writeln!(lines, "route {verb} {}", random_route(draw, is_ipv4));
        }
    }
    lines
}

/// Three interfaces with addresses.
fn set_up() {
    for link in 0..3 {
        ip(&format!("link add v{link} type veth peer name p{link}"));
        ip(&format!("link set v{link} up"));
        ip(&format!("link set p{link} up"));
        ip(&format!("addr add 172.16.{link}.1/24 broadcast + dev v{link}"));
        ip(&format!("addr add fd00:{link}::1/64 dev v{link} nodad"));
    }
}

/// Prefixes of the host itself (`local`), and longer ones in the table `main`: hidden in IPv6, and not in IPv4.
fn set_up_any_ip() {
    for (own, longer, gateway) in
        [("31.0.0.0/16", "31.0.5.0/24", "172.16.0.2"), ("2b00::/32", "2b00:0:5::/48", "fd00:0::2")]
    {
        ip(&format!("route add local {own} dev lo"));
        ip(&format!("route add {longer} via {gateway}"));
    }
}

/// Until the kernel has said all, and dumps are done.
fn settle(tables: &mut Tables) {
    for _ in 0..40 {
        tables.update().expect("the kernel's tables");
        thread::sleep(Duration::from_millis(2));
    }
}

/// How the kernel's answer differs from the mirror's, if it does.
fn difference(snapshot: &Snapshot, to: IpAddr) -> Option<String> {
    let family = if to.is_ipv4() { "" } else { "-6 " };
    let answer = try_ip(&format!("{family}route get {to}"));
    let route = snapshot.route(Addr::from(to));
    let agrees = match (&answer, route) {
        (Err(error), Route::Blackhole) => error.contains("Invalid argument"),
        (Err(error), Route::Unreachable) => error.contains("No route to host"),
        (Err(error), Route::Prohibit) => error.contains("Permission denied"),
        (Err(error), Route::Missing) => error.contains("Network is unreachable"),
        (Ok(answer), Route::Host) => answer.starts_with("local") || answer.starts_with("anycast"),
        (Ok(answer), Route::Broadcast) => answer.starts_with("broadcast"),
        (Ok(answer), Route::Paths(paths)) => {
            let words: Vec<&str> = answer.split_whitespace().collect();
            let after = |word| words.iter().position(|other| *other == word).map(|at| words[at + 1]);
            let via = after("via").map(|word| if word == "inet6" { after("inet6") } else { Some(word) });
            let via = via.flatten().map(|ip| Addr::from(ip.parse::<IpAddr>().expect("an address")));
            let mtu = after("mtu").map(|mtu| mtu.parse().expect("a number"));
            paths.iter().any(|path| {
                let name = snapshot.link(path.interface).map(|link| link.name.as_str());
                name == after("dev") && (path.gateway, path.mtu) == (via, mtu)
            })
        }
        _ => false,
    };
    (!agrees).then(|| format!("{to}: the kernel says {answer:?}, the mirror {route:?}"))
}

fn differences(tables: &Tables, draw: &mut Draw, count: usize) -> Vec<String> {
    let snapshot = tables.snapshot();
    let mut all: Vec<IpAddr> = [
        "172.16.0.1",
        "172.16.1.255",
        "172.16.2.77",
        "127.0.0.1",
        "fd00:1::1",
        "fd00:2::77",
        "::1",
        "31.0.5.1",
        "2b00:0:5::1",
    ]
    .map(|ip| ip.parse().expect("an address"))
    .to_vec();
    for is_ipv4 in [true, false] {
        all.extend((0..count).map(|_| destination(draw, is_ipv4)));
    }
    all.into_iter().filter_map(|to| difference(&snapshot, to)).collect()
}

/// How many answers of each kind there were: a test of nothing but missing routes proves little.
fn assert_mixed(tables: &Tables, draw: &mut Draw) {
    let snapshot = tables.snapshot();
    let mut kinds = [0; 7];
    for is_ipv4 in [true, false] {
        for _ in 0..400 {
            let kind = match snapshot.route(Addr::from(destination(draw, is_ipv4))) {
                Route::Paths([_]) => usize::from(is_ipv4),
                Route::Paths(_) => 2,
                Route::Blackhole => 3,
                Route::Unreachable => 4,
                Route::Prohibit => 5,
                _ => 6,
            };
            kinds[kind] += 1;
        }
    }
    assert!(kinds.iter().all(|kind| *kind > 0), "{kinds:?}");
}

#[test]
fn the_mirror_agrees_with_the_kernel() {
    in_namespace(|| {
        set_up();
        set_up_any_ip();
        let mut draw = Draw(7);
        ip_batch(&routes(&mut draw, "add", 400));
        let mut tables = Tables::open().expect("the tables");
        let agree = |tables: &mut Tables, draw: &mut Draw, what: &str| {
            settle(tables);
            let found = differences(tables, draw, 100);
            assert!(found.is_empty(), "{what}: {found:#?}");
        };
        agree(&mut tables, &mut draw, "at first");
        assert_mixed(&tables, &mut draw);
        for round in 0..2 {
            ip_batch(&routes(&mut draw, "replace", 100));
            ip_batch(&routes(&mut draw, "append", 60));
            ip_batch(&routes(&mut draw, "prepend", 20));
            // The same routes again as they were added.
            ip_batch(&routes(&mut Draw(7), "del", 100));
            agree(&mut tables, &mut draw, &format!("after changes, round {round}"));
        }
        // The kernel removes IPv4 routes of an interface that goes down without a word.
        ip("link set v2 down");
        agree(&mut tables, &mut draw, "an interface down");
        ip("link set v2 up");
        ip("addr add fd00:2::1/64 dev v2 nodad");
        ip_batch(&routes(&mut draw, "add", 50));
        agree(&mut tables, &mut draw, "and up again");
        ip("link set p1 down");
        agree(&mut tables, &mut draw, "no carrier");
        ip("addr del 172.16.0.1/24 dev v0");
        agree(&mut tables, &mut draw, "an address gone");
        ip("link del v1");
        agree(&mut tables, &mut draw, "an interface gone");
        assert_eq!(tables.unreadable(), 0);
    });
}

/// An interface with several networks: an error comes from the address that the kernel would take (`src` of its route to the sender,
/// as `icmp_errors_use_inbound_ifaddr` is 0 by default).
#[test]
fn errors_come_from_the_address_that_the_kernel_takes() {
    in_namespace(|| {
        set_up();
        for address in ["172.20.0.1/24", "172.21.0.1/16", "fd20::1/64"] {
            let nodad = if address.contains(':') { " nodad" } else { "" };
            ip(&format!("addr add {address} dev v1{nodad}"));
        }
        ip("route add 40.0.0.0/24 via 172.20.0.9");
        ip("route add 41.0.0.0/24 via 172.16.1.9");
        let mut tables = Tables::open().expect("the tables");
        settle(&mut tables);
        let snapshot = tables.snapshot();
        let link = snapshot.links.0.iter().find(|link| link.name == "v1").expect("it is there");
        for sender in
            ["172.16.1.7", "172.20.0.7", "172.21.9.7", "40.0.0.7", "41.0.0.7", "fd00:1::7", "fd20::7"]
        {
            let sender: IpAddr = sender.parse().expect("an address");
            let answer = ip_says(sender);
            let expected: IpAddr = answer.parse().expect("an address");
            assert_eq!(source(&snapshot, link, sender.into()), Some(expected.into()), "{sender}");
        }
    });
}

/// The address that the kernel would send from.
fn ip_says(to: IpAddr) -> String {
    let family = if to.is_ipv4() { "" } else { "-6 " };
    let answer = try_ip(&format!("{family}route get {to}")).expect("a route");
    let mut words = answer.split_whitespace().skip_while(|word| *word != "src");
    words.nth(1).expect("a source").to_owned()
}

/// Plain changes are applied from notifications, without reading all tables.
#[test]
fn plain_changes_need_no_dump() {
    in_namespace(|| {
        set_up();
        let mut tables = Tables::open().expect("the tables");
        settle(&mut tables);
        let dumps = tables.dumps();
        let lines = |verb: &str| {
            (0..250).fold(String::new(), |mut lines, at| {
                let _ = writeln!(lines, "route {verb} 30.0.{at}.0/24 via 172.16.0.2");
                let _ = writeln!(lines, "route {verb} 2a00:{at}::/32 via fd00:0::2");
                lines
            })
        };
        let mut draw = Draw(3);
        for verb in ["add", "del", "add", "del"] {
            ip_batch(&lines(verb));
            settle(&mut tables);
            let path = tables.snapshot().route(Addr::v4([30, 0, 9, 1])).path(|| 0).copied();
            assert_eq!(path.is_some(), verb == "add");
            let found = differences(&tables, &mut draw, 5);
            assert!(found.is_empty(), "{found:#?}");
        }
        assert_eq!(tables.dumps(), dumps);
    });
}

#[test]
fn policy_rules_are_counted() {
    in_namespace(|| {
        assert_eq!(Tables::open().expect("the tables").policy_rules(), 0);
        if try_ip("rule add from 9.9.9.9 table 77").is_ok() {
            assert_eq!(Tables::open().expect("the tables").policy_rules(), 1);
        }
    });
}

/// Next hops that are objects of their own: what uses them changes without a word of its own.
#[test]
fn next_hop_objects_are_followed() {
    in_namespace(|| {
        set_up();
        ip("route add 32.0.0.0/24 via inet6 fd00:0::2 dev v0");
        let steps = [
            "nexthop add id 5 via 172.16.0.3 dev v0",
            "nexthop add id 6 via fd00:1::3 dev v1",
            "route add 33.0.0.0/24 nhid 5",
            "route add 2c00::/32 nhid 6",
            "nexthop replace id 5 via 172.16.1.4 dev v1",
            "nexthop replace id 6 via fd00:2::4 dev v2",
            "nexthop del id 5",
            "nexthop del id 6",
        ];
        let mut tables = Tables::open().expect("the tables");
        for step in steps {
            if let Err(error) = try_ip(step) {
                println!("skipped: {step}: {error}");
                return;
            }
            settle(&mut tables);
            for to in ["32.0.0.1", "33.0.0.1", "2c00::1"] {
                let found = difference(&tables.snapshot(), to.parse().expect("an address"));
                assert_eq!(found, None, "{step}");
            }
        }
        assert_eq!(tables.unreadable(), 0);
    });
}

/// Planted: changes of routes that are not applied are found.
#[test]
fn routes_that_are_not_followed_are_found() {
    in_namespace(|| {
        set_up();
        let mut draw = Draw(11);
        ip_batch(&routes(&mut draw, "add", 200));
        let mut tables = Tables::open().expect("the tables");
        tables.planted = Some(Planted::Routes);
        ip_batch(&routes(&mut draw, "replace", 200));
        settle(&mut tables);
        assert!(differences(&tables, &mut draw, 50).len() > 3);
    });
}

/// More notifications than there is room for: the tables are read anew.
#[test]
fn lost_notifications_are_made_up_for() {
    in_namespace(|| {
        set_up();
        let mut tables = Tables::open().expect("the tables");
        settle(&mut tables);
        let dumps = tables.dumps();
        tables.squeeze();
        let mut draw = Draw(5);
        ip_batch(&routes(&mut draw, "add", 500));
        settle(&mut tables);
        assert!(tables.dumps() > dumps, "notifications were lost");
        let found = differences(&tables, &mut draw, 50);
        assert!(found.is_empty(), "{found:#?}");
    });
}

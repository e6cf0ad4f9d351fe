//! Two hosts with the kernel's own IP, and the router between them: what they accept is right.

#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::lab::headers;
use super::namespace::{Other, in_namespace, ip};
use crate::Interface;
use crate::route::{Decision, RouteCounters, RouteDrop, Tables};

/// A plain packet socket.
struct Wire {
    socket: OwnedFd,
    interface: u32,
}

impl Wire {
    fn open(name: &str) -> Wire {
        let interface = Interface::open(name).expect("the interface").index;
        let all = (libc::ETH_P_ALL as u16).to_be();
        // SAFETY: the arguments are plain numbers; the descriptor is new. All bytes 0 is a valid address, and that and the
        // option are read within their lengths.
        unsafe {
            let fd = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_NONBLOCK, i32::from(all));
            assert!(fd >= 0, "a packet socket");
            let socket = OwnedFd::from_raw_fd(fd);
            let mut address: libc::sockaddr_ll = std::mem::zeroed();
            address.sll_family = libc::AF_PACKET as u16;
            address.sll_protocol = all;
            address.sll_ifindex = interface as i32;
            let len = size_of::<libc::sockaddr_ll>() as u32;
            assert_eq!(libc::bind(fd, (&raw const address).cast(), len), 0);
            let one = 1_i32;
            let option = libc::PACKET_IGNORE_OUTGOING;
            let set = libc::setsockopt(fd, libc::SOL_PACKET, option, (&raw const one).cast(), 4);
            assert_eq!(set, 0);
            Wire { socket, interface }
        }
    }

    fn receive<'a>(&self, buffer: &'a mut [u8]) -> Option<&'a mut [u8]> {
        // SAFETY: the buffer is written within its length.
        let len = unsafe { libc::recv(self.socket.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), 0) };
        buffer.get_mut(..usize::try_from(len).ok()?)
    }

    fn send(&self, frame: &[u8]) {
        // SAFETY: the frame is read within its length.
        let sent = unsafe { libc::send(self.socket.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        assert_eq!(sent, frame.len() as isize);
    }
}

/// Routes between the interfaces until told to stop, or for a minute.
fn router(mut tables: Tables, wires: [Wire; 2], is_over: Arc<AtomicBool>) -> RouteCounters {
    let mut forwarder = tables.forwarder();
    let mut buffer = [0; 4_096];
    let start = Instant::now();
    while !is_over.load(Ordering::Acquire) && start.elapsed() < Duration::from_secs(60) {
        tables.update().expect("the kernel's tables");
        forwarder.refresh(start.elapsed().as_nanos() as u64);
        let mut is_idle = true;
        for wire in &wires {
            let Some(frame) = wire.receive(&mut buffer) else { continue };
            is_idle = false;
            let headers = headers(frame);
            let on = |index| wires.iter().find(|wire| wire.interface == index).expect("one of the two");
            match forwarder.forward(frame, &headers, wire.interface) {
                Decision::Send { interface } => on(interface).send(frame),
                Decision::Reply { interface, .. } => on(interface).send(forwarder.reply()),
                // The kernel has seen it already: a packet socket takes copies.
                Decision::Host | Decision::Drop(_) => {}
                Decision::Unresolved => _ = forwarder.give_up(),
            }
        }
        if is_idle {
            thread::sleep(Duration::from_micros(200));
        }
    }
    forwarder.counters().clone()
}

#[test]
fn hosts_talk_through_the_router() {
    if Command::new("ping").arg("-V").output().is_err() {
        println!("skipped: there is no `ping`");
        return;
    }
    in_namespace(|| {
        let (inside, outside) = (Other::new(), Other::new());
        for (host, name, net) in [(&inside, "in0", 1), (&outside, "out0", 2)] {
            ip(&format!("link add {name} type veth peer name eth0 netns {}", host.thread_id));
            for line in [
                format!("addr add 10.{net}.0.1/24 dev {name}"),
                format!("addr add 2001:db8:{net}::1/64 dev {name} nodad"),
                format!("link set {name} up"),
            ] {
                ip(&line);
            }
            for line in [
                format!("addr add 10.{net}.0.2/24 dev eth0"),
                format!("addr add 2001:db8:{net}::2/64 dev eth0 nodad"),
                "link set eth0 up".to_owned(),
                format!("route add default via 10.{net}.0.1"),
                format!("route add default via 2001:db8:{net}::1"),
            ] {
                host.ip(&line);
            }
            // Quicker to give up; the kernel does not route.
            for family in ["ipv4", "ipv6"] {
                let _ = std::fs::write(format!("/proc/sys/net/{family}/neigh/{name}/retrans_time_ms"), "50");
                let _ = std::fs::write(format!("/proc/sys/net/{family}/conf/all/forwarding"), "0");
            }
        }
        ip("link set out0 mtu 1400");
        ip("route add prohibit 10.3.0.0/24");
        ip("route add unreachable 10.4.0.0/24");
        let tables = Tables::open().expect("the tables");
        let is_over = Arc::new(AtomicBool::new(false));
        let wires = [Wire::open("in0"), Wire::open("out0")];
        let router = thread::spawn({
            let is_over = Arc::clone(&is_over);
            move || router(tables, wires, is_over)
        });
        let ping = |arguments: &str, expected: &str| {
            let command = format!("ping -n -i 0.1 -W 2 {arguments}");
            let mut said = String::new();
            // The first packets may be lost while neighbours are resolved.
            for _ in 0..5 {
                let output = inside.run(&command);
                said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
                if said.contains(expected) {
                    return;
                }
            }
            panic!("{command}: {said}, and not {expected}");
        };
        ping("-c 3 10.2.0.2", " 3 received");
        ping("-c 3 2001:db8:2::2", " 3 received");
        ping("-c 3 -s 1300 10.2.0.2", " 3 received");
        ping("-c 1 -t 1 10.2.0.2", "From 10.1.0.1 icmp_seq=1 Time to live exceeded");
        ping("-c 1 -t 1 2001:db8:2::2", "From 2001:db8:1::1 icmp_seq=1 Time exceeded: Hop limit");
        ping("-c 1 -M do -s 1440 10.2.0.2", "From 10.1.0.1 icmp_seq=1 Frag needed and DF set (mtu = 1400)");
        ping("-c 1 -M do -s 1440 2001:db8:2::2", "From 2001:db8:1::1 icmp_seq=1 Packet too big: mtu=1400");
        ping("-c 1 10.3.0.1", "From 10.1.0.1 icmp_seq=1 Packet filtered");
        ping("-c 1 10.4.0.1", "From 10.1.0.1 icmp_seq=1 Destination Host Unreachable");
        ping("-c 1 10.5.0.1", "From 10.1.0.1 icmp_seq=1 Destination Net Unreachable");
        ping("-c 1 2001:db8:5::1", "From 2001:db8:1::1 icmp_seq=1 Destination unreachable: No route");
        ping("-c 9 10.2.0.99", "Destination Host Unreachable");
        is_over.store(true, Ordering::Release);
        let counters = router.join().expect("no panic");
        assert!(counters.sent >= 18, "{counters:?}");
        assert_eq!(counters.dropped(RouteDrop::Martian) + counters.dropped(RouteDrop::BadHeader), 0);
    });
}

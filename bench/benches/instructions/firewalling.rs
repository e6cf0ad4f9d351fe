//! A firewall of many rules with the packets that it steps: those that begin connections, or go on with known ones.

use std::hint::black_box;

use nf::{Cx, InPlace, NetworkFunction};
use nfs::firewall::{Buckets, Firewall, Meta, Options, State};
use paceline_bench::{Batch, Kind, PACKETS};
use wire::{Edits, Headers, Stamp};

pub struct Firewalling {
    firewall: Firewall,
    metas: Vec<Meta>,
    flows: Vec<Option<State>>,
    events: Vec<u64>,
}

impl Firewalling {
    /// Datagrams between [`PACKETS`] pairs of hosts, none of which is known. All rules but the last are about others.
    pub fn new(rules: usize) -> Firewalling {
        let other = |number: usize| {
            let (high, low, port) = (number / 250, number % 250, 1_000 + number);
            format!("accept udp from 172.16.{high}.{low} to 198.51.100.0/24 port {port} state new")
        };
        let last = "accept udp from 10.0.0.0/8 to any port 53".to_owned();
        let rules: Vec<String> = (1..rules).map(other).chain([last]).collect();
        let events = vec![0; Firewall::ABOUT.events.len() + 1 + rules.len() + 1];
        let firewall = Firewall::new(Options { rules, ..Options::default() }).expect("rules");
        let metas = Batch::new(Kind::Udp).headers.iter().filter_map(Firewall::project).collect();
        Firewalling { firewall, metas, flows: vec![None; PACKETS], events }
    }

    /// Such datagrams of connections that have been answered, and of which the rules have said what they say.
    pub fn open(rules: usize) -> Firewalling {
        let mut firewalling = Firewalling::new(rules);
        let back = |headers: &Headers| {
            let Headers { src, dst, src_port, dst_port, .. } = *headers;
            Headers { src: dst, dst: src, src_port: dst_port, dst_port: src_port, ..*headers }
        };
        let answers = Batch::new(Kind::Udp).headers.iter().map(back).collect::<Vec<_>>();
        let answers: Vec<Meta> = answers.iter().filter_map(Firewall::project).collect();
        let questions = firewalling.metas.clone();
        for metas in [&questions, &answers, &questions] {
            firewalling.metas.clone_from(metas);
            firewalling.begin();
        }
        firewalling
    }

    /// Steps each packet in full.
    pub fn begin(&mut self) {
        let Firewalling { firewall, metas, flows, events } = self;
        let (mut edits, mut pool) = (Edits::NONE, Buckets::default());
        for (meta, flow) in black_box(metas).iter().zip(flows) {
            let mut cx = Cx::new(Stamp::default(), &mut edits, &mut pool, events, 0);
            black_box(firewall.step(flow, meta, &mut cx));
        }
    }

    /// Steps each packet where its state is.
    pub fn go_on(&mut self) {
        let InPlace::Flow(step) = (const { Firewall::EXTRAS.in_place }) else {
            unreachable!("it steps in place")
        };
        let Firewalling { firewall, metas, flows, .. } = self;
        let mut edits = Edits::NONE;
        for (meta, flow) in black_box(metas).iter().zip(flows) {
            let state = flow.as_mut().expect("it is known");
            assert!(step(firewall, state, meta, Stamp::default(), &mut edits), "in place");
        }
    }
}

//! How many instructions each stage takes. The counts are the same on every run of one program, so a
//! change of a few is seen; times are not told.
//!
//! A benchmark takes what its setup made, does one stage for every packet, and gives everything back,
//! so that freeing it is not counted. Nothing in here is called by name: each must be in a group below.
#![allow(missing_docs)] // The macros make public modules of the benchmarks.

use std::hint::black_box;

use gungraun::prelude::*;
use nf::{Connection, FiveTuple, FlowKey, Hasher, Short, hash_bytes};
use paceline_bench::{Batch, Kind, PACKETS, balance};
use wire::{Edits, LinkType};
use zerocopy::IntoBytes;

#[library_benchmark]
#[bench::udp(args = (Kind::Udp), setup = Batch::new)]
#[bench::tcp(args = (Kind::Tcp), setup = Batch::new)]
#[bench::tcp_timestamps(args = (Kind::TcpTimestamps), setup = Batch::new)]
#[bench::vlan(args = (Kind::Vlan), setup = Batch::new)]
#[bench::ipv6(args = (Kind::Ipv6), setup = Batch::new)]
fn parse(mut batch: Batch) -> Batch {
    for (frame, headers) in black_box(&batch.frames).iter().zip(&mut batch.headers) {
        wire::parse_into(LinkType::Ethernet, frame, 0, headers);
    }
    batch
}

#[library_benchmark]
#[bench::clear(args = (Kind::Udp), setup = Batch::balanced)]
fn edits_clear(mut batch: Batch) -> Batch {
    black_box(&mut batch.edits).iter_mut().for_each(Edits::clear);
    batch
}

#[library_benchmark]
#[bench::balancer(args = (Kind::Udp), setup = Batch::new)]
fn edits_set(mut batch: Batch) -> Batch {
    black_box(&mut batch.edits).iter_mut().for_each(|edits| balance(edits, 7));
    batch
}

#[library_benchmark]
#[bench::none(args = (Kind::Udp), setup = Batch::new)]
#[bench::balancer_udp(args = (Kind::Udp), setup = Batch::balanced)]
#[bench::balancer_tcp(args = (Kind::Tcp), setup = Batch::balanced)]
fn edits_to_headers(mut batch: Batch) -> Batch {
    for (edits, headers) in black_box(&batch.edits).iter().zip(&mut batch.headers) {
        edits.apply_to_headers(headers);
    }
    batch
}

#[library_benchmark]
#[bench::none(args = (Kind::Udp), setup = Batch::new)]
#[bench::balancer_udp(args = (Kind::Udp), setup = Batch::balanced)]
#[bench::balancer_tcp(args = (Kind::Tcp), setup = Batch::balanced)]
fn edits_apply(mut batch: Batch) -> Batch {
    for ((edits, headers), frame) in black_box(&batch.edits).iter().zip(&batch.headers).zip(&mut batch.frames)
    {
        let mut range = 0..frame.len();
        let _ = black_box(wire::apply(edits, headers, LinkType::Ethernet, frame, &mut range));
    }
    batch
}

#[library_benchmark]
#[bench::ipv4(args = (Kind::Tcp), setup = with_shorts)]
#[bench::ipv6(args = (Kind::Ipv6), setup = with_shorts)]
fn short_of_five_tuple((batch, mut shorts): (Batch, Vec<Short>)) -> (Batch, Vec<Short>) {
    for (headers, short) in black_box(&batch.headers).iter().zip(&mut shorts) {
        *short = FiveTuple::of(headers).short();
    }
    (batch, shorts)
}

#[library_benchmark]
#[bench::ipv4(args = (Kind::Tcp), setup = with_shorts)]
#[bench::ipv6(args = (Kind::Ipv6), setup = with_shorts)]
fn short_of_connection((batch, mut shorts): (Batch, Vec<Short>)) -> (Batch, Vec<Short>) {
    for (headers, short) in black_box(&batch.headers).iter().zip(&mut shorts) {
        *short = Connection::of(headers).short();
    }
    (batch, shorts)
}

#[library_benchmark]
#[bench::five_tuple(args = (Kind::Tcp), setup = with_hashes)]
fn hash_of_five_tuple((batch, mut hashes): (Batch, Vec<u64>)) -> (Batch, Vec<u64>) {
    let seed = black_box(7);
    for (headers, hash) in black_box(&batch.headers).iter().zip(&mut hashes) {
        *hash = hash_bytes(FiveTuple::of(headers).as_bytes(), seed);
    }
    (batch, hashes)
}

#[library_benchmark]
#[bench::five_tuple(args = (Kind::Tcp), setup = with_hashes)]
fn short_and_its_hash((batch, mut hashes): (Batch, Vec<u64>)) -> (Batch, Vec<u64>) {
    let hasher = Hasher::new(black_box(7));
    for (headers, hash) in black_box(&batch.headers).iter().zip(&mut hashes) {
        *hash = hasher.hash_u128(FiveTuple::of(headers).short().bits);
    }
    (batch, hashes)
}

fn with_shorts(kind: Kind) -> (Batch, Vec<Short>) {
    (Batch::new(kind), vec![Short::of_bytes(&[]); PACKETS])
}

fn with_hashes(kind: Kind) -> (Batch, Vec<u64>) {
    (Batch::new(kind), vec![0; PACKETS])
}

library_benchmark_group!(name = parsing, benchmarks = [parse]);
library_benchmark_group!(name = edits, benchmarks = [edits_clear, edits_set, edits_to_headers, edits_apply]);
library_benchmark_group!(
    name = keys,
    benchmarks = [short_of_five_tuple, short_of_connection, hash_of_five_tuple, short_and_its_hash]
);

main!(library_benchmark_groups = parsing, edits, keys);

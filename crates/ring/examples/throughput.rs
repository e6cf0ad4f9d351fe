//! Items of a frame's size through this ring and through `rtrb`'s, in turns, from one pinned core to
//! another. usage: `cargo run --release -p paceline-ring --example throughput [ROUNDS]`

use std::hint::black_box;
use std::thread;
use std::time::Instant;

use core_affinity::CoreId;
use paceline_ring as ring;

const ITEMS: u64 = 20_000_000;
const CHUNK: usize = 64;
const SLOTS: usize = 1024;

/// As large as a frame's token.
type Item = [u64; 5];

fn main() {
    let rounds = std::env::args().nth(1).map_or(5, |rounds| rounds.parse().expect("a number of rounds"));
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    let [first, second, ..] = cores[..] else {
        eprintln!("throughput: needs two cores to pin its threads to");
        std::process::exit(1);
    };
    println!("{ITEMS} items of {} bytes, chunks of {CHUNK}, {SLOTS} slots", size_of::<Item>());
    let (mut ours, mut rtrbs) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        ours.push(measure(first, second, this_ring));
        rtrbs.push(measure(first, second, rtrb_ring));
    }
    let (ours, rtrbs) = (report("ring", ours), report("rtrb", rtrbs));
    println!("ring / rtrb, medians: {:.2}", ours / rtrbs);
}

/// The two sides of a ring, each called over and over until it returns false.
type Sides = (Box<dyn FnMut(u64) -> usize + Send>, Box<dyn FnMut(&mut Vec<Item>)>);

/// Million items per second.
fn measure(first: CoreId, second: CoreId, make: fn() -> Sides) -> f64 {
    let (mut push, mut pop) = make();
    thread::scope(|scope| {
        scope.spawn(move || {
            core_affinity::set_for_current(first);
            let mut next = 0;
            while next < ITEMS {
                match push(next) {
                    0 => std::hint::spin_loop(),
                    pushed => next += pushed as u64,
                }
            }
        });
        core_affinity::set_for_current(second);
        let (mut next, mut items) = (0, Vec::with_capacity(CHUNK));
        let start = Instant::now();
        while next < ITEMS {
            pop(&mut items);
            if items.is_empty() {
                std::hint::spin_loop();
            }
            for item in items.drain(..) {
                assert_eq!(black_box(item)[0], next);
                next += 1;
            }
        }
        ITEMS as f64 / start.elapsed().as_secs_f64() / 1e6
    })
}

fn chunk(from: u64) -> impl Iterator<Item = Item> {
    (0..CHUNK.min((ITEMS - from) as usize)).map(move |i| [from + i as u64; 5])
}

fn this_ring() -> Sides {
    let (mut producer, mut consumer) = ring::ring(SLOTS);
    let push = move |from| producer.push_from(&mut chunk(from));
    let pop = move |items: &mut Vec<Item>| {
        consumer.pop_into(items, CHUNK);
    };
    (Box::new(push), Box::new(pop))
}

fn rtrb_ring() -> Sides {
    let (mut producer, mut consumer) = rtrb::RingBuffer::new(SLOTS);
    let push = move |from| {
        let items = chunk(from);
        let many = producer.slots().min(items.size_hint().0);
        producer.write_chunk_uninit(many).expect("as many as are free").fill_from_iter(items)
    };
    let pop = move |items: &mut Vec<Item>| {
        let ready = consumer.slots().min(CHUNK);
        items.extend(consumer.read_chunk(ready).expect("as many as are there"));
    };
    (Box::new(push), Box::new(pop))
}

/// The median, after printing it with the range.
fn report(name: &str, mut mitems_per_second: Vec<f64>) -> f64 {
    mitems_per_second.sort_by(f64::total_cmp);
    let median = mitems_per_second[mitems_per_second.len() / 2];
    let (least, most) = (mitems_per_second[0], mitems_per_second[mitems_per_second.len() - 1]);
    println!("{name}: median {median:.1} M items/s, {least:.1} to {most:.1}");
    median
}

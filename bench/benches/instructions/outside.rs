//! Setups with a sequencer outside: cores whose packets bring their history along, and that sequencer itself.

use engine::strategies::SCR;
use engine::turn;
use engine::{Chain, ChainCore, CoreCounters, External, Plan, Recovery, SequencedAs, Sequencing};
use io::{MemoryPort, Received, Trace};
use paceline_bench::PACKETS;
use wire::Stamp;

use crate::{Spread, port_of, record};

/// The first of some cores whose packets bring their history along.
pub struct Bringing {
    core: ChainCore,
    port: MemoryPort,
    batch: engine::Batch,
    external: External,
}

impl Bringing {
    pub fn new(cores: usize, version: SequencedAs, function: &str, spread: Spread) -> Bringing {
        let (chain, mut sequencing) = sequencing(cores, version, function);
        let plan = Plan::new(&chain, SCR, cores).expect("a plan");
        let packets = (PACKETS * cores) as u64;
        let mut own = Vec::new();
        for number in 0..packets {
            let data = spread.packet(number);
            let sequenced = sequencing.next(&record(&data));
            if sequenced.core == 0 {
                own.push(sequenced.record.data.to_vec());
            }
        }
        // Numbers go on in the round that is counted.
        let external = |round: u64| {
            let origin = Stamp { seq: round * packets, time_ns: 0 };
            let all = External::for_cores(
                &chain,
                version.of(&chain),
                cores,
                Recovery::Off,
                (1 + round) * packets,
                origin,
            );
            all.into_iter().next().expect("a core")
        };
        let core = plan.cores_of(&chain).expect("memory").remove(0);
        let (port, batch) = (port_of(own.iter()), engine::Batch::new());
        let mut bringing = Bringing { core, port, batch, external: external(0) };
        bringing.turns();
        Bringing { external: external(1), ..bringing }
    }

    /// As many as take each own packet once.
    pub fn turns(&mut self) {
        let Self { core, port, batch, external } = self;
        let mut counters = CoreCounters::default();
        while counters.packets < PACKETS as u64 {
            let received = turn(port, core, batch, &mut (), external, &mut counters);
            assert_eq!(received.expect("the port is open"), Received::Frames, "each has its history");
        }
    }
}

fn sequencing(cores: usize, version: SequencedAs, function: &str) -> (Chain, Sequencing) {
    let toml = format!("[[function]]\nuse = \"{function}\"\nflows = 4096");
    let chain = Chain::parse("bench", &toml, &stock::registry()).expect("a chain");
    let sequencing = Sequencing::with_version(&chain, version.of(&chain), cores, false);
    (chain, sequencing.expect("few cores"))
}

/// A sequencer for seven cores that has seen a packet, and packets.
pub fn outside(version: SequencedAs, function: &str) -> (Sequencing, Trace) {
    let (_, mut sequencing) = sequencing(7, version, function);
    let mut trace = Trace::default();
    for number in 0..PACKETS as u64 {
        trace.push(&record(&Spread::ManyFlows.packet(number)));
    }
    sequencing.next(&trace.packet(0));
    (sequencing, trace)
}

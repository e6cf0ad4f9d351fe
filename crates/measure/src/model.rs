//! How a trace spreads over cores. What follows from that is [`control::Costs`]'.

use engine::{Chain, Plan};
use io::Trace;

use crate::{BenchError, packets};

/// How a trace's packets spread over the entries of the indirection table.
#[derive(Clone)]
pub struct Skew {
    chain: Chain,
    plan: Plan,
    /// Packets by entry.
    loads: Vec<u64>,
}

impl Skew {
    /// Hashes each packet as a card under `plan` does, which shards.
    ///
    /// # Errors
    /// As [`packets`].
    pub fn new(chain: &Chain, plan: &Plan, trace: &Trace) -> Result<Skew, BenchError> {
        let offered = packets(chain, plan, trace)?;
        let mut loads = vec![0; plan.indirection_entries];
        (0..trace.len()).for_each(|index| loads[usize::from(offered.packets().entry(index))] += 1);
        Ok(Skew { chain: chain.clone(), plan: plan.clone(), loads })
    }

    /// Packets by entry.
    pub fn loads(&self) -> &[u64] {
        &self.loads
    }

    /// Share of the packets of the busiest of `cores` cores, 0 to 1, under `rss` and under `rsspp`: see
    /// [`control::busiest_shares`].
    pub fn busiest_shares(&self, cores: usize) -> (f64, f64) {
        let mut assign = Plan { cores, ..self.plan.clone() }.assign(&self.chain);
        let mut owners: Vec<u16> =
            (0..self.loads.len()).map(|entry| assign.core(entry as u16) as u16).collect();
        control::busiest_shares(&mut owners, &self.loads, cores)
    }
}

#[cfg(test)]
mod tests {
    use engine::strategies::RSS;
    use traffic::Model;
    use wire::LinkType;

    use io::capture::Record;

    use super::*;
    use crate::trial::share;

    fn skew(model: &str) -> Skew {
        let mut trace = Trace::default();
        Model::parse(model).expect("a model").generate(|time_ns, data| {
            trace.push(&Record { time_ns, wire_len: data.len() as u32, link: LinkType::Ethernet, data });
        });
        let text = "[[function]]\nuse = \"heavy-hitters\"\nflows = 1024\n";
        let chain = Chain::parse("test.toml", text, &stock::registry()).expect("a chain");
        let plan = Plan::new(&chain, RSS, 1).expect("a plan");
        Skew::new(&chain, &plan, &trace).expect("packets")
    }

    #[test]
    fn one_flow_is_on_one_core_and_many_spread() {
        let one = skew("single-flow:one-way=true,packets=1000");
        assert_eq!((one.busiest_shares(1), one.busiest_shares(8)), ((1.0, 1.0), (1.0, 1.0)));
        let many = skew("uniform:packets=20000,flows=5000");
        let (fixed, balanced) = many.busiest_shares(4);
        assert!((0.25..0.32).contains(&fixed) && (0.25..0.26).contains(&balanced), "{fixed}, {balanced}");
    }

    /// The elephant has half of the packets, and some core has to have it.
    #[test]
    fn no_core_has_less_than_the_heaviest_entry() {
        let skew = skew("elephant:packets=20000,flows=500,share=0.5");
        let heaviest = share(*skew.loads.iter().max().expect("entries"), 20_000);
        let (fixed, balanced) = skew.busiest_shares(8);
        assert!(
            heaviest > 0.45 && balanced >= heaviest && balanced < heaviest + 0.01,
            "{balanced} of {heaviest}"
        );
        assert!(fixed > balanced);
    }
}

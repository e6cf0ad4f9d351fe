//! Packets are dealt to the pipelines that share a ring: each goes into that of its port.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::iter::{Enumerate, Peekable};
use std::rc::Rc;

use crate::port::Arrival;

/// An arrival with the packet's number, from 0, in the order of the source.
type Numbered<Phv> = Arrival<(u64, Phv)>;

/// A source of packets, and those that were taken from it for a pipeline that was not asked yet.
struct Source<Phv, Arrivals: Iterator> {
    arrivals: Peekable<Enumerate<Arrivals>>,
    waiting: Vec<VecDeque<Numbered<Phv>>>,
}

/// The packets of one pipeline.
pub(crate) struct Dealt<Phv, Arrivals: Iterator> {
    source: Rc<RefCell<Source<Phv, Arrivals>>>,
    pipeline: usize,
}

/// The packets of each of so many pipelines, in order; and when the first one of all came.
pub(crate) fn deal<Phv, Arrivals>(arrivals: Arrivals, pipelines: usize) -> (Vec<Dealt<Phv, Arrivals>>, u64)
where
    Arrivals: Iterator<Item = Arrival<Phv>>,
{
    let waiting = (0..pipelines).map(|_| VecDeque::new()).collect();
    let mut arrivals = arrivals.enumerate().peekable();
    let first_ns = arrivals.peek().map_or(0, |(_, arrival)| arrival.time_ns);
    let source = Rc::new(RefCell::new(Source { arrivals, waiting }));
    let dealt = (0..pipelines).map(|pipeline| Dealt { source: Rc::clone(&source), pipeline });
    (dealt.collect(), first_ns)
}

impl<Phv, Arrivals: Iterator<Item = Arrival<Phv>>> Iterator for Dealt<Phv, Arrivals> {
    type Item = Numbered<Phv>;

    fn next(&mut self) -> Option<Numbered<Phv>> {
        let mut source = self.source.borrow_mut();
        let Source { arrivals, waiting } = &mut *source;
        if let Some(arrival) = waiting[self.pipeline].pop_front() {
            return Some(arrival);
        }
        for (number, Arrival { phv, bytes, time_ns, port }) in arrivals {
            let arrival = Arrival { phv: (number as u64, phv), bytes, time_ns, port };
            let pipeline = usize::from(port) % waiting.len();
            if pipeline == self.pipeline {
                return Some(arrival);
            }
            waiting[pipeline].push_back(arrival);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pipeline_gets_the_packets_of_its_ports_in_order() {
        let ports = [0_u16, 1, 1, 3, 2, 0, 1];
        let arrivals = ports.iter().map(|&port| Arrival { phv: (), bytes: 64, time_ns: 7, port });
        let (mut dealt, first_ns) = deal(arrivals, 2);
        assert_eq!(first_ns, 7);
        let number = |arrival: Arrival<(u64, ())>| arrival.phv.0;
        assert_eq!(dealt[1].next().map(number), Some(1));
        assert_eq!(dealt[0].by_ref().map(number).collect::<Vec<_>>(), [0, 4, 5]);
        assert_eq!(dealt[1].by_ref().map(number).collect::<Vec<_>>(), [2, 3, 6]);
    }
}

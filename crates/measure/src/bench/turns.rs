//! Trials in which cores take packets from one queue.

use engine::strategies::SCR_TURNS;
use io::Trace;

use super::sequenced::{VIRTUAL, alone, bench_of, digests};
use super::tests::{NEVER, chain, trace};
use super::*;

fn bench(chain: &Chain, cores: usize, trace: &Trace, settings: Settings) -> Bench {
    bench_of(SCR_TURNS, chain, cores, trace, settings)
}

/// Real and virtual cores, for some numbers of them: all replicas are one core's, trial after trial.
#[test]
fn both_clocks_lead_all_replicas_to_the_state_of_one_core() {
    let trace = trace("zipf:packets=3000,flows=60,a=1.1");
    let counts = [3_000, 60_000, 700];
    let chain = chain("heavy-hitters");
    let expected = alone(&chain, &trace, &counts);
    for (cores, clock) in
        [(2, Clock::Measured), (2, Clock::Virtual), (3, Clock::Virtual), (7, Clock::Virtual)]
    {
        let mut bench = bench(&chain, cores, &trace, Settings { clock, ..VIRTUAL });
        for count in counts {
            let trial = bench.closed_loop(count, &NEVER).expect("a trial");
            assert!(trial.sequencer.is_none());
            assert_eq!((trial.offered, trial.received()), (count.into(), count.into()));
            assert!(trial.cores.iter().all(|core| core.busy_ns > 0));
        }
        let digests = digests(&mut bench);
        assert!(digests.iter().all(|digest| *digest == expected), "{cores} cores, {clock:?}");
    }
}

/// What the card drops has no number, and is counted once.
#[test]
fn too_high_a_rate_is_lost_at_the_queue() {
    let chain = chain("heavy-hitters");
    for (clock, cores) in [(Clock::Measured, 2), (Clock::Virtual, 2), (Clock::Virtual, 7)] {
        let trace = trace("uniform:packets=3000,flows=50");
        let mut bench = bench(&chain, cores, &trace, Settings { clock, ..VIRTUAL });
        bench.warm_up(&NEVER).expect("a trial");
        let trial = bench.trial(1e9, 20_000, true, &NEVER).expect("a trial");
        assert!(trial.dropped() > 0, "a thousand million packets a second are too many");
        assert_eq!(trial.received() + trial.dropped(), 20_000);
        assert_eq!(trial.latency.as_ref().expect("asked for").len(), trial.received());
        let digests = digests(&mut bench);
        assert!(digests.iter().all(|digest| *digest == digests[0]), "{clock:?}");
    }
}

/// Rates from few packets to many: cores go on that find nothing, or the queue taken, or no room in the log, as where the
/// system ran something else for so long that one core's clock is far ahead.
#[test]
fn cores_go_on_at_any_rate() {
    let chain = chain("heavy-hitters");
    let mut bench = bench(&chain, 7, &trace("university:packets=20000,flows=100"), VIRTUAL);
    for mpps in [0.5, 2.0, 5.0, 10.0, 20.0, 22.0, 24.0, 26.0, 30.0, 40.0] {
        for dispatch_ns in [0, 105] {
            bench.settings.dispatch_ns = dispatch_ns;
            bench.trial(mpps * 1e6, 200_000, false, &NEVER).expect("a trial");
        }
    }
}

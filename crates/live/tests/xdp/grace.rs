//! What waits for XDP programs that run: a change of a map of maps does, a change of an array does not.

use std::thread;

use aya::maps::Array;
use aya::programs::Xdp;
use aya::{Ebpf, TestRun, TestRunOptions};
use paceline_live::rights;
use paceline_live::xdp::GracePeriod;

/// Empty if this was built without clang.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/slow.bpf.o"));

/// As in bpf/slow.bpf.c.
const RUNS: u32 = 1;
const HAS_RUN: u32 = 2;

/// Planted: a change that does not wait, which comes back while the program still runs. And the rights of a run's threads are enough.
#[test]
fn a_grace_period_waits_for_programs_that_run() {
    let Some(_lab) = crate::lab("grace") else { return };
    let mut ebpf = Ebpf::load(OBJECT).unwrap_or_else(|error| panic!("{error}"));
    let map = ebpf.take_map("state").expect("it is there");
    let mut state: Array<_, u32> = Array::try_from(map).expect("an array");
    let program: &mut Xdp = ebpf.program_mut("slow").expect("it is there").try_into().expect("of XDP");
    program.load().unwrap_or_else(|error| panic!("{error}"));
    let program = &*program;
    let grace = GracePeriod::new().unwrap_or_else(|error| panic!("{error}"));
    let read = |state: &Array<_, u32>| state.get(&0, 0).expect("it is there");
    // On a busy machine this thread may miss that the program runs.
    let (mut seen, mut tries) = (0, 0);
    while seen < 5 && tries < 200 {
        tries += 1;
        state.set(0, 0, 0).expect("it is there");
        thread::scope(|scope| {
            let running = scope.spawn(move || {
                let options = TestRunOptions { data_in: Some(&[0; 64]), ..TestRunOptions::default() };
                program.test_run(options).map(drop)
            });
            while read(&state) == 0 && !running.is_finished() {}
            state.set(1, 7, 0).expect("it is there");
            if read(&state) == RUNS {
                let waited = scope.spawn(|| {
                    rights::keep(&[])?;
                    grace.wait()
                });
                waited.join().expect("no panic").unwrap_or_else(|error| panic!("{error}"));
                assert_eq!(read(&state), HAS_RUN, "it waited for the program");
                seen += 1;
            }
            running.join().expect("no panic").unwrap_or_else(|error| panic!("{error}"));
        });
    }
    println!("seen to run {seen} times of {tries}");
    assert!(seen >= 5, "planted: a change of an array waits for nobody");
}

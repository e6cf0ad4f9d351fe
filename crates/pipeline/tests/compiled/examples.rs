//! The programs of examples/p4, on all models, over captures and over packets that exercise them.

use paceline_pipeline::{Consistency, Model, RapidOptions};

use crate::support::*;

fn strict() -> Model {
    Model::Rapid(RapidOptions { consistency: Some(Consistency::Strict), ..RapidOptions::default() })
}

#[test]
fn port_knocking_over_a_capture() {
    for (name, trace) in captures() {
        let image = image("port_knocking");
        let (report, differences) = run(&image, &strict(), &every_cycle(), &frames_of(&trace, 20_000));
        eprintln!("{name}: {report:?} {differences:?} {}", image.words());
        assert!(differences.is_equal(), "{name}: {differences:?}");
    }
}

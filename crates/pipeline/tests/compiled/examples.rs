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

#[test]
fn status() {
    for name in ["port_knocking", "syn_cookie", "nat_lb", "elephant", "stateful_firewall", "token_bucket", "mac_learning"] {
        match image_of(lowered(name), &entries(name)) {
            Err(error) => eprintln!("{name}: {error}"),
            Ok(image) => {
                eprintln!("{name}: {} stages {} words {:?}", image.stages(), image.words(), image.tables());
                for model in Model::NAMES {
                    let model = Model::named(model).unwrap();
                    let frames = repeated(&stf_frames(name), 50);
                    match try_run(&image, &model, &every_cycle(), &frames) {
                        Ok((report, differences)) => eprintln!("  {} resub {} wb {} cycles {} {differences:?}", model.name(), report.resubmissions, report.writebacks, report.cycles),
                        Err(error) => eprintln!("  {error}"),
                    }
                }
            }
        }
    }
}

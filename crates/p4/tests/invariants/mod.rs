//! What must hold for any text that is read as a program. Shared by the property tests and the fuzz target.

use paceline_p4::interpret::{Machine, Output};
use paceline_p4::ir::{Program, StatementKind};
use paceline_p4::resources::check::check;
use paceline_p4::resources::{Profile, plan};
use paceline_p4::{Options, lower, passes};

/// There is an answer: what is taken is written as text, is placed on each chip or refused, compiles, and does to packets stage by stage what it did
/// before, unless a note says that no pipeline can; what is refused is told.
pub fn survive(text: &str) {
    let options = Options { no_files: true, ..Options::default() };
    match lower("soup.p4", text, &options) {
        Ok((mut program, _)) => {
            assert!(!program.to_text().is_empty());
            for profile in Profile::stock() {
                match plan(&program, &profile) {
                    Ok(placed) => {
                        assert_eq!(check(&placed, &profile), Vec::<String>::new(), "{}", profile.name)
                    }
                    Err(unfit) => assert!(!unfit.what.is_empty()),
                }
            }
            let mut whole = Machine::new(program.clone());
            passes::compile(&mut program);
            let is_exact =
                program.layout.as_ref().is_some_and(|layout| layout.notes.is_empty()) && !draws(&program);
            let mut compiled = Machine::new(program);
            let headers = [[0x45; 60], std::array::from_fn(|at| (at * 7) as u8)];
            for bytes in [&headers[0][..], &headers[1], &headers[0], &[]] {
                let expected = whole.packet(1, bytes, 0);
                let staged = staged(&mut compiled, bytes);
                assert!(!is_exact || staged == expected, "{staged:?}, not {expected:?}");
            }
        }
        Err(errors) => {
            assert!(errors.errors() > 0);
            for finding in errors.findings() {
                assert!(!finding.to_string().is_empty());
            }
            assert!(!miette::Report::new(errors).to_string().is_empty());
        }
    }
}

/// Whether it draws numbers, which stages may do in another order.
fn draws(program: &Program) -> bool {
    let mut draws = false;
    for body in [&program.ingress, &program.egress] {
        program.visit(body, &mut |kind| draws |= matches!(kind, StatementKind::Random { .. }));
    }
    draws
}

/// A packet, stage by stage.
fn staged(machine: &mut Machine, bytes: &[u8]) -> Vec<Output> {
    let stages = machine.program().layout.as_ref().map_or(0, |layout| layout.stages);
    let mut phv = machine.parse(1, bytes, 0);
    for half in 0..=2 * stages + 1 {
        machine.ingress(&mut phv, Some(half));
    }
    machine.leave(&phv)
}

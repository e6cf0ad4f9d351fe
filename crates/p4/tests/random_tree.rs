//! Random programs through the checker, the passes and the reference, beside an interpreter of the syntax tree.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::common;
use super::tree::Tree;
use super::tree::random::{Random, random};

use paceline_p4::interpret::Machine;
use paceline_p4::ir::{Binary, Compute, KeySet, Program, Statement, StatementKind, visit_mut};
use paceline_p4::{passes, stf};

/// Programs, each of which its seed names.
const PROGRAMS: u64 = 300;

/// What the tree gives for each packet.
fn expected(random: &Random) -> Vec<Vec<(u16, Vec<u8>)>> {
    let mut tree = Tree::new(&random.source);
    for (table, entry) in &random.entries {
        tree.add(table, entry.clone());
    }
    random.packets.iter().map(|(port, bytes)| tree.packet(*port, bytes)).collect()
}

fn found(program: Program, random: &Random) -> Vec<Vec<(u16, Vec<u8>)>> {
    let mut machine = Machine::new(program);
    stf::run(&mut machine, &random.test_file()).unwrap_or_else(|error| panic!("{error}\n{}", random.source));
    let sent = |(port, bytes): &(u16, Vec<u8>)| {
        machine.packet(*port, bytes, 0).into_iter().map(|out| (out.port, out.bytes)).collect()
    };
    random.packets.iter().map(sent).collect()
}

#[test]
fn programs_are_what_their_trees_are() {
    let mut sent = 0;
    for seed in 0..PROGRAMS {
        let random = random(seed);
        let expected = catch_unwind(AssertUnwindSafe(|| expected(&random)));
        let expected =
            expected.unwrap_or_else(|_| panic!("seed {seed}: the tree's interpreter\n{}", random.source));
        let whole = common::lowered(&random.source);
        let mut compiled = whole.clone();
        passes::compile(&mut compiled);
        for (what, program) in [("written", whole), ("compiled", compiled)] {
            let found = found(program, &random);
            for (at, (found, expected)) in found.iter().zip(&expected).enumerate() {
                let packet = &random.packets[at];
                assert_eq!(
                    found,
                    expected,
                    "seed {seed}, {what}, packet {at} {packet:02x?}\n{}\n{}",
                    random.test_file(),
                    random.source
                );
            }
        }
        sent += expected.iter().flatten().count();
    }
    assert!(sent > 4000, "{sent} packets left");
}

/// Changes what the checker has made.
type Plant = fn(&mut Program);

/// What the checker might get wrong, in what it makes.
const FAULTS: [(&str, Plant); 5] = [
    ("a statement of the ingress is left out", |program| {
        let at = program.ingress.len() / 2;
        program.ingress.remove(at);
    }),
    ("headers of lists stay invalid", |program| {
        let valid: Vec<u32> = program.headers.iter().map(|header| header.valid).collect();
        each(program, &mut |kind| {
            let StatementKind::Compute { to, value: Compute::Copy { from } } = kind else { return };
            if valid.contains(to)
                && let paceline_p4::ir::Operand::Constant(constant) = from
            {
                constant.value = 0;
            }
        });
    }),
    ("what is added is joined bit by bit", |program| {
        each(program, &mut |kind| {
            if let StatementKind::Compute { value: Compute::Binary { by, .. }, .. } = kind
                && *by == Binary::Add
            {
                *by = Binary::Or;
            }
        });
    }),
    ("masks of entries are whole", |program| {
        for entry in program.tables.iter_mut().flat_map(|table| &mut table.entries) {
            for key in &mut entry.keys {
                if let KeySet::Masked { mask, .. } = key {
                    mask.value = paceline_p4::ir::ones(mask.width);
                }
            }
        }
    }),
    ("entries are in the other order", |program| {
        program.tables.iter_mut().for_each(|table| table.entries.reverse());
    }),
];

fn each(program: &mut Program, change: &mut dyn FnMut(&mut StatementKind)) {
    for body in program.all_bodies_mut() {
        visit_mut(body, &mut |statement: &mut Statement| change(&mut statement.kind));
    }
}

/// The comparison finds what is wrong with the checker's work, of each kind.
#[test]
fn planted_faults_are_found() {
    let programs: Vec<_> = (0..60).map(random).collect();
    for (what, plant) in FAULTS {
        let finds = |random: &&Random| {
            let mut program = common::lowered(&random.source);
            plant(&mut program);
            found(program, random) != expected(random)
        };
        let finding = programs.iter().filter(finds).count();
        assert!(finding > 2, "{what}: found in {finding} of {} programs", programs.len());
    }
}

//! Which header fields a program writes: those go back into the packet.

use std::collections::BTreeSet;

use p4::ir::{FieldId, FieldKind, Program, StatementKind};

/// Header fields that the program writes, anywhere but where the parser takes them from the packet.
pub fn edited(program: &Program) -> BTreeSet<FieldId> {
    let mut edited = BTreeSet::new();
    let blocks = [&program.verify_checksum, &program.ingress, &program.egress, &program.compute_checksum];
    for body in program.parser.iter().map(|state| &state.body).chain(blocks) {
        program.visit(body, &mut |kind| {
            if !matches!(kind, StatementKind::Extract { .. }) {
                kind.writes(program, &mut |field| {
                    if program.fields[field as usize].kind == FieldKind::Header {
                        edited.insert(field);
                    }
                });
            }
        });
    }
    edited
}

//! Parser and deparser as C. Headers stay where they are in the packet: what was edited is written over them.

use std::collections::BTreeSet;

use p4::ir::{Case, Header, Program, StatementKind, Target};

use crate::body::Bodies;
use crate::edited::edited;
use crate::expression::{Expressions, load, store};
use crate::subset::emitted;
use crate::writer::Writer;

/// Writes `parse`: states are labels.
pub fn parser(bodies: &Bodies<'_>, out: &mut Writer<'_>) {
    let program = bodies.program;
    let error = bodies.names.field(program.standard.parser_error);
    let number = |name: &str| program.errors.iter().position(|error| error == name).unwrap_or_default();
    let targeted: BTreeSet<u32> = program
        .parser
        .iter()
        .flat_map(|state| &state.cases)
        .filter_map(|case| match case.target {
            Target::State(state) => Some(state),
            _ => None,
        })
        .collect();
    out.line("INLINE void parse(struct packet *p, struct state *s, u8 *at, u8 *end) {");
    for (state, name) in (0..).zip(&bodies.names.states) {
        let declared = &program.parser[state as usize];
        if targeted.contains(&state) {
            out.line(format!("state_{name}:;"));
        } else if state > 0 {
            // Nobody comes here.
            continue;
        } else {
            out.line(format!("// state {name}"));
        }
        for statement in &declared.body {
            out.source(statement.place);
            match &statement.kind {
                StatementKind::Extract { header } => {
                    let name = &bodies.names.headers[*header as usize];
                    extract(bodies, *header, name, number("PacketTooShort"), out);
                }
                StatementKind::Verify { condition, error: code } => {
                    let of = Expressions { program, names: bodies.names };
                    out.line(format!("if (!{}) {{", of.operand(*condition)));
                    out.line(format!("p->{error} = {};", of.operand(*code)));
                    out.line("return;");
                    out.line("}");
                }
                kind => bodies.simple(kind, out),
            }
        }
        let mut is_last = false;
        for case in &declared.cases {
            is_last = go(bodies, declared.select.as_slice(), case, out);
            if is_last {
                break;
            }
        }
        if !is_last {
            out.line(format!("p->{error} = {}; // nothing matches", number("NoMatch")));
            out.line("return;");
        }
    }
    out.end();
}

/// A transition; whether it is always taken.
fn go(bodies: &Bodies<'_>, select: &[p4::ir::Operand], case: &Case, out: &mut Writer<'_>) -> bool {
    let keys = select.iter().zip(&case.keys);
    let conditions: Vec<_> =
        keys.filter_map(|(value, key)| key.as_ref().and_then(|key| bodies.matches(*value, key))).collect();
    let goal = match case.target {
        Target::State(state) => format!("goto state_{};", bodies.names.states[state as usize]),
        Target::Accept | Target::Reject => "return;".to_owned(),
    };
    if conditions.is_empty() {
        out.line(goal);
        return true;
    }
    out.line(format!("if ({})", conditions.join(" && ")));
    out.line(format!("    {goal}"));
    false
}

fn extract(bodies: &Bodies<'_>, which: u32, name: &str, too_short: usize, out: &mut Writer<'_>) {
    let program = bodies.program;
    let header = &program.headers[which as usize];
    let bytes = header_bits(program, header) / 8;
    let error = bodies.names.field(program.standard.parser_error);
    out.line(format!("if (at + {bytes} > end) {{"));
    out.line(format!("p->{error} = {too_short}; // too short"));
    out.line("return;");
    out.line("}");
    let mut at = 0;
    for field in &header.fields {
        let width = program.fields[*field as usize].width;
        // Wider ones are refused where they are used.
        if width <= 64 {
            out.line(format!("p->{} = {};", bodies.names.field(*field), load("at", at, width)));
        }
        at += width;
    }
    for run in bodies.sums.of_header(which) {
        out.line(format!("p->{} = {};", run.name(bodies.names), run.sum()));
    }
    out.line(format!("p->{} = 1;", bodies.names.field(header.valid)));
    out.line(format!("p->{name}_at = at;"));
    out.line(format!("at += {bytes};"));
}

fn header_bits(program: &Program, header: &Header) -> u32 {
    header.fields.iter().map(|field| program.fields[*field as usize].width).sum()
}

/// Writes `deparse`: only what was edited goes back.
pub fn deparser(bodies: &Bodies<'_>, out: &mut Writer<'_>) {
    let program = bodies.program;
    let edited = edited(program);
    out.line("INLINE void deparse(struct packet *p, u8 *end) {");
    out.line("(void)end;");
    for header in emitted(program) {
        let declared = &program.headers[header as usize];
        if !declared.fields.iter().any(|field| edited.contains(field)) {
            continue;
        }
        let bytes = header_bits(program, declared) / 8;
        let name = &bodies.names.headers[header as usize];
        let valid = bodies.names.field(declared.valid);
        out.line(format!("if (p->{valid} && p->{name}_at && p->{name}_at + {bytes} <= end) {{"));
        out.line(format!("u8 *at = p->{name}_at; // {}", declared.name));
        let mut at = 0;
        for field in &declared.fields {
            let width = program.fields[*field as usize].width;
            if edited.contains(field) {
                let value = format!("p->{}", bodies.names.field(*field));
                store("at", at, width, &value).into_iter().for_each(|line| out.line(line));
            }
            at += width;
        }
        out.line("}");
    }
    out.end();
}

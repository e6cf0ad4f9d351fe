//! Types are checked and the program is lowered to the [representation](crate::ir), in one walk.
//!
//! What has a mistake is left out of the program, and nothing more is said about it: functions that may find one give
//! [`Checked`], whose error only a reported mistake hands out. So nothing is left out in silence.

mod architecture;
mod arguments;
mod block;
mod call;
mod declare;
mod expression;
mod keyset;
mod object;
mod operator;
mod statement;
mod types;

use std::collections::HashMap;
use std::rc::Rc;

use names::nearest;

use crate::ast::{Declaration, Name};
use crate::diagnostic::{Checked, Reported, Sink};
use crate::ir::{Compute, Field, FieldId, FieldKind, Operand, Program, Statement, StatementKind};
use crate::source::Span;
use crate::uses::Object;

use types::Entity;

/// Containers at most.
pub const MAX_FIELDS: usize = 1 << 14;

/// Statements at most, once all that is called is written out.
pub const MAX_STATEMENTS: usize = 1 << 17;

/// Controls apply controls so deep at most.
const MAX_CALLS: usize = 16;

/// Where the program names something that keeps state.
#[derive(Clone, Copy, Debug)]
pub struct Mention {
    /// What.
    pub object: Object,
    /// Where.
    pub span: Span,
    /// Whether it is declared there; else it is used.
    pub is_declaration: bool,
}

/// What the checker made.
pub struct Lowered {
    /// The program, of use only if there were no errors.
    pub program: Program,
    /// Where it names what keeps state.
    pub mentions: Vec<Mention>,
    /// First bytes of what [`Statement::place`] counts, from 1.
    pub starts: Vec<u32>,
}

/// Checks a program and lowers it.
pub fn check(name: &str, declarations: &[Declaration], sink: &mut Sink) -> Lowered {
    let program = Program { name: name.to_owned(), ..Program::default() };
    let mut checker = Checker {
        sink,
        program,
        scopes: vec![HashMap::new()],
        body: Vec::new(),
        place_now: 0,
        starts: Vec::new(),
        known_starts: HashMap::new(),
        mentions: Vec::new(),
        statements: 0,
        too_many: None,
        calls: 0,
        path: String::new(),
        in_mu_key: false,
        place: Where::Control,
        match_kinds: Vec::new(),
        main: None,
        standard: None,
        no_action: None,
        actions: Vec::new(),
        conditions: 0,
        frames: Vec::new(),
        last_frame: 0,
        in_order: false,
    };
    for declaration in declarations {
        if checker.sink.is_full() {
            break;
        }
        checker.declaration(declaration);
    }
    if !checker.sink.is_full() {
        checker.architecture();
    }
    let Checker { program, mentions, starts, .. } = checker;
    Lowered { program, mentions, starts }
}

/// What is being checked: not everything may be called everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Where {
    Parser,
    Control,
    /// The action of a table, or one that is called.
    Action,
    Checksum,
    Deparser,
}

struct Checker<'a> {
    sink: &'a mut Sink,
    program: Program,
    /// Names, the innermost last. The first is what all of the program sees.
    scopes: Vec<HashMap<Rc<str>, Entity>>,
    /// Where statements go.
    body: Vec<Statement>,
    /// Where what is lowered is written: see [`Lowered::starts`].
    place_now: u32,
    starts: Vec<u32>,
    known_starts: HashMap<u32, u32>,
    mentions: Vec<Mention>,
    statements: usize,
    /// That there are too many statements was reported.
    too_many: Option<Reported>,
    calls: usize,
    /// What names of fields and tables begin with.
    path: String,
    place: Where,
    match_kinds: Vec<Rc<str>>,
    main: Option<crate::ast::Instance>,
    standard: Option<Rc<types::Place>>,
    no_action: Option<u32>,
    /// Actions of tables that are lowered already, in which calls, and their numbers: see [`Checker::pending`].
    actions: Vec<(Rc<types::ActionEntity>, u32, u32)>,
    /// How many operators deep the expression is whose sides are not always evaluated.
    conditions: u32,
    /// Whether the expression is a key of a muTable, which is evaluated wherever that is used.
    in_mu_key: bool,
    /// The calls that are being written out, the innermost last.
    frames: Vec<types::Frame>,
    last_frame: u32,
    /// Whether the statement applies a table within an expression: what was read before is kept then.
    in_order: bool,
}

impl Checker<'_> {
    fn declare(&mut self, name: &Name, entity: Entity) {
        let scope = self.scopes.last_mut().expect("a scope");
        if scope.contains_key(&name.text) {
            self.sink.error(name.span, format!("`{}` is declared a second time", name.text));
            return;
        }
        scope.insert(Rc::clone(&name.text), entity);
    }

    fn find(&self, name: &str) -> Option<&Entity> {
        self.scopes.iter().rev().find_map(|scope| scope.get(name))
    }

    /// What a name stands for; if nothing, that is an error.
    fn lookup(&mut self, name: &Name, what: &str) -> Checked<Entity> {
        if let Some(found) = self.find(&name.text) {
            return Ok(found.clone());
        }
        let known = self.scopes.iter().rev().flat_map(|scope| scope.keys()).map(|known| &**known);
        let near = nearest(&name.text, known).map(str::to_owned);
        let is_of_v1model = ["standard_metadata_t", "V1Switch", "HashAlgorithm", "CounterType", "MeterType"];
        let help = match near {
            Some(near) => Some(format!("did you mean `{near}`?")),
            None if is_of_v1model.contains(&&*name.text) => {
                Some("it is declared in v1model.p4: `#include <v1model.p4>`".to_owned())
            }
            None => None,
        };
        let error = self.sink.error(name.span, format!("there is no {what} `{}`", name.text));
        error.label("not declared").help = help;
        error.refused()
    }

    /// Runs `inner` with a scope of its own.
    fn scoped<T>(&mut self, inner: impl FnOnce(&mut Self) -> T) -> T {
        self.scopes.push(HashMap::new());
        let result = inner(self);
        self.scopes.pop();
        result
    }

    /// Runs `inner` seeing only the outermost so many scopes, as code does that is declared there.
    fn at_scope<T>(&mut self, depth: usize, inner: impl FnOnce(&mut Self) -> T) -> T {
        let hidden = self.scopes.split_off(depth.min(self.scopes.len()));
        let result = self.scoped(inner);
        self.scopes.extend(hidden);
        result
    }

    /// Runs `inner` and gives the statements that it made.
    fn captured<T>(&mut self, inner: impl FnOnce(&mut Self) -> T) -> (T, Vec<Statement>) {
        let outer = std::mem::take(&mut self.body);
        let result = inner(self);
        (result, std::mem::replace(&mut self.body, outer))
    }

    fn emit(&mut self, kind: StatementKind) {
        self.statements += 1;
        if self.statements < MAX_STATEMENTS {
            self.body.push(Statement { place: self.place_now, ..kind.into() });
        } else {
            self.too_many_statements();
        }
    }

    /// Runs `inner` for what is written from here on.
    fn written_at<T>(&mut self, span: Span, inner: impl FnOnce(&mut Self) -> T) -> T {
        let next = self.starts.len() as u32 + 1;
        let place = *self.known_starts.entry(span.start).or_insert(next);
        if place == next {
            self.starts.push(span.start);
        }
        let outer = std::mem::replace(&mut self.place_now, place);
        let result = inner(self);
        self.place_now = outer;
        result
    }

    /// Reported once, however often it is met.
    fn too_many_statements(&mut self) -> Reported {
        if let Some(reported) = self.too_many {
            return reported;
        }
        let message =
            format!("more than {MAX_STATEMENTS} statements, once all that is called is written out");
        let reported = self.sink.error(Span::default(), message).label("in this program").reported();
        self.too_many = Some(reported);
        reported
    }

    fn declares(&mut self, object: Object, span: Span) {
        self.mentions.push(Mention { object, span, is_declaration: true });
    }

    fn uses(&mut self, object: Object, span: Span) {
        self.mentions.push(Mention { object, span, is_declaration: false });
    }

    fn new_field(&mut self, name: String, width: u32, kind: FieldKind, span: Span) -> FieldId {
        if self.program.fields.len() >= MAX_FIELDS {
            // The program is refused, so that it does not matter which field is given.
            self.too_many_fields(span);
            return 0;
        }
        self.program.fields.push(Field { name, width, kind });
        (self.program.fields.len() - 1) as FieldId
    }

    fn too_many_fields(&mut self, span: Span) -> Reported {
        let error = self.sink.error(span, format!("more than {MAX_FIELDS} fields"));
        error.label("here at the latest").reported()
    }

    fn temporary(&mut self, width: u32) -> FieldId {
        let name = format!("%{}", self.program.fields.len());
        self.new_field(name, width, FieldKind::Temporary, Span::default())
    }

    /// A temporary with the result of an operation.
    fn compute(&mut self, value: Compute, width: u32) -> Operand {
        let to = self.temporary(width);
        self.emit(StatementKind::Compute { to, value });
        Operand::Field(to)
    }

    /// `to = from`; where `from` is a temporary that was made just now, `to` is made there.
    fn copy(&mut self, to: FieldId, from: Operand) {
        if let Operand::Field(from) = from
            && self.program.fields[from as usize].kind == FieldKind::Temporary
            && let Some(last) = self.body.last_mut()
        {
            let made = match &mut last.kind {
                StatementKind::Compute { to: made, .. } => Some(made),
                StatementKind::MuRead { to: made, .. } if made.len() == 1 => made.first_mut(),
                _ => None,
            };
            if let Some(made) = made.filter(|made| **made == from) {
                *made = to;
                return;
            }
        }
        if Operand::Field(to) != from {
            self.emit(StatementKind::Compute { to, value: Compute::Copy { from } });
        }
    }

    /// The name with the path to it.
    fn path_to(&self, name: &str) -> String {
        match self.path.as_str() {
            "" => name.to_owned(),
            path => format!("{path}.{name}"),
        }
    }
}

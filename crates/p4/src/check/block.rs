//! Parsers, controls, and how they are bound to what they work on.

use std::rc::Rc;

use names::nearest;

use crate::ast::{ControlDecl, Direction, Expr, ExprKind, Name, Parameter, ParserDecl, Transition, TypeExpr};
use crate::diagnostic::Checked;
use crate::ir::{Case, FieldKind, Operand, State, Statement, StatementKind, Target as Goal};
use crate::source::Span;

use super::arguments::Call;
use super::expression::whole_or_scalar;
use super::types::{Access, Entity, Place, Target, Ty, Value, flatten_place};
use super::{Checker, Where};

/// What a block of the architecture is given.
#[derive(Clone)]
pub(super) enum Given {
    PacketIn,
    PacketOut,
    Place(Rc<Place>),
}

impl Checker<'_> {
    /// Declares the parameters of a block in the scope that was opened for it.
    pub(super) fn bind_block(&mut self, block: &Name, parameters: &[Parameter], given: &[Given]) {
        if parameters.len() != given.len() {
            let message = format!(
                "`{}` has {} parameters, its place in the pipeline {}",
                block.text,
                parameters.len(),
                given.len()
            );
            self.sink.error(block.span, message).help("docs/p4.md shows the pipeline");
            return;
        }
        for (parameter, given) in parameters.iter().zip(given) {
            let ty = self.ty(&parameter.ty);
            let (expected, entity) = match given {
                Given::PacketIn => (Ty::PacketIn, Entity::PacketIn),
                Given::PacketOut => (Ty::PacketOut, Entity::PacketOut),
                Given::Place(place) => {
                    let writable = matches!(parameter.direction, Direction::Out | Direction::InOut);
                    let access = if writable { Access::ReadWrite } else { Access::ReadOnly };
                    (place.ty(), Entity::Place(Rc::clone(place), access))
                }
            };
            if !ty.is(&expected) {
                self.sink
                    .error(parameter.ty.span, format!("expected {expected}, found {ty}"))
                    .label("the parser's parameters say what the others get");
            }
            self.declare(&parameter.name, entity);
        }
    }

    pub(super) fn control_block(
        &mut self,
        declared: &Rc<ControlDecl>,
        path: &str,
        place: Where,
        given: &[Given],
    ) -> Vec<Statement> {
        self.place = place;
        path.clone_into(&mut self.path);
        let ((), body) = self.captured(|checker| {
            checker.scoped(|checker| {
                checker.bind_block(&declared.name, &declared.parameters, given);
                checker.scoped(|checker| {
                    checker.locals(&declared.locals);
                    checker.statements(&declared.apply);
                });
            });
        });
        body
    }

    /// Writes out a control that another one applies.
    pub(super) fn apply_control(
        &mut self,
        declared: &Rc<ControlDecl>,
        name: &str,
        arguments: &[Expr],
        span: Span,
    ) -> Checked<()> {
        self.in_place(&[Where::Control], "applying a control", span)?;
        self.is_unconditional(span)?;
        self.expect_arguments(arguments, declared.parameters.len(), span)?;
        let path = self.path_to(name);
        let prefix = format!("{path}.");
        let program = &self.program;
        let mut names = (program.tables.iter().map(|table| &table.name))
            .chain(program.registers.iter().map(|register| &register.name))
            .chain(program.counters.iter().map(|counter| &counter.name))
            .chain(program.meters.iter().map(|meter| &meter.name))
            .chain(program.mu_tables.iter().map(|table| &table.name));
        if names.any(|name| name.starts_with(&prefix)) {
            return self
                .sink
                .refuse(span, &format!("applying `{name}` a second time is"))
                .help("declare a second instance")
                .refused();
        }
        self.enter(&declared.name, span)?;
        let call = Call {
            parameters: declared.parameters.iter().collect(),
            span,
            scope: 1,
            path: path.clone(),
            sees_caller: false,
        };
        let done = self.called(&call, arguments, |checker, bound| {
            let outer = std::mem::replace(&mut checker.path, path);
            checker.at_scope(1, |checker| {
                for (parameter, entity) in declared.parameters.iter().zip(bound) {
                    checker.declare(&parameter.name, entity);
                }
                checker.scoped(|checker| {
                    checker.locals(&declared.locals);
                    checker.statements(&declared.apply);
                });
            });
            checker.path = outer;
            Ok(())
        });
        self.calls -= 1;
        done
    }

    pub(super) fn parser_block(&mut self, declared: &Rc<ParserDecl>, given: &[Given]) -> Vec<State> {
        self.place = Where::Parser;
        "parser".clone_into(&mut self.path);
        let mut names: Vec<Rc<str>> = Vec::new();
        for state in &declared.states {
            if names.contains(&state.name.text) || ["accept", "reject"].contains(&&*state.name.text) {
                self.sink.error(state.name.span, format!("the state `{}` is there already", state.name.text));
            }
            names.push(Rc::clone(&state.name.text));
        }
        let Some(start) = names.iter().position(|name| &**name == "start") else {
            self.sink.error(declared.name.span, "this parser has no state `start`");
            return Vec::new();
        };
        self.scoped(|checker| {
            checker.bind_block(&declared.name, &declared.parameters, given);
            let ((), initial) = checker.captured(|checker| {
                declared.locals.iter().for_each(|variable| checker.variable(variable));
            });
            let mut states: Vec<State> = Vec::new();
            for state in &declared.states {
                let (transition, body) = checker.captured(|checker| {
                    checker.scoped(|checker| {
                        checker.statements_here(&state.body);
                        checker.transition(state.transition.as_ref(), &names)
                    })
                });
                let (select, cases) = transition;
                states.push(State { name: state.name.text.to_string(), body, select, cases });
            }
            arrange(states, start, initial)
        })
    }

    fn transition(
        &mut self,
        transition: Option<&Transition>,
        names: &[Rc<str>],
    ) -> (Vec<Operand>, Vec<Case>) {
        let always = |target| (Vec::new(), vec![Case { keys: Vec::new(), target }]);
        match transition {
            // P4: a state without a transition rejects.
            None => always(Goal::Reject),
            Some(Transition::Go(name)) => always(self.goal(name, names)),
            Some(Transition::Select { keys, cases, span }) => {
                let scalars: Vec<_> =
                    keys.iter().map(|key| self.scalar_operand(key, "what is selected by")).collect();
                let (mut select, mut types) = (Vec::new(), Vec::new());
                for scalar in scalars {
                    match scalar {
                        Ok((operand, ty)) => {
                            select.push(operand);
                            types.push(ty);
                        }
                        Err(reported) => types.push(Ty::Unknown(reported)),
                    }
                }
                let mut lowered = Vec::new();
                for (keyset, name) in cases {
                    let target = self.goal(name, names);
                    if let Ok(keys) = self.select_keys(keyset, &types) {
                        lowered.push(Case { keys, target });
                    }
                }
                if cases.is_empty() {
                    self.sink.error(*span, "this `select` has no cases");
                }
                (select, lowered)
            }
        }
    }

    fn select_keys(&mut self, keyset: &Expr, types: &[Ty]) -> Checked<Vec<Option<crate::ir::KeySet>>> {
        let parts: Vec<&Expr> = match &keyset.kind {
            ExprKind::Any => return Ok(Vec::new()),
            ExprKind::List(items) => items.iter().collect(),
            _ => vec![keyset],
        };
        if parts.len() != types.len() {
            let message = format!("`select` has {} keys, this case {}", types.len(), parts.len());
            return self.sink.error(keyset.span, message).refused();
        }
        parts.into_iter().zip(types).map(|(part, ty)| self.keyset(part, ty)).collect()
    }

    fn goal(&mut self, name: &Name, names: &[Rc<str>]) -> Goal {
        match &*name.text {
            "accept" => Goal::Accept,
            "reject" => Goal::Reject,
            other => match names.iter().position(|known| &**known == other) {
                Some(at) => Goal::State(at as u32),
                None => {
                    let known = names.iter().map(|name| &**name).chain(["accept", "reject"]);
                    let help = nearest(other, known).map(|near| format!("did you mean `{near}`?"));
                    self.sink.error(name.span, format!("there is no state `{other}`")).help = help;
                    Goal::Reject
                }
            },
        }
    }

    /// `extract`, `lookahead`, `advance`, `length`.
    pub(super) fn packet_method(
        &mut self,
        name: &str,
        types: &[TypeExpr],
        arguments: &[Expr],
        span: Span,
    ) -> Checked<Value> {
        self.in_place(&[Where::Parser], &format!("`{name}`"), span)?;
        self.is_unconditional(span)?;
        match name {
            "extract" => {
                self.extract(arguments, span)?;
                Ok(Value::Void)
            }
            "advance" => {
                self.expect_arguments(arguments, 1, span)?;
                let bits = self.bits(&arguments[0], 32, "a number of bits")?;
                self.emit(StatementKind::Advance { bits });
                Ok(Value::Void)
            }
            "length" => {
                self.expect_arguments(arguments, 0, span)?;
                let length = Operand::Field(self.program.standard.packet_length);
                Ok(Value::Scalar(length, Ty::Bit(32)))
            }
            _ => self.lookahead(types, arguments, span),
        }
    }

    /// P4-16, "Packet lookahead": what is read is as long as its type, and a header in it is valid.
    fn lookahead(&mut self, types: &[TypeExpr], arguments: &[Expr], span: Span) -> Checked<Value> {
        let [ty] = types else {
            return self
                .sink
                .error(span, "`lookahead` says what it reads")
                .help("write `lookahead<bit<8>>()`")
                .refused();
        };
        self.expect_arguments(arguments, 0, span)?;
        let ty = self.ty(ty);
        if holds_stack(&ty) {
            return self.sink.refuse(span, "looking ahead at a stack is").refused();
        }
        let path = format!("%{}", self.program.fields.len());
        let place = self.place(&ty, &path, FieldKind::Temporary, span);
        let mut operands = Vec::new();
        flatten_place(&place, &mut operands);
        let field = |operand| match operand {
            Operand::Field(id) => Some(id),
            Operand::Constant(_) => None,
        };
        self.emit(StatementKind::Lookahead { to: operands.into_iter().filter_map(field).collect() });
        self.make_valid(&place);
        whole_or_scalar(place)
    }

    /// All headers in the place are valid from here on.
    fn make_valid(&mut self, place: &Place) {
        self.set_valid(place, true);
        place.parts().iter().for_each(|place| self.make_valid(place));
    }

    fn extract(&mut self, arguments: &[Expr], span: Span) -> Checked<()> {
        if arguments.len() == 2 {
            return self.sink.refuse(span, "extracting a `varbit` is").refused();
        }
        self.expect_arguments(arguments, 1, span)?;
        if let ExprKind::Member(of, next) = &arguments[0].kind
            && &*next.text == "next"
            && let Some(Place::Stack(stack, ..)) = self.quiet_place(of).as_deref()
        {
            let stack = *stack;
            self.emit(StatementKind::ExtractNext { stack });
            return Ok(());
        }
        let Target::Place(place) = self.target(&arguments[0])? else {
            return self.sink.error(arguments[0].span, "a header is extracted, not bits").refused();
        };
        match &*place {
            Place::Header(header, ..) => self.emit(StatementKind::Extract { header: *header }),
            Place::Unknown(reported) => return Err(*reported),
            other => {
                let ty = other.ty();
                let error = self.sink.error(arguments[0].span, format!("a header is extracted, not {ty}"));
                if matches!(ty, Ty::Stack(..)) {
                    error.help("write `.next` for its next header");
                }
                return error.refused();
            }
        }
        Ok(())
    }

    pub(super) fn emit_header(&mut self, arguments: &[Expr], span: Span) -> Checked<()> {
        self.in_place(&[Where::Deparser], "`emit`", span)?;
        self.expect_arguments(arguments, 1, span)?;
        match self.expression(&arguments[0])? {
            Value::Whole(place) => self.emit_place(&place, arguments[0].span),
            other => {
                let message = format!("headers are emitted, not {}", other.ty());
                self.sink.error(arguments[0].span, message).refused()
            }
        }
    }
}

fn holds_stack(ty: &Ty) -> bool {
    match ty {
        Ty::Stack(..) => true,
        Ty::Struct(of) => of.fields.iter().any(|(_, ty)| holds_stack(ty)),
        _ => false,
    }
}

/// The first state first, with what variables begin with; a start that is come back to keeps its place.
fn arrange(mut states: Vec<State>, start: usize, initial: Vec<Statement>) -> Vec<State> {
    let is_plain = start == 0 && initial.is_empty();
    if is_plain {
        return states;
    }
    for case in states.iter_mut().flat_map(|state| &mut state.cases) {
        if let Goal::State(number) = &mut case.target {
            *number += 1;
        }
    }
    let cases = vec![Case { keys: Vec::new(), target: Goal::State(start as u32 + 1) }];
    states.insert(0, State { name: "$variables".into(), body: initial, select: Vec::new(), cases });
    states
}

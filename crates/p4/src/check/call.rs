//! Calls: methods of what a program declares, and functions that every program has.

use std::rc::Rc;

use crate::ast::{Expr, ExprKind, Name, TypeExpr};
use crate::diagnostic::nearest;
use crate::ir::{Algorithm, Binary, Compute, Constant, FieldId, Operand, StatementKind, ones};
use crate::source::Span;
use crate::uses::Object;

use super::arguments::Call;
use super::expression::whole_or_scalar;
use super::types::{
    ActionEntity, Entity, MuTableEntity, Place, Target, Ty, Value, flatten_place, standard_fields,
};
use super::{Checker, MAX_CALLS, MAX_STATEMENTS, Where};

/// What v1model has and the subset has not.
const REFUSED: [&str; 12] = [
    "clone",
    "clone3",
    "clone_preserving_field_list",
    "resubmit",
    "resubmit_preserving_field_list",
    "recirculate",
    "recirculate_preserving_field_list",
    "digest",
    "truncate",
    "assert",
    "assume",
    "log_msg",
];

const FUNCTIONS: [&str; 8] = [
    "mark_to_drop",
    "hash",
    "random",
    "verify",
    "verify_checksum",
    "update_checksum",
    "verify_checksum_with_payload",
    "update_checksum_with_payload",
];

impl Checker<'_> {
    pub(super) fn call(
        &mut self,
        callee: &Expr,
        types: &[TypeExpr],
        arguments: &[Expr],
        span: Span,
    ) -> Value {
        let ExprKind::Member(of, method) = &callee.kind else {
            let ExprKind::Name(name) = &callee.kind else {
                self.sink.error(callee.span, "this cannot be called");
                return Value::Unknown;
            };
            return self.function(name, arguments, span);
        };
        if let ExprKind::Name(name) = &of.kind {
            match self.find(&name.text).cloned() {
                Some(Entity::Place(..) | Entity::Constant(_) | Entity::Type(_)) | None => {}
                Some(entity) => return self.method(&entity, name, method, types, arguments, span),
            }
        }
        self.method_of_place(of, method, arguments)
    }

    fn method(
        &mut self,
        entity: &Entity,
        object: &Name,
        method: &Name,
        types: &[TypeExpr],
        arguments: &[Expr],
        span: Span,
    ) -> Value {
        let known: &[&str] = match entity {
            Entity::Table(_) | Entity::Control(_) | Entity::Instance(..) => &["apply"],
            Entity::MuTable(_) | Entity::Register(..) => &["read", "write"],
            Entity::Counter(_) => &["count"],
            Entity::Meter(_) => &["execute_meter"],
            Entity::PacketIn => &["extract", "lookahead", "advance", "length"],
            Entity::PacketOut => &["emit"],
            _ => &[],
        };
        if !known.contains(&&*method.text) {
            let message = format!("`{}` has no method `{}`", object.text, method.text);
            let help = match nearest(&method.text, known.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None if known.is_empty() => "it cannot be called".to_owned(),
                None => format!("there are: {}", known.join(", ")),
            };
            self.sink.error(method.span, message).help(help);
            return Value::Unknown;
        }
        let used = match entity {
            Entity::MuTable(table) => Some(Object::MuTable(table.id)),
            Entity::Register(id, _) => Some(Object::Register(*id)),
            Entity::Counter(id) => Some(Object::Counter(*id)),
            Entity::Meter(id) => Some(Object::Meter(*id)),
            _ => None,
        };
        if let Some(used) = used {
            self.uses(used, object.span);
        }
        match (entity, &*method.text) {
            (Entity::Table(table), _) => {
                if self.expect_arguments(arguments, 0, span) {
                    self.apply_table(table, None, None, span);
                }
                Value::Void
            }
            (Entity::Control(declared), _) => {
                self.apply_control(declared, &object.text, arguments, span);
                Value::Void
            }
            (Entity::Instance(declared, name), _) => {
                self.apply_control(declared, name, arguments, span);
                Value::Void
            }
            (Entity::MuTable(table), "read") => self.mu_read(table, arguments, span),
            (Entity::MuTable(table), _) => {
                self.mu_write(table, arguments, span);
                Value::Void
            }
            (Entity::Register(id, ty), name) => {
                self.register(*id, &ty.clone(), name, arguments, span);
                Value::Void
            }
            (Entity::Counter(counter), _) => {
                if self.in_stateful_place("counting", span)
                    && self.expect_arguments(arguments, 1, span)
                    && let Some(index) = self.index(&arguments[0])
                {
                    self.emit(StatementKind::Count { counter: *counter, index });
                }
                Value::Void
            }
            (Entity::Meter(meter), _) => {
                if self.in_stateful_place("metering", span)
                    && self.expect_arguments(arguments, 2, span)
                    && let Some(index) = self.index(&arguments[0])
                {
                    let meter = *meter;
                    self.out_argument(&arguments[1], None, |to| StatementKind::ExecuteMeter {
                        meter,
                        index,
                        to,
                    });
                }
                Value::Void
            }
            (_, "emit") => {
                self.emit_header(arguments, span);
                Value::Void
            }
            (_, name) => self.packet_method(name, types, arguments, span),
        }
    }

    pub(super) fn expect_arguments(&mut self, arguments: &[Expr], expected: usize, span: Span) -> bool {
        let is_right = arguments.len() == expected;
        if !is_right {
            let plural = if expected == 1 { "" } else { "s" };
            self.sink.error(span, format!("this takes {expected} argument{plural}, not {}", arguments.len()));
        }
        is_right
    }

    fn in_stateful_place(&mut self, what: &str, span: Span) -> bool {
        self.in_place(&[Where::Control, Where::Action], what, span) && self.is_unconditional(span)
    }

    /// What has effects is not done in the right side of `&&`, where P4 would do it sometimes.
    pub(super) fn is_unconditional(&mut self, span: Span) -> bool {
        if self.conditions > 0 {
            self.sink
                .refuse(span, "a call with effects on the right of `&&`, `||` or in a choice is")
                .help("call it in an `if` before, and keep what it gives in a variable");
        }
        self.conditions == 0
    }

    /// Where in an array.
    fn index(&mut self, expr: &Expr) -> Option<Operand> {
        match self.expression(expr) {
            Value::Scalar(operand, Ty::Bit(_)) => Some(operand),
            value @ Value::Integer(_) => match self.coerced(value, &Ty::Bit(32), expr.span) {
                Value::Scalar(operand, _) => Some(operand),
                _ => None,
            },
            Value::Unknown => None,
            other => {
                self.sink.error(expr.span, format!("an index is bit<W>, not {}", other.ty()));
                None
            }
        }
    }

    /// A number, with or without a width.
    fn plain(&mut self, expr: &Expr) -> Option<Operand> {
        match self.expression(expr) {
            Value::Scalar(operand, Ty::Bit(_)) => Some(operand),
            value @ Value::Integer(_) => match self.coerced(value, &Ty::Bit(64), expr.span) {
                Value::Scalar(operand, _) => Some(operand),
                _ => None,
            },
            Value::Unknown => None,
            other => {
                self.sink.error(expr.span, format!("this is bit<W>, not {}", other.ty()));
                None
            }
        }
    }

    /// Emits a statement that writes to what is given for `out`: bits, of this type if one is stated.
    fn out_argument(
        &mut self,
        expr: &Expr,
        ty: Option<&Ty>,
        statement: impl FnOnce(FieldId) -> StatementKind,
    ) {
        let Some(target) = self.target(expr) else { return };
        let (place, slice) = match &target {
            Target::Place(place) => (place, None),
            Target::Slice { place, high, low } => (place, Some((*high, *low))),
        };
        let Place::Scalar(id, found) = &**place else {
            let found = place.ty();
            self.sink.error(expr.span, format!("this gives bits, which do not fit in {found}"));
            return;
        };
        let found = match slice {
            Some((high, low)) => Ty::Bit(high - low + 1),
            None => found.clone(),
        };
        let is_right = ty.map_or(matches!(found, Ty::Bit(_) | Ty::Unknown), |ty| ty.is(&found));
        if !is_right {
            let expected = ty.map_or_else(|| "bit<W>".to_owned(), Ty::to_string);
            self.sink.error(expr.span, format!("expected {expected}, found {found}"));
            return;
        }
        let Some(width) = found.width() else { return };
        if slice.is_none() {
            return self.emit(statement(*id));
        }
        let to = self.temporary(width);
        self.emit(statement(to));
        self.store(&target, Operand::Field(to));
    }

    /// Writes a value of the right type.
    pub(super) fn store(&mut self, target: &Target, from: Operand) {
        match target {
            Target::Place(place) => {
                if let Place::Scalar(id, _) = **place {
                    self.copy(id, from);
                }
            }
            Target::Slice { place, high, low } => {
                if let Place::Scalar(to, _) = **place {
                    let value = Compute::Insert { into: Operand::Field(to), from, high: *high, low: *low };
                    self.emit(StatementKind::Compute { to, value });
                }
            }
        }
    }

    fn register(&mut self, register: u32, ty: &Ty, method: &str, arguments: &[Expr], span: Span) {
        if !self.in_stateful_place("a register", span) || !self.expect_arguments(arguments, 2, span) {
            return;
        }
        if method == "read" {
            let Some(index) = self.index(&arguments[1]) else { return };
            let read = |to| StatementKind::RegisterRead { register, index, to };
            return self.out_argument(&arguments[0], Some(ty), read);
        }
        let (index, value) = (self.index(&arguments[0]), self.operand(&arguments[1], ty));
        if let (Some(index), Some(value)) = (index, value) {
            self.emit(StatementKind::RegisterWrite { register, index, value });
        }
    }

    /// The values of a muTable's keys, as they are now.
    fn mu_keys(&mut self, table: &Rc<MuTableEntity>, span: Span) -> Option<Vec<Operand>> {
        if self.in_mu_key {
            self.sink
                .error(span, "a key of a muTable cannot use a muTable")
                .help("read it into metadata first");
            return None;
        }
        let declared = Rc::clone(&table.declared);
        self.in_mu_key = true;
        let keys = self.at_scope(table.scope, |checker| {
            let keys = declared.keys.iter().zip(&table.keys).map(|(key, ty)| checker.operand(key, ty));
            keys.collect()
        });
        self.in_mu_key = false;
        keys
    }

    /// The first argument only says that keys come from the headers (RAPID Fig. 10).
    fn is_headers(&mut self, expr: &Expr) -> bool {
        let is_place =
            matches!(self.quiet_place(expr).as_deref(), Some(Place::Struct(..) | Place::Header(..)));
        if !is_place {
            self.sink.error(expr.span, "the first argument is what the keys are in, such as `hdr`");
        }
        is_place
    }

    fn mu_read(&mut self, table: &Rc<MuTableEntity>, arguments: &[Expr], span: Span) -> Value {
        if !self.in_place(&[Where::Control, Where::Action], "a muTable", span) {
            return Value::Unknown;
        }
        if arguments.len() > 1 {
            self.expect_arguments(arguments, 1, span);
            return Value::Unknown;
        }
        if arguments.first().is_some_and(|argument| !self.is_headers(argument)) {
            return Value::Unknown;
        }
        let Some(keys) = self.mu_keys(table, span) else { return Value::Unknown };
        let mut to = Vec::new();
        let mut places = Vec::new();
        for (_, ty) in &table.values.fields {
            let id = self.temporary(ty.width().unwrap_or(1));
            to.push(id);
            places.push(Rc::new(Place::Scalar(id, ty.clone())));
        }
        self.emit(StatementKind::MuRead { table: table.id, keys, to });
        match places.len() {
            1 => whole_or_scalar(places.swap_remove(0)),
            _ => Value::Whole(Rc::new(Place::Struct(Rc::clone(&table.values), places))),
        }
    }

    fn mu_write(&mut self, table: &Rc<MuTableEntity>, arguments: &[Expr], span: Span) {
        if !self.in_stateful_place("a muTable", span) {
            return;
        }
        let expected = table.values.fields.len();
        let whole =
            arguments.last().filter(|last| expected > 1 && arguments.len() <= 2 && self.is_struct(last));
        let given = if whole.is_some() { 1 } else { expected };
        let (headers, values) = match arguments.len().checked_sub(given) {
            Some(0) => (None, arguments),
            Some(1) => (Some(&arguments[0]), &arguments[1..]),
            _ => {
                let message = format!("this takes {} arguments, not {}", expected + 1, arguments.len());
                let names: Vec<_> = table.values.fields.iter().map(|(name, _)| &**name).collect();
                self.sink.error(span, message).help(format!("write(hdr, {})", names.join(", ")));
                return;
            }
        };
        if headers.is_some_and(|headers| !self.is_headers(headers)) {
            return;
        }
        let types: Vec<Ty> = table.values.fields.iter().map(|(_, ty)| ty.clone()).collect();
        let values = match whole.and_then(|whole| self.quiet_place(whole)) {
            Some(place) => self.fields_as(&place, &types, span),
            None => values.iter().zip(&types).map(|(value, ty)| self.operand(value, ty)).collect(),
        };
        let keys = self.mu_keys(table, span);
        if let (Some(keys), Some(values)) = (keys, values) {
            self.emit(StatementKind::MuWrite { table: table.id, keys, values });
        }
    }

    fn is_struct(&self, expr: &Expr) -> bool {
        matches!(self.quiet_place(expr).as_deref(), Some(Place::Struct(..)))
    }

    fn fields_as(&mut self, place: &Place, types: &[Ty], span: Span) -> Option<Vec<Operand>> {
        let Place::Struct(of, places) = place else { return None };
        let scalars = places.iter().zip(types).map(|(place, ty)| match &**place {
            Place::Scalar(id, found) if found.is(ty) => Some(Operand::Field(*id)),
            _ => None,
        });
        let operands: Option<Vec<_>> = scalars.collect();
        if operands.is_none() || places.len() != types.len() {
            self.sink.error(span, format!("the fields of {} are not the values of this muTable", of.name));
            return None;
        }
        operands
    }

    fn method_of_place(&mut self, of: &Expr, method: &Name, arguments: &[Expr]) -> Value {
        let place = match self.evaluate(of) {
            Value::Whole(place) => place,
            Value::Unknown => return Value::Unknown,
            other => {
                let message = format!("a value of type {} has no method `{}`", other.ty(), method.text);
                self.sink.error(method.span, message);
                return Value::Unknown;
            }
        };
        match (&*place, &*method.text) {
            (Place::Header(id, ..), "isValid") => {
                self.expect_arguments(arguments, 0, method.span);
                let valid = self.program.headers[*id as usize].valid;
                Value::Scalar(Operand::Field(valid), Ty::Bool)
            }
            (Place::Header(id, ..), "setValid" | "setInvalid") => {
                let is_valid = &*method.text == "setValid";
                if self.expect_arguments(arguments, 0, method.span) && self.target(of).is_some() {
                    let valid = self.program.headers[*id as usize].valid;
                    self.copy(valid, Operand::Constant(Constant::new(u128::from(is_valid), 1)));
                }
                Value::Void
            }
            (Place::Stack(id, _, places), "push_front" | "pop_front") => {
                let most = places.len() as u32;
                if self.expect_arguments(arguments, 1, method.span)
                    && self.target(of).is_some()
                    && let Some(by) = self.bounded(&arguments[0], 1, most, "how far a stack is moved")
                {
                    self.shift_stack(*id, places, by as usize, &*method.text == "push_front");
                }
                Value::Void
            }
            (place, name) => {
                let ty = place.ty();
                let known: &[&str] = match place {
                    Place::Header(..) => &["isValid", "setValid", "setInvalid"],
                    Place::Stack(..) => &["push_front", "pop_front"],
                    _ => &[],
                };
                let help = nearest(name, known.iter().copied()).map(|near| format!("did you mean `{near}`?"));
                self.sink.error(method.span, format!("{ty} has no method `{name}`")).help = help;
                Value::Unknown
            }
        }
    }

    /// Moves headers towards the end (push) or the front; what comes in is not valid.
    fn shift_stack(&mut self, id: u32, places: &[Rc<Place>], by: usize, is_push: bool) {
        let size = places.len();
        let order: Vec<usize> = if is_push { (0..size).rev().collect() } else { (0..size).collect() };
        for at in order {
            let from = if is_push { at.checked_sub(by) } else { Some(at + by).filter(|from| *from < size) };
            match from {
                Some(from) => self.copy_place(&places[at], &places[from]),
                None => {
                    if let Place::Header(header, ..) = *places[at] {
                        let valid = self.program.headers[header as usize].valid;
                        self.copy(valid, Operand::Constant(Constant::new(0, 1)));
                    }
                }
            }
        }
        let next = self.program.stacks[id as usize].next;
        let (a, b) = (Operand::Field(next), Operand::Constant(Constant::new(by as u128, 16)));
        let by = if is_push { Binary::SaturatingAdd } else { Binary::SaturatingSubtract };
        let moved = self.compute(Compute::Binary { by, a, b }, 16);
        let size = Operand::Constant(Constant::new(size as u128, 16));
        let condition = self.compute(Compute::Binary { by: Binary::Less, a: size, b: moved }, 1);
        let value = Compute::Select { condition, then: size, otherwise: moved };
        self.emit(StatementKind::Compute { to: next, value });
    }

    fn function(&mut self, name: &Name, arguments: &[Expr], span: Span) -> Value {
        if let Some(Entity::Action(action)) = self.find(&name.text).cloned() {
            if self.in_place(&[Where::Control, Where::Action], "calling an action", span) {
                self.call_action(&action, arguments, span);
            }
            return Value::Void;
        }
        match &*name.text {
            "NoAction" if self.find("NoAction").is_none() => {
                self.expect_arguments(arguments, 0, span);
            }
            "mark_to_drop" => self.mark_to_drop(arguments, span),
            "hash" => self.hash(arguments, span),
            "random" => self.random(arguments, span),
            "verify" => self.verify(arguments, span),
            "verify_checksum" => self.checksum(arguments, true, false, span),
            "update_checksum" => self.checksum(arguments, false, false, span),
            "verify_checksum_with_payload" => self.checksum(arguments, true, true, span),
            "update_checksum_with_payload" => self.checksum(arguments, false, true, span),
            refused if REFUSED.contains(&refused) => {
                self.sink.refuse(name.span, &format!("`{refused}` is"));
            }
            _ => {
                let actions = self.scopes.iter().flatten();
                let actions = actions
                    .filter(|(_, entity)| matches!(entity, Entity::Action(_)))
                    .map(|(name, _)| &**name);
                let help = nearest(&name.text, actions.chain(FUNCTIONS))
                    .map(|near| format!("did you mean `{near}`?"));
                let message = match self.find(&name.text) {
                    Some(_) => format!("`{}` cannot be called", name.text),
                    None => format!("there is no action or function `{}`", name.text),
                };
                self.sink.error(name.span, message).help = help;
                return Value::Unknown;
            }
        }
        Value::Void
    }

    fn mark_to_drop(&mut self, arguments: &[Expr], span: Span) {
        if !self.expect_arguments(arguments, 1, span)
            || !self.in_place(&[Where::Control, Where::Action], "dropping", span)
        {
            return;
        }
        let Some(given) = self.target(&arguments[0]) else { return };
        let standard = match (&given, &self.standard) {
            (Target::Place(given), Some(standard)) if given.ty().is(&standard.ty()) => standard_fields(given),
            _ => {
                self.sink.error(arguments[0].span, "this takes the standard metadata");
                return;
            }
        };
        self.copy(standard.egress_spec, Operand::Constant(Constant::new(ones(9), 9)));
        self.copy(standard.mcast_grp, Operand::Constant(Constant::new(0, 16)));
    }

    fn algorithm(&mut self, expr: &Expr) -> Option<Algorithm> {
        let value = self.expression(expr);
        let Value::Scalar(Operand::Constant(constant), Ty::Enum(of)) = &value else {
            if !matches!(value, Value::Unknown) {
                self.sink.error(expr.span, "this is a member of HashAlgorithm");
            }
            return None;
        };
        let name = of.members.iter().find(|(_, number)| *number == constant.value).map(|(name, _)| &**name);
        match (&*of.name, name) {
            ("HashAlgorithm", Some("crc32")) => Some(Algorithm::Crc32),
            ("HashAlgorithm", Some("crc16")) => Some(Algorithm::Crc16),
            ("HashAlgorithm", Some("csum16")) => Some(Algorithm::Csum16),
            ("HashAlgorithm", Some("xor16")) => Some(Algorithm::Xor16),
            ("HashAlgorithm", Some("identity")) => Some(Algorithm::Identity),
            ("HashAlgorithm", Some(other)) => {
                let construct = format!("the algorithm `{other}` is");
                self.sink
                    .refuse(expr.span, &construct)
                    .help("there are crc32, crc16, csum16, xor16, identity");
                None
            }
            _ => {
                self.sink.error(expr.span, "this is a member of HashAlgorithm");
                None
            }
        }
    }

    /// Everything in a list or a struct, in order.
    pub(super) fn flattened(&mut self, expr: &Expr) -> Option<Vec<Operand>> {
        let value = self.expression(expr);
        let mut operands = Vec::new();
        let is_right = flatten(&value, &mut operands);
        if !is_right && !matches!(value, Value::Unknown) {
            self.sink
                .error(expr.span, "everything in this list needs a width")
                .help("write numbers with one, as in `8w5`");
        }
        is_right.then_some(operands)
    }

    fn hash(&mut self, arguments: &[Expr], span: Span) {
        if !self.in_place(&[Where::Control, Where::Action], "hashing", span)
            || !self.expect_arguments(arguments, 5, span)
        {
            return;
        }
        let algorithm = self.algorithm(&arguments[1]);
        let base = self.plain(&arguments[2]);
        let data = self.flattened(&arguments[3]);
        let max = self.plain(&arguments[4]);
        if let (Some(algorithm), Some(base), Some(data), Some(max)) = (algorithm, base, data, max) {
            self.out_argument(&arguments[0], None, |to| StatementKind::Hash {
                algorithm,
                base,
                max,
                data,
                to,
            });
        }
    }

    fn random(&mut self, arguments: &[Expr], span: Span) {
        if !self.in_stateful_place("drawing", span) || !self.expect_arguments(arguments, 3, span) {
            return;
        }
        let (low, high) = (self.plain(&arguments[1]), self.plain(&arguments[2]));
        if let (Some(low), Some(high)) = (low, high) {
            self.out_argument(&arguments[0], None, |to| StatementKind::Random { low, high, to });
        }
    }

    fn verify(&mut self, arguments: &[Expr], span: Span) {
        if !self.in_place(&[Where::Parser], "`verify`", span) || !self.expect_arguments(arguments, 2, span) {
            return;
        }
        let condition = self.operand(&arguments[0], &Ty::Bool);
        let error = self.operand(&arguments[1], &Ty::Error);
        if let (Some(condition), Some(error)) = (condition, error) {
            self.emit(StatementKind::Verify { condition, error });
        }
    }

    /// `(condition, data, checksum, algorithm)`
    fn checksum(&mut self, arguments: &[Expr], is_verified: bool, with_payload: bool, span: Span) {
        if !self.in_place(&[Where::Checksum], "a checksum", span)
            || !self.expect_arguments(arguments, 4, span)
        {
            return;
        }
        let condition = self.operand(&arguments[0], &Ty::Bool);
        let algorithm = self.algorithm(&arguments[3]);
        let ((), body) = self.captured(|checker| {
            let Some(data) = checker.flattened(&arguments[1]) else { return };
            let Some(algorithm) = algorithm else { return };
            if !is_verified {
                return checker.out_argument(&arguments[2], None, |to| StatementKind::Checksum {
                    algorithm,
                    data,
                    with_payload,
                    to,
                });
            }
            let Some((stated, ty)) = checker.scalar_operand(&arguments[2], "a checksum") else { return };
            let to = checker.temporary(ty.width().unwrap_or(16));
            checker.emit(StatementKind::Checksum { algorithm, data, with_payload, to });
            let by = Binary::NotEqual;
            let wrong = checker.compute(Compute::Binary { by, a: stated, b: Operand::Field(to) }, 1);
            let to = checker.program.standard.checksum_error;
            let value = Compute::Binary { by: Binary::Or, a: Operand::Field(to), b: wrong };
            checker.emit(StatementKind::Compute { to, value });
        });
        if let Some(condition) = condition {
            self.emit(StatementKind::If { condition, then: body, otherwise: Vec::new() });
        }
    }

    fn call_action(&mut self, action: &Rc<ActionEntity>, arguments: &[Expr], span: Span) {
        let declared = Rc::clone(&action.declared);
        if !self.expect_arguments(arguments, declared.parameters.len(), span) {
            return;
        }
        let call = Call {
            parameters: declared.parameters.iter().collect(),
            scope: action.scope,
            path: action.path.clone(),
            sees_caller: true,
        };
        self.called(&call, arguments, |checker, bound| {
            let mut bound = bound.into_iter();
            checker.action_body(action, span, |_, _, _, _| bound.next());
        });
    }

    /// Whether one more call may be written out.
    pub(super) fn enter(&mut self, name: &Name, span: Span) -> bool {
        self.statements += 1;
        if self.calls >= MAX_CALLS {
            let message = format!("calls are more than {MAX_CALLS} deep");
            self.sink.error(span, message).help(format!("does `{}` call itself?", name.text));
            return false;
        }
        if self.statements > MAX_STATEMENTS || self.sink.is_full() {
            return false;
        }
        self.calls += 1;
        true
    }
}

fn flatten(value: &Value, to: &mut Vec<Operand>) -> bool {
    match value {
        Value::Scalar(operand, _) => to.push(*operand),
        Value::Whole(place) => flatten_place(place, to),
        Value::List(items) => return items.iter().all(|item| flatten(item, to)),
        Value::Integer(_) | Value::Void | Value::Unknown => return false,
    }
    true
}

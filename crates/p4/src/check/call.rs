//! Calls: methods of what a program declares, and functions that every program has.

use std::rc::Rc;

use names::nearest;

use crate::ast::{Expr, ExprKind, Name, TypeExpr};
use crate::diagnostic::Checked;
use crate::ir::{Algorithm, Binary, Compute, Constant, FieldId, Operand, StatementKind, ones};
use crate::source::Span;
use crate::uses::Object;

use super::arguments::Call;
use super::expression::{scalar, whole_or_scalar};
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
    ) -> Checked<Value> {
        let ExprKind::Member(of, method) = &callee.kind else {
            let ExprKind::Name(name) = &callee.kind else {
                return self.sink.error(callee.span, "this cannot be called").refused();
            };
            return self.function(name, arguments, span);
        };
        if let ExprKind::Name(name) = &of.kind {
            match self.find(&name.text).cloned() {
                Some(Entity::Place(..) | Entity::Constant(_) | Entity::Type(_)) | None => {}
                Some(Entity::Wrong(reported)) => return Err(reported),
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
    ) -> Checked<Value> {
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
            return self.sink.error(method.span, message).help(help).refused();
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
                self.expect_arguments(arguments, 0, span)?;
                self.apply_table(table, None, None, span)?;
            }
            (Entity::Control(declared), _) => {
                self.apply_control(declared, &object.text, arguments, span)?;
            }
            (Entity::Instance(declared, name), _) => self.apply_control(declared, name, arguments, span)?,
            (Entity::MuTable(table), "read") => return self.mu_read(table, arguments, span),
            (Entity::MuTable(table), _) => self.mu_write(table, arguments, span)?,
            (Entity::Register(id, ty), name) => self.register(*id, &ty.clone(), name, arguments, span)?,
            (Entity::Counter(counter), _) => {
                self.in_stateful_place("counting", span)?;
                self.expect_arguments(arguments, 1, span)?;
                let index = self.index(&arguments[0])?;
                self.emit(StatementKind::Count { counter: *counter, index });
            }
            (Entity::Meter(meter), _) => {
                self.in_stateful_place("metering", span)?;
                self.expect_arguments(arguments, 2, span)?;
                let index = self.index(&arguments[0])?;
                let meter = *meter;
                self.out_argument(&arguments[1], None, |to| StatementKind::ExecuteMeter {
                    meter,
                    index,
                    to,
                })?;
            }
            (_, "emit") => self.emit_header(arguments, span)?,
            (_, name) => return self.packet_method(name, types, arguments, span),
        }
        Ok(Value::Void)
    }

    pub(super) fn expect_arguments(
        &mut self,
        arguments: &[Expr],
        expected: usize,
        span: Span,
    ) -> Checked<()> {
        if arguments.len() == expected {
            return Ok(());
        }
        let plural = if expected == 1 { "" } else { "s" };
        let message = format!("this takes {expected} argument{plural}, not {}", arguments.len());
        self.sink.error(span, message).refused()
    }

    fn in_stateful_place(&mut self, what: &str, span: Span) -> Checked<()> {
        self.in_place(&[Where::Control, Where::Action], what, span)?;
        self.is_unconditional(span)
    }

    /// What has effects is not done in the right side of `&&`, where P4 would do it sometimes.
    pub(super) fn is_unconditional(&mut self, span: Span) -> Checked<()> {
        if self.conditions == 0 {
            return Ok(());
        }
        self.sink
            .refuse(span, "a call with effects on the right of `&&`, `||` or in a choice is")
            .help("call it in an `if` before, and keep what it gives in a variable")
            .refused()
    }

    /// Where in an array.
    fn index(&mut self, expr: &Expr) -> Checked<Operand> {
        self.bits(expr, 32, "an index")
    }

    /// A number, with or without a width.
    fn plain(&mut self, expr: &Expr) -> Checked<Operand> {
        self.bits(expr, 64, "this")
    }

    /// Bits; a number without a width gets so many.
    pub(super) fn bits(&mut self, expr: &Expr, width: u32, what: &str) -> Checked<Operand> {
        let value = match self.expression(expr)? {
            value @ Value::Integer(_) => self.coerced(value, &Ty::Bit(width), expr.span)?,
            other => other,
        };
        match (&value, value.ty().underlying()) {
            (Value::Scalar(operand, _), Ty::Bit(_)) => Ok(*operand),
            (other, _) => {
                self.sink.error(expr.span, format!("{what} is bit<W>, not {}", other.ty())).refused()
            }
        }
    }

    /// Emits a statement that writes to what is given for `out`: bits, of this type if one is stated.
    fn out_argument(
        &mut self,
        expr: &Expr,
        ty: Option<&Ty>,
        statement: impl FnOnce(FieldId) -> StatementKind,
    ) -> Checked<()> {
        let target = self.target(expr)?;
        let (place, slice) = match &target {
            Target::Place(place) => (place, None),
            Target::Slice { place, high, low } => (place, Some((*high, *low))),
        };
        let (id, found) = match &**place {
            Place::Scalar(id, found) => (*id, found),
            Place::Unknown(reported) => return Err(*reported),
            other => {
                let message = format!("this gives bits, which do not fit in {}", other.ty());
                return self.sink.error(expr.span, message).refused();
            }
        };
        let found = match slice {
            Some((high, low)) => Ty::Bit(high - low + 1),
            None => found.clone(),
        };
        let is_right = ty.map_or(matches!(found, Ty::Bit(_)), |ty| ty.is(&found));
        let (true, Some(width)) = (is_right, found.width()) else {
            let expected = ty.map_or_else(|| "bit<W>".to_owned(), Ty::to_string);
            return self.sink.error(expr.span, format!("expected {expected}, found {found}")).refused();
        };
        if slice.is_none() {
            self.emit(statement(id));
            return Ok(());
        }
        let to = self.temporary(width);
        self.emit(statement(to));
        self.store(&target, Operand::Field(to), expr.span)
    }

    /// Writes a value of the right type.
    pub(super) fn store(&mut self, target: &Target, from: Operand, span: Span) -> Checked<()> {
        let (Target::Place(place) | Target::Slice { place, .. }) = target;
        let to = match **place {
            Place::Scalar(to, _) => to,
            Place::Unknown(reported) => return Err(reported),
            _ => return Err(self.sink.internal(span, &format!("bits for a place of type {}", place.ty()))),
        };
        match target {
            Target::Place(_) => self.copy(to, from),
            Target::Slice { high, low, .. } => {
                let value = Compute::Insert { into: Operand::Field(to), from, high: *high, low: *low };
                self.emit(StatementKind::Compute { to, value });
            }
        }
        Ok(())
    }

    fn register(
        &mut self,
        register: u32,
        ty: &Ty,
        method: &str,
        arguments: &[Expr],
        span: Span,
    ) -> Checked<()> {
        self.in_stateful_place("a register", span)?;
        self.expect_arguments(arguments, 2, span)?;
        if method == "read" {
            let index = self.index(&arguments[1])?;
            let read = |to| StatementKind::RegisterRead { register, index, to };
            return self.out_argument(&arguments[0], Some(ty), read);
        }
        let (index, value) = (self.index(&arguments[0]), self.operand(&arguments[1], ty));
        self.emit(StatementKind::RegisterWrite { register, index: index?, value: value? });
        Ok(())
    }

    /// The values of a muTable's keys, as they are now.
    fn mu_keys(&mut self, table: &Rc<MuTableEntity>, span: Span) -> Checked<Vec<Operand>> {
        if self.in_mu_key {
            return self
                .sink
                .error(span, "a key of a muTable cannot use a muTable")
                .help("read it into metadata first")
                .refused();
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
    fn is_headers(&mut self, expr: &Expr) -> Checked<()> {
        match self.quiet_place(expr).as_deref() {
            Some(Place::Struct(..) | Place::Header(..)) => Ok(()),
            _ => self
                .sink
                .error(expr.span, "the first argument is what the keys are in, such as `hdr`")
                .refused(),
        }
    }

    fn mu_read(&mut self, table: &Rc<MuTableEntity>, arguments: &[Expr], span: Span) -> Checked<Value> {
        self.in_place(&[Where::Control, Where::Action], "a muTable", span)?;
        if arguments.len() > 1 {
            self.expect_arguments(arguments, 1, span)?;
        }
        if let Some(headers) = arguments.first() {
            self.is_headers(headers)?;
        }
        let keys = self.mu_keys(table, span)?;
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
            _ => Ok(Value::Whole(Rc::new(Place::Struct(Rc::clone(&table.values), places)))),
        }
    }

    fn mu_write(&mut self, table: &Rc<MuTableEntity>, arguments: &[Expr], span: Span) -> Checked<()> {
        self.in_stateful_place("a muTable", span)?;
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
                let help = format!("write(hdr, {})", names.join(", "));
                return self.sink.error(span, message).help(help).refused();
            }
        };
        if let Some(headers) = headers {
            self.is_headers(headers)?;
        }
        let types: Vec<Ty> = table.values.fields.iter().map(|(_, ty)| ty.clone()).collect();
        let values = match whole.and_then(|whole| self.quiet_place(whole)) {
            Some(place) => self.fields_as(&place, &types, span),
            None => values.iter().zip(&types).map(|(value, ty)| self.operand(value, ty)).collect(),
        };
        let keys = self.mu_keys(table, span);
        self.emit(StatementKind::MuWrite { table: table.id, keys: keys?, values: values? });
        Ok(())
    }

    fn is_struct(&self, expr: &Expr) -> bool {
        matches!(self.quiet_place(expr).as_deref(), Some(Place::Struct(..)))
    }

    fn fields_as(&mut self, place: &Place, types: &[Ty], span: Span) -> Checked<Vec<Operand>> {
        let places = place.parts();
        let scalars = places.iter().zip(types).map(|(place, ty)| match &**place {
            Place::Scalar(id, found) if found.is(ty) => Some(Operand::Field(*id)),
            _ => None,
        });
        match scalars.collect::<Option<Vec<_>>>() {
            Some(operands) if places.len() == types.len() => Ok(operands),
            _ => {
                let message = format!("the fields of {} are not the values of this muTable", place.ty());
                self.sink.error(span, message).refused()
            }
        }
    }

    fn method_of_place(&mut self, of: &Expr, method: &Name, arguments: &[Expr]) -> Checked<Value> {
        let place = match self.evaluate(of)? {
            Value::Whole(place) => place,
            value @ (Value::Made(..) | Value::Invalid(Some(_)))
                if &*method.text == "isValid" && matches!(value.ty(), Ty::Struct(of) if of.is_header) =>
            {
                self.expect_arguments(arguments, 0, method.span)?;
                return Ok(scalar(u128::from(matches!(value, Value::Made(..))), Ty::Bool));
            }
            other => {
                let message = format!("a value of type {} has no method `{}`", other.ty(), method.text);
                return self.sink.error(method.span, message).refused();
            }
        };
        match (&*place, &*method.text) {
            (Place::Header(id, ..), "isValid") => {
                self.expect_arguments(arguments, 0, method.span)?;
                let valid = self.program.headers[*id as usize].valid;
                Ok(Value::Scalar(Operand::Field(valid), Ty::Bool))
            }
            (Place::Header(..), "setValid" | "setInvalid") => {
                self.expect_arguments(arguments, 0, method.span)?;
                self.target(of)?;
                self.set_valid(&place, &*method.text == "setValid");
                Ok(Value::Void)
            }
            (Place::Stack(id, _, places), "push_front" | "pop_front") => {
                self.expect_arguments(arguments, 1, method.span)?;
                self.target(of)?;
                let most = places.len() as u32;
                let by = self.bounded(&arguments[0], 1, most, "how far a stack is moved")?;
                self.shift_stack(*id, places, by as usize, &*method.text == "push_front", method.span)?;
                Ok(Value::Void)
            }
            (place, name) => {
                let ty = place.ty();
                let known: &[&str] = match place {
                    Place::Header(..) => &["isValid", "setValid", "setInvalid"],
                    Place::Stack(..) => &["push_front", "pop_front"],
                    _ => &[],
                };
                let help = nearest(name, known.iter().copied()).map(|near| format!("did you mean `{near}`?"));
                let error = self.sink.error(method.span, format!("{ty} has no method `{name}`"));
                error.help = help;
                error.refused()
            }
        }
    }

    /// Moves headers towards the end (push) or the front; what comes in is not valid.
    fn shift_stack(
        &mut self,
        id: u32,
        places: &[Rc<Place>],
        by: usize,
        is_push: bool,
        span: Span,
    ) -> Checked<()> {
        let size = places.len();
        let order: Vec<usize> = if is_push { (0..size).rev().collect() } else { (0..size).collect() };
        for at in order {
            let from = if is_push { at.checked_sub(by) } else { Some(at + by).filter(|from| *from < size) };
            match from {
                Some(from) => self.copy_place(&places[at], &places[from], span)?,
                None => self.set_valid(&places[at], false),
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
        Ok(())
    }

    fn function(&mut self, name: &Name, arguments: &[Expr], span: Span) -> Checked<Value> {
        if let Some(Entity::Action(action)) = self.find(&name.text).cloned() {
            self.in_place(&[Where::Control, Where::Action], "calling an action", span)?;
            self.call_action(&action, arguments, span)?;
            return Ok(Value::Void);
        }
        match &*name.text {
            "NoAction" if self.find("NoAction").is_none() => self.expect_arguments(arguments, 0, span)?,
            "mark_to_drop" => self.mark_to_drop(arguments, span)?,
            "hash" => self.hash(arguments, span)?,
            "random" => self.random(arguments, span)?,
            "verify" => self.verify(arguments, span)?,
            "verify_checksum" => self.checksum(arguments, true, false, span)?,
            "update_checksum" => self.checksum(arguments, false, false, span)?,
            "verify_checksum_with_payload" => self.checksum(arguments, true, true, span)?,
            "update_checksum_with_payload" => self.checksum(arguments, false, true, span)?,
            refused if REFUSED.contains(&refused) => {
                return self.sink.refuse(name.span, &format!("`{refused}` is")).refused();
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
                let error = self.sink.error(name.span, message);
                error.help = help;
                return error.refused();
            }
        }
        Ok(Value::Void)
    }

    fn mark_to_drop(&mut self, arguments: &[Expr], span: Span) -> Checked<()> {
        self.expect_arguments(arguments, 1, span)?;
        self.in_place(&[Where::Control, Where::Action], "dropping", span)?;
        let given = self.target(&arguments[0])?;
        let standard = match (&given, &self.standard) {
            (Target::Place(given), Some(standard)) if given.ty().is(&standard.ty()) => standard_fields(given),
            _ => return self.sink.error(arguments[0].span, "this takes the standard metadata").refused(),
        };
        self.copy(standard.egress_spec, Operand::Constant(Constant::new(ones(9), 9)));
        self.copy(standard.mcast_grp, Operand::Constant(Constant::new(0, 16)));
        Ok(())
    }

    fn algorithm(&mut self, expr: &Expr) -> Checked<Algorithm> {
        let value = self.expression(expr)?;
        let (number, of) = match &value {
            Value::Scalar(Operand::Constant(constant), Ty::Enum(of)) if &*of.name == "HashAlgorithm" => {
                (constant.value, of)
            }
            _ => return self.sink.error(expr.span, "this is a member of HashAlgorithm").refused(),
        };
        let name = of.members.iter().find(|(_, member)| *member == number).map(|(name, _)| &**name);
        match name {
            Some("crc32") => Ok(Algorithm::Crc32),
            Some("crc16") => Ok(Algorithm::Crc16),
            Some("csum16") => Ok(Algorithm::Csum16),
            Some("xor16") => Ok(Algorithm::Xor16),
            Some("identity") => Ok(Algorithm::Identity),
            other => {
                let construct = format!("the algorithm `{}` is", other.unwrap_or("?"));
                self.sink
                    .refuse(expr.span, &construct)
                    .help("there are crc32, crc16, csum16, xor16, identity")
                    .refused()
            }
        }
    }

    /// Everything in a list or a struct, in order.
    pub(super) fn flattened(&mut self, expr: &Expr) -> Checked<Vec<Operand>> {
        let value = self.expression(expr)?;
        let mut operands = Vec::new();
        if flatten(&value, &mut operands) {
            return Ok(operands);
        }
        self.sink
            .error(expr.span, "everything in this list needs a width")
            .help("write numbers with one, as in `8w5`")
            .refused()
    }

    fn hash(&mut self, arguments: &[Expr], span: Span) -> Checked<()> {
        self.in_place(&[Where::Control, Where::Action], "hashing", span)?;
        self.expect_arguments(arguments, 5, span)?;
        let algorithm = self.algorithm(&arguments[1]);
        let base = self.plain(&arguments[2]);
        let data = self.flattened(&arguments[3]);
        let max = self.plain(&arguments[4]);
        let (algorithm, base, data, max) = (algorithm?, base?, data?, max?);
        self.out_argument(&arguments[0], None, |to| StatementKind::Hash { algorithm, base, max, data, to })
    }

    fn random(&mut self, arguments: &[Expr], span: Span) -> Checked<()> {
        self.in_stateful_place("drawing", span)?;
        self.expect_arguments(arguments, 3, span)?;
        let (low, high) = (self.plain(&arguments[1]), self.plain(&arguments[2]));
        let (low, high) = (low?, high?);
        self.out_argument(&arguments[0], None, |to| StatementKind::Random { low, high, to })
    }

    fn verify(&mut self, arguments: &[Expr], span: Span) -> Checked<()> {
        self.in_place(&[Where::Parser], "`verify`", span)?;
        self.expect_arguments(arguments, 2, span)?;
        let condition = self.operand(&arguments[0], &Ty::Bool);
        let error = self.operand(&arguments[1], &Ty::Error);
        self.emit(StatementKind::Verify { condition: condition?, error: error? });
        Ok(())
    }

    /// `(condition, data, checksum, algorithm)`
    fn checksum(
        &mut self,
        arguments: &[Expr],
        is_verified: bool,
        with_payload: bool,
        span: Span,
    ) -> Checked<()> {
        self.in_place(&[Where::Checksum], "a checksum", span)?;
        self.expect_arguments(arguments, 4, span)?;
        let condition = self.operand(&arguments[0], &Ty::Bool);
        let algorithm = self.algorithm(&arguments[3]);
        let (done, body) = self.captured(|checker| -> Checked<()> {
            let data = checker.flattened(&arguments[1])?;
            let algorithm = algorithm?;
            if !is_verified {
                let update = |to| StatementKind::Checksum { algorithm, data, with_payload, to };
                return checker.out_argument(&arguments[2], None, update);
            }
            let (stated, ty) = checker.scalar_operand(&arguments[2], "a checksum")?;
            let to = checker.temporary(ty.width().unwrap_or(16));
            checker.emit(StatementKind::Checksum { algorithm, data, with_payload, to });
            let by = Binary::NotEqual;
            let wrong = checker.compute(Compute::Binary { by, a: stated, b: Operand::Field(to) }, 1);
            let to = checker.program.standard.checksum_error;
            let value = Compute::Binary { by: Binary::Or, a: Operand::Field(to), b: wrong };
            checker.emit(StatementKind::Compute { to, value });
            Ok(())
        });
        done?;
        self.emit(StatementKind::If { condition: condition?, then: body, otherwise: Vec::new() });
        Ok(())
    }

    fn call_action(&mut self, action: &Rc<ActionEntity>, arguments: &[Expr], span: Span) -> Checked<()> {
        let declared = Rc::clone(&action.declared);
        self.expect_arguments(arguments, declared.parameters.len(), span)?;
        let call = Call {
            parameters: declared.parameters.iter().collect(),
            span,
            scope: action.scope,
            path: action.path.clone(),
            sees_caller: true,
        };
        self.called(&call, arguments, |checker, bound| {
            let mut bound = bound.into_iter();
            checker.action_body(action, span, |_, _, _, _| bound.next())
        })
    }

    /// Whether one more call may be written out.
    pub(super) fn enter(&mut self, name: &Name, span: Span) -> Checked<()> {
        self.statements += 1;
        if self.calls >= MAX_CALLS {
            let message = format!("calls are more than {MAX_CALLS} deep");
            let help = format!("does `{}` call itself?", name.text);
            return self.sink.error(span, message).help(help).refused();
        }
        if self.statements > MAX_STATEMENTS {
            return Err(self.too_many_statements());
        }
        self.calls += 1;
        Ok(())
    }
}

fn flatten(value: &Value, to: &mut Vec<Operand>) -> bool {
    match value {
        Value::Scalar(operand, _) => to.push(*operand),
        Value::Whole(place) => flatten_place(place, to),
        Value::List(items) | Value::Made(_, items) => return items.iter().all(|item| flatten(item, to)),
        Value::Fields(fields) => return fields.iter().all(|(_, item)| flatten(item, to)),
        Value::Integer(_) | Value::Invalid(_) | Value::Void => return false,
    }
    true
}

//! Types and what stands outside of controls.

use std::rc::Rc;

use names::nearest;
use num_bigint::BigInt;
use num_traits::ToPrimitive;

use crate::ast::{Declaration, Expr, FieldDecl, Name, TypeExpr, TypeKind, Variable};
use crate::diagnostic::Checked;
use crate::ir::{Constant, FieldKind, Header, MAX_WIDTH, Operand, Stack};
use crate::source::Span;

use super::types::{Access, ERROR_WIDTH, Entity, EnumType, Place, StructType, Ty, Value};
use super::{Checker, Where};

/// Headers in a stack at most.
const MAX_STACK: u32 = 256;

impl Checker<'_> {
    pub(super) fn declaration(&mut self, declaration: &Declaration) {
        match declaration {
            Declaration::Const(variable) => self.constant(variable),
            Declaration::Typedef(FieldDecl { ty, name }) => {
                let ty = self.ty(ty);
                self.declare(name, Entity::Type(ty));
            }
            Declaration::Enum { name, base, members } => self.enumeration(name, base.as_ref(), members),
            Declaration::Struct { name, fields, is_header } => self.structure(name, fields, *is_header),
            Declaration::Errors(names) => {
                for name in names {
                    if self.program.errors.len() >= 1 << ERROR_WIDTH {
                        self.sink.error(name.span, format!("more than {} errors", 1 << ERROR_WIDTH));
                        break;
                    }
                    self.program.errors.push(name.text.to_string());
                }
            }
            Declaration::MatchKinds(names) => {
                const KNOWN: [&str; 5] = ["exact", "ternary", "lpm", "range", "optional"];
                for name in names {
                    if !KNOWN.contains(&&*name.text) {
                        self.sink.refuse(name.span, &format!("the match kind `{}` is", name.text));
                    }
                    self.match_kinds.push(Rc::clone(&name.text));
                }
            }
            Declaration::Parser(parser) => self.declare(&parser.name, Entity::Parser(Rc::clone(parser))),
            Declaration::Control(control) => self.declare(&control.name, Entity::Control(Rc::clone(control))),
            Declaration::Action(action) => self.declare_action(action),
            Declaration::Instance(instance) if &*instance.name.text == "main" => {
                if self.main.replace(instance.clone()).is_some() {
                    self.sink.error(instance.name.span, "`main` is declared a second time");
                }
            }
            Declaration::Instance(instance) => self.instance(instance),
        }
    }

    /// A constant, which has its value from here on.
    pub(super) fn constant(&mut self, variable: &Variable) {
        let ty = self.ty(&variable.ty);
        let Some(value) = &variable.value else { return };
        let span = value.span;
        let (value, made) = self.captured(|checker| {
            let value = checker.expression(value)?;
            checker.coerced(value, &ty, span)
        });
        let entity = match value {
            Err(reported) => Entity::Wrong(reported),
            Ok(value) if is_constant(&value) && made.is_empty() => Entity::Constant(value),
            Ok(_) => {
                let error = self.sink.error(span, "a constant's value is known when the program is compiled");
                Entity::Wrong(error.label("this is not").reported())
            }
        };
        self.declare(&variable.name, entity);
    }

    fn enumeration(&mut self, name: &Name, base: Option<&TypeExpr>, members: &[(Name, Option<Expr>)]) {
        let base = base.map(|base| (self.ty(base), base.span));
        if let Some((ty, span)) = &base
            && !matches!(ty, Ty::Bit(_) | Ty::Int(_) | Ty::Unknown(_))
        {
            self.sink.error(*span, format!("the values of an enumeration are bit<W> or int<W>, not {ty}"));
        }
        let base = base.map(|(ty, _)| ty);
        let mut listed: Vec<(Rc<str>, u128)> = Vec::new();
        for (number, (member, value)) in members.iter().enumerate() {
            if listed.iter().any(|(other, _)| *other == member.text) {
                self.sink.error(member.span, format!("`{}` is declared a second time", member.text));
                continue;
            }
            let value = match (&base, value) {
                (None, None) => number as u128,
                (Some(base), Some(value)) => match self.known(value, base) {
                    Ok(constant) => constant.value,
                    Err(_) => continue,
                },
                (None, Some(value)) => {
                    self.sink
                        .error(value.span, "members have values only where the enumeration has a type")
                        .help(format!("write `enum bit<8> {}`", name.text));
                    continue;
                }
                (Some(_), None) => {
                    self.sink
                        .error(member.span, format!("`{}` needs a value", member.text))
                        .help("write ` = ` and a number");
                    continue;
                }
            };
            listed.push((Rc::clone(&member.text), value));
        }
        let needed = usize::BITS - members.len().saturating_sub(1).leading_zeros();
        let width = base.as_ref().and_then(Ty::width).unwrap_or(needed.max(1));
        let ty = EnumType { name: Rc::clone(&name.text), members: listed, width, base };
        self.declare(name, Entity::Type(Ty::Enum(Rc::new(ty))));
    }

    fn structure(&mut self, name: &Name, declared: &[FieldDecl], is_header: bool) {
        let mut fields: Vec<(Rc<str>, Ty)> = Vec::new();
        let mut bits = 0u64;
        for field in declared {
            let ty = self.ty(&field.ty);
            if fields.iter().any(|(other, _)| *other == field.name.text) {
                self.sink.error(field.name.span, format!("`{}` is declared a second time", field.name.text));
                continue;
            }
            let fits = match &ty {
                Ty::Unknown(_) => true,
                Ty::Struct(_) | Ty::Stack(..) => !is_header,
                other => other.width().is_some(),
            };
            if !fits {
                let what = if is_header { "a header" } else { "a struct" };
                let error =
                    self.sink.error(field.ty.span, format!("{what} cannot hold a field of type {ty}"));
                if is_header && matches!(ty, Ty::Struct(_)) {
                    error.help("write the fields of the struct in its place");
                }
                continue;
            }
            bits += u64::from(ty.width().unwrap_or_default());
            fields.push((Rc::clone(&field.name.text), ty));
        }
        let has_unknown = fields.len() < declared.len() || fields.iter().any(|(_, ty)| ty.is_unknown());
        if is_header && !bits.is_multiple_of(8) && !has_unknown {
            let message = format!("the header `{}` has {bits} bits, which are no whole bytes", name.text);
            self.sink.error(name.span, message).help(format!("add {} bits of padding", 8 - bits % 8));
        }
        let ty = StructType { name: Rc::clone(&name.text), is_header, fields };
        self.declare(name, Entity::Type(Ty::Struct(Rc::new(ty))));
    }

    pub(super) fn ty(&mut self, ty: &TypeExpr) -> Ty {
        match &ty.kind {
            TypeKind::Bit(width) => self.width(width).map_or_else(Ty::Unknown, Ty::Bit),
            TypeKind::Int(width) => self.width(width).map_or_else(Ty::Unknown, Ty::Int),
            TypeKind::Integer => Ty::Integer,
            TypeKind::Bool => Ty::Bool,
            TypeKind::Error => Ty::Error,
            TypeKind::Void => Ty::Void,
            TypeKind::Named(name) => match (&*name.text, self.find(&name.text)) {
                (_, Some(Entity::Type(ty))) => ty.clone(),
                ("packet_in", None) => Ty::PacketIn,
                ("packet_out", None) => Ty::PacketOut,
                (_, Some(_)) => Ty::Unknown(
                    self.sink.error(name.span, format!("`{}` is not a type", name.text)).reported(),
                ),
                (_, None) => self.unknown_type(name),
            },
            TypeKind::Stack(of, size) => {
                let element = self.ty(of);
                let size = self.bounded(size, 1, MAX_STACK, "the size of a stack");
                match (element, size) {
                    (Ty::Struct(of), Ok(size)) if of.is_header => Ty::Stack(of, size),
                    (Ty::Unknown(reported), _) | (_, Err(reported)) => Ty::Unknown(reported),
                    (other, _) => {
                        let message = format!("a stack holds headers, not {other}");
                        Ty::Unknown(self.sink.error(of.span, message).reported())
                    }
                }
            }
            TypeKind::Generic(name, _) => {
                let message = format!("`{}` is not a type of a value here", name.text);
                Ty::Unknown(self.sink.error(name.span, message).reported())
            }
        }
    }

    fn unknown_type(&mut self, name: &Name) -> Ty {
        let is_type = |entity: &Entity| matches!(entity, Entity::Type(_));
        let known =
            self.scopes.iter().flatten().filter(|(_, entity)| is_type(entity)).map(|(name, _)| &**name);
        let near = nearest(&name.text, known.chain(["bit", "int", "bool", "error"])).map(str::to_owned);
        let error = self.sink.error(name.span, format!("there is no type `{}`", name.text));
        error.label("not declared");
        match near {
            Some(near) => error.help(format!("did you mean `{near}`?")),
            None if &*name.text == "standard_metadata_t" => error.help("`#include <v1model.p4>` declares it"),
            None => error,
        };
        Ty::Unknown(error.reported())
    }

    fn width(&mut self, width: &Expr) -> Checked<u32> {
        self.bounded(width, 1, MAX_WIDTH, "a width")
    }

    /// A number that is known when the program is compiled, within bounds.
    pub(super) fn bounded(&mut self, expr: &Expr, least: u32, most: u32, what: &str) -> Checked<u32> {
        let (value, made) = self.captured(|checker| checker.expression(expr));
        let number = match value? {
            Value::Integer(number) if made.is_empty() => Some(number),
            Value::Scalar(Operand::Constant(constant), ty) if made.is_empty() => match ty.underlying() {
                Ty::Bit(_) => Some(BigInt::from(constant.value)),
                _ => None,
            },
            _ => None,
        };
        let Some(number) = number else {
            let message = format!("{what} is a number that is known when the program is compiled");
            return self.sink.error(expr.span, message).refused();
        };
        match number.to_u32().filter(|number| (least..=most).contains(number)) {
            Some(found) => Ok(found),
            None => {
                let message = format!("{what} is {least} to {most}, not {number}");
                self.sink.error(expr.span, message).refused()
            }
        }
    }

    /// A constant of a type.
    pub(super) fn known(&mut self, expr: &Expr, ty: &Ty) -> Checked<Constant> {
        let (value, _) = self.captured(|checker| {
            let value = checker.expression(expr)?;
            checker.coerced(value, ty, expr.span)
        });
        match value? {
            Value::Scalar(Operand::Constant(constant), _) => Ok(constant),
            _ => self
                .sink
                .error(expr.span, "this has to be known when the program is compiled")
                .label("is not")
                .refused(),
        }
    }

    /// Containers for a value of this type.
    pub(super) fn place(&mut self, ty: &Ty, path: &str, kind: FieldKind, span: Span) -> Rc<Place> {
        // Past the bound, which is reported, nothing is made of what doubles with each level.
        if self.program.fields.len() >= super::MAX_FIELDS {
            return Rc::new(Place::Unknown(self.too_many_fields(span)));
        }
        Rc::new(match ty {
            Ty::Struct(of) => {
                let valid = of
                    .is_header
                    .then(|| self.new_field(format!("{path}.$valid"), 1, FieldKind::Validity, span));
                let kind = if of.is_header { FieldKind::Header } else { kind };
                let mut places = Vec::new();
                for (name, ty) in &of.fields {
                    places.push(self.place(ty, &format!("{path}.{name}"), kind, span));
                }
                match valid {
                    None => Place::Struct(Rc::clone(of), places),
                    Some(valid) => {
                        let scalar = |place: &Rc<Place>| match **place {
                            Place::Scalar(id, _) => Some(id),
                            _ => None,
                        };
                        let fields = places.iter().filter_map(scalar).collect();
                        self.program.headers.push(Header { name: path.to_owned(), fields, valid });
                        Place::Header(self.program.headers.len() as u32 - 1, Rc::clone(of), places)
                    }
                }
            }
            Ty::Stack(of, size) => {
                let next = self.new_field(format!("{path}.$next"), 16, FieldKind::Validity, span);
                let element = Ty::Struct(Rc::clone(of));
                let mut places = Vec::new();
                for i in 0..*size {
                    places.push(self.place(&element, &format!("{path}[{i}]"), kind, span));
                }
                let header = |place: &Rc<Place>| match **place {
                    Place::Header(id, ..) => Some(id),
                    _ => None,
                };
                let headers = places.iter().filter_map(header).collect();
                self.program.stacks.push(Stack { name: path.to_owned(), headers, next });
                Place::Stack(self.program.stacks.len() as u32 - 1, Rc::clone(of), places)
            }
            Ty::Unknown(reported) => Place::Unknown(*reported),
            ty => match ty.width() {
                Some(width) => Place::Scalar(self.new_field(path.to_owned(), width, kind, span), ty.clone()),
                None => {
                    let message = format!("a variable cannot be of type {ty}");
                    Place::Unknown(self.sink.error(span, message).reported())
                }
            },
        })
    }

    /// A variable with what it begins with.
    pub(super) fn variable(&mut self, variable: &Variable) {
        if variable.is_const {
            return self.constant(variable);
        }
        let ty = self.ty(&variable.ty);
        let path = self.path_to(&variable.name.text);
        let place = self.place(&ty, &path, FieldKind::Metadata, variable.name.span);
        if let Some(value) = &variable.value {
            // A mistake was reported; the variable is there all the same.
            let _ = self.assign_expression(&place, value);
        } else if matches!(self.place, Where::Action | Where::Parser) {
            // A table may be applied twice, a state may be entered twice.
            self.reset(&place);
        }
        self.declare(&variable.name, Entity::Place(place, Access::ReadWrite));
    }
}

/// Whether a value is known when the program is compiled.
fn is_constant(value: &Value) -> bool {
    match value {
        Value::Scalar(operand, _) => matches!(operand, Operand::Constant(_)),
        Value::Made(_, values) => values.iter().all(is_constant),
        Value::Integer(_) | Value::Invalid(_) => true,
        Value::Whole(_) | Value::List(_) | Value::Fields(_) | Value::Void => false,
    }
}

//! What controls declare: actions, tables, muTables, registers.

use std::collections::HashSet;
use std::rc::Rc;

use names::nearest;
use num_traits::ToPrimitive;

use crate::ast::{
    ActionDecl, Direction, EntryDecl, Expr, ExprKind, Instance, Local, MuTableDecl, Name, TableDecl,
    TypeExpr, TypeKind,
};
use crate::diagnostic::Checked;
use crate::ir::{
    Action, ActionCall, Column, Consistency, Counter, Entry, FieldKind, KeySet, MatchKind, Matching,
    Mentions, Meter, MuTable, Operand, Register, StatementKind, Table, TableKey, Unit, exits, has_priorities,
};

use crate::source::Span;
use crate::uses::Object;

use super::arguments::Call;
use super::types::{
    Access, ActionEntity, Entity, Listed, MuTableEntity, Place, StructType, TableEntity, Ty, Value,
};
use super::{Checker, Where};

/// Entries of a table that does not say how many.
const DEFAULT_SIZE: u32 = 1024;

/// Entries, and values of a register, at most.
const MAX_SIZE: u32 = 1 << 24;

/// What a struct of a muTable's values is called.
pub(super) const VALUES: &str = "values of a muTable";

impl Checker<'_> {
    pub(super) fn locals(&mut self, locals: &[Local]) {
        for local in locals {
            match local {
                Local::Variable(variable) => self.variable(variable),
                Local::Action(action) => self.declare_action(action),
                Local::Table(table) => self.table(table),
                Local::MuTable(table) => self.mu_table(table),
                Local::Instance(instance) => self.instance(instance),
            }
        }
    }

    pub(super) fn declare_action(&mut self, action: &Rc<ActionDecl>) {
        let path = self.path_to(&action.name.text);
        let entity = ActionEntity { declared: Rc::clone(action), scope: self.scopes.len(), path };
        let entity = Rc::new(entity);
        self.declare(&action.name, Entity::Action(Rc::clone(&entity)));
        // Mistakes are found even if nobody calls it.
        let errors = self.sink.errors();
        if action.parameters.iter().all(|parameter| parameter.direction == Direction::None) {
            let _ = self.lowered_action(&entity);
        } else if errors == self.sink.errors() {
            self.check_action(&entity);
        }
    }

    /// Checks an action with directions, which is lowered anew wherever it is called.
    fn check_action(&mut self, entity: &Rc<ActionEntity>) {
        // A mistake was reported; nothing of it is kept anyway.
        let _ = self.captured(|checker| {
            checker.action_body(
                entity,
                entity.declared.name.span,
                |checker, parameter_ty, path, direction| {
                    let place =
                        checker.place(parameter_ty, path, FieldKind::Metadata, entity.declared.name.span);
                    let access = if matches!(direction, Direction::None | Direction::In) {
                        Access::ReadOnly
                    } else {
                        Access::ReadWrite
                    };
                    Some(Entity::Place(place, access))
                },
            )
        });
    }

    /// Writes out what an action does; `bind` says what each parameter stands for.
    pub(super) fn action_body(
        &mut self,
        entity: &Rc<ActionEntity>,
        span: Span,
        mut bind: impl FnMut(&mut Self, &Ty, &str, Direction) -> Option<Entity>,
    ) -> Checked<()> {
        self.enter(&entity.declared.name, span)?;
        let place = std::mem::replace(&mut self.place, Where::Action);
        let path = std::mem::replace(&mut self.path, entity.path.clone());
        let declared = Rc::clone(&entity.declared);
        self.at_scope(entity.scope, |checker| {
            for parameter in &declared.parameters {
                let ty = checker.ty(&parameter.ty);
                let path = format!("{}.{}", entity.path, parameter.name.text);
                if let Some(bound) = bind(checker, &ty, &path, parameter.direction) {
                    checker.declare(&parameter.name, bound);
                }
            }
            checker.statements(&declared.body);
        });
        (self.place, self.path) = (place, path);
        self.calls -= 1;
        Ok(())
    }

    /// An action of which all parameters come from entries.
    fn lowered_action(&mut self, entity: &Rc<ActionEntity>) -> Checked<u32> {
        // Only where it exits does it matter within which calls.
        let pending = self.pending();
        let is_it = |(other, within, id): &&(Rc<ActionEntity>, u32, u32)| {
            let exits = || exits(&self.program.actions[*id as usize].body);
            Rc::ptr_eq(other, entity) && (*within == pending || !exits())
        };
        if let Some((_, _, id)) = self.actions.iter().find(is_it) {
            return Ok(*id);
        }
        let mut parameters = Vec::new();
        let (done, body) = self.captured(|checker| {
            checker.action_body(entity, entity.declared.name.span, |checker, ty, path, _| {
                let place = checker.place(ty, path, FieldKind::Parameter, entity.declared.name.span);
                match &*place {
                    Place::Scalar(id, _) => parameters.push(*id),
                    Place::Unknown(_) => {}
                    _ => {
                        let message = format!("an entry cannot hold a value of type {ty}");
                        checker
                            .sink
                            .error(entity.declared.name.span, message)
                            .label("in this action's parameters");
                    }
                }
                Some(Entity::Place(place, Access::ReadOnly))
            })
        });
        done?;
        self.program.actions.push(Action { name: entity.path.clone(), parameters, body });
        let id = self.program.actions.len() as u32 - 1;
        self.actions.push((Rc::clone(entity), pending, id));
        Ok(id)
    }

    /// An action of which some arguments are given where the table lists it.
    fn bound_action(&mut self, entity: &Rc<ActionEntity>, arguments: &[Expr], expr: &Expr) -> Checked<u32> {
        let directed = |direction: Direction| direction != Direction::None;
        let expected =
            entity.declared.parameters.iter().filter(|parameter| directed(parameter.direction)).count();
        if arguments.len() != expected {
            let message = format!(
                "`{}` takes {expected} arguments here, not {}",
                entity.declared.name.text,
                arguments.len()
            );
            return self
                .sink
                .error(expr.span, message)
                .help("parameters with a direction are given here, the others in entries")
                .refused();
        }
        let of_entry = |parameter: &&crate::ast::Parameter| !directed(parameter.direction);
        let call = Call {
            parameters: entity.declared.parameters.iter().filter(|parameter| !of_entry(parameter)).collect(),
            span: expr.span,
            scope: entity.scope,
            path: entity.path.clone(),
            sees_caller: true,
        };
        let mut parameters = Vec::new();
        let (done, body) = self.captured(|checker| {
            checker.called(&call, arguments, |checker, bound| {
                let mut bound = bound.into_iter();
                checker.action_body(entity, expr.span, |checker, ty, path, direction| {
                    if direction != Direction::None {
                        return bound.next();
                    }
                    let place = checker.place(ty, path, FieldKind::Parameter, expr.span);
                    if let Place::Scalar(id, _) = *place {
                        parameters.push(id);
                    }
                    Some(Entity::Place(place, Access::ReadOnly))
                })
            })
        });
        done?;
        // The first keeps its name; within a table the name without the number is enough.
        let same = |action: &&Action| action.plain_name() == entity.path;
        let same = self.program.actions.iter().filter(same).count();
        let name = if same == 0 { entity.path.clone() } else { format!("{}#{}", entity.path, same + 1) };
        self.program.actions.push(Action { name, parameters, body });
        Ok(self.program.actions.len() as u32 - 1)
    }

    pub(super) fn no_action(&mut self) -> u32 {
        if let Some(id) = self.no_action {
            return id;
        }
        self.program.actions.push(Action {
            name: "NoAction".into(),
            parameters: Vec::new(),
            body: Vec::new(),
        });
        let id = self.program.actions.len() as u32 - 1;
        self.no_action = Some(id);
        id
    }

    /// An action in a table's list.
    fn listed_action(&mut self, expr: &Expr) -> Checked<Listed> {
        let Some((name, given)) = split_call(expr) else {
            return self.sink.error(expr.span, "this is an action of the table").refused();
        };
        let listed = |id| Listed { name: Rc::clone(&name.text), id, given: given.to_vec() };
        if &*name.text == "NoAction" && self.find("NoAction").is_none() {
            self.expect_arguments(given, 0, expr.span)?;
            return Ok(listed(self.no_action()));
        }
        let Some(Entity::Action(entity)) = self.find(&name.text).cloned() else {
            let actions = self.scopes.iter().flatten();
            let actions =
                actions.filter(|(_, entity)| matches!(entity, Entity::Action(_))).map(|(name, _)| &**name);
            let help = nearest(&name.text, actions.chain(["NoAction"]))
                .map(|near| format!("did you mean `{near}`?"));
            let error = self.sink.error(name.span, format!("there is no action `{}`", name.text));
            error.help = help;
            return error.refused();
        };
        let has_directions =
            entity.declared.parameters.iter().any(|parameter| parameter.direction != Direction::None);
        let id = match has_directions {
            false if given.is_empty() => self.lowered_action(&entity)?,
            _ => self.bound_action(&entity, given, expr)?,
        };
        Ok(listed(id))
    }

    fn table(&mut self, declared: &Rc<TableDecl>) {
        let name = self.path_to(&declared.name.text);
        let mut keys = Vec::new();
        let mut types = Vec::new();
        let (complete, prelude) = self.captured(|checker| {
            let mut complete = Ok(());
            for (expr, kind) in &declared.keys {
                let key = checker.match_kind(kind).and_then(|kind| {
                    let (value, ty) = checker.scalar_operand(expr, "a key")?;
                    Ok((kind, value, ty))
                });
                let (kind, value, ty) = match key {
                    Ok(key) => key,
                    Err(reported) => {
                        complete = Err(reported);
                        continue;
                    }
                };
                if ty.is_signed() && kind != MatchKind::Exact {
                    checker.sink.refuse(expr.span, "a key with a sign that is not matched exactly is");
                }
                keys.push(TableKey { name: checker.written(expr, value), value, kind });
                types.push(ty);
            }
            complete
        });
        if keys.iter().filter(|key| key.kind == MatchKind::Lpm).count() > 1 {
            self.sink
                .error(declared.name.span, "a table has one key that is matched lpm")
                .label("has several");
        }
        let mut actions: Vec<Listed> = Vec::new();
        for expr in &declared.actions {
            let Ok(listed) = self.listed_action(expr) else { continue };
            if actions.iter().any(|known| known.name == listed.name) {
                self.sink.error(expr.span, format!("`{}` is listed already", listed.name));
                continue;
            }
            actions.push(listed);
        }
        let default = match &declared.default_action {
            Some((expr, _)) => self.action_call(expr, &actions),
            None => Ok(ActionCall { action: self.no_action(), arguments: Vec::new() }),
        };
        // What is done by default is one of its actions, whether listed or not.
        if let Ok(default) = &default
            && !actions.iter().any(|listed| listed.id == default.action)
        {
            actions.push(Listed { name: "NoAction".into(), id: default.action, given: Vec::new() });
        }
        let size = declared.size.as_ref().map(|size| self.bounded(size, 1, MAX_SIZE, "the size of a table"));
        let mut entries = Vec::new();
        // A table without all of its keys has no entries that make sense.
        for entry in declared.entries.iter().flat_map(|(entries, _)| entries) {
            if complete.is_ok() {
                entries.extend(self.entry(entry, &keys, &types, &actions).map(|made| (made, entry.span)));
            }
        }
        self.expect_distinct(&entries, has_priorities(&keys));
        let entries: Vec<Entry> = entries.into_iter().map(|(entry, _)| entry).collect();
        let size = size.and_then(Checked::ok).unwrap_or(DEFAULT_SIZE.max(entries.len() as u32));
        if entries.len() > size as usize {
            let message = format!("{} entries do not fit in a table of {size}", entries.len());
            self.sink.error(declared.name.span, message);
        }
        let table = Table {
            name,
            keys,
            actions: actions.iter().map(|listed| listed.id).collect(),
            default: default.unwrap_or_default(),
            is_default_const: declared.default_action.as_ref().is_some_and(|(_, is_const)| *is_const),
            entries,
            is_const: declared.entries.as_ref().is_some_and(|(_, is_const)| *is_const),
            size,
        };
        self.program.tables.push(table);
        let id = self.program.tables.len() as u32 - 1;
        let entity = TableEntity { id, prelude, actions };
        self.declare(&declared.name, Entity::Table(Rc::new(entity)));
    }

    /// Two entries with the same keys: where no order decides between them that is an error, and elsewhere the
    /// second one never matches.
    fn expect_distinct(&mut self, entries: &[(Entry, Span)], has_priorities: bool) {
        let mut known: HashSet<&[KeySet]> = HashSet::new();
        for (entry, span) in entries {
            if known.insert(&entry.keys) {
                continue;
            }
            let message = "an entry above has the same keys";
            if has_priorities {
                self.sink.warn(*span, message, "never matches");
            } else {
                self.sink.error(*span, message).label("is there already").help("remove one of them");
            }
        }
    }

    fn match_kind(&mut self, kind: &Name) -> Checked<MatchKind> {
        match &*kind.text {
            "exact" => Ok(MatchKind::Exact),
            "lpm" => Ok(MatchKind::Lpm),
            "ternary" => Ok(MatchKind::Ternary),
            "range" => Ok(MatchKind::Range),
            "optional" => Ok(MatchKind::Optional),
            "selector" => self.sink.refuse(kind.span, "`selector` is").refused(),
            _ => {
                let kinds = self.match_kinds.clone();
                let near = nearest(&kind.text, kinds.iter().map(|kind| &**kind));
                let help = near.map(|near| format!("did you mean `{near}`?"));
                let error = self.sink.error(kind.span, format!("keys are not matched `{}`", kind.text));
                error.help = help;
                error.refused()
            }
        }
    }

    /// How a key is written: its field, or the expression's number.
    fn written(&self, expr: &Expr, value: Operand) -> String {
        match (value, self.quiet_place(expr).as_deref()) {
            (_, Some(Place::Scalar(id, _))) => self.program.fields[*id as usize].name.clone(),
            (Operand::Field(id), _) => self.program.fields[id as usize].name.clone(),
            (Operand::Constant(constant), _) => constant.to_string(),
        }
    }

    /// An action with what it is given, as a default or by an entry. Arguments for parameters with directions are those
    /// of the table's list (P4-16, "Default action"), and may be left out.
    fn action_call(&mut self, expr: &Expr, listed: &[Listed]) -> Checked<ActionCall> {
        let Some((name, arguments)) = split_call(expr) else {
            return self.sink.error(expr.span, "this is an action with its arguments").refused();
        };
        let Some(known) = listed.iter().find(|known| known.name == name.text) else {
            if &*name.text == "NoAction" && self.find("NoAction").is_none() {
                self.expect_arguments(arguments, 0, expr.span)?;
                return Ok(ActionCall { action: self.no_action(), arguments: Vec::new() });
            }
            let near = nearest(&name.text, listed.iter().map(|known| &*known.name))
                .map(|near| format!("did you mean `{near}`?"));
            let message = format!("`{}` is none of the table's actions", name.text);
            let error = self.sink.error(name.span, message);
            error.help = near.or(Some("add it to `actions`".to_owned()));
            return error.refused();
        };
        let arguments = self.of_entry(&name, arguments, known)?;
        let action = known.id;
        let parameters = self.program.actions[action as usize].parameters.clone();
        if arguments.len() != parameters.len() {
            let plural = if parameters.len() == 1 { "" } else { "s" };
            let message =
                format!("this takes {} argument{plural}, not {}", parameters.len(), arguments.len());
            return self.sink.error(expr.span, message).refused();
        }
        let types = self.parameter_types(&name, &parameters);
        let known: Vec<_> =
            arguments.into_iter().zip(types).map(|(argument, ty)| self.known(argument, &ty)).collect();
        Ok(ActionCall { action, arguments: known.into_iter().collect::<Checked<_>>()? })
    }

    /// Those arguments that the entry gives: all of them, without those that repeat the table's list.
    fn of_entry<'e>(&mut self, name: &Name, arguments: &'e [Expr], known: &Listed) -> Checked<Vec<&'e Expr>> {
        let Some(Entity::Action(entity)) = self.find(&name.text).cloned() else {
            return Ok(arguments.iter().collect());
        };
        let parameters = &entity.declared.parameters;
        if known.given.is_empty() || arguments.len() != parameters.len() {
            return Ok(arguments.iter().collect());
        }
        let mut given = known.given.iter();
        let mut of_entry = Vec::new();
        for (parameter, argument) in parameters.iter().zip(arguments) {
            if parameter.direction == Direction::None {
                of_entry.push(argument);
            } else if !given.next().is_some_and(|given| given.is_like(argument)) {
                return self
                    .sink
                    .error(argument.span, format!("`{}` is given this in `actions`", parameter.name.text))
                    .label("differs from the table's list")
                    .help("write here what the list has, or leave it out")
                    .refused();
            }
        }
        Ok(of_entry)
    }

    fn parameter_types(&mut self, name: &Name, fields: &[u32]) -> Vec<Ty> {
        let widths: Vec<Ty> =
            fields.iter().map(|id| Ty::Bit(self.program.fields[*id as usize].width)).collect();
        let Some(Entity::Action(entity)) = self.find(&name.text).cloned() else { return widths };
        let undirected =
            entity.declared.parameters.iter().filter(|parameter| parameter.direction == Direction::None);
        let types: Vec<TypeExpr> = undirected.map(|parameter| parameter.ty.clone()).collect();
        let types: Vec<Ty> =
            types.iter().map(|ty| self.at_scope(entity.scope, |checker| checker.ty(ty))).collect();
        if types.len() == fields.len() { types } else { widths }
    }

    fn entry(
        &mut self,
        entry: &EntryDecl,
        keys: &[TableKey],
        types: &[Ty],
        actions: &[Listed],
    ) -> Checked<Entry> {
        let call = self.action_call(&entry.action, actions);
        // `_` alone stands for all keys.
        let is_any = matches!(&entry.keys[..], [Expr { kind: ExprKind::Any, .. }]);
        if entry.keys.len() != keys.len() && !is_any {
            let message = format!("the table has {} keys, this entry {}", keys.len(), entry.keys.len());
            return self.sink.error(entry.span, message).refused();
        }
        let expr = |at: usize| if is_any { &entry.keys[0] } else { &entry.keys[at] };
        let sets = keys.iter().zip(types).enumerate();
        let sets = sets
            .map(|(at, (key, ty))| self.entry_key(expr(at), ty, key.kind))
            .collect::<Checked<Vec<_>>>()?;
        Ok(Entry { keys: sets, call: call? })
    }

    fn mu_table(&mut self, declared: &Rc<MuTableDecl>) {
        let mut columns = Vec::new();
        let mut types = Vec::new();
        let ((), _) = self.captured(|checker| {
            for key in &declared.keys {
                let Ok((value, ty)) = checker.scalar_operand(key, "a key") else { continue };
                columns.push(Column { name: checker.written(key, value), width: ty.width().unwrap_or(1) });
                types.push(ty);
            }
        });
        let mut fields: Vec<(Rc<str>, Ty)> = Vec::new();
        for field in &declared.values {
            let ty = self.ty(&field.ty);
            if ty.width().is_none() && !ty.is_unknown() {
                self.sink.error(field.ty.span, format!("a muTable cannot hold a value of type {ty}"));
                continue;
            }
            if fields.iter().any(|(name, _)| *name == field.name.text) {
                self.sink.error(field.name.span, format!("`{}` is declared a second time", field.name.text));
            }
            fields.push((Rc::clone(&field.name.text), ty));
        }
        for (is_missing, what) in [(declared.keys.is_empty(), "keys"), (declared.values.is_empty(), "values")]
        {
            if is_missing {
                let message = format!("the muTable `{}` has no {what}", declared.name.text);
                self.sink.error(declared.name.span, message).help(format!("add `{what} = {{ ... }}`"));
            }
        }
        let matching = self.matching(declared);
        if matching == Matching::Direct && columns.len() > 1 {
            self.sink.error(declared.name.span, "a muTable of type `direct` has one key: the entry's number");
        }
        let consistency = self.consistency(declared);
        let size = declared.size.as_ref();
        let size = size.and_then(|size| self.bounded(size, 1, MAX_SIZE, "the size of a muTable").ok());
        let values =
            fields.iter().map(|(name, ty)| Column { name: name.to_string(), width: ty.width().unwrap_or(1) });
        let table = MuTable {
            name: self.path_to(&declared.name.text),
            keys: columns,
            values: values.collect(),
            matching,
            consistency,
            size: size.unwrap_or(DEFAULT_SIZE),
            mentions: Mentions::default(),
        };
        self.program.mu_tables.push(table);
        let id = self.program.mu_tables.len() as u32 - 1;
        self.declares(Object::MuTable(id), declared.name.span);
        let entity = MuTableEntity {
            id,
            declared: Rc::clone(declared),
            scope: self.scopes.len(),
            keys: types,
            values: Rc::new(StructType { name: VALUES.into(), is_header: false, fields }),
        };
        self.declare(&declared.name, Entity::MuTable(Rc::new(entity)));
    }

    fn matching(&mut self, declared: &MuTableDecl) -> Matching {
        let Some(kind) = &declared.kind else { return Matching::Exact };
        match &*kind.text {
            "exact" => Matching::Exact,
            "ternary" => Matching::Ternary,
            "lpm" => Matching::Lpm,
            "direct" => Matching::Direct,
            other => {
                let known = ["exact", "ternary", "lpm", "direct"];
                let help = nearest(other, known).map_or_else(
                    || format!("there are: {}", known.join(", ")),
                    |near| format!("did you mean `{near}`?"),
                );
                self.sink.error(kind.span, format!("there is no type `{other}` of muTables")).help(help);
                Matching::Exact
            }
        }
    }

    fn consistency(&mut self, declared: &MuTableDecl) -> Consistency {
        let Some((level, bound)) = &declared.consistency else { return Consistency::Strict };
        match (&*level.text, bound) {
            ("STRICT", None) => Consistency::Strict,
            ("WEAK", None) => Consistency::Weak,
            ("BS", Some(bound)) => {
                let bound = self.bounded(bound, 1, 1 << 20, "the bound of packets that may see an old state");
                bound.map_or_else(|_| Consistency::Strict, Consistency::BoundedStaleness)
            }
            _ => {
                let message = format!("there is no consistency `{}`", level.text);
                self.sink.error(level.span, message).help("there are: STRICT, WEAK, BS(K)");
                Consistency::Strict
            }
        }
    }

    pub(super) fn instance(&mut self, instance: &Instance) {
        let (name, of) = match &instance.ty.kind {
            TypeKind::Generic(name, of) => (name, of.as_slice()),
            TypeKind::Named(name) => (name, [].as_slice()),
            _ => {
                self.sink.error(instance.ty.span, "there are no instances of this type");
                return;
            }
        };
        let path = self.path_to(&instance.name.text);
        let arguments = &instance.arguments;
        let mentions = Mentions::default();
        match (&*name.text, self.find(&name.text).cloned()) {
            (_, Some(Entity::Control(declared))) => {
                if self.expect_arguments(arguments, 0, instance.ty.span).is_ok() {
                    self.declare(&instance.name, Entity::Instance(declared, Rc::clone(&instance.name.text)));
                }
            }
            ("register", None) => {
                let ty = match of {
                    [ty] | [ty, _] => self.ty(ty),
                    _ => {
                        self.sink
                            .error(instance.ty.span, "a register says what it holds")
                            .help("write `register<bit<32>>(1024)`");
                        return;
                    }
                };
                let Some(width) = ty.width() else {
                    if !ty.is_unknown() {
                        self.sink
                            .error(instance.ty.span, format!("a register cannot hold values of type {ty}"));
                    }
                    return;
                };
                if let Ok(size) = self.array_size(arguments, 1, instance) {
                    self.program.registers.push(Register { name: path, width, size, mentions });
                    let id = self.program.registers.len() as u32 - 1;
                    self.declares(Object::Register(id), instance.name.span);
                    self.declare(&instance.name, Entity::Register(id, ty));
                }
            }
            (kind @ ("counter" | "meter"), None) => {
                let Ok(size) = self.array_size(arguments, 2, instance) else { return };
                let Ok(unit) = self.unit(&arguments[1], kind == "counter") else { return };
                let (object, entity) = if kind == "counter" {
                    self.program.counters.push(Counter { name: path, unit, size, mentions });
                    let id = self.program.counters.len() as u32 - 1;
                    (Object::Counter(id), Entity::Counter(id))
                } else {
                    self.program.meters.push(Meter { name: path, unit, size, mentions });
                    let id = self.program.meters.len() as u32 - 1;
                    (Object::Meter(id), Entity::Meter(id))
                };
                self.declares(object, instance.name.span);
                self.declare(&instance.name, entity);
            }
            (
                refused @ ("direct_counter" | "direct_meter" | "action_profile" | "action_selector"
                | "Checksum16" | "value_set"),
                _,
            ) => {
                self.sink.refuse(name.span, &format!("`{refused}` is"));
            }
            (_, Some(Entity::Parser(_))) => {
                self.sink.refuse(name.span, "a parser that another one applies is");
            }
            (_, found) => {
                let controls = self.scopes.iter().flatten();
                let controls = controls
                    .filter(|(_, entity)| matches!(entity, Entity::Control(_)))
                    .map(|(name, _)| &**name);
                let near = nearest(&name.text, controls.chain(["register", "counter", "meter"]))
                    .map(|near| format!("did you mean `{near}`?"));
                let what = if found.is_some() {
                    "there are no instances of"
                } else {
                    "there is no control or extern"
                };
                self.sink.error(name.span, format!("{what} `{}`", name.text)).help = near;
            }
        }
    }

    fn array_size(&mut self, arguments: &[Expr], expected: usize, instance: &Instance) -> Checked<u32> {
        self.expect_arguments(arguments, expected, instance.ty.span.to(instance.name.span))?;
        self.bounded(&arguments[0], 1, MAX_SIZE, "a size")
    }

    fn unit(&mut self, expr: &Expr, is_counter: bool) -> Checked<Unit> {
        let value = self.expression(expr)?;
        let expected = if is_counter { "CounterType" } else { "MeterType" };
        if let Value::Scalar(Operand::Constant(constant), Ty::Enum(of)) = &value
            && &*of.name == expected
        {
            return Ok(match constant.value.to_u32() {
                Some(0) => Unit::Packets,
                Some(1) => Unit::Bytes,
                _ => Unit::PacketsAndBytes,
            });
        }
        self.sink.error(expr.span, format!("this is a member of {expected}")).refused()
    }

    /// Emits a header and what it holds.
    pub(super) fn emit_place(&mut self, place: &Place, span: Span) -> Checked<()> {
        match place {
            Place::Header(header, ..) => {
                self.emit(StatementKind::Emit { header: *header });
                Ok(())
            }
            Place::Struct(_, places) | Place::Stack(_, _, places) => {
                places.iter().try_for_each(|place| self.emit_place(place, span))
            }
            Place::Unknown(reported) => Err(*reported),
            Place::Scalar(_, ty) => {
                let message = format!("headers are emitted, and this holds a field of type {ty}");
                self.sink.error(span, message).refused()
            }
        }
    }
}

/// `name`, or `name(arguments)`.
fn split_call(expr: &Expr) -> Option<(Name, &[Expr])> {
    match &expr.kind {
        ExprKind::Name(name) => Some((name.clone(), &[])),
        ExprKind::Call(callee, _, arguments) => match &callee.kind {
            ExprKind::Name(name) => Some((name.clone(), arguments)),
            _ => None,
        },
        _ => None,
    }
}

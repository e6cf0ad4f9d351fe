//! Statements and calls.

use std::collections::HashMap;
use std::rc::Rc;

use paceline_p4::syntax::{
    ActionDecl, ControlDecl, Direction, Expr, ExprKind, Local, Parameter, Stmt, StmtKind, SwitchCase,
    TableDecl, Variable,
};

use super::{Flow, Step, Tree, Value, number};

/// The name and the arguments of `name` or `name(arguments)`.
pub(super) fn call_of(expr: &Expr) -> (String, &[Expr]) {
    match &expr.kind {
        ExprKind::Name(name) => (name.text.to_string(), &[]),
        ExprKind::Call(callee, _, arguments) => (call_of(callee).0, arguments),
        other => panic!("{other:?} is no action"),
    }
}

/// Whether a label is what a `switch` is about.
type IsLabel = Box<dyn Fn(&Tree, &Expr) -> bool>;

/// What became of a table's look-up.
struct Applied {
    hit: bool,
    action: String,
    flow: Flow,
}

impl Tree {
    pub(super) fn run_control(&mut self, control: &Rc<ControlDecl>) -> Flow {
        self.scopes.push(HashMap::new());
        self.control.push((Rc::clone(control), self.scopes.len()));
        for local in &control.locals {
            if let Local::Variable(variable) = local {
                self.variable(variable);
            }
        }
        let flow = self.body(&control.apply);
        self.control.pop();
        self.scopes.pop();
        flow
    }

    pub(super) fn variable(&mut self, variable: &Variable) {
        let value = match &variable.value {
            Some(value) => {
                let value = self.evaluate(value);
                self.converted(value, &variable.ty)
            }
            None => self.default_of(&variable.ty),
        };
        self.scopes.last_mut().expect("a scope").insert(variable.name.text.to_string(), value);
    }

    fn body(&mut self, statements: &[Stmt]) -> Flow {
        self.scopes.push(HashMap::new());
        let flow = self.statements(statements);
        self.scopes.pop();
        flow
    }

    pub(super) fn statements(&mut self, statements: &[Stmt]) -> Flow {
        for statement in statements {
            let flow = self.statement(statement);
            if flow != Flow::Next {
                return flow;
            }
        }
        Flow::Next
    }

    fn statement(&mut self, statement: &Stmt) -> Flow {
        match &statement.kind {
            StmtKind::Empty => Flow::Next,
            StmtKind::Block(statements) => self.body(statements),
            StmtKind::Variable(variable) => {
                if let Some(value) = &variable.value
                    && self.is_too_short(value)
                {
                    return Flow::Fail("PacketTooShort");
                }
                self.variable(variable);
                Flow::Next
            }
            StmtKind::Assign(target, value) => {
                if self.is_too_short(value) {
                    return Flow::Fail("PacketTooShort");
                }
                let value = self.evaluate(value);
                self.assign(target, value);
                Flow::Next
            }
            StmtKind::If(condition, then, otherwise) => {
                let (is_so, flow) = match self.applied(condition) {
                    Some((applied, member)) => ((member == "hit") == applied.hit, applied.flow),
                    None => (self.evaluate(condition).bool(), Flow::Next),
                };
                match (flow, otherwise) {
                    (Flow::Next, _) if is_so => self.body(std::slice::from_ref(then)),
                    (Flow::Next, Some(otherwise)) => self.body(std::slice::from_ref(otherwise)),
                    (flow, _) => flow,
                }
            }
            StmtKind::Switch(subject, cases) => self.switch(subject, cases),
            StmtKind::Call(call) => self.call(call),
            StmtKind::Return => Flow::Return,
            StmtKind::Exit => Flow::Exit,
        }
    }

    fn switch(&mut self, subject: &Expr, cases: &[SwitchCase]) -> Flow {
        let is_it: IsLabel = match self.applied(subject) {
            Some((Applied { flow: Flow::Next, action, .. }, _)) => {
                Box::new(move |_, label| call_of(label).0 == action)
            }
            Some((applied, _)) => return applied.flow,
            None => {
                let value = self.evaluate(subject);
                Box::new(move |tree, label| tree.like_place(tree.evaluate_pure(label), &value) == value)
            }
        };
        let found = cases.iter().position(|case| case.label.as_ref().is_none_or(|label| is_it(self, label)));
        let body = found.and_then(|at| cases[at..].iter().find_map(|case| case.body.as_ref()));
        body.map_or(Flow::Next, |body| self.body(std::slice::from_ref(body)))
    }

    /// `table.apply().hit`, done.
    fn applied(&mut self, expr: &Expr) -> Option<(Applied, String)> {
        let ExprKind::Member(of, member) = &expr.kind else { return None };
        let ExprKind::Call(callee, ..) = &of.kind else { return None };
        let ExprKind::Member(table, method) = &callee.kind else { return None };
        if &*method.text != "apply" {
            return None;
        }
        let table = self.table(&call_of(table).0).expect("a table");
        Some((self.apply(&table), member.text.to_string()))
    }

    pub(super) fn evaluate(&mut self, expr: &Expr) -> Value {
        if let ExprKind::Call(callee, ..) = &expr.kind
            && let ExprKind::Member(of, method) = &callee.kind
            && &*method.text == "read"
        {
            let name = call_of(of).0;
            let (keys, values) = self.mu_table(&name);
            let found = self.mu_tables.get(&(name, keys)).cloned();
            return found.unwrap_or(values).swap_remove(0);
        }
        self.evaluate_pure(expr)
    }

    /// Keys as they are now, and values of 0.
    fn mu_table(&self, name: &str) -> (Vec<i128>, Vec<Value>) {
        let (control, _) = self.control.last().expect("a control");
        let declared = control.locals.iter().find_map(|local| match local {
            Local::MuTable(table) if *table.name.text == *name => Some(table),
            _ => None,
        });
        let declared = declared.expect("a muTable");
        let keys = declared.keys.iter().map(|key| self.evaluate_pure(key).int()).collect();
        (keys, declared.values.iter().map(|value| self.default_of(&value.ty)).collect())
    }

    fn is_too_short(&self, expr: &Expr) -> bool {
        match &expr.kind {
            ExprKind::Call(callee, types, _) => match &callee.kind {
                ExprKind::Member(_, name) if &*name.text == "lookahead" => self.ahead(&types[0]).is_none(),
                ExprKind::Member(of, _) => self.is_too_short(of),
                _ => false,
            },
            ExprKind::Member(of, _) | ExprKind::Cast(_, of) | ExprKind::Slice(of, ..) => {
                self.is_too_short(of)
            }
            _ => false,
        }
    }

    fn assign(&mut self, target: &Expr, value: Value) {
        let (name, steps) = self.path(target);
        let value = self.like_place(value, &self.variable_of(&name).part(&steps));
        self.set(&name, &steps, value);
    }

    fn set(&mut self, name: &str, steps: &[Step], value: Value) {
        let variable = self.scopes.iter_mut().rev().find_map(|scope| scope.get_mut(name));
        variable.expect("a variable").set_part(steps, value);
    }

    fn change(&mut self, target: &Expr, change: impl FnOnce(&mut Value)) {
        let (name, steps) = self.path(target);
        let mut value = self.variable_of(&name).part(&steps);
        change(&mut value);
        self.set(&name, &steps, value);
    }

    fn call(&mut self, call: &Expr) -> Flow {
        let ExprKind::Call(callee, _, arguments) = &call.kind else { panic!("{call:?}") };
        let ExprKind::Member(of, method) = &callee.kind else {
            return self.function(&call_of(callee).0, arguments);
        };
        let name = if let ExprKind::Name(name) = &of.kind { name.text.to_string() } else { String::new() };
        match (&*method.text, &arguments[..]) {
            ("setValid" | "setInvalid", _) => self.change(of, |value| {
                let Value::Header { valid, .. } = value else { panic!("no header") };
                *valid = &*method.text == "setValid";
            }),
            ("push_front" | "pop_front", [by]) => {
                let by = self.evaluate(by).int() as usize;
                self.change(of, |value| move_stack(value, by, &*method.text == "push_front"));
            }
            ("apply", arguments) => return self.apply_named(&name, arguments),
            ("extract", [target]) => return self.extract(target),
            ("advance", [by]) => {
                let by = self.evaluate(by).int() as usize;
                if self.at + by > self.input.len() {
                    return Flow::Fail("PacketTooShort");
                }
                self.at += by;
            }
            ("emit", [what]) => {
                let what = self.evaluate(what);
                self.emit(&what);
            }
            ("read", [to, index]) => {
                let index = self.evaluate(index).int();
                let place = self.evaluate(to);
                let held = self.registers.get(&(name, index)).cloned();
                self.assign(to, held.unwrap_or_else(|| self.like_place(Value::Integer(0), &place)));
            }
            ("write", arguments) => self.write(&name, arguments),
            (other, _) => panic!("{other}"),
        }
        Flow::Next
    }

    fn write(&mut self, name: &str, arguments: &[Expr]) {
        let (control, _) = self.control.last().expect("a control");
        let is_mu = |local: &Local| matches!(local, Local::MuTable(table) if *table.name.text == *name);
        if control.locals.iter().any(is_mu) {
            let (keys, values) = self.mu_table(name);
            let new = self.evaluate(&arguments[1]);
            let new = self.like_place(new, &values[0]);
            self.mu_tables.insert((name.to_owned(), keys), vec![new]);
            return;
        }
        let size = control.locals.iter().find_map(|local| match local {
            Local::Instance(instance) if *instance.name.text == *name => Some(&instance.arguments[0]),
            _ => None,
        });
        let size = self.evaluate_pure(size.expect("a register")).int();
        let index = self.evaluate(&arguments[0]).int();
        let new = self.evaluate(&arguments[1]);
        if index < size {
            // All registers here hold bytes.
            self.registers.insert((name.to_owned(), index), number(new.int(), 8, false));
        }
    }

    fn extract(&mut self, target: &Expr) -> Flow {
        if let ExprKind::Member(stack, next) = &target.kind
            && &*next.text == "next"
        {
            let (name, steps) = self.path(stack);
            let Value::Stack { next, mut items } = self.variable_of(&name).part(&steps) else {
                panic!("a stack")
            };
            if next >= items.len() {
                return Flow::Fail("StackOutOfBounds");
            }
            let Some(filled) = self.taken(&items[next]) else { return Flow::Fail("PacketTooShort") };
            items[next] = filled;
            self.set(&name, &steps, Value::Stack { next: next + 1, items });
            return Flow::Next;
        }
        let place = self.evaluate(target);
        let Some(filled) = self.taken(&place) else { return Flow::Fail("PacketTooShort") };
        self.assign(target, filled);
        Flow::Next
    }

    fn taken(&mut self, place: &Value) -> Option<Value> {
        let mut source = self.input[self.at..].iter().copied();
        let before = source.len();
        let filled = place.filled(&mut source)?;
        self.at += before - source.len();
        Some(filled)
    }

    fn emit(&mut self, what: &Value) {
        match what {
            Value::Header { valid: true, .. } => what.bits(&mut self.output),
            Value::Header { .. } => {}
            Value::Struct { fields, .. } => fields.iter().for_each(|(_, field)| self.emit(field)),
            Value::Stack { items, .. } => items.iter().for_each(|item| self.emit(item)),
            other => panic!("{other:?} is emitted"),
        }
    }

    fn function(&mut self, name: &str, arguments: &[Expr]) -> Flow {
        match (name, arguments) {
            ("NoAction", _) => Flow::Next,
            ("mark_to_drop", [standard]) => {
                self.change(standard, |value| {
                    *value.field_mut("egress_spec") = number(511, 9, false);
                    *value.field_mut("mcast_grp") = number(0, 16, false);
                });
                Flow::Next
            }
            ("verify", [condition, error]) => {
                let is_so = self.evaluate(condition).bool();
                match (is_so, self.evaluate(error)) {
                    (false, Value::Error(name)) if name == "HeaderTooShort" => Flow::Fail("HeaderTooShort"),
                    (false, other) => panic!("{other:?}"),
                    (true, _) => Flow::Next,
                }
            }
            _ => {
                let action = self.action(name);
                let pairs: Vec<_> = action.parameters.iter().zip(arguments.iter().map(Some)).collect();
                self.run_action(&action, &pairs, &[])
            }
        }
    }

    /// What an entry or a default action gives, without what it repeats of the table's list.
    pub(super) fn held(&self, action: &str, arguments: &[Expr]) -> Vec<u128> {
        if action == "NoAction" {
            return Vec::new();
        }
        let parameters = &self.action(action).parameters;
        let is_whole = arguments.len() == parameters.len();
        let of_entry =
            arguments.iter().zip(parameters).filter(|(_, one)| !is_whole || one.direction == Direction::None);
        of_entry.map(|(argument, _)| self.evaluate_pure(argument).int() as u128).collect()
    }

    fn action(&self, name: &str) -> Rc<ActionDecl> {
        let (control, _) = self.control.last().expect("a control");
        let found = control.locals.iter().find_map(|local| match local {
            Local::Action(action) if *action.name.text == *name => Some(Rc::clone(action)),
            _ => None,
        });
        found.unwrap_or_else(|| panic!("no action {name}"))
    }

    fn table(&self, name: &str) -> Option<Rc<TableDecl>> {
        let (control, _) = self.control.last()?;
        control.locals.iter().find_map(|local| match local {
            Local::Table(table) if *table.name.text == *name => Some(Rc::clone(table)),
            _ => None,
        })
    }

    /// Runs an action in the scopes of its control. What no expression is given for comes from `held`, in order.
    fn run_action(
        &mut self,
        action: &Rc<ActionDecl>,
        given: &[(&Parameter, Option<&Expr>)],
        held: &[u128],
    ) -> Flow {
        let mut held = held.iter();
        let mut own = HashMap::new();
        for (parameter, argument) in given {
            let place = self.default_of(&parameter.ty);
            let value = match argument {
                None => self.like_place(Value::Integer(*held.next().expect("an argument") as i128), &place),
                Some(_) if parameter.direction == Direction::Out => place,
                Some(argument) => {
                    let value = self.evaluate(argument);
                    self.like_place(value, &place)
                }
            };
            own.insert(parameter.name.text.to_string(), value);
        }
        let depth = self.control.last().expect("a control").1;
        let hidden = self.scopes.split_off(depth);
        self.scopes.push(own);
        let flow = self.body(&action.body);
        let own = self.scopes.pop().expect("a scope");
        self.scopes.extend(hidden);
        self.copy_out(given, &own);
        if flow == Flow::Return { Flow::Next } else { flow }
    }

    fn copy_out(&mut self, given: &[(&Parameter, Option<&Expr>)], own: &HashMap<String, Value>) {
        for (parameter, argument) in given {
            if matches!(parameter.direction, Direction::Out | Direction::InOut)
                && let Some(argument) = argument
            {
                self.assign(argument, own[&*parameter.name.text].clone());
            }
        }
    }

    fn apply_named(&mut self, name: &str, arguments: &[Expr]) -> Flow {
        if let Some(table) = self.table(name) {
            return self.apply(&table).flow;
        }
        let (control, _) = self.control.last().expect("a control");
        let instance = control.locals.iter().find_map(|local| match local {
            Local::Instance(instance) if *instance.name.text == *name => Some(&instance.ty.kind),
            _ => None,
        });
        let Some(paceline_p4::syntax::TypeKind::Named(of)) = instance else { panic!("no control {name}") };
        let control = Rc::clone(&self.controls[&*of.text]);
        let given: Vec<_> = control.parameters.iter().zip(arguments.iter().map(Some)).collect();
        let mut own = HashMap::new();
        for (parameter, argument) in &given {
            let place = self.default_of(&parameter.ty);
            let value = match (parameter.direction, argument) {
                (Direction::Out, _) | (_, None) => place,
                (_, Some(argument)) => {
                    let value = self.evaluate(argument);
                    self.like_place(value, &place)
                }
            };
            own.insert(parameter.name.text.to_string(), value);
        }
        let hidden = std::mem::replace(&mut self.scopes, vec![own]);
        let flow = self.run_control(&control);
        let own = std::mem::replace(&mut self.scopes, hidden).swap_remove(0);
        self.copy_out(&given, &own);
        if flow == Flow::Return { Flow::Next } else { flow }
    }

    fn apply(&mut self, table: &TableDecl) -> Applied {
        let keys: Vec<Value> = table.keys.iter().map(|(key, _)| self.evaluate(key)).collect();
        let found = self.found(table, &keys);
        let hit = found.is_some();
        let (action, held) = match found {
            Some(entry) => (entry.action, entry.arguments),
            None => match &table.default_action {
                None => ("NoAction".to_owned(), Vec::new()),
                Some((call, _)) => {
                    let (action, arguments) = call_of(call);
                    let held = self.held(&action, arguments);
                    (action, held)
                }
            },
        };
        if action == "NoAction" {
            return Applied { hit, action, flow: Flow::Next };
        }
        let listed = table.actions.iter().map(call_of).find(|(name, _)| *name == action);
        let bound = listed.map_or(&[][..], |(_, arguments)| arguments);
        let declared = self.action(&action);
        let mut bound = bound.iter();
        let given: Vec<_> = declared
            .parameters
            .iter()
            .map(|parameter| match parameter.direction {
                Direction::None => (parameter, None),
                _ => (parameter, bound.next()),
            })
            .collect();
        let flow = self.run_action(&declared, &given, &held);
        Applied { hit, action, flow }
    }
}

/// P4-16, "Operations on header stacks": what comes in is not valid, and `nextIndex` moves along.
fn move_stack(stack: &mut Value, by: usize, is_push: bool) {
    let Value::Stack { next, items } = stack else { panic!("no stack") };
    let size = items.len();
    let invalid = |item: &Value| match item {
        Value::Header { ty, fields, .. } => {
            Value::Header { ty: ty.clone(), valid: false, fields: fields.clone() }
        }
        other => panic!("{other:?} is no header"),
    };
    let old = items.clone();
    for (at, item) in items.iter_mut().enumerate() {
        let from = if is_push { at.checked_sub(by) } else { Some(at + by) };
        *item = match from.and_then(|from| old.get(from)) {
            Some(from) => from.clone(),
            None => invalid(&old[at]),
        };
    }
    *next = if is_push { (*next + by).min(size) } else { next.saturating_sub(by) };
}

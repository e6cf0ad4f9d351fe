//! An interpreter of the syntax tree, after P4-16 and docs/p4.md, that shares nothing with the checker, the passes and
//! the interpreter of the representation; and random programs for it. Tests of other crates use it, too.
#![allow(dead_code, reason = "each test uses some of it")]

mod evaluate;
mod execute;
pub mod random;
mod value;

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use paceline_p4::Options;
use paceline_p4::syntax::{
    self, ControlDecl, Declaration, ExprKind, ParserDecl, TableDecl, Transition, TypeExpr, TypeKind,
};

use value::{Step, Value, number};

/// What an entry holds a key against.
#[derive(Clone, Copy, Debug)]
pub enum Match {
    Any,
    Masked(u128, u128),
    Range(u128, u128),
}

impl Match {
    fn contains(self, key: u128) -> bool {
        match self {
            Match::Any => true,
            Match::Masked(value, mask) => key & mask == value & mask,
            Match::Range(low, high) => low <= key && key <= high,
        }
    }
}

/// An entry that is added to a table. The lower priority comes first.
#[derive(Clone, Debug)]
pub struct Entry {
    pub keys: Vec<Match>,
    pub priority: u32,
    pub action: String,
    pub arguments: Vec<u128>,
}

/// How a statement ended.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Flow {
    Next,
    Return,
    Exit,
    /// The parser stops with this error.
    Fail(&'static str),
}

/// The type of an enumeration, if it has one, and its members.
type Enumeration = (Option<TypeExpr>, Vec<(String, i128)>);

/// A program, and what it keeps from packet to packet.
pub struct Tree {
    structs: HashMap<String, (bool, Vec<(String, TypeExpr)>)>,
    aliases: HashMap<String, TypeExpr>,
    enums: HashMap<String, Enumeration>,
    controls: HashMap<String, Rc<ControlDecl>>,
    parsers: HashMap<String, Rc<ParserDecl>>,
    blocks: Vec<String>,
    constants: HashMap<String, Value>,
    /// Entries by the name of their table.
    entries: HashMap<String, Vec<Entry>>,
    registers: BTreeMap<(String, i128), Value>,
    mu_tables: BTreeMap<(String, Vec<i128>), Vec<Value>>,
    /// Variables, the innermost last.
    scopes: Vec<HashMap<String, Value>>,
    /// The control that runs: its declaration, and how many scopes are its own.
    control: Vec<(Rc<ControlDecl>, usize)>,
    input: Vec<bool>,
    at: usize,
    output: Vec<bool>,
}

impl Tree {
    /// Reads a program.
    pub fn new(text: &str) -> Tree {
        let options = Options { no_files: true, ..Options::default() };
        let declarations = syntax::parse("test.p4", text, &options).expect("a program");
        let mut tree = Tree {
            structs: HashMap::new(),
            aliases: HashMap::new(),
            enums: HashMap::new(),
            controls: HashMap::new(),
            parsers: HashMap::new(),
            blocks: Vec::new(),
            constants: HashMap::new(),
            entries: HashMap::new(),
            registers: BTreeMap::new(),
            mu_tables: BTreeMap::new(),
            scopes: Vec::new(),
            control: Vec::new(),
            input: Vec::new(),
            at: 0,
            output: Vec::new(),
        };
        for declaration in &declarations {
            tree.declare(declaration);
        }
        tree
    }

    fn declare(&mut self, declaration: &Declaration) {
        match declaration {
            Declaration::Const(variable) => {
                let value = self.evaluate(variable.value.as_ref().expect("a value"));
                let value = self.converted(value, &variable.ty);
                self.constants.insert(variable.name.text.to_string(), value);
            }
            Declaration::Typedef(field) => {
                self.aliases.insert(field.name.text.to_string(), field.ty.clone());
            }
            Declaration::Enum { name, base, members } => {
                let value = |(at, (member, value)): (usize, &(syntax::Name, Option<syntax::Expr>))| {
                    let number = value.as_ref().map_or(at as i128, |value| self.evaluate(value).int());
                    (member.text.to_string(), number)
                };
                let members = members.iter().enumerate().map(value).collect();
                self.enums.insert(name.text.to_string(), (base.clone(), members));
            }
            Declaration::Struct { name, fields, is_header } => {
                let fields = fields.iter().map(|field| (field.name.text.to_string(), field.ty.clone()));
                self.structs.insert(name.text.to_string(), (*is_header, fields.collect()));
            }
            Declaration::Parser(parser) => {
                self.parsers.insert(parser.name.text.to_string(), Rc::clone(parser));
            }
            Declaration::Control(control) => {
                self.controls.insert(control.name.text.to_string(), Rc::clone(control));
            }
            Declaration::Instance(instance) => {
                for argument in &instance.arguments {
                    let ExprKind::Call(callee, ..) = &argument.kind else { panic!("a block") };
                    let ExprKind::Name(name) = &callee.kind else { panic!("a block") };
                    self.blocks.push(name.text.to_string());
                }
            }
            Declaration::Errors(_) | Declaration::MatchKinds(_) => {}
            Declaration::Action(_) => panic!("actions are in controls here"),
        }
    }

    /// Adds an entry to a table.
    pub fn add(&mut self, table: &str, entry: Entry) {
        let entries = self.entries.entry(table.to_owned()).or_default();
        let at = entries.partition_point(|other| other.priority <= entry.priority);
        entries.insert(at, entry);
    }

    /// What leaves for a packet: ports and bytes.
    pub fn packet(&mut self, port: u16, bytes: &[u8]) -> Vec<(u16, Vec<u8>)> {
        let parser = Rc::clone(&self.parsers[&self.blocks[0]]);
        self.input = bits(bytes);
        (self.at, self.output) = (0, Vec::new());
        let mut headers = self.default_of(&parser.parameters[1].ty);
        let mut metadata = self.default_of(&parser.parameters[2].ty);
        let mut standard = self.default_of(&parser.parameters[3].ty);
        let set = |standard: &mut Value, name: &str, value: i128| {
            let Value::Number { width, .. } = *standard.field(name) else { panic!("a number") };
            *standard.field_mut(name) = number(value, width, false);
        };
        set(&mut standard, "ingress_port", port.into());
        set(&mut standard, "packet_length", bytes.len() as i128);
        let error = self.parse(&parser, &mut headers, &mut metadata, &mut standard);
        *standard.field_mut("parser_error") = Value::Error(error.to_owned());
        let payload = bytes[self.at.div_ceil(8).min(bytes.len())..].to_vec();

        self.block(1, &mut [&mut headers, &mut metadata]);
        self.block(2, &mut [&mut headers, &mut metadata, &mut standard]);
        let goes_to = standard.field("egress_spec").int();
        if goes_to == 511 {
            return Vec::new();
        }
        set(&mut standard, "egress_port", goes_to);
        self.block(3, &mut [&mut headers, &mut metadata, &mut standard]);
        if standard.field("egress_spec").int() == 511 {
            return Vec::new();
        }
        self.block(4, &mut [&mut headers, &mut metadata]);
        self.block(5, &mut [&mut Value::Void, &mut headers]);
        let mut out: Vec<u8> = self
            .output
            .chunks(8)
            .map(|byte| byte.iter().fold(0, |value, bit| value << 1 | u8::from(*bit)))
            .collect();
        out.extend(payload);
        vec![(goes_to as u16, out)]
    }

    /// Runs a control of the architecture on these values.
    fn block(&mut self, at: usize, given: &mut [&mut Value]) {
        let control = Rc::clone(&self.controls[&self.blocks[at]]);
        let parameters = control.parameters.iter().zip(given.iter());
        let scope = parameters.map(|(parameter, value)| (parameter.name.text.to_string(), (**value).clone()));
        let scope: HashMap<String, Value> = scope.collect();
        self.scopes = vec![scope];
        self.run_control(&control);
        for (parameter, value) in control.parameters.iter().zip(given) {
            **value = self.scopes[0][&*parameter.name.text].clone();
        }
    }

    fn parse(
        &mut self,
        parser: &ParserDecl,
        headers: &mut Value,
        metadata: &mut Value,
        standard: &mut Value,
    ) -> &'static str {
        let names: Vec<String> = parser.parameters.iter().map(|one| one.name.text.to_string()).collect();
        let given = [Value::Void, headers.clone(), metadata.clone(), standard.clone()];
        self.scopes = vec![names.iter().cloned().zip(given).collect()];
        for local in &parser.locals {
            self.variable(local);
        }
        let mut state = "start".to_owned();
        let mut error = "ParserTimeout";
        for _ in 0..4096 {
            if state == "accept" || state == "reject" {
                error = "NoError";
                break;
            }
            let declared = parser.states.iter().find(|one| *one.name.text == *state).expect("a state");
            self.scopes.push(HashMap::new());
            let mut flow = self.statements(&declared.body);
            if flow == Flow::Next {
                match self.next_state(declared.transition.as_ref()) {
                    Some(next) => state = next,
                    None => flow = Flow::Fail("NoMatch"),
                }
            }
            self.scopes.pop();
            if let Flow::Fail(why) = flow {
                error = why;
                break;
            }
        }
        for (name, to) in names[1..].iter().zip([headers, metadata, standard]) {
            *to = self.scopes[0][name].clone();
        }
        error
    }

    fn next_state(&mut self, transition: Option<&Transition>) -> Option<String> {
        let (keys, cases) = match transition {
            None => return Some("reject".to_owned()),
            Some(Transition::Go(name)) => return Some(name.text.to_string()),
            Some(Transition::Select { keys, cases, .. }) => (keys, cases),
        };
        let keys: Vec<Value> = keys.iter().map(|key| self.evaluate(key)).collect();
        let found = cases.iter().find(|(set, _)| match &set.kind {
            ExprKind::Any => true,
            ExprKind::List(sets) => sets.iter().zip(&keys).all(|(set, key)| self.is_in(set, key)),
            _ => self.is_in(set, &keys[0]),
        });
        found.map(|(_, name)| name.text.to_string())
    }

    /// P4-16, "Operations on sets".
    fn is_in(&self, set: &syntax::Expr, key: &Value) -> bool {
        self.set_of(set, key).contains(unsigned(key))
    }

    fn set_of(&self, set: &syntax::Expr, key: &Value) -> Match {
        let of_key = |expr: &syntax::Expr| unsigned(&like(self.evaluate_pure(expr), key));
        match &set.kind {
            ExprKind::Any => Match::Any,
            ExprKind::Mask(value, mask) => Match::Masked(of_key(value), of_key(mask)),
            ExprKind::Range(low, high) => Match::Range(of_key(low), of_key(high)),
            _ => Match::Masked(of_key(set), u128::MAX),
        }
    }

    /// The entry of a table that these keys find (P4-16, "Entries").
    fn found(&mut self, table: &TableDecl, keys: &[Value]) -> Option<Entry> {
        let name = table.name.text.to_string();
        if !self.entries.contains_key(&name) {
            self.entries.insert(name.clone(), Vec::new());
            for (priority, entry) in table.entries.iter().flat_map(|(entries, _)| entries).enumerate() {
                let is_any = matches!(&entry.keys[..], [one] if matches!(one.kind, ExprKind::Any));
                let sets = keys.iter().enumerate().map(|(at, key)| match is_any {
                    true => Match::Any,
                    false => self.set_of(&entry.keys[at], key),
                });
                let sets = sets.collect();
                let (action, arguments) = execute::call_of(&entry.action);
                let arguments = self.held(&action, arguments);
                self.add(&name, Entry { keys: sets, priority: priority as u32, action, arguments });
            }
        }
        let kinds: Vec<&str> = table.keys.iter().map(|(_, kind)| &*kind.text).collect();
        let is_match = |entry: &&Entry| {
            !keys.is_empty() && entry.keys.iter().zip(keys).all(|(set, key)| set.contains(unsigned(key)))
        };
        let matching = self.entries[&name].iter().filter(is_match);
        let decides = kinds.iter().any(|kind| ["ternary", "range", "optional"].contains(kind));
        let prefix = kinds.iter().position(|kind| *kind == "lpm").filter(|_| !decides);
        let bits = |entry: &&Entry| match prefix.map(|at| entry.keys[at]) {
            Some(Match::Masked(_, mask)) => mask.count_ones(),
            _ => 0,
        };
        // The first of those with the longest prefix.
        let found = matching.rev().max_by_key(bits);
        found.cloned()
    }

    /// A value of a type before anything was written to it.
    fn default_of(&self, ty: &TypeExpr) -> Value {
        match &ty.kind {
            TypeKind::Bit(width) => number(0, self.evaluate_pure(width).int() as u32, false),
            TypeKind::Int(width) => number(0, self.evaluate_pure(width).int() as u32, true),
            TypeKind::Bool => Value::Bool(false),
            TypeKind::Error => Value::Error("NoError".to_owned()),
            TypeKind::Stack(of, size) => {
                let size = self.evaluate_pure(size).int() as usize;
                Value::Stack { next: 0, items: vec![self.default_of(of); size] }
            }
            TypeKind::Named(name) => {
                if let Some(alias) = self.aliases.get(&*name.text) {
                    return self.default_of(alias);
                }
                if let Some((base, _)) = self.enums.get(&*name.text) {
                    let width = base.as_ref().map_or(8, |base| width_of(&self.default_of(base)));
                    return Value::Enum(name.text.to_string(), 0, width);
                }
                let (is_header, fields) = &self.structs[&*name.text];
                let fields = fields.iter().map(|(field, ty)| (field.clone(), self.default_of(ty))).collect();
                let ty = name.text.to_string();
                match is_header {
                    true => Value::Header { ty, valid: false, fields },
                    false => Value::Struct { ty, fields },
                }
            }
            other => panic!("{other:?} has no values"),
        }
    }
}

fn bits(bytes: &[u8]) -> Vec<bool> {
    bytes.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1 == 1)).collect()
}

fn width_of(value: &Value) -> u32 {
    match value {
        Value::Number { width, .. } | Value::Enum(_, _, width) => *width,
        Value::Bool(_) => 1,
        other => panic!("{other:?} has no width"),
    }
}

/// The bits of a key.
fn unsigned(value: &Value) -> u128 {
    match value {
        Value::Number { value, width, .. } => value.rem_euclid(1 << width) as u128,
        other => other.int() as u128,
    }
}

/// A number without a width gets that of the other.
fn like(value: Value, other: &Value) -> Value {
    match (value, other) {
        (Value::Integer(value), Value::Number { width, signed, .. }) => number(value, *width, *signed),
        (value, _) => value,
    }
}

//! Random programs of controls and actions that call each other, beside an evaluator of their own text: environments of
//! variables, each call with copies of its arguments (P4-16 §6.8).

use super::common;

use std::collections::BTreeMap;
use std::fmt::Write;

use paceline_p4::interpret::Machine;
use paceline_p4::passes;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

/// A header of four bytes, and whether it is valid.
type Header = (bool, [u8; 4]);

/// What a parameter or a variable holds.
#[derive(Clone, Debug, PartialEq)]
enum Held {
    Byte(u8),
    Header(Header),
}

/// Which way a parameter goes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    In,
    Out,
    InOut,
}

/// A variable, or a part of it: a field of a header, some bits of a byte.
#[derive(Clone, Debug)]
struct Path {
    name: String,
    field: Option<usize>,
    /// The high or the low four bits.
    half: Option<bool>,
}

#[derive(Clone, Debug)]
enum Stmt {
    /// `target = a + b`, bytes.
    Add(Path, Path, Path),
    Set(Path, u8),
    SetValid(String, bool),
    CopyHeader(Path, Path),
    Call(usize, Vec<Path>),
    IfEqual(Path, u8, Vec<Stmt>),
    IfValid(String, Vec<Stmt>),
    Return,
    Exit,
}

/// An action of its control, or a control.
#[derive(Clone, Debug)]
struct Callee {
    is_action: bool,
    parameters: Vec<(Way, Kind)>,
    body: Vec<Stmt>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Byte,
    Half,
    Header,
}

/// What the body of a control or action can name: the first are written, the others only read.
#[derive(Clone, Debug, Default)]
struct Scope {
    bytes: Vec<String>,
    halves: Vec<String>,
    headers: Vec<String>,
    read_bytes: Vec<String>,
    read_halves: Vec<String>,
    read_headers: Vec<String>,
}

/// Who calls: a control applies controls, an action calls actions.
#[derive(Clone, Copy)]
enum Caller {
    Control,
    Action,
    Ingress,
}

/// Draws from a list of numbers, and from zeros behind them.
struct Draws<'a>(std::slice::Iter<'a, u8>);

impl Draws<'_> {
    fn below(&mut self, bound: usize) -> usize {
        usize::from(self.0.next().copied().unwrap_or_default()) % bound.max(1)
    }

    fn one<T: Clone>(&mut self, of: &[T]) -> Option<T> {
        if of.is_empty() { None } else { Some(of[self.below(of.len())].clone()) }
    }
}

const FIELDS: [&str; 4] = ["a", "b", "c", "d"];

fn parameter(at: usize) -> String {
    format!("p{at}")
}

impl Path {
    fn text(&self) -> String {
        let mut text = self.name.clone();
        if let Some(field) = self.field {
            write!(text, ".{}", FIELDS[field]).expect("text");
        }
        match self.half {
            Some(true) => text += "[7:4]",
            Some(false) => text += "[3:0]",
            None => {}
        }
        text
    }

    fn whole(name: String) -> Path {
        Path { name, field: None, half: None }
    }
}

/// Something of this kind that may be read, or written too.
fn path(draws: &mut Draws<'_>, scope: &Scope, kind: Kind, is_written: bool) -> Path {
    let both = |written: &[String], read: &[String]| -> Vec<String> {
        let read = if is_written { &[] } else { read };
        written.iter().chain(read).cloned().collect()
    };
    let (bytes, halves) = (both(&scope.bytes, &scope.read_bytes), both(&scope.halves, &scope.read_halves));
    let headers = both(&scope.headers, &scope.read_headers);
    match kind {
        Kind::Header => Path::whole(draws.one(&headers).unwrap_or_else(|| "meta.k".to_owned())),
        Kind::Half if !halves.is_empty() && draws.below(3) == 0 => Path::whole(draws.one(&halves).unwrap()),
        Kind::Half => Path { half: Some(draws.below(2) == 0), ..path(draws, scope, Kind::Byte, is_written) },
        Kind::Byte if !bytes.is_empty() && (headers.is_empty() || draws.below(2) == 0) => {
            Path::whole(draws.one(&bytes).unwrap())
        }
        Kind::Byte => {
            let name = draws.one(&headers).unwrap_or_else(|| "meta.k".to_owned());
            Path { name, field: Some(draws.below(4)), half: None }
        }
    }
}

/// Statements that call only what is declared before. `depth` bounds blocks.
fn body(draws: &mut Draws<'_>, scope: &Scope, callees: &[Callee], own: Caller, depth: u32) -> Vec<Stmt> {
    let mut body = Vec::new();
    for _ in 0..1 + draws.below(4) {
        let byte = |draws: &mut Draws<'_>, is_written| path(draws, scope, Kind::Byte, is_written);
        let is_callable = |at: &usize| match own {
            Caller::Control => !callees[*at].is_action,
            Caller::Action => callees[*at].is_action,
            Caller::Ingress => true,
        };
        let callable: Vec<usize> = (0..callees.len()).filter(is_callable).collect();
        body.push(match draws.below(12) {
            0 | 1 => Stmt::Add(byte(draws, true), byte(draws, false), byte(draws, false)),
            2 => {
                let kind = if draws.below(2) == 0 { Kind::Byte } else { Kind::Half };
                Stmt::Set(path(draws, scope, kind, true), draws.below(5) as u8)
            }
            3 => {
                let (to, from) =
                    (path(draws, scope, Kind::Header, true), path(draws, scope, Kind::Header, false));
                Stmt::CopyHeader(to, from)
            }
            4 => Stmt::SetValid(path(draws, scope, Kind::Header, true).name, draws.below(2) == 0),
            5 if depth < 2 => {
                let (what, value) = (byte(draws, false), draws.below(4) as u8);
                Stmt::IfEqual(what, value, self::body(draws, scope, callees, own, depth + 1))
            }
            6 if depth < 2 => {
                let what = path(draws, scope, Kind::Header, false).name;
                Stmt::IfValid(what, self::body(draws, scope, callees, own, depth + 1))
            }
            7 if depth > 0 => Stmt::Return,
            8 if depth > 0 => Stmt::Exit,
            _ => match draws.one(&callable) {
                Some(at) => {
                    let given = callees[at].parameters.clone();
                    let given = given.into_iter().map(|(way, kind)| path(draws, scope, kind, way != Way::In));
                    Stmt::Call(at, given.collect())
                }
                None => Stmt::Add(byte(draws, true), byte(draws, false), byte(draws, false)),
            },
        });
    }
    match (own, draws.below(6)) {
        (Caller::Ingress, _) => {}
        (_, 1) => body.push(Stmt::Exit),
        (_, 2) => body.push(Stmt::Return),
        _ => {}
    }
    body
}

/// What the parameters are named in a body, beside what it sees anyway.
fn scope_of(parameters: &[(Way, Kind)], outside: &Scope) -> Scope {
    let mut scope = outside.clone();
    for (at, (way, kind)) in parameters.iter().enumerate() {
        let list = match (kind, way) {
            (Kind::Byte, Way::In) => &mut scope.read_bytes,
            (Kind::Half, Way::In) => &mut scope.read_halves,
            (Kind::Header, Way::In) => &mut scope.read_headers,
            (Kind::Byte, _) => &mut scope.bytes,
            (Kind::Half, _) => &mut scope.halves,
            (Kind::Header, _) => &mut scope.headers,
        };
        list.push(parameter(at));
    }
    scope
}

fn outermost() -> Scope {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    Scope { bytes: names(&["meta.x", "meta.y"]), headers: names(&["hdr.h", "meta.k"]), ..Scope::default() }
}

struct Random {
    callees: Vec<Callee>,
    apply: Vec<Stmt>,
}

/// Controls first, each applied from the ingress; then actions of the ingress, which call those before.
fn random(numbers: &[u8]) -> Random {
    let mut draws = Draws(numbers.iter());
    let mut callees: Vec<Callee> = Vec::new();
    for at in 0..5 {
        let is_action = at >= 2;
        let way = |draws: &mut Draws<'_>| [Way::In, Way::Out, Way::InOut, Way::InOut][draws.below(4)];
        let kind =
            |draws: &mut Draws<'_>| [Kind::Byte, Kind::Half, Kind::Header, Kind::Header][draws.below(4)];
        let mut parameters = Vec::new();
        for _ in 0..1 + draws.below(3) {
            parameters.push((way(&mut draws), kind(&mut draws)));
        }
        // A control has something to work on.
        if !is_action {
            parameters.push((Way::InOut, Kind::Header));
        }
        let outside = if is_action { outermost() } else { Scope::default() };
        let scope = scope_of(&parameters, &outside);
        let own = if is_action { Caller::Action } else { Caller::Control };
        let body = body(&mut draws, &scope, &callees, own, 0);
        callees.push(Callee { is_action, parameters, body });
    }
    let apply = body(&mut draws, &outermost(), &callees, Caller::Ingress, 0);
    Random { callees, apply }
}

fn text(body: &[Stmt], callees: &[Callee], to: &mut String) {
    for statement in body {
        match statement {
            Stmt::Add(to_path, a, b) => writeln!(to, "{} = {} + {};", to_path.text(), a.text(), b.text()),
            Stmt::Set(path, value) => writeln!(to, "{} = {value};", path.text()),
            Stmt::SetValid(name, true) => writeln!(to, "{name}.setValid();"),
            Stmt::SetValid(name, false) => writeln!(to, "{name}.setInvalid();"),
            Stmt::CopyHeader(a, b) => writeln!(to, "{} = {};", a.text(), b.text()),
            Stmt::Call(at, given) => {
                let given: Vec<String> = given.iter().map(Path::text).collect();
                match callees[*at].is_action {
                    true => writeln!(to, "f{at}({});", given.join(", ")),
                    false => writeln!(to, "c{at}.apply({});", given.join(", ")),
                }
            }
            Stmt::IfEqual(path, value, body) => {
                writeln!(to, "if ({} == {value}) {{", path.text()).expect("text");
                text(body, callees, to);
                writeln!(to, "}}")
            }
            Stmt::IfValid(name, body) => {
                writeln!(to, "if ({name}.isValid()) {{").expect("text");
                text(body, callees, to);
                writeln!(to, "}}")
            }
            Stmt::Return => writeln!(to, "return;"),
            Stmt::Exit => writeln!(to, "exit;"),
        }
        .expect("text");
    }
}

impl Random {
    fn source(&self) -> String {
        let (mut controls, mut locals) = (String::new(), String::new());
        for (at, callee) in self.callees.iter().enumerate() {
            let parameters: Vec<String> = callee
                .parameters
                .iter()
                .enumerate()
                .map(|(number, (way, kind))| {
                    let way = ["in", "out", "inout"][*way as usize];
                    let ty = ["bit<8>", "bit<4>", "h_t"][*kind as usize];
                    format!("{way} {ty} {}", parameter(number))
                })
                .collect();
            let mut body = String::new();
            text(&callee.body, &self.callees, &mut body);
            match callee.is_action {
                true => writeln!(locals, "action f{at}({}) {{\n{body}}}", parameters.join(", ")),
                false => {
                    writeln!(locals, "C{at}() c{at};").expect("text");
                    let inner: String = (0..at).map(|inner| format!("C{inner}() c{inner}; ")).collect();
                    let parameters = parameters.join(", ");
                    writeln!(controls, "control C{at}({parameters}) {{ {inner}apply {{\n{body}}} }}")
                }
            }
            .expect("text");
        }
        let mut apply = String::from("standard.egress_spec = 1;\n");
        text(&self.apply, &self.callees, &mut apply);
        let metadata = "h_t k; bit<8> x; bit<8> y;";
        let fields = "bit<8> a; bit<8> b; bit<8> c; bit<8> d;";
        // What is left in the metadata is shown by the egress, which comes whatever ended the ingress.
        common::program(fields, metadata, &locals, &apply)
            .replacen("control Egress", &format!("{controls}\ncontrol Egress"), 1)
            .replacen(
                "inout standard_metadata_t standard) { apply { } }",
                "inout standard_metadata_t standard) { apply {
                     if (!hdr.h.isValid()) { hdr.h.setValid(); hdr.h.a = hdr.h.a ^ 255; }
                     hdr.h.b = hdr.h.b ^ meta.x; hdr.h.c = hdr.h.c ^ meta.y;
                     hdr.h.d = hdr.h.d ^ meta.k.a ^ meta.k.b ^ meta.k.c ^ meta.k.d;
                     if (meta.k.isValid()) { hdr.h.a = hdr.h.a ^ 15; }
                 } }",
                1,
            )
    }

    /// What leaves for a packet, by the language's rules alone, or with one of them broken.
    fn expected(&self, packet: [u8; 4], fault: Option<Fault>) -> [u8; 4] {
        let mut world = World {
            callees: &self.callees,
            fault,
            globals: BTreeMap::from([
                ("hdr.h".to_owned(), Held::Header((true, packet))),
                ("meta.k".to_owned(), Held::Header((false, [0; 4]))),
                ("meta.x".to_owned(), Held::Byte(0)),
                ("meta.y".to_owned(), Held::Byte(0)),
            ]),
        };
        world.run(&self.apply, &mut BTreeMap::new());
        let header = |name: &str| match &world.globals[name] {
            Held::Header(header) => *header,
            Held::Byte(_) => unreachable!(),
        };
        let byte = |name: &str| match world.globals[name] {
            Held::Byte(value) => value,
            Held::Header(_) => unreachable!(),
        };
        let ((is_valid, mut shown), (is_k_valid, k)) = (header("hdr.h"), header("meta.k"));
        if !is_valid {
            shown[0] ^= 255;
        }
        shown[1] ^= byte("meta.x");
        shown[2] ^= byte("meta.y");
        shown[3] ^= k[0] ^ k[1] ^ k[2] ^ k[3];
        if is_k_valid {
            shown[0] ^= 15;
        }
        shown
    }
}

type Locals = BTreeMap<String, Held>;

/// How calls might be wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    /// What is written is seen at once, by all names.
    ByReference,
    /// `exit` copies nothing out.
    ExitLoses,
    /// Copied out from right to left.
    RightToLeft,
    /// What goes out begins with what the argument holds.
    OutKeeps,
}

struct World<'a> {
    callees: &'a [Callee],
    fault: Option<Fault>,
    globals: Locals,
}

#[derive(Clone, Copy, PartialEq)]
enum Flow {
    Next,
    Return,
    Exit,
}

impl World<'_> {
    fn whole(&self, name: &str, locals: &Locals) -> Held {
        locals.get(name).or_else(|| self.globals.get(name)).expect("a variable").clone()
    }

    fn get(&self, path: &Path, locals: &Locals) -> Held {
        let held = match (self.whole(&path.name, locals), path.field) {
            (Held::Header((_, fields)), Some(field)) => Held::Byte(fields[field]),
            (held, _) => held,
        };
        match (held, path.half) {
            (Held::Byte(byte), Some(is_high)) => Held::Byte(if is_high { byte >> 4 } else { byte & 15 }),
            (held, _) => held,
        }
    }

    fn byte(&self, path: &Path, locals: &Locals) -> u8 {
        match self.get(path, locals) {
            Held::Byte(byte) => byte,
            Held::Header(_) => unreachable!(),
        }
    }

    fn set(&mut self, path: &Path, value: Held, locals: &mut Locals) {
        let old = self.whole(&path.name, locals);
        let merge = |old: u8, new: &Held| match (new, path.half) {
            (Held::Byte(new), Some(true)) => new << 4 | old & 15,
            (Held::Byte(new), Some(false)) => old & 0xf0 | new,
            (Held::Byte(new), None) => *new,
            (Held::Header(_), _) => unreachable!(),
        };
        let new = match (old, path.field, &value) {
            (Held::Header((is_valid, mut fields)), Some(field), _) => {
                fields[field] = merge(fields[field], &value);
                Held::Header((is_valid, fields))
            }
            (Held::Byte(old), _, _) => Held::Byte(merge(old, &value)),
            _ => value,
        };
        let slot = match locals.get_mut(&path.name) {
            Some(slot) => slot,
            None => self.globals.get_mut(&path.name).expect("a variable"),
        };
        *slot = new;
    }

    fn run(&mut self, body: &[Stmt], locals: &mut Locals) -> Flow {
        for statement in body {
            let flow = match statement {
                Stmt::Add(to, a, b) => {
                    let sum = self.byte(a, locals).wrapping_add(self.byte(b, locals));
                    self.set(to, Held::Byte(sum), locals);
                    Flow::Next
                }
                Stmt::Set(to, value) => {
                    self.set(to, Held::Byte(*value), locals);
                    Flow::Next
                }
                Stmt::SetValid(name, is_valid) => {
                    let Held::Header((_, fields)) = self.whole(name, locals) else { unreachable!() };
                    self.set(&Path::whole(name.clone()), Held::Header((*is_valid, fields)), locals);
                    Flow::Next
                }
                Stmt::CopyHeader(to, from) => {
                    let value = self.get(from, locals);
                    self.set(to, value, locals);
                    Flow::Next
                }
                Stmt::IfEqual(path, value, body) if self.byte(path, locals) == *value => {
                    self.run(body, locals)
                }
                Stmt::IfValid(name, body) if matches!(self.whole(name, locals), Held::Header((true, _))) => {
                    self.run(body, locals)
                }
                Stmt::IfEqual(..) | Stmt::IfValid(..) => Flow::Next,
                Stmt::Call(at, given) => self.call(*at, given, locals),
                Stmt::Return => Flow::Return,
                Stmt::Exit => Flow::Exit,
            };
            if flow != Flow::Next {
                return flow;
            }
        }
        Flow::Next
    }

    fn call(&mut self, at: usize, given: &[Path], locals: &mut Locals) -> Flow {
        let callees = self.callees;
        let callee = &callees[at];
        let mut own = Locals::new();
        for (number, ((way, kind), path)) in callee.parameters.iter().zip(given).enumerate() {
            let value = match (way, kind) {
                _ if self.fault == Some(Fault::OutKeeps) => self.get(path, locals),
                (Way::Out, Kind::Header) => Held::Header((false, [0; 4])),
                (Way::Out, _) => Held::Byte(0),
                _ => self.get(path, locals),
            };
            own.insert(parameter(number), value);
        }
        let flow = match self.fault {
            Some(Fault::ByReference) => self.by_reference(callee, given, &mut own, locals),
            _ => self.run(&callee.body, &mut own),
        };
        if flow != Flow::Exit || self.fault != Some(Fault::ExitLoses) {
            self.copy_out(callee, given, &own, locals);
        }
        if flow == Flow::Exit { Flow::Exit } else { Flow::Next }
    }

    fn copy_out(&mut self, callee: &Callee, given: &[Path], own: &Locals, locals: &mut Locals) {
        let mut pairs: Vec<_> = callee.parameters.iter().zip(given).enumerate().collect();
        if self.fault == Some(Fault::RightToLeft) {
            pairs.reverse();
        }
        for (number, ((way, _), path)) in pairs {
            if *way != Way::In {
                self.set(path, own[&parameter(number)].clone(), locals);
            }
        }
    }

    /// As far as one sees it between the statements of the body.
    fn by_reference(
        &mut self,
        callee: &Callee,
        given: &[Path],
        own: &mut Locals,
        locals: &mut Locals,
    ) -> Flow {
        for statement in &callee.body {
            let flow = self.run(std::slice::from_ref(statement), own);
            if flow != Flow::Next {
                return flow;
            }
            self.copy_out(callee, given, own, locals);
            for (number, path) in given.iter().enumerate() {
                let value = self.get(path, locals);
                own.insert(parameter(number), value);
            }
        }
        Flow::Next
    }
}

/// What differs, of the program as it is written and of what the passes make of it.
fn difference(random: &Random) -> Option<String> {
    let source = random.source();
    let whole = common::lowered(&source);
    let mut compiled = whole.clone();
    passes::compile(&mut compiled);
    for (what, program) in [("written", whole), ("compiled", compiled)] {
        let mut machine = Machine::new(program);
        for packet in [[1, 2, 3, 4], [0, 0, 0, 0], [2, 2, 1, 200]] {
            let expected = random.expected(packet, None);
            let out = machine.packet(0, &packet, 0);
            if out.len() != 1 || out[0].bytes != expected {
                let got = out.first().map(|out| out.bytes.clone());
                return Some(format!("{what}: for {packet:?} {got:?}, not {expected:?}\n{source}"));
            }
        }
    }
    None
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn calls_are_what_the_language_says(numbers in prop::collection::vec(any::<u8>(), 40..300)) {
        if let Some(found) = difference(&random(&numbers)) {
            prop_assert!(false, "{found}");
        }
    }
}

/// Programs of a fixed seed.
fn some(count: usize) -> Vec<Random> {
    let mut runner = TestRunner::deterministic();
    let numbers = prop::collection::vec(any::<u8>(), 40..300);
    (0..count).map(|_| random(&numbers.new_tree(&mut runner).expect("numbers").current())).collect()
}

/// Each way to get calls wrong shows in some of the programs.
#[test]
fn planted_faults_show() {
    let programs = some(1000);
    for fault in [Fault::ByReference, Fault::ExitLoses, Fault::RightToLeft, Fault::OutKeeps] {
        let shows = |random: &&Random| {
            let packets = [[1, 2, 3, 4], [0, 0, 0, 0], [2, 2, 1, 200]];
            packets
                .iter()
                .any(|packet| random.expected(*packet, None) != random.expected(*packet, Some(fault)))
        };
        let shown = programs.iter().filter(shows).count();
        assert!(shown > 5, "{fault:?} shows in {shown} programs");
    }
}

/// The programs have what matters: calls whose arguments meet, and `exit` and `return` in calls.
#[test]
fn programs_call_in_all_ways() {
    let (mut calls, mut meet, mut exits) = (0, 0, 0);
    for random in some(300) {
        let mut walk = vec![&random.apply];
        walk.extend(random.callees.iter().map(|callee| &callee.body));
        while let Some(body) = walk.pop() {
            for statement in body {
                match statement {
                    Stmt::Call(_, given) => {
                        calls += 1;
                        let names: Vec<&str> = given.iter().map(|path| &*path.name).collect();
                        meet += usize::from((1..names.len()).any(|at| names[..at].contains(&names[at])));
                    }
                    Stmt::IfEqual(_, _, body) | Stmt::IfValid(_, body) => walk.push(body),
                    Stmt::Exit | Stmt::Return => exits += 1,
                    _ => {}
                }
            }
        }
    }
    assert!(calls > 300 && meet > 100 && exits > 50, "{calls} calls, {meet} meet, {exits} end");
}

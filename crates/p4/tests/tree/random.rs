//! Random programs with entries and packets. A seed names one.

use std::fmt::Write;

use super::{Entry, Match};

/// A program, entries for its tables, and packets with their ports.
pub struct Random {
    pub source: String,
    /// Tables by name.
    pub entries: Vec<(String, Entry)>,
    pub packets: Vec<(u16, Vec<u8>)>,
}

/// A random program of this seed.
pub fn random(seed: u64) -> Random {
    let mut draws = Draws(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    for _ in 0..4 {
        draws.next();
    }
    let mut program = Program { draws, tables: Vec::new(), entries: Vec::new() };
    let source = program.source();
    let packets = (0..24).map(|_| program.packet()).collect();
    Random { source, entries: program.entries, packets }
}

impl Random {
    /// The entries as a test file adds them.
    pub fn test_file(&self) -> String {
        let mut text = String::new();
        for (table, entry) in &self.entries {
            write!(text, "add {table} {} ", entry.priority).expect("text");
            for (at, set) in entry.keys.iter().enumerate() {
                let name = key_name(table, at);
                match set {
                    Match::Any => {}
                    Match::Masked(value, u128::MAX) => write!(text, "{name}:{value} ").expect("text"),
                    Match::Masked(value, mask) => write!(text, "{name}:{value}&&&{mask} ").expect("text"),
                    Match::Range(low, high) => write!(text, "{name}:{low}..{high} ").expect("text"),
                }
            }
            let arguments: Vec<String> = entry.arguments.iter().map(u128::to_string).collect();
            writeln!(text, "{}({})", entry.action, arguments.join(", ")).expect("text");
        }
        text
    }
}

struct Draws(u64);

impl Draws {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 11
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }
}

/// What an expression gives.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Ty {
    Bit(u32),
    Int(u32),
    Bool,
    Serial,
    A,
    B,
    Pair,
    Inner,
}

const TYPES: &str = "enum bit<8> E { one = 1, two = 2, top = 0x81 }
header a_t { bit<8> x; bit<8> y; bit<16> z; bit<4> n; bit<4> m; }
header b_t { int<8> s; bit<8> k; }
struct pair_t { bit<8> p; bit<16> q; }
struct in_t { pair_t one; a_t h; }
struct headers { a_t a; b_t b; b_t[3] st; a_t opt; }
struct metadata { bit<8> u; bit<16> v; bit<4> w; int<8> i; bool f; E e; pair_t pr; a_t k; in_t d; }
typedef bit<8> byte_t;
const byte_t TEN = 10;
const pair_t PAIR = { q = 0x1234, p = TEN + 1 };
const a_t LATE = { 1, 2, 3, 4, 5 };
";

/// Fields of a place of a type: their names and types.
fn fields(ty: Ty) -> &'static [(&'static str, Ty)] {
    match ty {
        Ty::A => {
            &[("x", Ty::Bit(8)), ("y", Ty::Bit(8)), ("z", Ty::Bit(16)), ("n", Ty::Bit(4)), ("m", Ty::Bit(4))]
        }
        Ty::B => &[("s", Ty::Int(8)), ("k", Ty::Bit(8))],
        Ty::Pair => &[("p", Ty::Bit(8)), ("q", Ty::Bit(16))],
        Ty::Inner => &[("one", Ty::Pair), ("h", Ty::A)],
        _ => &[],
    }
}

fn name(ty: Ty) -> &'static str {
    match ty {
        Ty::A => "a_t",
        Ty::B => "b_t",
        Ty::Pair => "pair_t",
        Ty::Inner => "in_t",
        Ty::Serial => "E",
        _ => "bit<8>",
    }
}

/// Places that a body sees.
#[derive(Clone, Default)]
struct Scope {
    places: Vec<(String, Ty, bool)>,
    /// What it may call, and whether it may apply tables and controls.
    actions: Vec<(String, Vec<(&'static str, Ty)>)>,
    tables: Vec<String>,
    is_control: bool,
    is_action: bool,
}

impl Scope {
    /// A place and all of its parts.
    fn add(&mut self, place: &str, ty: Ty, is_written: bool) {
        self.places.push((place.to_owned(), ty, is_written));
        for (field, of) in fields(ty) {
            self.add(&format!("{place}.{field}"), *of, is_written);
        }
    }

    fn of(&self, ty: Ty, is_written: bool) -> Vec<String> {
        let is_it = |(_, found, writable): &&(String, Ty, bool)| *found == ty && (*writable || !is_written);
        self.places.iter().filter(is_it).map(|(place, ..)| place.clone()).collect()
    }

    fn outermost() -> Scope {
        let mut scope = Scope::default();
        let all = [
            ("hdr.a", Ty::A),
            ("hdr.b", Ty::B),
            ("hdr.opt", Ty::A),
            ("hdr.st[0]", Ty::B),
            ("hdr.st[2]", Ty::B),
            ("meta.u", Ty::Bit(8)),
            ("meta.v", Ty::Bit(16)),
            ("meta.w", Ty::Bit(4)),
            ("meta.i", Ty::Int(8)),
            ("meta.f", Ty::Bool),
            ("meta.e", Ty::Serial),
            ("meta.pr", Ty::Pair),
            ("meta.k", Ty::A),
            ("meta.d", Ty::Inner),
        ];
        all.iter().for_each(|(place, ty)| scope.add(place, *ty, true));
        for (constant, ty) in [("PAIR", Ty::Pair), ("LATE", Ty::A), ("TEN", Ty::Bit(8))] {
            scope.add(constant, ty, false);
        }
        scope
    }
}

const KINDS: [&[&str]; 6] =
    [&["exact"], &["lpm"], &["lpm", "ternary"], &["exact", "range"], &["optional", "lpm"], &["exact", "lpm"]];

fn key_name(table: &str, at: usize) -> String {
    let number: usize = table[1..].parse().expect("t and a number");
    [["hdr.a.x", "hdr.a.y"], ["meta.u", "hdr.a.n"], ["hdr.a.y", "meta.w"]][number % 3][at].to_owned()
}

fn key_width(table: usize, at: usize) -> u32 {
    [[8, 8], [8, 4], [8, 4]][table % 3][at]
}

struct Program {
    draws: Draws,
    tables: Vec<String>,
    entries: Vec<(String, Entry)>,
}

impl Program {
    fn scalar(&mut self, ty: Ty, scope: &Scope, depth: usize) -> String {
        let places = scope.of(ty, false);
        if depth == 0 || self.draws.below(4) == 0 {
            if !places.is_empty() && self.draws.below(4) > 0 {
                return self.draws.one(&places);
            }
            return match ty {
                Ty::Bit(width) => format!("{width}w{}", self.draws.below(1 << width.min(6))),
                Ty::Int(width) => format!("-{width}s{}", self.draws.below(1 << (width - 1))),
                Ty::Bool => ["true", "false"][self.draws.below(2)].to_owned(),
                _ => ["E.one", "E.two", "E.top"][self.draws.below(3)].to_owned(),
            };
        }
        let sub = |program: &mut Program, ty| program.scalar(ty, scope, depth - 1);
        match ty {
            Ty::Bool => match self.draws.below(6) {
                0 => format!("!({})", sub(self, Ty::Bool)),
                1 => {
                    let op = self.draws.one(&["&&", "||", "==", "!="]);
                    format!("(({}) {op} ({}))", sub(self, Ty::Bool), sub(self, Ty::Bool))
                }
                2 => {
                    let headers = [scope.of(Ty::A, false), scope.of(Ty::B, false)].concat();
                    let headers: Vec<String> = headers.into_iter().filter(|place| place != "LATE").collect();
                    format!("{}.isValid()", self.draws.one(&headers))
                }
                3 => format!("({} == {})", sub(self, Ty::Serial), sub(self, Ty::Serial)),
                _ => {
                    let op = self.draws.one(&["==", "!=", "<", "<=", ">", ">="]);
                    let ty = self.draws.one(&[Ty::Bit(8), Ty::Bit(16), Ty::Bit(4), Ty::Int(8)]);
                    format!("({} {op} {})", sub(self, ty), sub(self, ty))
                }
            },
            Ty::Serial => format!("(E) {}", parenthesized(&sub(self, Ty::Bit(8)))),
            Ty::Int(width) => match self.draws.below(4) {
                0 => format!("(-{})", parenthesized(&sub(self, ty))),
                1 => format!("(int<{width}>) {}", parenthesized(&sub(self, Ty::Bit(width)))),
                2 => format!("({} >> {})", sub(self, ty), self.draws.below(10)),
                _ => {
                    let op = self.draws.one(&["+", "-", "*", "|+|", "|-|", "&", "|", "^"]);
                    format!("({} {op} {})", sub(self, ty), sub(self, ty))
                }
            },
            Ty::Bit(width) => match self.draws.below(11) {
                0 => format!("(~{})", parenthesized(&sub(self, ty))),
                1 => format!("({} << {})", sub(self, ty), sub(self, Ty::Bit(4))),
                2 => format!("({} >> {})", sub(self, ty), self.draws.below(20)),
                3 => {
                    let condition = sub(self, Ty::Bool);
                    format!("({condition} ? {} : {})", sub(self, ty), sub(self, ty))
                }
                4 if width == 8 => {
                    format!("({}[3:0] ++ {})", parenthesized(&sub(self, ty)), sub(self, Ty::Bit(4)))
                }
                4 if width == 16 => format!("({} ++ {})", sub(self, Ty::Bit(8)), sub(self, Ty::Bit(8))),
                5 => {
                    let from = self.draws.one(&[Ty::Bit(4), Ty::Bit(8), Ty::Bit(16)]);
                    format!("(bit<{width}>) {}", parenthesized(&sub(self, from)))
                }
                6 if width == 8 => format!("(bit<8>) {}", parenthesized(&sub(self, Ty::Int(8)))),
                7 if width == 8 => format!("({} + {})", sub(self, Ty::Serial), sub(self, ty)),
                8 if width == 8 => format!("((pair_t){}).p", self.list(Ty::Pair, scope, depth - 1)),
                9 if width == 4 => format!("{}[6:3]", parenthesized(&sub(self, Ty::Bit(8)))),
                _ => {
                    let op = self.draws.one(&["+", "-", "*", "|+|", "|-|", "&", "|", "^"]);
                    format!("({} {op} {})", sub(self, ty), sub(self, ty))
                }
            },
            other => panic!("{other:?} is no scalar"),
        }
    }

    /// `{ ... }`, by position or by name.
    fn list(&mut self, ty: Ty, scope: &Scope, depth: usize) -> String {
        let by_name = self.draws.below(2) == 0;
        let mut items: Vec<String> = fields(ty)
            .iter()
            .map(|(field, of)| {
                let value = self.value(*of, scope, depth);
                if by_name { format!("{field} = {value}") } else { value }
            })
            .collect();
        if by_name && self.draws.below(2) == 0 {
            items.reverse();
        }
        format!("{{ {} }}", items.join(", "))
    }

    fn value(&mut self, ty: Ty, scope: &Scope, depth: usize) -> String {
        if fields(ty).is_empty() {
            return self.scalar(ty, scope, depth);
        }
        match self.draws.below(4) {
            0 => self.list(ty, scope, depth.saturating_sub(1)),
            1 => format!("({}) {}", name(ty), self.list(ty, scope, depth.saturating_sub(1))),
            2 if ty == Ty::A && self.draws.below(3) == 0 => "(a_t){#}".to_owned(),
            _ => match scope.of(ty, false) {
                places if places.is_empty() => self.list(ty, scope, depth.saturating_sub(1)),
                places => self.draws.one(&places),
            },
        }
    }

    fn body(&mut self, scope: &mut Scope, length: usize, depth: usize) -> String {
        let mut text = String::new();
        let mut scope = scope.clone();
        for _ in 0..length {
            let line = self.statement(&mut scope, depth);
            writeln!(text, "{line}").expect("text");
        }
        text
    }

    fn block(&mut self, scope: &mut Scope, depth: usize) -> String {
        let length = 1 + self.draws.below(2);
        format!("{{\n{}}}", self.body(scope, length, depth + 1))
    }

    fn statement(&mut self, scope: &mut Scope, depth: usize) -> String {
        match self.draws.below(16) {
            0..=3 => {
                let ty =
                    self.draws.one(&[Ty::Bit(8), Ty::Bit(8), Ty::Bit(16), Ty::Bit(4), Ty::Int(8), Ty::Bool]);
                let places = scope.of(ty, true);
                if places.is_empty() {
                    return ";".to_owned();
                }
                format!("{} = {};", self.draws.one(&places), self.scalar(ty, scope, 2))
            }
            4 | 5 => {
                let ty = self.draws.one(&[Ty::A, Ty::A, Ty::B, Ty::Pair, Ty::Inner, Ty::Serial]);
                let places = scope.of(ty, true);
                if places.is_empty() {
                    return ";".to_owned();
                }
                format!("{} = {};", self.draws.one(&places), self.value(ty, scope, 1))
            }
            6 => {
                let place = self.draws.one(&scope.of(Ty::Bit(8), true));
                format!("{place}[5:2] = {};", self.scalar(Ty::Bit(4), scope, 1))
            }
            7 => {
                let place = self.draws.one(&scope.of(Ty::A, true));
                format!("{place}.{}();", self.draws.one(&["setValid", "setInvalid"]))
            }
            8 | 9 if depth < 2 => {
                let condition = self.scalar(Ty::Bool, scope, 2);
                let then = self.block(scope, depth);
                match self.draws.below(2) {
                    0 => format!("if ({condition}) {then}"),
                    _ => format!("if ({condition}) {then} else {}", self.block(scope, depth)),
                }
            }
            10 if depth < 2 => {
                let subject = self.scalar(Ty::Bit(4), scope, 1);
                let (first, second) = (self.block(scope, depth), self.block(scope, depth));
                format!(
                    "switch ({subject}) {{ 1: 2: {first} 3: {second} default: {} }}",
                    self.block(scope, depth)
                )
            }
            11 => {
                let number = self.draws.below(1000);
                let ty = self.draws.one(&[Ty::Bit(8), Ty::A, Ty::Pair]);
                let (local, value) = (format!("l{number}_{}", scope.places.len()), self.value(ty, scope, 1));
                scope.add(&local, ty, true);
                format!("{} {local} = {value};", name(ty))
            }
            12 | 13 if !scope.actions.is_empty() => {
                let (action, parameters) = self.draws.one(&scope.actions);
                let arguments: Vec<String> = parameters
                    .iter()
                    .map(|(way, ty)| match *way {
                        "in" | "" => self.value(*ty, scope, 1),
                        _ => self.draws.one(&scope.of(*ty, true)),
                    })
                    .collect();
                format!("{action}({});", arguments.join(", "))
            }
            14 if depth > 0 && (scope.is_control || scope.is_action) => {
                let sees_standard = scope.places.iter().any(|(place, ..)| place == "hdr.a");
                let last = if sees_standard { "mark_to_drop(standard);" } else { ";" };
                self.draws.one(&["exit;", "return;", last, ";"]).to_owned()
            }
            _ if scope.is_control && depth < 2 && !scope.tables.is_empty() => {
                let at = self.draws.below(scope.tables.len());
                // A table is applied once, so that pipelines can have it.
                let table = scope.tables.remove(at);
                self.tables.retain(|other| *other != table);
                scope.tables.clone_from(&self.tables);
                match self.draws.below(3) {
                    0 => format!("{table}.apply();"),
                    1 => format!(
                        "if ({table}.apply().{}) {}",
                        self.draws.one(&["hit", "miss"]),
                        self.block(scope, 1)
                    ),
                    _ => format!(
                        "switch ({table}.apply().action_run) {{ set: {} mix: {} default: {{ }} }}",
                        self.block(scope, 1),
                        self.block(scope, 1)
                    ),
                }
            }
            _ => self.statement(scope, depth + 1),
        }
    }

    fn key_set(&mut self, kind: &str, width: u32) -> Match {
        let ones = (1u128 << width) - 1;
        // Few values, so that packets find them.
        let value = self.draws.below(4) as u128;
        match kind {
            "exact" => Match::Masked(value, u128::MAX),
            "optional" if self.draws.below(2) == 0 => Match::Any,
            "optional" => Match::Masked(value, u128::MAX),
            "lpm" => {
                let mask = ones & !(ones >> self.draws.below(width as usize + 1));
                Match::Masked(value & mask, mask)
            }
            "ternary" => {
                let mask = self.draws.below(4) as u128;
                Match::Masked(value & mask, mask)
            }
            _ => Match::Range(value, value + self.draws.below(4) as u128),
        }
    }

    /// A table with actions of which the list gives some arguments, and its entries, in the program or from outside.
    fn table(&mut self, at: usize) -> String {
        let kinds = KINDS[self.draws.below(KINDS.len())];
        let table = format!("t{at}");
        let mut keys = String::new();
        for (number, kind) in kinds.iter().enumerate() {
            write!(keys, "{}: {kind}; ", key_name(&table, number)).expect("text");
        }
        let is_const = self.draws.below(2) == 0;
        let mut entries: Vec<Entry> = Vec::new();
        for priority in 0..self.draws.below(7) as u32 {
            let keys: Vec<Match> = kinds
                .iter()
                .enumerate()
                .map(|(number, kind)| self.key_set(kind, key_width(at, number)))
                .collect();
            let has_same = entries.iter().any(|other| format!("{:?}", other.keys) == format!("{keys:?}"));
            if has_same {
                continue;
            }
            let action = self.draws.one(&["set", "mix", "NoAction"]).to_owned();
            let arguments = if action == "NoAction" { Vec::new() } else { vec![self.draws.below(9) as u128] };
            entries.push(Entry { keys, priority, action, arguments });
        }
        let bound = self.draws.one(&["hdr.a.y, meta.k", "meta.u, hdr.a", "hdr.b.k, hdr.opt"]);
        let default = match self.draws.below(3) {
            0 => String::new(),
            1 => format!("default_action = mix({bound}, 7);"),
            _ => "default_action = set(5);".to_owned(),
        };
        let mut written = String::new();
        if is_const {
            for entry in &entries {
                let sets: Vec<String> = entry
                    .keys
                    .iter()
                    .map(|set| match set {
                        Match::Any => "_".to_owned(),
                        Match::Masked(value, u128::MAX) => value.to_string(),
                        Match::Masked(value, mask) => format!("{value} &&& {mask}"),
                        Match::Range(low, high) => format!("{low} .. {high}"),
                    })
                    .collect();
                let arguments: Vec<String> = entry.arguments.iter().map(u128::to_string).collect();
                let sets = if sets.len() == 1 { sets[0].clone() } else { format!("({})", sets.join(", ")) };
                writeln!(written, "{sets}: {}({});", entry.action, arguments.join(", ")).expect("text");
            }
            written = format!("const entries = {{\n{written}}}");
        } else {
            self.entries.extend(entries.into_iter().map(|entry| (table.clone(), entry)));
        }
        format!(
            "table {table} {{ key = {{ {keys}}} actions = {{ set; mix({bound}); NoAction; }} {default} {written} }}\n"
        )
    }

    fn source(&mut self) -> String {
        let mut outermost = Scope::outermost();
        let parser = self.parser(&outermost);
        let mut locals = String::from(
            "C() c; register<bit<8>>(4) r;
muTable m { keys = { hdr.a.x; } values = { bit<8> v; } size = 256; }\n",
        );
        let mut inner = Scope { is_action: true, ..outermost.clone() };
        inner.add("v", Ty::Bit(8), false);
        writeln!(locals, "action set(bit<8> v) {{\n{}}}", self.body(&mut inner, 2, 0)).expect("text");
        inner.add("b", Ty::Bit(8), true);
        inner.add("h", Ty::A, true);
        let mixed = self.body(&mut inner, 2, 0);
        writeln!(locals, "action mix(inout bit<8> b, inout a_t h, bit<8> v) {{\n b = b + v; {mixed}}}")
            .expect("text");
        let ways = [("in", Ty::A), ("inout", Ty::Bit(8)), ("out", Ty::A), ("in", Ty::Bit(4))];
        for at in 0..2 {
            let parameters: Vec<_> = (0..2).map(|_| self.draws.one(&ways)).collect();
            let mut scope = Scope { is_action: true, ..outermost.clone() };
            let mut list = Vec::new();
            for (number, (way, ty)) in parameters.iter().enumerate() {
                scope.add(&format!("p{number}"), *ty, *way != "in");
                let ty = match ty {
                    Ty::Bit(width) => format!("bit<{width}>"),
                    other => name(*other).to_owned(),
                };
                list.push(format!("{way} {ty} p{number}"));
            }
            let body = self.body(&mut scope, 3, 0);
            writeln!(locals, "action f{at}({}) {{\n{body}}}", list.join(", ")).expect("text");
            outermost.actions.push((format!("f{at}"), parameters));
        }
        for at in 0..3 {
            locals += &self.table(at);
            self.tables.push(format!("t{at}"));
        }
        let mut of_c = Scope { is_action: true, ..Scope::default() };
        of_c.add("a", Ty::A, true);
        of_c.add("b", Ty::Bit(8), true);
        of_c.add("i", Ty::Pair, false);
        of_c.add("LATE", Ty::A, false);
        let of_c = self.body(&mut of_c, 3, 0);
        outermost.is_control = true;
        outermost.tables.clone_from(&self.tables);
        let mut apply = self.body(&mut outermost, 4, 0);
        outermost.tables.clone_from(&self.tables);
        let index = self.scalar(Ty::Bit(8), &outermost, 1);
        let state = [
            "c.apply(hdr.a, hdr.a.y, meta.pr);",
            "c.apply(meta.k, meta.u, PAIR);",
            "hdr.st.push_front(1); hdr.st[0] = { 3, meta.u };",
            "hdr.st.pop_front(2);",
        ];
        apply += self.draws.one(&state);
        match self.draws.below(3) {
            0 => write!(apply, "r.read(meta.u, (bit<32>) {index}); r.write((bit<32>) {index}, meta.u + 3);"),
            1 => write!(apply, "meta.u = m.read(hdr); m.write(hdr, meta.u + hdr.a.y);"),
            _ => write!(apply, ";"),
        }
        .expect("text");
        apply += "\n";
        apply += &self.body(&mut outermost, 3, 0);
        format!(
            "#include <v1model.p4>
{TYPES}
{parser}
control Nothing(inout headers hdr, inout metadata meta) {{ apply {{ }} }}
control C(inout a_t a, inout bit<8> b, in pair_t i) {{ apply {{
{of_c}}} }}
control Ingress(inout headers hdr, inout metadata meta, inout standard_metadata_t standard) {{
{locals}
apply {{
standard.egress_spec = 1;
{apply}
}}
}}
control Egress(inout headers hdr, inout metadata meta, inout standard_metadata_t standard) {{ apply {{
// What is left in the metadata is shown.
b_t shown = (b_t){{ meta.i, meta.u ^ (bit<8>) meta.w ^ meta.v[7:0] ^ meta.v[15:8] }};
a_t kept = meta.k;
if (meta.f) {{ shown.k = shown.k + 1; }}
if (meta.k.isValid()) {{ shown.k = shown.k ^ 64; }}
if (meta.d.h.isValid()) {{ shown.k = shown.k ^ 32; }}
shown.k = shown.k ^ meta.pr.p ^ meta.pr.q[7:0] ^ meta.d.one.p ^ meta.d.h.x ^ (bit<8>) meta.e;
shown.s = shown.s + (int<8>) (kept.x ^ kept.y ^ kept.z[15:8] ^ kept.z[7:0] ^ (kept.n ++ kept.m));
hdr.st[1] = shown;
}} }}
control Deparser(packet_out packet, in headers hdr) {{ apply {{ packet.emit(hdr); }} }}
V1Switch<headers, metadata>(P(), Nothing(), Ingress(), Egress(), Nothing(), Deparser()) main;
"
        )
    }

    fn parser(&mut self, outermost: &Scope) -> String {
        let mut scope = outermost.clone();
        let start = self.body(&mut scope, 1, 2);
        let ahead = self.draws.one(&[
            "hdr.opt = packet.lookahead<a_t>();",
            "meta.u = packet.lookahead<bit<8>>();",
            "meta.v = packet.lookahead<bit<16>>(); packet.advance(8);",
            "meta.pr = packet.lookahead<pair_t>();",
            "verify(hdr.a.x != 3, error.HeaderTooShort);",
            "meta.d.h = packet.lookahead<a_t>(); meta.k = meta.d.h;",
        ]);
        let late = self.body(&mut scope, 1, 2);
        let (low, mask) = (self.draws.below(4), self.draws.below(4));
        format!(
            "parser P(packet_in packet, out headers hdr, inout metadata meta, inout standard_metadata_t standard) {{
state start {{
packet.extract(hdr.a);
{start}
transition select(hdr.a.x, hdr.a.n) {{
  (0, _): accept;
  ({low} &&& {mask}, 0 .. 3): bees;
  (_, 4 .. 9): stack;
  (1 .. 200, _): look;
  default: stack;
}}
}}
state bees {{ packet.extract(hdr.b); {late} transition select(hdr.b.s) {{ -1: reject; 0: stack; 5 .. 2: reject_not; default: accept; }} }}
state reject_not {{ transition accept; }}
state look {{ {ahead} transition stack; }}
state stack {{ packet.extract(hdr.st.next); transition select(hdr.st.last.k[0:0]) {{ 1: stack; default: accept; }} }}
}}
"
        )
        .replace("5 .. 2: reject_not;", "9: reject_not;")
    }

    fn packet(&mut self) -> (u16, Vec<u8>) {
        let length = self.draws.below(16);
        let byte = |program: &mut Program| match program.draws.below(3) {
            0 => program.draws.below(256) as u8,
            _ => program.draws.below(6) as u8,
        };
        let bytes = (0..length).map(|_| byte(self)).collect();
        (self.draws.below(4) as u16, bytes)
    }
}

fn parenthesized(text: &str) -> String {
    format!("({text})")
}

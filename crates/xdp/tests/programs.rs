//! Random programs within the subset, with packets that their parsers know. A seed names one.
//!
//! A program has headers of odd widths, metadata of odd widths, muTables, registers and counters, tables with entries, conditions,
//! and edits of headers. In two thirds of them all state is under a field in common, which is computed before anything else: these can be
//! sharded.

use std::fmt::Write;

use fastrand::Rng;
use paceline_xdp::trial::Packet;

/// Widths of metadata, of columns and of values of registers.
const WIDTHS: [u32; 13] = [1, 3, 7, 8, 9, 13, 16, 17, 24, 31, 32, 33, 64];

/// Steps over state in a program.
const MAX_STEPS: u32 = 3;

/// A program and packets for it.
pub struct Random {
    pub source: String,
    pub packets: Vec<Packet>,
}

/// The random program of a seed, with so many packets.
pub fn random(seed: u64, packets: usize) -> Random {
    let mut rng = Rng::with_seed(seed);
    let odd = odd_header(&mut rng);
    let mut program = Program {
        rng,
        odd,
        places: Vec::new(),
        objects: Vec::new(),
        depth: 0,
        is_common: false,
        steps: MAX_STEPS,
    };
    let source = program.source();
    let packets = program.packets(packets);
    Random { source, packets }
}

/// A field that expressions may name.
#[derive(Clone)]
struct Place {
    name: String,
    width: u32,
    is_written: bool,
}

/// What keeps state.
#[derive(Clone)]
enum Object {
    MuTable { name: String, values: Vec<u32>, structure: String },
    Register { name: String, width: u32, size: u32 },
    Counter { name: String, size: u32 },
}

struct Program {
    rng: Rng,
    /// Widths of the fields of the header of one's own: whole bytes together.
    odd: Vec<u32>,
    places: Vec<Place>,
    objects: Vec<Object>,
    depth: u32,
    /// Whether all state is under one field.
    is_common: bool,
    /// Steps over state that may still come: the verifier walks every way through them.
    steps: u32,
}

fn odd_header(rng: &mut Rng) -> Vec<u32> {
    let mut widths: Vec<u32> =
        (0..rng.usize(2..5)).map(|_| *pick(rng, &[1, 3, 5, 7, 11, 13, 20, 31, 33, 47, 60, 64])).collect();
    let bits: u32 = widths.iter().sum();
    let rest = bits.next_multiple_of(8) - bits;
    if rest > 0 {
        widths.push(rest);
    }
    widths
}

fn pick<'a, T>(rng: &mut Rng, of: &'a [T]) -> &'a T {
    &of[rng.usize(..of.len())]
}

impl Program {
    fn below(&mut self, bound: u32) -> u32 {
        self.rng.u32(..bound)
    }

    fn one_in(&mut self, many: u32) -> bool {
        self.below(many) == 0
    }

    fn place(&mut self, name: &str, width: u32, is_written: bool) {
        self.places.push(Place { name: name.to_owned(), width, is_written });
    }

    fn constant(&mut self, width: u32) -> String {
        let all = if width == 64 { u64::MAX } else { (1 << width) - 1 };
        let value = match self.below(4) {
            0 => self.rng.u64(..),
            1 => all,
            _ => self.rng.u64(..4),
        };
        format!("{width}w{}", value & all)
    }

    /// A place of any width, cut or filled up to this one.
    fn any_place(&mut self, width: u32) -> String {
        let place = pick(&mut self.rng, &self.places).clone();
        match place.width {
            has if has == width => place.name,
            has if has > width && self.below(2) == 0 => {
                let low = self.below(has - width + 1);
                format!("{}[{}:{low}]", place.name, low + width - 1)
            }
            _ => format!("(bit<{width}>) {}", place.name),
        }
    }

    /// An expression of so many bits.
    fn bits(&mut self, width: u32, depth: u32) -> String {
        if depth == 0 || self.one_in(5) {
            return if self.one_in(4) { self.constant(width) } else { self.any_place(width) };
        }
        let depth = depth - 1;
        match self.below(13) {
            0..=4 => {
                let by = *pick(&mut self.rng, &["+", "-", "*", "|+|", "|-|", "&", "|", "^"]);
                format!("({} {by} {})", self.bits(width, depth), self.bits(width, depth))
            }
            5 => {
                let by = *pick(&mut self.rng, &["<<", ">>"]);
                let distance =
                    if self.one_in(2) { self.bits(8, depth) } else { format!("{}", self.below(70)) };
                format!("({} {by} {distance})", self.bits(width, depth))
            }
            6 => format!("({}({}))", *pick(&mut self.rng, &["~", "-"]), self.bits(width, depth)),
            7 if width > 1 => {
                let low = 1 + self.below(width - 1);
                format!("({} ++ {})", self.bits(width - low, depth), self.bits(low, depth))
            }
            8 | 9 => format!(
                "({} ? {} : {})",
                self.condition(depth),
                self.bits(width, depth),
                self.bits(width, depth)
            ),
            10 => {
                let other = *pick(&mut self.rng, &WIDTHS);
                format!("(bit<{width}>) ({})", self.bits(other, depth))
            }
            _ if width > 1 => format!("(bit<{width}>) ({})", self.signed(width, depth)),
            _ => self.any_place(width),
        }
    }

    /// An expression with a sign.
    fn signed(&mut self, width: u32, depth: u32) -> String {
        let a = format!("(int<{width}>) ({})", self.bits(width, depth));
        match self.below(4) {
            0 => format!("(({a}) >> {})", self.below(70)),
            1 => {
                let other = *pick(&mut self.rng, &[3, 9, 31, 33]);
                format!("(int<{width}>) ((int<{other}>) ({}))", self.bits(other, depth))
            }
            _ => {
                let by = *pick(&mut self.rng, &["+", "-", "*", "|+|", "|-|"]);
                format!("(({a}) {by} ((int<{width}>) ({})))", self.bits(width, depth))
            }
        }
    }

    fn condition(&mut self, depth: u32) -> String {
        match self.below(8) {
            0 => format!("hdr.{}.isValid()", pick(&mut self.rng, &["ipv4", "tcp", "udp", "odd"])),
            1 if depth > 0 => format!("!({})", self.condition(depth - 1)),
            2 if depth > 0 => {
                let by = *pick(&mut self.rng, &["&&", "||"]);
                format!("(({}) {by} ({}))", self.condition(depth - 1), self.condition(depth - 1))
            }
            3 => {
                let width = *pick(&mut self.rng, &WIDTHS[1..]);
                let by = *pick(&mut self.rng, &["<", "<=", ">", ">="]);
                format!("({} {by} {})", self.signed(width, depth), self.signed(width, depth))
            }
            _ => {
                let width = *pick(&mut self.rng, &WIDTHS);
                let by = *pick(&mut self.rng, &["==", "!=", "<", "<=", ">", ">="]);
                format!("({} {by} {})", self.bits(width, depth), self.bits(width, depth))
            }
        }
    }

    /// An index for so many places, with some past the end.
    fn index(&mut self, size: u32) -> String {
        if self.is_common {
            return "(bit<32>) meta.common".to_owned();
        }
        match self.below(5) {
            0 => format!("32w{}", self.below(size + 1)),
            1 => "(bit<32>) hdr.ipv4.src_addr[2:0]".to_owned(),
            2 => "meta.hashed".to_owned(),
            _ => {
                let index = self.bits(4, 1);
                format!("(bit<32>) ({index})")
            }
        }
    }

    fn written(&mut self) -> Place {
        let written: Vec<Place> = self.places.iter().filter(|place| place.is_written).cloned().collect();
        pick(&mut self.rng, &written).clone()
    }

    fn assignment(&mut self) -> String {
        let to = self.written();
        let depth = 1 + self.below(2);
        match self.one_in(5) && to.width > 2 {
            true => {
                let high = 1 + self.below(to.width - 1);
                let low = self.below(high + 1);
                format!("{}[{high}:{low}] = {};\n", to.name, self.bits(high - low + 1, 1))
            }
            false => format!("{} = {};\n", to.name, self.bits(to.width, depth)),
        }
    }

    fn block(&mut self, many: u32) -> String {
        self.depth += 1;
        let text = (0..1 + self.below(many)).map(|_| self.statement()).collect();
        self.depth -= 1;
        text
    }

    /// A step over an object that keeps state.
    fn step(&mut self) -> String {
        let object = pick(&mut self.rng, &self.objects).clone();
        match object {
            Object::MuTable { name, values, structure } => {
                let local = format!("v{}", self.rng.u32(..1_000_000));
                let mut text = format!("{structure} {local} = {name}.read(hdr);\n");
                if self.one_in(6) {
                    text = format!("{structure} {local};\n");
                }
                for (number, width) in values.iter().enumerate() {
                    let column = if values.len() == 1 { local.clone() } else { format!("{local}.c{number}") };
                    if self.one_in(3) {
                        let to = self.written();
                        let cast =
                            if to.width == *width { String::new() } else { format!("(bit<{}>) ", to.width) };
                        writeln!(text, "{} = {cast}{column};", to.name).expect("text");
                    }
                    let by = *pick(&mut self.rng, &["+", "-", "^", "|+|"]);
                    writeln!(text, "{column} = {column} {by} {};", self.bits(*width, 1)).expect("text");
                }
                match self.below(6) {
                    0 => {}
                    1 => {
                        let condition = self.condition(1);
                        writeln!(text, "if ({condition}) {{ {name}.write(hdr, {local}); }}").expect("text");
                    }
                    _ => writeln!(text, "{name}.write(hdr, {local});").expect("text"),
                }
                format!("{{\n{text}}}\n")
            }
            Object::Register { name, width, size } => {
                let local = format!("v{}", self.rng.u32(..1_000_000));
                let index = self.index(size);
                let mut text = format!("bit<{width}> {local};\n{name}.read({local}, {index});\n");
                let to = self.written();
                let cast = if to.width == width { String::new() } else { format!("(bit<{}>) ", to.width) };
                if self.one_in(2) {
                    writeln!(text, "{} = {cast}{local};", to.name).expect("text");
                }
                let by = *pick(&mut self.rng, &["+", "+", "-", "^", "|-|"]);
                let operand = self.bits(width, 1);
                match self.below(4) {
                    0 => {
                        let condition = self.condition(1);
                        writeln!(
                            text,
                            "if ({condition}) {{ {name}.write({index}, {local} {by} {operand}); }}"
                        )
                        .expect("text");
                    }
                    1 => {}
                    _ => writeln!(text, "{name}.write({index}, {local} {by} {operand});").expect("text"),
                }
                format!("{{\n{text}}}\n")
            }
            Object::Counter { name, size } => format!("{name}.count({});\n", self.index(size)),
        }
    }

    fn statement(&mut self) -> String {
        match self.below(14) {
            0..=3 => self.assignment(),
            4..=7 if self.steps > 1 => {
                self.steps -= 1;
                self.step()
            }
            8 | 9 if self.depth < 3 => {
                let condition = self.condition(1);
                let then = self.block(2);
                match self.one_in(2) {
                    true => format!("if ({condition}) {{\n{then}}}\n"),
                    false => format!("if ({condition}) {{\n{then}}} else {{\n{}}}\n", self.block(2)),
                }
            }
            10 if !self.is_common => {
                let algorithm = *pick(&mut self.rng, &["crc32", "crc16", "csum16", "xor16"]);
                let (a, b) = (self.any_place(32), self.any_place(9));
                let max = *pick(&mut self.rng, &[0, 7, 16]);
                format!(
                    "hash(meta.hashed, HashAlgorithm.{algorithm}, 32w{}, {{ {a}, {b} }}, 32w{max});\n",
                    self.below(3)
                )
            }
            11 => {
                let port = self.below(4);
                let drop =
                    if self.one_in(3) { "mark_to_drop(standard);\n".to_owned() } else { String::new() };
                format!("{drop}standard.egress_spec = {port};\n")
            }
            12 => match self.below(3) {
                0 => format!("if ({}) {{ mark_to_drop(standard); }}\n", self.condition(1)),
                1 if self.depth > 1 => format!(
                    "if ({}) {{ {} }}\n",
                    self.condition(1),
                    *pick(&mut self.rng, &["exit;", "return;"])
                ),
                _ => self.assignment(),
            },
            _ => self.assignment(),
        }
    }

    /// A table with entries, whose actions compute and step.
    fn table(&mut self, number: u32) -> String {
        let key = pick(&mut self.rng, &self.places).clone();
        let kind = *pick(&mut self.rng, &["exact", "ternary", "range", "lpm"]);
        let mask = if key.width == 64 { u64::MAX } else { (1 << key.width) - 1 };
        let mut entries: Vec<String> = Vec::new();
        for value in 0..3u64.min(mask + u64::from(mask != u64::MAX)) {
            let set = match kind {
                "exact" => value.to_string(),
                "ternary" => format!("{value} &&& {}", self.rng.u64(..) & mask | value),
                "range" => format!("{value} .. {}", value + self.rng.u64(..=(mask - value))),
                _ => format!("{value}"),
            };
            let action = if self.one_in(2) {
                let argument = self.constant(8);
                format!("a{number}({argument})")
            } else {
                format!("b{number}()")
            };
            entries.push(format!("{set}: {action};"));
        }
        let parameter = Place { name: "given".to_owned(), width: 8, is_written: false };
        let places = self.places.clone();
        self.places.push(parameter);
        let first = self.block(2);
        self.places = places;
        let second = self.block(1);
        format!(
            "action a{number}(bit<8> given) {{\n{first}}}\naction b{number}() {{\n{second}}}\n\
             table t{number} {{\nkey = {{ {}: {kind}; }}\nactions = {{ a{number}; b{number}; NoAction; }}\n\
             const entries = {{ {} }}\nconst default_action = {};\n}}\n",
            key.name,
            entries.join(" "),
            pick(&mut self.rng, &["NoAction()".to_owned(), format!("b{number}()")]),
        )
    }

    fn declarations(&mut self) -> (String, String) {
        let (mut structures, mut text) = (String::new(), String::new());
        for number in 0..1 + self.below(3) {
            let name = format!("o{number}");
            match self.below(5) {
                0 | 1 => {
                    let values: Vec<u32> =
                        (0..1 + self.below(2)).map(|_| *pick(&mut self.rng, &WIDTHS)).collect();
                    let columns: String = values
                        .iter()
                        .enumerate()
                        .map(|(at, width)| format!("bit<{width}> c{at}; "))
                        .collect();
                    let structure = match *values {
                        [width] => format!("bit<{width}>"),
                        _ => {
                            writeln!(structures, "struct s{number}_t {{ {columns}}}").expect("text");
                            format!("s{number}_t")
                        }
                    };
                    let is_direct = self.one_in(4);
                    let mut keys: Vec<String> = Vec::new();
                    if self.is_common {
                        keys.push("meta.common".to_owned());
                    }
                    if keys.is_empty() || (!is_direct && self.one_in(2)) {
                        keys.push(match self.below(4) {
                            0 => "hdr.ipv4.src_addr".to_owned(),
                            1 => "hdr.tcp.dst_port".to_owned(),
                            2 => "meta.m0".to_owned(),
                            _ => "standard.ingress_port".to_owned(),
                        });
                    }
                    let keys: String = keys.iter().map(|key| format!("{key}; ")).collect();
                    let kind = if is_direct { "direct" } else { "exact" };
                    // Small ones become full.
                    let size = *pick(&mut self.rng, &[4, 64]);
                    writeln!(text, "muTable {name} {{ keys = {{ {keys}}} values = {{ {columns}}} type = {kind}; size = {size}; }}")
                        .expect("text");
                    self.objects.push(Object::MuTable { name, values, structure });
                }
                2 | 3 => {
                    let (width, size) = (*pick(&mut self.rng, &WIDTHS), *pick(&mut self.rng, &[1, 6, 8, 32]));
                    writeln!(text, "register<bit<{width}>>({size}) {name};").expect("text");
                    self.objects.push(Object::Register { name, width, size });
                }
                _ => {
                    let size = *pick(&mut self.rng, &[1, 6, 16]);
                    writeln!(text, "counter({size}, CounterType.packets_and_bytes) {name};").expect("text");
                    self.objects.push(Object::Counter { name, size });
                }
            }
        }
        (structures, text)
    }

    fn source(&mut self) -> String {
        self.is_common = self.below(3) > 0;
        let metadata: Vec<u32> = (0..3 + self.below(3)).map(|_| *pick(&mut self.rng, &WIDTHS)).collect();
        for (number, width) in metadata.iter().enumerate() {
            self.place(&format!("meta.m{number}"), *width, true);
        }
        for (number, width) in self.odd.clone().into_iter().enumerate() {
            self.place(&format!("hdr.odd.f{number}"), width, true);
        }
        let known = [
            ("hdr.ethernet.src", 48, true),
            ("hdr.ipv4.tos", 8, true),
            ("hdr.ipv4.ttl", 8, true),
            ("hdr.ipv4.flags", 3, true),
            ("hdr.ipv4.frag_offset", 13, false),
            ("hdr.ipv4.total_len", 16, false),
            ("hdr.ipv4.src_addr", 32, false),
            ("hdr.ipv4.dst_addr", 32, true),
            ("hdr.tcp.src_port", 16, false),
            ("hdr.tcp.dst_port", 16, false),
            ("hdr.tcp.flags", 6, true),
            ("hdr.tcp.seq", 32, true),
            ("hdr.udp.len", 16, true),
            ("standard.ingress_port", 9, false),
            ("standard.packet_length", 32, false),
            ("standard.ingress_global_timestamp", 48, false),
            ("meta.hashed", 32, false),
            ("meta.common", 8, false),
        ];
        known.iter().for_each(|(name, width, is_written)| self.place(name, *width, *is_written));
        let common = *pick(
            &mut self.rng,
            &[
                "hdr.ipv4.src_addr[7:0]",
                "hdr.ipv4.src_addr[7:0] ^ hdr.ipv4.dst_addr[7:0]",
                "(bit<8>) hdr.tcp.dst_port[2:0]",
                "hdr.ipv4.isValid() ? hdr.ipv4.src_addr[7:0] + 3 : 8w9",
                "(bit<8>) standard.ingress_port",
            ],
        );
        let (structures, declared) = self.declarations();
        let mut locals = declared;
        let tables = self.below(2);
        for number in 0..tables {
            locals += &self.table(number);
        }
        let mut apply: String = (0..1 + self.below(3)).map(|_| self.statement()).collect();
        for number in 0..tables {
            let first = self.block(1);
            apply += &match self.below(3) {
                0 => format!("t{number}.apply();\n"),
                1 => format!("if (t{number}.apply().hit) {{\n{first}}}\n"),
                _ => format!(
                    "switch (t{number}.apply().action_run) {{ a{number}: {{\n{first}}} default: {{ }} }}\n"
                ),
            };
        }
        apply += &self.step();
        apply += &(0..1 + self.below(2)).map(|_| self.statement()).collect::<String>();
        self.objects.clear();
        let egress = if self.one_in(3) { self.assignment() } else { String::new() };
        let odd: String =
            self.odd.iter().enumerate().map(|(number, width)| format!("bit<{width}> f{number}; ")).collect();
        let fields: String =
            metadata.iter().enumerate().map(|(number, width)| format!("bit<{width}> m{number}; ")).collect();
        let verify = if self.one_in(4) { "verify(hdr.ipv4.ttl != 1, error.HeaderTooShort);" } else { "" };
        let after = if self.one_in(2) { "parse_ipv4" } else { "accept" };
        let parsed = if self.one_in(3) { "meta.m0 = meta.m0 + 1;" } else { "" };
        let common = if self.is_common { format!("meta.common = {common};\n") } else { String::new() };
        format!(
            "#include <core.p4>
#include <v1model.p4>
header ethernet_t {{ bit<48> dst; bit<48> src; bit<16> kind; }}
header odd_t {{ {odd}}}
header ipv4_t {{ bit<4> version; bit<4> ihl; bit<8> tos; bit<16> total_len; bit<16> identification; bit<3> flags;
    bit<13> frag_offset; bit<8> ttl; bit<8> protocol; bit<16> checksum; bit<32> src_addr; bit<32> dst_addr; }}
header tcp_t {{ bit<16> src_port; bit<16> dst_port; bit<32> seq; bit<32> ack; bit<4> data_offset; bit<4> reserved;
    bit<2> ecn; bit<6> flags; bit<16> window; bit<16> checksum; bit<16> urgent; }}
header udp_t {{ bit<16> src_port; bit<16> dst_port; bit<16> len; bit<16> checksum; }}
struct headers {{ ethernet_t ethernet; odd_t odd; ipv4_t ipv4; tcp_t tcp; udp_t udp; }}
struct metadata {{ {fields}bit<32> hashed; bit<8> common; }}
{structures}
parser P(packet_in packet, out headers hdr, inout metadata meta, inout standard_metadata_t standard) {{
state start {{ packet.extract(hdr.ethernet); {parsed} transition select(hdr.ethernet.kind) {{
    0x0800: parse_ipv4; 0x88b0 &&& 0xfff0: parse_odd; default: accept; }} }}
state parse_odd {{ packet.extract(hdr.odd); transition {after}; }}
state parse_ipv4 {{ packet.extract(hdr.ipv4); {verify}
    transition select(hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.frag_offset, hdr.ipv4.protocol) {{
    (4, 5, 0, 6): parse_tcp; (4, 5, 0, 17 .. 18): parse_udp; default: accept; }} }}
state parse_tcp {{ packet.extract(hdr.tcp); transition accept; }}
state parse_udp {{ packet.extract(hdr.udp); transition accept; }}
}}
control Verify(inout headers hdr, inout metadata meta) {{ apply {{ }} }}
control Ingress(inout headers hdr, inout metadata meta, inout standard_metadata_t standard) {{
{locals}
apply {{
standard.egress_spec = 1;
{common}{apply}}}
}}
control Egress(inout headers hdr, inout metadata meta, inout standard_metadata_t standard) {{ apply {{
{egress}}} }}
control Compute(inout headers hdr, inout metadata meta) {{ apply {{
update_checksum(hdr.ipv4.isValid() && hdr.ipv4.ihl == 5, {{ hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos,
    hdr.ipv4.total_len, hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.frag_offset, hdr.ipv4.ttl, hdr.ipv4.protocol,
    hdr.ipv4.src_addr, hdr.ipv4.dst_addr }}, hdr.ipv4.checksum, HashAlgorithm.csum16);
}} }}
control Deparser(packet_out packet, in headers hdr) {{ apply {{ packet.emit(hdr); }} }}
V1Switch(P(), Verify(), Ingress(), Egress(), Compute(), Deparser()) main;
"
        )
    }

    /// Packets of few hosts: IPv4 with and without options, behind the odd header too, some cut short.
    fn packets(&mut self, many: usize) -> Vec<Packet> {
        let odd: usize = self.odd.iter().sum::<u32>() as usize / 8;
        let mut time_ns = 1_000_000;
        let mut packet = |rng: &mut Rng| {
            time_ns += rng.u64(0..300_000);
            let mut bytes = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, rng.u8(1..4)];
            let kind = *pick(rng, &[0x0800_u16, 0x0800, 0x0800, 0x88b5, 0x88b6, 0x86dd]);
            bytes.extend(kind.to_be_bytes());
            if kind & 0xfff0 == 0x88b0 {
                bytes.extend((0..odd).map(|_| *pick(rng, &[0, 1, 0x80, 0xff, 0x5a])));
            }
            let protocol = *pick(rng, &[6_u8, 6, 6, 17, 17, 18, 1]);
            bytes.extend([*pick(rng, &[0x45, 0x45, 0x45, 0x45, 0x46, 0x65]), rng.u8(..)]);
            bytes.extend(rng.u16(28..200).to_be_bytes());
            bytes.extend([
                rng.u8(..),
                rng.u8(..),
                0x40,
                u8::from(rng.u8(..) < 8),
                rng.u8(1..5),
                protocol,
                0,
                0,
            ]);
            bytes.extend([192, 0, 2, rng.u8(1..7), 198, 51, 100, rng.u8(1..3)]);
            bytes.extend((40_000 + rng.u16(0..3)).to_be_bytes());
            bytes.extend(pick(rng, &[22_u16, 7001, 7002, 80]).to_be_bytes());
            bytes.extend((0..16).map(|_| rng.u8(..)));
            bytes.resize(bytes.len() + rng.usize(0..40), 0xa5);
            if rng.u8(..) < 30 {
                bytes.truncate(rng.usize(14..bytes.len()));
            }
            Packet { time_ns, port: rng.u16(0..3), bytes }
        };
        (0..many).map(|_| packet(&mut self.rng)).collect()
    }
}

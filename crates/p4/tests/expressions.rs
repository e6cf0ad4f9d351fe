//! Expressions as programs give them, beside big integers without widths.

use super::common;

use num_bigint::BigInt;
use num_traits::ToPrimitive;
use paceline_p4::interpret::Machine;
use paceline_p4::passes;
use proptest::prelude::*;

/// Values computed by hand from P4-16 §8: what goes in is the byte 0xf0, then 0x0f.
#[test]
fn widths_by_hand() {
    let cases: [(&str, u8); 24] = [
        ("hdr.h.a + hdr.h.b", 0xff),
        ("hdr.h.a + hdr.h.a", 0xe0),
        ("hdr.h.b - hdr.h.a", 0x1f),
        ("hdr.h.a |+| hdr.h.a", 0xff),
        ("hdr.h.b |-| hdr.h.a", 0x00),
        ("hdr.h.a * 3", 0xd0),
        ("-hdr.h.b", 0xf1),
        ("~hdr.h.a", 0x0f),
        ("hdr.h.a << 1", 0xe0),
        ("hdr.h.a >> 4", 0x0f),
        ("hdr.h.a >> 200", 0x00),
        ("(bit<8>) ((int<8>) hdr.h.a >> 2)", 0xfc),
        ("(bit<8>) ((int<8>) hdr.h.a |-| 127)", 0x80),
        ("hdr.h.a[7:4] ++ hdr.h.b[3:0]", 0xff),
        ("hdr.h.b[3:0] ++ hdr.h.a[3:0]", 0xf0),
        ("(bit<8>) hdr.h.a[5:4]", 0x03),
        ("(bit<8>) (bit<16>) (int<16>) (int<8>) hdr.h.a", 0xf0),
        ("((bit<16>) (int<16>) (int<8>) hdr.h.a)[15:8]", 0xff),
        ("(bit<16>) hdr.h.a == 0xf0 ? 8w1 : 2", 0x01),
        ("hdr.h.a < hdr.h.b ? 8w1 : 2", 0x02),
        ("(int<8>) hdr.h.a < (int<8>) hdr.h.b ? 8w1 : 2", 0x01),
        ("(bit<8>) (bit<1>) (hdr.h.a > hdr.h.b && !(hdr.h.a == 0))", 0x01),
        ("hdr.h.a & 0x3c | hdr.h.b ^ 1", 0x3e),
        ("1 + 2 * 3 - 8w1 << 1", 0x0c),
    ];
    for (expression, expected) in cases {
        let apply = format!("hdr.h.a = {expression}; standard.egress_spec = 1;");
        let source = common::program("bit<8> a; bit<8> b;", "", "", &apply);
        let out = Machine::new(common::lowered(&source)).packet(0, &[0xf0, 0x0f], 0);
        assert_eq!(out[0].bytes, [expected, 0x0f], "{expression}");
    }
}

/// Assigning to bits leaves the others.
#[test]
fn slices_are_written() {
    let apply = "hdr.h.a[5:2] = hdr.h.b[3:0]; hdr.h.b[7:7] = 1; standard.egress_spec = 1;";
    let source = common::program("bit<8> a; bit<8> b;", "", "", apply);
    let out = Machine::new(common::lowered(&source)).packet(0, &[0x81, 0x0a], 0);
    assert_eq!(out[0].bytes, [0b1010_1001, 0x8a]);
}

/// What was read, and what it was copied to at once, both are there.
#[test]
fn a_copy_of_what_was_read_leaves_it() {
    let state = "muTable state { keys = { hdr.h.a; } values = { bit<8> v; } size = 16; }";
    let apply = "state.write(hdr, 7); meta.x = state.read(hdr); meta.y = meta.x;
                 hdr.h.a = meta.x; hdr.h.b = meta.y; standard.egress_spec = 1;";
    let source = common::program("bit<8> a; bit<8> b;", "bit<8> x; bit<8> y;", state, apply);
    let out = Machine::new(common::lowered(&source)).packet(0, &[1, 2], 0);
    assert_eq!(out[0].bytes, [7, 7]);
}

#[derive(Clone, Debug)]
enum Tree {
    Field(usize),
    Literal(u128),
    Negate(Box<Tree>),
    Complement(Box<Tree>),
    Two(&'static str, Box<Tree>, Box<Tree>),
    /// By the field `s`, or by a number.
    Shift(&'static str, Box<Tree>, Option<u8>),
    Less(Box<Tree>, Box<Tree>, Box<Tree>, Box<Tree>),
    /// The low half, cast back.
    LowHalf(Box<Tree>),
}

fn trees() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![(0..3usize).prop_map(Tree::Field), any::<u128>().prop_map(Tree::Literal)];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let sub = || inner.clone().prop_map(Box::new);
        prop_oneof![
            sub().prop_map(Tree::Negate),
            sub().prop_map(Tree::Complement),
            (prop::sample::select(vec!["+", "-", "*", "|+|", "|-|", "&", "|", "^"]), sub(), sub())
                .prop_map(|(op, a, b)| Tree::Two(op, a, b)),
            (prop::sample::select(vec!["<<", ">>"]), sub(), any::<Option<u8>>())
                .prop_map(|(op, a, by)| Tree::Shift(op, a, by)),
            (sub(), sub(), sub(), sub()).prop_map(|(a, b, c, d)| Tree::Less(a, b, c, d)),
            sub().prop_map(Tree::LowHalf),
        ]
    })
}

/// A type, and how its values are written.
#[derive(Clone, Copy, Debug)]
struct Shape {
    width: u32,
    signed: bool,
}

impl Shape {
    fn ty(self) -> String {
        format!("{}<{}>", if self.signed { "int" } else { "bit" }, self.width)
    }

    fn text(self, tree: &Tree) -> String {
        let of = |tree: &Tree| self.text(tree);
        let (ty, width) = (self.ty(), self.width);
        match tree {
            Tree::Field(at) => format!("hdr.h.f{at}"),
            Tree::Literal(value) => format!("(({ty}) {value})"),
            Tree::Negate(a) => format!("(-{})", of(a)),
            Tree::Complement(a) => format!("(~{})", of(a)),
            Tree::Two(op, a, b) => format!("({} {op} {})", of(a), of(b)),
            Tree::Shift(op, a, None) => format!("({} {op} hdr.h.s)", of(a)),
            Tree::Shift(op, a, Some(by)) => format!("({} {op} {by})", of(a)),
            Tree::Less(a, b, c, d) => format!("({} < {} ? {} : {})", of(a), of(b), of(c), of(d)),
            Tree::LowHalf(a) => {
                let low = format!("{}[{}:0]", of(a), width / 2 - 1);
                if self.signed { format!("(({ty}) (bit<{width}>) {low})") } else { format!("(({ty}) {low})") }
            }
        }
    }

    /// Into the range of the type, by taking away 2^W as often as it takes.
    fn wrap(self, value: BigInt) -> BigInt {
        let limit = BigInt::from(1) << self.width;
        let low = ((value % &limit) + &limit) % &limit;
        if self.signed && low >= (&limit >> 1u8) { low - limit } else { low }
    }

    fn clamp(self, value: BigInt) -> BigInt {
        let one = BigInt::from(1);
        let (least, most) = match self.signed {
            true => (-(one.clone() << (self.width - 1)), (one.clone() << (self.width - 1)) - one),
            false => (BigInt::from(0), (one.clone() << self.width) - one),
        };
        value.clamp(least, most)
    }

    fn value(self, tree: &Tree, fields: &[BigInt], shift: u8) -> BigInt {
        let of = |tree: &Tree| self.value(tree, fields, shift);
        match tree {
            Tree::Field(at) => fields[*at].clone(),
            Tree::Literal(value) => self.wrap(BigInt::from(*value)),
            Tree::Negate(a) => self.wrap(-of(a)),
            Tree::Complement(a) => self.wrap(-of(a) - 1),
            Tree::Two(op, a, b) => {
                let (a, b) = (of(a), of(b));
                match *op {
                    "+" => self.wrap(a + b),
                    "-" => self.wrap(a - b),
                    "*" => self.wrap(a * b),
                    "|+|" => self.clamp(a + b),
                    "|-|" => self.clamp(a - b),
                    "&" => self.wrap(a & b),
                    "|" => self.wrap(a | b),
                    _ => self.wrap(a ^ b),
                }
            }
            Tree::Shift(op, a, by) => {
                let by = by.unwrap_or(shift);
                if *op == "<<" { self.wrap(of(a) << by) } else { of(a) >> by }
            }
            Tree::Less(a, b, c, d) => {
                if of(a) < of(b) {
                    of(c)
                } else {
                    of(d)
                }
            }
            Tree::LowHalf(a) => {
                let half = BigInt::from(1) << (self.width / 2);
                self.wrap(((of(a) % &half) + &half) % half)
            }
        }
    }
}

fn shapes() -> impl Strategy<Value = Shape> {
    let widths = prop::sample::select(vec![8u32, 16, 32, 64, 72, 120, 128]);
    (widths, any::<bool>()).prop_map(|(width, signed)| Shape { width, signed })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn expressions_are_those_of_integers(shape in shapes(), tree in trees(), raw in any::<[u128; 3]>(), shift in any::<u8>()) {
        let ty = shape.ty();
        let fields = format!("{ty} f0; {ty} f1; {ty} f2; bit<8> s; {ty} r;");
        let apply = format!("hdr.h.r = {}; standard.egress_spec = 1;", shape.text(&tree));
        let program = common::lowered(&common::program(&fields, "", "", &apply));
        let bytes = shape.width as usize / 8;
        let mut packet = Vec::new();
        let mut values = Vec::new();
        for value in raw {
            packet.extend_from_slice(&value.to_be_bytes()[16 - bytes..]);
            values.push(shape.wrap(BigInt::from(value)));
        }
        packet.push(shift);
        packet.extend(std::iter::repeat_n(0, bytes));
        let expected = shape.value(&tree, &values, shift);
        let unsigned = Shape { signed: false, ..shape }.wrap(expected).to_u128().expect("in range");
        let mut compiled = program.clone();
        passes::compile(&mut compiled);
        for program in [program, compiled] {
            let out = Machine::new(program).packet(0, &packet, 0);
            prop_assert_eq!(&out[0].bytes[packet.len() - bytes..], &unsigned.to_be_bytes()[16 - bytes..]);
        }
    }
}

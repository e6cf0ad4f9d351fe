//! Whatever the text, the front end answers, and what it takes runs.

use std::fs;
use std::path::Path;

use invariants::survive;
use proptest::prelude::*;

mod invariants;

const WORDS: [&str; 88] = [
    "header",
    "struct",
    "control",
    "parser",
    "state",
    "start",
    "transition",
    "select",
    "accept",
    "reject",
    "apply",
    "table",
    "muTable",
    "key",
    "keys",
    "values",
    "actions",
    "action",
    "entries",
    "default_action",
    "size",
    "type",
    "exact",
    "lpm",
    "ternary",
    "consistency",
    "STRICT",
    "BS",
    "const",
    "bit",
    "int",
    "bool",
    "error",
    "enum",
    "typedef",
    "in",
    "out",
    "inout",
    "if",
    "else",
    "switch",
    "default",
    "return",
    "exit",
    "true",
    "register",
    "x",
    "y",
    "hdr",
    "meta",
    "V1Switch",
    "main",
    "packet_in",
    "packet_out",
    "standard_metadata_t",
    "isValid",
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    "<",
    ">",
    ";",
    ":",
    ",",
    ".",
    "=",
    "==",
    "+",
    "++",
    "&&&",
    "..",
    "?",
    "!",
    "~",
    "-",
    "1",
    "8w255",
    "0xff",
    "4s3",
    "_",
    "@",
    "\"",
    "#define x",
    "#if",
    "\n",
];

/// A program of the examples, as bytes to change.
fn seeds() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/p4");
    let headers = fs::read_to_string(folder.join("headers.p4")).expect("headers");
    let whole = |name: &str| {
        let text = fs::read_to_string(folder.join(name)).expect("an example");
        text.replace("#include \"headers.p4\"", &headers)
    };
    ["port_knocking.p4", "syn_cookie.p4", "nat_lb.p4", "mac_learning.p4"].map(whole).to_vec()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn words_in_any_order(words in prop::collection::vec(prop::sample::select(WORDS.to_vec()), 0..80)) {
        survive(&words.join(" "));
        survive(&format!("#include <v1model.p4>\n{}", words.join(" ")));
    }

    #[test]
    fn any_characters(text in "\\PC{0,120}") {
        survive(&text);
    }

    #[test]
    fn examples_with_words_changed(which in 0..4usize, edits in prop::collection::vec((any::<prop::sample::Index>(), prop::sample::select(WORDS.to_vec())), 1..4)) {
        let text = &seeds()[which];
        let mut words: Vec<&str> = text.split_inclusive(' ').collect();
        for (at, word) in edits {
            let at = at.index(words.len());
            words[at] = word;
        }
        survive(&words.concat());
    }
}

/// What nests, repeats or doubles without end is refused, not followed.
#[test]
fn bounds_are_kept() {
    let deep = 100_000;
    survive(&"(".repeat(deep));
    survive(&format!("const bit<8> x = {}1{};", "(".repeat(deep), ")".repeat(deep)));
    survive(&format!("const bit<8> x = {}1;", "-".repeat(deep)));
    survive(&format!("const bit<8> x = 1{};", " + 1".repeat(deep)));
    survive(&format!("const bit<8> x = x{};", ".y".repeat(deep)));
    survive(&format!("control C() {{ apply {{ {} }} }}", "{".repeat(deep)));
    survive(&format!("control C() {{ apply {{ {} ; }} }}", "if (true) ".repeat(deep)));
    survive(&format!("header h {{ {} x; }}", "bit<".repeat(deep)));
    survive("const int x = 1 << 4096 << 4096; const int y = 99999999999 * x;");
    let doubled = |from: usize| format!("struct s{} {{ s{from} a; s{from} b; }}\n", from + 1);
    let structs: String = (0..40).map(doubled).collect();
    survive(&format!("struct s0 {{ bit<8> x; }}\n{structs} control C(in s40 x) {{ s40 y; apply {{ }} }}"));
    let macros: String = (0..60).map(|at| format!("#define m{} m{at} m{at}\n", at + 1)).collect();
    survive(&format!("#define m0\n{macros}\nm60"));
    survive("#define f(x) f(x) f(x)\nf(f(f(1)))");
    survive(&"#if 1\n".repeat(deep));
}

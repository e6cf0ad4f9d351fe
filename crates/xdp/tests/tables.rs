//! Tables whose entries come from outside: what the kernel does with them is what the interpreter does, before a change and behind it.

use fastrand::Rng;
use p4::ir::Program;
use paceline_xdp::tables::{ChangeError, Tables};
use paceline_xdp::trial::{self, Course};
use paceline_xdp::{Strategy, compile};

use crate::common::{compiled, loaded, lowered, object, random_packets};

/// A program with a table of each kind, in the ingress and in the egress; `apply` is behind them.
fn program(apply: &str) -> Program {
    lowered("tables.p4", &source(apply))
}

fn source(apply: &str) -> String {
    format!(
        "#include \"headers.p4\"
struct metadata_t {{ bit<8> m; bit<16> n; bit<8> class; }}
EXAMPLE_PARSER(metadata_t)
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {{
    register<bit<16>>(256) r;
    action set(bit<8> v) {{ hdr.ipv4.tos = v; }}
    action two(bit<8> v, bit<16> w) {{ meta.m = v; hdr.ipv4.identification = w; }}
    action class_of(bit<8> v) {{ meta.class = v; }}
    action drop() {{ mark_to_drop(standard); }}
    action to(bit<9> port, bit<48> station) {{ standard.egress_spec = port; hdr.ethernet.dst_addr = station; }}
    table hosts {{ key = {{ hdr.ipv4.src_addr: exact; hdr.tcp.dst_port: exact; }} actions = {{ set; two; drop; NoAction; }}
        size = 8; default_action = set(7); }}
    table routes {{ key = {{ hdr.ipv4.protocol: exact; hdr.ipv4.dst_addr: lpm; }} actions = {{ to; drop; }}
        size = 64; default_action = to(1, 0x20000000001); }}
    table rules {{ key = {{ hdr.ipv4.src_addr: ternary; hdr.tcp.dst_port: range; hdr.ipv4.protocol: optional; }}
        actions = {{ set; two; NoAction; }} size = 128; default_action = NoAction();
        entries = {{ (0xc0000201 &&& 0xffffffff, 22 .. 80, 6): set(9); }} }}
    table classes {{ key = {{ hdr.ipv4.dst_addr: exact; }} actions = {{ class_of; NoAction; }} size = 8; default_action = NoAction(); }}
    apply {{
        standard.egress_spec = 1;
        if (hdr.ipv4.isValid()) {{
            if (hosts.apply().hit) {{ hdr.ethernet.src_addr = 3; }}
            switch (rules.apply().action_run) {{ two: {{ hdr.ipv4.ttl = meta.m; }} default: {{ }} }}
            routes.apply();
            classes.apply();
            {apply}
        }}
    }}
}}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {{
    action set(bit<8> v) {{ hdr.ipv4.tos = hdr.ipv4.tos ^ v; }}
    table out_ports {{ key = {{ standard.egress_port: exact; }} actions = {{ set; NoAction; }} size = 4; default_action = NoAction(); }}
    apply {{ out_ports.apply(); }}
}}
V1Switch(ExampleParser(), ExampleVerify(), I(), E(), ExampleCompute(), ExampleDeparser()) main;
"
    )
}

/// One step that is locked, of each source.
const COUNTS: &str = "r.read(meta.n, (bit<32>) hdr.ipv4.src_addr[7:0]); r.write((bit<32>) hdr.ipv4.src_addr[7:0], meta.n |+| 3);";

/// What is counted depends on a table.
const BY_CLASS: &str = "r.read(meta.n, (bit<32>) hdr.ipv4.src_addr[7:0]);
    r.write((bit<32>) hdr.ipv4.src_addr[7:0], meta.n |+| (bit<16>) meta.class);";

/// A line that may be done, or not: entries that are there already, and none where one is removed, are among them.
fn line(rng: &mut Rng) -> String {
    let add = if rng.u8(..3) > 0 { "add" } else { "remove" };
    let host = rng.u8(1..6);
    let port = [22, 80, 7001, 7002, 7003][rng.usize(..5)];
    let does = |text: String| if add == "add" { text } else { String::new() };
    match rng.u8(..6) {
        0 => {
            let call = [
                format!("set(v:{host})"),
                format!("two(v:{host}, w:{})", rng.u16(..)),
                "drop()".to_owned(),
                "NoAction()".to_owned(),
            ];
            let call = does(call[rng.usize(..4)].clone());
            format!("{add} hosts hdr.ipv4.src_addr:192.0.2.{host} hdr.tcp.dst_port:{port} {call}")
        }
        1 | 2 => {
            let (bits, protocol) = ([0, 7, 8, 24, 31, 32][rng.usize(..6)], [1, 6, 17][rng.usize(..3)]);
            let call = if rng.bool() {
                format!("to({}, {:#x})", rng.u8(1..4), rng.u32(..))
            } else {
                "drop()".to_owned()
            };
            let call = does(call);
            let to = rng.u8(1..3);
            format!(
                "{add} routes hdr.ipv4.protocol:{protocol} hdr.ipv4.dst_addr:198.51.100.{to}/{bits} {call}"
            )
        }
        3 => {
            let (mask, low) =
                ([0, 1, 6, 0xff, 0xffff_ffff_u32][rng.usize(..5)], [0, 22, 7001][rng.usize(..3)]);
            let call = does([format!("set({host})"), format!("two({host}, {port})")][rng.usize(..2)].clone());
            let protocol = ["6", "17", "*"][rng.usize(..3)];
            format!(
                "{add} rules {} hdr.ipv4.src_addr:0xc000020{host}&&&{mask:#x} hdr.tcp.dst_port:{low}..{} \
                 hdr.ipv4.protocol:{protocol} {call}",
                rng.u8(..4),
                low.max(port)
            )
        }
        4 => {
            let default = [format!("set({host})"), "drop()".to_owned(), "NoAction()".to_owned()];
            format!("setdefault hosts {}", default[rng.usize(..3)])
        }
        _ => {
            format!("{add} out_ports standard.egress_port:{} {}", rng.u8(1..4), does(format!("set({host})")))
        }
    }
}

/// Lines ahead of the first packet, and some before each twentieth.
fn lines(seed: u64, packets: u64) -> Vec<(u64, String)> {
    let mut rng = Rng::with_seed(seed);
    let first = (0..40).map(|_| 0);
    first
        .chain((0..packets).filter(|number| number % 20 == 0))
        .map(|number| (number, line(&mut rng)))
        .collect()
}

/// The first difference from the interpreter, after a change of the C; nothing, with a word why, where it cannot be looked for.
fn found(
    label: &str,
    (strategy, cores, apply): (Strategy, u16, &str),
    changes: &[(u64, String)],
    plant: &dyn Fn(String) -> String,
) -> Option<Option<String>> {
    let program = program(apply);
    let mut compiled = compiled(&program, strategy);
    compiled.c = plant(compiled.c);
    let object = object(&compiled, &format!("tables-{label}"))?;
    // Where there are no rights, the reason is printed.
    loaded(&compiled, &object, 1)?;
    let loaded = trial::load(&compiled, &object, cores, false).expect("it is loaded");
    let packets = random_packets(5, 2000);
    let course = Course { changes, ..Course::new(cores, &packets) };
    Some(trial::difference(&program, &compiled, &loaded, &course).expect("the maps"))
}

#[test]
fn tables_equal_the_interpreter_while_they_change() {
    for (strategy, cores) in
        [(Strategy::Sharded, 1), (Strategy::Sharded, 4), (Strategy::Shared, 3), (Strategy::Scr, 5)]
    {
        let changes = lines(cores.into(), 2000);
        let Some(found) = found("equal", (strategy, cores, COUNTS), &changes, &|c| c) else { return };
        assert_eq!(found, None, "{strategy}");
    }
}

/// The table that state depends on is filled ahead of the packets, and replicas agree.
#[test]
fn replicas_look_up_what_state_depends_on() {
    let classes = [(1, 5), (2, 11)].map(|(host, class)| {
        (0, format!("add classes hdr.ipv4.dst_addr:198.51.100.{host} class_of({class})"))
    });
    let Some(found) = found("classes", (Strategy::Scr, 5, BY_CLASS), &classes, &|c| c) else { return };
    assert_eq!(found, None);
}

/// The dispatcher looks up, too, what it needs to find a packet's shard; that table stays while packets come.
#[test]
fn a_table_may_say_to_which_shard_packets_go() {
    const OF_CLASS: &str = "r.read(meta.n, (bit<32>) meta.class); r.write((bit<32>) meta.class, meta.n + 1); hdr.ipv4.identification = meta.n;";
    let compiled = compiled(&program(OF_CLASS), Strategy::Sharded);
    let fixed: Vec<&str> = compiled
        .controls
        .iter()
        .filter(|table| table.fixed.as_ref().is_some_and(|why| why.contains("to which core packets go")))
        .map(|table| &*table.shown)
        .collect();
    assert_eq!(fixed, ["ingress.classes"]);
    let classes = [(1, 5), (2, 11)].map(|(host, class)| {
        (0, format!("add classes hdr.ipv4.dst_addr:198.51.100.{host} class_of({class})"))
    });
    let Some(found) = found("shards", (Strategy::Sharded, 4, OF_CLASS), &classes, &|c| c) else { return };
    assert_eq!(found, None);
}

#[test]
fn a_wrong_look_up_is_found() {
    for (label, from, to) in [
        ("argument", "= entry->argument[0];", "= 0;"),
        ("shorter", "at < table->lengths; at++", "at + 1 < table->lengths; at++"),
        ("range", "<= entry->key[1].high", "< entry->key[1].high"),
        ("hit", "*hit = slot < 64;", "*hit = 1;"),
        ("half", "half = map_lookup(&halves_map, &which);", "which = 0; half = &which;"),
        (
            "default",
            "entry = &s->ingress_hosts_entries->otherwise;",
            "entry = &s->ingress_hosts_entries->slots[0];",
        ),
    ] {
        let plant = |c: String| {
            assert!(c.contains(from), "{from}");
            c.replace(from, to)
        };
        let changes = lines(1, 2000);
        let Some(found) = found(label, (Strategy::Sharded, 1, COUNTS), &changes, &plant) else { return };
        assert!(found.is_some(), "{label}");
    }
}

/// The whole of what is said when a line is not done, and the table is what it was.
#[test]
fn what_cannot_be_done_is_refused() {
    let program = program(BY_CLASS);
    let compiled = compiled(&program, Strategy::Scr);
    let Some(object) = object(&compiled, "tables-refused") else { return };
    let Some(loaded) = loaded(&compiled, &object, 2) else { return };
    let mut tables = Tables::new(&loaded).expect("the maps");
    tables
        .fill("# Both.\nadd classes hdr.ipv4.dst_addr:198.51.100.1 class_of(5) // five\n")
        .expect("there is room");
    let wrong =
        tables.fill("setdefault hosts drop()\nadd nothing a:1 b()").expect_err("there is no such table");
    assert!(wrong.to_string().starts_with("line 2: there is no table or muTable `nothing`"), "{wrong}");
    tables.run();
    let mut said = |line: &str| match tables.change(line) {
        Ok(()) => String::new(),
        Err(error) => error.to_string(),
    };
    let host = |number: u8| format!("add hosts hdr.ipv4.src_addr:192.0.2.{number} hdr.tcp.dst_port:1 drop()");
    for number in 1..9 {
        assert_eq!(said(&host(number)), "");
    }
    for (line, why) in [
        (
            "add classes hdr.ipv4.dst_addr:198.51.100.2 class_of(5)",
            "`ingress.classes` stays while packets come: state depends on it",
        ),
        (&host(9), "`ingress.hosts` is full with 8 entries"),
        (&host(8), "has an entry with these keys already"),
        (
            "remove hosts hdr.ipv4.src_addr:10.0.0.1 hdr.tcp.dst_port:1",
            "`ingress.hosts` has no entry with these keys",
        ),
        (
            "add hosts hdr.ipv4.src_addr:10.0.0.1/8 hdr.tcp.dst_port:1 drop()",
            "does not go with how this key is matched",
        ),
        ("packet 0 00", "`packet` changes no table; there are: add, remove, setdefault"),
    ] {
        assert!(said(line).contains(why), "{line}: {}", said(line));
    }
    for number in 0..63 {
        assert_eq!(
            said(&format!("add rules {number} hdr.ipv4.src_addr:{number} hdr.tcp.dst_port:1..2 set(1)")),
            ""
        );
    }
    let last = said("add rules 99 hdr.ipv4.src_addr:9 hdr.tcp.dst_port:1..2 set(1)");
    assert!(last.contains("`ingress.rules` takes 64 entries in the kernel"), "{last}");
    let listed = tables.list(Some("hosts"), 2).expect("it is there");
    assert_eq!((listed.len(), listed[0].entries, listed[0].size), (1, 8, 8), "{listed:?}");
    assert_eq!(listed[0].first[1], "hdr.ipv4.src_addr:0xc0000202 hdr.tcp.dst_port:0x1 ingress.drop()");
    assert_eq!(listed[0].default, "ingress.set(v:0x7)");
    let all = tables.list(None, 1).expect("all");
    assert_eq!(all.len(), 5, "{all:?}");
    assert!(all.iter().any(|table| table.name == "ingress.classes" && table.fixed.is_some()), "{all:?}");
    let none = tables.list(Some("nothing"), 1).expect_err("there is none");
    assert!(matches!(none, ChangeError::Refused(_)) && none.to_string().contains("ingress.hosts"), "{none}");
}

/// A listed entry is one that can be added.
#[test]
fn what_is_listed_can_be_added_again() {
    let program = program(COUNTS);
    let compiled = compiled(&program, Strategy::Shared);
    let Some(object) = object(&compiled, "tables-listed") else { return };
    let Some(loaded) = loaded(&compiled, &object, 1) else { return };
    let fresh = || Tables::new(&loaded).expect("the maps");
    let mut tables = fresh();
    let mut rng = Rng::with_seed(3);
    (0..200).for_each(|_| drop(tables.change(&line(&mut rng))));
    let listed = tables.list(None, 1000).expect("all");
    assert!(listed.iter().filter(|table| table.entries > 3).count() >= 3, "{listed:?}");
    let mut again = fresh();
    // An entry of the source is there from the start.
    again
        .change("remove rules 0 hdr.ipv4.src_addr:0xc0000201 hdr.tcp.dst_port:22..80 hdr.ipv4.protocol:6")
        .expect("there");
    for table in &listed {
        again.change(&format!("setdefault {} {}", table.name, table.default)).expect("it is what it was");
        table
            .first
            .iter()
            .for_each(|entry| again.change(&format!("add {} {entry}", table.name)).expect(entry));
    }
    assert_eq!(again.list(None, 1000).expect("all"), listed);
}

/// A table that is too large for a map is refused by name.
#[test]
fn a_table_that_is_too_large_is_refused() {
    let text = source(COUNTS).replace("size = 64;", "size = 4000000;");
    let refused = compile(&lowered("tables.p4", &text), Strategy::Shared).expect_err("too large");
    assert!(refused[0].message.contains("table ingress.routes takes"), "{refused:?}");
}

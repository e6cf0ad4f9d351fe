//! Programs on chips: plans keep every limit and every dependency, by a judge that is not the placer, and stage by stage they do what the
//! program does. What does not fit is named, with what it is too much by.

use super::common;
use super::tree::random::random;

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use common::{lowered, program, staged};
use paceline_p4::interpret::Machine;
use paceline_p4::ir::Program;
use paceline_p4::passes::allocate::fit::Fault;
use paceline_p4::resources::check::check;
use paceline_p4::resources::need::Part;
use paceline_p4::resources::plan::{Placed, Plan, plan, plan_with};
use paceline_p4::resources::profile::{Profile, ProfileError, Resource};
use paceline_p4::{Options, lower, stf};
use proptest::prelude::*;

/// A chip of few stages and small memories: blocks of 64 rows of 32 bits.
fn chip(stages: u32, sram: u32, tcam: u32, hash: u32, alus: u32, tables: u32) -> Profile {
    let memory = |blocks: u32| {
        format!(
            "blocks = {{ number = {blocks}, source = \"a test\" }}
rows = {{ number = 64, source = \"a test\" }}
bits = {{ number = 32, source = \"a test\" }}"
        )
    };
    let number = |name: &str, number: u32| format!("{name} = {{ number = {number}, source = \"a test\" }}\n");
    let mut text = "name = \"small\"\nabout = \"a test\"\n".to_owned();
    text += &number("stages", stages);
    text += "[stage]\n";
    for (name, count) in
        [("hash_units", hash), ("alus", alus), ("alu_bits", 32), ("tables", tables), ("key_bits", 4096)]
    {
        text += &number(name, count);
    }
    write!(text, "[stage.sram]\n{}\n[stage.tcam]\n{}\n", memory(sram), memory(tcam)).expect("text");
    for bits in [8, 16, 32] {
        write!(text, "[[containers]]\nbits = {bits}\n{}", number("count", 128)).expect("text");
    }
    text += "[ring]\n";
    text += &number("payload_bits", 4096);
    text += &number("bus_bits", 4114);
    Profile::read(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn stock(name: &str) -> Profile {
    Profile::stock().find(|profile| profile.name == name).expect("a profile")
}

/// A plan that the judge finds nothing wrong with.
fn placed(program: &Program, profile: &Profile) -> Placed {
    let placed = plan(program, profile).unwrap_or_else(|unfit| panic!("{unfit}"));
    assert_eq!(check(&placed, profile), Vec::<String>::new());
    placed
}

fn refused(program: &Program, profile: &Profile) -> String {
    plan(program, profile).map(|placed| format!("{:?}", placed.shares)).expect_err("too much").to_string()
}

/// The stages of a table, and how many entries are in each.
fn parts(placed: &Placed, part: Part) -> Vec<(u16, u64)> {
    let shares = placed.shares.iter().filter(|share| share.part == part);
    shares.map(|share| (share.stage, share.entries)).collect()
}

fn examples() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/p4");
    let mut found = Vec::new();
    for folder in [folder.clone(), folder.join("scr")] {
        let entries = fs::read_dir(folder).expect("examples");
        found.extend(entries.map(|entry| entry.expect("an entry").path()));
    }
    found.retain(|path| path.extension().is_some_and(|extension| extension == "p4"));
    found.retain(|path| !path.ends_with("headers.p4"));
    found.sort();
    found
}

fn read(path: &Path) -> Program {
    let text = fs::read_to_string(path).expect("an example");
    let options = Options { include_dirs: vec![path.with_file_name("..")], ..Options::default() };
    match lower(&path.display().to_string(), &text, &options) {
        Ok((program, _)) => program,
        Err(errors) => panic!("{:?}", miette::Report::new(errors)),
    }
}

#[test]
fn examples_on_all_chips_are_sound_or_say_why_not() {
    let mut fit = 0;
    for path in examples() {
        let program = read(&path);
        for profile in Profile::stock() {
            match plan(&program, &profile) {
                Ok(placed) => {
                    assert_eq!(
                        check(&placed, &profile),
                        Vec::<String>::new(),
                        "{path:?} on {}",
                        profile.name
                    );
                    does_the_same(&path, &program, &placed);
                    fit += 1;
                }
                // The place of what is too much, or what there is none of.
                Err(unfit) => {
                    let said = unfit.to_string();
                    assert!(said.contains(".p4:") || said.contains("header vector"), "{path:?}: {said}");
                }
            }
        }
    }
    assert!(fit >= 18, "only {fit} fit");
}

/// Stage by stage, with the entries and the packets of the test file beside the program.
fn does_the_same(path: &Path, program: &Program, placed: &Placed) {
    let text = fs::read_to_string(path.with_extension("stf")).expect("a test file");
    let is_entry =
        |line: &&str| ["add ", "setdefault ", "multicast "].iter().any(|word| line.starts_with(word));
    let entries = text.lines().filter(is_entry).collect::<Vec<_>>().join("\n");
    let (mut whole, mut pipeline) = (Machine::new(program.clone()), Machine::new(placed.program.clone()));
    for machine in [&mut whole, &mut pipeline] {
        stf::run(machine, &entries).expect("entries");
    }
    for line in text.lines() {
        let Some(packet) = line.strip_prefix("packet ") else { continue };
        let mut words = packet.split_whitespace();
        let port = words.next().and_then(|port| port.parse().ok()).expect("a port");
        let bytes = stf::from_hex(&words.collect::<String>()).expect("bytes");
        let expected = whole.packet(port, &bytes, 0);
        assert_eq!(staged(&mut pipeline, port, &bytes, None), expected, "{path:?}: {line}");
    }
    let dump = |machine: &Machine| machine.state().dump(machine.program());
    assert_eq!(dump(&whole), dump(&pipeline), "{path:?}");
}

const FIELDS: &str = "bit<8> a; bit<8> b; bit<8> c; bit<8> d;";

/// A register of 64 times so many values of 32 bits: so many blocks.
fn hits(blocks: u32) -> Program {
    let locals = format!("register<bit<32>>({}) hits;", 64 * blocks);
    let apply = "bit<32> n; hits.read(n, (bit<32>) hdr.h.a); hits.write((bit<32>) hdr.h.a, n + 1);";
    lowered(&program(FIELDS, "", &locals, apply))
}

#[test]
fn what_fits_exactly_fits_and_one_block_more_does_not() {
    placed(&hits(5), &chip(1, 5, 0, 0, 1, 1));
    let said = refused(&hits(6), &chip(1, 5, 0, 0, 1, 1));
    let expected = "it does not fit `small`: register ingress.hits (test.p4:11:24) takes 6 SRAM blocks, 1 more than the 5 of a stage";
    assert_eq!(said, expected);
    let said = refused(&hits(5), &chip(1, 5, 0, 0, 0, 1));
    assert!(said.contains("takes 1 stateful ALU, 1 more than the 0 of a stage"), "{said}");
}

/// Two registers of three and two blocks.
fn two() -> Program {
    let locals = "register<bit<32>>(192) three; register<bit<32>>(128) two;";
    let apply = "bit<32> n; three.read(n, (bit<32>) hdr.h.a); three.write((bit<32>) hdr.h.a, n + 1);
         bit<32> m; two.read(m, (bit<32>) hdr.h.b); two.write((bit<32>) hdr.h.b, m + 1);
         hdr.h.c = (bit<8>) (n + m);";
    lowered(&program(FIELDS, "", locals, apply))
}

#[test]
fn what_is_too_much_for_a_stage_goes_to_the_next() {
    let stages = |placed: &Placed| placed.program.layout.as_ref().map(|layout| layout.stages);
    assert_eq!(stages(&placed(&two(), &chip(2, 5, 0, 0, 2, 2))), Some(1));
    assert_eq!(stages(&placed(&two(), &chip(2, 4, 0, 0, 2, 2))), Some(2));
    assert_eq!(stages(&placed(&two(), &chip(2, 5, 0, 0, 1, 2))), Some(2));
    assert_eq!(stages(&placed(&two(), &chip(2, 5, 0, 0, 2, 1))), Some(2));
    let said = refused(&two(), &chip(1, 4, 0, 0, 2, 2));
    assert!(
        said.contains("takes 2 SRAM blocks, 1 more than are left of the 4 of stage 1, and there is no room in a later stage"),
        "{said}"
    );
}

/// A table of 256 entries of 8 bits of key, 4 more, one for two actions and 8 of data: 4 blocks; its key comes from another table.
fn split() -> Program {
    let locals = "action first(bit<8> by) { meta.x = by; } action keep() { } action second(bit<8> by) { hdr.h.d = by; }
table one { key = { hdr.h.a: exact; } actions = { first; keep; } size = 64; default_action = keep(); }
table wide { key = { meta.x: exact; } actions = { second; keep; } size = 256; default_action = keep(); }";
    lowered(&program(FIELDS, "bit<8> x;", locals, "one.apply(); wide.apply();"))
}

#[test]
fn tables_are_split_over_stages_behind_their_keys() {
    let whole = placed(&split(), &chip(4, 4, 0, 2, 0, 2));
    assert_eq!(parts(&whole, Part::Table(1)), [(2, 256)]);
    let halves = placed(&split(), &chip(4, 2, 0, 2, 0, 2));
    assert_eq!(parts(&halves, Part::Table(1)), [(2, 128), (3, 128)]);
    let said = refused(&split(), &chip(4, 1, 0, 2, 0, 2));
    assert!(
        said.contains(
            "table ingress.wide (test.p4:15:14): its last 64 entries take 1 SRAM block, 1 more than"
        ),
        "{said}"
    );
}

/// The ring of SCR's sequencer (§3.3): an index, and a register for each packet, which is read behind it.
fn sequencer(rows: usize) -> Program {
    let (mut fields, mut locals) = ("bit<32> item;".to_owned(), "register<bit<32>>(1) index;".to_owned());
    let mut apply =
        format!("bit<32> at; index.read(at, 0); index.write(0, at == {} ? 0 : at + 1);", rows - 1);
    for row in 0..rows {
        write!(fields, " bit<32> v{row};").expect("text");
        write!(locals, " register<bit<32>>(1) row{row};").expect("text");
        write!(
            apply,
            "\nif (at < {rows}) {{ row{row}.read(hdr.h.v{row}, 0); if (at == {row}) {{ row{row}.write(0, hdr.h.item); }} }}"
        )
        .expect("text");
    }
    lowered(&program(&fields, "", &locals, &apply))
}

/// SCR, Table 3: 44 fields of 32 bits, with 93.75% of the stateful ALUs.
#[test]
fn the_sequencer_of_scr_holds_as_many_fields_as_the_paper_says() {
    let profile = stock("sequencer");
    let report = Plan::new(&placed(&sequencer(44), &profile), &profile, "");
    assert_eq!((report.stages.len(), report.stages[0].alus), (12, 1));
    assert!((report.share(Resource::Alu) - 0.9375).abs() < 1e-9);
    let said = refused(&sequencer(45), &profile);
    assert!(said.contains("takes 1 stateful ALU, 1 more than are left of the 4 of stage 12"), "{said}");
}

#[test]
fn without_a_ring_states_are_written_where_they_are_read() {
    let path = examples().into_iter().find(|path| path.ends_with("port_knocking.p4")).expect("an example");
    placed(&read(&path), &stock("rapid"));
    let said = refused(&read(&path), &stock("banzai"));
    let expected = "is read in stage 1 and written from stage 2, which takes a ring, and there is none";
    assert!(
        said.contains("muTable ingress.port_knocking (port_knocking.p4:") && said.contains(expected),
        "{said}"
    );
    let mut narrow = stock("rapid");
    narrow.ring.as_mut().expect("a ring").payload_bits.number = 79;
    let said = refused(&read(&path), &narrow);
    assert!(said.contains("takes 80 bits on the ring, 1 more than its payload"), "{said}");
}

#[test]
fn a_header_vector_that_is_too_wide_is_refused() {
    let mut narrow = chip(2, 5, 1, 1, 1, 1);
    // Four fields of 8 bits, and a bit that says that the header is there.
    narrow.containers.retain(|kind| kind.bits == 8);
    narrow.containers[0].count.number = 6;
    placed(&hits(1), &narrow);
    narrow.containers[0].count.number = 3;
    let said = refused(&hits(1), &narrow);
    assert!(
        said.contains("the header vector: fields of") && said.contains("find no container of the 24 bits"),
        "{said}"
    );
}

/// What a chip may have of each resource, from next to nothing to plenty.
fn random_chips() -> impl Strategy<Value = Profile> {
    (1..20_u32, 1..12_u32, 0..8_u32, 1..6_u32, 1..6_u32, 1..6_u32)
        .prop_map(|(stages, sram, tcam, hash, alus, tables)| chip(stages, sram, tcam, hash, alus, tables))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, failure_persistence: None, ..ProptestConfig::default() })]

    /// Random programs on random chips: sound, and stage by stage what the program does; or refused.
    #[test]
    fn plans_are_sound(seed in 0..10_000_u64, profile in random_chips()) {
        let random = random(seed);
        let whole = lowered(&random.source);
        match plan(&whole, &profile) {
            Err(unfit) => prop_assert!(!unfit.what.is_empty()),
            Ok(placed) => {
                prop_assert_eq!(check(&placed, &profile), Vec::<String>::new(), "{}", random.source);
                let (mut reference, mut pipeline) = (Machine::new(whole), Machine::new(placed.program));
                for machine in [&mut reference, &mut pipeline] {
                    stf::run(machine, &random.test_file()).expect("entries");
                }
                for (port, bytes) in &random.packets {
                    let expected = reference.packet(*port, bytes, 0);
                    prop_assert_eq!(staged(&mut pipeline, *port, bytes, None), expected, "{}", random.source);
                }
            }
        }
    }
}

/// The random programs and chips are of all kinds: some fit at once, some after moves or splits, some do not.
#[test]
fn random_plans_are_of_all_kinds() {
    let (mut at_once, mut moved, mut unfit) = (0, 0, 0);
    for seed in 0..120 {
        let whole = lowered(&random(seed).source);
        let mut free = whole.clone();
        paceline_p4::passes::compile(&mut free);
        let stages = free.layout.map_or(0, |layout| layout.stages);
        match plan(&whole, &chip(16, 2, 2, 1, 1, 1)) {
            Err(_) => unfit += 1,
            Ok(placed) if placed.program.layout.as_ref().is_some_and(|layout| layout.stages > stages) => {
                moved += 1
            }
            Ok(_) => at_once += 1,
        }
    }
    assert!(at_once > 5 && moved > 5 && unfit > 0, "{at_once} at once, {moved} moved, {unfit} refused");
}

/// Defects of the placer are found by the judge.
#[test]
fn planted_faults_are_found() {
    let found = |program: &Program, profile: &Profile, fault: Fault| {
        let placed = plan_with(program, profile, fault).unwrap_or_else(|unfit| panic!("{fault:?}: {unfit}"));
        check(&placed, profile).join("; ")
    };
    let ignored = [
        (Resource::Sram, chip(1, 4, 0, 0, 2, 2), "stage 1: 5 SRAM blocks, of 4"),
        (Resource::Alu, chip(1, 5, 0, 0, 1, 2), "stage 1: 2 stateful ALUs, of 1"),
        (Resource::Table, chip(1, 5, 0, 0, 2, 1), "stage 1: 2 tables, of 1"),
    ];
    for (resource, profile, expected) in ignored {
        let said = found(&two(), &profile, Fault::Ignores(resource));
        assert!(said.contains(expected), "{resource:?}: {said}");
    }
    let profile = chip(4, 2, 0, 2, 0, 2);
    let said = found(&split(), &profile, Fault::BeginsEarly);
    assert!(said.contains("has meta.x at 2, which is written at 3"), "{said}");
    let said = found(&split(), &profile, Fault::LosesEntries);
    assert!(said.contains("room for 254 entries, of 256"), "{said}");
}

/// A plan that is changed afterwards is not sound either: a statement a stage earlier, a field without its containers.
#[test]
fn the_judge_finds_what_is_changed_in_a_plan() {
    let profile = chip(4, 4, 0, 2, 0, 2);
    let sound = placed(&split(), &profile);
    let mut early = sound.clone();
    for statement in &mut early.program.ingress {
        statement.stage = 1;
    }
    early.shares.iter_mut().for_each(|share| share.stage = 1);
    assert!(!check(&early, &profile).is_empty());
    let mut bare = sound.clone();
    bare.vector.clear();
    assert!(check(&bare, &profile).iter().any(|wrong| wrong.contains("has no container")));
    let mut twice = sound;
    twice.shares.push(twice.shares[0].clone());
    assert!(check(&twice, &profile).iter().any(|wrong| wrong.contains("twice")));
}

#[test]
fn stock_profiles_are_read_and_say_where_numbers_come_from() {
    let names: Vec<String> = Profile::stock().map(|profile| profile.name).collect();
    assert_eq!(names, ["rapid", "banzai", "switch", "sequencer"]);
    for profile in Profile::stock() {
        assert!(!profile.stages.source.is_empty() && !profile.stage.sram.blocks.source.is_empty());
        // 512 bytes (RAPID §6.1), 4 Kb (SCR §3.3.2).
        assert_eq!(profile.vector_bits(), 4096);
    }
}

#[test]
fn mistakes_in_profiles_are_named() {
    let text =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/resources/profiles/rapid.toml"));
    let text = text.expect("a profile");
    let said = |from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        Profile::read(&text.replacen(from, to, 1)).expect_err("a mistake")
    };
    let range = said("[stages]\nnumber = 4", "[stages]\nnumber = 0").to_string();
    assert_eq!(range, "stages is 0; it must be 1 to 64");
    assert_eq!(said("bits = 16", "bits = 8"), ProfileError::Twice(8));
    let form = said("[stage.alus]", "[stage.alus]\nmore = 3").to_string();
    assert!(form.contains("more"), "{form}");
    assert!(
        said("rows = { number = 1024", "rows = { number = 0").to_string().contains("stage.sram.rows is 0")
    );
}

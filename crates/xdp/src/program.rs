//! The whole file of C: packet, state, parser, blocks, and what is loaded.

use p4::ir::Program;

use crate::addition::Additions;
use crate::body::{Bodies, PARAMETERS};
use crate::crc;
use crate::expression::load;
use crate::hint::Hints;
use crate::history::{Item, MAX_RING_ITEMS, Slice};
use crate::logged;
use crate::names::Names;
use crate::outside;
use crate::parse;
use crate::recovery;
use crate::sequencer;
use crate::shard::Shards;
use crate::state;
use crate::strategy::Strategy;
use crate::sums::Sums;
use crate::table::ControlTable;
use crate::writer::Writer;

/// The C of a program that [has no refusals](crate::subset::refusals).
pub fn text(
    program: &Program,
    strategy: Strategy,
    slice: &Slice,
    item: &Item,
    shards: &Shards,
    additions: &Additions,
    controls: &[ControlTable],
) -> String {
    let names = &Names::of(program);
    let mut out = Writer::new(program);
    let out = &mut out;
    let scr = strategy == Strategy::Scr;
    out.line(format!(
        "// {} as XDP programs, strategy {strategy}: written by `paceline p4 compile`.",
        program.name
    ));
    if additions.needs_lock {
        out.line("#define UNDER_LOCK");
    }
    out.line("#include \"paceline.h\"");
    out.line("");
    out.line("// Set where it is loaded: what spreads keys over tables; the interface whose packets come by port 1; whether items");
    out.line("// are replayed again and again, to measure them.");
    out.line("const volatile u64 seed = 0x5ca1ab1e;");
    out.line("const volatile u32 outside = 0;");
    out.line("const volatile u32 repeats = 0;");
    logged::bounds(out);
    sequencer::globals(out);
    out.line("");
    crc::write(program, out);
    state::write(program, names, strategy, additions, controls, out);
    state::traffic(out);
    let hints = &Hints::of(program);
    let sums = &Sums::of(program);
    packet(program, names, hints, sums, strategy, out);
    let mut bodies = Bodies {
        program,
        names,
        hints,
        sums,
        strategy,
        additions,
        controls,
        slice: None,
        prefix: "",
        labels: 0,
    };
    let blocks: [(&str, &[_]); 4] = [
        ("verify_checksum", &program.verify_checksum),
        ("ingress", &program.ingress),
        ("egress", &program.egress),
        ("compute_checksum", &program.compute_checksum),
    ];
    parse::parser(&bodies, out);
    bodies.tables(&blocks.map(|(_, body)| body), out);
    for (name, body) in blocks {
        bodies.block(name, body, out);
    }
    parse::deparser(&bodies, out);
    let part =
        if scr { Some((slice, "replay_")) } else { shards.slice.as_ref().map(|slice| (slice, "shard_")) };
    if let Some((slice, prefix)) = part {
        (bodies.slice, bodies.prefix) = (Some(slice), prefix);
        bodies.tables(&[&program.ingress], out);
        bodies.block("ingress", &program.ingress, out);
    }
    whole(program, names, additions, out);
    history(names, item, scr, out);
    sequencer::items(names, item, out);
    if scr {
        recovery::logs(out);
        recovery::write(out);
        logged::write(item, out);
    }
    entries(strategy, out);
    match scr {
        true => {
            sequencer::write(item, out);
            outside::write(item, out);
            logged::sequencer(out);
        }
        false => sequencer::dispatch(program, names, strategy, shards, out),
    }
    out.line("char LICENSE[] SEC(\"license\") = \"Dual MIT/GPL\";");
    std::mem::replace(out, Writer::new(program)).finish()
}

fn packet(
    program: &Program,
    names: &Names,
    hints: &Hints,
    sums: &Sums,
    strategy: Strategy,
    out: &mut Writer<'_>,
) {
    out.line("// A packet on its way: every field of the program, and where its headers are.");
    out.line("struct packet {");
    for (at, field) in (0..).zip(&program.fields) {
        out.line(format!("u64 {}; // {}:{}", names.field(at), field.name, field.width));
    }
    names.headers.iter().for_each(|header| out.line(format!("u8 *{header}_at;")));
    for (at, name) in (0..).zip(&names.mu_tables) {
        if hints.remembers(at) {
            out.line(format!("u64 {name}_read; // the slot that was read, and 1"));
        }
    }
    sums.all().for_each(|run| out.line(format!("u64 {}; // of the words as they lie", run.name(names))));
    out.line("u64 unused;");
    if strategy == Strategy::Shared {
        out.line("u64 turn; // the order in which packets had the state");
    }
    out.line("};");
    out.line("");
}

/// One packet through the whole program, as the reference does it.
fn whole(program: &Program, names: &Names, additions: &Additions, out: &mut Writer<'_>) {
    let standard = program.standard;
    let name = |field| names.field(field);
    let set = |field: u32, value: &str| {
        let width = program.fields[field as usize].width;
        format!("p->{} = {};", names.field(field), crate::expression::masked(value, width))
    };
    let spec = name(standard.egress_spec);
    out.line("// All that is known of a packet before the ingress.");
    out.line(format!("INLINE void arrive({PARAMETERS}, u8 *data, u8 *end, u64 port, u64 time_ns) {{"));
    out.line(set(standard.ingress_port, "port"));
    out.line(set(standard.packet_length, "(u64)(end - data)"));
    out.line(set(standard.ingress_global_timestamp, "time_ns / 1000"));
    out.line("parse(p, s, data, end);");
    out.line("verify_checksum(p, s);");
    out.end();
    out.line("// Gives the port by which the packet leaves, or DROP_PORT.");
    out.line(format!("INLINE u64 run({PARAMETERS}, u8 *data, u8 *end, u64 port, u64 time_ns) {{"));
    out.line("arrive(p, s, data, end, port, time_ns);");
    if additions.needs_lock {
        out.line("lock(&s->turns->lock);");
        out.line("p->turn = s->turns->taken++;");
        out.line("ingress(p, s);");
        out.line("unlock(&s->turns->lock);");
    } else {
        out.line("ingress(p, s);");
    }
    out.line(format!("u64 leaves = p->{spec};"));
    out.line("if (leaves == DROP_PORT)");
    out.line("    return DROP_PORT;");
    out.line(set(standard.egress_port, "leaves"));
    out.line(set(standard.egress_rid, "0"));
    out.line(set(standard.instance_type, "0"));
    out.line(set(standard.egress_global_timestamp, "time_ns / 1000"));
    out.line("egress(p, s);");
    out.line(format!("if (p->{spec} == DROP_PORT)"));
    out.line("    return DROP_PORT;");
    out.line("if (mirrors)");
    out.line("    return leaves;");
    out.line("compute_checksum(p, s);");
    out.line("deparse(p, end);");
    out.line("return leaves;");
    out.end();
}

/// What comes before a packet: its header is read, and its items are replayed.
fn history(names: &Names, item: &Item, scr: bool, out: &mut Writer<'_>) {
    out.line(format!("// Items: {}", if item.parts.is_empty() { "none".to_owned() } else { item.layout() }));
    out.line(format!("enum {{ ITEM_BYTES = {}, MAX_RING_ITEMS = {MAX_RING_ITEMS} }};", item.bytes));
    out.line(format!("#define LAYOUT {:#x}ull", item.number()));
    out.line("");
    out.line("struct history {");
    out.line("u64 sequence, time_ns;");
    out.line("u32 ring_items, count, oldest, replica, port;");
    out.line("};");
    out.line("");
    out.line("INLINE int read_history(struct history *h, u8 *data, u8 *end) {");
    out.line("if (data + HISTORY_BYTES > end || be32(data) != HISTORY_MAGIC || data[4] != HISTORY_VERSION)");
    out.line("    return 0;");
    crate::history::header_fields(out);
    out.line("return be64(data + 24) == LAYOUT && be16(data + 32) == ITEM_BYTES && h->ring_items <= MAX_RING_ITEMS &&");
    out.line("       h->count <= h->ring_items && (!h->count || h->oldest < h->ring_items) && h->count <= h->sequence;");
    out.end();
    if !scr {
        return;
    }
    out.line("INLINE void take(struct packet *p, const u8 *item) {");
    for part in &item.parts {
        let bits = part.bytes as u32 * 8;
        out.line(format!("p->{} = {};", names.field(part.field), load("item", part.offset as u32 * 8, bits)));
    }
    out.line("(void)p, (void)item;");
    out.end();
    out.line("// SCR, section 3.2: replay precedes the packet itself. An item that was replayed before is passed over.");
    out.line("INLINE int catch_up(struct state *s, const struct history *h, u8 *ring, u8 *end) {");
    out.line("_Pragma(\"clang loop unroll(disable)\")");
    out.line("for (u32 at = 0; at < MAX_RING_ITEMS && at < h->count; at++) {");
    out.line("u64 number = h->sequence - h->count + at;");
    out.line("u32 slot = h->oldest + at;");
    out.line("slot = (slot >= h->ring_items ? slot - h->ring_items : slot) & MAX_RING_ITEMS;");
    out.line("u8 *item = ring + slot * ITEM_BYTES;");
    out.line("if (item + ITEM_BYTES > end)");
    out.line("    return 0;");
    out.line("if (number < s->progress->next && !repeats)");
    out.line("    continue;");
    out.line("if (number > s->progress->next)");
    out.line("    s->progress->missed += number - s->progress->next;");
    out.line("s->progress->next = number + 1;");
    out.line("struct packet p = {};");
    out.line("take(&p, item);");
    out.line("replay_ingress(&p, s);");
    out.line("}");
    out.line("if (h->sequence > s->progress->next)");
    out.line("    s->progress->missed += h->sequence - s->progress->next;");
    out.line("s->progress->next = h->sequence + 1;");
    out.line("return 1;");
    out.end();
}

fn entries(strategy: Strategy, out: &mut Writer<'_>) {
    let scr = strategy == Strategy::Scr;
    out.line("// Where packets leave: the interface of each port.");
    out.line("struct {");
    out.line("NUMBER(type, MAP_DEVMAP);");
    out.line("NUMBER(max_entries, 512);");
    out.line("TYPE(key, u32);");
    out.line("TYPE(value, u32);");
    out.line("} ports SEC(\".maps\");");
    out.line("");
    out.line("// In front of the sequencer, where nothing is to pass once user space is gone: the kernel takes the program out of the map");
    out.line("// when the last file of it is closed.");
    out.line("struct {");
    out.line("NUMBER(type, MAP_PROG_ARRAY);");
    out.line("NUMBER(max_entries, 1);");
    out.line("TYPE(key, u32);");
    out.line("TYPE(value, u32);");
    out.line("} running SEC(\".maps\");");
    out.line("SEC(\"xdp\") int paceline_while_running(struct xdp_md *ctx) {");
    out.line("tail_call(ctx, &running, 0);");
    out.line("return XDP_DROP;");
    out.end();
    out.line("// For tests (BPF_PROG_TEST_RUN): a packet with history before it stays as long as it is, and the port by which it");
    out.line("// leaves is written into the header.");
    out.line("SEC(\"xdp\") int paceline_try(struct xdp_md *ctx) {");
    out.line("u8 *data = (u8 *)(u64)ctx->data, *end = (u8 *)(u64)ctx->data_end;");
    with_history(scr, false, out);
    out.line("u64 leaves = run(&p, &s, packet, end, h.port, h.time_ns);");
    out.line("put16(data + 44, leaves);");
    out.line("return leaves == DROP_PORT ? XDP_DROP : XDP_TX;");
    out.end();
    out.line("// Numbers of a replica's own packets leave a gap where the full queue of its CPU lost some. One that comes late was counted.");
    out.line("INLINE void count_lost(struct progress *progress, u32 turn) {");
    out.line("int gap = turn - (u32)progress->turn;");
    out.line("if (gap >= 0) {");
    out.line("progress->lost += gap;");
    out.line("progress->turn = turn + 1;");
    out.line("} else if (progress->lost) {");
    out.line("progress->lost--;");
    out.line("}");
    out.end();
    out.line("// Behind a cpumap: one replica, or one shard, on each CPU.");
    out.line("SEC(\"xdp/cpumap\") int paceline_core(struct xdp_md *ctx) {");
    out.line("u8 *data = (u8 *)(u64)ctx->data, *end = (u8 *)(u64)ctx->data_end;");
    with_history(scr, true, out);
    out.line("u64 length = end - packet;");
    out.line("u64 leaves = run(&p, &s, packet, end, h.port, h.time_ns);");
    if strategy == Strategy::Shared {
        out.line("see(h.sequence, CAME | STEPPED, p.turn);");
    }
    onward(out);
    if scr {
        flush(out);
        by_log(out);
    }
}

/// The programs behind a log in place of history in front of packets: one for tests, and one on each CPU.
fn by_log(out: &mut Writer<'_>) {
    out.line("SEC(\"xdp\") int paceline_log_try(struct xdp_md *ctx) {");
    out.line("u8 *data = (u8 *)(u64)ctx->data, *end = (u8 *)(u64)ctx->data_end;");
    logged::before_packet(false, out);
    out.line("u64 leaves = run(&p, &s, packet, end, h.port, h.time_ns);");
    out.line("put16(data, leaves);");
    out.line("return leaves == DROP_PORT ? XDP_DROP : XDP_TX;");
    out.end();
    out.line("SEC(\"xdp/cpumap\") int paceline_log_core(struct xdp_md *ctx) {");
    out.line("u8 *data = (u8 *)(u64)ctx->data, *end = (u8 *)(u64)ctx->data_end;");
    logged::before_packet(true, out);
    out.line("u64 length = end - packet;");
    out.line("u64 leaves = run(&p, &s, packet, end, h.port, h.time_ns);");
    onward(out);
    logged::flush(out);
}

/// Sends a packet on, or drops it, and ends the program.
fn onward(out: &mut Writer<'_>) {
    out.line("if (mirrors)");
    out.line("    s.progress->sent += leaves != DROP_PORT;");
    out.line("else if (leaves == DROP_PORT)");
    out.line("    return XDP_DROP;");
    out.line("if (adjust_head(ctx, packet - data))");
    out.line("    return XDP_DROP;");
    out.line("if (mirrors)");
    out.line("    return XDP_PASS;");
    out.line("if (routes) {");
    out.line("struct fib next = {};");
    out.line("data = (u8 *)(u64)ctx->data, end = (u8 *)(u64)ctx->data_end;");
    out.line("// What has no way by this interface, or waits for a neighbour, the kernel forwards, or says why it does not.");
    out.line("if (way_of(ctx, data, end, &next) != FIB_FORWARD || next.interface != ctx->ingress_ifindex || !go(data, end, &next)) {");
    out.line("s.progress->sent++;");
    out.line("return XDP_PASS;");
    out.line("}");
    out.line("leaves = 0; // There is one interface.");
    out.line("}");
    out.line("long way = redirect_map(&ports, leaves, XDP_DROP);");
    out.line("if (way == XDP_REDIRECT) {");
    out.line("s.progress->sent++;");
    out.line("s.progress->back += routes || leaves == h.port;");
    out.line("s.progress->inversions += is_behind(leaves, h.sequence);");
    out.line("struct traffic *traffic = traffic_of(leaves);");
    out.line("if (traffic) {");
    out.line("traffic->left++;");
    out.line("traffic->left_bytes += length;");
    out.line("}");
    out.line("} else {");
    out.line("s.progress->no_port++;");
    out.line("}");
    out.line("return way;");
    out.end();
}

/// What a replica has not stepped when traffic ends: a run of `BPF_PROG_TEST_RUN` for it, whose header has the next number and
/// whose ring has the last items.
fn flush(out: &mut Writer<'_>) {
    out.line("// At the end: steps items that no packet brings any more.");
    out.line("SEC(\"xdp\") int paceline_flush(struct xdp_md *ctx) {");
    out.line("u8 *data = (u8 *)(u64)ctx->data, *end = (u8 *)(u64)ctx->data_end;");
    out.line("struct history h;");
    out.line("struct state s;");
    out.line("if (!read_history(&h, data, end) || !find_state(&s, h.replica))");
    out.line("    return XDP_ABORTED;");
    out.line("if (!recovers) {");
    out.line("if (s.progress->next < h.sequence && catch_up(&s, &h, data + HISTORY_BYTES, end))");
    out.line("    s.progress->next = h.sequence;");
    out.line("return XDP_DROP;");
    out.line("}");
    out.line("u32 self = h.replica;");
    out.line("struct log *log = map_lookup(&log_map, &self);");
    out.line("if (!log || !note(ctx, &h))");
    out.line("    return XDP_ABORTED;");
    out.line("step(&s, log, self, h.sequence);");
    out.line("return XDP_DROP;");
    out.end();
}

/// Reads the header, finds the replica's state, replays the items; `packet` is where the packet itself begins. In front of a
/// queue that may be full packets have numbers.
fn with_history(scr: bool, is_queued: bool, out: &mut Writer<'_>) {
    out.line("struct history h;");
    out.line("struct state s;");
    out.line("if (!read_history(&h, data, end) || !find_state(&s, h.replica))");
    out.line("    return XDP_ABORTED;");
    out.line("u8 *packet = data + HISTORY_BYTES + h.ring_items * ITEM_BYTES;");
    out.line("if (packet > end)");
    out.line("    return XDP_ABORTED;");
    out.line("s.progress->packets++;");
    out.line("s.progress->bytes += end - packet;");
    if is_queued {
        out.line("count_lost(s.progress, be32(data + 44));");
    }
    if scr {
        out.line("see(h.sequence, CAME, 0);");
        out.line("int is_ready = recovers ? recover(ctx, &s, &h, packet, end)");
        out.line("                        : catch_up(&s, &h, data + HISTORY_BYTES, end);");
        if is_queued {
            out.line("if (is_ready == 2 && mirrors)");
            out.line("    return adjust_head(ctx, packet - data) ? XDP_DROP : XDP_PASS;");
        }
        out.line("if (is_ready != 1)");
        out.line("    return is_ready ? XDP_DROP : XDP_ABORTED;");
    }
    out.line("see(h.sequence, CAME | STEPPED, 0);");
    out.line("struct packet p = {};");
}

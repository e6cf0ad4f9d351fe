//! The sequencer as an XDP program: it stamps a packet, puts the items of the packets before it in front, and gives it to the
//! next CPU in turn.

use p4::ir::Program;

use crate::expression::{Expressions, spread, store};
use crate::history::{HEADER_BYTES, Item, MAX_RING_ITEMS};
use crate::names::Names;
use crate::shard::Shards;
use crate::strategy::Strategy;
use crate::writer::Writer;

/// Bytes that a packet has in front of it for history: what a driver leaves (256), less what the kernel keeps there when the
/// packet goes to another CPU.
pub const HEADROOM: usize = 216;

/// Bytes of the longest packet that is kept for [`crate::live::Live::witness`]; a mask of bits, too.
pub const WITNESS_BYTES: usize = 0x7ff;

/// Replicas for which the items of the other ones fit in front of a packet.
pub fn most_replicas(item: &Item) -> u32 {
    let items = (HEADROOM - HEADER_BYTES) / item.bytes.max(1);
    (items as u32).min(MAX_RING_ITEMS) + 1
}

/// Writes what is set where the object is loaded.
pub fn globals(out: &mut Writer<'_>) {
    out.line("// For the sequencer, set too: how many replicas there are, the CPU of each, and packets that are kept as they came.");
    out.line("const volatile u32 replicas = 1;");
    out.line("const volatile u32 cpu_of[MAX_LOGGED] = {};");
    out.line("// Items that a replica steps by the log for one packet, at most.");
    out.line("const volatile u32 steps = MAX_LOGGED;");
    out.line("const volatile u32 witnesses = 0;");
    out.line("// Whether replicas recover what they lose.");
    out.line("const volatile u32 recovers = 0;");
    out.line("// Whether the host gets all packets as they came, and nothing is sent.");
    out.line("const volatile u32 mirrors = 0;");
    out.line("// Whether packets leave by the kernel's routes; those that are the host's own are not the program's.");
    out.line("const volatile u32 routes = 0;");
    out.line("// Whether packets that leave behind later ones are counted.");
    out.line("const volatile u32 counts_order = 0;");
}

/// Writes what takes a packet's item, and the packets that are kept as they came.
pub fn items(names: &Names, item: &Item, out: &mut Writer<'_>) {
    out.line("// A packet as it came, for a comparison with the interpreter.");
    out.line(format!("enum {{ WITNESS_BYTES = {} }};", WITNESS_BYTES));
    out.line("struct witness {");
    out.line("u64 time_ns;");
    out.line("u32 port, length;");
    out.line("u64 seen; // whether its replica got it, and whether it did with it what the program says");
    out.line("u64 turn; // which packet had the lock, where there is one");
    out.line("u8 bytes[WITNESS_BYTES + 1];");
    out.line("};");
    crate::state::map("witness", out);
    out.line("enum { CAME = 1, STEPPED = 2 };");
    out.line("INLINE void see(u64 sequence, u64 seen, u64 turn) {");
    out.line("u32 which = sequence;");
    out.line("struct witness *w = sequence < witnesses ? map_lookup(&witness_map, &which) : 0;");
    out.line("if (w) {");
    out.line("w->seen = seen;");
    out.line("w->turn = turn;");
    out.line("}");
    out.end();
    out.line("// The latest packet that left by each port. Replicas that send at the same moment may both write it.");
    out.line("struct order {");
    out.line("u64 latest[DROP_PORT + 1];");
    out.line("};");
    crate::state::map("order", out);
    out.line("INLINE u64 is_behind(u64 port, u64 sequence) {");
    out.line("u32 first = 0;");
    out.line("struct order *order = counts_order ? map_lookup(&order_map, &first) : 0;");
    out.line("if (!order)");
    out.line("    return 0;");
    out.line("BOUNDED(port, DROP_PORT);");
    out.line("if (sequence < order->latest[port])");
    out.line("    return 1;");
    out.line("order->latest[port] = sequence;");
    out.line("return 0;");
    out.end();
    out.line("INLINE void keep(const struct packet *p, u8 *item) {");
    for part in &item.parts {
        let value = format!("p->{}", names.field(part.field));
        let lines = store("item", part.offset as u32 * 8, part.bytes as u32 * 8, &value);
        lines.into_iter().for_each(|line| out.line(line));
    }
    out.line("(void)p, (void)item;");
    out.end();
}

fn cpus(out: &mut Writer<'_>) {
    out.line("// The CPUs of the replicas, each with paceline_core.");
    out.line("struct {");
    out.line("NUMBER(type, MAP_CPUMAP);");
    out.line("NUMBER(max_entries, 1); // set where it is loaded");
    out.line("TYPE(key, u32);");
    out.line("struct { u32 queue; int program; } *value;");
    out.line("} cpus SEC(\".maps\");");
    out.line("");
}

/// Keeps the packet whose first byte is at `at` as it came, for tests.
pub fn witness(at: &str, out: &mut Writer<'_>) {
    out.line("u32 which = sequence;");
    out.line("u64 kept = length;");
    out.line("BOUNDED(kept, WITNESS_BYTES);");
    out.line("struct witness *w = sequence < witnesses ? map_lookup(&witness_map, &which) : 0;");
    out.line(format!("if (w && kept && kept == length && !load_bytes(ctx, {at}, w->bytes, kept)) {{"));
    out.line("w->time_ns = time_ns;");
    out.line("w->port = port;");
    out.line("w->length = kept;");
    out.line("}");
}

/// What the header says whether items follow or not.
fn header(to: &str, out: &mut Writer<'_>) {
    out.line(format!("put32({to}, HISTORY_MAGIC);"));
    out.line(format!("put32({to} + 4, HISTORY_VERSION << 24 | HISTORY_ETHERNET);"));
    out.line(format!("put64({to} + 8, sequence);"));
    out.line(format!("put64({to} + 16, time_ns);"));
    out.line(format!("put64({to} + 24, LAYOUT);"));
    out.line(format!("put16({to} + 40, replica);"));
    out.line(format!("put16({to} + 42, port);"));
    out.line(format!("put32({to} + 44, turn);"));
}

/// Counts a packet that came, and returns where there is no room in front of it: `no_room` is the sequencer's own count.
pub fn arrival(front_bytes: &str, no_room: &str, out: &mut Writer<'_>) {
    out.line("struct traffic *traffic = traffic_of(port);");
    out.line("if (traffic) {");
    out.line("traffic->came++;");
    out.line("traffic->came_bytes += length;");
    out.line("}");
    out.line(format!("if (adjust_head(ctx, -{front_bytes})) {{"));
    out.line("if (traffic)");
    out.line("    traffic->no_room++;");
    out.line(no_room);
    out.line("return mirrors ? XDP_PASS : XDP_DROP;");
    out.line("}");
}

/// Leaves to the host what is its own: what goes to one of its addresses, to a group, or is not IP; and all packets of a family that
/// the kernel does not forward.
fn own(out: &mut Writer<'_>) {
    out.line("if (routes) {");
    out.line("struct fib way = {};");
    out.line("long found = way_of(ctx, data, end, &way);");
    out.line("if (found == NOWHERE || found == FIB_NOT_FORWARDED || found == FIB_OFF)");
    out.line("    return XDP_PASS;");
    out.line("}");
}

/// Writes what a sequencer does first with a packet at `data`: its time never runs back, and its item is kept.
pub fn stamped(out: &mut Writer<'_>) {
    own(out);
    out.line("if (time_ns < q->time_ns)");
    out.line("    time_ns = q->time_ns;");
    out.line("struct packet p = {};");
    out.line("struct state s = {};");
    out.line("arrive(&p, &s, data, end, port, time_ns);");
    out.line("keep(&p, q->item);");
    out.line("u64 length = end - data;");
    witness("0", out);
}

/// Writes what is in the sequencer's place where no history goes before packets: the header, without items, says when and by
/// which port a packet came. It may run at several interfaces and queues at once.
pub fn dispatch(program: &Program, names: &Names, strategy: Strategy, shards: &Shards, out: &mut Writer<'_>) {
    let by_key = strategy == Strategy::Sharded && !shards.fields.is_empty();
    cpus(out);
    out.line("struct sequencer {");
    out.line("u64 next, unused;");
    out.line(
        "u64 no_room; // packets before which there was no room for the header: dropped, without a number",
    );
    if by_key {
        out.line("u64 given[MAX_RING_ITEMS + 1]; // to each shard");
    }
    out.line("};");
    crate::state::map("sequencer", out);
    if by_key {
        let hash = spread("~seed", shards.fields.iter().map(|field| format!("p->{}", names.field(*field))));
        out.line("// The upper half: the lower one finds slots of tables.");
        out.line("INLINE u64 shard(struct packet *p, struct state *s) {");
        if shards.slice.is_some() {
            out.line("shard_ingress(p, s);");
        }
        for (to, value) in &shards.steps {
            let value = Expressions { program, names }.computed(*to, value);
            out.line(format!("p->{} = {value};", names.field(*to)));
        }
        out.line(format!("return ({hash} >> 32) * replicas >> 32;"));
        out.end();
    }
    out.line("SEC(\"xdp\") int paceline_sequencer(struct xdp_md *ctx) {");
    out.line("u32 first = 0;");
    out.line("struct sequencer *q = map_lookup(&sequencer_map, &first);");
    out.line("if (!q || !replicas || replicas > MAX_RING_ITEMS + 1)");
    out.line("    return XDP_ABORTED;");
    out.line("u8 *data = (u8 *)(u64)ctx->data, *end = (u8 *)(u64)ctx->data_end;");
    out.line(
        "u64 port = outside && ctx->ingress_ifindex == outside, length = end - data, time_ns = clock_ns();",
    );
    own(out);
    if by_key {
        out.line("struct packet p = {};");
        out.line("struct state s = {};");
        out.line("if (!find_tables(&s))");
        out.line("    return XDP_ABORTED;");
        out.line("arrive(&p, &s, data, end, port, time_ns);");
        out.line("u64 replica = shard(&p, &s);");
    }
    arrival("HISTORY_BYTES", "__sync_fetch_and_add(&q->no_room, 1);", out);
    out.line("u64 sequence = __sync_fetch_and_add(&q->next, 1);");
    if !by_key {
        out.line("u64 replica = sequence % replicas;");
    }
    out.line("BOUNDED(replica, MAX_RING_ITEMS);");
    out.line(match by_key {
        true => "u64 turn = __sync_fetch_and_add(&q->given[replica], 1);",
        false => "u64 turn = sequence / replicas;",
    });
    witness("HISTORY_BYTES", out);
    out.line("data = (u8 *)(u64)ctx->data, end = (u8 *)(u64)ctx->data_end;");
    out.line("if (data + HISTORY_BYTES > end)");
    out.line("    return XDP_ABORTED;");
    header("data", out);
    out.line("put64(data + 32, 0);");
    out.line("return redirect_map(&cpus, cpu_of[replica], XDP_DROP);");
    out.end();
}

/// Writes the sequencer's program.
pub fn write(item: &Item, out: &mut Writer<'_>) {
    cpus(out);
    out.line("enum { RING_MASK = 0xff };");
    out.line("// What the sequencer knows. `front` is what goes before a packet: the header, then the ring.");
    out.line("struct sequencer {");
    out.line("u64 next, time_ns;");
    out.line("u64 no_room; // packets for whose history there was no room: dropped, without a number");
    out.line("u8 front[HISTORY_BYTES + RING_MASK + 1 + ITEM_BYTES];");
    out.line("u8 item[ITEM_BYTES];");
    out.line("};");
    crate::state::map("sequencer", out);
    if most_replicas(item) < 2 {
        return out.line("// No sequencer: not one item fits in front of a packet.");
    }
    out.line("// SCR, section 3.3. It runs at one receive queue of one interface, so never twice at once.");
    out.line("SEC(\"xdp\") int paceline_sequencer(struct xdp_md *ctx) {");
    out.line(
        "u32 first = 0, ring_items = replicas - 1, front_bytes = HISTORY_BYTES + ring_items * ITEM_BYTES;",
    );
    out.line("struct sequencer *q = map_lookup(&sequencer_map, &first);");
    out.line("if (!q || !replicas || replicas > MAX_RING_ITEMS + 1 || front_bytes > HISTORY_BYTES + RING_MASK + 1)");
    out.line("    return XDP_ABORTED;");
    out.line("u8 *data = (u8 *)(u64)ctx->data, *end = (u8 *)(u64)ctx->data_end;");
    out.line(
        "u64 sequence = q->next, port = outside && ctx->ingress_ifindex == outside, time_ns = clock_ns();",
    );
    stamped(out);
    arrival("(int)front_bytes", "q->no_room++;", out);
    out.line("u64 count = sequence < ring_items ? sequence : ring_items;");
    out.line("u32 replica = sequence % replicas & MAX_RING_ITEMS, turn = sequence / replicas;");
    header("q->front", out);
    out.line("put16(q->front + 32, ITEM_BYTES);");
    out.line("put16(q->front + 34, ring_items);");
    out.line("put16(q->front + 36, count);");
    out.line("put16(q->front + 38, count ? (sequence - count) % ring_items : 0);");
    out.line("if (store_bytes(ctx, 0, q->front, front_bytes))");
    out.line("    return XDP_ABORTED;");
    out.line("if (ring_items) {");
    out.line("u64 at = sequence % ring_items * ITEM_BYTES;");
    out.line("BOUNDED(at, RING_MASK);");
    out.line("__builtin_memcpy(q->front + HISTORY_BYTES + at, q->item, ITEM_BYTES);");
    out.line("}");
    out.line("q->next = sequence + 1;");
    out.line("q->time_ns = time_ns;");
    out.line("return redirect_map(&cpus, cpu_of[replica], XDP_DROP);");
    out.end();
}

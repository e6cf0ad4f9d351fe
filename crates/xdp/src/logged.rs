//! History in a log in place of in front of packets, for more replicas or longer items than fit there: the sequencer alone writes the
//! log, and each replica reads there what it has not stepped. What the full queue of a CPU loses is in the log, too.
//!
//! ```text
//!  packet:  | number, 8 | time_ns, 8 | the packet |      log, slot number mod LOGGED:  | mark, 8 | item |
//! ```
//!
//! A slot's mark is 1 more than the number of the item in it, and 0 while it is written. A replica reads the mark before the item and
//! behind it: an item that is written over meanwhile, or was, is never used, and counted as missed.

use crate::history::Item;
use crate::writer::Writer;

/// Bytes in front of a packet.
pub const FRONT_BYTES: usize = 16;

/// Replicas, at most: each steps the items of all others for one packet of its own. A mask of bits and 1.
pub const MAX_LOGGED: u32 = 64;

/// Items in the log: so many packets may a replica lag. A power of two.
const SLOTS: u32 = 8192;

/// Writes what bounds a log, ahead of what is set where the object is loaded.
pub fn bounds(out: &mut Writer<'_>) {
    out.line(format!("enum {{ MAX_LOGGED = {MAX_LOGGED}, LOGGED = {SLOTS}, FRONT_BYTES = {FRONT_BYTES} }};"));
}

/// Writes the log, its writer, and how a replica catches up by it.
pub fn write(item: &Item, out: &mut Writer<'_>) {
    out.line("// The items of the last packets.");
    out.line("struct items {");
    out.line(format!("struct {{ u64 mark; u8 bytes[{}]; }} slots[LOGGED];", item.bytes.next_multiple_of(8)));
    out.line("};");
    crate::state::map("items", out);
    out.line("INLINE struct items *find_items(void) {");
    out.line("u32 first = 0;");
    out.line("return map_lookup(&items_map, &first);");
    out.end();
    out.line("// The exchanges are full barriers.");
    out.line("INLINE void log_item(struct items *items, u64 number, const u8 *item) {");
    out.line("u64 slot = number;");
    out.line("BOUNDED(slot, LOGGED - 1);");
    out.line("__sync_lock_test_and_set(&items->slots[slot].mark, 0);");
    out.line("__builtin_memcpy(items->slots[slot].bytes, item, ITEM_BYTES);");
    out.line("__sync_lock_test_and_set(&items->slots[slot].mark, number + 1);");
    out.end();
    out.line("// Steps the items of packets before a number, as many as one packet may. Gives whether all are stepped.");
    out.line("INLINE int catch_up_by_log(struct state *s, struct items *items, u64 self, u64 until) {");
    out.line("// What is further back is not in the log any more.");
    out.line("if (until > s->progress->next + LOGGED) {");
    out.line("s->progress->missed += until - LOGGED - s->progress->next;");
    out.line("s->progress->next = until - LOGGED;");
    out.line("}");
    out.line("_Pragma(\"clang loop unroll(disable)\")");
    out.line("for (u32 step = 0; step < MAX_LOGGED && step < steps && s->progress->next < until; step++) {");
    out.line("u64 number = s->progress->next, slot = number;");
    out.line("BOUNDED(slot, LOGGED - 1);");
    out.line("u64 before = __sync_fetch_and_or(&items->slots[slot].mark, 0);");
    out.line("struct packet p = {};");
    out.line("take(&p, items->slots[slot].bytes);");
    out.line("s->progress->next = number + 1;");
    out.line("// Its writer may have come round, before or meanwhile.");
    out.line("if (before != number + 1 || __sync_fetch_and_or(&items->slots[slot].mark, 0) != before) {");
    out.line("s->progress->missed++;");
    out.line("continue;");
    out.line("}");
    out.line(
        "s->progress->recovered += number % replicas == self; // a packet of its own, which its queue lost",
    );
    out.line("replay_ingress(&p, s);");
    out.line("}");
    out.line("return s->progress->next >= until;");
    out.end();
    out.line("// What comes to a replica: a packet's number and time, and the state.");
    out.line("INLINE int read_front(struct history *h, struct state *s, u8 *data, u8 *end) {");
    out.line("if (data + FRONT_BYTES > end || !replicas || replicas > MAX_LOGGED)");
    out.line("    return 0;");
    out.line("h->sequence = be64(data);");
    out.line("h->time_ns = be64(data + 8);");
    out.line("h->replica = h->sequence % replicas;");
    out.line("return find_state(s, h->replica);");
    out.end();
}

/// Writes what leads to a packet itself, behind a queue that may be full or in a trial.
pub fn before_packet(is_queued: bool, out: &mut Writer<'_>) {
    out.line("struct history h = {};");
    out.line("struct state s;");
    out.line("struct items *items = find_items();");
    out.line("if (!items || !read_front(&h, &s, data, end))");
    out.line("    return XDP_ABORTED;");
    out.line("u8 *packet = data + FRONT_BYTES;");
    out.line("s.progress->packets++;");
    out.line("s.progress->bytes += end - packet;");
    if is_queued {
        out.line("count_lost(s.progress, h.sequence / replicas);");
    }
    out.line("see(h.sequence, CAME, 0);");
    out.line("if (!catch_up_by_log(&s, items, h.replica, h.sequence)) {");
    out.line("s.progress->waited++;");
    if is_queued {
        out.line("if (mirrors)");
        out.line("    return adjust_head(ctx, packet - data) ? XDP_DROP : XDP_PASS;");
    }
    out.line("return XDP_DROP;");
    out.line("}");
    out.line("s.progress->next = h.sequence + 1;");
    out.line("see(h.sequence, CAME | STEPPED, 0);");
    out.line("struct packet p = {};");
}

/// Writes the program that steps, at the end, what no packet brings any more: the front has the next number, and the replica in place
/// of a time.
pub fn flush(out: &mut Writer<'_>) {
    out.line("SEC(\"xdp\") int paceline_log_flush(struct xdp_md *ctx) {");
    out.line("u8 *data = (u8 *)(u64)ctx->data, *end = (u8 *)(u64)ctx->data_end;");
    out.line("struct state s;");
    out.line("struct items *items = find_items();");
    out.line("if (!items || data + FRONT_BYTES > end || !replicas || !find_state(&s, be64(data + 8)))");
    out.line("    return XDP_ABORTED;");
    out.line("catch_up_by_log(&s, items, be64(data + 8), be64(data));");
    out.line("return XDP_DROP;");
    out.end();
}

/// Writes the sequencer's program.
pub fn sequencer(out: &mut Writer<'_>) {
    out.line("// SCR, section 3.3, with the history in a log. It runs at one receive queue of one interface, so never twice at once.");
    out.line("SEC(\"xdp\") int paceline_logger(struct xdp_md *ctx) {");
    out.line("u32 first = 0;");
    out.line("struct sequencer *q = map_lookup(&sequencer_map, &first);");
    out.line("struct items *items = find_items();");
    out.line("if (!q || !items || !replicas || replicas > MAX_LOGGED)");
    out.line("    return XDP_ABORTED;");
    out.line("u8 *data = (u8 *)(u64)ctx->data, *end = (u8 *)(u64)ctx->data_end;");
    out.line("u64 sequence = q->next, port = 0, time_ns = clock_ns();");
    crate::sequencer::stamped(out);
    crate::sequencer::arrival("FRONT_BYTES", "q->no_room++;", out);
    out.line("data = (u8 *)(u64)ctx->data, end = (u8 *)(u64)ctx->data_end;");
    out.line("if (data + FRONT_BYTES > end)");
    out.line("    return XDP_ABORTED;");
    out.line("put64(data, sequence);");
    out.line("put64(data + 8, time_ns);");
    out.line("log_item(items, sequence, q->item);");
    out.line("q->next = sequence + 1;");
    out.line("q->time_ns = time_ns;");
    out.line("return redirect_map(&cpus, cpu_of[sequence % replicas & (MAX_LOGGED - 1)], XDP_DROP);");
    out.end();
}

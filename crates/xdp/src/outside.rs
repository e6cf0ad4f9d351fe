//! Packets that come with their history, from a sequencer outside: each is checked, and goes to the CPU of its core.

use crate::history::{Item, MAX_RING_ITEMS};
use crate::writer::Writer;

/// Why a packet with history is not taken, by names as receivers of chains have them, and those that chains cannot have. The order is
/// that in which it is looked, and in which they are counted.
pub const REASONS: [&str; 13] = [
    "not-history",
    "header-truncated",
    "version",
    "flags",
    "link-type",
    "other-layout",
    "item-length",
    "other-ring",
    "ring-truncated",
    "count-beyond-ring",
    "oldest-misplaced",
    "other-core",
    "sequence-goes-back",
];

/// Where the number that a flush told last is in `struct outside`, and where its ring begins.
pub const FLUSHED_AT: usize = (REASONS.len() + 1) * 8;
pub const RING_AT: usize = FLUSHED_AT + (MAX_RING_ITEMS as usize + 2) * 8;

/// Writes what looks at a packet with history, and the program for the interface by which they come.
pub fn write(item: &Item, out: &mut Writer<'_>) {
    let most = MAX_RING_ITEMS as usize * item.bytes;
    out.line(format!(
        "enum {{ OUTSIDE_MASK = {:#x} }}; // the bytes of a ring, at most",
        (most + 1).next_power_of_two() - 1
    ));
    let reasons: Vec<String> = REASONS.iter().map(|name| name.to_uppercase().replace('-', "_")).collect();
    out.line("// Why a packet with history is not taken.");
    out.line(format!("enum {{ {}, REASONS }};", reasons.join(", ")));
    out.line("// What came with history from outside: why some of it was not taken, flushes, the number that a flush told last, and for");
    out.line("// each core the number behind its last packet.");
    out.line("struct outside {");
    out.line("u64 rejected[REASONS], flushes, flushed;");
    out.line("u64 behind[MAX_RING_ITEMS + 1];");
    out.line("u8 ring[OUTSIDE_MASK + 1]; // of that flush");
    out.line("};");
    crate::state::map("outside", out);
    out.line("// Gives why it is not taken, or REASONS.");
    out.line("INLINE u32 look(struct history *h, u8 *data, u8 *end) {");
    out.line("if (data + 4 > end || be32(data) != HISTORY_MAGIC)");
    out.line("    return NOT_HISTORY;");
    out.line("if (data + HISTORY_BYTES > end)");
    out.line("    return HEADER_TRUNCATED;");
    out.line("if (data[4] != HISTORY_VERSION)");
    out.line("    return VERSION;");
    out.line("if (data[5] & ~1)");
    out.line("    return FLAGS;");
    out.line("if (be16(data + 6) != (data[5] ? 0 : HISTORY_ETHERNET))");
    out.line("    return LINK_TYPE;");
    out.line("if (be64(data + 24) != LAYOUT)");
    out.line("    return OTHER_LAYOUT;");
    out.line("if (be16(data + 32) != ITEM_BYTES)");
    out.line("    return ITEM_LENGTH;");
    crate::history::header_fields(out);
    out.line("// The sequencer serves as many cores as there are replicas.");
    out.line("if (h->ring_items != replicas - 1 || h->ring_items > MAX_RING_ITEMS)");
    out.line("    return OTHER_RING;");
    out.line("if (data + HISTORY_BYTES + h->ring_items * ITEM_BYTES > end)");
    out.line("    return RING_TRUNCATED;");
    out.line("if (h->count > h->ring_items || h->count > h->sequence)");
    out.line("    return COUNT_BEYOND_RING;");
    out.line("if (h->oldest != (h->ring_items ? (h->sequence - h->count) % h->ring_items : 0))");
    out.line("    return OLDEST_MISPLACED;");
    out.line("return h->replica < replicas ? REASONS : OTHER_CORE;");
    out.end();
    out.line("// At one receive queue of one interface, so never twice at once. Nothing goes past it: what has no history is dropped.");
    out.line("SEC(\"xdp\") int paceline_receiver(struct xdp_md *ctx) {");
    out.line("u32 first = 0;");
    out.line("struct outside *o = map_lookup(&outside_map, &first);");
    out.line("struct sequencer *q = map_lookup(&sequencer_map, &first);");
    out.line("if (!o || !q || !replicas || replicas > MAX_RING_ITEMS + 1)");
    out.line("    return XDP_ABORTED;");
    out.line("u8 *data = (u8 *)(u64)ctx->data, *end = (u8 *)(u64)ctx->data_end;");
    out.line("u32 outer = data + OUTER_BYTES + 4 <= end && be16(data + 12) == OUTER_TYPE && be32(data + OUTER_BYTES) == HISTORY_MAGIC");
    out.line("              ? OUTER_BYTES : 0;");
    out.line("struct history h = {};");
    out.line("u32 why = look(&h, data + outer, end);");
    out.line("u32 replica = h.replica & MAX_RING_ITEMS, is_flush = why == REASONS && data + outer + 6 <= end && data[outer + 5];");
    out.line("if (why == REASONS && h.sequence < o->behind[replica])");
    out.line("    why = SEQUENCE_GOES_BACK;");
    out.line("if (why < REASONS) {");
    out.line("o->rejected[why]++;");
    out.line("return XDP_DROP;");
    out.line("}");
    out.line("u64 sequence = h.sequence, time_ns = h.time_ns, port = h.port;");
    out.line("u64 ring_bytes = h.ring_items * ITEM_BYTES;");
    out.line("if (is_flush) {");
    out.line("// What it tells is stepped with the next packets, or at the end.");
    out.line("o->flushes++;");
    out.line("BOUNDED(ring_bytes, OUTSIDE_MASK);");
    out.line("if (sequence > o->flushed && ring_bytes && !load_bytes(ctx, outer + HISTORY_BYTES, o->ring, ring_bytes))");
    out.line("    o->flushed = sequence;");
    out.line("if (sequence > q->next)");
    out.line("    q->next = sequence;");
    out.line("return XDP_DROP;");
    out.line("}");
    out.line("o->behind[replica] = sequence + 1;");
    out.line("if (sequence >= q->next)");
    out.line("    q->next = sequence + 1;");
    out.line("u64 before = outer + HISTORY_BYTES + ring_bytes;");
    out.line("u64 length = end - data - before;");
    out.line("struct traffic *traffic = traffic_of(port);");
    out.line("if (traffic) {");
    out.line("traffic->came++;");
    out.line("traffic->came_bytes += length;");
    out.line("}");
    crate::sequencer::witness("before", out);
    out.line("if (outer && adjust_head(ctx, OUTER_BYTES))");
    out.line("    return XDP_DROP;");
    out.line("return redirect_map(&cpus, cpu_of[replica], XDP_DROP);");
    out.end();
}

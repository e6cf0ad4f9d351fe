//! Recovery of packets that are lost on their way to a replica (SCR, Appendix B): each replica has a log of the items that it
//! got, and of the numbers that it lost, and takes what it lost from the logs of the others. Nobody waits: a packet
//! whose predecessors are not settled yet is dropped, and its item is stepped later.

use crate::history::MAX_RING_ITEMS;
use crate::writer::Writer;

/// Items that a log holds: as many packets may a replica lag. A power of two.
const SLOTS: u32 = 8192;

/// Items that a replica steps for one packet, at most: one more than a packet may bring. The verifier walks each.
const STEPS: u32 = MAX_RING_ITEMS + 1;

/// Writes the logs. They are empty where nothing is recovered.
pub fn logs(out: &mut Writer<'_>) {
    out.line(format!("enum {{ LOG_SLOTS = {SLOTS}, MAX_STEPS = {STEPS} }};"));
    out.line("struct item {");
    out.line("u8 bytes[ITEM_BYTES];");
    out.line("};");
    out.line("// What a replica got and what it lost. `mark` tells the number of a slot's item and whether it was lost; 0 while the");
    out.line("// slot is written. `from` is the first number that is not settled.");
    out.line("struct log {");
    out.line("u64 from;");
    out.line("struct item own, told; // at work: on the stack words would have to be aligned");
    out.line("struct { u64 mark; struct item item; } slots[LOG_SLOTS];");
    out.line("};");
    crate::state::map("log", out);
    out.line("INLINE u64 got(u64 number) { return (number + 1) << 1; }");
    out.line("INLINE u64 lost(u64 number) { return (number + 1) << 1 | 1; }");
    out.line("");
}

/// Writes `recover`, which does what `catch_up` does, and takes what is lost from logs.
pub fn write(out: &mut Writer<'_>) {
    out.line("struct gap {");
    out.line("struct log *log;");
    out.line("u64 from;");
    out.line("};");
    out.line("static long lose_one(u64 at, struct gap *gap) {");
    out.line("u64 slot = gap->from + at;");
    out.line("BOUNDED(slot, LOG_SLOTS - 1);");
    out.line("__sync_lock_test_and_set(&gap->log->slots[slot].mark, lost(gap->from + at));");
    out.line("return 0;");
    out.end();
    out.line("// Functions of their own, so that the verifier looks at each once. Nobody else writes this replica's log. The");
    out.line("// exchanges are full barriers.");
    out.line("APART u32 lose(u32 self, u64 first) {");
    out.line("struct log *log = map_lookup(&log_map, &self);");
    out.line("if (!log)");
    out.line("    return 0;");
    out.line("u64 from = log->from;");
    out.line("// What is further back is in no log any more.");
    out.line("if (first > from + LOG_SLOTS)");
    out.line("    from = first - LOG_SLOTS;");
    out.line("struct gap gap = {log, from};");
    out.line("if (from < first)");
    out.line("    loop(first - from, lose_one, &gap, 0);");
    out.line("log->from = from < first ? first : from;");
    out.line("return 1;");
    out.end();
    out.line("// Takes an item from the packet, or that of the packet itself where `at` is 0.");
    out.line("APART u32 get(struct xdp_md *ctx, u32 self, u64 number, u32 at) {");
    out.line("struct log *log = map_lookup(&log_map, &self);");
    out.line("if (!log || !ctx)");
    out.line("    return 0;");
    out.line("if (number < log->from)");
    out.line("    return 1;");
    out.line("if (at && load_bytes(ctx, at, log->own.bytes, ITEM_BYTES))");
    out.line("    return 0;");
    out.line("u64 slot = number;");
    out.line("BOUNDED(slot, LOG_SLOTS - 1);");
    out.line("__sync_lock_test_and_set(&log->slots[slot].mark, 0);");
    out.line("log->slots[slot].item = log->own;");
    out.line("__sync_lock_test_and_set(&log->slots[slot].mark, got(number));");
    out.line("log->from = number + 1;");
    out.line("return 1;");
    out.end();
    out.line("enum { WAIT, STEP, PASS };");
    out.line("// Algorithm 1's look at the logs, this replica's first. A function of its own, so that the verifier looks at it once.");
    out.line("APART u32 find_item(u64 number, u32 self) {");
    out.line("struct log *mine = map_lookup(&log_map, &self);");
    out.line("struct progress *progress = map_lookup(&progress_map, &self);");
    out.line("if (!mine || !progress)");
    out.line("    return WAIT;");
    out.line("u64 slot = number;");
    out.line("BOUNDED(slot, LOG_SLOTS - 1);");
    out.line("// Not how many: the verifier would walk each number apart.");
    out.line("u32 is_open = 0, is_gone = 0;");
    out.line("for (u32 at = 0; at <= MAX_RING_ITEMS && at < replicas; at++) {");
    out.line("u32 which = self + at >= replicas ? self + at - replicas : self + at;");
    out.line("struct log *log = map_lookup(&log_map, &which);");
    out.line("if (!log)");
    out.line("    return WAIT;");
    out.line("u64 mark = __sync_fetch_and_or(&log->slots[slot].mark, 0);");
    out.line("if (mark == got(number)) {");
    out.line("mine->told = log->slots[slot].item;");
    out.line("// Its writer may have come round meanwhile.");
    out.line("if (__sync_fetch_and_or(&log->slots[slot].mark, 0) == mark) {");
    out.line("progress->recovered += at > 0;");
    out.line("return STEP;");
    out.line("}");
    out.line("is_gone = 1;");
    out.line("} else if (mark > lost(number)) {");
    out.line("is_gone = 1;");
    out.line("} else if (mark != lost(number)) {");
    out.line("is_open = 1;");
    out.line("}");
    out.line("}");
    out.line("if (is_open)");
    out.line("    return WAIT;");
    out.line("progress->nobody += !is_gone;");
    out.line("progress->missed += is_gone;");
    out.line("return PASS;");
    out.end();
    out.line("// Writes the items in front of a packet into this replica's log. Gives 0 where the history is wrong.");
    out.line("INLINE int note(struct xdp_md *ctx, const struct history *h) {");
    out.line("u32 self = h->replica;");
    out.line("u64 first = h->sequence - h->count;");
    out.line("if (!lose(self, first))");
    out.line("    return 0;");
    out.line("_Pragma(\"clang loop unroll(disable)\")");
    out.line("for (u32 at = 0; at < MAX_RING_ITEMS && at < h->count; at++) {");
    out.line("u32 slot = h->oldest + at;");
    out.line("slot = (slot >= h->ring_items ? slot - h->ring_items : slot) & MAX_RING_ITEMS;");
    out.line("if (!get(ctx, self, first + at, HISTORY_BYTES + slot * ITEM_BYTES))");
    out.line("    return 0;");
    out.line("}");
    out.line("return 1;");
    out.end();
    out.line("// Steps what is settled of the packets before a number, as many as one packet may.");
    out.line("INLINE void step(struct state *s, struct log *log, u32 self, u64 until) {");
    out.line("_Pragma(\"clang loop unroll(disable)\")");
    out.line("for (u32 step = 0; step < MAX_STEPS && s->progress->next < until; step++) {");
    out.line("u64 number = s->progress->next;");
    out.line("u32 found = find_item(number, self);");
    out.line("if (found == WAIT)");
    out.line("    break;");
    out.line("s->progress->next = number + 1;");
    out.line("if (found == PASS)");
    out.line("    continue;");
    out.line("struct packet p = {};");
    out.line("take(&p, log->told.bytes);");
    out.line("replay_ingress(&p, s);");
    out.line("}");
    out.end();
    out.line("// Gives 1 if this replica is up to date, 2 if it has to wait for others' logs, and 0 where the history is wrong.");
    out.line("INLINE int recover(struct xdp_md *ctx, struct state *s, const struct history *h, u8 *packet, u8 *end) {");
    out.line("u32 self = h->replica;");
    out.line("struct log *log = map_lookup(&log_map, &self);");
    out.line("if (!log || !note(ctx, h))");
    out.line("    return 0;");
    out.line("struct packet own = {};");
    out.line("arrive(&own, s, packet, end, h->port, h->time_ns);");
    out.line("keep(&own, log->own.bytes);");
    out.line("if (!get(ctx, self, h->sequence, 0))");
    out.line("    return 0;");
    out.line("step(s, log, self, h->sequence);");
    out.line("if (s->progress->next < h->sequence) {");
    out.line("s->progress->waited++;");
    out.line("return 2;");
    out.line("}");
    out.line("s->progress->next = h->sequence + 1;");
    out.line("return 1;");
    out.end();
}

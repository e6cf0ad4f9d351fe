/* Runs for long, for a test of what waits for programs that run: crates/live/tests/xdp/grace.rs. */
#include "bpf.h"

enum { STEPS = 1 << 21 };

/* 1 while it runs, 2 when it has run; the second entry is anybody's. */
struct {
    NUMBER(type, MAP_ARRAY);
    NUMBER(max_entries, 2);
    TYPE(key, u32);
    TYPE(value, u32);
} state SEC(".maps");

/* bpf_loop: Linux 5.17. */
static long (*const loop)(u32 steps, void *step, void *context, u64 flags) = (void *)181;

static __attribute__((noinline)) long step(u64 index, void *context)
{
    (void)index;
    (void)context;
    return clock_ns() == 0;
}

SEC("xdp")
int slow(struct xdp_md *packet)
{
    (void)packet;
    u32 first = 0;
    volatile u32 *at = map_lookup(&state, &first);
    if (!at)
        return XDP_ABORTED;
    *at = 1;
    loop(STEPS, step, 0, 0);
    *at = 2;
    return XDP_PASS;
}

char _license[] SEC("license") = "MIT OR Apache-2.0";

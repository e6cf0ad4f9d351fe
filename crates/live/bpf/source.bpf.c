/* Sends a packet out of an interface, with another source port each time: what examples/xdp_source.rs runs in the
 * kernel, by BPF_PROG_TEST_RUN with live frames. */
#include "bpf.h"

/* The headers of a packet, and two bytes more. The kernel sends the memory of a packet again when it has it back, as its
 * forwarder left it: with other addresses, and less time to live. So they are written anew each time. */
enum { HEADER_WORDS = 11 };
const volatile u32 header[HEADER_WORDS] = {};

/* Set before the program is loaded. */
const volatile u32 interface = 0;
const volatile u32 flows = 1;
/* Between two packets; 0 if they go as fast as they can. */
const volatile u64 gap_ns = 0;
/* Whether packets say when they were sent. */
const volatile u32 stamps = 0;

enum {
    LATE_NS = 1000000, /* What is later than this is not made up for: it would be a burst. */
    LOOKS = 65536,     /* At the clock, before a packet goes in any case: a millisecond or more. */
};

/* When the first packet of a rate was sent, and the last one. What is around the packets of a call, half a second and more on a
 * busy machine, would otherwise count as time in which none was sent. */
enum { FIRST, LAST, TIMES };
struct {
    NUMBER(type, MAP_PERCPU_ARRAY);
    NUMBER(max_entries, TIMES);
    TYPE(key, u32);
    TYPE(value, u64);
} times SEC(".maps");

u32 next = 0;
u64 due_ns = 0;

/* Each call of the kernel's has a pause of tens of milliseconds behind it. So one call sends many packets, and their
 * times are kept here. */
INLINE void wait(void)
{
    u64 now = clock_ns();
    if (due_ns + LATE_NS < now)
        due_ns = now;
    for (int looks = 0; looks < LOOKS && now < due_ns; looks++)
        now = clock_ns();
    due_ns += gap_ns;
    u32 which = FIRST;
    u64 *time = map_lookup(&times, &which);
    if (time && !*time)
        *time = now;
    which = LAST;
    time = map_lookup(&times, &which);
    if (time)
        *time = now;
}

SEC("xdp")
int source(struct xdp_md *packet)
{
    void *at = (void *)(u64)packet->data, *end = (void *)(u64)packet->data_end;
    struct udp *udp = at + sizeof(struct ethernet) + sizeof(struct ipv4);
    u32 *words = at;
    if ((void *)(words + HEADER_WORDS) > end)
        return XDP_ABORTED;
#pragma unroll
    for (int word = 0; word < HEADER_WORDS; word++)
        words[word] = header[word];
    if (gap_ns)
        wait();
    u32 flow = next + 1;
    if (flow >= flows)
        flow = 0;
    next = flow;
    udp->source = NET16((u16)(1024 + flow));
    struct stamp *stamp = (void *)(udp + 1);
    if (stamps && (void *)(stamp + 1) <= end) {
        stamp->magic = STAMP_MAGIC;
        stamp->ns = clock_ns();
    }
    return redirect(interface, 0);
}

char _license[] SEC("license") = "MIT OR Apache-2.0";

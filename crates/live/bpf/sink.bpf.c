/* Counts the packets that examples/xdp_source.rs stamped, by how long they were on their way, and drops them: what
 * examples/xdp_sink.rs runs at an interface. */
#include "bpf.h"

/* Sixteen buckets for each power of two of nanoseconds. */
enum { PARTS_BITS = 4, BUCKETS = 40 << PARTS_BITS };

struct {
    NUMBER(type, MAP_PERCPU_ARRAY);
    NUMBER(max_entries, BUCKETS);
    TYPE(key, u32);
    TYPE(value, u64);
} times SEC(".maps");

INLINE u32 bucket_of(u64 ns)
{
    if (ns < 1 << PARTS_BITS)
        return ns;
    u32 power = 0;
    u64 rest = ns;
#pragma unroll
    for (int step = 32; step > 0; step /= 2)
        if (rest >> step) {
            rest >>= step;
            power += step;
        }
    u32 bucket = (power - PARTS_BITS + 1) << PARTS_BITS | (ns >> (power - PARTS_BITS) & ((1 << PARTS_BITS) - 1));
    return bucket < BUCKETS ? bucket : BUCKETS - 1;
}

SEC("xdp")
int sink(struct xdp_md *packet)
{
    void *at = (void *)(u64)packet->data, *end = (void *)(u64)packet->data_end;
    struct ethernet *ethernet = at;
    struct ipv4 *ip = (void *)(ethernet + 1);
    struct udp *udp = (void *)(ip + 1);
    struct stamp *stamp = (void *)(udp + 1);
    if ((void *)(stamp + 1) > end || ethernet->type != NET16(TYPE_IPV4) || ip->protocol != PROTOCOL_UDP)
        return XDP_PASS;
    if (stamp->magic != STAMP_MAGIC)
        return XDP_PASS;
    u64 now = clock_ns();
    u32 bucket = bucket_of(now > stamp->ns ? now - stamp->ns : 0);
    u64 *count = map_lookup(&times, &bucket);
    if (count)
        *count += 1;
    return XDP_DROP;
}

char _license[] SEC("license") = "MIT OR Apache-2.0";

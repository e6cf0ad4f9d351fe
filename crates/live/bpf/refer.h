/* A card that looks flows up (Dyssect, section IV-C): it puts before a packet where the states of its flow are, as the cores
 * have told. The core that reads it compares keys: what is said may be old, or of another flow.
 *
 *   | ... | reference, little-endian | packet ... |
 *         data_meta                  data
 *
 * AF_XDP copies metadata with the packet: it is in the 8 bytes before it there, too (crates/io/src/reference.rs). */
#pragma once
#include "bpf.h"
#include "spread.h"

/* Whether references are put before packets; set before the program is loaded. */
const volatile u32 has_references = 0;

/* By flow, its headers but for the version. The kernel takes those away whose last packet is longest ago when there are too
 * many; how many there may be is set before the program is loaded. */
struct {
    NUMBER(type, MAP_LRU_HASH);
    NUMBER(max_entries, 1);
    TYPE(key, struct headers);
    TYPE(value, u64);
} references SEC(".maps");

/* 0: nothing is said. */
INLINE u64 reference_of(struct headers *headers)
{
    if (!headers->version)
        return 0;
    headers->version = 0;
    const u64 *reference = map_lookup(&references, headers);
    return reference ? *reference : 0;
}

/* Puts it before the packet, 0 too: what is in the buffer from before is not to be taken for one. Not 0 where the driver has no
 * metadata. */
INLINE long refer(struct xdp_md *packet, u64 reference)
{
    if (adjust_meta(packet, -(int)sizeof(reference)))
        return -1;
    u64 *before = (void *)(u64)packet->data_meta;
    if ((const void *)(before + 1) > (const void *)(u64)packet->data)
        return -1;
    *before = reference;
    return 0;
}

/* What operations of P4 are in C, for programs that `paceline p4 compile --target xdp` writes. A value is a u64 whose
 * bits past its width are 0. */
#pragma once
#include "bpf.h"

typedef long long s64;

enum { MAP_PROG_ARRAY = 3, MAP_DEVMAP = 14, MAP_CPUMAP = 16 };
/* Of an array map: user space may have its memory mapped. */
enum { MAP_MMAPABLE = 1 << 10 };
/* A function of its own, so that the verifier looks at it once. Under a lock it may call static ones alone: it then looks at
 * each call. */
#ifdef UNDER_LOCK
#define APART static __attribute__((noinline))
#else
#define APART __attribute__((noinline))
#endif

/* The kernel knows it by this name. No helper may be called between the two. */
struct bpf_spin_lock {
    u32 value;
};
static long (*const lock)(struct bpf_spin_lock *lock) = (void *)93;
static long (*const unlock)(struct bpf_spin_lock *lock) = (void *)94;

/* Goes on as another program, and comes back where there is none. */
static long (*const tail_call)(void *packet, void *programs, u32 which) = (void *)12;
/* The way of a packet by the kernel's routes and neighbours. */
struct fib {
    u8 family, protocol;
    u16 source_port, destination_port, length;
    u32 interface, of_family; /* its own, then that of the way; the service or the flow's label */
    u32 source[4], destination[4];
    u16 tag_type, tag;
    u8 source_station[6], destination_station[6];
} __attribute__((aligned(4)));
static long (*const fib_lookup)(void *packet, struct fib *fib, int bytes, u32 flags) = (void *)69;
enum { FAMILY_IPV4 = 2, FAMILY_IPV6 = 10, FIB_FORWARD = 0, FIB_NOT_FORWARDED = 4, FIB_OFF = 5 };
/* Which CPU this is. */
static u32 (*const cpu_number)(void) = (void *)8;
/* Bytes from and to a packet, at any offset: Linux 5.18. */
static long (*const store_bytes)(struct xdp_md *packet, u32 at, const void *from, u32 bytes) = (void *)190;
/* Calls a function so many times, with the number of the call and a pointer: Linux 5.17. */
static long (*const loop)(u32 times, void *function, void *of, u64 flags) = (void *)181;
/* The port of packets that are dropped, as in v1model. */
enum { DROP_PORT = 511 };

/* The history before a packet: docs/xdp.md. */
enum {
    HISTORY_MAGIC = 0x504c4849,
    HISTORY_VERSION = 3,
    HISTORY_BYTES = 48,
    HISTORY_ETHERNET = 1,
    /* What may be around it, from a sequencer outside. */
    OUTER_BYTES = 14,
    OUTER_TYPE = 0x88b5,
};

/* Masks a value that has no other bits: the verifier knows a bound by that, where clang would leave it out. */
#define BOUNDED(value, mask) asm volatile("%0 &= %1" : "+r"(value) : "i"(mask))

INLINE u64 be8(const u8 *at) { return *at; }
INLINE u64 be16(const u8 *at) { return NET16(*(const u16 *)at); }
INLINE u64 be32(const u8 *at) { return NET32(*(const u32 *)at); }
INLINE u64 be64(const u8 *at) { return NET64(*(const u64 *)at); }
/* In the order in which the bytes lie. */
INLINE u64 raw16(const u8 *at) { return *(const u16 *)at; }
INLINE u64 raw32(const u8 *at) { return *(const u32 *)at; }

INLINE void put16(u8 *at, u64 value) { *(u16 *)at = NET16((u16)value); }
INLINE void put32(u8 *at, u64 value) { *(u32 *)at = NET32((u32)value); }
INLINE void put64(u8 *at, u64 value) { put32(at, value >> 32), put32(at + 4, value); }

/* As a number with a sign. */
INLINE s64 sign(u64 value, u32 width) { return (s64)(value << (64 - width)) >> (64 - width); }

INLINE u64 saturating_add(u64 a, u64 b, u64 most) {
    u64 sum = a + b;
    return sum < a || sum > most ? most : sum;
}

INLINE u64 saturating_subtract(u64 a, u64 b) { return a > b ? a - b : 0; }

INLINE u64 width_mask(u32 width) { return ~0ull >> (64 - width); }

/* `sum` went past the 64 bits of a number with a sign if `is_past`, to the side of `a`. */
INLINE u64 clamped(s64 a, s64 sum, u64 is_past, u32 width) {
    s64 most = (s64)(width_mask(width) >> 1), least = -most - 1;
    if (is_past)
        sum = a < 0 ? least : most;
    return (u64)(sum < least ? least : sum > most ? most : sum) & width_mask(width);
}

INLINE u64 signed_saturating_add(u64 left, u64 right, u32 width) {
    s64 a = sign(left, width), b = sign(right, width), sum = (s64)((u64)a + (u64)b);
    return clamped(a, sum, ((a ^ sum) & (b ^ sum)) < 0, width);
}

INLINE u64 signed_saturating_subtract(u64 left, u64 right, u32 width) {
    s64 a = sign(left, width), b = sign(right, width), rest = (s64)((u64)a - (u64)b);
    return clamped(a, rest, ((a ^ b) & (a ^ rest)) < 0, width);
}

/* By any distance. */
INLINE u64 shift_left(u64 value, u64 by) { return by > 63 ? 0 : value << by; }
INLINE u64 shift_right(u64 value, u64 by) { return by > 63 ? 0 : value >> by; }
INLINE u64 signed_shift_right(u64 value, u64 by, u32 width) { return (u64)(sign(value, width) >> (by > 63 ? 63 : by)); }

/* What spreads keys over a table: one step for each key. Replicas agree, for `seed` is the same in all of them. */
INLINE u64 spread(u64 hash, u64 key) {
    hash = (hash ^ key) * 0x9e3779b97f4a7c15ull;
    return hash ^ hash >> 32;
}

/* What words sum up to that lie as they came, as if they had been read one by one (RFC 1071, 2(B)); less than 2^40. */
INLINE u64 turned(u64 sum) {
    sum = (sum & 0xffffffff) + (sum >> 32);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    return NET16((u16)sum);
}

/* RFC 1071. */
INLINE u64 internet_checksum(u64 sum) {
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    return ~sum & 0xffff;
}

/* Where a packet goes next, and the time that it has left; a packet that is none of IPv4 or IPv6 to one station, or has no time
 * left, goes nowhere. */
enum { NOWHERE = -1 };
INLINE long way_of(struct xdp_md *ctx, u8 *at, u8 *end, struct fib *fib) {
    struct ethernet *ethernet = (void *)at;
    if (at + sizeof *ethernet + sizeof(struct ipv4) > end || ethernet->destination[0] & 1)
        return NOWHERE;
    fib->interface = ctx->ingress_ifindex;
    if (ethernet->type == NET16(TYPE_IPV4)) {
        struct ipv4 *ip = (void *)(at + sizeof *ethernet);
        fib->family = FAMILY_IPV4;
        fib->protocol = ip->protocol;
        fib->length = NET16(ip->length);
        fib->of_family = ip->service;
        fib->source[0] = ip->source;
        fib->destination[0] = ip->destination;
        if (ip->ttl <= 1)
            return NOWHERE;
    } else if (ethernet->type == NET16(TYPE_IPV6) && at + sizeof *ethernet + sizeof(struct ipv6) <= end) {
        struct ipv6 *ip = (void *)(at + sizeof *ethernet);
        fib->family = FAMILY_IPV6;
        fib->protocol = ip->next;
        fib->length = NET16(ip->length) + sizeof *ip;
        fib->of_family = ip->version_class_flow & NET32(0x0fffffff);
        __builtin_memcpy(fib->source, ip->source, 16);
        __builtin_memcpy(fib->destination, ip->destination, 16);
        if (ip->hop_limit <= 1)
            return NOWHERE;
    } else {
        return NOWHERE;
    }
    return fib_lookup(ctx, fib, sizeof *fib, 0);
}

/* Sends a packet whose way is known on its way. */
INLINE int go(u8 *at, u8 *end, const struct fib *fib) {
    struct ethernet *ethernet = (void *)at;
    if (at + sizeof *ethernet + sizeof(struct ipv4) > end)
        return 0;
    __builtin_memcpy(ethernet->destination, fib->destination_station, 6);
    __builtin_memcpy(ethernet->source, fib->source_station, 6);
    if (fib->family == FAMILY_IPV4) {
        struct ipv4 *ip = (void *)(at + sizeof *ethernet);
        /* RFC 1624: the byte of the time is the upper one of its word. */
        u32 sum = (u32)ip->checksum + NET16(0x0100);
        ip->checksum = (u16)(sum + (sum >= 0xffff));
        ip->ttl--;
    } else if (at + sizeof *ethernet + sizeof(struct ipv6) <= end) {
        ((struct ipv6 *)(at + sizeof *ethernet))->hop_limit--;
    }
    return 1;
}

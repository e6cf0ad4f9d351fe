/* What a BPF program needs of the kernel's and libbpf's headers, so that neither has to be installed. The numbers are
 * the kernel's user interface (linux/bpf.h, linux/if_ether.h) and never change. */
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))

/* Fields of a map's definition, as BTF tells them to the loader. */
#define NUMBER(name, value) int (*name)[value]
#define TYPE(name, type) type *name

enum { MAP_HASH = 1, MAP_ARRAY = 2, MAP_PERCPU_ARRAY = 6, MAP_LRU_HASH = 9, MAP_LPM_TRIE = 11, MAP_XSKMAP = 17 };
/* Of a map: elements are allocated one by one. */
enum { NO_PREALLOC = 1 };

enum { XDP_ABORTED, XDP_DROP, XDP_PASS, XDP_TX, XDP_REDIRECT };

struct xdp_md {
    u32 data, data_end, data_meta;
    u32 ingress_ifindex, rx_queue_index, egress_ifindex;
};

/* A packet in the network stack, as far as it is read here. */
struct __sk_buff {
    u32 length, before_data[18], data, data_end;
};
/* What a program there answers: the next one decides, or nobody gets the packet. */
enum { TCX_NEXT = -1, TCX_DROP = 2 };

/* Helpers, by their numbers. */
static void *(*const map_lookup)(const void *map, const void *key) = (void *)1;
static u64 (*const clock_ns)(void) = (void *)5;
static long (*const redirect)(u32 ifindex, u64 flags) = (void *)23;
static long (*const redirect_map)(const void *map, u64 key, u64 flags) = (void *)51;

static u64 (*const frame_length)(const struct xdp_md *packet) = (void *)188;
static long (*const load_bytes)(const struct xdp_md *packet, u32 offset, void *to, u32 bytes) = (void *)189;
static long (*const pull_data)(struct __sk_buff *packet, u32 bytes) = (void *)39;
static long (*const adjust_head)(struct xdp_md *packet, int by) = (void *)44;
static long (*const adjust_meta)(struct xdp_md *packet, int by) = (void *)54;

/* The kernel's function bpf_xdp_metadata_rx_vlan_tag: 0 and a tag that the driver holds beside the frame, its type in
 * network byte order, or an error. It has no number of its own: this one stands for it until the program is loaded. */
static long (*const vlan_tag_beside)(const struct xdp_md *packet, u16 *type, u16 *tag) = (void *)0x7ffffff0;

/* From and to network byte order. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define NET16(value) __builtin_bswap16(value)
#define NET32(value) __builtin_bswap32(value)
#define NET64(value) __builtin_bswap64(value)
#else
#define NET16(value) (value)
#define NET32(value) (value)
#define NET64(value) (value)
#endif

enum { TYPE_IPV4 = 0x0800, TYPE_ARP = 0x0806, TYPE_VLAN = 0x8100, TYPE_IPV6 = 0x86dd, TYPE_QINQ = 0x88a8, TYPE_OLD_QINQ = 0x9100 };
enum { PROTOCOL_ICMP = 1, PROTOCOL_TCP = 6, PROTOCOL_UDP = 17, PROTOCOL_DCCP = 33, PROTOCOL_ICMPV6 = 58, PROTOCOL_SCTP = 132 };

struct ethernet {
    u8 destination[6], source[6];
    u16 type;
} __attribute__((packed));

struct vlan {
    u16 tag, type;
} __attribute__((packed));

struct ipv4 {
    u8 version_length, service;
    u16 length, id, fragment;
    u8 ttl, protocol;
    u16 checksum;
    u32 source, destination;
} __attribute__((packed));

struct ipv6 {
    u32 version_class_flow;
    u16 length;
    u8 next, hop_limit;
    u32 source[4], destination[4];
} __attribute__((packed));

struct udp {
    u16 source, destination, length, checksum;
} __attribute__((packed));

/* What examples/xdp_source.rs puts into a packet: when it was sent, on the clock of `clock_ns`. */
enum { STAMP_MAGIC = 0x9ace113e };

struct stamp {
    u32 magic;
    u64 ns;
} __attribute__((packed));

/* Steers the packets of an interface: into the AF_XDP socket of their receive queue, or on to the host. Where several cores
 * have a socket each at a queue, the hash of a packet's headers says into which: spread.h. Where cores tell
 * where their flows are, a packet goes to its socket with that before it: refer.h.
 *
 * A packet goes to the host's own network stack if one of the rules in `rules` says so. If there is no socket for its
 * queue, it goes there, too, or is dropped, as `without_socket` says. Each rule is off until its bit is set before the program is loaded; the verifier removes the code of
 * rules that are off. Frames that are too short for a rule, or malformed, are left to the socket: the engine has its
 * own answer to them. Up to two VLAN tags are looked through.
 *
 * The names and numbers below are those of crates/live/src/xdp/program.rs. */
#include "bpf.h"
#include "refer.h"
#include "spread.h"

enum {
    PASS_NEIGHBOURS = 1,     /* ARP, and IPv6 neighbour and router discovery */
    PASS_HOST_ADDRESSES = 2, /* packets to an address in `host_addresses` */
    PASS_PORTS = 4,          /* packets to a port in `host_ports` */
    PORTS_OF_HOST = 8,       /* ... only those to an address in `host_addresses` */
    PASS_GROUPS = 16,        /* frames to several stations: multicast, broadcast */
};
const volatile u32 rules = 0;
/* What becomes of packets of queues without a socket: XDP_PASS, or XDP_DROP where nothing is to pass beside the sockets,
 * by queues that the interface gets later, or once the sockets' process is dead. */
const volatile u32 without_socket = XDP_PASS;

/* How many cores have sockets of their own at each queue; 0 where one thread has all sockets, and nothing is hashed. */
const volatile u32 cores = 0;

enum { SOCKETS = 4096, ADDRESSES = 1024, PORTS = 64 };

/* By queue; where cores have sockets of their own, by queue times cores, plus core. */
struct {
    NUMBER(type, MAP_XSKMAP);
    NUMBER(max_entries, SOCKETS);
    TYPE(key, u32);
    TYPE(value, u32);
} sockets SEC(".maps");

struct {
    NUMBER(type, MAP_HASH);
    NUMBER(max_entries, ADDRESSES);
    TYPE(key, struct address);
    TYPE(value, u8);
} host_addresses SEC(".maps");

/* What an address passes: ports alone where a chain has packets to it, such as a NAT. */
enum { ALL = 1, ITS_PORTS = 2 };

/* The protocol in the upper half, the destination port in the lower. */
struct {
    NUMBER(type, MAP_HASH);
    NUMBER(max_entries, PORTS);
    TYPE(key, u32);
    TYPE(value, u8);
} host_ports SEC(".maps");

enum { REDIRECTED, NO_SOCKET, NEIGHBOUR, HOST_ADDRESS, HOST_PORT, FAILED, NO_METADATA, COUNTERS };
struct {
    NUMBER(type, MAP_PERCPU_ARRAY);
    NUMBER(max_entries, COUNTERS);
    TYPE(key, u32);
    TYPE(value, u64);
} counters SEC(".maps");

INLINE void count(u32 what)
{
    u64 *counter = map_lookup(&counters, &what);
    if (counter)
        *counter += 1;
}

/* By what rule a packet to this address and, behind `at`, to this port goes to the host; REDIRECTED if by none. */
INLINE u32 rule_of(const struct address *address, u8 protocol, const void *at, const void *end)
{
    const u8 *passes = 0;
    if (rules & (PASS_HOST_ADDRESSES | PORTS_OF_HOST))
        passes = map_lookup(&host_addresses, address);
    if (rules & PASS_HOST_ADDRESSES && passes && *passes == ALL)
        return HOST_ADDRESS;
    if (!(rules & PASS_PORTS) || (rules & PORTS_OF_HOST && !passes))
        return REDIRECTED;
    if (protocol != PROTOCOL_TCP && protocol != PROTOCOL_UDP)
        return REDIRECTED;
    const u16 *ports = at;
    if ((const void *)(ports + 2) > end)
        return REDIRECTED;
    u32 key = (u32)protocol << 16 | NET16(ports[1]);
    return map_lookup(&host_ports, &key) ? HOST_PORT : REDIRECTED;
}

INLINE u32 rule_of_ipv4(const void *at, const void *end)
{
    const struct ipv4 *ip = at;
    if ((const void *)(ip + 1) > end || ip->version_length < 0x45 || ip->version_length > 0x4f)
        return REDIRECTED;
    struct address address = {{0, 0, NET32(0xffff), ip->destination}};
    /* Fragments but the first have no ports. */
    u8 protocol = NET16(ip->fragment) & 0x1fff ? 0 : ip->protocol;
    return rule_of(&address, protocol, at + (ip->version_length & 15) * 4, end);
}

INLINE u32 rule_of_ipv6(const void *at, const void *end)
{
    const struct ipv6 *ip = at;
    if ((const void *)(ip + 1) > end || (NET32(ip->version_class_flow) >> 28) != 6)
        return REDIRECTED;
    const u8 *next = (const void *)(ip + 1);
    /* RFC 4861: discovery has hop limit 255, or is forged from outside the link. */
    if (rules & PASS_NEIGHBOURS && ip->next == PROTOCOL_ICMPV6 && ip->hop_limit == 255 && (const void *)(next + 1) <= end &&
        *next >= 133 && *next <= 137)
        return NEIGHBOUR;
    struct address address = {{ip->destination[0], ip->destination[1], ip->destination[2], ip->destination[3]}};
    return rule_of(&address, ip->next, next, end);
}

/* Whether it is for an address of the host's that a chain has: such a frame is for one station, whatever its Ethernet
 * address says, and not past the chain. */
INLINE int is_to_chain(u16 type, const void *at, const void *end)
{
    struct address address = {{0, 0, NET32(0xffff), 0}};
    if (type == TYPE_IPV4) {
        const struct ipv4 *ip = at;
        if ((const void *)(ip + 1) > end)
            return 0;
        address.words[3] = ip->destination;
    } else if (type == TYPE_IPV6) {
        const struct ipv6 *ip = at;
        if ((const void *)(ip + 1) > end)
            return 0;
        address = (struct address){{ip->destination[0], ip->destination[1], ip->destination[2], ip->destination[3]}};
    } else {
        return 0;
    }
    const u8 *passes = map_lookup(&host_addresses, &address);
    return passes && *passes == ITS_PORTS;
}

INLINE u32 rule_of_frame(const void *at, const void *end)
{
    const struct ethernet *ethernet = at;
    if ((const void *)(ethernet + 1) > end)
        return REDIRECTED;
    u16 type = NET16(ethernet->type);
    at = ethernet + 1;
#pragma unroll
    for (int tags = 0; tags < 2; tags++) {
        if (type != TYPE_VLAN && type != TYPE_QINQ)
            break;
        const struct vlan *vlan = at;
        if ((const void *)(vlan + 1) > end)
            return REDIRECTED;
        type = NET16(vlan->type);
        at = vlan + 1;
    }
    if (rules & PASS_GROUPS && ethernet->destination[0] & 1 && !is_to_chain(type, at, end))
        return NEIGHBOUR;
    if (type == TYPE_ARP)
        return rules & PASS_NEIGHBOURS ? NEIGHBOUR : REDIRECTED;
    if (type == TYPE_IPV4)
        return rule_of_ipv4(at, end);
    if (type == TYPE_IPV6)
        return rule_of_ipv6(at, end);
    return REDIRECTED;
}

/* Puts a VLAN tag that the driver holds beside the frame back into it, so that the socket gets the frame as it was on the
 * wire. Returns 0 if there is none, or it is in its place. */
INLINE long put_tag_back(struct xdp_md *packet)
{
    /* Zeros: from a process with no more rights than a run keeps, the kernel takes nothing that was never written. */
    u16 type = 0, tag = 0;
    if (vlan_tag_beside(packet, &type, &tag))
        return 0;
    if (adjust_head(packet, -(int)sizeof(struct vlan)))
        return -1;
    struct {
        u32 addresses[3];
        u16 type, tag;
    } *to = (void *)(u64)packet->data;
    const u32 *from = to->addresses + 1;
    /* All of them are in the frame: it was as long as an Ethernet header before. */
    if ((const void *)(to + 1) > (const void *)(u64)packet->data_end)
        return -1;
    to->addresses[0] = from[0];
    to->addresses[1] = from[1];
    to->addresses[2] = from[2];
    to->type = type;
    to->tag = NET16(tag);
    return 0;
}

INLINE int steer_frame(struct xdp_md *packet, int asks_for_tag)
{
    u32 rule = REDIRECTED;
    if (rules)
        rule = rule_of_frame((const void *)(u64)packet->data, (const void *)(u64)packet->data_end);
    if (rule != REDIRECTED) {
        count(rule);
        return XDP_PASS;
    }
    u32 socket = packet->rx_queue_index;
    struct headers headers;
    if (cores || has_references) {
        u16 type = 0, tag = 0;
        u32 tags = asks_for_tag && !vlan_tag_beside(packet, &type, &tag);
        headers = (struct headers){};
        read_frame(packet, tags, &headers);
    }
    if (cores)
        socket = socket * cores + owner_of(entry_of(&headers));
    long action = redirect_map(&sockets, socket, without_socket);
    /* A frame without its tag would be one of another network. The host's stack finds the tag where it is. */
    if (asks_for_tag && action == XDP_REDIRECT && put_tag_back(packet)) {
        count(FAILED);
        return XDP_DROP;
    }
    if (has_references && action == XDP_REDIRECT && refer(packet, reference_of(&headers)))
        count(NO_METADATA);
    count(action == XDP_REDIRECT ? REDIRECTED : action == without_socket ? NO_SOCKET : FAILED);
    return action;
}

SEC("xdp")
int steer(struct xdp_md *packet)
{
    return steer_frame(packet, 0);
}

/* For interfaces whose frames are longer than a page: the section's name tells the loader, and that the kernel, that the
 * program leaves parts of a frame behind the first one alone. Headers are in the first one. */
SEC("xdp.frags")
int steer_parts(struct xdp_md *packet)
{
    return steer_frame(packet, 0);
}

/* For drivers that are asked for VLAN tags. The call is made one of the kernel's function when the program is loaded for
 * an interface: crates/live/src/xdp/bound.rs. */
SEC("xdp")
int steer_tags(struct xdp_md *packet)
{
    return steer_frame(packet, 1);
}

/* In the place of a program that is installed once more: nobody gets anything meanwhile. */
SEC("xdp.frags")
int drop(struct xdp_md *packet)
{
    (void)packet;
    return XDP_DROP;
}

enum { HEADERS = 128 };

/* At the entry of the network stack, behind `steer`: nobody gets what no rule passes. A driver may leave the program out at
 * queues that the interface gets later (veth does), and then packets come here that went past it. */
SEC("classifier")
int guard(struct __sk_buff *packet)
{
    /* Headers may lie in further parts. */
    pull_data(packet, packet->length < HEADERS ? packet->length : HEADERS);
    u32 rule = REDIRECTED;
    if (rules)
        rule = rule_of_frame((const void *)(u64)packet->data, (const void *)(u64)packet->data_end);
    if (rule != REDIRECTED)
        return TCX_NEXT;
    count(NO_SOCKET);
    return TCX_DROP;
}

/* For tests: the entry that a frame's hash points to, and in the upper half the core that has it. */
SEC("xdp")
int pick(struct xdp_md *packet)
{
    struct headers headers = {};
    read_frame(packet, 0, &headers);
    u32 entry = entry_of(&headers);
    return entry | owner_of(entry) << 16;
}

/* For tests: what is said of a frame's flow. */
SEC("xdp")
int look_up(struct xdp_md *packet)
{
    struct headers headers = {};
    read_frame(packet, 0, &headers);
    return reference_of(&headers);
}

/* `steer` calls no helper that the kernel keeps for GPL programs. The kernel's functions are all kept for those: for what
 * `steer_tags` is loaded as see bound.rs. */
char _license[] SEC("license") = "MIT OR Apache-2.0";

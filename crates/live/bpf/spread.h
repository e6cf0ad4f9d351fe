/* Which core gets a packet: the hash of its headers points to an entry of the indirection table, and that names the core.
 *
 * It is the hash of the engine (crates/strategy: `Rss`), of headers as the engine reads them (crates/wire: `parse`), and
 * has to be the same for each frame, malformed ones included: crates/cli/tests/spread.rs holds the two together.
 *
 * The key has a period of 16 bits, so that both directions of a connection have one hash. So the hash is that of the
 * exclusive or of all 16-bit words of the fields: two look-ups, whatever is hashed. */
#pragma once
#include "bpf.h"

enum {
    HASH_SOURCE = 1,
    HASH_DESTINATION = 2,
    HASH_SOURCE_PORT = 4,
    HASH_DESTINATION_PORT = 8,
};
/* Which fields; set before the program is loaded, as all that is here. */
const volatile u32 hash_fields = 0;
/* Whether the chain stands between two sides, each with a card: what comes from outside is hashed as it looks from inside. */
const volatile u32 has_sides = 0;
/* One less than the entries of the table, which are a power of two. */
const volatile u32 entry_mask = 0;

enum { ENTRIES = 512, EXTENSIONS = 8, PREFIXES = 16384 };

/* What a word adds to the hash: by the value of its first byte, and behind that by that of its second one. */
struct {
    NUMBER(type, MAP_ARRAY);
    NUMBER(max_entries, 512);
    TYPE(key, u32);
    TYPE(value, u32);
} hashes SEC(".maps");

/* By entry, the core that gets its packets. */
struct {
    NUMBER(type, MAP_ARRAY);
    NUMBER(max_entries, ENTRIES);
    TYPE(key, u32);
    TYPE(value, u32);
} owners SEC(".maps");

/* IPv4 addresses as IPv6 has them: ::ffff:192.0.2.1. */
struct address {
    u32 words[4];
};

/* Which side addresses are on, by prefix; the longest one counts. */
enum { INSIDE = 1, EXTERNAL = 2 };
struct prefix {
    u32 bits;
    struct address address;
};
struct {
    NUMBER(type, MAP_LPM_TRIE);
    NUMBER(max_entries, PREFIXES);
    NUMBER(map_flags, NO_PREALLOC);
    TYPE(key, struct prefix);
    TYPE(value, u8);
} prefixes SEC(".maps");

/* What the engine reads of a frame that may be hashed: all 0 where it is not there, or is not believed. */
struct headers {
    struct address source, destination;
    u16 source_port, destination_port;
    u8 protocol;
    /* 4 or 6; 0 if it is no IP. */
    u8 version;
    u8 zero[2];
};

/* Copies the next bytes of the frame, and says whether it has so many. The kernel takes a program that adds a variable to a
 * packet's address only from a process with more rights than a run keeps for interfaces that come back (CAP_PERFMON). So, too,
 * one that writes half a word where an address was: functions are called, which leaves registers for addresses. */
#define READ(to, packet, offset) (!load_bytes(packet, offset, &(to), sizeof(to)))
#define CALLED static __attribute__((noinline))

/* Two words in one. */
INLINE u32 fold(u32 words)
{
    return (words ^ words >> 16) & 0xffff;
}

/* All words of an address; of IPv4 the address alone. */
INLINE u32 fold_address(const struct address *address, u8 version)
{
    const u32 *words = address->words;
    return fold(version == 4 ? words[3] : words[0] ^ words[1] ^ words[2] ^ words[3]);
}

/* Of an ICMP error: the ports of the packet that it quotes, the destination's as the source's. */
CALLED int quoted_ports(const struct xdp_md *packet, u32 offset, u32 limit, struct headers *headers)
{
    offset += 8;
    struct ipv4 ip;
    if (!READ(ip, packet, offset) || offset + sizeof(ip) > limit)
        return 0;
    u32 header = (ip.version_length & 15) * 4;
    if (ip.version_length >> 4 != 4 || header < 20 || NET16(ip.fragment) & 0x1fff ||
        ip.source != headers->destination.words[3])
        return 0;
    u8 protocol = ip.protocol;
    offset += header;
    u16 words[4];
    if (!READ(words, packet, offset) || offset + 8 > limit)
        return 0;
    if (protocol == PROTOCOL_TCP || protocol == PROTOCOL_UDP) {
        headers->source_port = words[1];
        headers->destination_port = words[0];
    } else if (protocol == PROTOCOL_ICMP) {
        u8 kind = NET16(words[0]) >> 8;
        if (kind == 8 || kind == 13)
            headers->destination_port = words[2];
        if (kind == 0 || kind == 14)
            headers->source_port = words[2];
    }
    return 0;
}

/* The same of an ICMPv6 error. */
CALLED int quoted_ports_v6(const struct xdp_md *packet, u32 offset, u32 limit, struct headers *headers)
{
    offset += 8;
    struct ipv6 ip;
    if (!READ(ip, packet, offset) || offset + sizeof(ip) > limit)
        return 0;
    const u32 *to = headers->destination.words;
    u32 other = (ip.source[0] ^ to[0]) | (ip.source[1] ^ to[1]) | (ip.source[2] ^ to[2]) | (ip.source[3] ^ to[3]);
    if ((NET32(ip.version_class_flow) >> 28) != 6 || other || (ip.next != PROTOCOL_TCP && ip.next != PROTOCOL_UDP))
        return 0;
    offset += sizeof(ip);
    u16 words[2];
    if (!READ(words, packet, offset) || offset + 8 > limit)
        return 0;
    headers->source_port = words[1];
    headers->destination_port = words[0];
    return 0;
}

/* Ports, or what ICMP has in their place; the packet ends at `limit`. */
CALLED int ports(const struct xdp_md *packet, u32 offset, u32 limit, u8 protocol, struct headers *headers)
{
    /* How much of the header has to be there before the engine believes its ports. */
    u32 least;
    if (protocol == PROTOCOL_TCP)
        least = 20;
    else if (protocol == PROTOCOL_UDP || (protocol == PROTOCOL_ICMP && headers->version == 4) ||
             (protocol == PROTOCOL_ICMPV6 && headers->version == 6))
        least = 8;
    else if (protocol == PROTOCOL_SCTP || protocol == PROTOCOL_DCCP)
        least = 4;
    else
        return 0;
    u16 words[2];
    if (!READ(words, packet, offset) || offset + least > limit)
        return 0;
    if (protocol == PROTOCOL_ICMPV6) {
        u8 type = NET16(words[0]) >> 8;
        return type >= 1 && type <= 4 ? quoted_ports_v6(packet, offset, limit, headers) : 0;
    }
    if (protocol != PROTOCOL_ICMP) {
        headers->source_port = words[0];
        headers->destination_port = words[1];
        return 0;
    }
    u16 icmp[4];
    if (!READ(icmp, packet, offset))
        return 0;
    u8 kind = NET16(icmp[0]) >> 8;
    u16 identifier = icmp[2];
    if (kind == 8 || kind == 13)
        headers->source_port = identifier;
    else if (kind == 0 || kind == 14)
        headers->destination_port = identifier;
    else if (kind == 3 || kind == 4 || kind == 11 || kind == 12)
        return quoted_ports(packet, offset, limit, headers);
    return 0;
}

CALLED int read_ipv4(const struct xdp_md *packet, u32 offset, u32 frame_bytes, struct headers *headers)
{
    struct ipv4 ip;
    if (!READ(ip, packet, offset) || ip.version_length >> 4 != 4)
        return 0;
    headers->version = 4;
    headers->source.words[2] = headers->destination.words[2] = NET32(0xffff);
    headers->source.words[3] = ip.source;
    headers->destination.words[3] = ip.destination;
    headers->protocol = ip.protocol;
    u32 header = (ip.version_length & 15) * 4;
    u32 length = NET16(ip.length);
    if (!length)
        length = frame_bytes - offset;
    u32 limit = offset + length;
    if (header < 20 || offset + header > frame_bytes || length < header || limit > frame_bytes ||
        NET16(ip.fragment) & 0x1fff)
        return 0;
    u8 protocol = ip.protocol;
    offset += header;
    return ports(packet, offset, limit, protocol, headers);
}

/* An address of IPv4 in a packet of IPv6 is malformed. */
INLINE int is_mapped(const struct address *address)
{
    return !address->words[0] && !address->words[1] && address->words[2] == NET32(0xffff);
}

/* By protocol, what a unit of an extension header's length adds to its first 8 bytes, and 1; 0 where it is no such header.
 * A table and no comparisons: the verifier follows each branch of them to the end. */
const volatile u8 extensions[256] = {
    [0] = 9, [43] = 9, [60] = 9, [135] = 9, [139] = 9, [140] = 9, [44] = 1, [51] = 5,
};

CALLED int read_ipv6(const struct xdp_md *packet, u32 offset, u32 frame_bytes, struct headers *headers)
{
    struct ipv6 ip;
    if (!READ(ip, packet, offset) || (NET32(ip.version_class_flow) >> 28) != 6)
        return 0;
    headers->version = 6;
#pragma unroll
    for (int word = 0; word < 4; word++) {
        headers->source.words[word] = ip.source[word];
        headers->destination.words[word] = ip.destination[word];
    }
    u32 payload = NET16(ip.length);
    u32 limit = payload ? offset + sizeof(ip) + payload : frame_bytes;
    if (limit > frame_bytes || is_mapped(&headers->source) || is_mapped(&headers->destination))
        return 0;
    u8 protocol = ip.next;
    headers->protocol = protocol;
    offset += sizeof(ip);
    for (int count = 0; count <= EXTENSIONS; count++) {
        u32 extension = extensions[protocol];
        if (!extension)
            return ports(packet, offset, limit, protocol, headers);
        u8 header[4];
        if (count == EXTENSIONS || !READ(header, packet, offset))
            return 0;
        offset += 8 + header[1] * (extension - 1);
        if (offset > limit)
            return 0;
        headers->protocol = header[0];
        /* Fragments but the first have no ports. */
        if (protocol == 44 && (header[2] << 8 | header[3]) & 0xfff8)
            return 0;
        protocol = header[0];
    }
    return 0;
}

/* `tags` of the frame's tags are beside it. */
CALLED int read_frame(const struct xdp_md *packet, u32 tags, struct headers *headers)
{
    u32 offset = 0;
    struct ethernet ethernet;
    if (!READ(ethernet, packet, offset))
        return 0;
    u16 type = NET16(ethernet.type);
    offset = sizeof(ethernet);
#pragma unroll
    for (int count = 0; count < 3; count++) {
        if (type != TYPE_VLAN && type != TYPE_QINQ && type != TYPE_OLD_QINQ)
            break;
        struct vlan vlan;
        /* The engine looks through two. */
        if (!READ(vlan, packet, offset) || tags == 2)
            return 0;
        type = NET16(vlan.type);
        offset += sizeof(vlan);
        tags++;
    }
    u32 frame_bytes = frame_length(packet);
    if (type == TYPE_IPV4)
        return read_ipv4(packet, offset, frame_bytes, headers);
    if (type == TYPE_IPV6)
        return read_ipv6(packet, offset, frame_bytes, headers);
    return 0;
}

INLINE u8 side_of(const struct address *address)
{
    struct prefix key = {128, *address};
    const u8 *side = map_lookup(&prefixes, &key);
    return side ? *side : 0;
}

/* Whether the source's address and port are above the destination's. */
INLINE int is_above(const struct headers *headers)
{
#pragma unroll
    for (int word = 0; word < 4; word++) {
        u32 source = NET32(headers->source.words[word]), destination = NET32(headers->destination.words[word]);
        if (source != destination)
            return source > destination;
    }
    return NET16(headers->source_port) > NET16(headers->destination_port);
}

/* Whether a packet's source stands where, as seen from inside, its destination does: the engine's `seen_from_inside`. */
INLINE int is_mirrored(const struct headers *headers)
{
    if (!headers->version)
        return 0;
    u8 destination = side_of(&headers->destination);
    int is_from_outside = !(side_of(&headers->source) & INSIDE);
    int crosses = is_from_outside ? destination != 0 : !(destination & INSIDE);
    return crosses ? is_from_outside : is_above(headers);
}

/* The entry of the indirection table that the hash of a frame's headers points to. */
INLINE u32 entry_of(const struct headers *headers)
{
    u32 source = hash_fields & HASH_SOURCE, destination = hash_fields & HASH_DESTINATION;
    u32 source_port = hash_fields & HASH_SOURCE_PORT, destination_port = hash_fields & HASH_DESTINATION_PORT;
    if (has_sides && is_mirrored(headers)) {
        source = hash_fields & HASH_DESTINATION, destination = hash_fields & HASH_SOURCE;
        source_port = hash_fields & HASH_DESTINATION_PORT, destination_port = hash_fields & HASH_SOURCE_PORT;
    }
    u32 word = 0;
    if (source)
        word ^= fold_address(&headers->source, headers->version);
    if (destination)
        word ^= fold_address(&headers->destination, headers->version);
    if (source_port)
        word ^= headers->source_port;
    if (destination_port)
        word ^= headers->destination_port;
    word = NET16((u16)word);
    u32 first = word >> 8, second = 256 + (word & 0xff);
    const u32 *by_first = map_lookup(&hashes, &first), *by_second = map_lookup(&hashes, &second);
    return by_first && by_second ? (*by_first ^ *by_second) & entry_mask : 0;
}

/* The core that has an entry. */
INLINE u32 owner_of(u32 entry)
{
    const u32 *owner = map_lookup(&owners, &entry);
    return owner ? *owner : 0;
}

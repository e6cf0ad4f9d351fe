// Writes random frames as a pcap file: well-formed ones of all kinds that the parser knows, and those with a defect
// somewhere. usage: frames OUT.pcap SEED COUNT
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

namespace {

using Bytes = std::vector<uint8_t>;

std::mt19937_64 engine;

uint64_t below(uint64_t end) { return engine() % end; }
bool chance(unsigned percent) { return below(100) < percent; }
template <class T, size_t N> T one_of(const std::array<T, N> &values) { return values[below(N)]; }

void put16(Bytes &to, uint64_t value) {
    to.push_back(static_cast<uint8_t>(value >> 8));
    to.push_back(static_cast<uint8_t>(value));
}
void put32(Bytes &to, uint64_t value) {
    put16(to, value >> 16);
    put16(to, value);
}
void noise(Bytes &to, size_t count) {
    for (size_t i = 0; i < count; i++) to.push_back(static_cast<uint8_t>(engine()));
}
void append(Bytes &to, const Bytes &from) { to.insert(to.end(), from.begin(), from.end()); }

// Few addresses, so that an error's quote can be of the packet's own ends.
struct Ends {
    Bytes src, dst;
};
Bytes address(bool is_4) {
    if (is_4) return {10, 0, 0, static_cast<uint8_t>(below(4))};
    Bytes a = {0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, static_cast<uint8_t>(below(4))};
    if (chance(50)) a[3] = static_cast<uint8_t>(engine()), a[9] = static_cast<uint8_t>(engine());
    if (chance(3)) a = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1};
    return a;
}

Bytes tcp_options(uint32_t ack) {
    Bytes o;
    while (o.size() < 40 && !chance(15)) {
        switch (below(9)) {
        case 0: o.push_back(1); break;
        case 1: append(o, {3, 3, static_cast<uint8_t>(below(20))}); break;
        case 2: append(o, {4, 2}); break;
        case 3:
        case 4: {
            const size_t blocks = 1 + below(4);
            append(o, {5, static_cast<uint8_t>(2 + 8 * blocks)});
            for (size_t i = 0; i < blocks; i++) {
                put32(o, ack + below(1000));
                put32(o, chance(70) ? ack + below(100000) : chance(50) ? ack - below(1000) : engine());
            }
            break;
        }
        case 5: append(o, {8, 10}); noise(o, 8); break;
        case 6: append(o, {2, 4}); noise(o, 2); break;
        case 7: append(o, {static_cast<uint8_t>(below(9)), static_cast<uint8_t>(below(12))}); noise(o, below(6)); break;
        default: if (chance(20)) o.push_back(0); else o.push_back(1);
        }
    }
    while (o.size() % 4) o.push_back(chance(50) ? 1 : 0);
    if (o.size() > 40) o.resize(40);
    return o;
}

Bytes tcp() {
    Bytes t;
    put16(t, below(65536)), put16(t, below(65536));
    const uint32_t ack = static_cast<uint32_t>(engine());
    put32(t, engine()), put32(t, ack);
    const Bytes options = chance(70) ? tcp_options(ack) : Bytes{};
    t.push_back(static_cast<uint8_t>((chance(5) ? below(16) : 5 + options.size() / 4) << 4));
    t.push_back(static_cast<uint8_t>(chance(50) ? 0x10 | below(4) : engine()));
    noise(t, 6);
    append(t, options);
    return t;
}

Bytes udp(size_t payload) {
    Bytes u;
    put16(u, below(65536)), put16(u, below(65536));
    put16(u, chance(80) ? 8 + payload : chance(30) ? 0 : below(2000));
    noise(u, 2);
    return u;
}

// What an error quotes of a packet from `ends.dst`, most times.
Bytes quote(bool is_4, const Ends &ends) {
    Bytes q;
    const Bytes src = chance(85) ? ends.dst : address(is_4), dst = chance(50) ? ends.src : address(is_4);
    const uint8_t protocol = one_of<uint8_t, 6>({6, 17, 1, 1, 58, 47});
    if (is_4) {
        const size_t words = chance(70) ? 5 : 4 + below(12);
        append(q, {static_cast<uint8_t>(0x40 | words), 0, 0, 84, 0, 1});
        put16(q, chance(90) ? 0x4000 : below(65536));
        append(q, {60, protocol, 0, 0});
        append(q, src), append(q, dst);
        if (words > 5) noise(q, 4 * (words - 5));
    } else {
        append(q, {static_cast<uint8_t>(chance(95) ? 0x60 : engine()), 0, 0, 0, 0, 64, protocol, 60});
        append(q, src), append(q, dst);
    }
    Bytes start;
    noise(start, 8);
    if (protocol == 1 && chance(90)) start[0] = one_of<uint8_t, 4>({0, 8, 13, 14});
    append(q, start);
    noise(q, below(12));
    if (chance(10)) q.resize(below(q.size()));
    return q;
}

Bytes icmp(bool is_4, uint8_t protocol, const Ends &ends) {
    Bytes m;
    const bool is_error = chance(60);
    if (chance(10)) m.push_back(static_cast<uint8_t>(engine()));
    else if (protocol == 1) m.push_back(is_error ? one_of<uint8_t, 5>({3, 4, 11, 12, 5}) : one_of<uint8_t, 5>({0, 8, 13, 14, 17}));
    else m.push_back(is_error ? one_of<uint8_t, 5>({1, 2, 3, 4, 5}) : one_of<uint8_t, 4>({128, 129, 135, 136}));
    noise(m, 7);
    if (is_error) append(m, quote(is_4, ends));
    return m;
}

Bytes transport(bool is_4, uint8_t protocol, const Ends &ends) {
    const size_t payload = chance(60) ? below(40) : chance(90) ? below(1500) : below(9000);
    Bytes t;
    switch (protocol) {
    case 6: t = tcp(); break;
    case 17: t = udp(payload); break;
    case 1:
    case 58: t = icmp(is_4, protocol, ends); break;
    default: noise(t, below(12));
    }
    if (chance(85)) noise(t, payload);
    return t;
}

uint8_t some_protocol(bool is_4) {
    if (chance(35)) return 6;
    return one_of<uint8_t, 10>({17, 17, static_cast<uint8_t>(is_4 ? 1 : 58), static_cast<uint8_t>(is_4 ? 1 : 58), 1, 58, 132, 33, 47, 50});
}

Bytes ipv4() {
    Bytes p;
    const Ends ends{address(true), address(true)};
    const uint8_t protocol = some_protocol(true);
    const size_t words = chance(70) ? 5 : chance(85) ? 5 + below(11) : below(16);
    const Bytes body = transport(true, protocol, ends);
    p.push_back(static_cast<uint8_t>((chance(97) ? 0x40 : engine() & 0xf0) | words));
    noise(p, 1);
    const size_t header = words > 5 ? 4 * words : 20;
    put16(p, chance(85) ? header + body.size() : chance(40) ? 0 : below(2000));
    noise(p, 2);
    put16(p, chance(75) ? 0x4000 : chance(50) ? 0x2000 : below(65536));
    noise(p, 1);
    p.push_back(protocol);
    noise(p, 2);
    append(p, ends.src), append(p, ends.dst);
    if (words > 5) noise(p, 4 * (words - 5));
    append(p, body);
    return p;
}

Bytes ipv6() {
    const Ends ends{address(false), address(false)};
    const uint8_t protocol = some_protocol(false);
    Bytes body = transport(false, protocol, ends);
    // Extension headers, from the last to the first.
    uint8_t next = protocol;
    const size_t count = chance(45) ? 0 : chance(85) ? 1 + below(4) : 7 + below(4);
    for (size_t i = 0; i < count; i++) {
        const uint8_t kind = one_of<uint8_t, 9>({0, 43, 44, 44, 51, 60, 135, 139, 140});
        Bytes header = {next};
        if (kind == 44) {
            header.push_back(static_cast<uint8_t>(engine()));
            put16(header, chance(40) ? 0 : chance(50) ? 1 : below(65536));
            noise(header, 4);
        } else {
            const size_t len = chance(80) ? below(3) : chance(90) ? below(40) : below(256);
            header.push_back(static_cast<uint8_t>(len));
            noise(header, (kind == 51 ? 4 * (len + 2) : 8 * (len + 1)) - 2);
        }
        append(header, body);
        body = header;
        next = kind;
    }
    Bytes p = {static_cast<uint8_t>((chance(97) ? 0x60 : engine() & 0xf0) | below(16))};
    noise(p, 3);
    put16(p, chance(85) ? body.size() : chance(40) ? 0 : below(2000));
    p.push_back(next);
    noise(p, 1);
    append(p, ends.src), append(p, ends.dst);
    append(p, body);
    return p;
}

Bytes frame() {
    Bytes f;
    noise(f, 12);
    const size_t tags = chance(60) ? 0 : 1 + below(3);
    for (size_t i = 0; i < tags; i++) {
        put16(f, one_of<uint16_t, 3>({0x8100, 0x88a8, 0x9100}));
        put16(f, engine());
    }
    const unsigned kind = static_cast<unsigned>(below(100));
    put16(f, kind < 48 ? 0x0800 : kind < 95 ? 0x86dd : engine());
    append(f, kind < 48 ? ipv4() : kind < 95 ? ipv6() : transport(true, 47, {}));
    // Longer than the field for its length, and than the sequencer's buffer: a card's segmentation is still to come.
    if (chance(1) && chance(10)) noise(f, 20000 + below(60000));
    if (chance(20)) noise(f, below(30));
    if (chance(15)) {
        for (size_t i = 0; i < 1 + below(3); i++) f[below(std::min<size_t>(f.size(), 120))] = static_cast<uint8_t>(engine());
    }
    if (chance(15)) f.resize(1 + below(std::min<size_t>(f.size(), 200)));
    return f;
}

void raw32(std::FILE *file, uint32_t value) {
    const std::array<uint8_t, 4> bytes{static_cast<uint8_t>(value), static_cast<uint8_t>(value >> 8),
                                       static_cast<uint8_t>(value >> 16), static_cast<uint8_t>(value >> 24)};
    std::fwrite(bytes.data(), 1, 4, file);
}

} // namespace

int main(int argc, char **argv) {
    std::FILE *file = argc == 4 ? std::fopen(argv[1], "wb") : nullptr;
    if (!file) {
        std::fprintf(stderr, "usage: frames OUT.pcap SEED COUNT\n");
        return 1;
    }
    engine.seed(std::strtoull(argv[2], nullptr, 10));
    for (const uint32_t word : {0xa1b23c4du, 0x00040002u, 0u, 0u, 0x40000u, 1u}) raw32(file, word);
    uint64_t time_ns = 1700000000000000000;
    for (uint64_t left = std::strtoull(argv[3], nullptr, 10); left > 0; left--) {
        // Now and then a clock steps back.
        time_ns += chance(95) ? below(100000) : 0;
        const uint64_t stamp = time_ns - (chance(3) ? below(1000000) : 0);
        const Bytes bytes = frame();
        for (const uint64_t word : {stamp / 1000000000, stamp % 1000000000, bytes.size(), bytes.size()})
            raw32(file, static_cast<uint32_t>(word));
        std::fwrite(bytes.data(), 1, bytes.size(), file);
    }
    return std::fclose(file) == 0 ? 0 : 1;
}

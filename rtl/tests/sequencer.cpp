// Runs a capture through the RTL sequencer, by its AXI pins alone, and writes a capture for each core as `paceline sequence`
// does. usage: sequencer IN.pcap OUT_DIR [--seed N] [--gaps PERCENT] [--stalls PERCENT] [--limit FRAMES]
//
// Cores are those that the hardware was made for. Gaps are cycles in which no beat is offered, stalls those in which none is
// taken, both drawn from the seed. With PORTS it is the hardware for a program, which sends no flushes: frame i comes by port i mod 5. With COUNTED the hardware has `statistics` beside it, which must have counted what goes over the pins.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <sys/stat.h>
#include <vector>

#include "Vsequencer.h"
#include "verilated.h"

#ifndef CORES
#error "CORES: cores that the hardware was made for"
#endif
#ifndef BYTES
#error "BYTES: bytes of a beat"
#endif
#ifdef PORTS
constexpr size_t FLUSHES = 0;
#else
constexpr size_t FLUSHES = CORES;
#endif

namespace {

struct Frame {
    uint64_t time_ns;
    std::vector<uint8_t> bytes;
};

[[noreturn]] void fail(const std::string &why) {
    std::fprintf(stderr, "error: %s\n", why.c_str());
    std::exit(1);
}

uint32_t number(const uint8_t *at, bool is_swapped) {
    uint32_t value;
    std::memcpy(&value, at, 4);
    return is_swapped ? __builtin_bswap32(value) : value;
}

std::vector<Frame> read_pcap(const std::string &path, size_t limit) {
    std::unique_ptr<FILE, int (*)(FILE *)> file(std::fopen(path.c_str(), "rb"), std::fclose);
    if (!file) fail("cannot open " + path);
    uint8_t header[24], record[16];
    if (std::fread(header, 1, 24, file.get()) != 24) fail(path + " is no pcap file");
    uint32_t magic = number(header, false);
    bool is_swapped = magic == 0xd4c3b2a1 || magic == 0x4d3cb2a1;
    if (is_swapped) magic = __builtin_bswap32(magic);
    if (magic != 0xa1b2c3d4 && magic != 0xa1b23c4d) fail(path + " is no pcap file");
    if ((number(header + 20, is_swapped) & 0xffff) != 1) fail(path + " does not have Ethernet frames");
    uint64_t unit = magic == 0xa1b2c3d4 ? 1000 : 1;
    std::vector<Frame> frames;
    while (frames.size() < limit && std::fread(record, 1, 16, file.get()) == 16) {
        uint32_t length = number(record + 8, is_swapped), on_wire = number(record + 12, is_swapped);
        std::string name = path + ", frame " + std::to_string(frames.size() + 1);
        if (length < on_wire) fail(name + ": the capture cut it, and a port gets whole frames");
        if (length == 0 || length > 131071) fail(name + ": no port gets a frame of " + std::to_string(length) + " bytes");
        Frame frame{number(record, is_swapped) * uint64_t{1000000000} + number(record + 4, is_swapped) * unit, {}};
        frame.bytes.resize(length);
        if (std::fread(frame.bytes.data(), 1, length, file.get()) != length) fail(name + ": the file ends in it");
        frames.push_back(std::move(frame));
    }
    return frames;
}

class PcapWriter {
  public:
    explicit PcapWriter(const std::string &path) : file_(std::fopen(path.c_str(), "wb"), std::fclose) {
        if (!file_) fail("cannot write " + path);
        const uint32_t header[6] = {0xa1b23c4d, 0x00040002, 0, 0, 0x40000, 1};
        put(header, sizeof header);
    }
    void write(uint64_t time_ns, const std::vector<uint8_t> &bytes) {
        const uint32_t length = static_cast<uint32_t>(bytes.size());
        const uint32_t record[4] = {static_cast<uint32_t>(time_ns / 1000000000), static_cast<uint32_t>(time_ns % 1000000000),
                                    length, length};
        put(record, sizeof record);
        put(bytes.data(), bytes.size());
    }

  private:
    void put(const void *bytes, size_t length) {
        if (std::fwrite(bytes, 1, length, file_.get()) != length) fail("cannot write");
    }
    std::unique_ptr<FILE, int (*)(FILE *)> file_;
};

// A beat of the pins: `tkeep` in words of 64 bits.
struct Beat {
    uint8_t data[BYTES];
    uint64_t keep[BYTES / 64];
    bool last;
    uint8_t dest;
    bool operator==(const Beat &other) const {
        return !std::memcmp(data, other.data, BYTES) && !std::memcmp(keep, other.keep, sizeof keep) &&
               last == other.last && dest == other.dest;
    }
};

class Pins {
  public:
    Vsequencer top;
    uint64_t cycle = 0;

    Pins() {
        top.resetn = 0;
        top.s_axis_tvalid = 0;
        top.m_axis_tready = 0;
        for (int i = 0; i < 4; i++) tick();
        top.resetn = 1;
        cycle = 0;
    }
    void settle() {
        top.clk = 0;
        top.eval();
    }
    void tick() {
        settle();
        top.clk = 1;
        top.eval();
        cycle++;
    }
    void offer(const Frame &frame, [[maybe_unused]] size_t number, size_t from) {
#ifdef PORTS
        top.s_axis_tid = static_cast<uint16_t>(from == 0 ? number % 5 : 0xbeef);
#endif
        const size_t count = std::min<size_t>(BYTES, frame.bytes.size() - from);
        top.s_axis_tvalid = 1;
        // What is not kept is anything; here not 0.
        std::memset(&top.s_axis_tdata, 0xa5, BYTES);
        std::memcpy(&top.s_axis_tdata, frame.bytes.data() + from, count);
        uint64_t keep[BYTES / 64];
        for (size_t word = 0; word < BYTES / 64; word++) {
            const size_t left = count > 64 * word ? count - 64 * word : 0;
            keep[word] = left >= 64 ? ~uint64_t{0} : (uint64_t{1} << left) - 1;
        }
        std::memcpy(&top.s_axis_tkeep, keep, sizeof keep);
        top.s_axis_tlast = from + count == frame.bytes.size();
        top.s_axis_tuser = from == 0 ? frame.time_ns : 0xdeadbeefdeadbeef;
    }
    Beat out() const {
        Beat beat;
        std::memcpy(beat.data, &top.m_axis_tdata, BYTES);
        std::memcpy(beat.keep, &top.m_axis_tkeep, sizeof beat.keep);
        beat.last = top.m_axis_tlast;
        beat.dest = top.m_axis_tdest;
        return beat;
    }
};

#ifdef COUNTED
// What has to be in the registers of `statistics`, from 0x10 on.
struct Counts {
    uint64_t frames = 0, bytes_in = 0, packets = 0, flushes = 0, bytes_out = 0, brief = 0, stalled_in = 0, stalled_out = 0;
};

// A word over AXI4-Lite; `is_there` is whether the answer must be OKAY.
uint32_t read_word(Pins &pins, uint8_t address, bool is_there) {
    pins.top.s_axil_araddr = address;
    pins.top.s_axil_arvalid = 1;
    pins.top.s_axil_rready = 0;
    pins.settle();
    if (!pins.top.s_axil_arready) fail("statistics: a read is not taken");
    pins.tick();
    pins.top.s_axil_arvalid = 0;
    pins.tick();
    if (!pins.top.s_axil_rvalid) fail("statistics: a read is not answered");
    if (pins.top.s_axil_rresp != (is_there ? 0 : 2)) fail("statistics: register " + std::to_string(address) + " answers wrongly");
    const uint32_t word = pins.top.s_axil_rdata;
    pins.top.s_axil_rready = 1;
    pins.tick();
    return word;
}

void check_statistics(Pins &pins, const Counts &counts) {
    const uint64_t expected[] = {counts.frames,    counts.bytes_in, counts.packets,    counts.flushes,
                                 counts.bytes_out, counts.brief,    counts.stalled_in, counts.stalled_out};
    pins.top.s_axil_awvalid = pins.top.s_axil_wvalid = pins.top.s_axil_bready = 1;
    pins.tick();
    pins.top.s_axil_awvalid = pins.top.s_axil_wvalid = 0;
    if (!pins.top.s_axil_bvalid || pins.top.s_axil_bresp != 2) fail("statistics: a write is not refused");
    if (read_word(pins, 0, true) != 0x504c5351 || read_word(pins, 4, true) != 1) fail("statistics: no registers of the sequencer");
    if (read_word(pins, 8, true) != CORES || read_word(pins, 12, true) != BYTES) fail("statistics: other cores or another width");
    uint8_t address = 16;
    for (const uint64_t value : expected) {
        const uint64_t low = read_word(pins, address, true), high = read_word(pins, static_cast<uint8_t>(address + 4), true);
        if ((high << 32 | low) != value)
            fail("statistics: register " + std::to_string(address) + " has " + std::to_string(high << 32 | low) + ", not " + std::to_string(value));
        address += 8;
    }
    read_word(pins, address, false);
    std::printf("statistics: %llu frames, %llu of them short, %llu cycles stalled in and %llu out, all as counted at the pins\n",
                (unsigned long long)counts.frames, (unsigned long long)counts.brief, (unsigned long long)counts.stalled_in,
                (unsigned long long)counts.stalled_out);
}
#endif

size_t kept(const Beat &beat) {
    size_t count = 0;
    while (count < BYTES && (beat.keep[count / 64] >> (count % 64) & 1)) count++;
    for (size_t i = count; i < BYTES; i++)
        if (beat.keep[i / 64] >> (i % 64) & 1) fail("tkeep has a hole");
    if (count == 0) fail("a beat without bytes");
    if (!beat.last && count != BYTES) fail("a beat that is not full, and not the last");
    return count;
}

uint64_t big_endian(const uint8_t *at) {
    uint64_t value = 0;
    for (int i = 0; i < 8; i++) value = value << 8 | at[i];
    return value;
}

} // namespace

int main(int argc, char **argv) {
    std::vector<std::string> names;
    uint64_t seed = 1, gaps = 0, stalls = 0, limit = UINT64_MAX;
    for (int i = 1; i < argc; i++) {
        const std::string name = argv[i];
        uint64_t *number = name == "--seed" ? &seed : name == "--gaps" ? &gaps : name == "--stalls" ? &stalls
                         : name == "--limit" ? &limit : nullptr;
        if (number && i + 1 < argc) *number = std::strtoull(argv[++i], nullptr, 10);
        else names.push_back(name);
    }
    if (names.size() != 2 || gaps > 99 || stalls > 99)
        fail("usage: sequencer IN.pcap OUT_DIR [--seed N] [--gaps 0..99] [--stalls 0..99] [--limit FRAMES]");
    const std::vector<Frame> frames = read_pcap(names[0], limit);
    mkdir(names[1].c_str(), 0777);
    std::vector<PcapWriter> files;
    for (int core = 0; core < CORES; core++) {
        char name[32];
        std::snprintf(name, sizeof name, "/core-%02d.pcap", core);
        files.emplace_back(names[1] + name);
    }

    std::mt19937_64 random(seed);
    auto draw = [&](uint64_t percent) { return percent != 0 && random() % 100 < percent; };
    Pins pins;
    size_t next = 0, from = 0;
    bool is_offered = false;
    size_t packets = 0, flushes = 0;
    std::vector<uint8_t> packet;
    uint8_t dest = 0;
    bool was_held = false;
    Beat held{};
#ifdef COUNTED
    Counts counts;
#endif
    uint64_t quiet = 0, beats = 0, first_in = 0, first_out = 0, last_out = 0, idle = 0, inner_idle = 0;

    while (packets < frames.size() || flushes < FLUSHES) {
        if (!is_offered) {
            pins.top.s_axis_tvalid = 0;
            if (next < frames.size() && !draw(gaps)) {
                pins.offer(frames[next], next, from);
                is_offered = true;
            }
        }
        pins.top.m_axis_tready = !draw(stalls);
        pins.settle();
        const bool is_in = is_offered && pins.top.s_axis_tready;
        const bool is_out = pins.top.m_axis_tvalid && pins.top.m_axis_tready;
        if (was_held && !(pins.top.m_axis_tvalid && pins.out() == held)) fail("a beat changed before it was taken");
        was_held = pins.top.m_axis_tvalid && !pins.top.m_axis_tready;
        if (was_held) held = pins.out();
        if (!pins.top.m_axis_tvalid && !packet.empty()) inner_idle++;
        if (!pins.top.m_axis_tvalid && beats != 0 && packets < frames.size()) idle++;
#ifdef COUNTED
        counts.stalled_in += is_offered && !is_in;
        counts.stalled_out += pins.top.m_axis_tvalid && !is_out;
        if (is_out) counts.bytes_out += kept(pins.out());
        if (is_in && pins.top.s_axis_tlast) {
            counts.frames++;
            counts.bytes_in += frames[next].bytes.size();
            counts.brief += frames[next].bytes.size() < 14;
        }
#endif
        if (is_out) {
            const Beat beat = pins.out();
            if (!packet.empty() && beat.dest != dest) fail("tdest changed within a packet");
            dest = beat.dest;
            const size_t count = kept(beat);
            packet.insert(packet.end(), beat.data, beat.data + count);
            if (packets < frames.size()) {
                if (beats == 0) first_out = pins.cycle;
                beats++;
                last_out = pins.cycle;
            }
            if (beat.last) {
                if (dest >= CORES) fail("a packet for a core that is not there");
                // Time, and whether it is a flush, are in the fixed header.
                const size_t header = !std::memcmp(packet.data(), "PLHI", 4) ? 0 : 14;
                if (packet.size() < header + 40) fail("a packet without a header");
                files[dest].write(big_endian(packet.data() + header + 16), packet);
                if (packet[header + 5] & 1) flushes++;
                else packets++;
                packet.clear();
            }
        }
        if (is_in && next == 0 && pins.top.s_axis_tlast) first_in = pins.cycle;
        pins.tick();
        if (is_in) {
            is_offered = false;
            from += BYTES;
            if (from >= frames[next].bytes.size()) {
                next++;
                from = 0;
            }
        }
        quiet = is_in || is_out ? 0 : quiet + 1;
        if (quiet > 200000) fail("nothing moves: " + std::to_string(packets) + " of " + std::to_string(frames.size()) + " packets are out");
    }
#ifdef COUNTED
    counts.packets = packets;
    counts.flushes = flushes;
    pins.top.s_axis_tvalid = 0;
    check_statistics(pins, counts);
#endif
    std::printf("%zu packets, %zu flushes, %llu beats in %llu cycles, the first %llu cycles after its frame was in; %llu cycles without a beat, "
                "%llu within a packet\n",
                packets, flushes, (unsigned long long)beats, (unsigned long long)(last_out - first_out + 1),
                (unsigned long long)(first_out - first_in), (unsigned long long)idle, (unsigned long long)inner_idle);
    return 0;
}

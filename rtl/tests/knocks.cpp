// Writes a capture of sources that knock: TCP segments of 64 bytes to ports 7001, 7002, 7003, 22 and now and then another.
// usage: knocks OUT.pcap SEED FRAMES SOURCES PERCENT
//
// A source goes on to the port that is next with PERCENT; else it takes any. Trains of up to 8 segments come from one source, so
// that packets speculate and fail.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

int main(int argc, char **argv) {
    if (argc != 6) return std::fprintf(stderr, "usage: knocks OUT.pcap SEED FRAMES SOURCES PERCENT\n"), 2;
    FILE *file = std::fopen(argv[1], "wb");
    if (!file) return std::fprintf(stderr, "error: cannot write %s\n", argv[1]), 1;
    std::mt19937 random(static_cast<unsigned>(std::strtoul(argv[2], nullptr, 10)));
    const auto frames = std::strtoul(argv[3], nullptr, 10), sources = std::strtoul(argv[4], nullptr, 10),
               percent = std::strtoul(argv[5], nullptr, 10);
    const uint32_t header[6] = {0xa1b23c4d, 0x00040002, 0, 0, 0x40000, 1};
    std::fwrite(header, sizeof header, 1, file);
    const uint16_t ports[5] = {7001, 7002, 7003, 22, 80};
    std::vector<unsigned> step(sources, 0);
    unsigned long source = 0, train = 0;
    for (unsigned long i = 0; i < frames; i++) {
        if (train-- == 0) source = random() % sources, train = random() % 8;
        unsigned which = random() % 100 < percent ? step[source] : random() % 5;
        step[source] = which < 3 ? which + 1 : 3;
        // Who stands open begins anew at times: an open port never closes, and another destination is another flow.
        if (which == 4) step[source] = 0;
        uint8_t frame[64] = {2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0, 50, 0, 1, 0, 0, 64, 6, 0, 0,
                             10, 0, static_cast<uint8_t>(source >> 8), static_cast<uint8_t>(source),
                             192, 0, 2, static_cast<uint8_t>(i / 2000), 0x9c, 0x40};
        frame[36] = static_cast<uint8_t>(ports[which] >> 8);
        frame[37] = static_cast<uint8_t>(ports[which]);
        frame[46] = 0x50;
        const uint32_t record[4] = {0, static_cast<uint32_t>(i) * 1000, sizeof frame, sizeof frame};
        std::fwrite(record, sizeof record, 1, file);
        std::fwrite(frame, sizeof frame, 1, file);
    }
    return std::fclose(file) == 0 ? 0 : 1;
}

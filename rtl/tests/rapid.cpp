// Holds the RTL pipeline of RAPID to the model, cycle by cycle: to what `paceline emulate --trace-registers` wrote of its registers,
// queues and tables. usage: rapid PROGRAM.sv TRACE
//
// Each packet goes in in the cycle in which it did in the model, and in each cycle all that the trace has is compared: before the clock
// edge, so that what leaves and what is lost in the cycle is there as well. docs/rtl.md describes the trace.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "Vrapid.h"
#include "verilated.h"
#include "verilated_syms.h"

namespace {

using Numbers = std::vector<uint64_t>;

[[noreturn]] void fail(const std::string &why) {
    std::fprintf(stderr, "error: %s\n", why.c_str());
    std::exit(1);
}

// `localparam int NAME = N;` of the program's package, and `localparam logic [...] NAME = {32'dN, ...};`, whose last number is the first.
std::map<std::string, Numbers> parameters(const std::string &path) {
    std::ifstream file(path);
    if (!file) fail("cannot open " + path);
    std::map<std::string, Numbers> found;
    for (std::string line; std::getline(file, line);) {
        std::istringstream words(line);
        std::string local, type, bits, name, equals, number;
        if (!(words >> local >> type) || local != "localparam" || (type == "logic" && !(words >> bits))) continue;
        words >> name >> equals;
        Numbers &numbers = found[name];
        while (words >> number) {
            size_t from = number.find("'d");
            from = from == std::string::npos ? 0 : from + 2;
            numbers.insert(numbers.begin(), std::strtoull(number.c_str() + from, nullptr, 10));
        }
    }
    return found;
}

// A signal of the hardware, by name: bits of one element of it.
class Signal {
  public:
    Signal(const std::string &scope, const std::string &name) {
        // Verilator writes `[` and `]` so.
        std::string written;
        for (char c : scope) written += c == '[' ? "__BRA__" : c == ']' ? "__KET__" : std::string(1, c);
        const VerilatedScope *found = Verilated::threadContextp()->scopeFind(("TOP.rapid" + written).c_str());
        if (!found) fail("the hardware has no scope rapid" + scope);
        const VerilatedVar *var = found->varFind(name.c_str());
        if (!var) fail("the hardware has no rapid" + scope + "." + name);
        data_ = static_cast<const uint8_t *>(var->datap());
        bits_ = static_cast<unsigned>(var->packed().elements());
        bytes_ = bits_ <= 8 ? 1 : bits_ <= 16 ? 2 : bits_ <= 32 ? 4 : bits_ <= 64 ? 8 : (bits_ + 31) / 32 * 4;
    }
    // Up to 64 bits from bit `at` on.
    uint64_t bits(unsigned at, unsigned width, size_t element = 0) const {
        uint64_t value = 0;
        const uint8_t *from = data_ + element * bytes_;
        for (unsigned i = 0; i < width; i++) value |= uint64_t(from[(at + i) / 8] >> (at + i) % 8 & 1) << i;
        return value;
    }
    uint64_t value(size_t element = 0) const { return bits(0, std::min(bits_, 64u), element); }

  private:
    const uint8_t *data_;
    unsigned bits_;
    size_t bytes_;
};

class Harness {
  public:
    Harness(const std::string &program, std::istream &trace) : parameter_(parameters(program)), trace_(trace) {
        std::string first;
        if (!std::getline(trace_, first) || first.rfind("widths", 0) != 0) fail("the trace does not begin with `widths`");
        std::istringstream words(first.substr(6));
        for (unsigned width; words >> width;) {
            if (width == 0) continue;
            at_.push_back(phv_);
            widths_.push_back(width);
            phv_ += width;
        }
        key_ = parameter("KEY_BITS");
        state_ = parameter("VALUE_BITS") + 1;
        packet_ = 35 + key_ + state_ + parameter("PHV_BITS");
        control_ = 6 + 6 * key_;
        functions_ = parameter("FUNCTIONS");
        pipelines_ = parameter("PIPELINES");
        if (phv_ != parameter("PHV_BITS")) fail("the trace is of another program: its header vectors have other bits");
        top_.resetn = 0;
        top_.s_valid = 0;
        for (int i = 0; i < 4; i++) tick();
        top_.resetn = 1;
    }

    // All cycles of the trace.
    void run() {
        for (std::string line = next(); !line.empty();) {
            if (line[0] != '@') fail("the trace has no cycle here: " + line);
            cycle_ = std::strtoull(line.c_str() + 2, nullptr, 10);
            std::map<std::string, Numbers> events;
            left_.clear();
            for (line = next(); !line.empty() && line[0] != '@'; line = next()) take(line, events);
            drive();
            top_.clk = 0;
            top_.eval();
            compare_registers();
            compare_events(events);
            top_.clk = 1;
            top_.eval();
            cycles_++;
        }
        std::printf("%llu cycles, %llu packets in, %llu out, %llu lost, states written back by each function:", ull(cycles_),
                    ull(packets_), ull(out_), ull(lost_));
        for (auto &function : writebacks_) std::printf(" %llu", ull(function.second));
        std::printf("; %llu cycles with packets that wait in ring nodes: equal\n", ull(delayed_));
    }

  private:
    static unsigned long long ull(uint64_t value) { return value; }

    std::map<std::string, Numbers> parameter_;
    std::istream &trace_;
    Vrapid top_;
    std::map<std::string, Numbers> expected_;
    std::map<std::string, Signal> signals_;
    // First bit and bits of each word of a header vector.
    std::vector<unsigned> at_, widths_;
    unsigned phv_ = 0, key_ = 0, state_ = 0, packet_ = 0, control_ = 0, functions_ = 0, pipelines_ = 0;
    uint64_t cycle_ = 0, cycles_ = 0, packets_ = 0, out_ = 0, lost_ = 0, delayed_ = 0;
    std::map<unsigned, uint64_t> writebacks_;
    // What leaves the pipelines in this cycle in the model.
    std::vector<Numbers> left_;
    // Whether in this cycle a packet waits in a ring node for more than its turn.
    bool waiting_ = false;

    uint64_t parameter(const std::string &name, size_t place = 0) const {
        auto found = parameter_.find(name);
        if (found == parameter_.end() || found->second.size() <= place) fail("the program has no parameter " + name);
        return found->second[place];
    }
    std::string next() {
        std::string line;
        std::getline(trace_, line);
        return line;
    }
    void tick() {
        top_.clk = 0;
        top_.eval();
        top_.clk = 1;
        top_.eval();
    }

    void take(const std::string &line, std::map<std::string, Numbers> &events) {
        std::istringstream words(line);
        std::string name, word;
        words >> name;
        Numbers numbers;
        std::string cause;
        while (words >> word) {
            if (name == "lost" && numbers.size() == 1) cause = word;
            else numbers.push_back(std::strtoull(word.c_str(), nullptr, 16));
        }
        if (name == "left") left_.push_back(numbers);
        else if (name == "lost") events[cause].push_back(numbers.at(0));
        else expected_[name] = numbers;
    }

    void drive() {
        clear(top_.s_valid), clear(top_.s_place), clear(top_.s_phv);
        for (unsigned pipeline = 0; pipeline < pipelines_; pipeline++) {
            std::string name = "port." + std::to_string(pipeline);
            uint64_t place = expected_[name].at(0);
            put(top_.s_valid, pipeline, 1, place != 0);
            put(top_.s_place, 32 * pipeline, 32, place);
            Numbers &phv = expected_[name + ".phv"];
            packets_ += place != 0;
            for (size_t i = 0; i < phv.size(); i++) put(top_.s_phv, phv_ * pipeline + at_[i], widths_[i], phv[i]);
        }
    }
    // Bits of a pin, however wide Verilator has it.
    template <typename Pin> static void clear(Pin &pin) { std::memset(&pin, 0, sizeof pin); }
    template <typename Pin> static void put(Pin &pin, unsigned at, unsigned width, uint64_t value) {
        auto *bytes = reinterpret_cast<uint8_t *>(&pin);
        for (unsigned bit = 0; bit < width; bit++)
            bytes[(at + bit) / 8] |= static_cast<uint8_t>((value >> bit & 1) << (at + bit) % 8);
    }
    template <typename Pin> static uint64_t get(const Pin &pin, unsigned at, unsigned width) {
        const auto *bytes = reinterpret_cast<const uint8_t *>(&pin);
        uint64_t value = 0;
        for (unsigned bit = 0; bit < width; bit++) value |= uint64_t(bytes[(at + bit) / 8] >> (at + bit) % 8 & 1) << bit;
        return value;
    }

    const Signal &signal(const std::string &scope, const std::string &name) {
        auto found = signals_.find(scope + "." + name);
        if (found == signals_.end()) found = signals_.emplace(scope + "." + name, Signal(scope, name)).first;
        return found->second;
    }
    // A packet as bits: its number, or 0; and its header vector.
    uint64_t place(const Signal &signal, size_t element, bool is_there = false) const {
        return is_there || signal.bits(packet_ - 1, 1, element) ? signal.bits(packet_ - 33, 32, element) : 0;
    }
    Numbers words(const Signal &signal, size_t element) const {
        Numbers numbers;
        for (size_t i = 0; i < at_.size(); i++) numbers.push_back(signal.bits(at_[i], widths_[i], element));
        return numbers;
    }
    // The words of a function's state, which are those of a header vector from READ_AT on, and whether it is there.
    void put_state(Numbers &numbers, unsigned function, const Signal &signal, unsigned at, size_t element) const {
        auto first = static_cast<unsigned>(parameter("READ_AT", function));
        auto end = first + static_cast<unsigned>(parameter("OWN_VALUE_BITS", function));
        for (size_t i = 0; i < at_.size(); i++)
            if (at_[i] >= first && at_[i] < end) numbers.push_back(signal.bits(at + at_[i] - first, widths_[i], element));
        numbers.push_back(signal.bits(at + state_ - 1, 1, element));
    }

    void equal(const std::string &name, const Numbers &found) {
        const Numbers &wanted = expected_[name];
        if (found != wanted) differs(name, wanted, found);
    }
    [[noreturn]] void differs(const std::string &name, const Numbers &wanted, const Numbers &found) const {
        std::printf("DIFFERS in cycle %llu: %s\n  model:   ", ull(cycle_), name.c_str());
        for (uint64_t number : wanted) std::printf(" %llx", ull(number));
        std::printf("\n  hardware:");
        for (uint64_t number : found) std::printf(" %llx", ull(number));
        std::printf("\n");
        std::exit(1);
    }

    void compare_registers() {
        for (unsigned stage = 0; stage < parameter("NODES"); stage++) {
            const Signal &held = signal(".g_stage[" + std::to_string(stage) + "].stage", "held");
            Numbers places;
            for (unsigned i = 0; i < parameter("STAGE_CYCLES"); i++) places.push_back(place(held, i));
            std::string name = "stage." + std::to_string(stage);
            equal(name, places);
            equal(name + ".phv", places[0] ? words(held, 0) : Numbers());
        }
        for (unsigned node = 0; node < parameter("NODES"); node++) compare_node(node);
        Numbers beats = expected_["beats"], found;
        for (unsigned f = 0; f < functions_; f++) {
            beats.at(f) &= (uint64_t(4) << (parameter("WRITE", f) - parameter("READ", f) + 1)) - 1;
            found.push_back(signal(span(f), "beats").value());
        }
        if (beats != found) differs("beats", beats, found);
        for (unsigned f = 0; f < functions_; f++) {
            function_ = f;
            compare_read_scheduler();
            compare_write_scheduler();
            compare_table();
        }
    }

    void compare_node(unsigned node) {
        std::string name = "ring." + std::to_string(node), scope = node_scope(node);
        // In whose span it is; in none it has the first one's number, and is not within that span.
        auto own = static_cast<unsigned>(parameter("FUNCTION_OF", node));
        bool sends = node > parameter("READ", own) && node <= parameter("WRITE", own);
        waiting_ |= sends && (!expected_[name + ".from_ring"].empty() || expected_[name + ".from_pipeline"].size() > 1);
        for (std::string queue : {"from_ring", "from_pipeline"}) {
            Numbers places;
            if (sends) {
                const Signal &count = signal(scope + ".g_sends." + queue, "count");
                const Signal &packets = signal(scope + ".g_sends." + queue, "packets");
                for (uint64_t i = 0; i < count.value(); i++) places.push_back(place(packets, i));
            }
            equal(name + "." + queue, places);
        }
        for (std::string link : {"bus", "upload", "taken_1", "taken_2"}) {
            equal(name + "." + link, Numbers{link == "upload" ? 0 : place(signal(scope, link + "_packet"), 0)});
            const Signal &writeback = signal(scope, link + "_writeback");
            Numbers numbers;
            if (writeback.bits(state_ + key_ + 1, 1)) {
                numbers = {writeback.bits(state_, key_), writeback.bits(state_ + key_, 1)};
                put_state(numbers, own, writeback, 0, 0);
            }
            equal(name + "." + link + ".writebacks", numbers);
            // A lane for each function on the bus; what the stage has handed over, and what it gets, is its own function's.
            const Signal &control = signal(scope, link + "_control");
            std::vector<Numbers> cancels, frees;
            for (unsigned lane = 0; lane < (link == "bus" ? functions_ : 1); lane++) {
                unsigned at = lane * control_, said_by = link == "bus" ? lane : own;
                for (unsigned i = 0; i < 4; i++)
                    if (control.bits(at + 4 * key_ + i, 1)) frees.push_back({said_by, control.bits(at + i * key_, key_)});
                for (unsigned i = 0; i < 2; i++)
                    if (control.bits(at + 6 * key_ + 4 + i, 1))
                        cancels.push_back({said_by, control.bits(at + 4 * key_ + 4 + i * key_, key_)});
            }
            equal(name + "." + link + ".cancels", side_by_side(cancels));
            equal(name + "." + link + ".frees", side_by_side(frees));
        }
    }
    static Numbers side_by_side(std::vector<Numbers> &pairs) {
        std::sort(pairs.begin(), pairs.end());
        Numbers numbers;
        for (auto &pair : pairs) numbers.insert(numbers.end(), pair.begin(), pair.end());
        return numbers;
    }

    // The function that is compared, where its parts are, and what the trace calls them.
    unsigned function_ = 0;
    static std::string span(unsigned function) { return ".g_function[" + std::to_string(function) + "].span"; }
    static std::string node_scope(unsigned node) { return ".g_stage[" + std::to_string(node) + "].node"; }
    const Signal &part(const std::string &module, const std::string &name) { return signal(span(function_) + module, name); }
    void equal_part(const std::string &name, const Numbers &found) { equal(std::to_string(function_) + "." + name, found); }

    uint64_t read(const std::string &name, size_t element = 0) { return part(".rd_sched", name).value(element); }
    bool flag(const std::string &name, unsigned bit) { return part(".rd_sched", name).bits(bit, 1); }
    void put_list(Numbers &numbers, const std::string &list, unsigned flow) {
        Numbers places;
        if (flag("has_" + list, flow)) {
            uint64_t slot = read(list + "_head", flow);
            for (uint64_t i = 0; i <= parameter("PB"); i++) {
                places.push_back(place(part(".rd_sched", "pb"), slot, true));
                if (slot == read(list + "_tail", flow)) break;
                slot = read("next", slot);
            }
        }
        numbers.push_back(places.size());
        numbers.insert(numbers.end(), places.begin(), places.end());
    }

    void compare_read_scheduler() {
        Numbers rb;
        for (uint64_t i = 0; i < read("rb_count"); i++)
            rb.push_back(place(part(".rd_sched", "rb"), (read("rb_first") + i) % parameter("RB")));
        equal_part("rb", rb);
        std::map<uint64_t, Numbers> flows;
        for (unsigned i = 0; i < parameter("FLOWS"); i++) {
            if (!flag("used", i)) continue;
            Numbers &flow = flows[read("keys", i)];
            // A flow that is scheduled needs its offset no more.
            flow = {read("keys", i), flag("scheduled", i) ? 0 : read("offset", i), read("in_rb", i),
                    flag("scheduled", i), flag("blocked", i), read("updates", i), read("passed", i)};
            put_list(flow, "returned", i);
            put_list(flow, "newer", i);
        }
        Numbers dirty;
        for (auto &flow : flows) dirty.insert(dirty.end(), flow.second.begin(), flow.second.end());
        equal_part("dirty", dirty);
        for (std::string queue : {"block", "suspend", "schedule"}) {
            Numbers keys;
            for (uint64_t i = 0; i < read(queue + "_count"); i++) keys.push_back(read("keys", read(queue, i)));
            equal_part(queue, keys);
        }
        Numbers waits;
        for (uint64_t i = 0; i < read("waits_count"); i++) {
            waits.push_back(read("keys", read("waits", i)));
            waits.push_back(read("due", i));
        }
        equal_part("wait", waits);
        equal_part("timers", Numbers{read("decrease"), read("increase")});
        equal_part("advances", Numbers{read("advances")});
    }

    void compare_write_scheduler() {
        std::map<uint64_t, Numbers> flows;
        auto of = [&](const char *name) -> const Signal & { return part(".wr_sched", name); };
        for (unsigned i = 0; i < parameter("FLOWS"); i++)
            if (of("used").bits(i, 1))
                flows[of("keys").value(i)] = {of("keys").value(i), of("dirty").bits(i, 1), of("may_pass").value(i)};
        Numbers dirty;
        for (auto &flow : flows) dirty.insert(dirty.end(), flow.second.begin(), flow.second.end());
        equal_part("write.dirty", dirty);
    }

    void compare_table() {
        const Signal &keys = part(".mu_table", "keys"), &states = part(".mu_table", "states");
        std::map<uint64_t, Numbers> entries;
        for (uint64_t i = 0; i < part(".mu_table", "used").value(); i++) {
            Numbers &entry = entries[keys.value(i)];
            entry = {keys.value(i)};
            put_state(entry, function_, states, 0, i);
        }
        Numbers table;
        for (auto &entry : entries) table.insert(table.end(), entry.second.begin(), entry.second.end());
        equal_part("table", table);
        equal_part("table.refused", Numbers{part(".mu_table", "refused").value()});
    }

    void compare_events(std::map<std::string, Numbers> &events) {
        std::vector<Numbers> left;
        for (unsigned pipeline = 0; pipeline < pipelines_; pipeline++) {
            if (!get(top_.m_valid, pipeline, 1)) continue;
            left.push_back({get(top_.m_place, 32 * pipeline, 32)});
            for (size_t i = 0; i < at_.size(); i++) left.back().push_back(get(top_.m_phv, phv_ * pipeline + at_[i], widths_[i]));
        }
        out_ += left.size();
        Numbers wanted_left = side_by_side(left_), found_left = side_by_side(left);
        if (found_left != wanted_left) differs("what leaves", wanted_left, found_left);
        const std::pair<const char *, const char *> lost[] = {{"ring_buffer_full", "lost_ring"},
                                                              {"resubmitted_buffer_full", "lost_rb"},
                                                              {"phv_buffer_full", "lost_pb"},
                                                              {"dirty_table_full", "lost_dtable"}};
        for (auto &[cause, pins] : lost) {
            Numbers found, &wanted = events[cause];
            for (unsigned f = 0; f < functions_; f++)
                if (uint64_t place = signal("", pins).bits(32 * f, 32)) found.push_back(place);
            std::sort(found.begin(), found.end());
            std::sort(wanted.begin(), wanted.end());
            if (found != wanted) differs(std::string("lost, ") + cause, wanted, found);
            lost_ += found.size();
        }
        for (unsigned f = 0; f < functions_; f++) {
            auto node = static_cast<unsigned>(parameter("READ", f));
            writebacks_[f] += signal(node_scope(node), "taken_2_writeback").bits(state_ + key_ + 1, 1);
        }
        delayed_ += waiting_;
        waiting_ = false;
    }
};

}  // namespace

int main(int argc, char **argv) {
    if (argc != 3) fail("usage: rapid PROGRAM.sv TRACE");
    std::ifstream trace(argv[2]);
    if (!trace) fail(std::string("cannot open ") + argv[2]);
    Harness(argv[1], trace).run();
}

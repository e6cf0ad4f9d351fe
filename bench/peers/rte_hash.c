// DPDK's rte_hash, measured as `paceline bench table` measures Paceline's flow table: 16-byte keys
// in random order, a nearly full table, look-ups in bulk, alone and with 64 bytes of state touched.
// README.md says what is compared and what differs. Built and run by `./x bench peers`.

#define _GNU_SOURCE

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_hash.h>
#include <rte_hash_crc.h>
#include <rte_jhash.h>
#include <rte_malloc.h>
#include <rte_prefetch.h>
#include <rte_version.h>

#define HEAP "peers"
#define HUGE_PAGE_BYTES ((size_t)2 << 20)
#define SIZES_MAX 16
// What rte_hash takes at least: a bucket of 8. At most: what Paceline does.
#define ENTRIES_MIN 8
#define ENTRIES_MAX (1 << 26)
#define ROUNDS_MAX 1000
// Keys looked up per measurement, as in `paceline bench table`.
#define LOOKUPS (8 << 20)

// Both are plain data of the sizes that Paceline's benchmark has.
struct key {
    uint64_t words[2];
};
struct state {
    uint64_t words[8];
} __rte_aligned(64);

// What a user of rte_hash may choose, all measured: the hash function, and the call.
enum hash { CRC, JHASH, HASHES };
enum call { BULK, BULK_DATA, WITH_HASH_BULK, CALLS };
static const char *const hash_names[] = {"crc", "jhash"};
static const char *const call_names[] = {"bulk", "bulk_data", "with_hash_bulk"};
static const uint32_t batches[] = {32, RTE_HASH_LOOKUP_BULK_MAX};
static const char *const operations[] = {"lookup", "lookup+touch"};

struct options {
    uint32_t entries[SIZES_MAX];
    unsigned sizes, load_percent, rounds;
    const char *json;
};

struct bench {
    struct rte_hash *table;
    struct state *states; // by position
    struct key *keys;     // in the order of look-ups
    uint32_t entries, keys_in_table;
    uint64_t touches; // of each state so far
    enum hash hash;
};

struct row {
    uint32_t entries, keys, batch;
    const char *operation, *hash, *call;
    double mops;
};

__rte_noreturn __rte_format_printf(1, 2) static void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("rte_hash: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

// --- the measurement -------------------------------------------------------------------------

static inline uint32_t hash_of(enum hash hash, const struct key *key)
{
    return hash == CRC ? rte_hash_crc(key, sizeof *key, 0) : rte_jhash(key, sizeof *key, 0);
}

// Paceline's benchmark adds one to all eight words, too.
static inline void touch(struct state *state)
{
    for (unsigned i = 0; i < RTE_DIM(state->words); i++)
        state->words[i]++;
}

static inline void lookup_positions(const struct bench *b, const void **keys, uint32_t n, bool with_hash,
                                    bool touched)
{
    int32_t positions[RTE_HASH_LOOKUP_BULK_MAX];
    if (with_hash) {
        // The function is known when this is compiled, so it is inlined; rte_hash calls a pointer.
        hash_sig_t hashes[RTE_HASH_LOOKUP_BULK_MAX];
        for (uint32_t i = 0; i < n; i++)
            hashes[i] = hash_of(b->hash, keys[i]);
        rte_hash_lookup_with_hash_bulk(b->table, keys, hashes, n, positions);
    } else {
        rte_hash_lookup_bulk(b->table, keys, n, positions);
    }
    if (!touched)
        return;
    for (uint32_t i = 0; i < n; i++)
        if (positions[i] >= 0)
            rte_prefetch0(&b->states[positions[i]]);
    for (uint32_t i = 0; i < n; i++)
        if (positions[i] >= 0)
            touch(&b->states[positions[i]]);
}

static inline void lookup_data(const struct bench *b, const void **keys, uint32_t n, bool touched)
{
    void *data[RTE_HASH_LOOKUP_BULK_MAX];
    uint64_t hits = 0;
    rte_hash_lookup_bulk_data(b->table, keys, n, &hits, data);
    if (!touched)
        return;
    for (uint32_t i = 0; i < n; i++)
        if (hits >> i & 1)
            rte_prefetch0(data[i]);
    for (uint32_t i = 0; i < n; i++)
        if (hits >> i & 1)
            touch(data[i]);
}

static void look_all_up(const struct bench *b, enum call call, uint32_t batch, bool touched)
{
    const void *keys[RTE_HASH_LOOKUP_BULK_MAX];
    for (uint32_t from = 0; from < b->keys_in_table; from += batch) {
        uint32_t n = RTE_MIN(batch, b->keys_in_table - from);
        for (uint32_t i = 0; i < n; i++)
            keys[i] = &b->keys[from + i];
        if (call == BULK_DATA)
            lookup_data(b, keys, n, touched);
        else
            lookup_positions(b, keys, n, call == WITH_HASH_BULK, touched);
    }
}

static double now_s(void)
{
    struct timespec t;
    if (clock_gettime(CLOCK_MONOTONIC, &t) != 0)
        fail("no monotonic clock: %s", strerror(errno));
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

// Every state of a key must have been touched as often as each key was looked up: a key that was
// missed or taken twice would show. Words of states without a key stay 0.
static void check_touched(const struct bench *b, uint64_t times)
{
    uint32_t right = 0;
    for (uint32_t i = 0; i < b->entries; i++)
        right += b->states[i].words[0] == times && b->states[i].words[7] == times;
    if (right != b->keys_in_table)
        fail("a defect of this benchmark: %" PRIu32 " states of %" PRIu32 " were touched %" PRIu64 " times", right,
             b->keys_in_table, times);
}

// Million look-ups per second.
static double measure(struct bench *b, enum call call, uint32_t batch, bool touched)
{
    uint32_t repeats = RTE_MAX(LOOKUPS / b->keys_in_table, 1u);
    double begin = now_s();
    for (uint32_t i = 0; i < repeats; i++)
        look_all_up(b, call, batch, touched);
    double seconds = now_s() - begin;
    if (touched)
        check_touched(b, b->touches += repeats);
    return (double)b->keys_in_table * repeats / seconds / 1e6;
}

// --- tables ----------------------------------------------------------------------------------

static uint64_t splitmix64(uint64_t x)
{
    x += 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

// Random keys, as many as the load says, or as fit if the table is full before that.
static void fill(struct bench *b, uint32_t wanted)
{
    for (b->keys_in_table = 0; b->keys_in_table < wanted; b->keys_in_table++) {
        uint64_t n = b->keys_in_table;
        struct key key = {{splitmix64(2 * n), splitmix64(2 * n + 1)}};
        int32_t position = rte_hash_add_key(b->table, &key);
        if (position == -ENOSPC)
            break;
        if (position < 0)
            fail("key %" PRIu64 " was not inserted: %s", n, strerror(-position));
        if (rte_hash_add_key_data(b->table, &key, &b->states[position]) != 0)
            fail("key %" PRIu64 " got no data", n);
        b->keys[n] = key;
    }
    if (b->keys_in_table == 0)
        fail("nothing fits in the table");
    // The order of look-ups is that of neither insertion nor memory.
    for (uint32_t i = b->keys_in_table - 1; i > 0; i--) {
        uint32_t j = splitmix64(~(uint64_t)i) % (i + 1);
        struct key swapped = b->keys[i];
        b->keys[i] = b->keys[j];
        b->keys[j] = swapped;
    }
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// One table, all its figures.
static unsigned measure_table(uint32_t entries, enum hash hash, const struct options *options, int socket,
                              struct row *rows)
{
    struct rte_hash_parameters parameters = {
        .name = "peers",
        .entries = entries,
        .key_len = sizeof(struct key),
        .hash_func = hash == CRC ? rte_hash_crc : rte_jhash,
        .socket_id = socket,
    };
    struct bench b = {.entries = entries, .hash = hash};
    uint32_t wanted = RTE_MAX((uint64_t)entries * options->load_percent / 100, 1u);
    b.table = rte_hash_create(&parameters);
    if (b.table == NULL)
        fail("no table of %" PRIu32 " entries: %s", entries, rte_strerror(rte_errno));
    b.states = rte_zmalloc_socket("states", (size_t)entries * sizeof *b.states, sizeof *b.states, socket);
    b.keys = malloc((size_t)entries * sizeof *b.keys);
    if (b.states == NULL || b.keys == NULL)
        fail("no memory for %" PRIu32 " states and keys", entries);
    fill(&b, wanted);

    unsigned figures = 0;
    for (unsigned at = 0; at < RTE_DIM(batches) * RTE_DIM(operations) * CALLS; at++) {
        enum call call = at % CALLS;
        bool touched = at / CALLS % RTE_DIM(operations);
        uint32_t batch = batches[at / CALLS / RTE_DIM(operations)];
        double mops[ROUNDS_MAX];
        for (unsigned round = 0; round < options->rounds; round++)
            mops[round] = measure(&b, call, batch, touched);
        qsort(mops, options->rounds, sizeof *mops, compare_doubles);
        rows[figures++] = (struct row){entries, b.keys_in_table, batch, operations[touched],
                                       hash_names[hash], call_names[call], mops[options->rounds / 2]};
    }
    free(b.keys);
    rte_free(b.states);
    rte_hash_free(b.table);
    return figures;
}

// --- memory ----------------------------------------------------------------------------------

// What rte_hash and the states take: per entry 8 bytes of bucket, a key slot of 32, at most 8 in the
// ring of free slots, and the state; buckets and ring are rounded up to powers of two.
static size_t heap_bytes(const struct options *options)
{
    size_t most = 0;
    for (unsigned i = 0; i < options->sizes; i++)
        most = RTE_MAX(most, (size_t)options->entries[i]);
    size_t bytes = rte_align64pow2(most + 1) * (8 + 8) + (most + 1) * (32 + sizeof(struct state));
    return RTE_ALIGN_CEIL(bytes + (32 << 20), HUGE_PAGE_BYTES);
}

// Memory on transparent huge pages, the kind that Paceline's table has, as a heap of DPDK's.
// DPDK's own memory would be huge pages that an administrator has reserved.
static int make_heap(size_t bytes, void **heap)
{
    void *memory = mmap(NULL, bytes + HUGE_PAGE_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        fail("no memory for tables of %zu MiB: %s", bytes >> 20, strerror(errno));
    *heap = RTE_PTR_ALIGN_CEIL(memory, HUGE_PAGE_BYTES);
    if (madvise(*heap, bytes, MADV_HUGEPAGE) != 0)
        fprintf(stderr, "rte_hash: no transparent huge pages: %s\n", strerror(errno));
    if (rte_malloc_heap_create(HEAP) != 0 ||
        rte_malloc_heap_memory_add(HEAP, *heap, bytes, NULL, bytes / HUGE_PAGE_BYTES, HUGE_PAGE_BYTES) != 0)
        fail("DPDK takes no memory of ours: %s", rte_strerror(rte_errno));
    int socket = rte_malloc_heap_get_socket(HEAP);
    if (socket < 0)
        fail("DPDK does not find our memory: %s", rte_strerror(rte_errno));
    return socket;
}

// How much of the heap is in memory, and how much of that on huge pages, KiB.
static void backing(const void *heap, size_t bytes, size_t *resident_kib, size_t *huge_kib)
{
    FILE *maps = fopen("/proc/self/smaps", "r");
    char line[512];
    bool inside = false;
    uintptr_t from, to;
    size_t kib;
    *resident_kib = *huge_kib = 0;
    if (maps == NULL)
        fail("/proc/self/smaps: %s", strerror(errno));
    while (fgets(line, sizeof line, maps) != NULL) {
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &from, &to) == 2)
            inside = from < (uintptr_t)heap + bytes && to > (uintptr_t)heap;
        else if (inside && sscanf(line, "Rss: %zu kB", &kib) == 1)
            *resident_kib += kib;
        else if (inside && sscanf(line, "AnonHugePages: %zu kB", &kib) == 1)
            *huge_kib += kib;
    }
    fclose(maps);
}

// DPDK without devices, files and helper threads that count, on the processor we are pinned to.
static void start_dpdk(void)
{
    cpu_set_t allowed;
    char core[32];
    int cpu = 0;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        fail("the processors of this process: %s", strerror(errno));
    while (!CPU_ISSET(cpu, &allowed))
        cpu++;
    snprintf(core, sizeof core, "--lcores=0@%d", cpu);
    char *arguments[] = {"rte_hash", core, "--no-huge", "--no-shconf", "--no-pci", "--no-telemetry",
                         "--log-level=error"};
    if (rte_eal_init(RTE_DIM(arguments), arguments) < 0)
        fail("DPDK does not start, see above: %s", rte_strerror(rte_errno));
}

// --- output ----------------------------------------------------------------------------------

static void write_json(FILE *out, const struct row *rows, unsigned count, size_t resident_kib, size_t huge_kib)
{
    fprintf(out, "{\n  \"peer\": \"rte_hash\",\n  \"version\": \"%s\",\n", rte_version());
    fprintf(out, "  \"key_bytes\": %zu,\n  \"state_bytes\": %zu,\n", sizeof(struct key), sizeof(struct state));
    fprintf(out, "  \"resident_kib\": %zu,\n  \"huge_pages_kib\": %zu,\n  \"rows\": [", resident_kib, huge_kib);
    for (unsigned i = 0; i < count; i++)
        fprintf(out,
                "%s\n    {\n      \"entries\": %" PRIu32 ",\n      \"keys\": %" PRIu32 ",\n      \"batch\": %" PRIu32
                ",\n      \"operation\": \"%s\",\n      \"hash\": \"%s\",\n      \"call\": \"%s\",\n"
                "      \"mops\": %.6f\n    }",
                i ? "," : "", rows[i].entries, rows[i].keys, rows[i].batch, rows[i].operation, rows[i].hash,
                rows[i].call, rows[i].mops);
    fputs("\n  ]\n}\n", out);
}

static void write_table(const struct row *rows, unsigned count, size_t resident_kib, size_t huge_kib)
{
    printf("rte_hash of %s, %zu byte keys, %zu bytes of state, random order (measured)\n", rte_version(),
           sizeof(struct key), sizeof(struct state));
    printf("memory: %zu MiB, %zu MiB of it on transparent huge pages\n\n", resident_kib >> 10, huge_kib >> 10);
    printf("    entries |       keys | batch |    operation |  hash |           call | million/s\n");
    printf(" -----------+------------+-------+--------------+-------+----------------+-----------\n");
    for (unsigned i = 0; i < count; i++)
        printf(" %10" PRIu32 " | %10" PRIu32 " | %5" PRIu32 " | %12s | %5s | %14s | %9.1f\n", rows[i].entries,
               rows[i].keys, rows[i].batch, rows[i].operation, rows[i].hash, rows[i].call, rows[i].mops);
}

// --- options ---------------------------------------------------------------------------------

static const char usage[] =
    "usage: rte_hash [--entries N,...] [--load PERCENT] [--rounds N] [--json FILE]\n"
    "  --entries N,...   sizes of the table, 8 to 67108864 [131072,1048576,4194304]\n"
    "  --load PERCENT    how full the table is, of its entries, 1 to 100 [98]\n"
    "  --rounds N        rounds of which the median is shown, 1 to 1000 [3]\n"
    "  --json FILE       write the figures as JSON; - is standard output, which then carries nothing else\n";

static unsigned number(const char *option, const char *text, unsigned least, unsigned most)
{
    char *end;
    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || errno != 0 || value < least || value > most)
        fail("%s: '%s' is not a number from %u to %u", option, text, least, most);
    return (unsigned)value;
}

static struct options parse(int argc, char **argv)
{
    static const struct option known[] = {
        {"entries", required_argument, NULL, 'e'}, {"load", required_argument, NULL, 'l'},
        {"rounds", required_argument, NULL, 'r'},  {"json", required_argument, NULL, 'j'},
        {"help", no_argument, NULL, 'h'},          {NULL, 0, NULL, 0},
    };
    struct options options = {{131072, 1048576, 4194304}, 3, 98, 3, NULL};
    int option;
    while ((option = getopt_long(argc, argv, "h", known, NULL)) != -1) {
        switch (option) {
        case 'e':
            options.sizes = 0;
            for (char *rest = optarg, *size; (size = strsep(&rest, ",")) != NULL;) {
                if (options.sizes == SIZES_MAX)
                    fail("--entries: more than %d sizes", SIZES_MAX);
                options.entries[options.sizes++] = number("--entries", size, ENTRIES_MIN, ENTRIES_MAX);
            }
            break;
        case 'l':
            options.load_percent = number("--load", optarg, 1, 100);
            break;
        case 'r':
            options.rounds = number("--rounds", optarg, 1, ROUNDS_MAX);
            break;
        case 'j':
            options.json = optarg;
            break;
        case 'h':
            fputs(usage, stdout);
            exit(0);
        default:
            fputs(usage, stderr);
            exit(2);
        }
    }
    if (optind < argc)
        fail("'%s': there are no arguments but options", argv[optind]);
    return options;
}

int main(int argc, char **argv)
{
    struct options options = parse(argc, argv);
    // Opened first, so that a wrong name does not cost a measurement.
    bool is_stdout = options.json != NULL && strcmp(options.json, "-") == 0;
    FILE *json = is_stdout ? stdout : NULL;
    if (options.json != NULL && !is_stdout && (json = fopen(options.json, "w")) == NULL)
        fail("--json %s: %s", options.json, strerror(errno));
    start_dpdk();

    size_t bytes = heap_bytes(&options), resident_kib, huge_kib;
    void *heap;
    int socket = make_heap(bytes, &heap);
    struct row rows[SIZES_MAX * HASHES * RTE_DIM(batches) * RTE_DIM(operations) * CALLS];
    unsigned count = 0;
    for (unsigned i = 0; i < options.sizes; i++)
        for (enum hash hash = CRC; hash < HASHES; hash++)
            count += measure_table(options.entries[i], hash, &options, socket, rows + count);
    backing(heap, bytes, &resident_kib, &huge_kib);

    if (json != NULL)
        write_json(json, rows, count, resident_kib, huge_kib);
    if (!is_stdout)
        write_table(rows, count, resident_kib, huge_kib);
    if (fflush(stdout) != 0 || ferror(stdout) || (json != NULL && !is_stdout && fclose(json) != 0))
        fail("the figures could not be written: %s", strerror(errno));
    return 0;
}

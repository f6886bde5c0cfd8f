/* SPDX-License-Identifier: MIT */
/*
 * deckle_scale: what grows with the number of CPUs.
 *
 * The real core, compiled so that every access to shared memory is seen, is used by up to 512 CPUs
 * that do not exist: one thread executes one operation after the other, each as one of them, chosen
 * at random. Counted is how often a cache line that one CPU has written is next used by another
 * (lines.h), per operation. That predicts no time: operations do not overlap, so nobody ever waits
 * or tries again. It shows what each operation has to fetch from elsewhere, and whether that grows.
 *
 * Shapes, each CPU with MIB_PER_CPU of memory:
 *   parallel    a frame allocated and freed, nothing outstanding; an operation is the pair
 *   batch       so many blocks one by one, then all freed in the same order; each call
 *   hand-off    CPU 2i allocates, CPU 2i + 1 frees what it gets, 64 behind; each call
 *   random      a random one of a CPU's 256 live blocks of orders 0-3 replaced; the two calls
 *   remote      the same, but each CPU replaces blocks of the tables of all; the two calls
 *
 * Whether something grows is judged by comparing the largest number of CPUs with GROWTH_FROM.
 */
#include <deckle.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lines.h"
#include "point.h"
#include "words.h"

#define MIB_PER_CPU    128u
#define FRAMES_PER_CPU (MIB_PER_CPU << 8)
#define LIVE           256u
#define BEHIND         64u
#define MOST_HELD      4096u
#define GROWTH_FROM    16u

/* ---- the machine ----------------------------------------------------------------------------- */

static struct scale_lines *lines;
static struct deckle *pool;
static unsigned running; /* the CPU that executes */
static uint64_t moves[SCALE_NR_WORDS], barriers;

void scale_point(const volatile void *p, enum scale_access access)
{
    if (lines != NULL && scale_lines_use(lines, p, running, access != SCALE_LOAD))
        moves[scale_word_of(pool, p)]++;
}

uint32_t dk_sim_cpu_id(void);
uint32_t dk_sim_rseq_begin(void);
void dk_sim_rseq_end(void);
bool dk_sim_rseq_commit(_Atomic uint64_t *head, uint64_t value);

uint32_t dk_sim_cpu_id(void)
{
    return running;
}

uint32_t dk_sim_rseq_begin(void)
{
    return running;
}

void dk_sim_rseq_end(void)
{
}

bool dk_sim_rseq_commit(_Atomic uint64_t *head, uint64_t value)
{
    scale_point(head, SCALE_STORE);
    atomic_store_explicit(head, value, memory_order_relaxed);
    return true;
}

static uint32_t cpu_hook(void *ctx)
{
    (void)ctx;
    return running;
}

static int membarrier_hook(void *ctx)
{
    (void)ctx;
    barriers++;
    return 0;
}

static void bad_hook(void *ctx, const struct deckle_bad_report *report)
{
    (void)ctx;
    fprintf(stderr, "deckle_scale: %s, frame %" PRIu64 "\n", deckle_bad_name(report->what),
            report->pfn);
    exit(1);
}

/* ---- a pool ---------------------------------------------------------------------------------- */

static void *metadata;

static void fail(const char *what, int64_t error)
{
    fprintf(stderr, "deckle_scale: %s: %s\n", what, deckle_strerror((int)error));
    exit(1);
}

static void make_pool(unsigned cpus, uint32_t features)
{
    struct deckle_range range = {.pfn = 1 << 20, .nr = (uint64_t)cpus * FRAMES_PER_CPU};
    struct deckle_config cfg = {.size = sizeof(cfg),
                                .features = features,
                                .nr_cpus = cpus,
                                .ranges = &range,
                                .nr_ranges = 1,
                                .dma_limit_pfn = UINT64_MAX,
                                .dma32_limit_pfn = UINT64_MAX};
    struct deckle_host host = {.size = sizeof(host),
                               .cpu = cpu_hook,
                               .membarrier = membarrier_hook,
                               .bad = bad_hook,
                               .rseq_offset = 64,
                               .rseq_usable = 1};
    size_t size = (deckle_metadata_size(&cfg) + 63) / 64 * 64;
    int error;

    metadata = aligned_alloc(64, size);
    if (metadata == NULL) {
        fprintf(stderr, "deckle_scale: no memory for %zu bytes of metadata\n", size);
        exit(3);
    }
    memset(metadata, 0, size);
    error = deckle_init(metadata, size, &cfg, &host, &pool);
    if (error == DECKLE_OK)
        error = deckle_add_range(pool, &range);
    if (error == DECKLE_OK)
        error = deckle_online(pool);
    if (error != DECKLE_OK)
        fail("the pool", error);
    lines = scale_lines_make(metadata, size);
    if (lines == NULL) {
        fprintf(stderr, "deckle_scale: no memory for the table of lines\n");
        exit(3);
    }
}

static void drop_pool(void)
{
    scale_lines_free(lines);
    lines = NULL;
    free(metadata);
    pool = NULL;
}

/* ---- shapes ---------------------------------------------------------------------------------- */

struct block {
    uint64_t pfn;
    uint32_t order;
};

/* What one CPU holds; a queue for the shapes that need order. */
struct cpu {
    struct block held[MOST_HELD];
    unsigned first, nr; /* of a queue: held[first % MOST_HELD] is the oldest */
    bool frees;         /* batch: the half that is under way */
};

static struct cpu *cpus;
static uint64_t random_state;

static uint32_t below(uint32_t n)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)((random_state >> 32) * n >> 32);
}

static struct block take(uint32_t order)
{
    int64_t pfn = deckle_alloc(pool, DECKLE_GFP_KERNEL, order);

    if (pfn < 0)
        fail("an allocation", pfn);
    return (struct block){(uint64_t)pfn, order};
}

static void give(struct block b)
{
    int error = deckle_free(pool, b.pfn, b.order);

    if (error != DECKLE_OK)
        fail("a free", error);
}

static void enqueue(struct cpu *c, struct block b)
{
    c->held[(c->first + c->nr++) % MOST_HELD] = b;
}

static struct block dequeue(struct cpu *c)
{
    c->nr--;
    return c->held[c->first++ % MOST_HELD];
}

static void op_parallel(unsigned cpu, unsigned nr_cpus, const unsigned *argument)
{
    (void)cpu;
    (void)nr_cpus;
    give(take(argument[0]));
}

/* argument: order, blocks. */
static void op_batch(unsigned cpu, unsigned nr_cpus, const unsigned *argument)
{
    struct cpu *c = &cpus[cpu];

    (void)nr_cpus;
    if (c->frees)
        give(dequeue(c));
    else
        enqueue(c, take(argument[0]));
    if (c->nr == (c->frees ? 0 : argument[1]))
        c->frees = !c->frees;
}

/* The queue is kept by the CPU that allocates. One that is far ahead or behind lets the other go.
 */
static void op_handoff(unsigned cpu, unsigned nr_cpus, const unsigned *argument)
{
    struct cpu *c = &cpus[cpu & ~1u];
    bool allocates = c->nr < BEHIND || (cpu % 2 == 0 && c->nr < 2 * BEHIND);

    (void)nr_cpus;
    running = allocates ? cpu & ~1u : cpu | 1u;
    if (allocates)
        enqueue(c, take(argument[0]));
    else
        give(dequeue(c));
}

static void replace(struct cpu *table)
{
    struct block *b = &table->held[below(LIVE)];

    if (table->nr < LIVE) {
        table->held[table->nr++] = take(below(4));
        return;
    }
    give(*b);
    *b = take(below(4));
}

static void op_random(unsigned cpu, unsigned nr_cpus, const unsigned *argument)
{
    (void)nr_cpus;
    (void)argument;
    replace(&cpus[cpu]);
}

static void op_remote(unsigned cpu, unsigned nr_cpus, const unsigned *argument)
{
    (void)cpu;
    (void)argument;
    replace(&cpus[below(nr_cpus)]);
}

struct shape {
    const char *name, *key;
    void (*op)(unsigned cpu, unsigned nr_cpus, const unsigned *argument);
    unsigned argument[2];
    unsigned warm, ops; /* per CPU */
    double most;        /* moves per operation that --check allows, at any number of CPUs */
    bool may_grow;      /* the shape itself mixes what all CPUs have */
};

static const struct shape shapes[] = {
    {"parallel, order 0", "parallel0", op_parallel, {0, 0}, 64, 256, 0.001, false},
    {"parallel, order 9", "parallel9", op_parallel, {9, 0}, 64, 256, 0.001, false},
    {"batch 1024, order 0", "batch0", op_batch, {0, 1024}, 8192, 4096, 0.075, false},
    {"batch 128, order 3", "batch3", op_batch, {3, 128}, 4096, 2048, 2.5, false},
    {"batch 16, order 9", "batch9", op_batch, {9, 16}, 2048, 1024, 3, false},
    {"hand-off, order 0", "handoff0", op_handoff, {0, 0}, 4096, 4096, 0.1, false},
    {"hand-off, order 3", "handoff3", op_handoff, {3, 0}, 4096, 4096, 3.5, false},
    {"random", "random", op_random, {0, 0}, 2048, 1024, 1.3, false},
    {"remote", "remote", op_remote, {0, 0}, 2048, 1024, 2.75, true},
};

#define NR_SHAPES (sizeof(shapes) / sizeof(shapes[0]))

/* ---- measuring ------------------------------------------------------------------------------- */

struct figure {
    double moves[SCALE_NR_WORDS], all, barriers; /* per operation */
    double hottest;                              /* moves of the line that moves most */
    enum scale_word hottest_word;
};

/* effort: percent of the operations. */
static struct figure measure(const struct shape *shape, unsigned nr_cpus, uint32_t features,
                             unsigned effort)
{
    uint64_t warm = (uint64_t)shape->warm * nr_cpus, ops = (uint64_t)shape->ops * nr_cpus;
    struct figure figure = {.all = 0};
    const void *hottest;
    uint64_t most;

    ops = ops * effort / 100;
    random_state = UINT64_C(0x9e3779b97f4a7c15);
    cpus = calloc(nr_cpus, sizeof(*cpus));
    if (cpus == NULL) {
        fprintf(stderr, "deckle_scale: no memory for %u CPUs\n", nr_cpus);
        exit(3);
    }
    make_pool(nr_cpus, features);
    for (uint64_t i = 0; i < warm + ops; i++) {
        if (i == warm) {
            memset(moves, 0, sizeof(moves));
            scale_lines_reset(lines);
            barriers = 0;
        }
        running = below(nr_cpus);
        shape->op(running, nr_cpus, shape->argument);
    }
    for (unsigned word = 0; word < SCALE_NR_WORDS; word++) {
        figure.moves[word] = (double)moves[word] / (double)ops;
        figure.all += figure.moves[word];
    }
    figure.barriers = (double)barriers / (double)ops;
    hottest = scale_lines_hottest(lines, &most);
    figure.hottest = (double)most / (double)ops;
    figure.hottest_word = scale_word_of(pool, hottest);
    drop_pool();
    free(cpus);
    return figure;
}

struct run {
    const char *kind;
    uint32_t features;
    unsigned nr; /* numbers of CPUs */
    unsigned cpus[16];
    struct figure figures[NR_SHAPES][16];
};

static void print_table(const struct run *run)
{
    printf("\nLines moved between CPUs per operation, %s caches\n%20s", run->kind, "");
    for (unsigned i = 0; i < run->nr; i++)
        printf(" %7u", run->cpus[i]);
    printf("  CPUs\n");
    for (unsigned s = 0; s < NR_SHAPES; s++) {
        printf("%-20s", shapes[s].name);
        for (unsigned i = 0; i < run->nr; i++)
            printf(" %7.4f", run->figures[s][i].all);
        printf("\n");
    }
}

/* The word that moves most, next, … at the largest number of CPUs; what it was at GROWTH_FROM. */
static void print_words(const struct run *run, unsigned s, unsigned from)
{
    const struct figure *last = &run->figures[s][run->nr - 1], *base = &run->figures[s][from];
    bool printed[SCALE_NR_WORDS] = {false};

    printf("%-20s", shapes[s].name);
    for (unsigned n = 0; n < 4; n++) {
        unsigned most = SCALE_NR_WORDS;

        for (unsigned word = 0; word < SCALE_NR_WORDS; word++)
            if (!printed[word] && (most == SCALE_NR_WORDS || last->moves[word] > last->moves[most]))
                most = word;
        printed[most] = true;
        if (last->moves[most] < 0.0005)
            break;
        printf("%s%s %.4f (%.4f)", n > 0 ? "; " : " ", scale_word_name((enum scale_word)most),
               last->moves[most], base->moves[most]);
    }
    if (last->barriers > 0)
        printf("; membarriers %.5f", last->barriers);
    printf("\n");
}

/* One line that all CPUs need bounds what they can do together, however many they are. */
static void print_hottest(const struct run *run)
{
    printf("\nThe line that moves most, %s caches: moves per operation with %u CPUs\n", run->kind,
           run->cpus[run->nr - 1]);
    for (unsigned s = 0; s < NR_SHAPES; s++) {
        const struct figure *last = &run->figures[s][run->nr - 1];

        if (last->hottest > 0)
            printf("%-20s %.5f, %s\n", shapes[s].name, last->hottest,
                   scale_word_name(last->hottest_word));
    }
}

static void print_growth(const struct run *run)
{
    unsigned from = 0, grown = 0;

    while (from + 1 < run->nr && run->cpus[from] < GROWTH_FROM)
        from++;
    printf("\nWhat moves with %u CPUs (with %u), %s caches\n", run->cpus[run->nr - 1],
           run->cpus[from], run->kind);
    for (unsigned s = 0; s < NR_SHAPES; s++)
        print_words(run, s, from);
    for (unsigned s = 0; s < NR_SHAPES; s++) {
        double last = run->figures[s][run->nr - 1].all, base = run->figures[s][from].all;

        if (shapes[s].may_grow || last <= 1.25 * base + 0.002)
            continue;
        printf("%s grows: %.4f moves with %u CPUs, %.4f with %u\n", shapes[s].name, base,
               run->cpus[from], last, run->cpus[run->nr - 1]);
        grown++;
    }
    if (grown == 0)
        printf("nothing grows by more than a quarter\n");
}

/* ---- as a test ------------------------------------------------------------------------------- */

static bool exceeds(const struct run *run)
{
    bool bad = false;

    for (unsigned s = 0; s < NR_SHAPES; s++) {
        for (unsigned i = 0; i < run->nr; i++) {
            if (run->figures[s][i].all <= shapes[s].most)
                continue;
            printf("%s, %u CPUs, %s caches: %.4f moves per operation, allowed are %.4f\n",
                   shapes[s].name, run->cpus[i], run->kind, run->figures[s][i].all, shapes[s].most);
            bad = true;
        }
    }
    return bad;
}

/* Do moves mean what lines.h says? */
static bool counts_moves(void)
{
    static const struct {
        unsigned cpu;
        bool writes, moves;
    } uses[] = {
        {3, false, false}, /* nobody has written */
        {0, true, false},   {0, false, false}, {1, false, true}, {1, false, false},
        {511, false, true}, {1, true, false}, /* has seen what 0 wrote */
        {0, false, true},   {1, true, false},  {0, true, true},  {511, false, true},
    };
    static _Alignas(SCALE_LINE_BYTES) char area[2 * SCALE_LINE_BYTES];
    struct scale_lines *two = scale_lines_make(area, sizeof(area));
    bool good = two != NULL && !scale_lines_use(two, area + sizeof(area), 1, true);
    uint64_t moved = 0, most = 0;

    for (unsigned i = 0; good && i < sizeof(uses) / sizeof(uses[0]); i++) {
        const char *p = area + SCALE_LINE_BYTES + i;

        good = scale_lines_use(two, p, uses[i].cpu, uses[i].writes) == uses[i].moves;
        moved += uses[i].moves;
    }
    good = good && scale_lines_hottest(two, &most) == area + SCALE_LINE_BYTES && most == moved;
    scale_lines_free(two);
    if (!good)
        printf("moves are not counted as they should be\n");
    return good;
}

/* ---- the program ----------------------------------------------------------------------------- */

static bool write_data(const char *path, const struct run *runs, unsigned nr_runs)
{
    FILE *to = fopen(path, "w");

    if (to == NULL) {
        fprintf(stderr, "deckle_scale: cannot write \"%s\": %s\n", path, strerror(errno));
        return false;
    }
    for (unsigned r = 0; r < nr_runs; r++) {
        fprintf(to, "# %s\ncpus", runs[r].kind);
        for (unsigned s = 0; s < NR_SHAPES; s++)
            fprintf(to, " %s", shapes[s].key);
        for (unsigned i = 0; i < runs[r].nr; i++) {
            fprintf(to, "\n%u", runs[r].cpus[i]);
            for (unsigned s = 0; s < NR_SHAPES; s++)
                fprintf(to, " %.5f", runs[r].figures[s][i].all);
        }
        fprintf(to, "\n\n\n");
    }
    return fclose(to) == 0;
}

int main(int argc, char **argv)
{
    static struct run runs[2] = {{.kind = "rseq"},
                                 {.kind = "cell", .features = DECKLE_FEATURE_CELLS}};
    static const struct option options[] = {
        {"most", required_argument, NULL, 'm'}, {"effort", required_argument, NULL, 'e'},
        {"data", required_argument, NULL, 'd'}, {"check", no_argument, NULL, 'c'},
        {"help", no_argument, NULL, 'h'},       {NULL, 0, NULL, 0}};
    unsigned long most = SCALE_CPUS, effort = 100;
    const char *data = NULL;
    bool check = false;
    int option, status = 0;

    while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        if (option == 'm')
            most = strtoul(optarg, NULL, 10);
        else if (option == 'e')
            effort = strtoul(optarg, NULL, 10);
        else if (option == 'd')
            data = optarg;
        else if (option == 'c')
            check = true;
        else {
            printf("Usage: deckle_scale [--most CPUS] [--effort PERCENT] [--data FILE] [--check]\n"
                   "How often cache lines move between 2 to CPUS (at most 512) CPUs, per "
                   "operation.\n"
                   "--check: status 1 if more lines move than the table of shapes allows.\n");
            return option == 'h' ? 0 : 2;
        }
    }
    if (most < 2 || most > SCALE_CPUS || effort < 1 || effort > 1000 || optind != argc) {
        fprintf(stderr, "deckle_scale: want --most 2 to %u, --effort 1 to 1000, no more\n",
                SCALE_CPUS);
        return 2;
    }
    if (check && !counts_moves())
        status = 1;
    for (unsigned r = 0; r < 2; r++) {
        for (unsigned n = 2; n <= most; n *= 2) {
            runs[r].cpus[runs[r].nr] = n;
            for (unsigned s = 0; s < NR_SHAPES; s++)
                runs[r].figures[s][runs[r].nr] =
                    measure(&shapes[s], n, runs[r].features, (unsigned)effort);
            runs[r].nr++;
        }
        print_table(&runs[r]);
        print_hottest(&runs[r]);
        print_growth(&runs[r]);
        fflush(stdout);
        if (check && exceeds(&runs[r]))
            status = 1;
    }
    if (data != NULL && !write_data(data, runs, 2))
        return 2;
    return status;
}

/* SPDX-License-Identifier: MIT */
/*
 * The texts against golden files (tests/golden/), which were compared by eye with those of a
 * Linux 6.18 machine; the JSON also against the grammar. DECKLE_UPDATE_GOLDEN=1 in the environment
 * writes the files anew: look at the difference before it is committed.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <ctype.h>
#include <cmocka.h>

#include "core/text.h"
#include "pool.h"
#include "testing.h"

/* ---- collecting and comparing --------------------------------------------------------------- */

struct text {
    char *bytes;
    size_t len, size;
    size_t largest; /* piece */
};

static void collect(void *ctx, const char *bytes, size_t len)
{
    struct text *t = ctx;

    if (t->len + len + 1 > t->size) {
        t->size = 2 * (t->len + len + 1);
        t->bytes = realloc(t->bytes, t->size);
        assert_non_null(t->bytes);
    }
    memcpy(t->bytes + t->len, bytes, len);
    t->len += len;
    t->bytes[t->len] = '\0';
    t->largest = len > t->largest ? len : t->largest;
}

static char *read_file(const char *path)
{
    struct text t = {0};
    char piece[4096];
    size_t n;
    FILE *f = fopen(path, "r");

    if (!f)
        fail_msg("%s cannot be read", path);
    while ((n = fread(piece, 1, sizeof(piece), f)) > 0)
        collect(&t, piece, n);
    fclose(f);
    assert_non_null(t.bytes);
    return t.bytes;
}

/* The first line that differs is worth more than two long strings. */
static void compare(const char *name, const char *want, const char *got)
{
    unsigned line = 1;
    size_t start = 0;

    for (size_t i = 0;; i++) {
        if (want[i] != got[i]) {
            fail_msg("%s, line %u: want \"%.*s\", got \"%.*s\"", name, line,
                     (int)strcspn(want + start, "\n"), want + start,
                     (int)strcspn(got + start, "\n"), got + start);
        }
        if (!want[i])
            return;
        if (want[i] == '\n') {
            line++;
            start = i + 1;
        }
    }
}

static void check_golden(const char *name, const char *got)
{
    char path[512];

    snprintf(path, sizeof(path), DECKLE_SOURCE_DIR "/tests/golden/%s", name);
    if (test_environment_number("DECKLE_UPDATE_GOLDEN", 0)) {
        FILE *f = fopen(path, "w");

        assert_non_null(f);
        fputs(got, f);
        fclose(f);
    }
    char *want = read_file(path);
    compare(name, want, got);
    free(want);
}

typedef void print_fn(const struct deckle *d, deckle_emit_fn emit, void *ctx);

static char *print(const struct deckle *d, print_fn *fn)
{
    struct text t = {0};

    fn(d, collect, &t);
    assert_non_null(t.bytes);
    assert_in_range(t.largest, 1, DK_TEXT_BUFFER);
    return t.bytes;
}

static void print_and_check(const struct deckle *d, print_fn *fn, const char *name)
{
    char *got = print(d, fn);

    check_golden(name, got);
    free(got);
}

/* ---- the pool ------------------------------------------------------------------------------- */

/* Node 0: DMA, DMA32, Normal; node 1: Normal with a CMA area, and Movable; node 2: nothing but a
 * CPU. */
static void open_pool(struct test_pool *pool)
{
    static const struct deckle_range ranges[] = {
        {.pfn = 1, .nr = 0x9e, .node = DECKLE_NODE(0)},
        {.pfn = 0x100, .nr = 0xf00, .node = DECKLE_NODE(0)},
        {.pfn = 0x1000, .nr = 0x6fe0, .node = DECKLE_NODE(0)},
        {.pfn = 0x100000, .nr = 0x10000, .node = DECKLE_NODE(0)},
        {.pfn = 0x110000, .nr = 0x8000, .node = DECKLE_NODE(1)},
        {.pfn = 0x118000, .nr = 0x0c00, .node = DECKLE_NODE(1), .flags = DECKLE_RANGE_CMA},
        {.pfn = 0x120000,
         .nr = 0x2000,
         .node = DECKLE_NODE(1),
         .zone = DECKLE_ZONE(DECKLE_ZONE_MOVABLE)},
    };
    static const uint8_t cpu_nodes[] = {0, 1, 2};
    static const uint8_t distances[] = {10, 20, 30, 20, 10, 20, 30, 20, 10};
    struct deckle_config cfg = {.size = sizeof(cfg),
                                .features = DECKLE_FEATURE_CELLS,
                                .nr_cpus = 3,
                                .nr_nodes = 3,
                                .ranges = ranges,
                                .nr_ranges = sizeof(ranges) / sizeof(ranges[0]),
                                .cpu_nodes = cpu_nodes,
                                .distances = distances};

    test_pool_open(pool, &cfg);
}

/* One of everything that a text shows, at given places, so that no choice of the allocator matters.
 */
static void use_pool(struct test_pool *pool)
{
    static const struct {
        uint64_t pfn;
        uint32_t order;
    } blocks[] = {
        {0x000011, 0}, {0x000400, 2}, {0x001000, 9}, {0x003008, 3},  {0x007f00, 4}, {0x100000, 0},
        {0x100001, 0}, {0x100010, 4}, {0x100300, 8}, {0x101000, 10}, {0x102200, 9}, {0x110040, 6},
        {0x117201, 0}, {0x118000, 5}, {0x120000, 0}, {0x120007, 0},
    };
    const uint32_t gfp = DECKLE_GFP_HIGHUSER_MOVABLE;
    struct deckle_request req = {
        .size = sizeof(req), .gfp = DECKLE_GFP_KERNEL, .order = 10, .node = DECKLE_NODE(1)};
    struct deckle *d = pool->d;

    for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++) {
        pool->cpu = i % 3;
        assert_int_equal(deckle_alloc_at(d, gfp, blocks[i].pfn, blocks[i].order), DECKLE_OK);
    }
    assert_int_equal(deckle_set_pageblock_type(d, 0x100400, DECKLE_HIGHATOMIC), DECKLE_OK);
    assert_int_equal(deckle_set_pageblock_type(d, 0x001000, DECKLE_UNMOVABLE), DECKLE_OK);
    assert_int_equal(deckle_set_pageblock_type(d, 0x110000, DECKLE_RECLAIMABLE), DECKLE_OK);
    assert_int_equal(deckle_set_pageblock_type(d, 0x117200, DECKLE_ISOLATE), DECKLE_OK);
    pool->cpu = 1;
    req.flags = DECKLE_REQ_INTERLEAVE;
    assert_true(deckle_alloc_request(d, &req) >= 0);
    /* Into the caches of CPU 0 and 2, and twice, which is refused. */
    pool->cpu = 0;
    assert_int_equal(deckle_free(d, 0x100000, 0), DECKLE_OK);
    assert_int_equal(deckle_free(d, 0x100000, 0), DECKLE_EBADFREE);
    pool->cpu = 2;
    assert_int_equal(deckle_free(d, 0x100010, 4), DECKLE_OK);
    assert_int_equal(deckle_free(d, 0x120007, 0), DECKLE_OK);
    req = (struct deckle_request){.size = sizeof(req),
                                  .gfp = DECKLE_GFP_KERNEL | DECKLE_GFP_DMA,
                                  .order = 10,
                                  .limit_pfn = 0x80};
    assert_int_equal(deckle_alloc_request(d, &req), DECKLE_ECONSTRAINED);
}

static void mask_number(char *at)
{
    size_t digits;

    at += strspn(at, " ");
    digits = strspn(at, "0123456789");
    assert_true(digits > 0);
    *at = '#';
    memmove(at + 1, at + digits, strlen(at + digits) + 1);
}

/* Replace the number behind each occurrence of key: sizes that are tuned are no part of a format.
 */
static void mask_numbers(char *text, const char *key)
{
    char *at = text;

    while ((at = strstr(at, key))) {
        at += strlen(key);
        mask_number(at);
    }
}

static void check_zoneinfo(const struct deckle *d, const char *name)
{
    char *got = print(d, deckle_print_zoneinfo);

    mask_numbers(got, "              high: ");
    check_golden(name, got);
    free(got);
}

static void test_proc_texts(void **state)
{
    struct test_pool pool;

    (void)state;
    open_pool(&pool);
    print_and_check(pool.d, deckle_print_buddyinfo, "buddyinfo-fresh");
    check_zoneinfo(pool.d, "zoneinfo-fresh");
    use_pool(&pool);
    print_and_check(pool.d, deckle_print_buddyinfo, "buddyinfo");
    print_and_check(pool.d, deckle_print_pagetypeinfo, "pagetypeinfo");
    check_zoneinfo(pool.d, "zoneinfo");
    print_and_check(pool.d, deckle_print_extfrag, "extfrag");
    test_pool_free(&pool);
}

/* Only orders 0 and 1 are free in the first zone, one piece in the second, nothing in the third. */
static void test_extfrag_extremes(void **state)
{
    static const struct deckle_range ranges[] = {
        {.pfn = 0x001, .nr = 0x3ff},
        {.pfn = 0x1000, .nr = 0x400},
        {.pfn = 0x100000, .nr = 0x400},
    };
    struct deckle_config cfg = {.size = sizeof(cfg),
                                .nr_cpus = 1,
                                .ranges = ranges,
                                .nr_ranges = 3,
                                .features = DECKLE_FEATURE_NO_CACHES,
                                .min_free_kbytes = UINT64_MAX};
    struct test_pool pool;

    (void)state;
    test_pool_open(&pool, &cfg);
    for (uint64_t pfn = 1; pfn < 0x400; pfn++)
        assert_int_equal(deckle_alloc_at(pool.d, DECKLE_GFP_KERNEL, pfn, 0), DECKLE_OK);
    for (uint64_t pfn = 1; pfn < 0x400; pfn++)
        if (pfn % 8 == 2 || pfn % 8 == 3 || pfn % 8 == 5)
            assert_int_equal(deckle_free(pool.d, pfn, 0), DECKLE_OK);
    assert_int_equal(deckle_alloc_at(pool.d, DECKLE_GFP_KERNEL, 0x1000, 9), DECKLE_OK);
    assert_int_equal(deckle_alloc_at(pool.d, DECKLE_GFP_KERNEL, 0x100000, 10), DECKLE_OK);
    print_and_check(pool.d, deckle_print_buddyinfo, "buddyinfo-extremes");
    print_and_check(pool.d, deckle_print_extfrag, "extfrag-extremes");
    test_pool_free(&pool);
}

/* Orders above 10, HighMem as a column, a pool without caches. */
static void test_other_shape(void **state)
{
    static const struct deckle_range ranges[] = {
        {.pfn = 0x2000, .nr = 0xa000},
        {.pfn = 0x100000, .nr = 0x2000, .zone = DECKLE_ZONE(DECKLE_ZONE_HIGHMEM)},
    };
    struct deckle_config cfg = {.size = sizeof(cfg),
                                .nr_cpus = 1,
                                .ranges = ranges,
                                .nr_ranges = 2,
                                .features = DECKLE_FEATURE_NO_CACHES | DECKLE_FEATURE_HIGHMEM,
                                .max_order = 13};
    struct test_pool pool;

    (void)state;
    test_pool_open(&pool, &cfg);
    assert_true(deckle_alloc(pool.d, DECKLE_GFP_KERNEL, 12) >= 0);
    print_and_check(pool.d, deckle_print_buddyinfo, "buddyinfo-order13");
    print_and_check(pool.d, deckle_print_pagetypeinfo, "pagetypeinfo-order13");
    check_zoneinfo(pool.d, "zoneinfo-order13");
    test_pool_free(&pool);
}

/* ---- JSON ----------------------------------------------------------------------------------- */

/* Where the value that begins at s ends, NULL if it is none. Depth bounds the recursion. */
static const char *skip_value(const char *s, unsigned depth);

static const char *skip_string(const char *s)
{
    if (*s++ != '"')
        return NULL;
    while (*s && *s != '"' && *s != '\\' && (unsigned char)*s >= 0x20)
        s++;
    return *s == '"' ? s + 1 : NULL;
}

static const char *skip_number(const char *s)
{
    s += *s == '-';
    if (!isdigit((unsigned char)*s) || (*s == '0' && isdigit((unsigned char)s[1])))
        return NULL;
    while (isdigit((unsigned char)*s))
        s++;
    if (*s != '.')
        return s;
    if (!isdigit((unsigned char)*++s))
        return NULL;
    while (isdigit((unsigned char)*s))
        s++;
    return s;
}

static const char *skip_group(const char *s, char close, unsigned depth)
{
    if (*s == close)
        return s + 1;
    for (;;) {
        if (close == '}') {
            s = skip_string(s);
            if (!s || *s++ != ':')
                return NULL;
        }
        s = skip_value(s, depth);
        if (!s || (*s != ',' && *s != close))
            return NULL;
        if (*s++ == close)
            return s;
    }
}

static const char *skip_value(const char *s, unsigned depth)
{
    if (depth > 8)
        return NULL;
    switch (*s) {
    case '{':
        return skip_group(s + 1, '}', depth + 1);
    case '[':
        return skip_group(s + 1, ']', depth + 1);
    case '"':
        return skip_string(s);
    default:
        return skip_number(s);
    }
}

static void test_grammar_check(void **state)
{
    static const char *const wrong[] = {"{",  "[1,]",  "{\"a\"}", "{a:1}",      "01", "-",
                                        "1.", "[1 2]", "\"x",     "{\"a\":1,}", ""};

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        const char *end = skip_value(wrong[i], 0);

        assert_true(!end || *end);
    }
    assert_string_equal(skip_value("{\"a\":[1,-2.500,\"x\"],\"b\":{},\"c\":[]}!", 0), "!");
}

/* One member a line, so that a difference can be read. */
static char *broken_lines(const char *json)
{
    struct text t = {0};

    for (const char *s = json; *s; s++) {
        collect(&t, s, 1);
        if (*s == ',' && s[1] == '"')
            collect(&t, "\n", 1);
    }
    return t.bytes;
}

static void test_json(void **state)
{
    struct test_pool pool;
    char *json, *lines;
    const char *end;
    char *at;

    (void)state;
    open_pool(&pool);
    use_pool(&pool);
    json = print(pool.d, deckle_print_json);
    end = skip_value(json, 0);
    if (!end || strcmp(end, "\n") != 0)
        fail_msg("not JSON from \"%.40s\" on", end ? end : json);
    mask_numbers(json, "\"library\":\"0.");
    mask_numbers(json, "\"metadata_bytes\":");
    mask_numbers(json, "\"remote_drains\":");
    for (at = json; (at = strstr(at, "\"count\":"));) {
        at = strstr(at, "\"high\":") + strlen("\"high\":");
        mask_number(at);
    }
    lines = broken_lines(json);
    check_golden("stat.json", lines);
    free(lines);
    free(json);
    test_pool_free(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_proc_texts),  cmocka_unit_test(test_extfrag_extremes),
        cmocka_unit_test(test_other_shape), cmocka_unit_test(test_grammar_check),
        cmocka_unit_test(test_json),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

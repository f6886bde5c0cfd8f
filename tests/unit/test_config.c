/* SPDX-License-Identifier: MIT */
/*
 * Configuration, the size of the metadata, and sizes in general: bounds of every field, arithmetic
 * at its edges, metadata that is what the size query says, and pools that are attached to.
 */
#include "guarded_check.h"
#include "testing.h"

#include "core/config.h"
#include "core/layout.h"
#include "core/setup.h"

static const struct deckle_range one = {.pfn = 1 << 20, .nr = 10000};

/* ---- every field --------------------------------------------------------------------------- */

struct bad_field {
    const char *names; /* what the reason must mention */
    size_t offset, size;
    uint64_t value;
    int error;
};

#define FIELD(name)                                                                                \
#name, offsetof(struct deckle_config, name), sizeof(((struct deckle_config *)0)->name)

static const struct bad_field bad_fields[] = {
    {FIELD(size), 0, DECKLE_EINVAL},
    {FIELD(size), sizeof(struct deckle_config) - 1, DECKLE_EINVAL},
    {FIELD(features), 1u << 6, DECKLE_EINVAL},
    {FIELD(page_shift), 9, DECKLE_EINVAL},
    {FIELD(page_shift), 31, DECKLE_EINVAL},
    {FIELD(max_order), 8, DECKLE_EINVAL},
    {FIELD(max_order), 19, DECKLE_EINVAL},
    {FIELD(nr_cpus), 0, DECKLE_EINVAL},
    {FIELD(nr_cpus), 4097, DECKLE_EINVAL},
    {FIELD(nr_nodes), 65, DECKLE_EINVAL},
    {FIELD(ranges), 0, DECKLE_EINVAL},
    {FIELD(nr_ranges), 0, DECKLE_EINVAL},
    {FIELD(nr_ranges), (1u << 20) + 1, DECKLE_E2BIG},
    {FIELD(grow_ranges), (1u << 20) + 1, DECKLE_E2BIG},
    {FIELD(grow_pages), UINT64_C(1) << 33, DECKLE_E2BIG},
    {FIELD(grow_pages), UINT64_MAX, DECKLE_E2BIG},
    {FIELD(dma32_limit_pfn), 1, DECKLE_EINVAL},
    {FIELD(min_free_kbytes), UINT64_C(1) << 54, DECKLE_EINVAL},
    {FIELD(watermark_scale_factor), 3001, DECKLE_EINVAL},
    {FIELD(pcp_capacity), 15, DECKLE_EINVAL},
    {FIELD(pcp_capacity), 4097, DECKLE_EINVAL},
};

static void set_field(struct deckle_config *cfg, const struct bad_field *f)
{
    uint32_t narrow = (uint32_t)f->value;

    if (f->size == sizeof(narrow))
        memcpy((char *)cfg + f->offset, &narrow, sizeof(narrow));
    else
        memcpy((char *)cfg + f->offset, &f->value, sizeof(f->value));
}

static void every_field_has_its_bounds(void **state)
{
    (void)state;
    for (unsigned i = 0; i < sizeof(bad_fields) / sizeof(bad_fields[0]); i++) {
        struct deckle_config cfg = plain_config(&one, 1);
        const char *reason = NULL;
        struct deckle *d = NULL;
        static _Alignas(64) unsigned char memory[4096];

        set_field(&cfg, &bad_fields[i]);
        assert_int_equal(deckle_config_check(&cfg, &reason), bad_fields[i].error);
        assert_non_null(reason);
        if (!strstr(reason, bad_fields[i].names))
            fail_msg("\"%s\" does not name %s", reason, bad_fields[i].names);
        assert_true(deckle_metadata_size(&cfg) == 0);
        assert_int_equal(deckle_init(memory, sizeof(memory), &cfg, NULL, &d), bad_fields[i].error);
        assert_null(d);
    }
    assert_int_equal(deckle_config_check(NULL, NULL), DECKLE_EINVAL);
    assert_true(deckle_metadata_size(NULL) == 0);
}

static void tables_are_checked(void **state)
{
    uint8_t distances[4] = {10, 20, 20, 10}, nodes[2] = {0, 1};
    struct deckle_config cfg = plain_config(&one, 1);
    (void)state;

    cfg.nr_nodes = 2;
    cfg.distances = distances;
    cfg.cpu_nodes = nodes;
    assert_int_equal(deckle_config_check(&cfg, NULL), DECKLE_OK);
    distances[1] = 9;
    assert_int_equal(deckle_config_check(&cfg, NULL), DECKLE_EINVAL);
    distances[1] = 20;
    distances[3] = 11;
    assert_int_equal(deckle_config_check(&cfg, NULL), DECKLE_EINVAL);
    distances[3] = 10;
    nodes[1] = 2;
    assert_int_equal(deckle_config_check(&cfg, NULL), DECKLE_EINVAL);
}

/* A program built with a later header may pass a longer struct, if it asks for nothing new. */
static void a_longer_configuration(void **state)
{
    struct {
        struct deckle_config cfg;
        uint64_t later;
    } longer = {.cfg = plain_config(&one, 1)};
    (void)state;

    longer.cfg.size = sizeof(longer);
    assert_int_equal(deckle_config_check(&longer.cfg, NULL), DECKLE_OK);
    longer.later = 1;
    assert_int_equal(deckle_config_check(&longer.cfg, NULL), DECKLE_EINVAL);
}

/* ---- 33 to 45: sizes ----------------------------------------------------------------------- */

static void h033_bytes_to_pages_never_wraps(void **state)
{
    struct guarded g;
    struct deckle_config cfg = plain_config(&one, 1);
    const uint64_t too_much[] = {UINT64_MAX,        UINT64_MAX - 4094, UINT64_MAX - 4096,
                                 UINT64_C(1) << 63, UINT64_C(1) << 44, (512u << 12) + 1};
    (void)state;

    guarded_open(&g, &cfg);
    for (unsigned i = 0; i < sizeof(too_much) / sizeof(too_much[0]); i++)
        assert_true(deckle_bytes_to_pages(g.d, too_much[i]) == 0);
    assert_true(deckle_bytes_to_pages(g.d, 0) == 0);
    assert_true(deckle_bytes_to_pages(g.d, 1) == 1);
    assert_true(deckle_bytes_to_pages(g.d, 4096) == 1);
    assert_true(deckle_bytes_to_pages(g.d, 4097) == 2);
    assert_true(deckle_bytes_to_pages(g.d, 512 << 12) == 512);
    guarded_close(&g);
}

static void h035_counts_are_compared_before_they_are_narrowed(void **state)
{
    struct guarded g;
    struct deckle_config cfg = plain_config(&one, 1);
    (void)state;

    guarded_open(&g, &cfg);
    for (unsigned bits = 9; bits < 64; bits++) {
        for (int delta = -1; delta <= 1; delta++) {
            uint64_t nr = (UINT64_C(1) << bits) + (uint64_t)(int64_t)delta;
            int order = deckle_order_for(g.d, nr);
            int64_t pfn = deckle_alloc_exact(g.d, DECKLE_GFP_KERNEL, nr);

            if (nr > 512) {
                assert_int_equal(order, DECKLE_E2BIG);
                assert_true(pfn == DECKLE_E2BIG);
                continue;
            }
            assert_int_equal(order, 9);
            assert_true(pfn >= 0);
            assert_int_equal(deckle_free_exact(g.d, (uint64_t)pfn, nr), DECKLE_OK);
        }
    }
    assert_int_equal(deckle_order_for(g.d, 0), DECKLE_EINVAL);
    assert_true(sum_free(g.d) == one.nr);
    guarded_close(&g);
}

static void h037_orders_are_checked_before_they_are_used(void **state)
{
    struct guarded g;
    struct deckle_config cfg = plain_config(&one, 1);
    (void)state;

    guarded_open(&g, &cfg);
    for (unsigned shift = 0; shift < 32; shift++) {
        uint32_t order = 10u << shift;
        if (order < 10)
            continue;
        assert_true(deckle_alloc(g.d, DECKLE_GFP_KERNEL, order) == DECKLE_E2BIG);
        assert_int_equal(deckle_free(g.d, one.pfn, order), DECKLE_E2BIG);
        assert_int_equal(deckle_alloc_at(g.d, DECKLE_GFP_KERNEL, one.pfn, order), DECKLE_E2BIG);
    }
    assert_true(deckle_alloc(g.d, DECKLE_GFP_KERNEL, UINT32_MAX) == DECKLE_E2BIG);
    assert_valid(g.d);
    guarded_close(&g);
}

static void h039_each_failure_has_its_own_error(void **state)
{
    struct guarded g;
    struct deckle_config cfg = plain_config(&one, 1);
    (void)state;

    guarded_open(&g, &cfg);
    while (deckle_alloc(g.d, DECKLE_GFP_KERNEL, 0) >= 0)
        ;
    assert_true(deckle_alloc(g.d, DECKLE_GFP_KERNEL, 0) == DECKLE_ENOMEM);
    assert_true(deckle_alloc(g.d, DECKLE_GFP_KERNEL, 10) == DECKLE_E2BIG);
    for (uint64_t f = 0; f < one.nr; f += 2)
        assert_int_equal(deckle_free(g.d, one.pfn + f, 0), DECKLE_OK);
    assert_true(deckle_alloc(g.d, DECKLE_GFP_KERNEL, 1) == DECKLE_EFRAGMENTED);
    assert_true(deckle_alloc(g.d, DECKLE_GFP_DMA, 0) == DECKLE_ENODEV);
    guarded_close(&g);
}

/* What is given out is as large as what was asked: nothing else overlaps it. */
static void h043_a_block_is_as_large_as_asked(void **state)
{
    static uint8_t seen[10000];
    struct guarded g;
    struct deckle_config cfg = plain_config(&one, 1);
    uint64_t random = test_seed();
    (void)state;

    guarded_open(&g, &cfg);
    for (;;) {
        uint64_t nr = 1 + test_random_below(&random, 512);
        int64_t pfn = deckle_alloc_exact(g.d, DECKLE_GFP_KERNEL, nr);
        if (pfn < 0)
            break;
        assert_in_range((uint64_t)pfn, one.pfn, one.pfn + one.nr - nr);
        for (uint64_t i = 0; i < nr; i++)
            assert_int_equal(seen[(uint64_t)pfn - one.pfn + i]++, 0);
    }
    guarded_close(&g);
}

static void sizes_for_small_machines(void **state)
{
    struct deckle_range r = {.pfn = 0, .nr = UINT64_C(1) << 22};
    struct deckle_config cfg = plain_config(&r, 1);
    const char *reason = NULL;
    (void)state;

    cfg.dma_limit_pfn = cfg.dma32_limit_pfn = UINT64_MAX;
    assert_int_equal(deckle_config_check(&cfg, NULL), DECKLE_OK);
    r.nr++;
    assert_int_equal(deckle_config_check(&cfg, &reason),
                     DK_WORD_BITS == 64 ? DECKLE_OK : DECKLE_E2BIG);
    r.nr = DK_MAX_FRAMES + 1;
    assert_int_equal(deckle_config_check(&cfg, &reason), DECKLE_E2BIG);
    assert_non_null(strstr(reason, "2^32"));

    /* Fits in 64 bits, but not in the addresses of a 32-bit machine. */
    struct deckle_range many[64];
    for (unsigned i = 0; i < 64; i++)
        many[i] = (struct deckle_range){.pfn = i << 10, .nr = 1, .node = DECKLE_NODE(i)};
    cfg = plain_config(many, 64);
    cfg.nr_nodes = 64;
    cfg.nr_cpus = DECKLE_MAX_CPUS;
    cfg.pcp_capacity = 4096;
    assert_int_equal(deckle_config_check(&cfg, &reason),
                     DK_WORD_BITS == 64 ? DECKLE_OK : DECKLE_E2BIG);
    if (DK_WORD_BITS == 32) {
        assert_non_null(strstr(reason, "address space"));
        assert_true(deckle_metadata_size(&cfg) == 0);
    }
}

/* ---- 61 to 67: metadata -------------------------------------------------------------------- */

/* Between pages without access, in memory of exactly the size that was asked for, every function
 * that writes metadata stays inside; the pools differ in all that decides the layout. */
static void h063_metadata_stays_in_its_memory(void **state)
{
    static uint8_t seen[3000];
    (void)state;

    for (unsigned i = 0; i < 64; i++) {
        struct deckle_range r = {.pfn = 77 * i, .nr = i < 8 ? i + 1 : 2900};
        struct deckle_config cfg = plain_config(&r, 1);
        struct guarded g;

        cfg.max_order = 9 + i % 10;
        cfg.nr_cpus = 1 + i % 5;
        cfg.page_shift = 10 + i % 21;
        cfg.pcp_capacity = i % 3 ? 16 : 700;
        cfg.features = (i & 4 ? DECKLE_FEATURE_DESCRIPTORS : 0) |
                       (i & 8 ? DECKLE_FEATURE_OWNER_TAGS : 0) |
                       (i & 16 ? DECKLE_FEATURE_NO_CACHES : 0);
        guarded_open(&g, &cfg);
        assert_true(allocate_all(g.d, r.pfn, seen, r.nr) == r.nr);
        for (uint64_t f = 0; f < r.nr; f++)
            assert_int_equal(deckle_free(g.d, r.pfn + f, 0), DECKLE_OK);
        assert_int_equal(deckle_drain_all(g.d), DECKLE_OK);
        assert_valid(g.d);
        assert_true(deckle_exit(g.d, NULL) == 0);
        guarded_close(&g);
    }
}

static void memory_too_small_or_misaligned_is_refused(void **state)
{
    struct deckle_config cfg = plain_config(&one, 1);
    struct guarded g;
    struct deckle *d = NULL;
    (void)state;

    guarded_map(&g, deckle_metadata_size(&cfg));
    assert_int_equal(deckle_init(g.memory, g.size - 1, &cfg, NULL, &d), DECKLE_ENOSPC);
    assert_int_equal(deckle_init(NULL, g.size, &cfg, NULL, &d), DECKLE_EINVAL);
    assert_int_equal(deckle_init(g.memory, g.size, &cfg, NULL, NULL), DECKLE_EINVAL);
    assert_int_equal(deckle_init(g.memory + 8, g.size, &cfg, NULL, &d), DECKLE_EINVAL);
    for (size_t i = 0; i < g.size; i++)
        assert_int_equal(g.memory[i], 0);
    assert_int_equal(deckle_init(g.memory, g.size, &cfg, NULL, &d), DECKLE_OK);
    guarded_close(&g);
}

static void a_host_of_another_size_is_refused(void **state)
{
    struct deckle_config cfg = plain_config(&one, 1);
    struct deckle_host host = {.size = 0};
    struct guarded g;
    struct deckle *d = NULL;
    (void)state;

    guarded_map(&g, deckle_metadata_size(&cfg));
    assert_int_equal(deckle_init(g.memory, g.size, &cfg, &host, &d), DECKLE_EINVAL);
    host.size = sizeof(host) + 8;
    assert_int_equal(deckle_init(g.memory, g.size, &cfg, &host, &d), DECKLE_EINVAL);
    host.size = offsetof(struct deckle_host, map); /* an older program */
    assert_int_equal(deckle_init(g.memory, g.size, &cfg, &host, &d), DECKLE_OK);
    guarded_close(&g);
}

/* 16 TiB of 4 KiB frames (where a pool can be that large): made, given memory, brought online and
 * used while hardly any of its metadata is touched. */
static void h133_a_giant_pool_is_made_in_an_instant(void **state)
{
    struct deckle_range r = {.pfn = 0, .nr = DK_MAX_FRAMES};
    struct deckle_config cfg = plain_config(&r, 1);
    struct guarded g;
    int64_t pfn;
    (void)state;

    cfg.min_free_kbytes = 0;
    cfg.max_order = 10;
    guarded_open(&g, &cfg);
    size_t touched = guarded_touched(&g);
    printf("metadata of 2^%u frames: %zu bytes, of which touched: %zu\n",
           DK_WORD_BITS == 64 ? 32 : 22, g.size, touched);
    assert_true(touched < 1 << 20);
    uint64_t managed = 0;
    for (uint32_t i = 0; i < g.d->sb->nr_zones; i++)
        managed += dk_load_relaxed(&g.d->zones[i].managed);
    /* The last of 2^32 frames has no index of its own: it counts as reserved. */
    assert_true(managed == DK_MAX_FRAMES - (DK_WORD_BITS == 64));
    for (unsigned order = 0; order <= 10; order++) {
        assert_true((pfn = deckle_alloc(g.d, DECKLE_GFP_KERNEL, order)) >= 0);
        assert_int_equal(deckle_free(g.d, (uint64_t)pfn, order), DECKLE_OK);
    }
    if (DK_WORD_BITS == 64) {
        assert_int_equal(deckle_free(g.d, DK_MAX_FRAMES - 1, 0), DECKLE_EBADFREE);
        assert_int_equal(deckle_alloc_at(g.d, DECKLE_GFP_KERNEL, DK_MAX_FRAMES - 2, 0), DECKLE_OK);
        assert_int_equal(deckle_alloc_at(g.d, DECKLE_GFP_KERNEL, DK_MAX_FRAMES - 1, 0),
                         DECKLE_EBUSY);
        char why[128];
        assert_int_equal(deckle_validate_range(g.d, DK_MAX_FRAMES - 1024, 1024, why, sizeof(why)),
                         DECKLE_OK);
    }
    assert_true(guarded_touched(&g) < 2 << 20);
    guarded_close(&g);
}

/* ---- attaching ----------------------------------------------------------------------------- */

struct damage {
    size_t offset, size;
    uint64_t value;
    int error;
};

#define DAMAGE(field, value, error)                                                                \
    {                                                                                              \
        offsetof(struct dk_superblock, field), sizeof(((struct dk_superblock *)0)->field), value,  \
            error                                                                                  \
    }

static const struct damage damages[] = {
    DAMAGE(magic, 0, DECKLE_ECORRUPT),
    DAMAGE(version, DK_META_VERSION + 1, DECKLE_EVERSION),
    DAMAGE(word_bits, DK_WORD_BITS ^ 96, DECKLE_EVERSION),
    DAMAGE(total_bytes, UINT64_MAX, DECKLE_ECORRUPT),
    DAMAGE(total_bytes, 4096, DECKLE_ECORRUPT),
    DAMAGE(page_shift, 64, DECKLE_ECORRUPT),
    DAMAGE(max_order, 40, DECKLE_ECORRUPT),
    DAMAGE(nr_cpus, 1 << 20, DECKLE_ECORRUPT),
    DAMAGE(nr_cpus, 0, DECKLE_ECORRUPT),
    DAMAGE(nr_nodes, 100, DECKLE_ECORRUPT),
    DAMAGE(kind, 9, DECKLE_ECORRUPT),
    DAMAGE(nr_trees, 1000, DECKLE_ECORRUPT),
    DAMAGE(pcp_capacity, 1 << 24, DECKLE_ECORRUPT),
    DAMAGE(max_blocks, UINT32_MAX, DECKLE_ECORRUPT),
    DAMAGE(max_zones, 1 << 30, DECKLE_ECORRUPT),
    DAMAGE(nr_zones, 1 << 30, DECKLE_ECORRUPT),
    DAMAGE(max_ranges, UINT32_MAX, DECKLE_ECORRUPT),
    DAMAGE(max_sections, UINT32_MAX, DECKLE_ECORRUPT),
    DAMAGE(max_spans, UINT32_MAX, DECKLE_ECORRUPT),
    DAMAGE(index_capacity, UINT64_MAX, DECKLE_ECORRUPT),
    DAMAGE(slot_bytes, UINT64_MAX, DECKLE_ECORRUPT),
    DAMAGE(next_block, UINT32_MAX, DECKLE_ECORRUPT),
    DAMAGE(at.state, UINT64_MAX - 63, DECKLE_ECORRUPT),
    DAMAGE(at.state, 1, DECKLE_ECORRUPT),
    DAMAGE(at.words, 0, DECKLE_ECORRUPT),
    DAMAGE(at.lines, 64, DECKLE_ECORRUPT),
    DAMAGE(at.index, UINT64_C(1) << 62, DECKLE_ECORRUPT),
    DAMAGE(at.pcp, UINT64_C(1) << 40, DECKLE_ECORRUPT),
    DAMAGE(at.zonelists, UINT32_MAX, DECKLE_ECORRUPT),
    DAMAGE(at.cpu_nodes, UINT64_MAX, DECKLE_ECORRUPT),
};

static void attaching_believes_nothing(void **state)
{
    struct deckle_config cfg = plain_config(&one, 1);
    struct deckle handle;
    struct guarded g;
    (void)state;

    guarded_open(&g, &cfg);
    struct dk_superblock *sb = g.d->sb, whole = *sb;
    uint64_t bytes = sb->total_bytes;

    assert_int_equal(dk_handle_attach(&handle, sb, bytes, NULL), DECKLE_OK);
    assert_ptr_equal(handle.state, g.d->state);
    assert_int_equal(dk_handle_attach(&handle, sb, bytes - 1, NULL), DECKLE_ECORRUPT);
    assert_int_equal(dk_handle_attach(&handle, sb, 16, NULL), DECKLE_ECORRUPT);
    for (unsigned i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
        uint32_t narrow = (uint32_t)damages[i].value;
        const void *value = damages[i].size == 4 ? (const void *)&narrow
                                                 : (const void *)&damages[i].value;
        memcpy((char *)sb + damages[i].offset, value, damages[i].size);
        int error = dk_handle_attach(&handle, sb, bytes, NULL);
        if (error != damages[i].error)
            fail_msg("damage %u at offset %zu: %s", i, damages[i].offset, deckle_error_name(error));
        memcpy(sb, &whole, sizeof(whole));
    }
    g.d->sb->nr_nodes = 1;
    ((uint8_t *)(uintptr_t)g.d->cpu_nodes)[1] = 1;
    assert_int_equal(dk_handle_attach(&handle, sb, bytes, NULL), DECKLE_ECORRUPT);
    guarded_close(&g);
}

/* A second handle works on the same pool, from another copy of the pointers. */
static void an_attached_handle_is_as_good(void **state)
{
    static uint8_t seen[10000];
    struct deckle_config cfg = plain_config(&one, 1);
    struct deckle handle;
    struct guarded g;
    (void)state;

    guarded_open(&g, &cfg);
    assert_int_equal(dk_handle_attach(&handle, g.d->sb, g.d->sb->total_bytes, NULL), DECKLE_OK);
    int64_t pfn = deckle_alloc(g.d, DECKLE_GFP_KERNEL, 4);
    assert_true(pfn >= 0);
    assert_int_equal(deckle_free(&handle, (uint64_t)pfn, 4), DECKLE_OK);
    assert_true(allocate_all(&handle, one.pfn, seen, one.nr) == one.nr);
    assert_valid(&handle);
    assert_valid(g.d);
    guarded_close(&g);
}

/* ---- names --------------------------------------------------------------------------------- */

static void every_error_has_a_name(void **state)
{
    (void)state;
    for (int e = 0; e >= DECKLE_EBACKING; e--) {
        assert_int_equal(strncmp(deckle_error_name(e), "DECKLE_", 7), 0);
        assert_int_equal(strcmp(deckle_error_name(e), deckle_error_name(1)) == 0, 0);
        assert_true(strlen(deckle_strerror(e)) > 5);
        for (int other = 0; other > e; other--) {
            assert_string_not_equal(deckle_error_name(e), deckle_error_name(other));
            assert_string_not_equal(deckle_strerror(e), deckle_strerror(other));
        }
    }
    assert_string_equal(deckle_error_name(DECKLE_ENOMEM), "DECKLE_ENOMEM");
    assert_string_equal(deckle_strerror(DECKLE_EBACKING - 1), "unknown error");
    assert_string_equal(deckle_strerror(INT32_MIN), "unknown error");
    assert_string_equal(deckle_strerror(INT32_MAX), "unknown error");
    for (unsigned what = DECKLE_BAD_DOUBLE_FREE; what <= DECKLE_BAD_STATE; what++)
        assert_string_not_equal(deckle_bad_name((enum deckle_bad)what), "unknown");
    assert_string_equal(deckle_bad_name((enum deckle_bad)0), "unknown");
    assert_string_equal(deckle_bad_name((enum deckle_bad)77), "unknown");
    assert_string_equal(deckle_version(), DECKLE_VERSION_STRING);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_has_its_bounds),
        cmocka_unit_test(tables_are_checked),
        cmocka_unit_test(a_longer_configuration),
        cmocka_unit_test(h033_bytes_to_pages_never_wraps),
        cmocka_unit_test(h035_counts_are_compared_before_they_are_narrowed),
        cmocka_unit_test(h037_orders_are_checked_before_they_are_used),
        cmocka_unit_test(h039_each_failure_has_its_own_error),
        cmocka_unit_test(h043_a_block_is_as_large_as_asked),
        cmocka_unit_test(sizes_for_small_machines),
        cmocka_unit_test(h063_metadata_stays_in_its_memory),
        cmocka_unit_test(memory_too_small_or_misaligned_is_refused),
        cmocka_unit_test(a_host_of_another_size_is_refused),
        cmocka_unit_test(h133_a_giant_pool_is_made_in_an_instant),
        cmocka_unit_test(attaching_believes_nothing),
        cmocka_unit_test(an_attached_handle_is_as_good),
        cmocka_unit_test(every_error_has_a_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

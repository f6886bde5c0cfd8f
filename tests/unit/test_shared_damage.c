/* SPDX-License-Identifier: MIT */
/* ctest: timeout=120 labels=effort */
/*
 * Shared metadata that are damaged or hostile, and pools whose users are all dead. Damage: bytes
 * are overwritten at random in tables and in what changes at run time; attaching says what is wrong
 * or works, and then every call ends, without a crash and without an access outside the metadata,
 * which lie between pages that nobody may touch. Recovery: pages go back to what they were when the
 * pool was published, each for itself; afterwards the pool is as good as new.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "shared_pool.h"
#include "testing.h"

#include "core/config.h"
#include "core/layout.h"

#define GFP_U DECKLE_GFP_KERNEL
#define GFP_M DECKLE_GFP_HIGHUSER_MOVABLE

static const struct deckle_range ranges[] = {
    {.pfn = 4096, .nr = 40 * 512 - 100},
    {.pfn = 4096 + 40 * 512, .nr = 1024, .flags = DECKLE_RANGE_CMA},
    {.pfn = 1 << 20, .nr = 3000, .node = DECKLE_NODE(1)}};

static unsigned char *area, *image, *published;
static size_t area_size;
static uint64_t random_state;

static struct deckle_config plain(uint32_t features)
{
    return (struct deckle_config){.size = sizeof(struct deckle_config),
                                  .features = DECKLE_FEATURE_SHARED | features,
                                  .nr_cpus = 2,
                                  .nr_nodes = 2,
                                  .ranges = ranges,
                                  .nr_ranges = 3,
                                  .max_clients = 3,
                                  .pcp_capacity = 16};
}

/* ---- an area between guards ------------------------------------------------------------------ */

static unsigned char *map_guarded(size_t size)
{
    unsigned char *at = mmap(NULL, size + 2 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true((void *)at != MAP_FAILED);
    assert_int_equal(mprotect(at + 4096, size, PROT_READ | PROT_WRITE), 0);
    return at + 4096;
}

static struct deckle_host no_host(void)
{
    return (struct deckle_host){.size = sizeof(struct deckle_host)};
}

static _Alignas(64) unsigned char handles[3][8192];

static int attach(unsigned i, size_t size, uint32_t flags, const char **reason, struct deckle **d)
{
    struct deckle_host host = no_host();
    assert_true(deckle_handle_size() <= sizeof(handles[i]));
    *reason = NULL;
    return deckle_attach(handles[i], sizeof(handles[i]), area, size, &host, flags, reason, d);
}

static void work(struct deckle *d, unsigned rounds)
{
    for (unsigned i = 0; i < rounds; i++) {
        int64_t pfn = deckle_alloc(d, i & 1 ? GFP_M : GFP_U, i % 11);
        if (pfn >= 0 && i % 3)
            deckle_free(d, (uint64_t)pfn, i % 11);
    }
}

/* A pool with two clients at work; `published` is how it was before them. */
static void make_image(uint32_t features)
{
    struct deckle_config cfg = plain(features);
    const char *reason;
    struct deckle *d;
    area_size = deckle_metadata_size(&cfg);
    assert_true(area_size > 0 && area_size % 4096 == 0);
    area = map_guarded(area_size);
    image = malloc(area_size);
    published = malloc(area_size);
    assert_int_equal(deckle_init(area, area_size, &cfg, NULL, &d), DECKLE_OK);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(deckle_add_range(d, &ranges[i]), DECKLE_OK);
    assert_int_equal(deckle_reserve_range(d, 4100, 50), DECKLE_OK);
    assert_int_equal(deckle_online(d), DECKLE_OK);
    assert_int_equal(deckle_reserve_range(d, 5000, 600), DECKLE_OK);
    assert_int_equal(deckle_publish(d), DECKLE_OK);
    memcpy(published, area, area_size);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(attach(i, area_size, 0, &reason, &d), DECKLE_OK);
        assert_int_equal(deckle_register(d, 7 + i, NULL), DECKLE_OK);
        work(d, 60);
        assert_true(deckle_alloc_exact(d, GFP_M, 700) >= 0);
        if (i)
            assert_int_equal(deckle_set_pageblock_type(d, ranges[2].pfn + 1024, DECKLE_ISOLATE),
                             DECKLE_OK);
    }
    memcpy(image, area, area_size);
}

static void drop_image(void)
{
    munmap(area - 4096, area_size + 2 * 4096);
    free(image);
    free(published);
}

/* ---- damage ---------------------------------------------------------------------------------- */

static void discard(void *ctx, const char *text, size_t len)
{
    (void)ctx, (void)text, (void)len;
}

static void see_nothing(void *ctx, const struct deckle_allocated *b)
{
    (void)ctx, (void)b;
}
static void see_no_run(void *ctx, uint64_t pfn, uint64_t nr)
{
    (void)ctx, (void)pfn, (void)nr;
}

static void use_everything(struct deckle *d)
{
    struct deckle_client_info info = {.size = sizeof(info)};
    struct deckle_reap_report report = {.size = sizeof(report)};
    uint64_t pfns[30];
    char text[200];
    deckle_validate(d, text, sizeof(text));
    deckle_validate_range(d, 4096, 1000, text, sizeof(text));
    deckle_print_buddyinfo(d, discard, NULL);
    deckle_print_pagetypeinfo(d, discard, NULL);
    deckle_print_zoneinfo(d, discard, NULL);
    deckle_print_json(d, discard, NULL);
    deckle_print_extfrag(d, discard, NULL);
    deckle_for_each_allocated(d, see_nothing, NULL);
    deckle_for_each_free(d, see_no_run, NULL);
    deckle_get_client(d, 1, &info);
    if (deckle_register(d, 99, NULL))
        return;
    work(d, 40);
    memset(pfns, 0xff, sizeof(pfns));
    deckle_alloc_bulk(d, GFP_M, pfns, 30);
    deckle_free_bulk(d, pfns, 30);
    deckle_alloc_exact(d, GFP_U, 600);
    deckle_alloc_at(d, GFP_U, 4096 + 600, 4);
    deckle_alloc_contig(d, GFP_M, 20, 4, 0, 0);
    deckle_set_pageblock_type(d, 4096, DECKLE_CMA);
    deckle_free(d, 4100, 0);
    deckle_free(d, 5, 3);
    deckle_drain_all(d);
    deckle_reap(d, 1, &report);
    deckle_reap(d, 2, &report);
    deckle_validate(d, text, sizeof(text));
    deckle_detach(d);
}

static struct dk_superblock *superblock(void)
{
    return (struct dk_superblock *)(void *)(area + DK_HANDLE_BYTES);
}

/* Half of what is written are numbers at an edge. */
static void overwrite(size_t from, size_t end, unsigned times)
{
    static const unsigned char edges[] = {0, 1, 0x7f, 0x80, 0xfe, 0xff};
    for (unsigned i = 0; i < times; i++) {
        size_t at = from + test_random_below(&random_state, end - from);
        unsigned n = 1u << test_random_below(&random_state, 4);
        unsigned char edge = edges[test_random_below(&random_state, sizeof(edges))];
        for (unsigned k = 0; k < n && at + k < end; k++)
            area[at + k] = i & 1 ? edge : (unsigned char)test_random(&random_state);
    }
}

static void try_damaged(size_t from, size_t end, unsigned times)
{
    const char *reason;
    struct deckle *d;
    memcpy(area, image, area_size);
    overwrite(from, end, times);
    int err = attach(2, area_size, 0, &reason, &d);
    if (!err)
        use_everything(d);
    else if (!reason)
        fail_msg("error %d without a reason", err);
}

static void tables(void **state)
{
    (void)state;
    make_image(0);
    size_t begin = DK_HANDLE_BYTES, end = begin + superblock()->at.pcp;
    for (uint64_t i = 0; i < test_effort(4000); i++) {
        try_damaged(begin, begin + offsetof(struct dk_superblock, node_view), 1 + i % 3);
        try_damaged(begin, end, 1 + i % 5);
    }
    drop_image();
}

static void run_time(void **state)
{
    (void)state;
    for (unsigned caches = 0; caches < 2; caches++) {
        make_image(caches ? 0 : DECKLE_FEATURE_NO_CACHES);
        struct dk_offsets at = superblock()->at;
        uint64_t ends[] = {at.pcp,     at.words, at.lines,
                           at.index,   at.state, at.clients,
                           at.intents, at.tags,  superblock()->total_bytes};
        for (uint64_t i = 0; i < test_effort(1500); i++) {
            unsigned k = (unsigned)(i % 8);
            if (ends[k + 1] > ends[k])
                try_damaged(DK_HANDLE_BYTES + ends[k], DK_HANDLE_BYTES + ends[k + 1],
                            1 + (unsigned)test_random_below(&random_state, 60));
        }
        drop_image();
    }
}

/* Every field of the head, one by one. */
static void head(void **state)
{
    const char *reason;
    struct deckle *d;
    (void)state;
    make_image(0);
    struct dk_superblock *sb = superblock();
    static _Alignas(64) unsigned char handle[8192];
    struct deckle_host host = no_host();

    assert_int_equal(attach(2, area_size, 0, &reason, &d), DECKLE_OK);
    assert_int_equal(attach(2, area_size - 1, 0, &reason, &d), DECKLE_ENOSPC);
    assert_non_null(reason);
    assert_int_equal(attach(2, 4096, 0, &reason, &d), DECKLE_ENOSPC);
    assert_int_equal(attach(2, 0, 0, &reason, &d), DECKLE_ENOSPC);
    assert_int_equal(attach(2, area_size, 4, &reason, &d), DECKLE_EINVAL);
    assert_int_equal(attach(2, area_size, 3, &reason, &d), DECKLE_EINVAL);
    assert_int_equal(deckle_attach(handle + 8, 8000, area, area_size, &host, 0, NULL, &d),
                     DECKLE_EINVAL);
    assert_int_equal(deckle_attach(handle, 100, area, area_size, &host, 0, NULL, &d),
                     DECKLE_EINVAL);
    assert_int_equal(deckle_attach(handle, 8192, NULL, area_size, &host, 0, NULL, &d),
                     DECKLE_EINVAL);
    assert_int_equal(deckle_attach(handle, 8192, area + 8, area_size - 8, &host, 0, NULL, &d),
                     DECKLE_EINVAL);
    assert_int_equal(deckle_attach(handle, 8192, area, area_size, NULL, 0, NULL, &d), DECKLE_OK);

    sb->version++;
    assert_int_equal(attach(2, area_size, 0, &reason, &d), DECKLE_EVERSION);
    assert_non_null(strstr(reason, "version"));
    sb->version--;
    sb->word_bits = 32;
    assert_int_equal(attach(2, area_size, 0, &reason, &d), DECKLE_EVERSION);
    sb->word_bits = 64;
    sb->magic = __builtin_bswap64(sb->magic);
    assert_int_equal(attach(2, area_size, 0, &reason, &d), DECKLE_EVERSION);
    assert_non_null(strstr(reason, "byte order"));
    sb->magic = 1;
    assert_int_equal(attach(2, area_size, 0, &reason, &d), DECKLE_ECORRUPT);
    memcpy(area, image, area_size);
    sb->max_clients++;
    assert_int_equal(attach(2, area_size, 0, &reason, &d), DECKLE_ECORRUPT);
    memcpy(area, image, area_size);
    ((struct dk_zone *)(void *)((unsigned char *)sb + sb->at.zones))->number = 1;
    assert_int_equal(attach(2, area_size, 0, &reason, &d), DECKLE_ECORRUPT);
    assert_non_null(strstr(reason, "zone 0 has number 1"));
    drop_image();
}

/* ---- recovery -------------------------------------------------------------------------------- */

static void assert_like_new(unsigned i)
{
    const char *reason;
    struct deckle *d;
    char text[300];
    uint64_t free = 0, managed = 0;
    struct deckle_stat stat = {.size = sizeof(stat)};
    if (attach(i, area_size, 0, &reason, &d))
        fail_msg("attach: %s", reason);
    if (deckle_validate(d, text, sizeof(text)))
        fail_msg("%s", text);
    assert_int_equal(deckle_get_stat(d, &stat), DECKLE_OK);
    for (uint32_t z = 0; z < stat.nr_zones; z++) {
        struct deckle_zone_stat s = {.size = sizeof(s)};
        assert_int_equal(deckle_get_zone_stat(d, z, &s), DECKLE_OK);
        free += s.free + s.free_isolated;
        managed += s.managed;
    }
    assert_int_equal(free, managed);
    assert_int_equal(managed, 40 * 512 - 100 + 1024 + 3000 - 650);
    assert_int_equal(deckle_pageblock_type(d, ranges[1].pfn), DECKLE_CMA);
    assert_int_equal(deckle_register(d, 5, NULL), DECKLE_OK);
    work(d, 50);
    assert_true(deckle_detach(d) > 0);
    assert_int_equal(attach(i, area_size, DECKLE_ATTACH_READ_ONLY, &reason, &d), DECKLE_OK);
    if (deckle_validate(d, text, sizeof(text)))
        fail_msg("%s", text);
}

static void recover(struct deckle_recover_report *report)
{
    const char *reason;
    struct deckle *d;
    report->size = sizeof(*report);
    int err = attach(2, area_size, DECKLE_ATTACH_RECOVER, &reason, &d);
    if (err)
        fail_msg("attach: %s", reason);
    assert_int_equal(deckle_recover(d, report), DECKLE_OK);
}

static void everybody_died(void **state)
{
    struct deckle_recover_report report;
    (void)state;
    for (unsigned caches = 0; caches < 2; caches++) {
        make_image(caches ? 0 : DECKLE_FEATURE_NO_CACHES);
        recover(&report);
        assert_int_equal(report.clients, 2);
        assert_int_equal(report.operations, 0);
        assert_true(report.frames > 1400);
        assert_true(caches ? report.cached > 0 : report.cached == 0);
        assert_true(report.blocks > 0);
        assert_int_equal(report.state_bytes, 0);
        assert_int_equal(report.index, 0);
        assert_int_equal(report.counters, 0);
        assert_like_new(2);
        /* Once more: there is nothing to do. */
        recover(&report);
        assert_int_equal(report.clients + report.operations, 0);
        assert_int_equal(report.frames + report.cached, 0);
        assert_int_equal(report.state_bytes + report.index + report.counters, 0);
        drop_image();
    }
}

/* Pages as old as the publication, among others of now; and pages of zeroes behind the tables. */
static void pages_were_lost(void **state)
{
    struct deckle_recover_report report;
    (void)state;
    make_image(0);
    size_t tables_end = DK_HANDLE_BYTES + (size_t)superblock()->at.pcp;
    for (uint64_t i = 0; i < test_effort(200); i++) {
        memcpy(area, image, area_size);
        for (size_t page = 0; page < area_size; page += 4096) {
            unsigned what = (unsigned)test_random_below(&random_state, 4);
            if (what == 0)
                memcpy(area + page, published + page, 4096);
            else if (what == 1 && page >= tables_end)
                memset(area + page, 0, 4096);
        }
        recover(&report);
        assert_like_new(2);
    }
    drop_image();
}

static void recovery_was_cut_off(void **state)
{
    struct deckle_recover_report report;
    const char *reason;
    struct deckle *d;
    (void)state;
    make_image(0);
    dk_a32_store_release(&superblock()->published, DK_BEING_RECOVERED);
    assert_int_equal(attach(2, area_size, 0, &reason, &d), DECKLE_ECORRUPT);
    assert_non_null(strstr(reason, "recovery"));
    recover(&report);
    assert_like_new(2);
    drop_image();
}

static int everybody_lives(void *ctx, uint32_t client, uint64_t identity)
{
    (void)ctx, (void)client, (void)identity;
    return 1;
}

static void nobody_may_live(void **state)
{
    struct deckle_host host = no_host();
    struct deckle_recover_report report = {.size = 4};
    const char *reason;
    struct deckle *d;
    (void)state;
    make_image(0);
    host.client_alive = everybody_lives;
    assert_int_equal(deckle_attach(handles[2], 8192, area, area_size, &host, 0, &reason, &d),
                     DECKLE_OK);
    assert_int_equal(deckle_recover(d, NULL), DECKLE_EBUSY);
    assert_int_equal(deckle_recover(d, &report), DECKLE_EINVAL);
    assert_int_equal(deckle_register(d, 1, NULL), DECKLE_OK);
    assert_int_equal(deckle_recover(d, NULL), DECKLE_EINVAL);
    drop_image();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(head),
                                       cmocka_unit_test(tables),
                                       cmocka_unit_test(run_time),
                                       cmocka_unit_test(everybody_died),
                                       cmocka_unit_test(pages_were_lost),
                                       cmocka_unit_test(recovery_was_cut_off),
                                       cmocka_unit_test(nobody_may_live)};
    if (!shared_is_possible()) {
        printf("skipped: shared pools need 64-bit words\n");
        return TEST_SKIPPED;
    }
    random_state = test_seed();
    return cmocka_run_group_tests(tests, NULL, NULL);
}

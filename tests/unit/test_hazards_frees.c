/* SPDX-License-Identifier: MIT */
/*
 * What has gone wrong in other allocators when blocks came back, were counted, or were asked for in
 * odd numbers: a named test for the whole kind. The rows: docs/hazards-covered.md.
 */
#include "hazard.h"

#include "core/layout.h"

static const uint32_t kinds[] = {0, DECKLE_FEATURE_NO_CACHES, DECKLE_FEATURE_DESCRIPTORS,
                                 DECKLE_FEATURE_OWNER_TAGS,
                                 DECKLE_FEATURE_DESCRIPTORS | DECKLE_FEATURE_OWNER_TAGS};
#define NR_KINDS (sizeof(kinds) / sizeof(kinds[0]))

/* ---- wrong frees ----------------------------------------------------------------------------- */

static void every_wrong_free(struct hazard_pool *h, uint64_t base)
{
    struct deckle *d = h->d;
    uint64_t block = hazard_alloc(h, GFP_U, 4), single = hazard_alloc(h, GFP_M, 0);
    uint64_t before = hazard_free_frames(h);

    hazard_refused(h, deckle_free(d, block + 1, 4), DECKLE_BAD_MISALIGNED);
    hazard_refused(h, deckle_free(d, block + 8, 4), DECKLE_BAD_MISALIGNED);
    for (uint64_t tail = 1; tail < 16; tail++)
        hazard_refused(h, deckle_free(d, block + tail, 0), DECKLE_BAD_TAIL);
    for (unsigned order = 0; order <= 10; order++)
        if (order != 4 && !(block & ((1ull << order) - 1)))
            hazard_refused(h, deckle_free(d, block, order), DECKLE_BAD_WRONG_ORDER);
    hazard_refused(h, deckle_free(d, base - 1, 0), DECKLE_BAD_FOREIGN);
    hazard_refused(h, deckle_free(d, base + 4096, 0), DECKLE_BAD_FOREIGN);
    hazard_refused(h, deckle_free(d, UINT64_MAX, 0), DECKLE_BAD_FOREIGN);
    hazard_refused(h, deckle_free(d, 1ull << 63, 3), DECKLE_BAD_FOREIGN);
    hazard_refused(h, deckle_free(d, base + 6000, 0), DECKLE_BAD_FOREIGN); /* in the hole */
    hazard_refused(h, deckle_free(d, base + 2000, 0), DECKLE_BAD_RESERVED);
    assert_int_equal(deckle_free(d, block, 11), DECKLE_E2BIG);
    assert_int_equal(deckle_free(d, block, UINT32_MAX), DECKLE_E2BIG);
    assert_int_equal(h->p.reports, 2);
    h->p.reports = 0;
    assert_int_equal(hazard_free_frames(h), before);
    hazard_valid(h);

    assert_int_equal(deckle_free(d, single, 0), DECKLE_OK);
    hazard_refused(h, deckle_free(d, single, 0), DECKLE_BAD_DOUBLE_FREE);
    assert_int_equal(deckle_free(d, block, 4), DECKLE_OK);
    hazard_refused(h, deckle_free(d, block, 4), DECKLE_BAD_DOUBLE_FREE);
    hazard_refused(h, deckle_free(d, block + 3, 0), DECKLE_BAD_DOUBLE_FREE);
    assert_int_equal(deckle_drain_all(d), DECKLE_OK);
    hazard_refused(h, deckle_free(d, block, 4), DECKLE_BAD_DOUBLE_FREE);
    uint64_t twice[3] = {hazard_alloc(h, GFP_U, 0), 0, DECKLE_NO_PFN};
    twice[1] = twice[0];
    assert_int_equal(deckle_free_bulk(d, twice, 3), 1);
    assert_int_equal(h->p.last.what, DECKLE_BAD_DOUBLE_FREE);
    h->p.reports = 0;
}

static void h047_wrong_frees(void **state)
{
    (void)state;
    for (unsigned k = 0; k < NR_KINDS; k++) {
        for (uint32_t strict = 0; strict < 2; strict++) {
            struct hazard_pool h;
            struct deckle_range ranges[2] = {{.pfn = 1024, .nr = 4096}, {.pfn = 8192, .nr = 700}};
            struct deckle_config cfg = hazard_config(ranges, 2);
            cfg.features = kinds[k];
            hazard_open(&h, &cfg, false);
            assert_int_equal(deckle_reserve_range(h.d, 1024 + 2000, 16), DECKLE_OK);
            assert_int_equal(deckle_set_debug(h.d, strict * DECKLE_DEBUG_STRICT), 0);
            every_wrong_free(&h, 1024);
            hazard_close(&h);
        }
    }
}

/* The report says what was found. */
static void h047_the_report_tells_what_is_there(void **state)
{
    (void)state;
    struct hazard_pool h;
    hazard_open_simple(&h, 512, 4096, DECKLE_FEATURE_OWNER_TAGS, false);
    struct deckle_request r = {.size = sizeof(r), .gfp = GFP_U, .order = 5, .owner = 77};
    uint64_t pfn = (uint64_t)deckle_alloc_request(h.d, &r);
    hazard_refused(&h, deckle_free_owned(h.d, pfn, 5, 78), DECKLE_BAD_OWNER);
    assert_int_equal(h.p.last.owner, 77);
    hazard_refused(&h, deckle_free(h.d, pfn + 9, 0), DECKLE_BAD_TAIL);
    assert_int_equal(h.p.last.found_order, 5);
    assert_int_equal(h.p.last.owner, 77);
    assert_int_equal(h.p.last.pfn, pfn + 9);
    assert_int_equal(h.p.last.order, 0);
    assert_int_equal(deckle_block_head(h.d, pfn + 31), pfn);
    assert_int_equal(deckle_free_owned(h.d, pfn, 5, 77), DECKLE_OK);
    hazard_refused(&h, deckle_free(h.d, pfn, 5), DECKLE_BAD_DOUBLE_FREE);
    assert_int_equal(h.p.last.found_order, ~0u);
    hazard_close(&h);
}

/* Tails of every order are found to be tails, first to last. */
static void h047_tails_of_every_order(void **state)
{
    (void)state;
    struct hazard_pool h;
    hazard_open_simple(&h, 0, 8192, 0, false);
    for (unsigned order = 1; order <= 10; order++) {
        uint64_t pfn = hazard_alloc(&h, GFP_U, order), n = 1ull << order;
        for (uint64_t at = 1; at < n; at += at < 70 ? 1 : 61) {
            assert_int_equal(deckle_block_head(h.d, pfn + at), pfn);
            hazard_refused(&h, deckle_free(h.d, pfn + at, 0), DECKLE_BAD_TAIL);
        }
        assert_int_equal(deckle_block_head(h.d, pfn + n - 1), pfn);
        assert_int_equal(deckle_free(h.d, pfn, order), DECKLE_OK);
    }
    hazard_close(&h);
}

static void h049_exact_length(void **state)
{
    (void)state;
    struct hazard_pool h;
    hazard_open_simple(&h, 0, 8192, 0, false);
    for (uint64_t nr = 1; nr <= 1024; nr += nr < 40 ? 1 : 97) {
        for (unsigned contig = 0; contig < 2; contig++) {
            int64_t pfn = contig ? deckle_alloc_contig(h.d, GFP_U, nr, 1, 5, 0)
                                 : deckle_alloc_exact(h.d, GFP_U, nr);
            assert_true(pfn >= 0);
            assert_int_equal(deckle_free_exact(h.d, (uint64_t)pfn, nr + 1), DECKLE_EBADFREE);
            assert_int_equal(deckle_free_exact(h.d, (uint64_t)pfn + 1, nr), DECKLE_EBADFREE);
            assert_int_equal(deckle_free_exact(h.d, (uint64_t)pfn, 0), DECKLE_EINVAL);
            assert_int_equal(deckle_free_exact(h.d, UINT64_MAX, nr), DECKLE_EINVAL);
            assert_int_equal(deckle_free_exact(h.d, (uint64_t)pfn, UINT64_MAX), DECKLE_EINVAL);
            assert_int_equal(deckle_free_exact(h.d, (uint64_t)pfn, nr), DECKLE_OK);
            assert_int_equal(deckle_free_exact(h.d, (uint64_t)pfn, nr), DECKLE_EBADFREE);
        }
    }
    hazard_close(&h);
}

/* ---- references ------------------------------------------------------------------------------ */

static void h051_refcount_underflow(void **state)
{
    (void)state;
    struct hazard_pool h;
    hazard_open_simple(&h, 0, 4096, DECKLE_FEATURE_DESCRIPTORS, false);
    for (unsigned order = 0; order <= 10; order += 5) {
        uint64_t pfn = hazard_alloc(&h, GFP_U, order);
        assert_int_equal(deckle_refcount(h.d, pfn), 1);
        assert_int_equal(deckle_put(h.d, pfn), DECKLE_OK);
        assert_int_equal(deckle_put(h.d, pfn), DECKLE_EOVERFLOW);
        assert_int_equal(h.p.last.what, DECKLE_BAD_REFCOUNT);
        assert_int_equal(deckle_get(h.d, pfn), DECKLE_EOVERFLOW);
        assert_int_equal(h.p.reports, 2);
        h.p.reports = 0;
        /* The frame is queued once: two allocations differ. */
        assert_int_not_equal(hazard_alloc(&h, GFP_U, order), hazard_alloc(&h, GFP_U, order));
        hazard_valid(&h);
    }
    hazard_close(&h);
}

static void h051_refcount_overflow(void **state)
{
    (void)state;
    struct hazard_pool h;
    hazard_open_simple(&h, 0, 4096, DECKLE_FEATURE_DESCRIPTORS, false);
    uint64_t pfn = hazard_alloc(&h, GFP_U, 0);
    dk_store_release(&h.d->descriptors[pfn], 0xfffffffeu);
    assert_int_equal(deckle_get(h.d, pfn), DECKLE_OK);
    assert_int_equal(deckle_get(h.d, pfn), DECKLE_EOVERFLOW);
    assert_int_equal(deckle_refcount(h.d, pfn), 0xffffffff);
    dk_store_release(&h.d->descriptors[pfn], 1);
    assert_int_equal(deckle_put(h.d, pfn), DECKLE_OK);
    hazard_close(&h);
}

static void h123_a_referenced_block_is_not_freed(void **state)
{
    (void)state;
    struct hazard_pool h;
    hazard_open_simple(&h, 0, 4096, DECKLE_FEATURE_DESCRIPTORS, false);
    uint64_t pfn = hazard_alloc(&h, GFP_U | DECKLE_GFP_COMP, 3);
    assert_int_equal(deckle_get(h.d, pfn + 5), DECKLE_OK);
    hazard_refused(&h, deckle_free(h.d, pfn, 3), DECKLE_BAD_REFCOUNT);
    assert_int_equal(deckle_split(h.d, pfn, 3, 0), DECKLE_EBUSY);
    assert_int_equal(deckle_put(h.d, pfn + 7), DECKLE_OK);
    assert_int_equal(deckle_free(h.d, pfn, 3), DECKLE_OK);
    /* Tails of a block that is not compound are no references to it. */
    pfn = hazard_alloc(&h, GFP_U, 3);
    assert_int_equal(deckle_get(h.d, pfn + 5), DECKLE_EBADFREE);
    assert_int_equal(h.p.last.what, DECKLE_BAD_TAIL);
    assert_int_equal(deckle_get(h.d, pfn), DECKLE_OK);
    assert_int_equal(deckle_split(h.d, pfn, 3, 0), DECKLE_EBUSY);
    assert_int_equal(deckle_put(h.d, pfn), DECKLE_OK);
    /* Pieces have a reference each, so do the pieces of exact lengths. */
    assert_int_equal(deckle_split(h.d, pfn, 3, 1), DECKLE_OK);
    for (uint64_t at = 0; at < 8; at += 2)
        assert_int_equal(deckle_put(h.d, pfn + at), DECKLE_OK);
    int64_t exact = deckle_alloc_exact(h.d, GFP_U, 6);
    assert_int_equal(deckle_refcount(h.d, (uint64_t)exact), 1);
    assert_int_equal(deckle_put(h.d, (uint64_t)exact + 4), DECKLE_OK);
    assert_int_equal(deckle_put(h.d, (uint64_t)exact), DECKLE_OK);
    assert_int_equal(deckle_drain_all(h.d), DECKLE_OK);
    assert_int_equal(hazard_free_frames(&h), 4096);
    hazard_close(&h);
}

static void h125_bulk_pages_are_independent(void **state)
{
    (void)state;
    uint64_t pfns[300], random = test_seed();
    for (unsigned k = 0; k < NR_KINDS; k++) {
        struct hazard_pool h;
        hazard_open_simple(&h, 0, 4096, kinds[k], false);
        memset(pfns, 0xff, sizeof(pfns));
        assert_int_equal(deckle_alloc_bulk(h.d, GFP_U, pfns, 300), 300);
        for (unsigned i = 300; i-- > 0;) {
            unsigned j = (unsigned)test_random_below(&random, i + 1);
            uint64_t pfn = pfns[j];
            pfns[j] = pfns[i];
            assert_int_equal(deckle_block_order(h.d, pfn), 0);
            if (kinds[k] & DECKLE_FEATURE_DESCRIPTORS) {
                assert_int_equal(deckle_refcount(h.d, pfn), 1);
                assert_int_equal(deckle_put(h.d, pfn), DECKLE_OK);
            } else {
                assert_int_equal(deckle_free(h.d, pfn, 0), DECKLE_OK);
            }
        }
        assert_int_equal(deckle_drain_all(h.d), DECKLE_OK);
        assert_int_equal(hazard_free_frames(&h), 4096);
        hazard_close(&h);
    }
}

/* ---- counters -------------------------------------------------------------------------------- */

/* After each step: free + cached + allocated = all, and the blocks of every order balance. */
static void h055_counters(void **state)
{
    (void)state;
    uint64_t random = test_seed(), live[200], frames = 0;
    unsigned orders[200], n = 0;
    uint64_t out[11] = {0};
    struct hazard_pool h;
    hazard_open_simple(&h, 300, 10000, 0, false);
    for (uint64_t step = test_effort(3000); step; step--) {
        h.p.cpu = (uint32_t)test_random_below(&random, 3);
        if (n < 200 && test_random_below(&random, 2)) {
            orders[n] = (unsigned)test_random_below(&random, 11);
            uint32_t gfp = test_random_below(&random, 2) ? GFP_U : GFP_M;
            int64_t pfn = deckle_alloc(h.d, gfp, orders[n]);
            if (pfn >= 0) {
                frames += 1ull << orders[n];
                out[orders[n]]++;
                live[n++] = (uint64_t)pfn;
            }
        } else if (n) {
            unsigned i = (unsigned)test_random_below(&random, n--);
            assert_int_equal(deckle_free(h.d, live[i], orders[i]), DECKLE_OK);
            frames -= 1ull << orders[i];
            out[orders[i]]--;
            live[i] = live[n];
            orders[i] = orders[n];
        }
        struct deckle_zone_stat z = hazard_zone(&h, 0);
        assert_int_equal(z.free + z.cached + frames, 10000);
        for (unsigned order = 0; order <= 10; order++)
            assert_int_equal(z.allocs[order] - z.frees[order], out[order]);
        if (step % 16 == 0)
            hazard_valid(&h);
    }
    hazard_close(&h);
}

/* ---- numbers of frames ----------------------------------------------------------------------- */

static void h025_a_frame_is_in_one_block(void **state)
{
    (void)state;
    static const uint64_t bases[] = {0, 1, 100, 1000, 1024, 4095, 99999};
    for (unsigned b = 0; b < sizeof(bases) / sizeof(bases[0]); b++) {
        struct hazard_pool h;
        hazard_open_simple(&h, bases[b], 1500, DECKLE_FEATURE_NO_CACHES, false);
        uint8_t seen[1500];
        for (unsigned order = 0; order <= 10; order++) {
            memset(seen, 0, sizeof(seen));
            int64_t pfn, first = deckle_alloc(h.d, GFP_U, 0);
            assert_int_equal(deckle_free(h.d, (uint64_t)first, 0), DECKLE_OK);
            uint64_t pfns[1500], n = 0;
            while ((pfn = deckle_alloc(h.d, GFP_U, order)) >= 0) {
                for (uint64_t p = (uint64_t)pfn; p < (uint64_t)pfn + (1ull << order); p++)
                    assert_int_equal(seen[p - bases[b]]++, 0);
                pfns[n++] = (uint64_t)pfn;
            }
            hazard_valid(&h);
            while (n--)
                assert_int_equal(deckle_free(h.d, pfns[n], order), DECKLE_OK);
            assert_int_equal(hazard_free_frames(&h), 1500);
        }
        hazard_close(&h);
    }
}

static void h027_limit_and_availability_together(void **state)
{
    (void)state;
    struct hazard_pool h;
    hazard_open_simple(&h, 0, 8192, 0, false);
    assert_int_equal(deckle_alloc_contig(h.d, GFP_U, 4096, 1, 0, 4096), 0);
    for (unsigned order = 0; order <= 10; order++) {
        struct deckle_request r = {
            .size = sizeof(r), .gfp = GFP_U, .order = order, .limit_pfn = 4096};
        assert_int_equal(deckle_alloc_request(h.d, &r), DECKLE_ECONSTRAINED);
        r.limit_pfn = 4096 + 1024;
        int64_t pfn = deckle_alloc_request(h.d, &r);
        assert_true(pfn >= 4096 && pfn + (1 << order) <= 4096 + 1024);
        assert_int_equal(deckle_free(h.d, (uint64_t)pfn, order), DECKLE_OK);
        assert_int_equal(deckle_drain_all(h.d), DECKLE_OK);
    }
    assert_int_equal(deckle_alloc_contig(h.d, GFP_U, 1, 1, 0, 4096), DECKLE_ECONSTRAINED);
    hazard_close(&h);
}

static void h031_alignment_only_when_asked(void **state)
{
    (void)state;
    struct hazard_pool h;
    hazard_open_simple(&h, 0, 4096, 0, false);
    assert_int_equal(deckle_alloc_at(h.d, GFP_U, 0, 0), DECKLE_OK);
    assert_int_equal(deckle_alloc_contig(h.d, GFP_U, 3, 0, 0, 0), 1);
    assert_int_equal(deckle_alloc_contig(h.d, GFP_U, 3, 4, 0, 0), 4);
    assert_int_equal(deckle_alloc_contig(h.d, GFP_U, 600, 1, 0, 0), 7);
    assert_int_equal(deckle_alloc_contig(h.d, GFP_U, 3, 1024, 0, 0), 1024);
    assert_int_equal(deckle_alloc_contig(h.d, GFP_U, 3, 3, 0, 0), DECKLE_EINVAL);
    hazard_close(&h);
}

static void h097_exact(void **state)
{
    (void)state;
    struct hazard_pool h;
    hazard_open_simple(&h, 0, 8192, 0, false);
    for (uint64_t nr = 1; nr <= 1024; nr += nr < 70 ? 1 : 53) {
        struct deckle_zone_stat before = hazard_zone(&h, 0);
        int64_t pfn = deckle_alloc_exact(h.d, GFP_U, nr);
        assert_true(pfn >= 0);
        struct deckle_zone_stat after = hazard_zone(&h, 0);
        assert_int_equal(before.free + before.cached - after.free - after.cached, nr);
        assert_int_equal(deckle_free_exact(h.d, (uint64_t)pfn, nr), DECKLE_OK);
    }
    assert_int_equal(deckle_alloc_exact(h.d, GFP_U, 0), DECKLE_EINVAL);
    assert_int_equal(deckle_alloc_exact(h.d, GFP_U, 1025), DECKLE_E2BIG);
    assert_int_equal(deckle_alloc_exact(h.d, GFP_U, UINT64_MAX), DECKLE_E2BIG);
    assert_int_equal(deckle_alloc_exact(h.d, GFP_U | DECKLE_GFP_COMP, 3), DECKLE_EINVAL);
    hazard_close(&h);
}

/* As many as there are: call after call goes on where the last one ended. */
static int64_t bulk_until_empty(struct hazard_pool *h, uint64_t *pfns, size_t nr)
{
    int64_t had = 0, n;
    while ((n = deckle_alloc_bulk(h->d, GFP_U, pfns, nr)) > had)
        had = n;
    return had;
}

/* Contiguity is what a block means; who needs frames only takes bulk, in any fragmentation. */
static void h099_contiguous_or_not_is_said(void **state)
{
    (void)state;
    struct hazard_pool h;
    static uint64_t pfns[2048];
    hazard_open_simple(&h, 0, 4096, 0, false);
    for (uint64_t pfn = 0; pfn < 4096; pfn += 2)
        assert_int_equal(deckle_alloc_at(h.d, GFP_U, pfn, 0), DECKLE_OK);
    assert_int_equal(deckle_alloc_contig(h.d, GFP_U, 2, 1, 0, 0), DECKLE_EFRAGMENTED);
    assert_int_equal(deckle_alloc(h.d, GFP_U, 1), DECKLE_EFRAGMENTED);
    memset(pfns, 0xff, sizeof(pfns));
    assert_int_equal(bulk_until_empty(&h, pfns, 2048), 2048);
    assert_int_equal(deckle_alloc(h.d, GFP_U, 0), DECKLE_ENOMEM);
    hazard_close(&h);
}

static void h101_bulk_of_129_on_a_fragmented_map(void **state)
{
    (void)state;
    for (unsigned k = 0; k < 2; k++) {
        struct hazard_pool h;
        uint64_t pfns[129];
        hazard_open_simple(&h, 0, 4096, kinds[k], false);
        for (uint64_t pfn = 0; pfn < 4096; pfn++)
            if (pfn % 31)
                assert_int_equal(deckle_alloc_at(h.d, GFP_M, pfn, 0), DECKLE_OK);
        memset(pfns, 0xff, sizeof(pfns));
        assert_int_equal(deckle_alloc_bulk(h.d, GFP_U | DECKLE_GFP_ACCOUNT, pfns, 129), 129);
        assert_int_equal(deckle_free_bulk(h.d, pfns, 129), 129);
        /* Three too many: all that there is, then the truth. */
        uint64_t all[136];
        memset(all, 0xff, sizeof(all));
        assert_int_equal(bulk_until_empty(&h, all, 136), 133);
        assert_int_equal(deckle_alloc(h.d, GFP_U, 0), DECKLE_ENOMEM);
        hazard_close(&h);
    }
}

/* A zone with a low mark: the helper that loops gets what single requests would get. */
static void h101_a_loop_of_bulks_reaches_the_mark(void **state)
{
    (void)state;
    struct hazard_pool h;
    struct deckle_range range = {.pfn = 0, .nr = 4096};
    struct deckle_config cfg = hazard_config(&range, 1);
    cfg.min_free_kbytes = 400;
    hazard_open(&h, &cfg, false);
    static uint64_t pfns[4096];
    memset(pfns, 0xff, sizeof(pfns));
    assert_true(bulk_until_empty(&h, pfns, 4096) > 3900);
    assert_int_equal(deckle_alloc(h.d, GFP_U, 0), DECKLE_EWATERMARK);
    assert_true(hazard_zone(&h, 0).free <= hazard_zone(&h, 0).min + 1);
    hazard_close(&h);
}

static void h103_unmovable_out_of_movable_blocks(void **state)
{
    (void)state;
    struct hazard_pool h;
    hazard_open_simple(&h, 0, 16384, 0, false);
    uint64_t live[16384], n = 0;
    /* Movable pages in half of the blocks, a few frames free in each. */
    for (unsigned i = 0; i < 8192; i++)
        live[n++] = hazard_alloc(&h, GFP_M, 0);
    for (uint64_t i = 0; i < n; i += 16)
        assert_int_equal(deckle_free(h.d, live[i], 0), DECKLE_OK);
    assert_int_equal(deckle_drain_all(h.d), DECKLE_OK);
    struct deckle_zone_stat z = hazard_zone(&h, 0);
    uint64_t steals = z.fallback_steals, claims = z.fallback_claims;
    /* Unmovable requests take whole blocks for themselves, never a hole between movable pages. */
    for (unsigned i = 0; i < 4096; i++) {
        uint64_t pfn = hazard_alloc(&h, GFP_U, 0);
        assert_int_equal(deckle_pageblock_type(h.d, pfn), DECKLE_UNMOVABLE);
    }
    z = hazard_zone(&h, 0);
    assert_int_equal(z.fallback_steals, steals);
    assert_true(z.fallback_claims > claims && z.fallback_claims <= claims + 8 + 2);
    /* Forced: nothing else is left. It is counted. */
    while (deckle_alloc(h.d, GFP_U, 9) >= 0)
        continue;
    assert_int_equal(deckle_drain_all(h.d), DECKLE_OK);
    while (deckle_alloc(h.d, GFP_U, 0) >= 0)
        continue;
    z = hazard_zone(&h, 0);
    assert_true(z.fallback_steals + z.fallback_claims > claims + 8);
    hazard_close(&h);
}

/* ---- the end --------------------------------------------------------------------------------- */

static struct deckle_allocated leaks[8];
static unsigned nr_leaks;

static void note_leak(void *ctx, const struct deckle_allocated *block)
{
    (void)ctx;
    if (nr_leaks < 8)
        leaks[nr_leaks] = *block;
    nr_leaks++;
}

static void h127_exit_reports_leaks(void **state)
{
    (void)state;
    for (unsigned k = 0; k < NR_KINDS; k++) {
        struct hazard_pool h;
        hazard_open_simple(&h, 77, 4096, kinds[k], false);
        bool tags = kinds[k] & DECKLE_FEATURE_OWNER_TAGS;
        struct deckle_request r = {.size = sizeof(r), .gfp = GFP_U, .order = 2, .owner = 4711};
        int64_t pfn = deckle_alloc_request(h.d, &r);
        uint64_t freed = hazard_alloc(&h, GFP_U, 0);
        assert_int_equal(deckle_alloc_at(h.d, GFP_M, 2048, 10), DECKLE_OK);
        assert_int_equal(deckle_free(h.d, freed, 0), DECKLE_OK);
        nr_leaks = 0;
        assert_int_equal(deckle_exit(h.d, note_leak), 4 + 1024);
        assert_int_equal(nr_leaks, 2);
        assert_int_equal(leaks[0].pfn, pfn);
        assert_int_equal(leaks[0].order, 2);
        assert_int_equal(leaks[0].owner, tags ? 4711 : 0);
        assert_int_equal(leaks[1].pfn, 2048);
        assert_int_equal(leaks[1].order, 10);
        free(h.p.memory);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(h047_wrong_frees),
        cmocka_unit_test(h047_the_report_tells_what_is_there),
        cmocka_unit_test(h047_tails_of_every_order),
        cmocka_unit_test(h049_exact_length),
        cmocka_unit_test(h051_refcount_underflow),
        cmocka_unit_test(h051_refcount_overflow),
        cmocka_unit_test(h123_a_referenced_block_is_not_freed),
        cmocka_unit_test(h125_bulk_pages_are_independent),
        cmocka_unit_test(h055_counters),
        cmocka_unit_test(h025_a_frame_is_in_one_block),
        cmocka_unit_test(h027_limit_and_availability_together),
        cmocka_unit_test(h031_alignment_only_when_asked),
        cmocka_unit_test(h097_exact),
        cmocka_unit_test(h099_contiguous_or_not_is_said),
        cmocka_unit_test(h101_bulk_of_129_on_a_fragmented_map),
        cmocka_unit_test(h101_a_loop_of_bulks_reaches_the_mark),
        cmocka_unit_test(h103_unmovable_out_of_movable_blocks),
        cmocka_unit_test(h127_exit_reports_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/*
 * Shared pools: their life, every error of deckle/shared.h, whose frames are whose, transfer,
 * reaping of clients that died at rest, and what happens when no slot for an intent is free. Death
 * in the middle of an operation is tests/interleave/test_kill.c.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "shared_pool.h"

#include "core/client.h"
#include "core/config.h"
#include "core/intent.h"

#define GFP_U DECKLE_GFP_KERNEL
#define GFP_M DECKLE_GFP_HIGHUSER_MOVABLE

static const struct deckle_range ranges[] = {{.pfn = 4096, .nr = 8 * 512 - 100},
                                             {.pfn = 1 << 20, .nr = 5000}};

static struct deckle_config plain(void)
{
    return (struct deckle_config){.size = sizeof(struct deckle_config),
                                  .features = DECKLE_FEATURE_SHARED,
                                  .nr_cpus = 2,
                                  .ranges = ranges,
                                  .nr_ranges = 2,
                                  .max_clients = 5,
                                  .min_free_kbytes = UINT64_MAX,
                                  .dma_limit_pfn = UINT64_MAX,
                                  .dma32_limit_pfn = UINT64_MAX};
}

static void open_pool(struct shared_pool *p, unsigned clients)
{
    struct deckle_config cfg = plain();
    assert_int_equal(deckle_publish(shared_pool_make(p, &cfg)), DECKLE_OK);
    p->asks = true;
    for (unsigned i = 0; i < clients; i++)
        shared_join(p, i);
}

static void assert_sound(const struct shared_pool *p, unsigned i)
{
    char text[300];
    if (deckle_validate(p->client[i].d, text, sizeof(text)))
        fail_msg("%s", text);
}

static void assert_all_free(struct shared_pool *p, unsigned i)
{
    struct deckle_stat stat = {.size = sizeof(stat)};
    uint64_t free = 0, frames = 0;
    assert_int_equal(deckle_drain_all(p->client[i].d), DECKLE_OK);
    assert_sound(p, i);
    assert_int_equal(deckle_get_stat(p->client[i].d, &stat), DECKLE_OK);
    for (uint32_t z = 0; z < stat.nr_zones; z++) {
        struct deckle_zone_stat s = {.size = sizeof(s)};
        assert_int_equal(deckle_get_zone_stat(p->client[i].d, z, &s), DECKLE_OK);
        free += s.free;
        frames += s.managed;
    }
    assert_int_equal(free, frames);
}

static void kill_client(struct shared_pool *p, unsigned i)
{
    p->alive &= ~(UINT64_C(1) << p->client[i].number);
}

/* ---- configuration and life ------------------------------------------------------------------ */

static void configuration(void **state)
{
    struct deckle_config cfg = plain();
    const char *reason = NULL;
    (void)state;
    assert_int_equal(deckle_config_check(&cfg, &reason), DECKLE_OK);
    cfg.max_clients = 256;
    assert_int_equal(deckle_config_check(&cfg, &reason), DECKLE_EINVAL);
    assert_non_null(strstr(reason, "max_clients"));
    cfg.max_clients = 255;
    assert_int_equal(deckle_config_check(&cfg, NULL), DECKLE_OK);
    cfg.features |= DECKLE_FEATURE_DESCRIPTORS;
    assert_int_equal(deckle_config_check(&cfg, &reason), DECKLE_EINVAL);
    assert_non_null(strstr(reason, "DESCRIPTORS"));
    cfg.features = 0;
    assert_int_equal(deckle_config_check(&cfg, &reason), DECKLE_EINVAL);
    assert_non_null(strstr(reason, "max_clients"));
}

static void life(void **state)
{
    struct shared_pool p;
    struct deckle_config cfg = plain();
    struct deckle *maker = shared_pool_make(&p, &cfg), *d;
    const char *reason = NULL;
    (void)state;

    assert_string_equal(deckle_cache_kind(maker), "cells");
    assert_true(deckle_alloc(maker, GFP_U, 0) == DECKLE_EPERM);
    assert_int_equal(shared_attach(&p, 0, 0, &reason), DECKLE_EBUSY);
    assert_non_null(reason);
    assert_int_equal(deckle_reserve_range(maker, 4096, 3), DECKLE_OK);
    assert_int_equal(deckle_publish(NULL), DECKLE_EINVAL);
    assert_int_equal(deckle_publish(maker), DECKLE_OK);
    assert_int_equal(deckle_publish(maker), DECKLE_EINVAL);

    assert_int_equal(shared_attach(&p, 0, 0, &reason), DECKLE_OK);
    d = p.client[0].d;
    assert_int_equal(deckle_client(d), 0);
    assert_int_equal(deckle_publish(d), DECKLE_EINVAL);
    assert_int_equal(deckle_register(d, 0, NULL), DECKLE_EINVAL);
    assert_int_equal(deckle_register(d, 11, &p.client[0].number), DECKLE_OK);
    assert_int_equal(deckle_client(d), p.client[0].number);
    assert_int_equal(deckle_register(d, 11, NULL), DECKLE_EEXIST);
    assert_int_equal(deckle_add_range(d, &ranges[0]), DECKLE_ENOTSUP);
    assert_int_equal(deckle_online(d), DECKLE_ENOTSUP);
    assert_int_equal(deckle_reserve_range(d, 5000, 1), DECKLE_ENOTSUP);
    assert_int_equal(deckle_remove_range(d, ranges[1].pfn, ranges[1].nr), DECKLE_ENOTSUP);
    assert_int_equal(deckle_set_debug(d, DECKLE_DEBUG_STRICT), DECKLE_ENOTSUP);
    assert_true(deckle_exit(d, NULL) == 0);
    assert_int_equal(deckle_get(d, 4100), DECKLE_ENOTSUP);

    assert_true(deckle_alloc(d, GFP_U, 3) >= 0);
    assert_true(deckle_alloc(d, GFP_M, 9) >= 0);
    assert_sound(&p, 0);
    assert_int_equal(deckle_detach(d), 8 + 512);
    assert_int_equal(deckle_detach(d), DECKLE_EINVAL);
    assert_int_equal(deckle_register(d, 11, NULL), DECKLE_EINVAL);
    shared_join(&p, 1);
    assert_int_equal(p.client[1].number, 1);
    assert_all_free(&p, 1);
    shared_pool_end(&p);
}

static void a_private_pool_is_not_shared(void **state)
{
    struct shared_pool p;
    struct deckle_config cfg = plain();
    struct deckle *d;
    const char *reason = NULL;
    uint32_t n;
    (void)state;
    cfg.features = 0;
    cfg.max_clients = 0;
    d = shared_pool_make(&p, &cfg);
    assert_int_equal(deckle_publish(d), DECKLE_EINVAL);
    assert_int_equal(deckle_register(d, 1, &n), DECKLE_EINVAL);
    assert_int_equal(deckle_reap(d, 1, NULL), DECKLE_EINVAL);
    assert_int_equal(deckle_transfer(d, 4096, 0, 1), DECKLE_EINVAL);
    assert_int_equal(deckle_detach(d), DECKLE_EINVAL);
    assert_int_equal(deckle_recover(d, NULL), DECKLE_EINVAL);
    assert_int_equal(deckle_client(d), 0);
    assert_int_equal(shared_attach(&p, 0, 0, &reason), DECKLE_EINVAL);
    assert_non_null(strstr(reason, "not made to be shared"));
    shared_pool_end(&p);
}

/* ---- who may only look ----------------------------------------------------------------------- */

static void try_everything(struct deckle *d, uint64_t pfn)
{
    struct deckle_request r = {.size = sizeof(r), .gfp = GFP_U};
    uint64_t pfns[2] = {DECKLE_NO_PFN, DECKLE_NO_PFN};

    assert_true(deckle_alloc(d, GFP_U, 0) == DECKLE_EPERM);
    assert_true(deckle_alloc(d, GFP_U, 99) == DECKLE_EPERM);
    assert_true(deckle_alloc_request(d, &r) == DECKLE_EPERM);
    assert_true(deckle_alloc_bulk(d, GFP_U, pfns, 2) == DECKLE_EPERM);
    assert_true(deckle_alloc_exact(d, GFP_U, 5) == DECKLE_EPERM);
    assert_int_equal(deckle_alloc_at(d, GFP_U, pfn + 8, 0), DECKLE_EPERM);
    assert_true(deckle_alloc_contig(d, GFP_U, 5, 0, 0, 0) == DECKLE_EPERM);
    assert_int_equal(deckle_free(d, pfn, 0), DECKLE_EPERM);
    assert_int_equal(deckle_free_owned(d, pfn, 0, 1), DECKLE_EPERM);
    assert_int_equal(deckle_free_exact(d, pfn, 1), DECKLE_EPERM);
    pfns[0] = pfn;
    assert_int_equal(deckle_free_bulk(d, pfns, 1), 0);
    assert_int_equal(deckle_split(d, pfn, 0, 0), DECKLE_EPERM);
    assert_int_equal(deckle_drain_all(d), DECKLE_EPERM);
    assert_int_equal(deckle_drain_cpu(d, 0), DECKLE_EPERM);
    assert_int_equal(deckle_set_pageblock_type(d, pfn, DECKLE_CMA), DECKLE_EPERM);
    assert_int_equal(deckle_transfer(d, pfn, 0, 1), DECKLE_EPERM);
    assert_int_equal(deckle_reap(d, 1, NULL), DECKLE_EPERM);
}

static void discard(void *ctx, const char *text, size_t len)
{
    (void)ctx, (void)text, (void)len;
}

static void look_at_everything(struct deckle *d, uint64_t pfn)
{
    struct deckle_client_info info = {.size = sizeof(info)};
    struct deckle_stat stat = {.size = sizeof(stat)};
    char text[300];

    assert_int_equal(deckle_validate(d, text, sizeof(text)), DECKLE_OK);
    assert_int_equal(deckle_get_client(d, 1, &info), DECKLE_OK);
    assert_int_equal(deckle_get_stat(d, &stat), DECKLE_OK);
    assert_int_equal(deckle_block_order(d, pfn), 0);
    deckle_print_buddyinfo(d, discard, NULL);
    deckle_print_zoneinfo(d, discard, NULL);
    deckle_print_pagetypeinfo(d, discard, NULL);
    deckle_print_json(d, discard, NULL);
}

static void strangers_look_and_change_nothing(void **state)
{
    struct shared_pool p;
    int64_t pfn;
    (void)state;
    open_pool(&p, 1);
    pfn = deckle_alloc(p.client[0].d, GFP_U, 0);
    assert_true(pfn >= 0);
    unsigned char *before = malloc(p.size);
    for (unsigned read_only = 0; read_only < 2; read_only++) {
        assert_int_equal(shared_attach(&p, 1, 0, NULL), DECKLE_OK);
        memcpy(before, p.map[0], p.size);
        if (read_only) {
            assert_int_equal(mprotect(p.map[1], p.size, PROT_READ), 0);
            assert_int_equal(shared_attach(&p, 1, DECKLE_ATTACH_READ_ONLY, NULL), DECKLE_OK);
            assert_int_equal(deckle_register(p.client[1].d, 5, NULL), DECKLE_EPERM);
            assert_int_equal(deckle_recover(p.client[1].d, NULL), DECKLE_EPERM);
        }
        try_everything(p.client[1].d, (uint64_t)pfn);
        look_at_everything(p.client[1].d, (uint64_t)pfn);
        assert_int_equal(deckle_detach(p.client[1].d), 0);
        assert_memory_equal(before, p.map[0], p.size);
    }
    free(before);
    shared_pool_end(&p);
}

static void numbers_run_out_and_come_back(void **state)
{
    struct shared_pool p;
    struct deckle_client_info info = {.size = sizeof(info)};
    (void)state;
    open_pool(&p, 5);
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(p.client[i].number, i + 1);
    assert_int_equal(shared_attach(&p, 5, 0, NULL), DECKLE_OK);
    assert_int_equal(deckle_register(p.client[5].d, 9, NULL), DECKLE_ENOSPC);
    assert_int_equal(deckle_detach(p.client[2].d), 0);
    assert_int_equal(deckle_register(p.client[5].d, 9, &p.client[5].number), DECKLE_OK);
    assert_int_equal(p.client[5].number, 3);
    assert_int_equal(deckle_get_client(p.client[0].d, 3, &info), DECKLE_OK);
    assert_int_equal(info.generation, 2);
    assert_int_equal(info.identity, 9);
    assert_int_equal(info.state, DECKLE_CLIENT_LIVE);
    assert_int_equal(deckle_get_client(p.client[0].d, 6, &info), DECKLE_ENOENT);
    assert_int_equal(deckle_get_client(p.client[0].d, 0, &info), DECKLE_ENOENT);
    info.size = 4;
    assert_int_equal(deckle_get_client(p.client[0].d, 3, &info), DECKLE_EINVAL);
    shared_pool_end(&p);
}

/* Whoever dies between taking a number and saying that he lives can be reaped. */
static void half_registered(void **state)
{
    struct shared_pool p;
    struct deckle_client_info info = {.size = sizeof(info)};
    (void)state;
    open_pool(&p, 1);
    dk_store_release(&dk_client_at(p.client[0].d, 2)->identity, 1234);
    assert_int_equal(deckle_get_client(p.client[0].d, 2, &info), DECKLE_OK);
    shared_join(&p, 1);
    assert_int_equal(p.client[1].number, 3);
    assert_int_equal(deckle_reap(p.client[0].d, 2, NULL), DECKLE_OK);
    assert_int_equal(deckle_get_client(p.client[0].d, 2, &info), DECKLE_ENOENT);
    shared_join(&p, 2);
    assert_int_equal(p.client[2].number, 2);
    shared_pool_end(&p);
}

/* ---- whose frames ---------------------------------------------------------------------------- */

static void assert_refused(struct shared_client *c, enum deckle_bad what)
{
    assert_int_equal(c->reports, 1);
    assert_int_equal(c->last, what);
    c->reports = 0;
}

static void frees_of_others_frames_are_refused(void **state)
{
    struct shared_pool p;
    (void)state;
    open_pool(&p, 2);
    struct deckle *a = p.client[0].d, *b = p.client[1].d;
    for (unsigned order = 0; order <= 10; order++) {
        int64_t pfn = deckle_alloc(a, GFP_M, order);
        uint64_t frame = (uint64_t)pfn;
        assert_true(pfn >= 0);
        assert_int_equal(deckle_free(b, frame, order), DECKLE_EBADFREE);
        assert_refused(&p.client[1], DECKLE_BAD_OWNER);
        assert_int_equal(deckle_free_owned(b, frame, order, 1), DECKLE_EBADFREE);
        assert_refused(&p.client[1], DECKLE_BAD_OWNER);
        assert_int_equal(deckle_free_exact(b, frame, 1ull << order), DECKLE_EBADFREE);
        assert_refused(&p.client[1], DECKLE_BAD_OWNER);
        assert_int_equal(deckle_split(b, frame, order, 0), DECKLE_EBADFREE);
        assert_refused(&p.client[1], DECKLE_BAD_OWNER);
        assert_int_equal(deckle_transfer(b, frame, order, p.client[1].number), DECKLE_EPERM);
        if (!order) {
            assert_int_equal(deckle_free_bulk(b, &frame, 1), 0);
            assert_refused(&p.client[1], DECKLE_BAD_OWNER);
        }
        assert_int_equal(deckle_free(a, frame, order), DECKLE_OK);
        assert_int_equal(deckle_free(a, frame, order), DECKLE_EBADFREE);
        assert_refused(&p.client[0], DECKLE_BAD_DOUBLE_FREE);
    }
    assert_sound(&p, 0);
    assert_all_free(&p, 1);
    shared_pool_end(&p);
}

static void the_second_section_is_guarded_as_well(void **state)
{
    struct shared_pool p;
    (void)state;
    open_pool(&p, 2);
    assert_int_equal(deckle_alloc_at(p.client[0].d, GFP_U, ranges[0].pfn + 64, 2), DECKLE_OK);
    assert_int_equal(deckle_free(p.client[1].d, ranges[0].pfn + 64, 2), DECKLE_EBADFREE);
    assert_int_equal(deckle_alloc_at(p.client[0].d, GFP_U, ranges[1].pfn + 64, 2), DECKLE_OK);
    assert_int_equal(deckle_free(p.client[1].d, ranges[1].pfn + 64, 2), DECKLE_EBADFREE);
    assert_int_equal(p.client[1].reports, 2);
    assert_int_equal(deckle_free(p.client[0].d, ranges[0].pfn + 64, 2), DECKLE_OK);
    assert_int_equal(deckle_free(p.client[0].d, ranges[1].pfn + 64, 2), DECKLE_OK);
    assert_all_free(&p, 0);
    shared_pool_end(&p);
}

/* A client does not pop what another has cached, but can have it when memory is short. */
static void caches_are_ones_own_until_memory_is_short(void **state)
{
    struct shared_pool p;
    struct deckle_client_info info = {.size = sizeof(info)};
    (void)state;
    open_pool(&p, 2);
    struct deckle *a = p.client[0].d, *b = p.client[1].d;
    int64_t first = deckle_alloc(a, GFP_M, 0), n = 0, pfn;
    assert_int_equal(deckle_free(a, (uint64_t)first, 0), DECKLE_OK);
    assert_int_equal(deckle_get_client(b, 1, &info), DECKLE_OK);
    assert_true(info.cached > 0);
    assert_true(info.frames == info.cached);
    assert_int_equal(info.operations, 0);
    assert_true(deckle_alloc(b, GFP_M, 0) != first);
    for (n = 1; (pfn = deckle_alloc(b, GFP_M, 0)) >= 0; n++)
        continue;
    assert_int_equal(n, ranges[0].nr + ranges[1].nr);
    assert_true(pfn == DECKLE_ENOMEM);
    assert_int_equal(deckle_get_client(a, 1, &info), DECKLE_OK);
    assert_int_equal(info.frames, 0);
    assert_int_equal(deckle_get_client(a, 2, &info), DECKLE_OK);
    assert_int_equal(info.frames, n);
    assert_sound(&p, 0);
    assert_int_equal(deckle_detach(b), n);
    assert_all_free(&p, 0);
    shared_pool_end(&p);
}

static void transfer(void **state)
{
    struct shared_pool p;
    struct deckle_reap_report report = {.size = sizeof(report)};
    (void)state;
    open_pool(&p, 3);
    struct deckle *a = p.client[0].d, *b = p.client[1].d;
    static const unsigned orders[] = {0, 1, 5, 8, 9, 10};
    int64_t pfns[6];
    for (unsigned i = 0; i < 6; i++) {
        pfns[i] = deckle_alloc(a, GFP_M, orders[i]);
        assert_true(pfns[i] >= 0);
        uint64_t pfn = (uint64_t)pfns[i];
        assert_int_equal(deckle_transfer(a, pfn, orders[i], 4), DECKLE_ENOENT);
        assert_int_equal(deckle_transfer(a, pfn, orders[i], 0), DECKLE_ENOENT);
        assert_int_equal(deckle_transfer(a, pfn, orders[i], 200), DECKLE_ENOENT);
        assert_int_equal(deckle_transfer(a, pfn, orders[i], 1), DECKLE_OK); /* to itself */
        assert_int_equal(deckle_transfer(a, pfn, orders[i] + 1, 2), DECKLE_EBADFREE);
        assert_int_equal(p.client[0].reports, 1); /* wrong order, or misaligned for it */
        p.client[0].reports = 0;
        assert_int_equal(deckle_transfer(a, pfn, orders[i], 2), DECKLE_OK);
        assert_int_equal(deckle_transfer(a, pfn, orders[i], 3), DECKLE_EPERM);
        assert_int_equal(deckle_free(a, pfn, orders[i]), DECKLE_EBADFREE);
        assert_refused(&p.client[0], DECKLE_BAD_OWNER);
    }
    assert_int_equal(deckle_transfer(a, 1, 0, 2), DECKLE_EBADFREE);
    assert_refused(&p.client[0], DECKLE_BAD_FOREIGN);
    assert_sound(&p, 2);
    kill_client(&p, 0);
    assert_int_equal(deckle_reap(p.client[2].d, 1, &report), DECKLE_OK);
    assert_int_equal(report.in_use, 0);
    for (unsigned i = 0; i < 6; i++)
        assert_int_equal(deckle_block_order(b, (uint64_t)pfns[i]), (int)orders[i]);
    for (unsigned i = 0; i < 6; i++)
        assert_int_equal(deckle_free(b, (uint64_t)pfns[i], orders[i]), DECKLE_OK);
    assert_all_free(&p, 1);
    shared_pool_end(&p);
}

/* ---- reaping at rest ------------------------------------------------------------------------- */

static void reaping_has_its_errors(void **state)
{
    struct shared_pool p;
    struct deckle_reap_report report = {.size = sizeof(report)};
    struct deckle_client_info info = {.size = sizeof(info)};
    (void)state;
    open_pool(&p, 3);
    struct deckle *a = p.client[0].d;
    assert_int_equal(deckle_reap(NULL, 2, NULL), DECKLE_EINVAL);
    assert_int_equal(deckle_reap(a, 0, NULL), DECKLE_ENOENT);
    assert_int_equal(deckle_reap(a, 4, NULL), DECKLE_ENOENT);
    assert_int_equal(deckle_reap(a, 255, NULL), DECKLE_ENOENT);
    assert_int_equal(deckle_reap(a, 1, NULL), DECKLE_EBUSY);
    assert_int_equal(deckle_reap(a, 2, NULL), DECKLE_EBUSY); /* the host knows that it lives */
    report.size = 8;
    assert_int_equal(deckle_reap(a, 2, &report), DECKLE_EINVAL);
    report.size = sizeof(report);

    /* Another one reaps, and lives. */
    kill_client(&p, 1);
    dk_a32_store_release(&a->sb->reaper, 3 | 1 << 8); /* of generation 1 */
    assert_int_equal(deckle_reap(a, 2, &report), DECKLE_EBUSY);
    assert_int_equal(deckle_get_client(a, 2, &info), DECKLE_OK);
    assert_int_equal(info.state, DECKLE_CLIENT_DEAD);
    assert_int_equal(deckle_detach(a), DECKLE_EBUSY);
    kill_client(&p, 2);
    assert_int_equal(deckle_reap(a, 2, &report), DECKLE_OK);
    assert_int_equal(deckle_reap(a, 2, &report), DECKLE_ENOENT);
    assert_int_equal(deckle_get_client(a, 3, &info), DECKLE_OK);
    assert_int_equal(info.state, DECKLE_CLIENT_DEAD); /* found dead while it reaped */
    assert_int_equal(deckle_reap(a, 3, &report), DECKLE_OK);
    assert_all_free(&p, 0);
    shared_pool_end(&p);
}

static void what_the_dead_held_is_counted(void **state)
{
    struct shared_pool p;
    struct deckle_reap_report report = {.size = sizeof(report)};
    struct deckle_client_info info = {.size = sizeof(info)};
    (void)state;
    open_pool(&p, 2);
    struct deckle *a = p.client[0].d, *b = p.client[1].d;
    int64_t mine = deckle_alloc(b, GFP_U, 4);
    for (unsigned order = 0; order <= 10; order++)
        assert_true(deckle_alloc(a, order & 1 ? GFP_U : GFP_M, order) >= 0);
    assert_int_equal(deckle_get_client(b, 1, &info), DECKLE_OK);
    assert_int_equal(info.frames - info.cached, 2047);
    kill_client(&p, 0);
    assert_int_equal(deckle_reap(b, 1, &report), DECKLE_OK);
    assert_int_equal(report.in_use, 2047);
    assert_int_equal(report.cached, info.cached);
    assert_int_equal(report.in_flight, 0);
    assert_int_equal(report.recounted, 0);
    assert_int_equal(report.deferred, 0);
    assert_int_equal(report.size, sizeof(report));
    assert_int_equal(deckle_block_order(b, (uint64_t)mine), 4);
    assert_sound(&p, 1);
    /* The dead, if it lived after all, would find itself locked out where it asks. */
    assert_int_equal(deckle_reap(a, 2, NULL), DECKLE_EPERM);
    assert_int_equal(deckle_free(b, (uint64_t)mine, 4), DECKLE_OK);
    assert_all_free(&p, 1);
    shared_pool_end(&p);
}

/* ---- no slot --------------------------------------------------------------------------------- */

static void fill_slots(struct deckle *d, dk_word with)
{
    for (uint32_t i = 0; i < d->sb->nr_intents; i++)
        dk_store_release(&d->intents[i], with);
}

/* As many operations in flight as there are slots: requests fail and change nothing, frees succeed
 * and close their pageblocks until a slot is free again. */
static void without_slots(void **state)
{
    struct shared_pool p;
    (void)state;
    open_pool(&p, 1);
    struct deckle *d = p.client[0].d;
    struct deckle_request r = {.size = sizeof(r), .gfp = GFP_M, .flags = DECKLE_REQ_NO_CACHE};
    int64_t pfns[12];
    for (unsigned order = 0; order <= 10; order++) {
        r.order = order;
        pfns[order] = deckle_alloc_request(d, &r);
        assert_true(pfns[order] >= 0);
    }
    r.order = 0;
    assert_int_equal(deckle_drain_all(d), DECKLE_OK);
    fill_slots(d, 1 | ~DK_INTENT_BELOW);
    uint64_t failures = d->sb->failures[-DECKLE_ECONTENDED].lo;
    assert_true(deckle_alloc_request(d, &r) == DECKLE_ECONTENDED);
    assert_true(d->sb->failures[-DECKLE_ECONTENDED].lo == failures + 1);
    assert_int_equal(deckle_alloc_at(d, GFP_U, ranges[1].pfn + 100, 0), DECKLE_ECONTENDED);
    assert_int_equal(deckle_set_pageblock_type(d, ranges[1].pfn, DECKLE_CMA), DECKLE_ECONTENDED);
    for (unsigned order = 0; order <= 10; order++)
        assert_int_equal(deckle_free(d, (uint64_t)pfns[order], order), DECKLE_OK);
    deckle_drain_all(d);
    fill_slots(d, 0);
    assert_sound(&p, 0);
    assert_all_free(&p, 0); /* drains, which counts closed blocks again */
    assert_int_equal(p.client[0].reports, 0);
    shared_pool_end(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(configuration),
        cmocka_unit_test(life),
        cmocka_unit_test(a_private_pool_is_not_shared),
        cmocka_unit_test(strangers_look_and_change_nothing),
        cmocka_unit_test(numbers_run_out_and_come_back),
        cmocka_unit_test(half_registered),
        cmocka_unit_test(frees_of_others_frames_are_refused),
        cmocka_unit_test(the_second_section_is_guarded_as_well),
        cmocka_unit_test(caches_are_ones_own_until_memory_is_short),
        cmocka_unit_test(transfer),
        cmocka_unit_test(reaping_has_its_errors),
        cmocka_unit_test(what_the_dead_held_is_counted),
        cmocka_unit_test(without_slots),
    };
    if (!shared_is_possible()) {
        printf("skipped: shared pools need 64-bit words\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}

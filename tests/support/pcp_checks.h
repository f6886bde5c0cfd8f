/* SPDX-License-Identifier: MIT */
/* What tests of the per-CPU caches ask of a fixture. Include cmocka.h and pcp_fixture.h first. */
#ifndef DECKLE_TESTS_SUPPORT_PCP_CHECKS_H
#define DECKLE_TESTS_SUPPORT_PCP_CHECKS_H

#define LIST0 0u                            /* order 0, Movable */
#define FRAMES (1u << 20)

static const enum dk_pcp_kind kinds[] = {DK_PCP_CELLS, DK_PCP_RSEQ};

#define FOR_EACH_KIND(kind)                                                                        \
    for (unsigned k_ = 0; k_ < 2; k_++)                                                            \
        for (enum dk_pcp_kind kind = kinds[k_]; kind && fixture_has(kind); kind = DK_PCP_NONE)

static inline struct dk_pcp_list_head *head_of(struct fixture *f, uint32_t cpu, unsigned list)
{
    return dk_pcp_head(&f->d, dk_set(&f->d, 0, cpu), list);
}

static inline struct dk_pcp_list_stat stat_of(struct fixture *f, uint32_t cpu, unsigned list)
{
    struct dk_pcp_list_stat s;
    dk_pcp_list_stat(&f->d, 0, cpu, list, &s);
    return s;
}

static inline uint64_t held(struct fixture *f)
{
    uint64_t frames = 0;
    for (uint32_t cpu = 0; cpu < f->d.nr_cpus; cpu++)
        for (unsigned list = 0; list < DK_PCP_LISTS; list++)
            frames += stat_of(f, cpu, list).held << (list / DK_PCP_TYPES);
    return frames;
}

/* pages_high is the sum of the highs and within the budget; no list holds more than its slots. */
static inline void assert_sizes(struct fixture *f)
{
    for (uint32_t cpu = 0; cpu < f->d.nr_cpus; cpu++) {
        uint64_t sum = 0;
        for (unsigned list = 0; list < DK_PCP_LISTS; list++) {
            struct dk_pcp_list_stat s = stat_of(f, cpu, list);
            assert_true(s.high <= s.capacity && s.held <= s.capacity);
            sum += (uint64_t)s.high << (list / DK_PCP_TYPES);
        }
        assert_int_equal(sum, dk_a32_load_relaxed(&dk_set(&f->d, 0, cpu)->pages_high));
        assert_true(sum <= dk_a32_load_relaxed(&f->zone.high_max));
    }
}

/* Take n frames out of the shared level and push them into the list of this CPU. */
static inline void fill(struct fixture *f, unsigned list, uint32_t *fis, unsigned n)
{
    assert_int_equal(fixture_take(f, list / DK_PCP_TYPES, fis, n), n);
    for (unsigned i = 0; i < n; i++)
        assert_true(dk_pcp_push(&f->d, 0, list, fis[i]));
}

static inline void set_high(struct fixture *f, uint32_t cpu, unsigned list, uint32_t high)
{
    struct dk_pcp_list_head *lh = head_of(f, cpu, list);
    struct dk_pcp_set *set = dk_set(&f->d, 0, cpu);
    unsigned order = list / DK_PCP_TYPES;
    uint32_t old = dk_pcp_high(lh);
    dk_a32_store_relaxed(&lh->high, (dk_a32_load_relaxed(&lh->high) & ~DK_HIGH_ENTRIES) | high);
    dk_a32_add_relaxed(&set->pages_high, (high << order) - (old << order));
}

struct tally {
    uint64_t allocs, frees, direct_allocs;
};

/* Blocks popped and pushed, as the lists and the sets have counted them. */
static inline void assert_tally(struct fixture *f, const struct tally *t)
{
    uint64_t pops = 0, pushes = 0;
    for (uint32_t cpu = 0; cpu < f->d.nr_cpus; cpu++) {
        for (unsigned list = 0; list < DK_PCP_LISTS; list++) {
            struct dk_pcp_list_stat s = stat_of(f, cpu, list);
            pops += s.pops;
            pushes += s.pushes;
        }
        for (unsigned order = 0; order <= 10; order++)
            pushes += dk_counter_read(&dk_set(&f->d, 0, cpu)->direct_frees[order]);
    }
    assert_int_equal(pops + t->direct_allocs, t->allocs);
    assert_int_equal(pushes, t->frees);
}

#endif

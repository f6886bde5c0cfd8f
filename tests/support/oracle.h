/* SPDX-License-Identifier: MIT */
/*
 * An oracle for the allocator: one entry a frame, obvious and slow. It is told what the pool was
 * asked and what the pool answered, and says whether that was right.
 *
 * An operation is a struct of numbers that do not depend on earlier answers, so a sequence replays,
 * and it prints itself as C: a failure pastes into test_oracle.c's table of regressions.
 */
#ifndef DECKLE_TESTS_SUPPORT_ORACLE_H
#define DECKLE_TESTS_SUPPORT_ORACLE_H

#include <deckle.h>
#include <stdbool.h>
#include <stdint.h>

enum op_kind {
    OP_ALLOC, OP_FREE, OP_BULK, OP_FREE_BULK, OP_EXACT, OP_AT, OP_CONTIG, OP_SPLIT, OP_DRAIN,
    OP_WRONG_FREE, OP_ISOLATE, OP_LIMIT, OP_KINDS
};

struct op {
    uint32_t kind, a, b, c;
};

/* A frame: how it stands. */
enum oracle_frame { ORACLE_ABSENT, ORACLE_RESERVED, ORACLE_FREE, ORACLE_HEAD, ORACLE_TAIL };

struct oracle {
    uint64_t base, nr;      /* pfns that it knows: [base, base + nr) */
    uint8_t *frame;         /* enum oracle_frame */
    uint8_t *order;         /* of heads */
    uint8_t *zone;          /* zone type */
    uint64_t *live;         /* heads of live blocks, in no order */
    uint32_t nr_live;
    unsigned max_order;
};

/* The map of a pool: what was added and what was reserved. */
struct oracle_map {
    struct deckle_config cfg;
    struct deckle_range ranges[8];
    uint32_t nr_ranges;
    struct { uint64_t pfn, nr; } reserved[8];
    uint32_t nr_reserved;
};

void oracle_map_random(struct oracle_map *map, uint64_t *random, unsigned page_shift);
void oracle_map_print(const struct oracle_map *map);
struct oracle *oracle_new(const struct oracle_map *map);
void oracle_delete(struct oracle *o);

/* Metadata from malloc, zeroed and aligned; freed by pool_delete. */
struct deckle *pool_new(const struct oracle_map *map, const struct deckle_host *host,
                        void **memory);

struct op op_random(uint64_t *random, uint32_t kinds);
void op_print(const struct op *op);
/* Do it on both. NULL, or what is wrong. */
const char *op_run(struct deckle *d, struct oracle *o, const struct op *op);

#endif

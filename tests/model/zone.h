/* SPDX-License-Identifier: MIT */
/*
 * The model of the shared level: pageblocks, their words W, the index and groups, scaled down. It
 * follows src/core/{block,zone,group,index}.c access by access; a block has at most 8 frames in
 * words of 1, 2 or 4 bits, so that runs inside a word (orders 0-6 of the library), runs over
 * several words (7 and 8) and whole blocks (9) all exist, and an index word has 1-4 children.
 *
 * What is left out: types and ownership (a change of class like any other), counters, address
 * limits, and several spans (more roots).
 */
#ifndef MODEL_ZONE_H
#define MODEL_ZONE_H

#include <stdbool.h>
#include <stdint.h>

#include "checker.h"

#define MAX_BLOCKS  5
#define MAX_TREES   4
#define MAX_LEVELS  3
#define TREE_WORDS  6
#define MAX_THREADS 4
#define MAX_OPS     4

#define NOTHING 0xff /* no tree, no item */

/* W. run: order + 1 of the largest free run, 0 = none. */
struct w {
    uint8_t used, run, flags, version;
};
enum { WHOLE = 1, ISOLATED = 2, OFFLINE = 4 };

/* An index word: children in bits 0-3, CLEARING, version above. */
#define IX_CHILDREN 15u
#define IX_CLEARING 16u
#define IX_VERSION  32u

enum { RES_NONE, RES_TAKEN, RES_EMPTY, RES_CONTENDED };

struct thread {
    /* where it is: one program counter for each level of calls */
    uint8_t op, pc, pc_take, pc_part, pc_claim, pc_settle, pc_give, pc_group, pc_move;
    uint8_t pc_index, pc_child, pc_find;
    /* one call: the search */
    uint8_t result, tries, tree, item, start, pass, shown;
    uint8_t sum[2];
    /* one block */
    uint8_t block, need, mask, got, first, i, k, line, taken, lost, g_i;
    struct w from, to, before, lowered;
    /* index: move, set and clear, find */
    uint8_t m_block, m_j, m_i, m_others;
    struct w m_from, m_to;
    uint8_t x_tree, x_child, x_level, x_tries, x_i, x_full, x_early;
    uint8_t f_level, f_pos, f_within, f_descended;
    uint16_t x_word, x_ahead;
    /* for the properties, not for the protocol */
    uint8_t attached;      /* blocks that its unfinished operation works on */
    uint8_t reserved, cleared; /* frames of `block` counted as used that are in nobody's hands */
    uint8_t empty_instant; /* rule 6: since the call began there was nothing to find once */
    uint8_t buffer;        /* bits of `block` that it has set, for itself only so far */
    uint8_t held[MAX_BLOCKS];
};

struct world {
    uint8_t line[MAX_BLOCKS]; /* a set bit = used */
    uint8_t splitting;
    struct w W[MAX_BLOCKS];
    uint16_t tree[MAX_TREES][TREE_WORDS];
    struct thread th[MAX_THREADS + 1]; /* the one after the last is the prober */
};

enum op_kind {
    OP_NONE,
    OP_TAKE,      /* arg: order */
    OP_TAKE_AT,   /* arg: block; one frame of it, without a search */
    OP_PROVE,     /* arg: order; only the proof that nothing of it is there */
    OP_GIVE,      /* all that the thread holds, block by block */
    OP_GIVE_PART, /* arg: frames of block 0, after the block was split */
    OP_SPLIT,     /* the whole block that it holds */
    OP_ISOLATE,   /* arg: block */
    OP_OFFLINE,
    OP_REJOIN /* end isolation */
};
struct op {
    uint8_t kind, arg;
};

/* Planted bugs, each a simpler protocol than the one that holds. */
enum zone_bug {
    BUG_ADD_BEFORE_CLEAR = 1, /* give adds to the count before it clears the bits */
    BUG_GIVE_SCAN_EARLY,      /* its scan is done before its clear is visible */
    BUG_GIVE_OLD_WORDS,       /* it scans the values that its clears returned */
    BUG_GIVE_NO_VERSION,      /* it leaves the version as it is */
    BUG_LOWER_UNUSED,         /* a block that is entirely free is lowered by a scan */
    BUG_LOWER_FRESH,          /* the run is lowered against a W read after the scan */
    BUG_NO_RECHECK,           /* no version at all, and no recheck after lowering */
    BUG_RECHECK_WHOLE,        /* the recheck raises the run of a block that was taken whole */
    BUG_UNDO_BARE,            /* an undo only subtracts what it had reserved */
    BUG_UNDO_UNSEEN,          /* an undo back to the old class leaves the index alone */
    BUG_ROLLBACK_UNSEEN,      /* words of a lost run are cleared, but no full give follows */
    BUG_SPLIT_EARLY,          /* WHOLE is dropped before the bits are set */
    BUG_SPLIT_UNORDERED,      /* WHOLE is dropped while the bits are in the store buffer */
    BUG_WHOLE_BY_BITS,        /* a block is taken whole because its bits are clear */
    BUG_OFFLINE_BY_BITS,      /* a block goes offline because its bits are clear */
    BUG_ISOLATE_STORE,        /* the flag is stored instead of CASed */
    BUG_CLEAR_WITHOUT_MARK,   /* set before, clear after, look again once */
    BUG_CLEAR_ONE_BIT,        /* the last step clears the bit whatever the word has become */
    BUG_CLEAR_CHILD_EARLY,    /* the clearer's child load before its mark is visible */
    BUG_SET_PARENT_EARLY,     /* the setter's parent load before its child bit is visible */
    BUG_SET_STOPS,            /* a setter that finds its bit set does not look at the parents */
    BUG_SET_IGNORES_MARK,     /* bit set: go up, CLEARING or not */
    BUG_NO_INDEX_VERSION,     /* index words have no version */
    BUG_MARK_NO_VERSION,      /* a mark leaves the version as it is */
    BUG_ROOTS_ONCE,           /* empty after one look at the roots */
    BUG_ROOTS_TWICE_BARE,     /* two looks, versions not compared */
    BUG_GROUP_LOOK_EARLY,     /* the others of a group are read before the own W is changed */
    BUG_GROUP_ROLLBACK_UNSEEN /* what a lost group gives back is not shown as a group */
};

struct zone_case {
    const char *name, *says;
    uint8_t blocks, word_bits, words; /* frames of a block = word_bits * words */
    uint8_t plain;        /* blocks without bits: W only, the run follows from the count */
    uint8_t fanout;       /* children of an index word; 0 = no index, block 0 only */
    uint8_t groups;       /* orders above a block: 0 … 2 */
    uint8_t version_bits; /* of W */
    uint8_t recheck;      /* after lowering */
    uint8_t remark;       /* clear: how often to mark again when the last step fails */
    uint8_t tries;        /* searches before CONTENDED */
    uint8_t shut;         /* blocks that are offline from the start */
    uint8_t threads;
    struct op script[MAX_THREADS][MAX_OPS];
    uint8_t held[MAX_THREADS][MAX_BLOCKS]; /* frames in a thread's hands from the start */
    uint8_t whole[MAX_THREADS];            /* blocks that it holds whole */
    uint8_t probe[3];                      /* order + 1 */
    uint8_t any_start; /* scans choose among all candidates instead of the lowest */
    uint32_t limit;
    uint8_t acyclic;
};

extern const struct zone_case *zc;
extern enum zone_bug zone_bug;

/* Derived from the case. */
struct tree_shape {
    uint8_t levels, items, offset[MAX_LEVELS], count[MAX_LEVELS];
};
struct shape {
    unsigned frames, order; /* of a block */
    uint8_t all;            /* all bits of a line */
    struct tree_shape tree[MAX_TREES];
    unsigned trees;
};
extern struct shape zs;

/* zone.c: pure helpers */
unsigned run_of(unsigned line); /* order + 1 of the largest aligned free run */
bool w_same(struct w a, struct w b);
unsigned w_class(struct w w); /* tree that shows the block, or NOTHING */
bool w_groupable(struct w w);
struct w w_reserve(struct w w, unsigned n);
struct w w_give(struct w w, unsigned n, unsigned run);
uint16_t *index_word(struct world *s, unsigned tree, unsigned level, unsigned child);
static inline unsigned index_bit(unsigned child)
{
    return 1u << child % zc->fanout;
}

/* zone_index.c */
void begin_move(struct thread *t, unsigned block, struct w from, struct w to);
bool co_move(struct world *s, struct thread *t);
bool co_repair(struct world *s, struct thread *t); /* t->tree, t->item */
bool co_find(struct world *s, struct thread *t);   /* t->tree, t->start -> t->item */
bool co_was_empty(struct world *s, struct thread *t, unsigned order); /* -> t->shown */

/* zone_block.c: all on t->block */
bool co_take_part(struct world *s, struct thread *t, unsigned order);  /* -> t->taken */
bool co_take_whole(struct world *s, struct thread *t);                 /* -> t->taken */
bool co_take_group(struct world *s, struct thread *t, unsigned order); /* t->item -> t->taken */
bool co_give_part(struct world *s, struct thread *t, unsigned mask);
bool co_give_whole(struct world *s, struct thread *t);
bool co_split(struct world *s, struct thread *t);
bool co_flag(struct world *s, struct thread *t, unsigned kind); /* OP_ISOLATE … OP_REJOIN */

/* zone_cases.c */
extern const struct zone_case zone_cases[];
extern const unsigned zone_case_count;
extern const struct plant zone_plants[];
extern const unsigned zone_plant_count;

void zone_setup(const struct zone_case *c, enum zone_bug bug, struct model *m);

#endif

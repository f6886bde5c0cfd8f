/* SPDX-License-Identifier: MIT */
/*
 * Which threads meet in the model of the shared level, and which simpler protocols it must refuse.
 *
 * The case beside a planted bug is a small one that shows it; most are found in others as well.
 */
#include "zone.h"

#define T(order)  {OP_TAKE, order}
#define AT(block) {OP_TAKE_AT, block}
#define PROVE(o)  {OP_PROVE, o}
#define GIVE      {OP_GIVE, 0}
#define SPLIT     {OP_SPLIT, 0}
#define PART(m)   {OP_GIVE_PART, m}
#define ISOLATE   {OP_ISOLATE, 0}
#define GO_OFF    {OP_OFFLINE, 0}
#define REJOIN    {OP_REJOIN, 0}

/* One block without an index. */
#define ONE_BLOCK(bits, n)                                                                         \
    .blocks = 1, .word_bits = bits, .words = n, .version_bits = 8, .tries = 1, .acyclic = 1,       \
    .limit = 6000000
/* Blocks that are only a count of frames, in an index with words of so many children. */
#define COUNTS(n, frames, children)                                                                \
    .blocks = n, .word_bits = 1, .words = frames, .plain = 1, .fanout = children,                  \
    .version_bits = 8, .tries = 2, .remark = 2, .acyclic = 1, .limit = 6000000
/* Blocks with bits, in an index. */
#define BLOCKS(n, bits, w, children)                                                               \
    .blocks = n, .word_bits = bits, .words = w, .fanout = children, .version_bits = 8, .tries = 2, \
    .remark = 2, .acyclic = 1, .limit = 6000000

const struct zone_case zone_cases[] = {
    {"block.word", "runs inside a word, taken and given", ONE_BLOCK(4, 1), .threads = 4,
     .any_start = 1, .script = {{T(0), GIVE}, {T(1), GIVE}, {GIVE}, {GIVE}},
     .held = {{0}, {0}, {4}, {8}}},
    {"block.span", "runs over words (as orders 7 and 8), single frames between", ONE_BLOCK(1, 4),
     .threads = 4, .script = {{T(1)}, {T(0)}, {GIVE}, {GIVE}}, .held = {{0}, {0}, {8}, {2}}},
    {"block.lost", "an order 8 and an order 7 over the same words", ONE_BLOCK(1, 8), .threads = 3,
     .script = {{T(2)}, {T(1)}, {GIVE}}, .held = {{0}, {0}, {0xf0}}},
    {"block.give", "gives of several words that complete a run together", ONE_BLOCK(2, 4),
     .threads = 3, .script = {{GIVE}, {GIVE}, {T(0)}}, .held = {{0x3c}, {0xc3}}},
    {"block.whole", "order 9: taken whole, split, freed in pieces by two", ONE_BLOCK(2, 2),
     .threads = 3, .script = {{T(2), SPLIT, PART(3)}, {PART(8), T(0)}, {T(0), GIVE}}},
    {"block.offline", "isolated, taken offline or joined again", ONE_BLOCK(2, 1), .threads = 4,
     .script = {{ISOLATE, GO_OFF, REJOIN}, {T(0), GIVE}, {T(1), GIVE}, {T(0)}}},
    {"block.small", "32-bit words: a version that never helps, and the recheck", .blocks = 1,
     .word_bits = 4, .words = 1, .recheck = 1, .tries = 1, .acyclic = 1, .limit = 6000000,
     .threads = 4, .script = {{T(0), GIVE}, {T(1)}, {GIVE}, {GIVE}}, .held = {{0}, {0}, {4}, {8}}},
    {"block.small9", "the recheck against a block that is taken whole meanwhile", .blocks = 1,
     .word_bits = 4, .words = 1, .recheck = 1, .tries = 1, .acyclic = 1, .limit = 6000000,
     .threads = 4, .script = {{T(0), GIVE}, {T(1)}, {T(2), GIVE}, {GIVE}},
     .held = {{0}, {0}, {0}, {12}}},

    {"index.leaf", "one word, blocks wander between two classes", COUNTS(2, 2, 4), .threads = 3,
     .probe = {1, 2}, .script = {{T(0), GIVE}, {T(0), GIVE}, {GIVE, T(1)}},
     .held = {{0}, {0}, {0, 2}}},
    {"index.two", "two levels", COUNTS(4, 2, 2), .threads = 3, .probe = {1, 2}, .shut = 8,
     .script = {{T(0)}, {GIVE}, {GIVE, T(1)}}, .held = {{0}, {2}, {0, 2, 1}}},
    {"index.three", "three levels", COUNTS(5, 1, 2), .threads = 4, .probe = {1}, .shut = 12,
     .script = {{T(0)}, {T(0)}, {GIVE}, {GIVE}}, .held = {{0}, {0}, {1}, {0, 0, 0, 0, 1}}},
    {"index.fail", "searches that come too late", COUNTS(2, 2, 4), .threads = 3, .probe = {1, 2},
     .script = {{T(0)}, {T(0), GIVE}, {T(0), GIVE}}, .held = {{0}, {1}, {0, 1}}},
    {"index.prove", "the proof of emptiness against blocks that change places", COUNTS(2, 2, 4),
     .threads = 3, .probe = {1, 2},
     .script = {{PROVE(0)}, {AT(0), GIVE, AT(0)}, {AT(1), GIVE, AT(1)}}},
    {"index.isolate", "a block leaves the index and comes back", COUNTS(2, 2, 2), .threads = 3,
     .probe = {1, 2}, .script = {{ISOLATE, REJOIN}, {T(0), GIVE}, {GIVE, T(1)}},
     .held = {{0}, {0}, {1, 2}}},

    {"group.two", "a pair of blocks as one order", COUNTS(2, 1, 4), .groups = 1, .threads = 3,
     .probe = {1, 2}, .script = {{T(1), GIVE}, {T(0)}, {GIVE}}, .held = {{0}, {0}, {1}}},
    {"group.four", "two group orders, takers that overlap", COUNTS(4, 1, 4), .groups = 2,
     .threads = 3, .probe = {1, 2, 3}, .script = {{T(1)}, {T(2)}, {GIVE}},
     .held = {{0}, {0}, {0, 1}}},

    {"zone.bits", "bits, W and index together", BLOCKS(2, 2, 1, 4), .threads = 3, .probe = {1, 2},
     .script = {{T(0)}, {GIVE, T(0)}, {GIVE}}, .held = {{0}, {1}, {0, 2}}},
    {"zone.undo", "a run that is gone when it is claimed", BLOCKS(1, 4, 1, 4), .threads = 3,
     .probe = {1, 2}, .script = {{T(1)}, {T(0)}, {GIVE}}, .held = {{0}, {0}, {0xc}}},
    {"zone.span", "the same over several words", BLOCKS(1, 1, 4, 4), .threads = 2,
     .probe = {1, 2, 3}, .script = {{T(1), GIVE}, {T(0), GIVE}}},

    {"long.span", "runs over words, a search and an index", BLOCKS(2, 1, 4, 4), .threads = 3,
     .probe = {1, 2, 3}, .script = {{T(1)}, {T(0)}, {GIVE}}, .held = {{0}, {0}, {2, 8}}},
    {"long.whole", "block.whole with one more thread", ONE_BLOCK(2, 2), .threads = 4,
     .script = {{T(2), SPLIT, PART(3)}, {PART(12), T(0)}, {T(0), GIVE}, {T(1)}}},
    {"long.word", "block.word over words", ONE_BLOCK(1, 4), .threads = 3,
     .script = {{T(1), GIVE}, {T(0)}, {GIVE, T(0)}}, .held = {{0}, {0}, {8}}},
    {"long.group", "group.two with longer scripts", COUNTS(2, 1, 4), .groups = 1, .threads = 3,
     .probe = {1, 2}, .script = {{T(1), GIVE}, {T(0), GIVE}, {GIVE}}, .held = {{0}, {0}, {1}}},
};
const unsigned zone_case_count = sizeof zone_cases / sizeof zone_cases[0];

const struct plant zone_plants[] = {
    {BUG_ADD_BEFORE_CLEAR, "counter added before the bits are cleared", "block.word", true},
    {BUG_GIVE_SCAN_EARLY, "give's scan before its clear is visible", "block.give", true},
    {BUG_GIVE_OLD_WORDS, "give scans what its clears returned", "block.give", true},
    {BUG_GIVE_NO_VERSION, "run lowered without a version", "block.word", true},
    {BUG_LOWER_UNUSED, "a block that became free is lowered by a scan", "block.word", true},
    {BUG_LOWER_FRESH, "run lowered against a W read after the scan", "block.word", true},
    {BUG_NO_RECHECK, "no version and no recheck after lowering", "block.small", true},
    {BUG_RECHECK_WHOLE, "recheck that does not look for WHOLE", "block.small9", true},
    {BUG_UNDO_BARE, "undo that is not a full give", "block.span", true},
    {BUG_ROLLBACK_UNSEEN, "rolled-back words without a full give", "block.span", true},
    {BUG_UNDO_UNSEEN, "undo to the old class that leaves the index alone", "zone.span", true},
    {BUG_SPLIT_EARLY, "split drops WHOLE before the bits are set", "block.whole", true},
    {BUG_SPLIT_UNORDERED, "split drops WHOLE before the bits are visible", "block.whole", true},
    {BUG_WHOLE_BY_BITS, "block taken whole because its bits are clear", "block.whole", true},
    {BUG_OFFLINE_BY_BITS, "block offline because its bits are clear", "block.offline", true},
    {BUG_ISOLATE_STORE, "isolation stored, not CASed", "block.offline", true},
    {BUG_CLEAR_WITHOUT_MARK, "set before, clear after, look again once", "index.two", true},
    {BUG_CLEAR_ONE_BIT, "bit cleared whatever the word has become", "index.two", true},
    {BUG_CLEAR_CHILD_EARLY, "clearer's child load before its mark", "index.two", true},
    {BUG_SET_PARENT_EARLY, "setter's parent load before its child", "index.two", true},
    {BUG_SET_STOPS, "parent not re-read when the child bit is set", "index.two", true},
    {BUG_SET_IGNORES_MARK, "setter that ignores CLEARING", "index.two", true},
    {BUG_NO_INDEX_VERSION, "index words without a version", "index.two", true},
    {BUG_MARK_NO_VERSION, "mark without a version (set has one)", "index.two", false},
    {BUG_ROOTS_ONCE, "roots read once", "index.prove", true},
    {BUG_ROOTS_TWICE_BARE, "roots read twice, versions not compared", "index.prove", true},
    {BUG_GROUP_LOOK_EARLY, "the others of a group read before the own W", "group.two", true},
    {BUG_GROUP_ROLLBACK_UNSEEN, "a lost group given back unseen", "group.four", true},
};
const unsigned zone_plant_count = sizeof zone_plants / sizeof zone_plants[0];

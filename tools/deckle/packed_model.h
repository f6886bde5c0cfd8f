/* SPDX-License-Identifier: MIT */
/*
 * What makes packed traces small: a model of the allocator that recorded them, driven by the events
 * themselves, equal in the writer and in the reader.
 *
 *   - The frame that an allocation returns is guessed: the per-CPU list is a stack, so it is the
 *     frame freed last by the same CPU, with the same order, whose last owner had the same
 *     migratetype. Frames that went elsewhere in the meantime are dropped from the stack unseen.
 *   - The frame that a free gives back is named by the number of the allocation it ends. Numbers of
 *     blocks freed one after another mostly follow each other.
 *   - What cannot be said so is a difference to the last pfn of its kind.
 *
 * Cost: amortised constant per event. Memory: 24 bytes and a half for each block ever seen, 16 for
 * each free one, 8 for each of the last PACKED_WINDOW allocations, about 9 KiB per CPU; the limit
 * given to packed_model_new is kept.
 */
#ifndef DECKLE_TOOLS_PACKED_MODEL_H
#define DECKLE_TOOLS_PACKED_MODEL_H

#include "trace.h"

#define PACKED_WINDOW (UINT64_C(1) << 20) /* allocations that a free can name */

struct packed_model;

/* NULL when memory runs out. */
struct packed_model *packed_model_new(uint64_t max_memory);
void packed_model_free(struct packed_model *m);

/* The pfn that this CPU's next allocation will probably return; false if there is no guess or, with
 * packed_model_failed true, no memory. */
bool packed_model_guess(struct packed_model *m, uint32_t cpu, uint8_t order, uint8_t migratetype,
                        uint64_t *pfn);

/* Number of the allocation that made pfn live; false if there is none within the window. */
bool packed_model_number(struct packed_model *m, uint64_t pfn, uint64_t *number);

/* The reverse; false if that allocation is out of the window or does not exist, or its block is not
 * live any more. */
bool packed_model_block(struct packed_model *m, uint64_t number, uint64_t *pfn);

/* What differences refer to. A guess of where the next one of its kind lies. */
uint64_t packed_model_next_alloc(struct packed_model *m, uint32_t cpu, uint8_t order);
uint64_t packed_model_next_number(struct packed_model *m, uint32_t cpu);
uint64_t packed_model_next_free(struct packed_model *m, uint32_t cpu);

/* Tell what happened. named: the free was written as a number, and that number. False when memory
 * ran out or the limit is reached (packed_model_failed). */
bool packed_model_alloc(struct packed_model *m, uint32_t cpu, uint8_t order, uint8_t migratetype,
                        uint64_t pfn);
bool packed_model_freed(struct packed_model *m, uint32_t cpu, uint8_t order, uint64_t pfn,
                        bool named, uint64_t number);

bool packed_model_failed(const struct packed_model *m);

#endif

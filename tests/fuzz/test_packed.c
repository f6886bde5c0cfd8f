/* SPDX-License-Identifier: MIT */
/*
 * Any bytes as the content of an EVENTS chunk in a packed file whose frame is right: so the decoder
 * is reached, which check sums would hide from bytes damaged at random.
 *
 * ctest: timeout=120
 */
#include <lzma.h>
#include <string.h>

#include "fuzz.h"
#include "packed.h"
#include "packed_bytes.h"
#include "trace.h"

const char *const fuzz_corpus[] = {DECKLE_SOURCE_DIR "/tests/data/chunks", NULL};
const uint64_t fuzz_inputs = 10000;

static void add_chunk(struct bytes *file, char tag, const void *content, size_t size)
{
    size_t room = lzma_stream_buffer_bound(size), packed = 0;
    unsigned char *out = malloc(room);
    /* The smallest dictionary: most of the time would go into setting up a large one. */
    lzma_options_lzma options;
    lzma_filter filters[2] = {{LZMA_FILTER_LZMA2, &options}, {LZMA_VLI_UNKNOWN, NULL}};

    FUZZ_CHECK(out != NULL && !lzma_lzma_preset(&options, 0));
    options.dict_size = LZMA_DICT_SIZE_MIN;
    FUZZ_CHECK(lzma_stream_buffer_encode(filters, LZMA_CHECK_CRC64, NULL, content, size, out,
                                         &packed, room) == LZMA_OK);
    bytes_add_byte(file, (unsigned int)tag);
    bytes_add_varint(file, size);
    bytes_add_varint(file, packed);
    bytes_add(file, out, packed);
    free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct trace_options options = {.max_memory = 16 << 20};
    struct bytes file = {0};
    char message[TRACE_MESSAGE], end[64];
    struct trace_event e;
    enum trace_status status;
    struct trace *t;

    if (size == 0)
        return 0;
    bytes_add(&file, packed_magic, PACKED_MAGIC_SIZE);
    bytes_add_byte(&file, PACKED_VERSION);
    add_chunk(&file, PACKED_INFO, "source x\n", 9);
    add_chunk(&file, PACKED_EVENTS, data, size);
    snprintf(end, sizeof(end), "crc64 %016llx\n",
             (unsigned long long)lzma_crc64(file.at, file.size, 0));
    add_chunk(&file, PACKED_END, end, strlen(end));
    FUZZ_CHECK(!file.failed);

    t = trace_open_memory(file.at, file.size, "input", &options, message);
    FUZZ_CHECK(t != NULL);
    while ((status = trace_next(t, &e)) == TRACE_EVENT) {
        FUZZ_CHECK(e.type < TRACE_NR_TYPES && e.cpu < TRACE_MAX_CPUS && e.pfn < TRACE_MAX_PFN);
        FUZZ_CHECK(e.order <= TRACE_MAX_ORDER && e.migratetype <= TRACE_MAX_MIGRATETYPE);
    }
    /* Even whole chunks end in an error: END counts no events. */
    FUZZ_CHECK(status == TRACE_ERROR && trace_message(t)[0] != '\0');
    trace_close(t);
    bytes_free(&file);
    return 0;
}

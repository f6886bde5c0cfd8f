/* SPDX-License-Identifier: MIT */
/*
 * Thin helpers over cJSON for what the command prints with --json. Each document begins with
 *   "schema": "deckle.NAME", "version": N
 * and its fields are described in docs/formats/json.md; a field's meaning never changes without a
 * new version. Times are ns, sizes bytes or frames as the field's name says.
 */
#ifndef DECKLE_TOOLS_JSON_OUT_H
#define DECKLE_TOOLS_JSON_OUT_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

/* A new object with schema and version; NULL when memory runs out. Free with cJSON_Delete. */
cJSON *json_document(const char *name, unsigned int version);

/* Whole numbers exactly: cJSON keeps numbers as double, which ends at 2^53. */
void json_add_u64(cJSON *object, const char *key, uint64_t value);

/* An empty object under key, NULL when memory runs out; the other helpers accept that NULL. */
cJSON *json_add_object(cJSON *object, const char *key);

/*
 * Prints the document, indented and with a newline at its end, to path ("-" is standard output).
 * Returns false after a message. A NULL document counts as out of memory.
 */
bool json_write(const cJSON *document, const char *path);

#endif

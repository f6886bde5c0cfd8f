/* SPDX-License-Identifier: MIT */
/* JSON documents of the command; see json_out.h. */
#include "json_out.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ui.h"

cJSON *json_document(const char *name, unsigned int version)
{
    cJSON *document = cJSON_CreateObject();
    char schema[64];

    snprintf(schema, sizeof(schema), "deckle.%s", name);
    cJSON_AddStringToObject(document, "schema", schema);
    cJSON_AddNumberToObject(document, "version", version);
    return document;
}

void json_add_u64(cJSON *object, const char *key, uint64_t value)
{
    char text[24];

    snprintf(text, sizeof(text), "%" PRIu64, value);
    cJSON_AddRawToObject(object, key, text);
}

cJSON *json_add_object(cJSON *object, const char *key)
{
    return cJSON_AddObjectToObject(object, key);
}

bool json_write(const cJSON *document, const char *path)
{
    char *text = document != NULL ? cJSON_Print(document) : NULL;
    bool standard = strcmp(path, "-") == 0, done;
    FILE *to;

    if (text == NULL) {
        ui_error("not enough memory for the JSON output");
        return false;
    }
    to = standard ? stdout : fopen(path, "w");
    done = to != NULL && fprintf(to, "%s\n", text) > 0 && fflush(to) == 0;
    if (to != NULL && !standard)
        done = fclose(to) == 0 && done;
    if (!done)
        ui_error("%s: cannot be written: %s", standard ? "standard output" : path, strerror(errno));
    free(text);
    return done;
}

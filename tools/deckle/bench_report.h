/* SPDX-License-Identifier: MIT */
/*
 * What is made of the finished tables besides text and JSON: a page of Markdown with the goals and
 * the main tables, and files of columns for plots. Both are written from the JSON document, so that
 * they cannot say anything else.
 */
#ifndef DECKLE_TOOLS_BENCH_REPORT_H
#define DECKLE_TOOLS_BENCH_REPORT_H

#include <cjson/cJSON.h>
#include <stdbool.h>

/* false after a message. document: as docs/formats/bench.md describes it. */
bool bench_write_page(const cJSON *document, const char *path);

/* FOLDER/TABLE.dat for each table: a line of column names, then a line for each row; texts in
 * quotes, the minimum of a lane, "?" for what was not measured. The folder exists. */
bool bench_write_data(const cJSON *document, const char *folder);

#endif

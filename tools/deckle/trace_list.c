/* SPDX-License-Identifier: MIT */
/* A whole trace in memory, in the order of the file and by CPU; see trace_model.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace_model.h"

#define ASK_EVERY 4096u /* events between two questions whether to go on */

bool trace_list_add(struct trace_list *list, const struct trace_event *event)
{
    if (!trace_changes_state(event->type))
        return true;
    if (list->nr == TRACE_LIST_MAX)
        return false;
    if (list->nr == list->room) {
        uint32_t room = list->room > 0 ? list->room * 2 : 4096;
        struct trace_event *grown;

        if (room > TRACE_LIST_MAX)
            room = TRACE_LIST_MAX;
        grown = realloc(list->events, room * sizeof(*grown));
        if (grown == NULL)
            return false;
        list->events = grown;
        list->room = room;
    }
    list->events[list->nr++] = *event;
    return true;
}

bool trace_list_order(struct trace_list *list)
{
    uint32_t *count = calloc(TRACE_MAX_CPUS, sizeof(*count));
    uint32_t nr_cpus = 0, c = 0;

    if (count == NULL)
        return false;
    for (uint32_t i = 0; i < list->nr; i++)
        nr_cpus += count[list->events[i].cpu]++ == 0;
    list->cpus = calloc(nr_cpus > 0 ? nr_cpus : 1, sizeof(*list->cpus));
    if (list->cpus == NULL) {
        free(count);
        return false;
    }
    list->nr_cpus = nr_cpus;
    for (uint32_t cpu = 0; cpu < TRACE_MAX_CPUS; cpu++) {
        if (count[cpu] == 0)
            continue;
        list->cpus[c].cpu = cpu;
        list->cpus[c].index = malloc(count[cpu] * sizeof(uint32_t));
        if (list->cpus[c].index == NULL) {
            free(count);
            return false;
        }
        count[cpu] = c++; /* from here on: where the CPU is in cpus */
    }
    for (uint32_t i = 0; i < list->nr; i++) {
        struct trace_cpu_events *of = &list->cpus[count[list->events[i].cpu]];

        of->index[of->nr++] = i;
    }
    free(count);
    return true;
}

void trace_list_free(struct trace_list *list)
{
    for (uint32_t c = 0; c < list->nr_cpus; c++)
        free(list->cpus[c].index);
    free(list->cpus);
    free(list->events);
    memset(list, 0, sizeof(*list));
}

enum trace_status trace_read_all(struct trace *t, struct trace_list *list,
                                 struct trace_model *model, bool (*more)(void *context),
                                 void *context, char *message)
{
    enum trace_status status;
    struct trace_event event;
    uint32_t asked = 0;

    while ((status = trace_next(t, &event)) == TRACE_EVENT) {
        if ((list != NULL && !trace_list_add(list, &event)) ||
            (model != NULL && !trace_model_event(model, &event, NULL))) {
            snprintf(message, TRACE_MESSAGE * 2, "not enough memory for the events of %s",
                     trace_facts(t)->source);
            return TRACE_ERROR;
        }
        if (++asked % ASK_EVERY == 0 && more != NULL && !more(context))
            return TRACE_EVENT;
    }
    if (status == TRACE_ERROR)
        snprintf(message, TRACE_MESSAGE * 2, "%s", trace_message(t));
    else if (list != NULL && !trace_list_order(list)) {
        snprintf(message, TRACE_MESSAGE * 2, "not enough memory for the events of %s",
                 trace_facts(t)->source);
        return TRACE_ERROR;
    }
    return status;
}

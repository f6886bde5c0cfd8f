/* SPDX-License-Identifier: MIT */
/* Work in a process of its own (bench_child.h). */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "bench_child.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ui.h"

static bool transfer(int fd, char *bytes, size_t nr, bool out)
{
    while (nr > 0) {
        ssize_t done = out ? write(fd, bytes, nr) : read(fd, bytes, nr);

        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return false;
        bytes += done;
        nr -= (size_t)done;
    }
    return true;
}

static _Noreturn void child(bench_child_fn *work, const void *wish, void *figures, size_t bytes,
                            int to)
{
    int status;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    status = work(wish, figures);
    if (status == UI_OK && !transfer(to, figures, bytes, true))
        status = UI_FAULT;
    _exit(status);
}

int bench_child_run(const char *name, bench_child_fn *work, const void *wish, void *figures,
                    size_t bytes)
{
    int ends[2], status = 0;
    pid_t pid = -1;
    bool complete;

    if (pipe(ends) == 0) {
        fflush(NULL);
        pid = fork();
    }
    if (pid < 0) {
        ui_error("bench: %s: cannot make a process: %s", name, strerror(errno));
        return UI_MISSING;
    }
    if (pid == 0)
        child(work, wish, figures, bytes, ends[1]);
    close(ends[1]);
    complete = transfer(ends[0], figures, bytes, false);
    close(ends[0]);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    if (WIFSIGNALED(status)) {
        ui_error("bench: %s: a process was ended by signal %d", name, WTERMSIG(status));
        return UI_FAULT;
    }
    if (WEXITSTATUS(status) != UI_OK)
        return WEXITSTATUS(status);
    return complete ? UI_OK : UI_FAULT;
}

bool bench_bind(unsigned cpu)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    return sched_setaffinity(0, sizeof(set), &set) == 0;
}

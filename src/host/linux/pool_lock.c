/* SPDX-License-Identifier: MIT */
/*
 * Who is there: locks on bytes far beyond the end of a pool's file.
 *
 *     BASE                the gate: shared by clients, alone for who makes or recovers the pool
 *     BASE + identity     locked by the client that registered with this identity, as long as it
 *                         lives
 *
 * They are locks of an open file description (F_OFD_SETLK): the kernel drops them with its last
 * reference, which is when the last thread of the process has left for good, whatever ended it. Two
 * things would keep the description longer: a descriptor of it in a child, so children of fork
 * close theirs; and a mapping made through it, which children inherit as well, so the locks have a
 * description of their own through which nothing is mapped. It is not the caller's either, who may
 * have sent that to others, and a lock does not exclude those that share its description.
 *
 * The lock is taken before the identity appears in the table of clients. The other way round, with
 * bytes numbered like clients, a client would look dead for a moment.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#define _FILE_OFFSET_BITS 64
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "host/linux/pool_file.h"

#define BASE          (INT64_C(1) << 62)
#define MOST_IDENTITY (UINT64_C(1) << 60)
#define TRIES         64u

/* ---- locks ----------------------------------------------------------------------------------- */

int pool_reopen(int fd, int flags)
{
    char path[48];

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return open(path, flags | O_CLOEXEC);
}

/* 0, or errno. */
static int set_lock(int fd, short type, uint64_t at)
{
    struct flock l = {.l_type = type, .l_whence = SEEK_SET, .l_start = BASE + (off_t)at,
                      .l_len = 1};

    return fcntl(fd, F_OFD_SETLK, &l) ? errno : 0;
}

/* Has somebody else a lock there? Not knowing counts as yes: nobody is reaped by mistake. */
static bool is_locked(int fd, uint64_t at)
{
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = BASE + (off_t)at,
                      .l_len = 1};

    return fcntl(fd, F_OFD_GETLK, &l) || l.l_type != F_UNLCK;
}

int pool_enter(int lock_fd, bool alone, const struct pool_why *why)
{
    int error = set_lock(lock_fd, alone ? F_WRLCK : F_RDLCK, 0);

    if (!error)
        return DECKLE_OK;
    if (error == EAGAIN || error == EACCES)
        return pool_refuse(why, DECKLE_EBUSY, "%s",
                           alone ? "clients use the pool, or somebody makes or recovers it"
                                 : "the pool is being made or recovered");
    errno = error;
    return pool_refuse(why, DECKLE_ENOTSUP, "its file system has no locks of open files: %s",
                       strerror(error));
}

void pool_leave(int lock_fd)
{
    set_lock(lock_fd, F_UNLCK, 0);
}

bool pool_is_entered(int lock_fd)
{
    return is_locked(lock_fd, 0);
}

/*
 * The process id in the low half. What is above makes it differ from that of another handle of the
 * process, of a process with the same number in another pid name space, and of one that had the
 * number before and has not been reaped yet: that one would else seem to live again.
 */
uint64_t pool_lock_identity(int lock_fd)
{
    struct timespec now = {0};
    uint64_t salt;
    int error = 0;

    clock_gettime(CLOCK_BOOTTIME, &now);
    salt = ((uint64_t)now.tv_sec << 20) ^ (uint64_t)now.tv_nsec;
    for (unsigned i = 0; i < TRIES; i++) {
        uint64_t identity = (uint64_t)(uint32_t)getpid();

        salt = (salt + 1) * UINT64_C(0x9e3779b97f4a7c15);
        identity |= (salt >> 40) << 32;
        error = set_lock(lock_fd, F_WRLCK, identity);
        if (!error)
            return identity;
        if (error != EAGAIN && error != EACCES)
            break;
    }
    errno = error;
    return 0;
}

bool pool_identity_alive(int lock_fd, uint64_t identity)
{
    int error = errno;
    bool alive = identity && identity < MOST_IDENTITY && is_locked(lock_fd, identity);

    errno = error;
    return alive;
}

/* ---- fork ------------------------------------------------------------------------------------ */

/* A child keeps the mappings, but not as the parent. */
struct open_pool {
    struct hosted *h;
    struct open_pool *next;
};

static pthread_mutex_t pools_lock = PTHREAD_MUTEX_INITIALIZER;
static struct open_pool *pools;
static pthread_once_t handlers_once = PTHREAD_ONCE_INIT;
static int handlers_error;

static void before_fork(void)
{
    pthread_mutex_lock(&pools_lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&pools_lock);
}

/* Without write access a child that comes back from a signal handler into a call of the parent's
 * dies of it, rather than go on as the parent. */
static void in_child(void)
{
    for (struct open_pool *p = pools; p; p = p->next) {
        close(p->h->lock_fd);
        p->h->lock_fd = -1;
        p->h->identity = 0;
        p->h->flags |= HOSTED_READ_ONLY;
        if (p->h->file_head)
            mprotect(p->h->file_head, p->h->file_head_bytes, PROT_READ);
        deckle_disown((struct deckle *)((char *)p->h + HOSTED_BYTES));
    }
    pools = NULL;
    pthread_mutex_unlock(&pools_lock);
}

static void set_handlers(void)
{
    handlers_error = pthread_atfork(before_fork, after_fork, in_child);
}

static bool add_open(struct hosted *h, int fd)
{
    struct open_pool *p = malloc(sizeof(*p));

    if (!p)
        return false;
    *p = (struct open_pool){h, pools};
    h->lock_fd = pool_reopen(fd, h->flags & HOSTED_READ_ONLY ? O_RDONLY : O_RDWR);
    if (h->lock_fd < 0) {
        int error = errno;
        free(p);
        errno = error;
        return false;
    }
    pools = p;
    return true;
}

bool pool_open_lock(struct hosted *h, int fd)
{
    bool done;

    pthread_once(&handlers_once, set_handlers);
    if (handlers_error) {
        errno = handlers_error;
        return false;
    }
    pthread_mutex_lock(&pools_lock);
    done = add_open(h, fd);
    pthread_mutex_unlock(&pools_lock);
    return done;
}

void pool_close_lock(struct hosted *h)
{
    struct open_pool **at = &pools, *p;

    pthread_mutex_lock(&pools_lock);
    while (*at && (*at)->h != h)
        at = &(*at)->next;
    p = *at;
    if (p) { /* in a child of fork it is closed already */
        *at = p->next;
        close(h->lock_fd);
    }
    pthread_mutex_unlock(&pools_lock);
    free(p);
}

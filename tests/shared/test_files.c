/* SPDX-License-Identifier: MIT */
/*
 * Pools in files: how they are made, opened, refused, left and recovered, who is alive, and what
 * fork does to private and shared ones. Parts that this machine cannot show say so and are skipped.
 *
 * ctest: timeout=120
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include <deckle/linux.h>

#include "testing.h"

#define MIB (UINT64_C(1) << 20)

static char folder[64], file[128];
static char why[256];

/* ---- helpers --------------------------------------------------------------------------------- */

static struct deckle_shared_options making(void)
{
    return (struct deckle_shared_options){.size = sizeof(struct deckle_shared_options),
                                          .path = file,
                                          .bytes = 16 * MIB,
                                          .flags = DECKLE_CREATE_QUIET,
                                          .why = why,
                                          .why_size = sizeof(why)};
}

static struct deckle_open_options opening(uint32_t flags)
{
    return (struct deckle_open_options){.size = sizeof(struct deckle_open_options),
                                        .path = file,
                                        .flags = flags | DECKLE_OPEN_QUIET,
                                        .why = why,
                                        .why_size = sizeof(why)};
}

static void make_file(void)
{
    struct deckle_shared_options o = making();
    int error;

    unlink(file);
    error = deckle_create_shared(&o, NULL);
    if (error)
        fail_msg("%s: %s", deckle_error_name(error), why);
}

static struct deckle *join(uint32_t flags)
{
    struct deckle_open_options o = opening(flags);
    struct deckle *d = NULL;
    int error = deckle_open_shared(&o, &d);

    if (error)
        fail_msg("%s: %s", deckle_error_name(error), why);
    return d;
}

static int refused(uint32_t flags)
{
    struct deckle_open_options o = opening(flags);
    struct deckle *d = NULL;
    int error = deckle_open_shared(&o, &d);

    assert_true(error < 0);
    assert_null(d);
    assert_true(strlen(why) > 10);
    return error;
}

static void assert_valid(const struct deckle *d)
{
    char text[256];
    int error = deckle_validate(d, text, sizeof(text));

    if (error)
        fail_msg("%s: %s", deckle_error_name(error), text);
}

static uint64_t nr_free(const struct deckle *d)
{
    struct deckle_stat s = {.size = sizeof(s)};
    uint64_t sum = 0;

    deckle_get_stat(d, &s);
    for (uint32_t i = 0; i < s.nr_zones; i++) {
        struct deckle_zone_stat z = {.size = sizeof(z)};

        deckle_get_zone_stat(d, i, &z);
        sum += z.free + z.cached;
    }
    return sum;
}

static uint64_t sum_of_file(void)
{
    uint64_t sum = UINT64_C(0xcbf29ce484222325), n = 0;
    FILE *f = fopen(file, "rb");
    int c;

    assert_non_null(f);
    while ((c = getc(f)) != EOF) {
        sum = (sum ^ (unsigned)c) * UINT64_C(0x100000001b3);
        n++;
    }
    fclose(f);
    return sum ^ n;
}

/* Waits to be killed; not for ever, should the test end before. */
static void wait_for_death(void)
{
    alarm(100);
    for (;;)
        pause();
}

/* Runs in a child until it says so; then the child waits to be killed. */
static pid_t start(void (*body)(int tell))
{
    int pipes[2];
    char byte;
    pid_t pid;

    assert_int_equal(pipe(pipes), 0);
    fflush(stdout);
    pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        close(pipes[0]);
        body(pipes[1]);
        wait_for_death();
    }
    close(pipes[1]);
    assert_int_equal(read(pipes[0], &byte, 1), 1);
    close(pipes[0]);
    assert_int_equal(byte, 'y');
    return pid;
}

static void say(int tell, bool well)
{
    if (write(tell, well ? "y" : "n", 1) != 1)
        _exit(1);
    close(tell);
}

static void kill_child(pid_t pid)
{
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* Body of a child whose status says whether all was well. */
static void in_child(bool (*body)(struct deckle *d), struct deckle *d)
{
    int status;
    pid_t pid;

    fflush(stdout);
    pid = fork();
    assert_true(pid >= 0);
    if (!pid)
        _exit(body(d) ? 0 : 1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* ---- making ---------------------------------------------------------------------------------- */

static void use(struct deckle *d)
{
    int64_t pfns[11];

    for (uint32_t order = 0; order <= 10; order++) {
        char *at;

        pfns[order] = deckle_alloc(d, DECKLE_GFP_KERNEL | DECKLE_GFP_ZERO, order);
        assert_true(pfns[order] >= 0);
        at = deckle_address(d, (uint64_t)pfns[order]);
        assert_int_equal((uintptr_t)at % (UINT64_C(4096) << order), 0);
        assert_int_equal(deckle_pfn(d, at + 4095), pfns[order]);
        assert_int_equal(at[0] | at[(4096 << order) - 1], 0);
        memset(at, 'x', (size_t)4096 << order);
    }
    for (uint32_t order = 0; order <= 10; order++)
        assert_int_equal(deckle_free(d, (uint64_t)pfns[order], order), 0);
    assert_null(deckle_address(d, UINT64_C(1) << 40));
    assert_int_equal(deckle_pfn(d, &pfns), DECKLE_ENOENT);
}

static void test_make(void **state)
{
    struct deckle_shared_options o = making();
    struct deckle *d = NULL;
    uint64_t bytes = 0;

    (void)state;
    assert_int_equal(deckle_create_shared(&o, &d), 0);
    assert_int_equal(deckle_client(d), 1);
    assert_int_equal(deckle_client_alive(d, 1), 1);
    assert_int_equal(deckle_client_alive(d, 2), DECKLE_ENOENT);
    assert_ptr_equal(deckle_base(d, &bytes), deckle_address(d, 0));
    assert_int_equal(bytes, 16 * MIB);
    use(d);
    assert_valid(d);
    assert_int_equal(deckle_create_shared(&o, NULL), DECKLE_EEXIST);
    assert_true(deckle_alloc(d, DECKLE_GFP_KERNEL, 3) >= 0);
    assert_int_equal(deckle_destroy(d), 8);
    d = join(0);
    assert_valid(d);
    assert_int_equal(nr_free(d), 4096);
    assert_int_equal(deckle_destroy(d), 0);
    unlink(file);
}

static void check_descriptor(const char *name, int fd)
{
    struct deckle_shared_options o = making();
    struct deckle_open_options p = opening(0);
    struct deckle *d = NULL, *e = NULL;
    int error;

    if (fd < 0) {
        printf("%s: not here: %s\n", name, strerror(errno));
        return;
    }
    o.path = p.path = NULL;
    o.fd = p.fd = fd;
    error = deckle_create_shared(&o, &d);
    if (error == DECKLE_EBACKING && errno != EINVAL) {
        printf("%s: not here: %s\n", name, why);
        close(fd);
        return;
    }
    if (error)
        fail_msg("%s: %s: %s", name, deckle_error_name(error), why);
    use(d);
    assert_int_equal(deckle_open_shared(&p, &e), 0);
    assert_int_equal(deckle_client(e), 2);
    assert_ptr_not_equal(deckle_base(d, NULL), deckle_base(e, NULL));
    use(e);
    assert_int_equal(deckle_create_shared(&o, NULL), DECKLE_EBUSY);
    deckle_destroy(d);
    deckle_destroy(e);
    assert_int_equal(deckle_create_shared(&o, NULL), DECKLE_EEXIST);
    close(fd);
    printf("%s: works\n", name);
}

/* hugetlbfs: as many pages as there are free. */
static void test_descriptors(void **state)
{
    (void)state;
    check_descriptor("memfd", memfd_create("pool", MFD_CLOEXEC));
    check_descriptor("memfd of huge pages", memfd_create("pool", MFD_CLOEXEC | MFD_HUGETLB));
    check_descriptor("tmpfs", open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    check_descriptor("ordinary file", open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
}

static void test_options(void **state)
{
    static const struct deckle_shared_options bad[] = {
        {.bytes = 0},
        {.bytes = 4096, .frames = 1},
        {.bytes = 16 * MIB, .page_shift = 9},
        {.bytes = 16 * MIB, .max_order = 8},
        {.bytes = 16 * MIB, .max_clients = 256},
        {.bytes = 16 * MIB, .flags = DECKLE_CREATE_NUMA},
        {.bytes = 16 * MIB, .features = 1u << 30},
        {.bytes = 16 * MIB, .features = DECKLE_FEATURE_DESCRIPTORS},
        {.bytes = 16 * MIB, .mode = 010000},
        {.bytes = UINT64_MAX},
        {.frames = UINT64_MAX},
        {.frames = UINT64_C(1) << 33},
    };
    struct stat st;

    (void)state;
    unlink(file);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct deckle_shared_options o = making();

        o.bytes = bad[i].bytes;
        o.frames = bad[i].frames;
        o.page_shift = bad[i].page_shift;
        o.max_order = bad[i].max_order;
        o.max_clients = bad[i].max_clients;
        o.flags |= bad[i].flags;
        o.features = bad[i].features;
        o.mode = bad[i].mode;
        assert_true(deckle_create_shared(&o, NULL) < 0);
        assert_true(strlen(why) > 10);
        assert_int_equal(stat(file, &st), -1);
    }
    struct deckle_shared_options nowhere = making();
    nowhere.path = "/nonexistent/folder/pool";
    assert_int_equal(deckle_create_shared(&nowhere, NULL), DECKLE_ENOENT);
}

/* A maker that is killed leaves nothing that opens, or a whole pool. */
static void test_killed_maker(void **state)
{
    uint64_t random = test_seed(), made = 0, unmade = 0, n = test_effort(60);

    (void)state;
    for (uint64_t i = 0; i < n; i++) {
        struct timespec t = {0, (long)test_random_below(&random, 4000000)};
        struct deckle_open_options p = opening(0);
        int fd = memfd_create("pool", MFD_CLOEXEC), error;
        bool by_path = i % 2;
        struct deckle *d = NULL;
        pid_t pid;

        unlink(file);
        fflush(stdout);
        pid = fork();
        if (!pid) {
            struct deckle_shared_options o = making();

            o.path = by_path ? file : NULL;
            o.fd = fd;
            deckle_create_shared(&o, NULL);
            wait_for_death();
        }
        nanosleep(&t, NULL);
        kill_child(pid);
        p.path = by_path ? file : NULL;
        p.fd = fd;
        error = deckle_open_shared(&p, &d);
        if (error) {
            assert_int_equal(error, by_path ? DECKLE_ENOENT : DECKLE_EBUSY);
            unmade++;
        } else {
            assert_valid(d);
            deckle_destroy(d);
            made++;
        }
        close(fd);
    }
    printf("makers killed: %u before and %u after the pool was complete\n", (unsigned)unmade,
           (unsigned)made);
    unlink(file);
}

/* ---- refusing -------------------------------------------------------------------------------- */

static void put(off_t at, const void *bytes, size_t size)
{
    int fd = open(file, O_WRONLY);

    assert_int_equal(pwrite(fd, bytes, size, at), (ssize_t)size);
    close(fd);
}

static void test_refused(void **state)
{
    static const uint64_t magic = UINT64_C(0x6c6f6f70006b6364);
    static const uint64_t turned = UINT64_C(0x64636b00706f6f6c); /* the other byte order */
    static const uint32_t version = 99;
    static const uint64_t zero;
    struct stat st;

    (void)state;
    unlink(file);
    assert_int_equal(refused(0), DECKLE_ENOENT);
    close(open(file, O_CREAT | O_WRONLY, 0600));
    assert_int_equal(refused(0), DECKLE_EBUSY);
    put(0, "something else", 14);
    assert_int_equal(refused(0), DECKLE_EINVAL);
    assert_int_equal(truncate(file, 8192), 0);
    assert_int_equal(refused(0), DECKLE_EINVAL);
    make_file();
    put(0, &turned, 8);
    assert_int_equal(refused(0), DECKLE_EVERSION);
    put(0, &zero, 8);
    assert_int_equal(refused(0), DECKLE_EBUSY);
    put(0, &magic, 8);
    put(12, &version, 4);
    assert_int_equal(refused(0), DECKLE_EVERSION);
    make_file();
    put(16, &version, 4);
    assert_int_equal(refused(0), DECKLE_ECORRUPT);
    make_file();
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(truncate(file, st.st_size - 1), 0);
    assert_int_equal(refused(0), DECKLE_ENOSPC);
    assert_int_equal(refused(DECKLE_OPEN_READ_ONLY), DECKLE_ENOSPC);
    unlink(file);
    assert_int_equal(mkdir(file, 0700), 0);
    assert_true(refused(0) == DECKLE_EINVAL);
    assert_true(refused(DECKLE_OPEN_READ_ONLY) == DECKLE_EINVAL);
    rmdir(file);
    assert_int_equal(mkfifo(file, 0600), 0);
    assert_int_equal(refused(0), DECKLE_EINVAL);
    unlink(file);
}

static void test_read_only(void **state)
{
    struct deckle_request r = {.size = sizeof(r)};
    uint64_t before, pfn = DECKLE_NO_PFN;
    struct deckle *d;

    (void)state;
    make_file();
    before = sum_of_file();
    d = join(DECKLE_OPEN_READ_ONLY);
    assert_int_equal(deckle_client(d), 0);
    assert_int_equal(deckle_alloc(d, DECKLE_GFP_KERNEL, 0), DECKLE_EPERM);
    assert_int_equal(deckle_alloc_request(d, &r), DECKLE_EPERM);
    assert_int_equal(deckle_alloc_at(d, DECKLE_GFP_KERNEL, 0, 0), DECKLE_EPERM);
    assert_true(deckle_alloc_bulk(d, DECKLE_GFP_KERNEL, &pfn, 1) <= 0);
    assert_true(deckle_free(d, 0, 0) < 0);
    assert_int_equal(deckle_register(d, 1, NULL), DECKLE_EPERM);
    assert_int_equal(deckle_reap_dead(d, NULL), DECKLE_EPERM);
    assert_int_equal(nr_free(d), 4096);
    assert_valid(d);
    deckle_destroy(d);
    assert_int_equal(sum_of_file(), before);
    unlink(file);
}

/* ---- the living and the dead ----------------------------------------------------------------- */

static void hold_frames(int tell)
{
    struct deckle *d = join(0);
    bool well = true;

    for (uint32_t order = 0; order <= 10; order++)
        well = deckle_alloc(d, DECKLE_GFP_KERNEL, order) >= 0 && well;
    say(tell, well);
}

static void test_reap(void **state)
{
    struct deckle_reap_report report = {.size = sizeof(report)};
    struct deckle *d, *reader;
    pid_t pid;

    (void)state;
    make_file();
    pid = start(hold_frames);
    d = join(0);
    reader = join(DECKLE_OPEN_READ_ONLY);
    assert_int_equal(deckle_client(d), 2);
    assert_int_equal(deckle_client_alive(d, 1), 1);
    assert_int_equal(deckle_client_alive(reader, 1), 1);
    assert_int_equal(deckle_reap(d, 1, NULL), DECKLE_EBUSY);
    assert_int_equal(deckle_reap_dead(d, &report), 0);
    assert_true(nr_free(d) <= 4096 - 2047);
    kill_child(pid);
    assert_int_equal(deckle_client_alive(d, 1), 0);
    assert_int_equal(deckle_client_alive(reader, 1), 0);
    assert_int_equal(deckle_reap_dead(d, &report), 1);
    assert_int_equal(report.in_use, 2047);
    assert_int_equal(report.deferred, 0);
    assert_int_equal(deckle_client_alive(d, 1), DECKLE_ENOENT);
    assert_int_equal(nr_free(d), 4096);
    assert_valid(d);
    deckle_destroy(reader);
    deckle_destroy(d);
    unlink(file);
}

static void test_all_numbers(void **state)
{
    struct deckle_shared_options o = making();
    struct deckle *d[4];

    (void)state;
    o.max_clients = 3;
    assert_int_equal(deckle_create_shared(&o, &d[0]), 0);
    d[1] = join(0);
    d[2] = join(0);
    assert_int_equal(refused(0), DECKLE_ENOSPC);
    deckle_destroy(d[1]);
    d[1] = join(0);
    assert_int_equal(deckle_client(d[1]), 2);
    for (int i = 0; i < 3; i++)
        deckle_destroy(d[i]);
    unlink(file);
}

/* ---- fork ------------------------------------------------------------------------------------ */

static unsigned long metadata_address; /* of the mapping of the file's beginning */

static void find_metadata(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    unsigned long start, offset;
    char line[512], flags[8];

    metadata_address = 0;
    while (fgets(line, sizeof(line), maps))
        if (strstr(line, file) && sscanf(line, "%lx-%*x %7s %lx", &start, flags, &offset) == 3 &&
            !offset)
            metadata_address = start;
    fclose(maps);
    assert_true(metadata_address);
}

static bool only_looks(struct deckle *d)
{
    uint64_t pfn = DECKLE_NO_PFN;

    return deckle_alloc(d, DECKLE_GFP_KERNEL, 0) == DECKLE_EPERM &&
           deckle_alloc(d, DECKLE_GFP_KERNEL, 3) == DECKLE_EPERM &&
           deckle_alloc_bulk(d, DECKLE_GFP_KERNEL, &pfn, 1) == DECKLE_EPERM &&
           deckle_alloc_at(d, DECKLE_GFP_KERNEL, 64, 0) == DECKLE_EPERM &&
           deckle_alloc_contig(d, DECKLE_GFP_KERNEL, 9, 1, 0, 0) == DECKLE_EPERM &&
           deckle_free(d, 0, 0) == DECKLE_EPERM && deckle_free_exact(d, 0, 1) == DECKLE_EPERM &&
           deckle_split(d, 0, 0, 0) == DECKLE_EPERM && deckle_drain_all(d) == DECKLE_EPERM &&
           deckle_set_pageblock_type(d, 0, DECKLE_MOVABLE) == DECKLE_EPERM &&
           deckle_reap(d, 1, NULL) == DECKLE_EPERM && deckle_reap_dead(d, NULL) == DECKLE_EPERM &&
           deckle_transfer(d, 0, 0, 1) == DECKLE_EPERM && !deckle_client(d) &&
           deckle_register(d, 1, NULL) == DECKLE_EPERM && deckle_client_alive(d, 1) == 1 &&
           nr_free(d) == 4095 && deckle_base(d, NULL) && !deckle_destroy(d);
}

/* Coming back into a call of the parent's would be a write to the metadata. */
static bool dies_of_writing(struct deckle *d)
{
    int status;
    pid_t pid = fork();

    if (!pid) {
        signal(SIGSEGV, SIG_DFL);
        memset((void *)(uintptr_t)metadata_address, 1, 1);
        _exit(0);
    }
    (void)d;
    return waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
}

static bool opens_for_itself(struct deckle *d)
{
    struct deckle *own = join(0);
    bool well = deckle_client(own) == 2 && deckle_alloc(own, DECKLE_GFP_KERNEL, 0) >= 0;

    (void)d;
    return deckle_destroy(own) == 1 && well;
}

static char *passed; /* a frame of the parent's, at the parent's address */

static bool can_read(struct deckle *d)
{
    (void)d;
    return strcmp(passed, "from the parent") == 0 && strcpy(passed, "from the child");
}

static void test_fork_shared(void **state)
{
    struct deckle *d;
    int64_t pfn;

    (void)state;
    make_file();
    d = join(0);
    pfn = deckle_alloc(d, DECKLE_GFP_KERNEL, 0);
    passed = strcpy(deckle_address(d, (uint64_t)pfn), "from the parent");
    find_metadata();
    in_child(only_looks, d);
    in_child(dies_of_writing, d);
    in_child(opens_for_itself, d);
    in_child(can_read, d);
    assert_string_equal(passed, "from the child");
    assert_int_equal(deckle_client_alive(d, 1), 1);
    assert_valid(d);
    assert_int_equal(deckle_destroy(d), 1);
    unlink(file);
}

/* The parent of a child that goes on is dead all the same. */
static void leave_a_child(int tell)
{
    struct deckle *d = join(0);
    pid_t pid = deckle_alloc(d, DECKLE_GFP_KERNEL, 5) >= 0 ? fork() : -1;

    if (!pid) {
        close(tell);
        wait_for_death();
    }
    if (write(tell, "y", pid > 0) != 1 || write(tell, &pid, sizeof(pid)) != sizeof(pid))
        _exit(1);
    close(tell);
}

static void test_orphan(void **state)
{
    struct deckle_reap_report report = {.size = sizeof(report)};
    int pipes[2];
    pid_t parent, orphan = 0;
    struct deckle *d;
    char byte;

    (void)state;
    make_file();
    assert_int_equal(pipe(pipes), 0);
    fflush(stdout);
    parent = fork();
    if (!parent) {
        leave_a_child(pipes[1]);
        wait_for_death();
    }
    assert_int_equal(read(pipes[0], &byte, 1), 1);
    assert_int_equal(read(pipes[0], &orphan, sizeof(orphan)), sizeof(orphan));
    d = join(0);
    assert_int_equal(deckle_client_alive(d, 1), 1);
    kill_child(parent);
    assert_int_equal(kill(orphan, 0), 0);
    /* The orphan may not have come so far as to close the descriptor. */
    for (int i = 0; i < 50000 && deckle_client_alive(d, 1); i++)
        usleep(100);
    assert_int_equal(deckle_client_alive(d, 1), 0);
    assert_int_equal(deckle_reap_dead(d, &report), 1);
    assert_int_equal(report.in_use, 32);
    kill(orphan, SIGKILL);
    close(pipes[0]);
    close(pipes[1]);
    deckle_destroy(d);
    unlink(file);
}

static bool has_a_copy(struct deckle *d)
{
    char text[128];

    for (int i = 0; i < 1000; i++)
        if (deckle_alloc(d, DECKLE_GFP_KERNEL, 0) < 0)
            return false;
    return !deckle_validate(d, text, sizeof(text)) && deckle_destroy(d) == 1001;
}

static void test_fork_private(void **state)
{
    struct deckle_create_options o = {.size = sizeof(o), .bytes = 16 * MIB,
                                      .flags = DECKLE_CREATE_QUIET};
    struct deckle *d;

    (void)state;
    assert_int_equal(deckle_create(&o, &d), 0);
    assert_true(deckle_alloc(d, DECKLE_GFP_KERNEL, 0) >= 0);
    in_child(has_a_copy, d);
    assert_valid(d);
    assert_int_equal(deckle_destroy(d), 1);
}

/* ---- recovery -------------------------------------------------------------------------------- */

static void test_recover(void **state)
{
    struct deckle_recover_file_report r = {.size = sizeof(r)};
    struct deckle_open_options o = opening(0), dry = opening(DECKLE_OPEN_DRY_RUN);
    struct deckle *d;
    struct stat st;
    uint64_t before;
    pid_t pid;

    (void)state;
    make_file();
    pid = start(hold_frames);
    assert_int_equal(deckle_recover_file(&o, &r), DECKLE_EBUSY);
    assert_int_equal(deckle_recover_file(&dry, &r), DECKLE_EBUSY);
    kill_child(pid);
    before = sum_of_file();
    assert_int_equal(deckle_recover_file(&dry, &r), 0);
    assert_int_equal(r.pool.clients, 1);
    assert_int_equal(sum_of_file(), before);
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(truncate(file, st.st_size / 2), 0);
    assert_int_equal(refused(0), DECKLE_ENOSPC);
    assert_int_equal(deckle_recover_file(&dry, &r), 0);
    assert_int_equal(r.bytes_found, st.st_size / 2);
    assert_int_equal(deckle_recover_file(&o, &r), 0);
    assert_int_equal(r.bytes_found, st.st_size / 2);
    assert_int_equal(r.bytes, st.st_size);
    assert_int_equal(r.pool.clients, 1);
    assert_int_equal(r.pool.frames, 2047);
    d = join(0);
    assert_int_equal(nr_free(d), 4096);
    assert_valid(d);
    use(d);
    deckle_destroy(d);
    /* So short that the tables of set-up are gone: refused, and left as it is. */
    assert_int_equal(truncate(file, 5000), 0);
    assert_true(deckle_recover_file(&o, &r) < 0);
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(st.st_size, 5000);
    unlink(file);
}

/* ---- all ------------------------------------------------------------------------------------- */

static int make_folder(void **state)
{
    struct deckle_shared_options o = making();
    const char *base = getenv("TMPDIR");
    int error;

    (void)state;
    snprintf(folder, sizeof(folder), "%.40s/deckle-XXXXXX", base ? base : "/tmp");
    if (!mkdtemp(folder))
        return -1;
    snprintf(file, sizeof(file), "%s/pool", folder);
    error = deckle_create_shared(&o, NULL);
    unlink(file);
    if (error != DECKLE_ENOTSUP)
        return error;
    rmdir(folder);
    printf("no shared pools here: %s\n", why);
    exit(TEST_SKIPPED);
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(file);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_make),         cmocka_unit_test(test_descriptors),
        cmocka_unit_test(test_options),      cmocka_unit_test(test_killed_maker),
        cmocka_unit_test(test_refused),      cmocka_unit_test(test_read_only),
        cmocka_unit_test(test_reap),         cmocka_unit_test(test_all_numbers),
        cmocka_unit_test(test_fork_shared),  cmocka_unit_test(test_orphan),
        cmocka_unit_test(test_fork_private), cmocka_unit_test(test_recover),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

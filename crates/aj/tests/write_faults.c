/* Loaded before the system's library: counts every operation that changes a file below
 * $FAULT_BELOW and disturbs some of them.
 *
 *   FAULT_KILL_AT=n     SIGKILL in place of the n-th operation
 *   FAULT_TEAR=1        ... after half of it, when it is a write
 *   FAULT_FAIL_FROM=n   the n-th and all later ones fail, as far as they need space,
 *   FAULT_FAIL_WHILE=f  ... or as long as this file exists,
 *   FAULT_ERRNO=e       ... with this number; with EROFS everything fails that is no reading
 *   FAULT_LOG=path      writes every operation down, with its data (see power_loss.rs)
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define LONGEST 4096

enum kind { CREATE = 1, WRITE, TRUNCATE, SYNC, RENAME, UNLINK, MAKE_DIRECTORY, REMOVE_DIRECTORY };
enum verdict { GO_ON, FAIL, KILL };

static const char *below, *fail_while;
static long kill_at, fail_from, fail_with;
static int is_torn, log_file = -1;
static atomic_long counted;
static pthread_mutex_t order = PTHREAD_MUTEX_INITIALIZER;

static long number(const char *name) {
    const char *value = getenv(name);
    return value ? atol(value) : 0;
}

__attribute__((constructor)) static void begin(void) {
    below = getenv("FAULT_BELOW");
    kill_at = number("FAULT_KILL_AT");
    is_torn = number("FAULT_TEAR") != 0;
    fail_from = number("FAULT_FAIL_FROM");
    fail_with = number("FAULT_ERRNO");
    fail_while = getenv("FAULT_FAIL_WHILE");
    const char *log = getenv("FAULT_LOG");
    if (log) log_file = syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static int is_below(const char *path) {
    return below && strncmp(path, below, strlen(below)) == 0;
}

/* The path of an open file; returns whether it is one that counts. */
static int path_of(int file, char *path) {
    char link[64];
    int before = errno;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    long length = syscall(SYS_readlinkat, AT_FDCWD, link, path, LONGEST - 1);
    errno = before;
    if (length <= 0) return 0;
    path[length] = 0;
    return is_below(path);
}

/* The full path of a name; returns whether it is one that counts. */
static int full_path(int directory, const char *name, char *path) {
    char base[LONGEST];
    if (name[0] == '/') {
        snprintf(path, LONGEST, "%s", name);
    } else if (directory == AT_FDCWD) {
        if (syscall(SYS_getcwd, base, sizeof base) <= 0) return 0;
        snprintf(path, LONGEST, "%.2000s/%.2000s", base, name);
    } else {
        path_of(directory, base);
        snprintf(path, LONGEST, "%.2000s/%.2000s", base, name);
    }
    return is_below(path);
}

static _Noreturn void die(void) {
    syscall(SYS_kill, getpid(), SIGKILL);
    for (;;) pause();
}

static enum verdict step(int needs_space) {
    long at = atomic_fetch_add(&counted, 1) + 1;
    if (kill_at && at == kill_at) return KILL;
    int before = errno;
    int fails = fail_from && at >= fail_from;
    if (fail_while && syscall(SYS_faccessat, AT_FDCWD, fail_while, F_OK) == 0) fails = 1;
    errno = before;
    if (!fails || !(needs_space || fail_with == EROFS)) return GO_ON;
    errno = (int)fail_with;
    return FAIL;
}

static void put(const void *bytes, size_t size) {
    const char *rest = bytes;
    while (size > 0) {
        long written = syscall(SYS_write, log_file, rest, size);
        if (written <= 0) die();
        rest += written;
        size -= (size_t)written;
    }
}

/* Writes an operation down: kind, lengths, place, paths, data. */
static void note(enum kind kind, const char *path, const char *other, int64_t place, const void *data, size_t size) {
    if (log_file < 0) return;
    uint32_t head[4] = {kind, (uint32_t)strlen(path), other ? (uint32_t)strlen(other) : 0, (uint32_t)size};
    put(head, sizeof head);
    put(&place, sizeof place);
    put(path, head[1]);
    if (other) put(other, head[2]);
    if (data) put(data, size);
}

/* So that the order in the log is that of the operations. */
static void enter(void) { if (log_file >= 0) pthread_mutex_lock(&order); }
static void leave(void) { if (log_file >= 0) pthread_mutex_unlock(&order); }

#define DISTURB(needs_space)                      \
    switch (step(needs_space)) {                  \
    case KILL: die();                             \
    case FAIL: return -1;                         \
    case GO_ON: break;                            \
    }

/* Opening */

static int open_any(int directory, const char *name, int flags, mode_t mode) {
    char path[LONGEST];
    if (fail_with == EROFS && (flags & O_ACCMODE) != O_RDONLY && full_path(directory, name, path)) DISTURB(1);
    if (!(flags & (O_CREAT | O_TRUNC)) || !full_path(directory, name, path))
        return (int)syscall(SYS_openat, directory, name, flags, mode);
    int before = errno;
    int is_new = syscall(SYS_faccessat, AT_FDCWD, path, F_OK) != 0;
    errno = before;
    if (!is_new && !(flags & O_TRUNC)) return (int)syscall(SYS_openat, directory, name, flags, mode);
    DISTURB(1);
    enter();
    int file = (int)syscall(SYS_openat, directory, name, flags, mode);
    if (file >= 0) note(is_new ? CREATE : TRUNCATE, path, NULL, 0, NULL, 0);
    leave();
    return file;
}

static mode_t mode_of(int flags, va_list rest) {
    return flags & (O_CREAT | __O_TMPFILE) ? (mode_t)va_arg(rest, int) : 0;
}

#define MODE(mode)                 \
    va_list rest;                  \
    va_start(rest, flags);         \
    mode_t mode = mode_of(flags, rest); \
    va_end(rest);

int open(const char *name, int flags, ...) { MODE(mode); return open_any(AT_FDCWD, name, flags, mode); }
int open64(const char *name, int flags, ...) { MODE(mode); return open_any(AT_FDCWD, name, flags, mode); }
int openat(int directory, const char *name, int flags, ...) { MODE(mode); return open_any(directory, name, flags, mode); }
int openat64(int directory, const char *name, int flags, ...) { MODE(mode); return open_any(directory, name, flags, mode); }
int creat(const char *name, mode_t mode) { return open_any(AT_FDCWD, name, O_CREAT | O_WRONLY | O_TRUNC, mode); }

/* Writing; a place below zero is where the file stands */

static ssize_t really_write(int file, const void *data, size_t size, off_t place) {
    if (place < 0) return syscall(SYS_write, file, data, size);
    return syscall(SYS_pwrite64, file, data, size, place);
}

static ssize_t write_any(int file, const void *data, size_t size, off_t place) {
    char path[LONGEST];
    if (!path_of(file, path)) return really_write(file, data, size, place);
    switch (step(1)) {
    case KILL:
        if (is_torn) really_write(file, data, size / 2, place);
        die();
    case FAIL: return -1;
    case GO_ON: break;
    }
    enter();
    off_t at = place < 0 ? lseek(file, 0, SEEK_CUR) : place;
    ssize_t written = really_write(file, data, size, place);
    if (written > 0) note(WRITE, path, NULL, at, data, (size_t)written);
    leave();
    return written;
}

ssize_t write(int file, const void *data, size_t size) { return write_any(file, data, size, -1); }
ssize_t pwrite(int file, const void *data, size_t size, off_t place) { return write_any(file, data, size, place); }
ssize_t pwrite64(int file, const void *data, size_t size, off64_t place) { return write_any(file, data, size, place); }

ssize_t writev(int file, const struct iovec *parts, int count) {
    char path[LONGEST];
    if (!path_of(file, path)) return syscall(SYS_writev, file, parts, count);
    /* A short write is allowed: whoever writes goes on behind it. */
    for (int at = 0; at < count; at++)
        if (parts[at].iov_len > 0) return write_any(file, parts[at].iov_base, parts[at].iov_len, -1);
    return 0;
}

static int truncate_any(int file, off_t length) {
    char path[LONGEST];
    if (!path_of(file, path)) return (int)syscall(SYS_ftruncate, file, length);
    DISTURB(0);
    enter();
    int done = (int)syscall(SYS_ftruncate, file, length);
    if (done == 0) note(TRUNCATE, path, NULL, length, NULL, 0);
    leave();
    return done;
}

int ftruncate(int file, off_t length) { return truncate_any(file, length); }
int ftruncate64(int file, off64_t length) { return truncate_any(file, length); }

/* Syncing */

static int sync_any(long call, int file) {
    char path[LONGEST];
    if (!path_of(file, path)) return (int)syscall(call, file);
    DISTURB(0);
    enter();
    int done = (int)syscall(call, file);
    if (done == 0) note(SYNC, path, NULL, 0, NULL, 0);
    leave();
    return done;
}

int fsync(int file) { return sync_any(SYS_fsync, file); }
int fdatasync(int file) { return sync_any(SYS_fdatasync, file); }

/* Names */

static int rename_any(int from_directory, const char *from, int to_directory, const char *to, unsigned flags) {
    char path[LONGEST], other[LONGEST];
    int counts = full_path(from_directory, from, path);
    counts |= full_path(to_directory, to, other);
    if (!counts) return (int)syscall(SYS_renameat2, from_directory, from, to_directory, to, flags);
    DISTURB(0);
    enter();
    int done = (int)syscall(SYS_renameat2, from_directory, from, to_directory, to, flags);
    if (done == 0) note(RENAME, path, other, 0, NULL, 0);
    leave();
    return done;
}

int rename(const char *from, const char *to) { return rename_any(AT_FDCWD, from, AT_FDCWD, to, 0); }
int renameat(int a, const char *from, int b, const char *to) { return rename_any(a, from, b, to, 0); }
int renameat2(int a, const char *from, int b, const char *to, unsigned flags) { return rename_any(a, from, b, to, flags); }

static int unlink_any(int directory, const char *name, int flags) {
    char path[LONGEST];
    if (!full_path(directory, name, path)) return (int)syscall(SYS_unlinkat, directory, name, flags);
    DISTURB(0);
    enter();
    int done = (int)syscall(SYS_unlinkat, directory, name, flags);
    if (done == 0) note(flags & AT_REMOVEDIR ? REMOVE_DIRECTORY : UNLINK, path, NULL, 0, NULL, 0);
    leave();
    return done;
}

int unlink(const char *name) { return unlink_any(AT_FDCWD, name, 0); }
int unlinkat(int directory, const char *name, int flags) { return unlink_any(directory, name, flags); }
int rmdir(const char *name) { return unlink_any(AT_FDCWD, name, AT_REMOVEDIR); }

static int mkdir_any(int directory, const char *name, mode_t mode) {
    char path[LONGEST];
    if (!full_path(directory, name, path)) return (int)syscall(SYS_mkdirat, directory, name, mode);
    DISTURB(1);
    enter();
    int done = (int)syscall(SYS_mkdirat, directory, name, mode);
    if (done == 0) note(MAKE_DIRECTORY, path, NULL, 0, NULL, 0);
    leave();
    return done;
}

int mkdir(const char *name, mode_t mode) { return mkdir_any(AT_FDCWD, name, mode); }
int mkdirat(int directory, const char *name, mode_t mode) { return mkdir_any(directory, name, mode); }

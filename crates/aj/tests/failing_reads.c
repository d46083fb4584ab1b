/* Loaded before the system's library: files below $FAILING cannot be read past $FAILING_AT bytes. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* How much of a file may be read from a place on; -1 when all of it. */
static long left(int file, long place) {
    char link[64], path[4096];
    const char *below = getenv("FAILING"), *at = getenv("FAILING_AT");
    if (!below || !at) return -1;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    long length = readlink(link, path, sizeof path - 1);
    if (length <= 0) return -1;
    path[length] = 0;
    if (strncmp(path, below, strlen(below)) != 0) return -1;
    long rest = atol(at) - place;
    return rest > 0 ? rest : 0;
}

ssize_t read(int file, void *buffer, size_t size) {
    int before = errno;
    long place = lseek(file, 0, SEEK_CUR);
    long most = place < 0 ? -1 : left(file, place);
    errno = before;
    if (most == 0 && size > 0) { errno = EIO; return -1; }
    if (most > 0 && (size_t)most < size) size = most;
    return syscall(SYS_read, file, buffer, size);
}

ssize_t pread64(int file, void *buffer, size_t size, off_t place) {
    long most = left(file, place);
    if (most == 0 && size > 0) { errno = EIO; return -1; }
    if (most > 0 && (size_t)most < size) size = most;
    return syscall(SYS_pread64, file, buffer, size, place);
}

ssize_t pread(int file, void *buffer, size_t size, off_t place) {
    return pread64(file, buffer, size, place);
}

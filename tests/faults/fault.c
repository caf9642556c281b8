/* Preloaded into a program: counts its calls that change files, and lets the N-th of them fail or
 * be the last one. Environment: HIF8_FAULT_AT=N (from 1; 0: none), HIF8_FAULT=kill, short or the
 * number of an errno value, HIF8_FAULT_TRACE=FILE for the names of all calls,
 * HIF8_FAULT_NO_EXCHANGE=1 for a file system that cannot exchange two names. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_long calls;

static void Record(const char* name) {
  static int trace = -1;
  const char* path = getenv("HIF8_FAULT_TRACE");
  if (path == NULL) return;
  if (trace < 0)
    trace = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC,
                         0600);
  char line[64];
  const int size = snprintf(line, sizeof(line), "%s\n", name);
  syscall(SYS_write, trace, line, (size_t)size);
}

/* What the call is to end with: 0 as it does, -1 short, else an errno value. */
static int Fault(const char* name) {
  const char* at = getenv("HIF8_FAULT_AT");
  Record(name);
  const long call = atomic_fetch_add(&calls, 1) + 1;
  if (at == NULL || call != atol(at)) return 0;
  const char* fault = getenv("HIF8_FAULT");
  if (strcmp(fault, "kill") == 0) {
    kill(getpid(), SIGKILL);
    for (;;) pause();
  }
  return strcmp(fault, "short") == 0 ? -1 : atoi(fault);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define FAIL(name)              \
  do {                          \
    const int fault = Fault(name); \
    if (fault > 0) {            \
      errno = fault;            \
      return -1;                \
    }                           \
  } while (0)

#define WRAP(name, parameters, arguments) \
  int name parameters {                   \
    FAIL(#name);                          \
    return REAL(name) arguments;          \
  }

WRAP(rename, (const char* a, const char* b), (a, b))
WRAP(renameat, (int d, const char* a, int e, const char* b), (d, a, e, b))
WRAP(link, (const char* a, const char* b), (a, b))
WRAP(linkat, (int d, const char* a, int e, const char* b, int f), (d, a, e, b, f))
WRAP(symlink, (const char* a, const char* b), (a, b))
WRAP(unlink, (const char* a), (a))
WRAP(unlinkat, (int d, const char* a, int f), (d, a, f))
WRAP(remove, (const char* a), (a))
WRAP(rmdir, (const char* a), (a))
WRAP(mkdir, (const char* a, mode_t m), (a, m))
WRAP(mkdirat, (int d, const char* a, mode_t m), (d, a, m))
WRAP(truncate, (const char* a, off_t n), (a, n))
WRAP(ftruncate, (int d, off_t n), (d, n))
WRAP(ftruncate64, (int d, off64_t n), (d, n))
WRAP(fsync, (int d), (d))
WRAP(fdatasync, (int d), (d))
WRAP(sync_file_range, (int d, off64_t a, off64_t n, unsigned f), (d, a, n, f))
WRAP(fchmod, (int d, mode_t m), (d, m))
WRAP(fchmodat, (int d, const char* a, mode_t m, int f), (d, a, m, f))

int renameat2(int d, const char* a, int e, const char* b, unsigned flags) {
  FAIL("renameat2");
  if (flags != 0 && getenv("HIF8_FAULT_NO_EXCHANGE") != NULL) {
    errno = EINVAL;
    return -1;
  }
  return REAL(renameat2)(d, a, e, b, flags);
}

/* Standard streams are not files of the result. */
ssize_t write(int d, const void* bytes, size_t n) {
  if (d > 2) {
    const int fault = Fault("write");
    if (fault > 0) {
      errno = fault;
      return -1;
    }
    if (fault < 0 && n > 1) n /= 2;
  }
  return REAL(write)(d, bytes, n);
}

ssize_t writev(int d, const struct iovec* parts, int n) {
  if (d > 2) {
    const int fault = Fault("writev");
    if (fault > 0) {
      errno = fault;
      return -1;
    }
    if (fault < 0 && n > 1) n /= 2;
  }
  return REAL(writev)(d, parts, n);
}

#define TRANSFER(name, parameters, arguments) \
  ssize_t name parameters {                   \
    const int fault = Fault(#name);           \
    if (fault > 0) {                          \
      errno = fault;                          \
      return -1;                              \
    }                                         \
    if (fault < 0 && n > 1) n /= 2;           \
    return REAL(name) arguments;              \
  }

ssize_t sendfile(int out, int in, off_t* offset, size_t n);
ssize_t sendfile64(int out, int in, off64_t* offset, size_t n);
TRANSFER(sendfile, (int out, int in, off_t* at, size_t n), (out, in, at, n))
TRANSFER(sendfile64, (int out, int in, off64_t* at, size_t n), (out, in, at, n))
TRANSFER(copy_file_range, (int a, off64_t* i, int b, off64_t* j, size_t n, unsigned f),
         (a, i, b, j, n, f))
TRANSFER(pwrite, (int d, const void* p, size_t n, off_t at), (d, p, n, at))
TRANSFER(pwrite64, (int d, const void* p, size_t n, off64_t at), (d, p, n, at))

#define OPENS(flags) (((flags) & (O_CREAT | O_TRUNC)) != 0)
#define OPEN(name, parameters, arguments)     \
  int name parameters {                       \
    mode_t mode = 0;                          \
    if (((flags) & O_CREAT) != 0) {           \
      va_list rest;                           \
      va_start(rest, flags);                  \
      mode = va_arg(rest, mode_t);            \
      va_end(rest);                           \
    }                                         \
    if (OPENS(flags)) FAIL(#name);            \
    return REAL(name) arguments;              \
  }

OPEN(open, (const char* path, int flags, ...), (path, flags, mode))
OPEN(open64, (const char* path, int flags, ...), (path, flags, mode))
OPEN(openat, (int d, const char* path, int flags, ...), (d, path, flags, mode))
OPEN(openat64, (int d, const char* path, int flags, ...), (d, path, flags, mode))

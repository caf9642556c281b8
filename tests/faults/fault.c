/* Preloaded into a program: counts its calls that change files below a folder, and lets the N-th of
 * them fail or be the last one. Environment: HIF8_FAULT_BELOW=FOLDER, HIF8_FAULT_AT=N (from 1; 0:
 * none), HIF8_FAULT=kill, short or the number of an errno value, HIF8_FAULT_TRACE=FILE for the
 * names of all calls and their paths, HIF8_FAULT_NO_EXCHANGE=1 for a file system that cannot
 * exchange two names. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
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

static void Record(const char* name, const char* path) {
  static int trace = -1;
  const char* file = getenv("HIF8_FAULT_TRACE");
  if (file == NULL) return;
  if (trace < 0)
    trace =
        (int)syscall(SYS_openat, AT_FDCWD, file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  char line[2 * PATH_MAX];
  const int size = snprintf(line, sizeof(line), "%s %s\n", name, path);
  syscall(SYS_write, trace, line, (size_t)size);
}

/* Puts the absolute path of `path` in the folder `at`, or of `at` itself where `path` is NULL. */
static void Locate(int at, const char* path, char* found, size_t size) {
  found[0] = 0;
  size_t length = 0;
  if (path == NULL || path[0] != '/') {
    char link[64];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", at);
    const ssize_t n = readlink(at == AT_FDCWD ? "/proc/self/cwd" : link, found, size - 1);
    length = n < 0 ? 0 : (size_t)n;
    found[length] = 0;
  }
  if (path != NULL) snprintf(found + length, size - length, length == 0 ? "%s" : "/%s", path);
}

/* What the call is to end with: 0 as it does, -1 short, else an errno value. */
static int Fault(const char* name, int folder, const char* path) {
  const char* at = getenv("HIF8_FAULT_AT");
  const char* below = getenv("HIF8_FAULT_BELOW");
  char located[PATH_MAX + 256];
  Locate(folder, path, located, sizeof(located));
  if (below == NULL || strncmp(located, below, strlen(below)) != 0) return 0;
  Record(name, located);
  const long call = atomic_fetch_add(&calls, 1) + 1;
  if (at == NULL || call != atol(at)) return 0;
  const char* fault = getenv("HIF8_FAULT");
  if (strcmp(fault, "kill") == 0) {
    kill(getpid(), SIGKILL);
    for (;;) pause();
  }
  if (strcmp(fault, "shrink") == 0) {
    if (syscall(SYS_truncate, getenv("HIF8_FAULT_FILE"), atol(getenv("HIF8_FAULT_SIZE"))) != 0)
      abort();
    return 0;
  }
  return strcmp(fault, "short") == 0 ? -1 : atoi(fault);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define FAIL(name, at, path)                 \
  do {                                       \
    const int fault = Fault(name, at, path); \
    if (fault > 0) {                         \
      errno = fault;                         \
      return -1;                             \
    }                                        \
  } while (0)

#define WRAP(name, parameters, arguments, at, path) \
  int name parameters {                             \
    FAIL(#name, at, path);                          \
    return REAL(name) arguments;                    \
  }

WRAP(rename, (const char* a, const char* b), (a, b), AT_FDCWD, b)
WRAP(renameat, (int d, const char* a, int e, const char* b), (d, a, e, b), e, b)
WRAP(link, (const char* a, const char* b), (a, b), AT_FDCWD, b)
WRAP(linkat, (int d, const char* a, int e, const char* b, int f), (d, a, e, b, f), e, b)
WRAP(symlink, (const char* a, const char* b), (a, b), AT_FDCWD, b)
WRAP(unlink, (const char* a), (a), AT_FDCWD, a)
WRAP(unlinkat, (int d, const char* a, int f), (d, a, f), d, a)
WRAP(remove, (const char* a), (a), AT_FDCWD, a)
WRAP(rmdir, (const char* a), (a), AT_FDCWD, a)
WRAP(mkdir, (const char* a, mode_t m), (a, m), AT_FDCWD, a)
WRAP(mkdirat, (int d, const char* a, mode_t m), (d, a, m), d, a)
WRAP(truncate, (const char* a, off_t n), (a, n), AT_FDCWD, a)
WRAP(ftruncate, (int d, off_t n), (d, n), d, NULL)
WRAP(ftruncate64, (int d, off64_t n), (d, n), d, NULL)
WRAP(fsync, (int d), (d), d, NULL)
WRAP(fdatasync, (int d), (d), d, NULL)
WRAP(sync_file_range, (int d, off64_t a, off64_t n, unsigned f), (d, a, n, f), d, NULL)
WRAP(fchmod, (int d, mode_t m), (d, m), d, NULL)
WRAP(fchmodat, (int d, const char* a, mode_t m, int f), (d, a, m, f), d, a)

int renameat2(int d, const char* a, int e, const char* b, unsigned flags) {
  FAIL("renameat2", e, b);
  if (flags != 0 && getenv("HIF8_FAULT_NO_EXCHANGE") != NULL) {
    errno = EINVAL;
    return -1;
  }
  return REAL(renameat2)(d, a, e, b, flags);
}

#define TRANSFER(name, parameters, arguments, to) \
  ssize_t name parameters {                       \
    const int fault = Fault(#name, to, NULL);     \
    if (fault > 0) {                              \
      errno = fault;                              \
      return -1;                                  \
    }                                             \
    if (fault < 0 && n > 1) n /= 2;               \
    return REAL(name) arguments;                  \
  }

TRANSFER(write, (int d, const void* p, size_t n), (d, p, n), d)
TRANSFER(writev, (int d, const struct iovec* p, int n), (d, p, n), d)
ssize_t sendfile(int out, int in, off_t* offset, size_t n);
ssize_t sendfile64(int out, int in, off64_t* offset, size_t n);
TRANSFER(sendfile, (int out, int in, off_t* at, size_t n), (out, in, at, n), out)
TRANSFER(sendfile64, (int out, int in, off64_t* at, size_t n), (out, in, at, n), out)
TRANSFER(copy_file_range, (int a, off64_t* i, int b, off64_t* j, size_t n, unsigned f),
         (a, i, b, j, n, f), b)
TRANSFER(pwrite, (int d, const void* p, size_t n, off_t at), (d, p, n, at), d)
TRANSFER(pwrite64, (int d, const void* p, size_t n, off64_t at), (d, p, n, at), d)

#define OPENS(flags) (((flags) & (O_CREAT | O_TRUNC)) != 0)
#define OPEN(name, parameters, arguments, at) \
  int name parameters {                       \
    mode_t mode = 0;                          \
    if (((flags)&O_CREAT) != 0) {             \
      va_list rest;                           \
      va_start(rest, flags);                  \
      mode = va_arg(rest, mode_t);            \
      va_end(rest);                           \
    }                                         \
    if (OPENS(flags)) FAIL(#name, at, path);  \
    return REAL(name) arguments;              \
  }

OPEN(open, (const char* path, int flags, ...), (path, flags, mode), AT_FDCWD)
OPEN(open64, (const char* path, int flags, ...), (path, flags, mode), AT_FDCWD)
OPEN(openat, (int d, const char* path, int flags, ...), (d, path, flags, mode), d)
OPEN(openat64, (int d, const char* path, int flags, ...), (d, path, flags, mode), d)

static atomic_long threads;

struct Thread {
  void* (*run)(void*);
  void* argument;
};

static void* RunCounted(void* thread) {
  const struct Thread mine = *(struct Thread*)thread;
  free(thread);
  void* const result = mine.run(mine.argument);
  atomic_fetch_sub(&threads, 1);
  return result;
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                   void* argument) {
  const char* most = getenv("HIF8_FAULT_THREADS");
  if (most == NULL) return REAL(pthread_create)(thread, attributes, run, argument);
  if (atomic_fetch_add(&threads, 1) >= atol(most)) {
    atomic_fetch_sub(&threads, 1);
    return EAGAIN;
  }
  struct Thread* const counted = malloc(sizeof(*counted));
  counted->run = run;
  counted->argument = argument;
  return REAL(pthread_create)(thread, attributes, RunCounted, counted);
}

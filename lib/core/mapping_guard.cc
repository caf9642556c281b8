#include "lib/core/mapping_guard.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <string>

#include "lib/core/error.h"

// The handler runs where a page was touched. It calls nothing but system calls, takes a lock that
// only handlers take, and returns, so that no frame is left by a jump. What it puts in the place of
// the lost pages lets the interrupted code go on until somebody looks at the flag.
namespace hif8 {
namespace {

constexpr size_t kMaxLine = PATH_MAX + 256;

std::atomic<bool> lost{false};
std::atomic_flag busy = ATOMIC_FLAG_INIT;
char lost_path[PATH_MAX] = "";  // of the first one, before `lost` is set
struct sigaction previous {};

// The caller holds `busy`.
void Remember(const char* path) {
  if (lost.load()) return;
  std::strncpy(lost_path, path, sizeof(lost_path) - 1);
  lost.store(true);
}

struct MapLine {
  uintptr_t begin = 0;
  uintptr_t end = 0;
  bool read_only = false;      // and not executable
  const char* path = nullptr;  // of a file
};

// "7f00-7f10 r--p 00000000 08:01 123   /path"
bool ParseLine(const char* line, MapLine* map) {
  const auto hex = [&line] {
    uintptr_t value = 0;
    for (; std::strchr("0123456789abcdef", *line) != nullptr && *line != 0; ++line) {
      value = value * 16 + static_cast<uintptr_t>(*line <= '9' ? *line - '0' : *line - 'a' + 10);
    }
    return value;
  };
  map->begin = hex();
  if (*line++ != '-') return false;
  map->end = hex();
  map->read_only = std::strncmp(line, " r--", 4) == 0;
  const char* const path = std::strchr(line, '/');
  map->path = path;
  return true;
}

// Calls `visit` with every line of the process's table of mappings until it returns true.
template <typename Visit>
bool VisitMappings(const Visit& visit) {
  static char buffer[2 * kMaxLine];  // guarded by `busy`: a signal's stack may be small
  const int fd = ::open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  size_t held = 0;
  bool found = false;
  while (!found) {
    const ssize_t n = ::read(fd, buffer + held, sizeof(buffer) - 1 - held);
    if (n <= 0) break;
    held += static_cast<size_t>(n);
    buffer[held] = 0;
    char* line = buffer;
    for (char* end; !found && (end = std::strchr(line, '\n')) != nullptr; line = end + 1) {
      *end = 0;
      found = visit(line);
    }
    held -= static_cast<size_t>(line - buffer);
    std::memmove(buffer, line, held);
  }
  ::close(fd);
  return found;
}

// Puts zeros from the page of `address` to the end of its mapping. False when that is no mapping of
// a file that is only read.
bool Replace(uintptr_t address) {
  return VisitMappings([address](const char* line) {
    MapLine map;
    if (!ParseLine(line, &map) || address < map.begin || address >= map.end) return false;
    // Another thread met the same loss a moment ago.
    if (map.path == nullptr) return map.read_only && lost.load();
    if (!map.read_only) return false;
    const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
    const uintptr_t from = address / page * page;
    void* const zeros = ::mmap(reinterpret_cast<void*>(from), map.end - from, PROT_READ,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (zeros == MAP_FAILED) return false;
    Remember(map.path);
    return true;
  });
}

void OnBusError(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  while (busy.test_and_set(std::memory_order_acquire)) {
  }
  const bool replaced = Replace(reinterpret_cast<uintptr_t>(info->si_addr));
  busy.clear(std::memory_order_release);
  errno = error;
  if (replaced) return;
  if ((previous.sa_flags & SA_SIGINFO) != 0 && previous.sa_sigaction != nullptr) {
    previous.sa_sigaction(signal, info, context);
  } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
    previous.sa_handler(signal);
  } else {
    std::signal(signal, SIG_DFL);  // the access that failed is made again
  }
}

}  // namespace

void InstallMappingGuard() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action {};
    action.sa_sigaction = OnBusError;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    ::sigemptyset(&action.sa_mask);
    ::sigaction(SIGBUS, &action, &previous);
  });
}

void ReportLostMapping(const char* path) {
  while (busy.test_and_set(std::memory_order_acquire)) {
  }
  Remember(path);
  busy.clear(std::memory_order_release);
}

void CheckMappings() {
  if (!lost.load(std::memory_order_acquire)) return;
  throw EnvironmentError("the file got shorter while it was read, or its disk failed",
                         "let nobody write the file during the run, and start it again", lost_path);
}

void TouchPages(const void* data, size_t size) {
  constexpr size_t kPage = 4096;
  const volatile char* const bytes = static_cast<const volatile char*>(data);
  for (size_t i = 0; i < size; i += kPage) (void)bytes[i];
  if (size > 0) (void)bytes[size - 1];
}

}  // namespace hif8

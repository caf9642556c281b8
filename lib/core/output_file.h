// A file that is written from front to back.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "lib/core/error.h"

namespace hif8 {

// Returns the kEnvironment error of a failed write to `path`; `error` is an errno value.
Error WriteError(const std::filesystem::path& path, int error);

// Calls `system_call` again for as long as a signal interrupts it; returns its last result.
template <typename F>
int Retried(F system_call) {
  int result = 0;
  do {
    result = system_call();
  } while (result < 0 && errno == EINTR);
  return result;
}

// Makes a new file, in place of one that has the name: a link that stands there is removed, never
// followed, and other names of the old file keep it. Every error is kEnvironment with the system's
// reason (disk full has its own hint). A file that was not closed is left behind as it is: its
// folder is temporary.
class OutputFile {
 public:
  explicit OutputFile(std::filesystem::path path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void Write(std::span<const std::byte> bytes);
  void Write(std::string_view text) { Write(std::as_bytes(std::span(text))); }
  // Syncs the contents to the disk and closes the file.
  void Close();

  uint64_t size() const { return size_; }
  const std::filesystem::path& path() const { return path_; }

 private:
  void StartSync();

  std::filesystem::path path_;
  int fd_ = -1;
  uint64_t size_ = 0;
  uint64_t started_ = 0;  // so much is on its way to the disk
};

// Writes `text` to a new file, synced, in place of one that has the name; of a folder that is not
// the result yet. Throws kEnvironment.
void WriteFile(const std::filesystem::path& path, std::string_view text);

}  // namespace hif8

// A file that is written from front to back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

namespace hif8 {

// Creates or truncates the file. Every error is kEnvironment with the system's reason (disk full
// has its own hint). A file that was not closed is left behind as it is: its folder is temporary.
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

}  // namespace hif8

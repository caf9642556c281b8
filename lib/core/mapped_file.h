// A file mapped read-only. What happens when it gets shorter meanwhile: see mapping_guard.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

namespace hif8 {

class MappedFile {
 public:
  // Throws kModel when the file cannot be opened or is no regular file, kEnvironment when mapping
  // fails. An empty file gives an empty span.
  static std::shared_ptr<const MappedFile> Open(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  // Throws kEnvironment naming the file when one that is or was mapped got shorter than it was when
  // it was opened. Looks at every open one: to be called before a result is shown.
  static void CheckAll();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::filesystem::path& path() const { return path_; }

 private:
  MappedFile() = default;
  bool Shrunk() const;

  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  uint64_t device_ = 0, inode_ = 0;
};

}  // namespace hif8

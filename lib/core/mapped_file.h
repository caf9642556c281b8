// A file mapped read-only.
#pragma once

#include <cstddef>
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

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::filesystem::path& path() const { return path_; }

 private:
  MappedFile() = default;
  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace hif8

// The safetensors file format: 8 bytes little-endian header length, JSON header, data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lib/core/mapped_file.h"
#include "lib/core/output_file.h"
#include "lib/core/tensor.h"

namespace hif8 {

// User metadata (`__metadata__`) in the file's own order.
using SafetensorsMetadata = std::vector<std::pair<std::string, std::string>>;

struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  uint64_t begin = 0;  // byte offsets in the data section, set by the reader; the writer moves them
  uint64_t end = 0;
  std::string opaque_type = {};  // how the file spells the type where dtype is kOpaque

  uint64_t bytes() const { return end - begin; }
  // Returns the type as files spell it: "BF16".
  std::string_view type() const {
    return dtype == DType::kOpaque ? std::string_view(opaque_type) : DTypeName(dtype);
  }
};

// Returns the bytes that a tensor's type and shape ask for, rounded up to whole ones; for kOpaque
// as many as its range has. The product must be below 2^60.
uint64_t DataBytes(const SafetensorsEntry& entry);

// Gives each tensor its range, one behind the other, and returns the header of a file of them.
// `metadata` null: no `__metadata__` in it. Tensors of kOpaque come with a range, which says how
// many bytes they have. Throws kModel when the header is longer than readers take (100 MB).
std::string LayOutHeader(const std::string& file, const SafetensorsMetadata* metadata,
                         std::vector<SafetensorsEntry>* tensors);

// A mapped, checked file. Nothing but the header is touched until a tensor's bytes are read.
class SafetensorsFile {
 public:
  // Throws kModel naming tensor and offset where the file breaks a rule of the format: header of at
  // most 100 MB inside the file, unique names, offsets inside the data section, without overlap or
  // gap, sizes that match shape x dtype where that is known; and for a pointer of Git LFS.
  static std::shared_ptr<const SafetensorsFile> Open(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_->path(); }
  // In the header's order.
  const std::vector<SafetensorsEntry>& tensors() const { return tensors_; }
  const SafetensorsMetadata& metadata() const { return metadata_; }
  bool has_metadata() const { return has_metadata_; }
  uint64_t file_bytes() const { return file_->bytes().size(); }
  // Returns the header as it stands in the file.
  std::string_view header() const;

  // Returns null when there is no such tensor.
  const SafetensorsEntry* Find(std::string_view name) const;
  // Returns the stored bytes; valid as long as this object. At any alignment.
  std::span<const std::byte> Bytes(const SafetensorsEntry& entry) const;
  // Returns a tensor that keeps the mapping alive.
  Tensor Read(const SafetensorsEntry& entry) const;

 private:
  SafetensorsFile() = default;
  void ParseHeader();
  void CheckLayout() const;

  std::shared_ptr<const MappedFile> file_;
  std::vector<SafetensorsEntry> tensors_;
  std::unordered_map<std::string_view, size_t> by_name_;  // keys point into tensors_
  SafetensorsMetadata metadata_;
  bool has_metadata_ = false;
  uint64_t data_begin_ = 0;
};

// Writes a file whose tensors are known beforehand: the header first, then the data in the same
// order. Errors are kEnvironment.
class SafetensorsWriter {
 public:
  // Writes the header, see LayOutHeader.
  SafetensorsWriter(std::filesystem::path path, std::vector<SafetensorsEntry> tensors,
                    const SafetensorsMetadata* metadata);

  // Appends bytes of tensor `index`. Tensors come in order; one may come in several pieces.
  void Write(size_t index, std::span<const std::byte> bytes);
  // Checks that everything was written, syncs and closes.
  void Finish();

  uint64_t size() const { return file_.size(); }

 private:
  OutputFile file_;
  std::vector<SafetensorsEntry> tensors_;
  size_t next_ = 0;       // tensor being written
  uint64_t written_ = 0;  // bytes of all tensors so far
};

}  // namespace hif8

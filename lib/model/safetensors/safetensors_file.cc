#include "lib/model/safetensors/safetensors_file.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "lib/core/error.h"
#include "lib/core/input_file.h"
#include "lib/model/safetensors/header.h"

namespace hif8 {
namespace {

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;

std::string Range(const SafetensorsEntry& entry) {
  return "[" + std::to_string(entry.begin) + ", " + std::to_string(entry.end) + ")";
}

Error TensorError(const std::filesystem::path& path, const SafetensorsEntry& entry,
                  const std::string& problem) {
  return ModelError(
      "tensor '" + entry.name + "' at data offset " + std::to_string(entry.begin) + ": " + problem,
      "the file is damaged or was not written completely; get it again", path.string());
}

// Whether the range has as many bytes as elements of that shape and type take together.
bool RangeFits(const SafetensorsEntry& entry) {
  if (entry.dtype == DType::kOpaque) return true;
  uint64_t bits = DTypeBits(entry.dtype);
  bool overflow = false;
  for (const int64_t d : entry.shape) {
    if (d == 0) return entry.bytes() == 0;
    overflow |= bits > uint64_t{INT64_MAX} / static_cast<uint64_t>(d);
    if (!overflow) bits *= static_cast<uint64_t>(d);
  }
  return !overflow && bits % 8 == 0 && bits / 8 == entry.bytes();
}

uint64_t LittleEndian64(const std::byte* p) {
  uint64_t value = 0;
  for (int i = 7; i >= 0; --i) value = value << 8 | static_cast<uint8_t>(p[i]);
  return value;
}

}  // namespace

uint64_t DataBytes(const SafetensorsEntry& entry) {
  if (entry.dtype == DType::kOpaque) return entry.bytes();
  return (ElementCount(entry.shape) * DTypeBits(entry.dtype) + 7) / 8;
}

std::string LayOutHeader(const std::string& file, const SafetensorsMetadata* metadata,
                         std::vector<SafetensorsEntry>* tensors) {
  uint64_t position = 0;
  for (SafetensorsEntry& entry : *tensors) {
    const uint64_t bytes = DataBytes(entry);
    entry.begin = position;
    position += bytes;
    entry.end = position;
  }
  std::string header = FormatSafetensorsHeader(*tensors, metadata);
  if (header.size() <= kMaxHeaderBytes) return header;
  throw ModelError("the header of the quantized file would have " + std::to_string(header.size()) +
                       " bytes: readers take at most " + std::to_string(kMaxHeaderBytes),
                   "save the checkpoint in more files, each with fewer tensors", file);
}

std::shared_ptr<const SafetensorsFile> SafetensorsFile::Open(const std::filesystem::path& path) {
  std::shared_ptr<SafetensorsFile> file(new SafetensorsFile());
  file->file_ = MappedFile::Open(path);
  file->ParseHeader();
  file->CheckLayout();
  for (size_t i = 0; i < file->tensors_.size(); ++i) {
    file->by_name_.emplace(file->tensors_[i].name, i);
  }
  return file;
}

void SafetensorsFile::ParseHeader() {
  const std::span<const std::byte> bytes = file_->bytes();
  const std::string hint = "is it a complete safetensors file?";
  RequireNoLfsPointer({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path());
  if (bytes.size() < kLengthBytes) {
    throw ModelError("expected at least 8 bytes, found " + std::to_string(bytes.size()), hint,
                     path().string());
  }
  const uint64_t length = LittleEndian64(bytes.data());
  if (length > kMaxHeaderBytes) {
    throw ModelError("header length at offset 0: expected at most " +
                         std::to_string(kMaxHeaderBytes) + ", found " + std::to_string(length),
                     hint, path().string());
  }
  if (length > bytes.size() - kLengthBytes) {
    throw ModelError("the header of " + std::to_string(length) + " bytes at offset 8 goes past " +
                         "the end of the file of " + std::to_string(bytes.size()) + " bytes",
                     hint, path().string());
  }
  data_begin_ = kLengthBytes + length;
  SafetensorsHeader parsed = ParseSafetensorsHeader(header(), path().string());
  tensors_ = std::move(parsed.tensors);
  metadata_ = std::move(parsed.metadata);
  has_metadata_ = parsed.has_metadata;
}

std::string_view SafetensorsFile::header() const {
  const char* text = reinterpret_cast<const char*>(file_->bytes().data()) + kLengthBytes;
  return {text, static_cast<size_t>(data_begin_ - kLengthBytes)};
}

void SafetensorsFile::CheckLayout() const {
  const uint64_t data_bytes = file_bytes() - data_begin_;
  std::vector<size_t> order(tensors_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const auto& [x, y] = std::tie(tensors_[a], tensors_[b]);
    return std::tie(x.begin, x.end) < std::tie(y.begin, y.end);
  });
  uint64_t position = 0;
  for (const size_t index : order) {
    const SafetensorsEntry& entry = tensors_[index];
    if (entry.begin > entry.end || entry.end > data_bytes) {
      throw TensorError(path(), entry,
                        "its range " + Range(entry) + " is not inside the data section of " +
                            std::to_string(data_bytes) + " bytes");
    }
    if (!RangeFits(entry)) {
      throw TensorError(path(), entry,
                        "shape " + ShapeText(entry.shape) + " of " + std::string(entry.type()) +
                            " does not match the " + std::to_string(entry.bytes()) +
                            " bytes of its range " + Range(entry));
    }
    if (entry.begin < position) {
      throw TensorError(path(), entry,
                        "its range " + Range(entry) + " overlaps another tensor, which ends at " +
                            std::to_string(position));
    }
    if (entry.begin > position) {
      throw TensorError(path(), entry,
                        "a gap lies before its range " + Range(entry) + ": expected it to begin " +
                            "at " + std::to_string(position));
    }
    position = entry.end;
  }
  if (position != data_bytes) {
    throw ModelError("the tensors end at data offset " + std::to_string(position) +
                         ", but the data section has " + std::to_string(data_bytes) + " bytes",
                     "the file is damaged; get it again", path().string());
  }
}

const SafetensorsEntry* SafetensorsFile::Find(std::string_view name) const {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : &tensors_[it->second];
}

std::span<const std::byte> SafetensorsFile::Bytes(const SafetensorsEntry& entry) const {
  return file_->bytes().subspan(data_begin_ + entry.begin, entry.bytes());
}

Tensor SafetensorsFile::Read(const SafetensorsEntry& entry) const {
  Tensor tensor;
  tensor.view = {entry.dtype, entry.shape, Bytes(entry).data()};
  tensor.owner = file_;
  return tensor;
}

SafetensorsWriter::SafetensorsWriter(std::filesystem::path path,
                                     std::vector<SafetensorsEntry> tensors,
                                     const SafetensorsMetadata* metadata)
    : file_(std::move(path)), tensors_(std::move(tensors)) {
  const std::string header = LayOutHeader(file_.path().filename().string(), metadata, &tensors_);
  char length[kLengthBytes];
  for (size_t i = 0; i < kLengthBytes; ++i) {
    length[i] = static_cast<char>(uint64_t{header.size()} >> (8 * i) & 0xFF);
  }
  file_.Write(std::string_view(length, kLengthBytes));
  file_.Write(header);
}

void SafetensorsWriter::Write(size_t index, std::span<const std::byte> bytes) {
  while (next_ < index && written_ == tensors_[next_].end) ++next_;
  if (next_ != index || written_ + bytes.size() > tensors_[index].end) {
    throw BugError("tensor '" + tensors_[index].name + "' written out of order",
                   file_.path().string());
  }
  file_.Write(bytes);
  written_ += bytes.size();
}

void SafetensorsWriter::Finish() {
  if (!tensors_.empty() && written_ != tensors_.back().end) {
    throw BugError("not every tensor was written", file_.path().string());
  }
  file_.Close();
}

}  // namespace hif8

#include "lib/model/onnx/raw_data.h"

#include <optional>
#include <span>
#include <vector>

#include "lib/model/onnx/external_data.h"

namespace hif8 {
namespace {

// Walks the fields of one message in protobuf's wire format.
class Fields {
 public:
  Fields(const std::byte* base, std::span<const std::byte> bytes)
      : base_(base), at_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  // The next length-delimited field; others are passed over. False at the end.
  bool Next() {
    while (at_ < end_) {
      const std::optional<uint64_t> tag = Varint();
      if (!tag) return false;
      number_ = static_cast<int>(*tag >> 3);
      switch (*tag & 7) {
        case 0:
          if (!Varint()) return false;
          break;
        case 1:
          at_ += 8;
          break;
        case 5:
          at_ += 4;
          break;
        case 2: {
          const std::optional<uint64_t> length = Varint();
          if (!length || *length > static_cast<uint64_t>(end_ - at_)) return false;
          bytes_ = {at_, static_cast<size_t>(*length)};
          at_ += *length;
          return true;
        }
        default:
          return false;  // groups: ONNX has none
      }
    }
    return false;
  }
  int number() const { return number_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  uint64_t offset() const { return static_cast<uint64_t>(bytes_.data() - base_); }
  Fields Inside() const { return {base_, bytes_}; }

 private:
  std::optional<uint64_t> Varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64 && at_ < end_; shift += 7) {
      const auto byte = std::to_integer<uint64_t>(*at_++);
      value |= (byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    return std::nullopt;
  }

  const std::byte* base_;
  const std::byte* at_;
  const std::byte* end_;
  int number_ = 0;
  std::span<const std::byte> bytes_;
};

// Where the raw data of every initializer starts, 0 for those that have none.
std::vector<uint64_t> RawDataOffsets(std::span<const std::byte> model) {
  std::vector<uint64_t> offsets;
  Fields fields(model.data(), model);
  while (fields.Next()) {
    if (fields.number() != onnx::ModelProto::kGraphFieldNumber) continue;
    Fields graph = fields.Inside();
    while (graph.Next()) {
      if (graph.number() != onnx::GraphProto::kInitializerFieldNumber) continue;
      offsets.push_back(0);
      Fields tensor = graph.Inside();
      while (tensor.Next()) {
        if (tensor.number() == onnx::TensorProto::kRawDataFieldNumber) {
          offsets.back() = tensor.offset();
        }
      }
    }
  }
  return offsets;
}

}  // namespace

void ReferToMappedFile(const MappedFile& file, uint64_t from_bytes, onnx::ModelProto* model) {
  onnx::GraphProto* graph = model->mutable_graph();
  const std::vector<uint64_t> offsets = RawDataOffsets(file.bytes());
  if (offsets.size() != static_cast<size_t>(graph->initializer_size())) return;
  for (int i = 0; i < graph->initializer_size(); ++i) {
    onnx::TensorProto* tensor = graph->mutable_initializer(i);
    const uint64_t size = tensor->raw_data().size();
    const uint64_t offset = offsets[static_cast<size_t>(i)];
    if (IsExternal(*tensor) || offset == 0 || size < from_bytes || size == 0) continue;
    SetExternalReference(tensor, file.path().filename().string(), offset, size);
    tensor->clear_raw_data();
  }
}

}  // namespace hif8

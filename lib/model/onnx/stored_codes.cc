#include "lib/model/onnx/stored_codes.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>

#include "lib/model/onnx/onnx_functions.h"
#include "lib/model/onnx/scale_shape.h"
#include "lib/model/onnx/tensor_data.h"
#include "lib/model/onnx/weight_codes.h"
#include "lib/numeric/packed_codes.h"
#include "lib/numeric/zero_points.h"

namespace hif8 {
namespace {

constexpr std::string_view kPackedFormat = "mxfp4";
constexpr std::string_view kIntegerFormat = "int8";

// What quantizers add to the name of a tensor for its codes, or for what they are decoded to.
constexpr std::array<std::string_view, 10> kSuffixes = {"_DequantizeLinear_Output",
                                                        "_DequantizeLinear",
                                                        "_dequantized",
                                                        "_quantized",
                                                        "_codes",
                                                        "_int8",
                                                        "_uint8",
                                                        "_fp8",
                                                        "_dq",
                                                        "_q"};

// Stored scales, and along which dimensions several elements share one.
struct SharedScales {
  const onnx::TensorProto* tensor = nullptr;
  std::map<int64_t, int64_t> edges;  // by axis
};

// How many elements share a scale by the places that are looked up; nothing when it is no equal
// number.
std::optional<int64_t> EdgeOf(const std::vector<int64_t>& places) {
  const int64_t edge = std::count(places.begin(), places.end(), int64_t{0});
  if (edge == 0) return std::nullopt;
  for (size_t i = 0; i < places.size(); ++i) {
    // The last scale stands for elements that fill up a byte as well.
    const int64_t place = std::min(static_cast<int64_t>(i) / edge, places.back());
    if (places[i] != place) return std::nullopt;
  }
  return edge;
}

// Back through the nodes that look up every element's scale.
SharedScales FindScales(const OnnxModel::Impl& model, int scope, std::string name) {
  SharedScales found;
  Definition at = model.scopes->Find(scope, name);
  while (at.kind == Definition::Kind::kNode) {
    const onnx::NodeProto& node = model.scopes->Node(at);
    name = InputName(node, 0);
    scope = at.scope;
    at = model.scopes->Find(scope, name);
    if (IsStandardOp(node, "Identity")) continue;
    const onnx::TensorProto* places = model.scopes->FindConstant(scope, InputName(node, 1));
    if (!IsStandardOp(node, "Gather") || places == nullptr) return {};
    const auto indices = ReadInts(*places, model.files);
    const std::optional<int64_t> edge = indices ? EdgeOf(*indices) : std::nullopt;
    if (!edge) return {};
    found.edges[IntAttribute(node, "axis", 0)] = *edge;
  }
  found.tensor = model.scopes->FindConstant(scope, name);
  return found;
}

// How many columns rows of packed codes have: two a byte, or one less where a Gather behind the
// node takes the last one away.
int64_t UnpackedColumns(const OnnxModel::Impl& model, int scope, const onnx::NodeProto& node,
                        const Shape& packed) {
  const int64_t bytes = packed.back();
  const auto last = static_cast<int64_t>(packed.size()) - 1;
  for (const onnx::NodeProto& reader : (*model.scopes)[scope].graph->node()) {
    if (!IsStandardOp(reader, "Gather") || InputName(reader, 0) != node.output(0)) continue;
    if (IntAttribute(reader, "axis", 0) != last) continue;
    const onnx::TensorProto* places = model.scopes->FindConstant(scope, InputName(reader, 1));
    if (places == nullptr) continue;
    // Anything but the half byte that fills up a row is the network's own business.
    const auto columns = static_cast<int64_t>(ElementCount(TensorShape(*places)));
    if (columns == 2 * bytes - 1) return columns;
  }
  return 2 * bytes;
}

bool IsInteger(int type) {
  DType dtype = DType::kF32;
  if (!ToDType(type, &dtype)) return false;
  return dtype == DType::kI8 || dtype == DType::kU8 || dtype == DType::kI16 ||
         dtype == DType::kU16 || dtype == DType::kI32;
}

// The format whose codes a standard operator reads from this element type.
std::string FormatOfType(int type) {
  if (type == kOnnxFloat8E4M3) return "fp8_e4m3";
  if (type == kOnnxFloat8E5M2) return "fp8_e5m2";
  const bool byte = type == onnx::TensorProto::INT8 || type == onnx::TensorProto::UINT8;
  return byte ? std::string(kIntegerFormat) : std::string();
}

std::vector<std::string> NamesOf(const onnx::NodeProto& node) {
  std::vector<std::string> names;
  for (const std::string& name : {InputName(node, 0), node.output(0)}) {
    names.push_back(name);
    for (const std::string_view suffix : kSuffixes) {
      if (name.size() > suffix.size() && name.ends_with(suffix)) {
        names.push_back(name.substr(0, name.size() - suffix.size()));
      }
    }
  }
  return names;
}

std::string TensorText(const onnx::TensorProto& tensor) {
  return OnnxTypeName(tensor.data_type()) + " " + ShapeText(TensorShape(tensor));
}

// Types that can be decoded together.
bool TypesFit(const StoredCodes& stored) {
  DType scale_type = DType::kF32;
  if (!ToDType(stored.scales->data_type(), &scale_type)) return false;
  if (!stored.standard) {
    return stored.codes->data_type() == onnx::TensorProto::UINT8 &&
           (IsFloat(scale_type) || scale_type == DType::kU8);
  }
  const bool known = !stored.format.empty() || IsInteger(stored.codes->data_type());
  return known && IsFloat(scale_type);
}

// Which codes share a scale. False when shapes or types do not fit together.
bool FindLayout(const onnx::NodeProto& node, const Shape& shape, std::map<int64_t, int64_t> edges,
                StoredCodes* stored) {
  if (!TypesFit(*stored)) return false;
  const Shape scales = TensorShape(*stored->scales);
  std::optional<int64_t> axis;
  if (stored->standard) {
    axis = IntAttribute(node, "axis", 1);
    if (*axis < 0) axis = *axis + static_cast<int64_t>(shape.size());
    const int64_t block = IntAttribute(node, "block_size", 0);
    if (block > 0) edges[*axis] = block;
  }
  return LayoutFor(shape, scales, axis, edges, &stored->layout) &&
         (stored->zero_points == nullptr ||
          ElementCount(TensorShape(*stored->zero_points)) == ElementCount(scales));
}

std::vector<float> Numbers(const Tensor& tensor) {
  std::vector<float> values(tensor.view.size());
  const std::byte* data = tensor.view.data;
  const auto fill = [&]<typename T>(T) {
    for (size_t i = 0; i < values.size(); ++i) {
      T value;
      std::memcpy(&value, data + i * sizeof(T), sizeof(T));
      values[i] = static_cast<float>(value);
    }
  };
  switch (tensor.view.dtype) {
    case DType::kI8:
      fill(int8_t{});
      break;
    case DType::kU8:
      fill(uint8_t{});
      break;
    case DType::kI16:
      fill(int16_t{});
      break;
    case DType::kU16:
      fill(uint16_t{});
      break;
    case DType::kI32:
      fill(int32_t{});
      break;
    default:
      ConvertToFloat(tensor.view.dtype, data, values.size(), values.data());
  }
  return values;
}

// UINT8 codes of the standard operator are 128 above those of the format.
bool IsOffset(const StoredCodes& stored) {
  return stored.standard && stored.codes->data_type() == onnx::TensorProto::UINT8;
}

}  // namespace

std::optional<StoredCodes> FindStoredCodes(const OnnxModel::Impl& model, int scope,
                                           const onnx::NodeProto& node) {
  if (node.op_type() != kDequantizeFunction || node.output_size() == 0) return std::nullopt;
  StoredCodes stored;
  stored.standard = IsStandardDomain(node.domain());
  const DequantizedWeight written = FindDequantizedWeight(node);
  const SharedScales scales = FindScales(model, scope, InputName(node, 1));
  stored.codes = model.scopes->FindConstant(scope, InputName(node, 0));
  stored.scales = scales.tensor;
  if (stored.codes == nullptr || stored.scales == nullptr) return std::nullopt;
  stored.format = stored.standard ? FormatOfType(stored.codes->data_type()) : written.format;
  if (!stored.standard && stored.format.empty()) return std::nullopt;
  if (written.weight.empty()) {
    stored.names = NamesOf(node);
  } else {
    stored.names = {written.weight};
  }
  const std::string& zero_points = InputName(node, 2);
  if (!zero_points.empty()) {
    stored.zero_points = model.scopes->FindConstant(scope, zero_points);
    if (stored.zero_points == nullptr) return std::nullopt;
  }
  stored.packed = !stored.standard && stored.format == kPackedFormat;
  Shape shape = TensorShape(*stored.codes);
  if (stored.packed && !shape.empty()) {
    shape.back() = UnpackedColumns(model, scope, node, shape);
  }
  if (!FindLayout(node, shape, scales.edges, &stored)) {
    stored.problem =
        "codes " + TensorText(*stored.codes) + " do not fit scales " + TensorText(*stored.scales);
  }
  return stored;
}

Tensor ReadCodes(const StoredCodes& stored, const DataFiles& files) {
  Tensor codes = ReadTensor(*stored.codes, files);
  if (!stored.packed && !IsOffset(stored)) return codes;
  std::byte* bytes = nullptr;
  Tensor result = Tensor::Allocate(DType::kU8, stored.layout.shape, &bytes);
  const std::span<const uint8_t> from{reinterpret_cast<const uint8_t*>(codes.view.data),
                                      codes.view.bytes()};
  const std::span<uint8_t> to{reinterpret_cast<uint8_t*>(bytes), stored.layout.size()};
  if (stored.packed) {
    if (!to.empty()) UnpackCodes(from, static_cast<size_t>(stored.layout.shape.back()), to);
  } else {
    std::transform(from.begin(), from.end(), to.begin(),
                   [](uint8_t code) { return static_cast<uint8_t>(code ^ 0x80U); });
  }
  return result;
}

Tensor ReadIntegers(const StoredCodes& stored, const DataFiles& files) {
  std::vector<float> values = Numbers(ReadTensor(*stored.codes, files));
  std::vector<float> zeros = ReadZeroPoints(stored, files);
  zeros.resize(stored.layout.scale_count());
  DecodeShifted({stored.layout, ReadScales(stored, files), zeros}, values);
  std::byte* bytes = nullptr;
  Tensor decoded = Tensor::Allocate(DType::kF32, stored.layout.shape, &bytes);
  if (!values.empty()) std::memcpy(bytes, values.data(), values.size() * sizeof(float));
  return decoded;
}

std::vector<float> ReadScales(const StoredCodes& stored, const DataFiles& files) {
  const Tensor scales = ReadTensor(*stored.scales, files);
  if (scales.view.dtype != DType::kU8) return Numbers(scales);
  std::vector<float> powers(scales.view.size());
  for (size_t i = 0; i < powers.size(); ++i) {
    powers[i] = E8M0Value(static_cast<uint8_t>(scales.view.data[i]));
  }
  return powers;
}

std::vector<float> ReadZeroPoints(const StoredCodes& stored, const DataFiles& files) {
  const bool integers = stored.standard && IsInteger(stored.codes->data_type());
  if (!integers) return {};
  const float offset = IsOffset(stored) ? 128 : 0;
  std::vector<float> zeros(stored.layout.scale_count());
  if (stored.zero_points != nullptr) zeros = Numbers(ReadTensor(*stored.zero_points, files));
  for (float& zero : zeros) zero -= offset;
  const bool any = std::any_of(zeros.begin(), zeros.end(), [](float zero) { return zero != 0; });
  return any ? zeros : std::vector<float>();
}

}  // namespace hif8

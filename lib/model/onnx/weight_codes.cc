#include "lib/model/onnx/weight_codes.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "lib/model/onnx/functions.h"
#include "lib/model/onnx/scale_shape.h"
#include "lib/numeric/packed_codes.h"
#include "lib/numeric/scale_codes.h"

namespace hif8 {
namespace {

// The dimension that has scales, 0 where there is one scale; nothing when several have.
std::optional<int64_t> ScaleAxis(const StoredShapes& shapes) {
  if (!shapes.spreads.empty()) return std::nullopt;
  std::optional<int64_t> axis;
  for (size_t i = 0; i < shapes.scales.size(); ++i) {
    if (shapes.scales[i] == 1) continue;
    if (axis) return std::nullopt;
    axis = static_cast<int64_t>(i);
  }
  return axis.value_or(0);
}

}  // namespace

std::string ScalePlaces::Add(int scope, const std::string& name, const Shape& shape,
                             const std::vector<int64_t>& values) {
  std::string& known = names_[{scope, name}];
  if (known.empty()) {
    known = edit_.NewName(name);
    edit_.AddInitializer(scope, MakeTensor(known, shape, values));
  }
  return known;
}

std::string ScalePlaces::Places(int scope, int64_t elements, int64_t edge, int64_t scales) {
  std::vector<int64_t> values;
  for (int64_t i = 0; i < elements; ++i) values.push_back(std::min(i / edge, scales - 1));
  return Add(scope,
             "places_" + std::to_string(elements) + "_by_" + std::to_string(edge) + "_of_" +
                 std::to_string(scales),
             {elements}, values);
}

std::string ScalePlaces::Groups(int scope, int64_t elements, int64_t edge) {
  edge = std::min(edge, elements);
  const int64_t groups = (elements + edge - 1) / edge;
  std::vector<int64_t> values;
  for (int64_t i = 0; i < groups * edge; ++i) values.push_back(std::min(i, elements - 1));
  return Add(scope, "groups_" + std::to_string(elements) + "_by_" + std::to_string(edge),
             {groups, edge}, values);
}

// One weight at work.
struct WeightCodes::Site {
  int scope;
  const std::string& stored;
  const EncodedWeight& encoded;
  const Weight& weight;
  const NumberFormat& format;
  StoredShapes shapes;
  std::optional<int64_t> axis;  // of the standard operator; nothing: a function
};

void WeightCodes::Append(const Site& site, onnx::NodeProto node) {
  edit_.InsertBefore(site.scope, 0, std::move(node));
}

std::string WeightCodes::StoreTensor(const Site& site, const char* suffix, int type,
                                     const Shape& shape, std::span<const std::byte> bytes) {
  onnx::TensorProto tensor;
  tensor.set_name(edit_.NewName(site.stored + suffix));
  tensor.set_data_type(type);
  for (const int64_t d : shape) tensor.add_dims(d);
  store_.Put(bytes, &tensor);
  return edit_.AddInitializer(site.scope, std::move(tensor))->name();
}

std::string WeightCodes::StoreCodes(const Site& site) {
  const std::span<const uint8_t> codes = site.encoded.codes;
  const int type = site.axis ? FromDType(site.format.storage().dtype) : onnx::TensorProto::UINT8;
  if (!site.format.packed()) {
    return StoreTensor(site, "_codes", type, site.shapes.codes, std::as_bytes(codes));
  }
  Shape shape = site.shapes.codes;
  const auto columns = static_cast<size_t>(shape.back());
  std::vector<uint8_t> packed(codes.size() / columns * PackedRowBytes(columns));
  PackCodes(codes, columns, packed);
  shape.back() = static_cast<int64_t>(PackedRowBytes(columns));
  return StoreTensor(site, "_codes", type, shape, std::as_bytes(std::span(packed)));
}

std::string WeightCodes::StoreScales(const Site& site) {
  const std::span<const float> scales = site.encoded.scales;
  if (site.format.ScalesFollowAmax()) {
    const auto codes = ScaleCodes(site.format, scales, site.encoded.global_scale);
    return StoreTensor(site, "_scale", onnx::TensorProto::UINT8, site.shapes.scales,
                       std::as_bytes(std::span(codes)));
  }
  Shape shape = site.shapes.scales;
  if (site.axis && !shape.empty()) shape = {static_cast<int64_t>(scales.size())};
  return StoreTensor(site, "_scale", onnx::TensorProto::FLOAT, shape, std::as_bytes(scales));
}

onnx::NodeProto WeightCodes::Dequantize(const Site& site, const std::string& codes,
                                        const std::string& scales, const std::string& output) {
  const std::string& format = site.encoded.format;
  if (!site.axis) {
    std::vector<std::string> inputs = {codes, scales};
    if (site.format.HasGlobalScale()) {
      inputs.push_back(StoreTensor(site, "_global_scale", onnx::TensorProto::FLOAT, {},
                                   std::as_bytes(std::span(&site.encoded.global_scale, 1))));
    }
    onnx::NodeProto node = functions_.Call(format, kDequantizeFunction, MakeDequantizeFunction,
                                           std::move(inputs), output);
    node.set_doc_string(site.weight.name);
    return node;
  }
  onnx::NodeProto node = MakeNode("DequantizeLinear", {codes, scales}, {output});
  node.set_doc_string(OperatorMarkText({format, site.weight.name}));
  SetAttribute(&node, "axis", *site.axis);
  return node;
}

void WeightCodes::Store(int scope, const std::string& stored, const EncodedWeight& encoded,
                        const Weight& weight, const std::string& value) {
  Site site{scope, stored, encoded, weight, formats_.Get(encoded.format), {}, {}};
  site.shapes = ShapesFor(weight.shape, encoded.layout, site.format.packed());
  const int64_t opset = site.format.storage().onnx_opset;
  if (opset > 0 && StandardOpset(edit_.model()) >= opset) site.axis = ScaleAxis(site.shapes);
  const std::string codes = StoreCodes(site);
  std::string scales = StoreScales(site);
  for (const StoredShapes::Spread& spread : site.shapes.spreads) {
    const std::string every = edit_.NewName(stored + "_scales");
    const int64_t count = site.shapes.scales[static_cast<size_t>(spread.axis)];
    const std::string places = places_.Places(scope, spread.elements, spread.edge, count);
    onnx::NodeProto node = MakeNode("Gather", {scales, places}, {every});
    SetAttribute(&node, "axis", spread.axis);
    Append(site, std::move(node));
    scales = every;
  }

  const auto rank = static_cast<int64_t>(site.shapes.codes.size());
  const bool cut = site.format.packed() && site.shapes.codes.back() % 2 != 0;
  const bool cast = weight.dtype != DType::kF32;
  // The name of what a step makes: the last one has the name that was asked for.
  const auto next = [&](const char* suffix, bool last) {
    return last ? value : edit_.NewName(stored + suffix);
  };
  std::string now = next("_fp32", !cut && !site.shapes.reshape && !cast);
  Append(site, Dequantize(site, codes, scales, now));
  if (cut) {
    const std::string whole = now;
    now = next("_cut", !site.shapes.reshape && !cast);
    const int64_t columns = site.shapes.codes.back();
    const std::string places = places_.Places(scope, columns, 1, columns);
    onnx::NodeProto node = MakeNode("Gather", {whole, places}, {now});
    SetAttribute(&node, "axis", rank - 1);
    Append(site, std::move(node));
  }
  if (site.shapes.reshape) {
    const std::string shape = edit_.NewName(stored + "_shape");
    edit_.AddInitializer(
        scope, MakeTensor(shape, {static_cast<int64_t>(weight.shape.size())}, weight.shape));
    const std::string flat = now;
    now = next("_reshaped", !cast);
    Append(site, MakeNode("Reshape", {flat, shape}, {now}));
  }
  if (cast) {
    onnx::NodeProto node = MakeNode("Cast", {now}, {value});
    SetAttribute(&node, "to", FromDType(weight.dtype));
    Append(site, std::move(node));
  }
}

DequantizedWeight FindDequantizedWeight(const onnx::NodeProto& node) {
  if (node.op_type() != kDequantizeFunction) return {};
  if (!IsStandardDomain(node.domain())) {
    return {node.doc_string(), std::string(FormatOfDomain(node.domain()))};
  }
  const OperatorMark mark = ParseOperatorMark(node.doc_string());
  return {mark.text, mark.format};
}

}  // namespace hif8

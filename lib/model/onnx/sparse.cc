#include "lib/model/onnx/sparse.h"

#include <cstring>
#include <limits>
#include <string>

#include "lib/core/error.h"
#include "lib/model/onnx/tensor_data.h"

namespace hif8 {
namespace {

constexpr uint64_t kOutside = std::numeric_limits<uint64_t>::max();

// Returns the dense tensor, its values inline.
onnx::TensorProto MakeDense(const onnx::SparseTensorProto& sparse, const DataFiles& files) {
  const std::string& name = sparse.values().name();
  const Tensor values = ReadTensor(sparse.values(), files);
  const Shape shape(sparse.dims().begin(), sparse.dims().end());
  const size_t size = DTypeSize(values.view.dtype);
  const size_t bytes = ElementCount(shape) * size;
  if (bytes > static_cast<size_t>(std::numeric_limits<int>::max())) {
    throw ModelError("the sparse tensor of shape " + ShapeText(shape) +
                         " is larger than 2 GB once its zeros are written out, as they are when "
                         "the model runs",
                     "export the model with a dense tensor as external data", name);
  }
  onnx::TensorProto dense;
  dense.set_name(name);
  dense.set_data_type(sparse.values().data_type());
  *dense.mutable_dims() = sparse.dims();
  std::string& raw = *dense.mutable_raw_data();
  raw.assign(bytes, '\0');
  const size_t count = values.view.size();
  if (count == 0) return dense;
  const std::vector<uint64_t> positions = SparsePositions(sparse, files);
  for (size_t i = 0; i < count; ++i) {
    std::memcpy(raw.data() + positions[i] * size, values.view.data + i * size, size);
  }
  return dense;
}

void MakeDense(const DataFiles& files, onnx::GraphProto* graph);

void MakeDense(const DataFiles& files, google::protobuf::RepeatedPtrField<onnx::NodeProto>* nodes) {
  for (onnx::NodeProto& node : *nodes) {
    for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
      if (attribute.has_g()) MakeDense(files, attribute.mutable_g());
      for (onnx::GraphProto& body : *attribute.mutable_graphs()) MakeDense(files, &body);
      if (!IsStandardOp(node, "Constant") || attribute.name() != "sparse_value") continue;
      *attribute.mutable_t() = MakeDense(attribute.sparse_tensor(), files);
      attribute.clear_sparse_tensor();
      attribute.set_name("value");
      attribute.set_type(onnx::AttributeProto::TENSOR);
    }
  }
}

void MakeDense(const DataFiles& files, onnx::GraphProto* graph) {
  for (const onnx::SparseTensorProto& sparse : graph->sparse_initializer()) {
    *graph->add_initializer() = MakeDense(sparse, files);
  }
  graph->clear_sparse_initializer();
  MakeDense(files, graph->mutable_node());
}

}  // namespace

std::vector<uint64_t> SparsePositions(const onnx::SparseTensorProto& sparse,
                                      const DataFiles& files) {
  const onnx::TensorProto& indices = sparse.indices();
  const bool flat = indices.dims_size() == 1;
  const int rank = sparse.dims_size();
  const bool fits = flat || (indices.dims_size() == 2 && indices.dims(1) == rank);
  if (indices.data_type() != onnx::TensorProto::INT64 || !fits) {
    throw ModelError(
        "the sparse tensor is damaged: expected its indices as INT64 of shape [n] or "
        "[n, " +
            std::to_string(rank) + "], found " + OnnxTypeName(indices.data_type()) + " " +
            ShapeText(TensorShape(indices)),
        "export the model again", sparse.values().name());
  }
  const std::vector<int64_t> numbers = *ReadInts(indices, files);
  std::vector<uint64_t> positions(static_cast<size_t>(indices.dims(0)), 0);
  for (size_t i = 0; i < positions.size(); ++i) {
    if (flat) {
      positions[i] = numbers[i] < 0 ? kOutside : static_cast<uint64_t>(numbers[i]);
      continue;
    }
    for (int d = 0; d < rank && positions[i] != kOutside; ++d) {
      const int64_t index = numbers[i * static_cast<size_t>(rank) + static_cast<size_t>(d)];
      const bool inside = index >= 0 && index < sparse.dims(d);
      positions[i] = inside ? positions[i] * static_cast<uint64_t>(sparse.dims(d)) +
                                  static_cast<uint64_t>(index)
                            : kOutside;
    }
  }
  return positions;
}

void MakeSparseTensorsDense(const DataFiles& files, onnx::ModelProto* model) {
  MakeDense(files, model->mutable_graph());
  for (onnx::FunctionProto& function : *model->mutable_functions()) {
    MakeDense(files, function.mutable_node());
  }
}

}  // namespace hif8

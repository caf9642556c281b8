// Builds small ONNX models for the tests of the runtime.
#pragma once

#include <onnx/onnx_pb.h>

#include <string>
#include <vector>

#include "lib/model/graph.h"
#include "lib/model/onnx/onnx_proto.h"
#include "lib/runtime/session.h"

namespace hif8 {

class TestGraph {
 public:
  explicit TestGraph(int opset = 17);

  // Dimensions below 0 are symbolic: named "d<i>" after their position, or `dim_names[i]`.
  TestGraph& Input(const std::string& name, const Shape& shape, DType dtype = DType::kF32,
                   const std::vector<std::string>& dim_names = {});
  TestGraph& Output(const std::string& name, const Shape& shape, DType dtype = DType::kF32);
  TestGraph& Weight(const std::string& name, const Shape& shape, const std::vector<float>& values);
  TestGraph& Ints(const std::string& name, const Shape& shape, const std::vector<int64_t>& values);
  // The node, for attributes.
  onnx::NodeProto* Node(const std::string& op, const std::vector<std::string>& inputs,
                        const std::vector<std::string>& outputs, const std::string& domain = "");
  TestGraph& Tap(std::string_view op, int id, const std::vector<std::string>& inputs,
                 const std::string& output);

  onnx::ModelProto& model() { return model_; }
  onnx::GraphProto& graph() { return *model_.mutable_graph(); }
  RunnableGraph Build() const;

 private:
  onnx::ModelProto model_;
  RunnableGraph result_;
};

void AddTap(onnx::GraphProto* graph, std::string_view op, int id,
            const std::vector<std::string>& inputs, const std::string& output);

Tensor FloatTensor(const Shape& shape, const std::vector<float>& values);
Tensor IntTensor(const Shape& shape, const std::vector<int64_t>& values);
std::vector<float> Floats(const TensorView& view);

// Keeps everything that was logged.
class RecordingLog : public LogSink {
 public:
  void Debug(std::string_view message) override { debug.emplace_back(message); }
  void Info(std::string_view message) override { info.emplace_back(message); }
  void Warn(std::string_view message) override { warnings.emplace_back(message); }
  void Progress(std::string_view, uint64_t done, uint64_t total) override {
    progress.emplace_back(done, total);
  }
  std::vector<std::string> debug, info, warnings;
  std::vector<std::pair<uint64_t, uint64_t>> progress;
};

}  // namespace hif8

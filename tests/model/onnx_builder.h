// Builds small ONNX models for the tests of this folder.
#pragma once

#include <onnx/onnx_pb.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lib/core/tensor.h"
#include "lib/model/onnx/onnx_model.h"
#include "lib/model/onnx/onnx_proto.h"

namespace hif8 {

// A graph: the model's, or one nested in a node.
class GraphBuilder {
 public:
  explicit GraphBuilder(onnx::GraphProto* graph) : graph_(*graph) {}

  // Dimensions below 0 have no value.
  GraphBuilder& Input(const std::string& name, const Shape& shape, DType dtype = DType::kF32);
  GraphBuilder& Output(const std::string& name, DType dtype = DType::kF32);
  // Stored as raw data.
  GraphBuilder& Weight(const std::string& name, const Shape& shape,
                       const std::vector<float>& values);
  GraphBuilder& Ints(const std::string& name, const Shape& shape,
                     const std::vector<int64_t>& values);
  onnx::NodeProto* Node(const std::string& op, const std::vector<std::string>& inputs,
                        const std::vector<std::string>& outputs, const std::string& name = "");
  // A Constant node.
  onnx::NodeProto* Constant(const std::string& name, const Shape& shape,
                            const std::vector<float>& values);
  onnx::TensorProto* tensor(const std::string& name);
  onnx::GraphProto& graph() { return graph_; }

 private:
  onnx::GraphProto& graph_;
};

// Copies are builders of the same model.
class ModelBuilder : public GraphBuilder {
 public:
  explicit ModelBuilder(int opset = 17, int ir = 8);

  onnx::ModelProto& model() { return *model_; }
  // Writes the model under that name into `folder` and returns its path.
  std::filesystem::path Save(const std::filesystem::path& folder,
                             const std::string& name = "model.onnx") const;

 private:
  explicit ModelBuilder(std::shared_ptr<onnx::ModelProto> model);

  std::shared_ptr<onnx::ModelProto> model_;
};

void SetInts(onnx::NodeProto* node, const std::string& name, const std::vector<int64_t>& values);
void SetString(onnx::NodeProto* node, const std::string& name, const std::string& value);
GraphBuilder AddBody(onnx::NodeProto* node, const std::string& attribute);
onnx::TensorProto MakeFloatTensor(const std::string& name, const Shape& shape,
                                  const std::vector<float>& values);
// Moves a raw tensor's bytes behind what the file holds already.
void MoveToFile(onnx::TensorProto* tensor, const std::filesystem::path& file,
                const std::string& location);

onnx::ModelProto ParseFile(const std::filesystem::path& path);
// Null when the graph has no initializer of that name.
const onnx::TensorProto* FindTensor(const onnx::GraphProto& graph, const std::string& name);
std::vector<std::string> OpTypes(const onnx::GraphProto& graph);

// n numbers between -1 and 1 from a fixed generator (xorshift), different for each seed.
std::vector<float> Numbers(size_t n, uint32_t seed);

// A folder of its own for the running test, removed with the object.
class TestFolder {
 public:
  TestFolder();
  ~TestFolder();
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

std::unique_ptr<OnnxModel> LoadModel(const std::filesystem::path& path,
                                     const OnnxLoadOptions& options = {});
// The layer of that name; fails the test when there is none.
const Layer& FindLayer(const OnnxModel& model, const std::string& name);
std::vector<float> WeightValues(const OnnxModel& model, int weight);

// Runs `body`, which must throw an Error of code kModel with all these parts in what it says.
void ExpectModelError(const std::function<void()>& body, const std::vector<std::string>& parts);

}  // namespace hif8

// Builds small graphs in code: node by node, in standard ONNX operators and the project's own.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "lib/model/graph.h"

namespace hif8 {

using GraphAttribute =
    std::pair<std::string, std::variant<int64_t, float, std::vector<int64_t>, std::string>>;

// Values are named by strings; every function that adds a node returns the name of its (first)
// output, which is made up and unique.
class GraphBuilder {
 public:
  // Version of the standard operators that the nodes are written in.
  static constexpr int64_t kOpset = 17;

  GraphBuilder();
  ~GraphBuilder();
  GraphBuilder(const GraphBuilder&) = delete;
  GraphBuilder& operator=(const GraphBuilder&) = delete;

  // Adds a graph input. Dimensions of -1 are free.
  std::string Input(const std::string& name, DType dtype, const Shape& shape);
  void Output(const std::string& value, const std::string& name, DType dtype, const Shape& shape);
  std::string Floats(const Shape& shape, const std::vector<float>& values);
  std::string Integers(const std::vector<int64_t>& values);  // one dimension
  std::string Scalar(float value) { return Floats({}, {value}); }

  std::string Node(const std::string& op, const std::vector<std::string>& inputs,
                   const std::vector<GraphAttribute>& attributes = {},
                   const std::string& domain = {});
  // Adds a node with several outputs.
  std::vector<std::string> Nodes(const std::string& op, const std::vector<std::string>& inputs,
                                 size_t outputs,
                                 const std::vector<GraphAttribute>& attributes = {});
  // Observe and Compare of graph.h.
  std::string Observe(const std::string& x, int id);
  std::string Compare(const std::string& x, const std::string& y, int id);

  // Returns the graph; the builder is empty afterwards.
  RunnableGraph Finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hif8

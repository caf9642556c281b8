#include "lib/model/onnx/sort_nodes.h"

#include <functional>
#include <queue>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace hif8 {
namespace {

using Names = std::unordered_set<std::string_view>;

void AddReads(const onnx::NodeProto& node, Names* names);

// What the nodes of a body read from outside of it.
void AddReads(const onnx::GraphProto& body, Names* names) {
  Names inside;
  for (const onnx::NodeProto& node : body.node()) AddReads(node, &inside);
  for (const onnx::ValueInfoProto& output : body.output()) inside.insert(output.name());
  for (const onnx::ValueInfoProto& input : body.input()) inside.erase(input.name());
  for (const onnx::TensorProto& tensor : body.initializer()) inside.erase(tensor.name());
  for (const onnx::NodeProto& node : body.node()) {
    for (const std::string& output : node.output()) inside.erase(output);
  }
  names->merge(inside);
}

void AddReads(const onnx::NodeProto& node, Names* names) {
  names->insert(node.input().begin(), node.input().end());
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    if (attribute.has_g()) AddReads(attribute.g(), names);
    for (const onnx::GraphProto& body : attribute.graphs()) AddReads(body, names);
  }
}

// The nodes' numbers in the new order, of those that could come next always the first one; fewer
// than there are nodes when some form a circle.
std::vector<int> SortedOrder(const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes) {
  const int count = nodes.size();
  std::unordered_map<std::string_view, int> makers;
  for (int i = 0; i < count; ++i) {
    for (const std::string& output : nodes[i].output()) makers.emplace(output, i);
  }
  makers.erase("");
  std::vector<std::vector<int>> readers(static_cast<size_t>(count));
  std::vector<int> waiting_for(static_cast<size_t>(count), 0);
  for (int i = 0; i < count; ++i) {
    Names names;
    AddReads(nodes[i], &names);
    for (const std::string_view name : names) {
      const auto maker = makers.find(name);
      if (maker == makers.end()) continue;
      readers[static_cast<size_t>(maker->second)].push_back(i);
      ++waiting_for[static_cast<size_t>(i)];
    }
  }
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (int i = 0; i < count; ++i) {
    if (waiting_for[static_cast<size_t>(i)] == 0) ready.push(i);
  }
  std::vector<int> order;
  while (!ready.empty()) {
    order.push_back(ready.top());
    ready.pop();
    for (const int reader : readers[static_cast<size_t>(order.back())]) {
      if (--waiting_for[static_cast<size_t>(reader)] == 0) ready.push(reader);
    }
  }
  return order;
}

}  // namespace

void SortNodes(onnx::GraphProto* graph) {
  for (onnx::NodeProto& node : *graph->mutable_node()) {
    for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
      if (attribute.has_g()) SortNodes(attribute.mutable_g());
      for (onnx::GraphProto& body : *attribute.mutable_graphs()) SortNodes(&body);
    }
  }
  const std::vector<int> order = SortedOrder(graph->node());
  if (order.size() != static_cast<size_t>(graph->node_size())) return;
  google::protobuf::RepeatedPtrField<onnx::NodeProto> sorted;
  for (const int i : order) *sorted.Add() = std::move(*graph->mutable_node(i));
  graph->mutable_node()->Swap(&sorted);
}

bool CanBeSorted(const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes) {
  return SortedOrder(nodes).size() == static_cast<size_t>(nodes.size());
}

}  // namespace hif8

// Carries values of a written model over into a graph of the model that it was made from. Internal
// to this folder.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "lib/model/onnx/graph_edit.h"

namespace hif8 {

// Both models have the same graphs, numbered alike; names in both mean the same value, except that
// a constant of the written model may have another value or come about in another way.
class Importer {
 public:
  // `edit` starts from `original`'s graphs. The models must outlive the importer.
  Importer(const OnnxModel::Impl& original, const OnnxModel::Impl& written, GraphEdit* edit);

  // Returns the name in the edited graph of what the written model calls `name`; whatever computes
  // it is inserted before the scope's node number `before` unless the original computes it too.
  std::string Import(int scope, const std::string& name, int before);
  // The written model's functions, when anything that was imported may call them.
  void ImportFunctions();

 private:
  bool IsSame(int scope, const std::string& name) const;
  bool IsSameTensor(const onnx::TensorProto& a, const onnx::TensorProto& b) const;
  std::string ImportTensor(const Definition& at);
  std::string ImportNode(const Definition& at, const std::string& name, int before);

  const OnnxModel::Impl& original_;
  const OnnxModel::Impl& written_;
  GraphEdit& edit_;
  std::map<std::pair<int, std::string>, std::string> imported_;  // by scope and written name
};

}  // namespace hif8

// Who reads a value. Internal to this folder.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "lib/model/onnx/scopes.h"

namespace hif8 {

struct Use {
  int scope = -1;
  int node = -1;  // -1: the value is an output of the scope's graph
  int input = -1;

  // clang-tidy 14 takes the 0 that the compiler compares with for a pointer.
  auto operator<=>(const Use&) const = default;  // NOLINT(modernize-use-nullptr)
};

class Uses {
 public:
  explicit Uses(const Scopes& scopes);

  // Returns all reads of the value that `name` means in `scope`.
  const std::vector<Use>& Of(int scope, const std::string& name) const;

 private:
  const Scopes& scopes_;
  std::map<std::pair<int, std::string>, std::vector<Use>> uses_;  // by defining scope and name
};

}  // namespace hif8

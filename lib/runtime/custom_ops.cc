#include "lib/runtime/custom_ops.h"

namespace hif8 {

void CustomOps::AddTo(const std::string& domain, const OrtCustomOp* op) {
  auto [entry, added] = domains_.try_emplace(domain, nullptr);
  if (added) entry->second = Ort::CustomOpDomain(domain.c_str());
  entry->second.Add(op);
}

void CustomOps::Register(OrtSessionOptions* options) const {
  Ort::UnownedSessionOptions unowned(options);
  for (const auto& [name, domain] : domains_) unowned.Add(domain);
}

}  // namespace hif8

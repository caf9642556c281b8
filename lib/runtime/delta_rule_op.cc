#include <cmath>
#include <span>
#include <vector>

#include "lib/core/error.h"
#include "lib/core/parallel.h"
#include "lib/model/graph.h"
#include "lib/runtime/custom_op_base.h"
#include "lib/runtime/custom_ops.h"

namespace hif8 {
namespace {

class DeltaRuleOp;

class DeltaRuleKernel : public GuardedKernel<DeltaRuleKernel> {
 public:
  DeltaRuleKernel(const DeltaRuleOp&, Ort::ConstKernelInfo) {}
  void Compute(Ort::KernelContext context) const;
};

class DeltaRuleOp : public SameShapeOp<DeltaRuleOp, DeltaRuleKernel> {
 public:
  explicit DeltaRuleOp(uint32_t api_version) : SameShapeOp(api_version) {}
  const char* GetName() const { return kGatedDeltaRuleOp.data(); }
  size_t GetInputTypeCount() const { return 5; }
};

std::span<const float> Floats(const TensorView& x) {
  return {reinterpret_cast<const float*>(x.data), x.size()};
}

void DeltaRuleKernel::Compute(Ort::KernelContext context) const {
  const TensorView value = ViewOf(context.GetInput(0));
  const TensorView query = ViewOf(context.GetInput(1));
  auto* out = context.GetOutput(0, value.shape).GetTensorMutableData<float>();
  const auto length = static_cast<size_t>(value.shape[0]);
  const auto heads = static_cast<size_t>(value.shape[1]);
  const auto width = static_cast<size_t>(value.shape[2]);
  const auto key_heads = static_cast<size_t>(query.shape[1]);
  const auto key_width = static_cast<size_t>(query.shape[2]);
  const auto v = Floats(value);
  const auto q = Floats(query);
  const auto k = Floats(ViewOf(context.GetInput(2)));
  const auto decay = Floats(ViewOf(context.GetInput(3)));
  const auto beta = Floats(ViewOf(context.GetInput(4)));
  ParallelFor(heads, [&](size_t h) {
    const size_t key_head = h * key_heads / heads;
    std::vector<float> state(key_width * width);
    std::vector<float> change(width);
    for (size_t t = 0; t < length; ++t) {
      const float* key = k.data() + (t * key_heads + key_head) * key_width;
      const float* asked = q.data() + (t * key_heads + key_head) * key_width;
      const float* given = v.data() + (t * heads + h) * width;
      float* answer = out + (t * heads + h) * width;
      const float left = std::exp(decay[t * heads + h]);
      for (float& s : state) s *= left;
      for (size_t j = 0; j < width; ++j) change[j] = given[j];
      for (size_t i = 0; i < key_width; ++i) {
        for (size_t j = 0; j < width; ++j) change[j] -= key[i] * state[i * width + j];
      }
      for (size_t j = 0; j < width; ++j) {
        change[j] *= beta[t * heads + h];
        answer[j] = 0;
      }
      for (size_t i = 0; i < key_width; ++i) {
        for (size_t j = 0; j < width; ++j) {
          state[i * width + j] += key[i] * change[j];
          answer[j] += asked[i] * state[i * width + j];
        }
      }
    }
  });
}

}  // namespace

void CustomOps::AddGatedDeltaRule() {
  Add(std::string(kNetworkDomain), std::make_shared<DeltaRuleOp>(api_version_));
}

}  // namespace hif8

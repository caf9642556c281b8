#include <string>

#include "lib/runtime/custom_op_base.h"
#include "lib/runtime/custom_ops.h"

namespace hif8 {
namespace {

class DynamicOp;

class DynamicKernel : public GuardedKernel<DynamicKernel> {
 public:
  DynamicKernel(const DynamicOp& op, Ort::ConstKernelInfo info);
  void Compute(Ort::KernelContext context) const;

 private:
  const DynamicOp& op_;
  TileScaling scaling_;
  int axis_;
};

class DynamicOp : public SameShapeOp<DynamicOp, DynamicKernel> {
 public:
  DynamicOp(uint32_t api_version, std::string name, const NumberFormat& format)
      : SameShapeOp(api_version), format_(format), name_(std::move(name)) {}
  const char* GetName() const { return name_.c_str(); }
  size_t GetInputTypeCount() const { return 2; }

  const NumberFormat& format_;

 private:
  std::string name_;
};

DynamicKernel::DynamicKernel(const DynamicOp& op, Ort::ConstKernelInfo info) : op_(op) {
  const auto integer = [&](std::string_view name) {
    return info.GetAttribute<int64_t>(std::string(name).c_str());
  };
  scaling_.tile = {1, static_cast<size_t>(integer(kTileAttribute))};
  scaling_.power_of_two = integer(kPowerOfTwoAttribute) != 0;
  scaling_.target = info.GetAttribute<float>(std::string(kTargetAttribute).c_str());
  axis_ = static_cast<int>(integer(kAxisAttribute));
}

void DynamicKernel::Compute(Ort::KernelContext context) const {
  const TensorView x = ViewOf(context.GetInput(0));
  const TensorView scale = ViewOf(context.GetInput(1));
  auto* y = context.GetOutput(0, x.shape).GetTensorMutableData<float>();
  TileScaling scaling = scaling_;
  scaling.global_scale = 1 / *reinterpret_cast<const float*>(scale.data);
  QuantizeDequantizeDynamic(op_.format_, scaling, axis_, x.shape,
                            {reinterpret_cast<const float*>(x.data), x.size()}, {y, x.size()});
}

}  // namespace

void CustomOps::AddDynamicQuantizeDequantize(const std::string& domain, const std::string& name,
                                             const NumberFormat& format) {
  Add(domain, std::make_shared<DynamicOp>(api_version_, name, format));
}

}  // namespace hif8

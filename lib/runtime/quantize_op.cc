#include <algorithm>
#include <string>
#include <vector>

#include "lib/core/sanitizer.h"
#include "lib/runtime/custom_op_base.h"
#include "lib/runtime/custom_ops.h"

namespace hif8 {
namespace {

// Elements that one task works on: enough to hide its start, few enough to spread and to keep the
// scales of a task on the stack.
constexpr size_t kTaskSize = 16384;
constexpr size_t kScaleRun = 1024;

// One tensor's work, cut into tasks that share nothing.
struct Work {
  const NumberFormat& format;
  const float* x;
  float* y;
  size_t size;
  const float* scale;
  // Empty: scale[0] for all. Else the tensor's dimensions and, for each, how far the scale moves
  // on with one step (0 where it is broadcast).
  Shape dims;
  std::vector<size_t> scale_steps;
};

// Scales of elements [first, first + n).
void GatherScales(const Work& work, size_t first, size_t n, float* scales) {
  const size_t rank = work.dims.size();
  std::vector<size_t> index(rank);
  size_t offset = 0;
  for (size_t d = rank, rest = first; d-- > 0;) {
    const auto extent = static_cast<size_t>(work.dims[d]);
    index[d] = rest % extent;
    rest /= extent;
    offset += index[d] * work.scale_steps[d];
  }
  for (size_t i = 0; i < n; ++i) {
    scales[i] = work.scale[offset];
    for (size_t d = rank; d-- > 0;) {
      offset += work.scale_steps[d];
      if (++index[d] < static_cast<size_t>(work.dims[d])) break;
      offset -= work.scale_steps[d] * index[d];
      index[d] = 0;
    }
  }
}

void RunTask(void* data, size_t task) {
  const Work& work = *static_cast<const Work*>(data);
  const size_t first = task * kTaskSize;
  const size_t last = std::min(first + kTaskSize, work.size);
  if (work.dims.empty()) {
    work.format.QuantizeDequantize({work.x + first, last - first}, ScaleOperand::One(*work.scale),
                                   {work.y + first, last - first});
    return;
  }
  float scales[kScaleRun];
  for (size_t i = first; i < last; i += kScaleRun) {
    const size_t n = std::min(kScaleRun, last - i);
    GatherScales(work, i, n, scales);
    work.format.QuantizeDequantize({work.x + i, n}, ScaleOperand::PerValue(scales),
                                   {work.y + i, n});
  }
}

// Steps of a scale of shape `scale` along `x`; an error when it does not broadcast to it.
std::vector<size_t> ScaleSteps(const Shape& x, const Shape& scale) {
  std::vector<size_t> steps(x.size(), 0);
  bool fits = scale.size() <= x.size();
  size_t step = 1;
  for (size_t i = 0; fits && i < scale.size(); ++i) {
    const int64_t extent = scale[scale.size() - 1 - i];
    const size_t d = x.size() - 1 - i;
    fits = extent == x[d] || extent == 1;
    if (extent != 1) steps[d] = step;
    step *= static_cast<size_t>(extent);
  }
  if (!fits) {
    throw ModelError(
        "a scale of shape " + ShapeText(scale) + " does not broadcast to " + ShapeText(x),
        "give the operator one scale, or one per index of an axis");
  }
  return steps;
}

// In a thread of the engine, whose own ordering the thread sanitizer does not see.
void RunTaskInPool(void* data, size_t task) {
  const Work& work = *static_cast<const Work*>(data);
  ComesAfter(&work.x);
  RunTask(data, task);
  ComesBefore(&work.y);
}

class QuantizeOp;

class QuantizeKernel : public GuardedKernel<QuantizeKernel> {
 public:
  QuantizeKernel(const QuantizeOp& op, Ort::ConstKernelInfo) : op_(op) {}
  void Compute(Ort::KernelContext context) const;

 private:
  const QuantizeOp& op_;
};

class QuantizeOp : public SameShapeOp<QuantizeOp, QuantizeKernel> {
 public:
  QuantizeOp(uint32_t api_version, std::string name, const NumberFormat& format)
      : SameShapeOp(api_version), format_(format), name_(std::move(name)) {
    // Elements are worked on one by one: in place where nobody else reads the input.
    GetMayInplace = FirstToFirst;
    ReleaseMayInplace = ReleaseFirstToFirst;
  }
  const char* GetName() const { return name_.c_str(); }
  size_t GetInputTypeCount() const { return 2; }

  const NumberFormat& format_;

 private:
  std::string name_;
};

void QuantizeKernel::Compute(Ort::KernelContext context) const {
  const TensorView x = ViewOf(context.GetInput(0));
  const TensorView scale = ViewOf(context.GetInput(1));
  Work work{.format = op_.format_,
            .x = reinterpret_cast<const float*>(x.data),
            .y = nullptr,
            .size = x.size(),
            .scale = reinterpret_cast<const float*>(scale.data),
            .dims = {},
            .scale_steps = {}};
  // A scale of one element may have more dimensions than x, as broadcasting has it.
  Shape shape = x.shape;
  if (scale.size() != 1) {
    work.scale_steps = ScaleSteps(x.shape, scale.shape);
    work.dims = x.shape;
  } else if (scale.shape.size() > shape.size()) {
    shape.insert(shape.begin(), scale.shape.size() - shape.size(), 1);
  }
  work.y = context.GetOutput(0, shape).GetTensorMutableData<float>();
  if (work.size == 0) return;
  const size_t tasks = (work.size + kTaskSize - 1) / kTaskSize;
  if (tasks == 1) {
    RunTask(&work, 0);
  } else {
    ComesBefore(&work.x);
    context.ParallelFor(RunTaskInPool, tasks, 0, &work);
    ComesAfter(&work.y);
  }
}

}  // namespace

void CustomOps::AddQuantizeDequantize(const std::string& domain, const std::string& name,
                                      const NumberFormat& format) {
  Add(domain, std::make_shared<QuantizeOp>(api_version_, name, format));
}

}  // namespace hif8

#include <cstring>
#include <functional>
#include <string>
#include <utility>

#include "lib/core/error.h"
#include "lib/core/interrupt.h"
#include "lib/core/parallel.h"
#include "lib/core/sanitizer.h"
#include "lib/model/graph.h"
#include "lib/runtime/custom_op_base.h"
#include "lib/runtime/custom_ops.h"

namespace hif8 {
namespace {

thread_local TapRun* current_run = nullptr;

class TapOp;

class TapKernel : public GuardedKernel<TapKernel> {
 public:
  TapKernel(const TapOp&, Ort::ConstKernelInfo info)
      : id_(static_cast<int>(info.GetAttribute<int64_t>(std::string(kTapIdAttribute).c_str()))) {}
  void Compute(Ort::KernelContext context) const;

 private:
  void Report(const Ort::KernelContext& context, const TensorView& x, TapSink* sink) const;

  int id_;
};

// Observe (one input, any float type: one operator of that name for each) and Compare (two inputs).
class TapOp : public SameShapeOp<TapOp, TapKernel> {
 public:
  TapOp(uint32_t api_version, std::string_view name, size_t inputs, ONNXTensorElementDataType type)
      : SameShapeOp(api_version), name_(name), inputs_(inputs), type_(type) {
    // The output is the input's own buffer, whoever else reads that.
    GetAliasMap = FirstToFirst;
    ReleaseAliasMap = ReleaseFirstToFirst;
  }

  const char* GetName() const { return name_.c_str(); }
  size_t GetInputTypeCount() const { return inputs_; }
  ONNXTensorElementDataType GetInputType(size_t) const { return type_; }

 private:
  std::string name_;
  size_t inputs_;
  ONNXTensorElementDataType type_;
};

// In a thread of the engine, whose own ordering the thread sanitizer does not see.
void RunInEngine(void* data, size_t i) {
  const auto& body = *static_cast<const std::function<void(size_t)>*>(data);
  ComesAfter(data);
  body(i);
  ComesBefore(static_cast<const char*>(data) + 1);
}

void TapKernel::Compute(Ort::KernelContext context) const {
  const TensorView x = ViewOf(context.GetInput(0));
  Ort::UnownedValue output = context.GetOutput(0, x.shape);
  // Another buffer only where the engine must have one, as for an output of the graph.
  if (void* copy = output.GetTensorMutableRawData(); copy != x.data && x.bytes() > 0) {
    std::memcpy(copy, x.data, x.bytes());
  }
  if (current_run == nullptr) {
    throw BugError("the engine computes a tap in a thread that started no run");
  }
  if (current_run->sink == nullptr) return;
  try {
    CheckInterrupt();
    Report(context, x, current_run->sink);
  } catch (...) {
    current_run->error = std::current_exception();
    throw;
  }
}

void TapKernel::Report(const Ort::KernelContext& context, const TensorView& x,
                       TapSink* sink) const {
  // The engine's threads, which wait for this one, share in what the sink does.
  const ParallelScope scope([&](size_t n, const std::function<void(size_t)>& body) {
    auto* const data = const_cast<std::function<void(size_t)>*>(&body);
    ComesBefore(data);
    context.ParallelFor(RunInEngine, n, 0, data);
    ComesAfter(reinterpret_cast<const char*>(data) + 1);
  });
  if (context.GetInputCount() == 1) {
    sink->Observe(id_, x);
    return;
  }
  const TensorView y = ViewOf(context.GetInput(1));
  if (x.shape != y.shape) {
    throw BugError("tap " + std::to_string(id_) + " compares shape " + ShapeText(x.shape) +
                   " with " + ShapeText(y.shape));
  }
  sink->Compare(id_, x, y);
}

}  // namespace

TapRun::Scope::Scope(TapRun* run) : outer_(std::exchange(current_run, run)) {}

TapRun::Scope::~Scope() { current_run = outer_; }

void CustomOps::AddTaps() {
  const std::string domain(kTapDomain);
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kF64}) {
    Add(domain, std::make_shared<TapOp>(api_version_, kObserveOp, 1, ToOrt(dtype)));
  }
  Add(domain, std::make_shared<TapOp>(api_version_, kCompareOp, 2, ToOrt(DType::kF32)));
}

}  // namespace hif8

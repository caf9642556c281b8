// What the project's operators have in common. Internal to this module.
#pragma once

#include <cstdlib>
#include <exception>
#include <vector>

#include "lib/runtime/ort_api.h"

namespace hif8 {

// Tells the engine that output 0 has the shape of input 0. Silent where that is unknown (the engine
// shows an unknown rank as rank 0) or has dimensions without value and name (it would make them
// -1).
inline OrtStatusPtr InferSameShape(const OrtCustomOp*, OrtShapeInferContext* context) {
  const OrtApi& api = Ort::GetApi();
  OrtTensorTypeAndShapeInfo* info = nullptr;  // owned by the context
  if (OrtStatusPtr status = api.ShapeInferContext_GetInputTypeShape(context, 0, &info)) {
    return status;
  }
  size_t rank = 0;
  if (OrtStatusPtr status = api.GetDimensionsCount(info, &rank)) return status;
  if (rank == 0) return nullptr;
  std::vector<int64_t> dims(rank);
  std::vector<const char*> names(rank);
  if (OrtStatusPtr status = api.GetDimensions(info, dims.data(), rank)) return status;
  if (OrtStatusPtr status = api.GetSymbolicDimensions(info, names.data(), rank)) return status;
  for (size_t i = 0; i < rank; ++i) {
    if (dims[i] < 0 && (names[i] == nullptr || *names[i] == '\0')) return nullptr;
  }
  return api.ShapeInferContext_SetOutputTypeShape(context, 0, info);
}

// Returns the map {input 0 -> output 0}, in memory that the engine gives back.
inline size_t FirstToFirst(int** inputs, int** outputs) {
  *inputs = static_cast<int*>(std::calloc(1, sizeof(int)));
  *outputs = static_cast<int*>(std::calloc(1, sizeof(int)));
  return *inputs != nullptr && *outputs != nullptr ? 1 : 0;
}
inline void ReleaseFirstToFirst(int* inputs, int* outputs) {
  std::free(inputs);
  std::free(outputs);
}

// Exceptions do not pass through the engine, which is C at this border.
template <typename Body>
OrtStatusPtr Guard(const Body& body) {
  try {
    body();
    return nullptr;
  } catch (const std::exception& error) {
    return Ort::GetApi().CreateStatus(ORT_FAIL, error.what());
  }
}

// Base of a kernel with Compute(Ort::KernelContext), which may throw.
template <typename Kernel>
class GuardedKernel {
 public:
  OrtStatusPtr ComputeV2(OrtKernelContext* context) {
    return Guard([&] { static_cast<Kernel*>(this)->Compute(Ort::KernelContext(context)); });
  }
};

// An operator whose output 0 has type and shape of input 0; every input is fp32 unless `Op` says
// otherwise. `Kernel` has a constructor Kernel(const Op&, Ort::ConstKernelInfo).
template <typename Op, typename Kernel>
class SameShapeOp : public Ort::CustomOpBase<Op, Kernel, true> {
 public:
  explicit SameShapeOp(uint32_t api_version) {
    this->version = api_version;
    this->InferOutputShapeFn = InferSameShape;
  }

  ONNXTensorElementDataType GetInputType(size_t) const {
    return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
  }
  size_t GetOutputTypeCount() const { return 1; }
  ONNXTensorElementDataType GetOutputType(size_t) const {
    return static_cast<const Op*>(this)->GetInputType(0);
  }

  OrtStatusPtr CreateKernelV2(const OrtApi&, const OrtKernelInfo* info, void** kernel) const {
    return Guard(
        [&] { *kernel = new Kernel(static_cast<const Op&>(*this), Ort::ConstKernelInfo(info)); });
  }
};

}  // namespace hif8

// Where the taps of a running graph (see lib/model/graph.h) report what they see.
#pragma once

#include "lib/core/tensor.h"

namespace hif8 {

// Called while the session runs, by the thread that asked for the run, in the order in which the
// graph is computed (a tap inside a loop body once per iteration). The views are valid during the
// call only. An exception ends the run and comes out of Session::Run.
class TapSink {
 public:
  virtual ~TapSink() = default;
  // `x` is of any float type, possibly empty.
  virtual void Observe(int id, const TensorView& x) = 0;
  // Both fp32 and of the same shape, possibly empty.
  virtual void Compare(int id, const TensorView& x, const TensorView& y) = 0;
};

}  // namespace hif8

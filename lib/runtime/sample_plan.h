// How many samples a file holds, and how they become runs. Internal to this module; dataset.h says
// what the rules are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lib/model/graph.h"
#include "lib/runtime/dataset.h"

namespace hif8 {

struct SamplePlan {
  size_t samples = 1;
  // Per input: rows of its leading dimension that belong to one sample; 0: the whole array goes
  // into every run.
  std::vector<size_t> rows;
  // Samples a run must have; 0: any number. `whole`: the file is one run.
  size_t batch = 0;
  bool whole = false;
  // Samples that are left over because the file's size does not divide.
  size_t remainder = 0;
};

// `shapes` are those of the arrays in the file, parallel to `inputs` and of fitting rank. Throws
// kModel, with `where`, when leading dimensions do not fit together.
SamplePlan PlanSamples(std::span<const GraphValue> inputs, std::span<const Shape> shapes,
                       LeadingDimension leading, const std::string& where);

// A run as pieces of files.
struct Piece {
  size_t item = 0;
  size_t first = 0;  // sample
  size_t samples = 0;
};
struct PlannedRun {
  std::vector<Piece> pieces;
  size_t samples = 0;  // for statistics: what the run counts for
};

// Turns files into runs one after the other.
class RunPlanner {
 public:
  explicit RunPlanner(const DataOptions& options) : options_(options) {}

  // `tails`: shapes without their leading dimensions; files are joined only where they agree.
  void Add(size_t item, const SamplePlan& plan, const std::vector<Shape>& tails);
  // True when as many samples as were asked for are planned: no further file is needed.
  bool Full() const { return taken_ >= Limit(); }
  // The runs. Throws kModel or kUsage as OpenDataset does; `log` is told of what was dropped.
  std::vector<PlannedRun> Finish(LogSink& log, const std::string& where);

 private:
  // Returns the number of samples to use: what was asked for, in whole runs.
  size_t Limit() const;
  void Flush(bool complete);

  const DataOptions& options_;
  std::vector<PlannedRun> runs_;
  PlannedRun pending_;
  std::vector<Shape> pending_tails_;
  size_t pending_batch_ = 0;
  size_t fixed_batch_ = 1;
  size_t seen_ = 0;     // samples in the files that were added, as far as they were wanted
  size_t taken_ = 0;    // samples in runs and pending
  size_t dropped_ = 0;  // samples that fill no run
};

}  // namespace hif8

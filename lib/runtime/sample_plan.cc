#include "lib/runtime/sample_plan.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <limits>
#include <string_view>

#include "lib/core/error.h"

namespace hif8 {
namespace {

std::string Lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

bool ContainsAny(const std::string& name, std::span<const std::string_view> words) {
  const std::string lower = Lower(name);
  return std::any_of(words.begin(), words.end(),
                     [&](std::string_view word) { return lower.find(word) != std::string::npos; });
}

bool SpeaksOfSequence(const std::string& name) {
  static constexpr std::array<std::string_view, 9> kWords = {
      "seq", "time", "len", "frame", "token", "step", "past", "window", "chunk"};
  return name == "T" || name == "t" || name == "L" || ContainsAny(name, kWords);
}

bool SpeaksOfBatch(const std::string& name) {
  static constexpr std::array<std::string_view, 2> kWords = {"batch", "sample"};
  return name == "N" || name == "B" || ContainsAny(name, kWords);
}

std::string DimName(const GraphValue& input, size_t d) {
  return d < input.dim_names.size() ? input.dim_names[d] : std::string();
}

class Planner {
 public:
  Planner(std::span<const GraphValue> inputs, std::span<const Shape> shapes,
          LeadingDimension leading, const std::string& where)
      : inputs_(inputs), shapes_(shapes), leading_(leading), where_(where) {
    plan_.rows.assign(inputs.size(), 0);
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (shapes[i].empty()) continue;
      const bool fixed = inputs[i].rank_known && inputs[i].shape[0] >= 0;
      (fixed ? fixed_ : free_).push_back(i);
    }
  }

  SamplePlan Plan() {
    for (const size_t i : fixed_) {
      if (Found(i) != Wanted(i)) larger_.push_back(i);
    }
    if (larger_.empty()) {
      PlanFree();
    } else {
      PlanFixed();
    }
    return plan_;
  }

 private:
  size_t Found(size_t i) const { return static_cast<size_t>(shapes_[i][0]); }
  size_t Wanted(size_t i) const { return static_cast<size_t>(inputs_[i].shape[0]); }

  // Arrays without values can have any number of rows, which are no samples.
  bool HaveValues(const std::vector<size_t>& inputs) const {
    return std::any_of(inputs.begin(), inputs.end(),
                       [&](size_t i) { return ElementCount(shapes_[i]) > 0; });
  }

  [[noreturn]] void Fail(size_t i, const std::string& expected) const {
    throw ModelError("input '" + inputs_[i].name + "': expected " + expected + ", found shape " +
                         ShapeText(shapes_[i]),
                     "save the data in the shape that the model takes", where_);
  }

  bool OneFixedBatch() const {
    return std::all_of(fixed_.begin(), fixed_.end(), [&](size_t i) {
      return Wanted(i) == Wanted(fixed_[0]) && !inputs_[i].time_first;
    });
  }

  // Some array is larger (or smaller) than the fixed leading dimension of its input.
  void PlanFixed() {
    for (const size_t i : larger_) {
      if (Wanted(i) == 0 || Found(i) == 0) Fail(i, "a leading dimension that is not 0");
    }
    if (!HaveValues(larger_)) Fail(larger_[0], "values in its rows");
    const bool one_batch = OneFixedBatch();
    const size_t lead = larger_[0];
    plan_.batch = one_batch ? Wanted(lead) : 1;
    const auto rows = [&](size_t i) { return one_batch ? 1 : Wanted(i); };
    plan_.samples = Found(lead) / rows(lead);
    plan_.remainder = one_batch ? 0 : Found(lead) % rows(lead);
    for (const size_t i : larger_) {
      plan_.rows[i] = rows(i);
      if (Found(i) / rows(i) != plan_.samples) {
        Fail(i, std::to_string(plan_.samples * rows(i)) + " rows as input '" + inputs_[lead].name +
                    "' has samples");
      }
      if (plan_.samples == 0) Fail(i, "at least " + std::to_string(Wanted(i)) + " rows");
    }
    for (const size_t i : free_) {
      if (Found(i) % plan_.samples != 0) {
        Fail(i, "a leading dimension that " + std::to_string(plan_.samples) +
                    " samples (as in input '" + inputs_[lead].name + "') divide");
      }
      plan_.rows[i] = Found(i) / plan_.samples;
    }
  }

  // All fixed leading dimensions fit: the file is one run, unless free ones are a batch.
  void PlanFree() {
    plan_.whole = true;
    if (free_.empty()) {
      if (fixed_.empty() || !OneFixedBatch() || Wanted(fixed_[0]) == 0) return;
      plan_ = {.samples = Wanted(fixed_[0]), .rows = plan_.rows, .batch = Wanted(fixed_[0])};
      for (const size_t i : fixed_) plan_.rows[i] = 1;
      return;
    }
    if (!IsBatch()) return;
    plan_.whole = false;
    plan_.samples = Found(free_[0]);
    for (const size_t i : free_) plan_.rows[i] = 1;
  }

  bool IsBatch() const {
    const size_t n = Found(free_[0]);
    const bool agree =
        std::all_of(free_.begin(), free_.end(), [&](size_t i) { return Found(i) == n; });
    if (leading_ == LeadingDimension::kWhole || !HaveValues(free_) || !agree) return false;
    return leading_ == LeadingDimension::kBatch || LooksLikeBatch(n);
  }

  bool LooksLikeBatch(size_t n) const {
    bool only_vectors = true;
    for (const size_t i : free_) {
      if (inputs_[i].time_first) return false;
      const std::string name = DimName(inputs_[i], 0);
      if (SpeaksOfSequence(name) && !SpeaksOfBatch(name)) return false;
      if (shapes_[i].size() > 1 || SpeaksOfBatch(name)) only_vectors = false;
    }
    if (only_vectors) return false;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const bool leads = std::find(free_.begin(), free_.end(), i) != free_.end();
      for (size_t d = 1; d < inputs_[i].shape.size(); ++d) {
        if (inputs_[i].shape[d] < 0 && Depends(i, d, leads, n)) return false;
      }
    }
    return true;
  }

  // Whether another dimension seems to be the same batch: it has the name of a leading one, or (in
  // an input that would go into every run as it is) its size.
  bool Depends(size_t i, size_t d, bool leads, size_t n) const {
    const std::string name = DimName(inputs_[i], d);
    if (!name.empty()) {
      return std::any_of(free_.begin(), free_.end(),
                         [&](size_t f) { return DimName(inputs_[f], 0) == name; });
    }
    return !leads && n > 1 && static_cast<size_t>(shapes_[i][d]) == n;
  }

  std::span<const GraphValue> inputs_;
  std::span<const Shape> shapes_;
  LeadingDimension leading_;
  const std::string& where_;
  std::vector<size_t> fixed_, free_, larger_;  // inputs by their leading dimension
  SamplePlan plan_;
};

}  // namespace

SamplePlan PlanSamples(std::span<const GraphValue> inputs, std::span<const Shape> shapes,
                       LeadingDimension leading, const std::string& where) {
  return Planner(inputs, shapes, leading, where).Plan();
}

size_t RunPlanner::Limit() const {
  if (options_.samples == 0) return std::numeric_limits<size_t>::max();
  return options_.samples / fixed_batch_ * fixed_batch_;
}

void RunPlanner::Flush(bool complete) {
  if (pending_.samples > 0) {
    if (complete || pending_batch_ == 0) {
      runs_.push_back(std::move(pending_));
    } else {
      dropped_ += pending_.samples;
      taken_ -= pending_.samples;
    }
  }
  pending_ = {};
}

void RunPlanner::Add(size_t item, const SamplePlan& plan, const std::vector<Shape>& tails) {
  if (plan.batch > 1) fixed_batch_ = plan.batch;
  const size_t limit = Limit();
  if (limit == 0) {
    throw UsageError("the model takes " + std::to_string(fixed_batch_) +
                         " samples a run, but only " + std::to_string(options_.samples) +
                         " should be used",
                     "ask for at least " + std::to_string(fixed_batch_) + " samples");
  }
  seen_ += plan.remainder > 0 ? 1 : 0;
  dropped_ += plan.remainder > 0 ? 1 : 0;
  if (plan.whole) {
    Flush(false);
    runs_.push_back({{{item, 0, plan.samples}}, plan.samples});
    seen_ += plan.samples;
    taken_ += plan.samples;
    return;
  }
  // Arrays that go into every run belong to their own file.
  const bool shared = std::any_of(tails.begin(), tails.end(), [&](const Shape& tail) {
    return plan.rows[static_cast<size_t>(&tail - tails.data())] == 0;
  });
  if (pending_.samples > 0 && (shared || tails != pending_tails_ || plan.batch != pending_batch_)) {
    Flush(false);
  }
  pending_tails_ = tails;
  pending_batch_ = plan.batch;
  const size_t free_batch = options_.batch == 0 ? plan.samples : options_.batch;
  const size_t batch = plan.batch > 0 ? plan.batch : free_batch;
  const size_t usable = std::min(plan.samples, limit - std::min(limit, taken_));
  seen_ += usable;
  for (size_t first = 0; first < usable;) {
    const size_t n = std::min(batch - pending_.samples, usable - first);
    pending_.pieces.push_back({item, first, n});
    pending_.samples += n;
    taken_ += n;
    first += n;
    if (pending_.samples == batch) Flush(true);
  }
  if (shared || options_.batch == 0) Flush(false);
}

std::vector<PlannedRun> RunPlanner::Finish(LogSink& log, const std::string& where) {
  Flush(false);
  const std::string used =
      "used " + std::to_string(taken_) + " of " + std::to_string(seen_) + " samples";
  if (dropped_ > 0 && (!options_.drop_last || runs_.empty())) {
    throw ModelError(
        "the model takes " + std::to_string(fixed_batch_) +
            " samples a run, which does not divide the " + std::to_string(seen_) + " given",
        runs_.empty() ? "give more data" : "--drop-last leaves the rest out (" + used + ")", where);
  }
  if (dropped_ > 0) log.Info(used);
  return std::move(runs_);
}

}  // namespace hif8

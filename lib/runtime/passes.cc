#include "lib/runtime/passes.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "lib/runtime/data_runs.h"

namespace hif8 {
namespace {

// Records of all runs that the worker had; where they are shown to an observer, there is one
// worker.
class StatsWorker : public RunWorker, private TapSink {
 public:
  StatsWorker(Session& session, size_t count, const ActivationObserver& observer,
              std::vector<std::vector<float>>* traces)
      : stats(count), session_(session), observer_(observer), traces_(*traces) {}

  void Run(const DataRun& run) override {
    samples_ = run.samples;
    session_.Run(run.inputs, this);
  }
  void Commit(const DataRun&) override {
    for (const size_t at : observed_) stats[at].TakeTrace(&traces_[at]);
    observed_.clear();
  }

  std::vector<TensorStats> stats;  // without traces

 private:
  void Observe(int id, const TensorView& x) override {
    const auto at = static_cast<size_t>(id);
    stats[at].Add(x, samples_);
    observed_.push_back(at);
    if (observer_) observer_(id, x, samples_);
  }
  void Compare(int, const TensorView&, const TensorView&) override {}

  Session& session_;
  const ActivationObserver& observer_;
  std::vector<std::vector<float>>& traces_;
  std::vector<size_t> observed_;  // in the current run
  size_t samples_ = 1;            // of the current run
};

Tensor Copy(const TensorView& view) {
  std::byte* bytes = nullptr;
  Tensor copy = Tensor::Allocate(view.dtype, view.shape, &bytes);
  std::copy_n(view.data, view.bytes(), bytes);
  return copy;
}

void AddPair(ErrorMetrics* metrics, const TensorView& x, const TensorView& y) {
  std::vector<float> x_buffer;
  std::vector<float> y_buffer;
  metrics->Add(AsFloats(x, &x_buffer), AsFloats(y, &y_buffer));
}

// Outputs of each layer in the current run, in the order in which they were computed.
using LayerOutputs = std::vector<std::deque<Tensor>>;

class OriginalSink : public TapSink {
 public:
  OriginalSink(const std::vector<Tap>& taps, const MeasureOptions& options, Measurement* result,
               LayerOutputs* outputs)
      : taps_(taps), options_(options), result_(*result), outputs_(*outputs) {}

  void Observe(int id, const TensorView& x) override { outputs_[Index(id)].push_back(Copy(x)); }

  void Compare(int id, const TensorView& x, const TensorView& y) override {
    if (taps_[static_cast<size_t>(id)].kind == TapKind::kOutput) {
      AddPair(&result_.output[Index(id)], x, y);
      return;
    }
    ErrorMetrics& metrics = result_.activation[Index(id)];
    AddPair(&metrics, x, y);
    const auto found = options_.quantized.find(taps_[static_cast<size_t>(id)].index);
    if (found == options_.quantized.end()) return;
    const QuantizedActivation& activation = found->second;
    std::vector<float> buffer;
    if (!activation.how.dynamic) activation.CountRange(AsFloats(x, &buffer), &metrics);
    if (activation.visit) activation.visit(x);
  }

 private:
  size_t Index(int id) const { return static_cast<size_t>(taps_[static_cast<size_t>(id)].index); }

  const std::vector<Tap>& taps_;
  const MeasureOptions& options_;
  Measurement& result_;
  LayerOutputs& outputs_;
};

class QuantizedSink : public TapSink {
 public:
  QuantizedSink(const std::vector<Tap>& taps, Measurement* result, LayerOutputs* outputs)
      : taps_(taps), result_(*result), outputs_(*outputs) {}

  // A layer that ran more often than in the original network, or on another shape (sizes that
  // depend on values), has nothing to be compared with.
  void Observe(int id, const TensorView& y) override {
    const auto layer = static_cast<size_t>(taps_[static_cast<size_t>(id)].index);
    if (outputs_[layer].empty()) return;
    const Tensor x = std::move(outputs_[layer].front());
    outputs_[layer].pop_front();
    if (x.view.shape == y.shape) AddPair(&result_.accumulated[layer], x.view, y);
  }
  void Compare(int, const TensorView&, const TensorView&) override {}

 private:
  const std::vector<Tap>& taps_;
  Measurement& result_;
  LayerOutputs& outputs_;
};

// Rows along the last axis whose largest values stand at the same place.
void CompareArgmax(std::span<const float> x, std::span<const float> y, const Shape& shape,
                   OutputMeasurement* output) {
  if (shape.empty() || shape.back() < 2) return;
  const auto width = static_cast<size_t>(shape.back());
  for (size_t begin = 0; begin + width <= x.size(); begin += width) {
    const auto argmax = [&](std::span<const float> values) {
      const auto row = values.subspan(begin, width);
      return std::max_element(row.begin(), row.end()) - row.begin();
    };
    ++output->argmax_rows;
    if (argmax(x) == argmax(y)) ++output->argmax_equal;
  }
}

// Outputs of the whole networks, run by run.
class OutputComparer {
 public:
  OutputComparer(const std::vector<std::string>& names, LogSink& log) : log_(log) {
    for (const std::string& name : names) outputs_.push_back({.name = name, .error = {}});
  }

  void Add(const std::vector<Tensor>& original, const std::vector<Tensor>& quantized) {
    for (size_t i = 0; i < outputs_.size(); ++i) {
      const TensorView& x = original[i].view;
      const TensorView& y = quantized[i].view;
      if (original[i].owner == nullptr || quantized[i].owner == nullptr || !IsFloat(x.dtype) ||
          !IsFloat(y.dtype)) {
        continue;
      }
      if (x.shape != y.shape) {
        if (warned_.insert(i).second) {
          log_.Warn("network output '" + outputs_[i].name +
                    "' has another shape in the quantized network (" + ShapeText(x.shape) +
                    ", then " + ShapeText(y.shape) + "): not compared there");
        }
        continue;
      }
      std::vector<float> x_buffer;
      std::vector<float> y_buffer;
      const std::span<const float> x_values = AsFloats(x, &x_buffer);
      const std::span<const float> y_values = AsFloats(y, &y_buffer);
      outputs_[i].error.Add(x_values, y_values);
      CompareArgmax(x_values, y_values, x.shape, &outputs_[i]);
    }
  }

  std::vector<OutputMeasurement> Take() { return std::move(outputs_); }

 private:
  LogSink& log_;
  std::vector<OutputMeasurement> outputs_;
  std::set<size_t> warned_;
};

Measurement SizedFor(const MeasureOptions& options) {
  Measurement sized;
  sized.activation.resize(options.activations);
  sized.output.resize(options.layers);
  sized.accumulated.resize(options.layers);
  return sized;
}

void Merge(const std::vector<ErrorMetrics>& from, std::vector<ErrorMetrics>* into) {
  for (size_t i = 0; i < from.size(); ++i) (*into)[i].Merge(from[i]);
}

// Both networks over one run; what it gives is added up run by run, so that sums do not depend on
// who had which.
class MeasureWorker : public RunWorker {
 public:
  MeasureWorker(const EvaluationGraphs& graphs, const MeasureOptions& options, Session& original,
                Session& quantized, OutputComparer* comparer, Measurement* total)
      : options_(options),
        original_(original),
        quantized_(quantized),
        comparer_(*comparer),
        total_(*total),
        layers_(options.layers),
        original_sink_(graphs.original_taps, options, &part_, &layers_),
        quantized_sink_(graphs.quantized_taps, &part_, &layers_) {}

  void Run(const DataRun& run) override {
    part_ = SizedFor(options_);
    x_ = original_.Run(run.inputs, &original_sink_);
    y_ = quantized_.Run(run.inputs, &quantized_sink_);
  }
  void Commit(const DataRun& run) override {
    Merge(part_.activation, &total_.activation);
    Merge(part_.output, &total_.output);
    Merge(part_.accumulated, &total_.accumulated);
    comparer_.Add(x_, y_);
    total_.samples += run.samples;
    for (std::deque<Tensor>& layer : layers_) layer.clear();
  }

 private:
  const MeasureOptions& options_;
  Session& original_;
  Session& quantized_;
  OutputComparer& comparer_;
  Measurement& total_;
  Measurement part_;
  LayerOutputs layers_;
  OriginalSink original_sink_;
  QuantizedSink quantized_sink_;
  std::vector<Tensor> x_, y_;
};

// Networks that are compared with the first one in one pass.
struct Variants {
  explicit Variants(Session& original) : first(original) {}
  Session& first;
  std::vector<std::unique_ptr<Session>> sessions;
  std::vector<OutputComparer> comparers;  // parallel to them
  uint64_t samples = 0;
};

class VariantWorker : public RunWorker {
 public:
  explicit VariantWorker(Variants* variants)
      : variants_(*variants), y_(variants->sessions.size()) {}

  void Run(const DataRun& run) override {
    x_ = variants_.first.Run(run.inputs);
    for (size_t i = 0; i < y_.size(); ++i) y_[i] = variants_.sessions[i]->Run(run.inputs);
  }
  void Commit(const DataRun& run) override {
    for (size_t i = 0; i < y_.size(); ++i) variants_.comparers[i].Add(x_, y_[i]);
    variants_.samples += run.samples;
  }

 private:
  Variants& variants_;
  std::vector<Tensor> x_;
  std::vector<std::vector<Tensor>> y_;
};

}  // namespace

std::vector<TensorStats> CollectStats(const RunnableGraph& graph, Dataset& data, size_t count,
                                      const std::string& stage, LogSink& log,
                                      const ActivationObserver& observer) {
  const DataRuns runs(data, {.one_by_one = observer != nullptr});
  Session session(graph, {.threads = runs.session_threads(),
                          .alone = true,
                          .log = &log,
                          .taps = nullptr,
                          .operators = {}});
  std::vector<std::vector<float>> traces(count);
  std::deque<StatsWorker> workers;
  runs.ForEach(stage, log, [&]() -> RunWorker& {
    return workers.emplace_back(session, count, observer, &traces);
  });
  std::vector<TensorStats> stats = std::move(workers.front().stats);
  for (size_t i = 0; i < count; ++i) {
    for (size_t w = 1; w < workers.size(); ++w) stats[i].Merge(workers[w].stats[i]);
    stats[i].AppendTrace(traces[i]);
  }
  return stats;
}

Measurement MeasureGraphs(const EvaluationGraphs& graphs, Dataset& data,
                          const MeasureOptions& options, LogSink& log) {
  const bool visited = std::any_of(options.quantized.begin(), options.quantized.end(),
                                   [](const auto& entry) { return entry.second.visit != nullptr; });
  const DataRuns runs(data, {.one_by_one = visited});
  const SessionOptions session{.threads = runs.session_threads(),
                               .alone = false,
                               .log = &log,
                               .taps = nullptr,
                               .operators = options.operators};
  Session original(graphs.original, session);
  Session quantized(graphs.quantized, session);
  Measurement result = SizedFor(options);
  OutputComparer comparer(original.output_names(), log);
  std::deque<MeasureWorker> workers;
  runs.ForEach(options.stage, log, [&]() -> RunWorker& {
    return workers.emplace_back(graphs, options, original, quantized, &comparer, &result);
  });
  result.outputs = comparer.Take();
  return result;
}

std::vector<Measurement> MeasureVariantGraphs(const RunnableGraph& original, size_t count,
                                              const std::function<RunnableGraph(size_t)>& variant,
                                              Dataset& data, const VariantOptions& options,
                                              LogSink& log) {
  const DataRuns runs(data, {.samples = options.samples});
  const SessionOptions session{.threads = runs.session_threads(),
                               .alone = false,
                               .log = &log,
                               .taps = nullptr,
                               .operators = options.operators};
  Session first(original, session);
  std::vector<Measurement> results;
  while (results.size() < count) {
    Variants variants(first);
    for (size_t i = results.size(); i < count && variants.sessions.size() < options.at_once; ++i) {
      variants.sessions.push_back(std::make_unique<Session>(variant(i), session));
      variants.comparers.emplace_back(first.output_names(), log);
    }
    std::deque<VariantWorker> workers;
    runs.ForEach(options.stage, NullLog(),
                 [&]() -> RunWorker& { return workers.emplace_back(&variants); });
    for (OutputComparer& comparer : variants.comparers) {
      Measurement& result = results.emplace_back();
      result.outputs = comparer.Take();
      result.samples = variants.samples;
    }
    log.Progress(options.stage, results.size(), count);
  }
  return results;
}

}  // namespace hif8

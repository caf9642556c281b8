#include "lib/runtime/passes.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "lib/core/error.h"
#include "lib/core/interrupt.h"
#include "lib/core/memory.h"
#include "lib/core/one_ahead.h"

namespace hif8 {
namespace {

// Reads every run, or as many as make up `samples` (0: all), and gives it to `body`, while the next
// one is being read; errors tell which file was being run.
void ForEachRun(Dataset& data, const std::string& stage, LogSink& log,
                const std::function<void(const DataRun&)>& body, uint64_t samples = 0) {
  const size_t runs = data.runs();
  size_t next = 0;
  uint64_t read = 0;
  OneAhead<DataRun> reader([&]() -> std::optional<DataRun> {
    if (next == runs || (samples > 0 && read >= samples)) return std::nullopt;
    DataRun run = data.Read(next++);
    read += run.samples;
    return run;
  });
  uint64_t seen = 0;
  for (size_t i = 0; i < runs && (samples == 0 || seen < samples); ++i) {
    CheckInterrupt();
    log.Progress(stage, samples == 0 ? i : seen, samples == 0 ? runs : samples);
    const DataRun run = reader.Take().value();
    seen += run.samples;
    try {
      body(run);
      CheckOwnMemory("the run of " + std::to_string(run.samples) +
                     (run.samples == 1 ? " sample" : " samples"));
    } catch (const Error& error) {
      if (!error.where().empty() || error.code() == ErrorCode::kInterrupted) throw;
      const bool unsuited = data.synthetic() && error.hint().empty();
      throw Error(error.code(), error.message(),
                  unsuited ? "made-up data may not suit this model: give real data" : error.hint(),
                  run.where);
    }
  }
  const uint64_t total = samples == 0 ? runs : samples;
  log.Progress(stage, total, total);
}

class StatsSink : public TapSink {
 public:
  StatsSink(size_t count, const ActivationObserver& observer) : stats(count), observer_(observer) {}
  void Observe(int id, const TensorView& x) override {
    stats[static_cast<size_t>(id)].Add(x, samples);
    if (observer_) observer_(id, x, samples);
  }
  void Compare(int, const TensorView&, const TensorView&) override {}

  std::vector<TensorStats> stats;
  size_t samples = 1;  // of the run

 private:
  const ActivationObserver& observer_;
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
    const QuantizedActivation& how = found->second;
    if (!how.dynamic) {
      std::vector<float> buffer;
      metrics.CountRange(AsFloats(x, &buffer), how.scale, how.overflow_threshold, how.reference);
    }
    if (how.visit) how.visit(x);
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

}  // namespace

std::vector<TensorStats> CollectStats(const RunnableGraph& graph, Dataset& data, size_t count,
                                      const std::string& stage, LogSink& log,
                                      const ActivationObserver& observer) {
  StatsSink sink(count, observer);
  Session session(graph,
                  {.threads = 0, .alone = true, .log = &log, .taps = &sink, .operators = {}});
  ForEachRun(data, stage, log, [&](const DataRun& run) {
    sink.samples = run.samples;
    session.Run(run.inputs);
  });
  return std::move(sink.stats);
}

Measurement MeasureGraphs(const EvaluationGraphs& graphs, Dataset& data,
                          const MeasureOptions& options, LogSink& log) {
  Measurement result;
  result.activation.resize(options.activations);
  result.output.resize(options.layers);
  result.accumulated.resize(options.layers);
  LayerOutputs outputs(options.layers);
  OriginalSink original_sink(graphs.original_taps, options, &result, &outputs);
  QuantizedSink quantized_sink(graphs.quantized_taps, &result, &outputs);
  Session original(graphs.original, {.threads = 0,
                                     .alone = false,
                                     .log = &log,
                                     .taps = &original_sink,
                                     .operators = options.operators});
  Session quantized(graphs.quantized, {.threads = 0,
                                       .alone = false,
                                       .log = &log,
                                       .taps = &quantized_sink,
                                       .operators = options.operators});
  OutputComparer comparer(original.output_names(), log);
  ForEachRun(data, options.stage, log, [&](const DataRun& run) {
    const std::vector<Tensor> x = original.Run(run.inputs);
    const std::vector<Tensor> y = quantized.Run(run.inputs);
    comparer.Add(x, y);
    for (std::deque<Tensor>& layer : outputs) layer.clear();
    result.samples += run.samples;
  });
  result.outputs = comparer.Take();
  return result;
}

std::vector<Measurement> MeasureVariantGraphs(const RunnableGraph& original, size_t count,
                                              const std::function<RunnableGraph(size_t)>& variant,
                                              Dataset& data, const VariantOptions& options,
                                              LogSink& log) {
  const SessionOptions session{
      .threads = 0, .alone = false, .log = &log, .taps = nullptr, .operators = options.operators};
  Session first(original, session);
  std::vector<Measurement> results;
  while (results.size() < count) {
    const size_t begin = results.size();
    const size_t size = std::min(options.at_once, count - begin);
    std::vector<std::unique_ptr<Session>> others;
    std::vector<OutputComparer> comparers;
    for (size_t i = 0; i < size; ++i) {
      others.push_back(std::make_unique<Session>(variant(begin + i), session));
      comparers.emplace_back(first.output_names(), log);
    }
    uint64_t samples = 0;
    const auto compare = [&](const DataRun& run) {
      const std::vector<Tensor> x = first.Run(run.inputs);
      for (size_t i = 0; i < size; ++i) comparers[i].Add(x, others[i]->Run(run.inputs));
      samples += run.samples;
    };
    ForEachRun(data, options.stage, NullLog(), compare, options.samples);
    for (OutputComparer& comparer : comparers) {
      Measurement& result = results.emplace_back();
      result.outputs = comparer.Take();
      result.samples = samples;
    }
    log.Progress(options.stage, results.size(), count);
  }
  return results;
}

}  // namespace hif8

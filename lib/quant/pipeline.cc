#include "lib/quant/pipeline.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <span>
#include <utility>

#include "lib/core/background_tasks.h"
#include "lib/core/error.h"
#include "lib/core/hash.h"
#include "lib/core/interrupt.h"
#include "lib/core/mapped_file.h"
#include "lib/core/memory.h"
#include "lib/core/output_dir.h"
#include "lib/core/parallel.h"
#include "lib/core/pattern.h"
#include "lib/quant/compensation.h"
#include "lib/quant/fused_groups.h"
#include "lib/quant/output_objective.h"
#include "lib/quant/pipeline_requests.h"
#include "lib/quant/pipeline_warnings.h"
#include "lib/quant/rare_experts.h"
#include "lib/quant/side_files.h"
#include "lib/quant/stats_file.h"
#include "lib/quant/weight_quantizer.h"

namespace hif8 {
namespace {

class Pipeline {
 public:
  Pipeline(const PipelineInputs& in, const PipelineOptions& options, LogSink& log)
      : in_(in), options_(options), log_(log) {
    result_.config = in.config;
  }

  PipelineResult Run(
      const std::function<void(const PipelineResult&, const std::filesystem::path&)>& finish) {
    CheckRequests(in_, options_);
    Timed("plan", [&] { result_.plan = MakePlan(in_.model, in_.config, in_.context); });
    WarnAll(result_.plan.notices);
    RequireQuantizedLayers(in_.model, result_.plan,
                           "--dry-run lists every layer with the reason why it is kept");
    CheckCompensation(in_, result_.plan);
    if (options_.output.empty()) {
      Timed("collect", [&] { Collect(); });
      return std::move(result_);
    }
    WarnAll(in_.exporter.Check(result_.plan, options_.simulated));
    // Claimed before the long work, so that an output that cannot be written fails at once.
    // What is written before layers are chosen is not the result: nothing to go on with later.
    // Nor is it known whether the data is still the same that weights were rounded with.
    const bool resumable =
        in_.exporter.Resumable() && !options_.auto_goal && !WantsCompensation(result_.plan);
    OutputDir out(options_.output, options_.force,
                  resumable ? OutputDir::Unfinished::kKeep : OutputDir::Unfinished::kRemove);
    out.Fill(log_, [&] {
      Timed("collect", [&] { Collect(); });
      RequireQuantizedLayers(in_.model, result_.plan,
                             "give data that reaches the layers with finite values");
      if (WantsCompensation(result_.plan)) Timed("moments", [&] { GatherMoments(); });
      Timed("apply", [&] { Apply(out.path()); });
      Timed("measure", [&] { Measure(out.path()); });
      if (options_.auto_goal) Timed("auto", [&] { MeetGoal(out.path()); });
      result_.coverage = Summarize(in_.model, result_.plan).coverage;
      WarnAll(CoverageWarnings(result_.coverage));
      WriteSideFiles(in_.model, result_, out.path());
      finish(result_, out.path());
      CheckInterrupt();
      MappedFile::CheckAll();
      out.Commit();
    });
    return std::move(result_);
  }

 private:
  template <typename Body>
  void Timed(const char* stage, const Body& body) {
    const auto start = std::chrono::steady_clock::now();
    body();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    result_.seconds[stage] += elapsed.count();
    CheckInterrupt();
    CheckOwnMemory("stage '" + std::string(stage) + "'");
  }

  void Warn(std::string message) {
    log_.Warn(message);
    result_.warnings.push_back(std::move(message));
  }

  void WarnAll(const std::vector<std::string>& messages) {
    for (const std::string& message : messages) Warn(message);
  }

  // Keeps layers until the written network meets the goal, and writes it again.
  void MeetGoal(const std::filesystem::path& dir) {
    const AutoGoal& goal = *options_.auto_goal;
    const LayerSet quantized = result_.plan.QuantizedLayers();
    const auto measure = [&](std::span<const LayerSet> networks, uint64_t samples) {
      std::vector<double> values;
      for (const Measurement& m :
           in_.source->MeasureVariants(dir, QuantizedActivations(nullptr), networks, samples)) {
        values.push_back(goal.value(m));
      }
      return values;
    };
    const bool alone = in_.config.fused_groups == FusedPolicy::kIgnore;
    const auto modules = alone ? std::vector<std::vector<size_t>>() : FusedModules(in_.model);
    result_.automatic = ChooseKeptLayers(quantized, modules, goal.value(result_.measurement),
                                         result_.measurement.samples, goal, measure);
    std::vector<std::string> names;
    for (const KeptLayer& kept : result_.automatic->kept) {
      const auto first = static_cast<size_t>(kept.layer);
      const auto module = std::find_if(modules.begin(), modules.end(),
                                       [&](const auto& m) { return m.front() == first; });
      const std::vector<size_t> one = {first};
      for (const size_t layer : module == modules.end() ? one : *module) {
        names.push_back(in_.model.layers()[layer].name);
        result_.config.keep.push_back({ExactPattern(names.back()), false, "--auto"});
      }
    }
    if (names.empty()) return;
    KeepLayers(in_.model, names, "kept to meet " + goal.text, &result_.plan);
    std::erase_if(result_.activations, [&](const auto& entry) {
      return !result_.plan.activations.contains(entry.first);
    });
    using Entries = std::filesystem::directory_iterator;
    const std::vector<std::filesystem::path> written(Entries(dir), Entries{});
    for (const std::filesystem::path& path : written) std::filesystem::remove_all(path);
    Apply(dir);
    Measure(dir);
    result_.automatic->met = goal.holds(goal.value(result_.measurement));
  }

  // A second pass: inputs are rounded with the scales that the first one chose.
  void GatherMoments() {
    compensation_.emplace(in_.model, result_.plan, RoundedActivations(), MemoryLimit() / 2);
    const std::vector<int> wanted = compensation_->Wanted();
    if (wanted.empty()) return;
    in_.source->SetObserver(
        [this](int activation, const TensorView& x, size_t) { compensation_->Add(activation, x); });
    in_.source->Collect(wanted);
    in_.source->SetObserver({});
  }

  std::map<int, FakeQuantize> RoundedActivations() const {
    std::map<int, FakeQuantize> activations;
    for (const auto& [index, scale] : result_.activations) {
      activations[index] = result_.plan.activations.at(index).With(scale.choice);
    }
    return activations;
  }

  void Collect() {
    result_.fingerprint = in_.model.ComputeFingerprint();
    if (!options_.calibration.empty()) {
      TakeScalesFrom(options_.calibration, in_.model, in_.context, &result_);
      return;
    }
    std::vector<int> wanted = result_.plan.ObservedActivations(!options_.compare.empty());
    const bool saved = !options_.stats_out.empty();
    if (saved && in_.source == nullptr && options_.stats_in.empty()) {
      throw UsageError("there are no statistics to save: no data was given",
                       "give --data beside --stats-out");
    }
    if (saved || options_.delayed_study || ComparesRules()) {
      // For other recipes than this one, which may need no scale.
      wanted.clear();
      for (const auto& [index, operand] : result_.plan.activations) wanted.push_back(index);
    }
    StatsFile stats;
    Watch();
    if (!options_.stats_in.empty()) {
      stats = ReadStatsFiles(options_.stats_in, result_.fingerprint);
    } else if (in_.source != nullptr && !wanted.empty()) {
      stats = Observe(wanted);
    } else if (!result_.plan.ObservedActivations().empty()) {
      throw UsageError("static activation scales need calibration data, and none was given",
                       "give --data, --stats-in or --calibration; or --recipe cast to convert "
                       "activations without a scale, weight-only to leave them");
    }
    if (in_.source != nullptr) in_.source->SetObserver({});
    if (!options_.stats_out.empty()) WriteStatsFile(options_.stats_out, stats);
    result_.calibration_samples = stats.samples;
    result_.synthetic = stats.synthetic;
    stats_ = ByActivation(std::move(stats), in_.model.activations());
    SolveActivations(stats_);
    if (options_.compare.empty()) stats_.clear();
  }

  bool ComparesRules() const {
    return std::any_of(options_.compare.begin(), options_.compare.end(), [](const auto& c) {
      return c.rule != nullptr && c.rule->traits().needs_data;
    });
  }

  // Lets those who need more than statistics see what the pass observes.
  void Watch() {
    if (options_.delayed_study) {
      result_.delayed_study = std::make_shared<DelayedStudy>(result_.plan);
    }
    if (in_.config.mse.objective == MseObjective::kOutput && in_.source != nullptr) {
      objective_.emplace(in_.model, result_.plan, *in_.source);
    }
    // Who is shown tensors sees them one after the other: not where nobody looks.
    if (in_.source == nullptr || (!result_.delayed_study && !objective_)) return;
    in_.source->SetObserver([this](int activation, const TensorView& x, size_t samples) {
      if (result_.delayed_study) result_.delayed_study->Add(activation, x, samples);
      if (objective_) objective_->Add(activation, x);
    });
  }

  ScaleChoice SolveActivation(int index, const TensorStats& record) const {
    const OperandPlan& operand = result_.plan.activations.at(index);
    if (!operand.HasStaticScale()) return {};
    const bool by_output =
        in_.config.mse.objective == MseObjective::kOutput && operand.rule->search() != nullptr;
    if (by_output && objective_) {
      const auto encode = [this](int weight) {
        WeightResult unused;
        return Encode(weight, &unused);
      };
      if (std::optional<ScaleChoice> choice = objective_->Solve(index, record, encode)) {
        return std::move(*choice);
      }
    }
    ScaleChoice choice = operand.rule->Solve(record, *operand.format, operand.params);
    if (by_output) {
      choice.note =
          "the tensor's own error was kept small: its layers cannot run alone, or nothing was "
          "sampled";
    }
    return choice;
  }

  // What the source needs to quantize blocks as it goes: the same pure functions that decide later.
  Propagation MakePropagation() const {
    Propagation propagation;
    propagation.solve = [this](int index,
                               const TensorStats& stats) -> std::optional<QuantizedActivation> {
      const auto plan = result_.plan.activations.find(index);
      if (plan == result_.plan.activations.end()) return std::nullopt;
      const OperandPlan& operand = plan->second;
      if (operand.NeedsData() && stats.count() == 0) return std::nullopt;
      const ScaleChoice choice = SolveActivation(index, stats);
      return QuantizedActivation{operand.With(choice), choice.reference, {}};
    };
    propagation.encode = [this](int index) -> std::optional<EncodedWeight> {
      if (!result_.plan.weights.contains(index)) return std::nullopt;
      WeightResult unused;
      return Encode(index, &unused);
    };
    return propagation;
  }

  StatsFile Observe(const std::vector<int>& wanted) {
    StatsFile stats;
    const bool propagate = in_.config.propagate == Propagate::kQuantized;
    std::vector<TensorStats> records =
        propagate ? in_.source->CollectPropagated(wanted, MakePropagation())
                  : in_.source->Collect(wanted);
    stats.model = result_.fingerprint;
    stats.samples = in_.source->samples();
    stats.synthetic = in_.source->synthetic();
    for (const int index : wanted) {
      const size_t at = static_cast<size_t>(index);
      stats.records.emplace(in_.model.activations()[at].name, std::move(records[at]));
    }
    return stats;
  }

  void SolveActivations(std::vector<TensorStats>& stats) {
    ConvertUnreached(
        in_.model, in_.config, in_.context,
        [&](int activation) { return stats[static_cast<size_t>(activation)].count() > 0; },
        &result_.plan);
    const RareExperts rare = TreatRareExperts(in_.model, in_.config.experts, &stats, &result_.plan);
    for (const auto& [index, why] : rare.pooled) {
      Warn("'" + in_.model.activations()[static_cast<size_t>(index)].name + "': the expert " + why);
    }
    result_.unobserved = rare.kept;
    for (std::string& layer : KeepUnobserved(in_.model, stats, &result_.plan)) {
      result_.unobserved.push_back(std::move(layer));
    }
    for (std::string& layer : KeepWholeModules(in_.model, in_.config, &result_.plan)) {
      result_.unobserved.push_back(std::move(layer));
    }
    WarnAll(UnobservedWarnings(in_.model, result_.plan, result_.unobserved));
    const std::vector<std::pair<int, OperandPlan>> plans(result_.plan.activations.begin(),
                                                         result_.plan.activations.end());
    std::vector<ActivationScale> scales(plans.size());
    ParallelFor(plans.size(), [&](size_t i) {
      const TensorStats& record = stats[static_cast<size_t>(plans[i].first)];
      const OperandPlan& operand = plans[i].second;
      scales[i] = {SolveActivation(plans[i].first, record), std::string(operand.rule->name()),
                   record.samples()};
    });
    for (size_t i = 0; i < plans.size(); ++i) {
      const size_t at = static_cast<size_t>(plans[i].first);
      WarnAll(NonFiniteWarnings(in_.model.activations()[at].name, stats[at]));
      if (!plans[i].second.dynamic) {
        result_.exponents[plans[i].first] = {ExponentsOf(stats[at]),
                                             ExponentsOf(stats[at], scales[i].choice.scale)};
      }
      const auto pooled = rare.pooled.find(plans[i].first);
      if (pooled != rare.pooled.end()) scales[i].choice.note = "the expert " + pooled->second;
      result_.activations[plans[i].first] = std::move(scales[i]);
    }
  }

  EncodedWeight Encode(int index, WeightResult* result) const {
    const Weight& info = in_.model.weights()[static_cast<size_t>(index)];
    const WeightPlan& plan = result_.plan.weights.at(index);
    const FloatSource values = in_.model.OpenWeight(index);
    WeightScales solved =
        SolveWeight(info.name, values, plan.layout, *plan.rule, *plan.format, plan.params);
    result->note = plan.note.empty() ? solved.note : plan.note;
    if (!compensation_ || plan.config.rounding != WeightRounding::kCompensated) {
      return EncodeWeight(values, plan.layout, std::move(solved.scales), *plan.format,
                          solved.global_scale);
    }
    std::vector<uint8_t> codes = compensation_->Round(index, values, solved.scales, &result->note);
    return {std::string(plan.format->name()), plan.layout, std::move(solved.scales),
            std::move(codes), solved.global_scale};
  }

  void Apply(const std::filesystem::path& dir) {
    result_.weights.clear();
    for (const auto& [index, plan] : result_.plan.weights) {
      if (in_.exporter.Writes(index)) result_.weights[index];
    }
    std::map<int, FakeQuantize> activations = RoundedActivations();
    const std::function<EncodedWeight(int)> encode = [&](int index) {
      CheckInterrupt();
      return Encode(index, &result_.weights.at(index));
    };
    ExportRequest request{result_.plan, activations, encode, options_.simulated, options_.inlined};
    // On what was read back, beside the writing, which leaves processors idle.
    BackgroundTasks measuring;
    if (!options_.simulated) {
      request.finished = [&](std::shared_ptr<const WrittenWeights> written,
                             std::vector<int> weights) {
        measuring.Add([this, written = std::move(written), weights = std::move(weights)] {
          for (const int index : weights) MeasureWritten(*written, index);
        });
      };
    }
    result_.bytes_after = in_.exporter.Write(request, dir, log_);
    measuring.Finish();
  }

  // The network is run from the written file.
  void Measure(const std::filesystem::path& dir) {
    std::vector<FormatChoice> choices = options_.compare;
    if (!choices.empty()) choices = BesideWritten(std::move(choices), result_.plan);
    FormatComparison comparison(in_.model, result_.plan, std::move(choices), stats_, in_.source,
                                result_.activations);
    comparison.CompareWeights();
    if (in_.source != nullptr) {
      result_.measurement = in_.source->Measure(dir, QuantizedActivations(&comparison),
                                                result_.plan.QuantizedLayers());
      WarnAll(NonFiniteWarnings(result_.measurement.outputs));
    }
    result_.comparisons = comparison.Results();
  }

  std::map<int, QuantizedActivation> QuantizedActivations(FormatComparison* comparison) const {
    std::map<int, QuantizedActivation> quantized;
    for (const auto& [index, scale] : result_.activations) {
      QuantizedActivation& entry = quantized[index];
      entry.how = result_.plan.activations.at(index).With(scale.choice);
      entry.reference = scale.choice.reference;
      if (options_.compare.empty() || comparison == nullptr) continue;
      entry.visit = [comparison, at = index](const TensorView& x) {
        comparison->AddActivation(at, x);
      };
    }
    return quantized;
  }

  void MeasureWritten(const WrittenWeights& weights, int index) {
    CheckInterrupt();
    WeightResult* const result = &result_.weights.at(index);
    const FloatSource original = in_.model.OpenWeight(index);
    const WeightPlan& plan = result_.plan.weights.at(index);
    const WrittenWeight written = weights.Read(index);
    result->error = MeasureWeight(original, written, *plan.format, &result->exponents);
    result->amax = static_cast<float>(result->error.Amax());
    if (written.scales.size() == 1) result->scale = written.scales.front();
    Hasher hasher;
    hasher.Update(std::as_bytes(std::span(written.scales)));
    result->scales_hash = hasher.Hex();
    result->bytes_before = original.tensor().bytes();
    result->bytes_after = StoredBytes(plan);
  }

  const PipelineInputs& in_;
  const PipelineOptions& options_;
  LogSink& log_;
  std::vector<TensorStats> stats_;  // kept while formats are compared
  std::optional<OutputObjective> objective_;
  std::optional<Compensation> compensation_;
  PipelineResult result_;
};

}  // namespace

PipelineResult RunPipeline(
    const PipelineInputs& inputs, const PipelineOptions& options, LogSink& log,
    const std::function<void(const PipelineResult&, const std::filesystem::path&)>& finish) {
  return Pipeline(inputs, options, log).Run(finish);
}

}  // namespace hif8

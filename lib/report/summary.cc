#include "lib/report/summary.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/report/text_util.h"

namespace hif8 {
namespace {

QuantizedCounts CountsOf(const Report& report) {
  QuantizedCounts counts;
  counts.layers = report.layers.size();
  for (const LayerReport& layer : report.layers) {
    counts.quantized += layer.quantized ? 1 : 0;
    counts.weight_only += layer.weight_only.value_or(false) ? 1 : 0;
  }
  for (const KvCacheReport& cache : report.kv_cache) {
    counts.caches += (cache.k ? 1 : 0) + (cache.v ? 1 : 0);
  }
  counts.coverage = report.coverage;
  counts.bytes_before = report.model.bytes_before;
  counts.bytes_after = report.model.bytes_after;
  return counts;
}

std::string DataLine(const RunReport& run) {
  if (!run.evaluation) return "";
  const DataReport& data = *run.evaluation;
  std::string line = "measured on " + CleanText(data.description);
  if (data.samples) line += fmt::format(" ({} samples)", *data.samples);
  if (data.is_calibration_data) line += ", the data that the scales were chosen on";
  return line;
}

// What has no partner, one line a tensor.
void AddUnmatched(const Report& report, std::vector<std::string>* lines) {
  if (!report.unmatched) return;
  constexpr size_t kMost = 20;  // of each model; the other forms have all of them
  for (const std::string model : {"original", "quantized"}) {
    size_t count = 0;
    for (const UnmatchedReport& tensor : *report.unmatched) {
      if (tensor.in != model || ++count > kMost) continue;
      lines->push_back("only in the " + model + " model: " + CleanText(tensor.name));
    }
    if (count > kMost) {
      lines->push_back(fmt::format("only in the {} model: {} more", model, count - kMost));
    }
  }
}

bool Filled(const Column& column, const std::vector<const LayerReport*>& layers) {
  return std::any_of(layers.begin(), layers.end(), [&](const LayerReport* layer) {
    return CellText(column, column.get(*layer)) != "-";
  });
}

// What was kept for a goal, and what each layer of it bought.
void AddAuto(const AutoReport& automatic, std::vector<std::string>* lines) {
  lines->push_back(fmt::format(
      "goal {} {}: {} with every layer quantized, {} with {} kept", automatic.goal,
      automatic.met ? "met" : "not met, the best that was found is written",
      NumberText6(automatic.plain), NumberText6(automatic.result), automatic.kept.size()));
  for (const KeptReport& kept : automatic.kept) {
    std::string line = fmt::format("  kept {}: {} -> {}", CleanText(kept.layer),
                                   NumberText6(kept.before), NumberText6(kept.after));
    if (kept.without) line += fmt::format("; {} without it", NumberText6(kept.without));
    lines->push_back(line);
  }
}

void AddDelayedStudy(const DelayedStudyReport& study, std::vector<std::string>* lines) {
  lines->push_back(
      fmt::format("delayed scaling with history {}, interval {}, alpha {}; best first:",
                  study.history.value_or(0), study.interval.value_or(0), NumberText6(study.alpha)));
  for (const DelayedRankReport& rule : study.ranking) {
    lines->push_back(fmt::format(
        "  {:<12} exceeded in {} of steps, {} of elements, by up to {} binades; overflow {}; SQNR "
        "{} dB, worst {}; clipped {}, worst {}",
        rule.rule, PercentText(rule.exceeded_step_rate), PercentText(rule.exceeded_rate),
        DecibelText(rule.overshoot_binades), PercentText(rule.overflow_rate),
        DecibelText(rule.mean_sqnr_db), DecibelText(rule.worst_sqnr_db),
        DecibelText(rule.clipped_mean_sqnr_db), DecibelText(rule.clipped_worst_sqnr_db)));
  }
}

}  // namespace

Measured MainSqnr(const LayerReport& layer) {
  for (const auto& operand : {&layer.output, &layer.activation, &layer.weight}) {
    if (*operand && (*operand)->sqnr_db) return (*operand)->sqnr_db;
  }
  return {};
}

std::string CountsLine(const QuantizedCounts& counts) {
  std::string caches;
  if (counts.caches > 0)
    caches = fmt::format(" and {} cache{}", counts.caches, counts.caches == 1 ? "" : "s");
  std::string weights;
  if (counts.weight_only > 0) {
    weights = counts.weight_only == counts.quantized
                  ? " (weight-only)"
                  : fmt::format(" ({} of them weight-only)", counts.weight_only);
  }
  std::string line =
      fmt::format("{} of {} layers{} quantized{}; {} of parameters, {} of multiply-adds",
                  counts.quantized, counts.layers, caches, weights,
                  PercentText(counts.coverage.parameters), PercentText(counts.coverage.macs));
  if (counts.bytes_before && counts.bytes_after) {
    line += fmt::format("; {}{} -> {}", counts.sizes_of, BytesText(counts.bytes_before),
                        BytesText(counts.bytes_after));
  }
  return line;
}

std::vector<std::string> SummaryLines(const Report& report) {
  std::vector<std::string> lines;
  lines.push_back(CountsLine(CountsOf(report)));
  for (const NetworkOutputReport& output : report.network.outputs) {
    std::string line = fmt::format("network output {}: {} dB, cosine {}", CleanText(output.name),
                                   DecibelText(output.sqnr_db), NumberText6(output.cosine));
    if (output.argmax_agreement) {
      line += ", argmax agreement " + PercentText(output.argmax_agreement);
    }
    lines.push_back(line);
  }
  if (const auto& perplexity = report.network.perplexity) {
    std::string line = fmt::format("perplexity {} -> {}", NumberText6(perplexity->original),
                                   NumberText6(perplexity->quantized));
    if (perplexity->loss_gap_percent) {
      line += fmt::format(", loss gap {:.3g} %", *perplexity->loss_gap_percent);
    }
    lines.push_back(line);
  }
  if (report.automatic) AddAuto(*report.automatic, &lines);
  if (report.delayed_study) AddDelayedStudy(*report.delayed_study, &lines);
  if (const std::string line = DataLine(report.run); !line.empty()) lines.push_back(line);
  AddUnmatched(report, &lines);
  if (report.run.synthetic) lines.push_back("warning: the data was made up: a smoke test only");
  for (const std::string& warning : report.run.warnings) {
    lines.push_back("warning: " + CleanText(warning));
  }
  return lines;
}

std::vector<const Column*> UsualColumns(const std::vector<const LayerReport*>& layers,
                                        const WriteOptions& options) {
  if (!options.columns.empty()) return options.columns;
  std::vector<const Column*> columns;
  for (const char* name :
       {"layer", "op", "output_sqnr", "accumulated_sqnr", "weight_sqnr", "activation_sqnr",
        "activation_zero_rate", "activation_exceeded_rate", "reason"}) {
    const Column& column = GetColumn(name);
    if (column.name == "layer" || Filled(column, layers)) columns.push_back(&column);
  }
  return columns;
}

std::vector<const LayerReport*> UsualLayers(const Report& report, const WriteOptions& options) {
  if (options.sorted) return SelectLayers(report.layers, options.selection);
  Selection all = options.selection;
  all.top = 0;
  std::vector<const LayerReport*> layers = SelectLayers(report.layers, all);
  std::stable_sort(layers.begin(), layers.end(), [](const LayerReport* a, const LayerReport* b) {
    const Measured x = MainSqnr(*a);
    const Measured y = MainSqnr(*b);
    if (!x || !y) return x.has_value() && !y.has_value();
    return *x < *y;
  });
  const size_t top = options.selection.top;
  if (top > 0 && layers.size() > top) layers.resize(top);
  return layers;
}

}  // namespace hif8

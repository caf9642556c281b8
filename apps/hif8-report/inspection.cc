#include "apps/hif8-report/inspection.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "apps/common/plan_summary.h"
#include "lib/core/interrupt.h"
#include "lib/numeric/error_metrics.h"
#include "lib/numeric/exponent_histogram.h"
#include "lib/numeric/tensor_stats.h"
#include "lib/report/text_util.h"

namespace hif8 {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kBarCells = 40;

void Measure(const StoredModel& model, size_t index, const FormatRegistry& formats,
             InspectedTensor* tensor) {
  TensorPieces pieces(model, index, formats);
  TensorStats stats;
  ErrorMetrics sums;  // of the tensor with itself: sums in a fixed order
  const int64_t step = pieces.rows_per_piece();
  for (int64_t begin = 0; begin < pieces.rows(); begin += step) {
    CheckInterrupt();
    const TensorView& values = pieces.Read(begin, std::min(pieces.rows(), begin + step)).values;
    if (values.size() == 0) continue;
    std::vector<float> buffer;
    const std::span<const float> floats = AsFloats(values, &buffer);
    sums.Add(floats, floats);
    stats.Add(values);
  }
  tensor->measured = true;
  tensor->amax = stats.amax();
  tensor->zeros = stats.zeros();
  tensor->non_finite = stats.nan_count() + stats.inf_count();
  if (sums.count() > 0) {
    tensor->rms = std::sqrt(sums.SignalEnergy() / static_cast<double>(sums.count()));
  }
  for (const ExponentCount& entry : stats.Exponents())
    tensor->exponents[entry.exponent] = entry.count;
}

std::string Bar(double share, bool unicode) {
  const auto cells = static_cast<size_t>(std::lround(share * kBarCells));
  std::string bar;
  for (size_t i = 0; i < cells; ++i) bar += unicode ? "█" : "#";
  return bar;
}

// One line an exponent; without a format's bits when there are no bands.
std::string Histogram(const ExponentCounts& counts, const std::vector<PrecisionBand>& bands,
                      bool unicode) {
  uint64_t total = 0;
  uint64_t most = 0;
  for (const auto& [exponent, count] : counts) {
    total += count;
    most = std::max(most, count);
  }
  std::string text;
  for (const auto& [exponent, count] : counts) {
    const std::string share = PercentText(static_cast<double>(count) / static_cast<double>(total));
    std::string line = fmt::format("{:>5}  {:>10}  ", exponent, share);
    if (!bands.empty()) {
      const int bits = BitsAt(bands, exponent);
      line += bits > 0 ? fmt::format("{} bits  ", bits) : std::string("-       ");
    }
    line += Bar(static_cast<double>(count) / static_cast<double>(most), unicode);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text.empty() ? "  (no value but zero)\n" : text;
}

std::string TypeText(const StoredTensor& tensor) {
  std::string text(DTypeName(tensor.dtype));
  if (!tensor.format.empty() && tensor.format != "fp8_e4m3" && tensor.format != "fp8_e5m2") {
    text += " " + tensor.format;
  }
  return text;
}

using Row = std::array<std::string, 8>;

std::string PlanText(const PlannedTensor& plan) {
  if (!plan.reason.empty()) return "kept: " + plan.reason;
  return plan.format + " " + plan.granularity + " " + plan.scale_rule;
}

Row MakeRow(const InspectedTensor& tensor) {
  Row row{CleanText(tensor.stored.name),
          TypeText(tensor.stored),
          ShapeText(tensor.stored.shape),
          "-",
          "-",
          "-",
          "-",
          tensor.plan ? CleanText(PlanText(*tensor.plan)) : "-"};
  if (!tensor.measured) return row;
  row[3] = NumberText6(tensor.amax);
  row[4] = NumberText6(tensor.rms);
  row[5] = std::to_string(tensor.zeros);
  row[6] = std::to_string(tensor.non_finite);
  return row;
}

std::string Table(const std::vector<Row>& rows, size_t name_width, bool unicode) {
  Row::size_type columns = rows.front().size();
  std::vector<size_t> widths(columns);
  for (const Row& row : rows) {
    for (size_t c = 0; c < columns; ++c) widths[c] = std::max(widths[c], DisplayWidth(row[c]));
  }
  if (name_width > 0) widths[0] = std::min(widths[0], name_width);
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (size_t c = 0; c < columns; ++c) {
      const std::string cell = c == 0 ? ShortenMiddle(row[c], widths[c], unicode) : row[c];
      const std::string padding(widths[c] - DisplayWidth(cell), ' ');
      const bool right = c >= 3 && c <= 6;
      line += (c == 0 ? "" : "  ") + (right ? padding + cell : cell + padding);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string PlanLines(const Inspection& inspection) {
  if (!inspection.no_plan.empty()) return "no plan: " + CleanText(inspection.no_plan) + "\n";
  const std::string caveat = inspection.caveat.empty() ? "" : CleanText(inspection.caveat) + "\n";
  return "recipe " + CleanText(inspection.recipe) + ": " + PlanLine(inspection.plan) + "\n" +
         caveat;
}

Json PlanJson(const std::optional<PlannedTensor>& plan) {
  if (!plan) return nullptr;
  return {{"status", plan->reason.empty() ? "quantized" : "kept"},
          {"reason", plan->reason},
          {"format", plan->format},
          {"granularity", plan->granularity},
          {"scale_rule", plan->scale_rule}};
}

Json PlanJson(const Inspection& inspection) {
  if (!inspection.no_plan.empty()) return {{"missing", inspection.no_plan}};
  Json json = PlanSummaryJson(inspection.plan);
  json["caveat"] = inspection.caveat;
  return json;
}

Json CountsJson(const ExponentCounts& counts) {
  Json json = Json::object();
  for (const auto& [exponent, count] : counts) json[std::to_string(exponent)] = count;
  return json;
}

}  // namespace

Inspection InspectTensors(const StoredModel& model, const FormatRegistry& formats, double target,
                          LogSink& log) {
  Inspection result;
  result.path = model.path().string();
  result.kind = model.kind();
  result.file_bytes = model.file_bytes();
  result.target = target;
  uint64_t total = 0;
  uint64_t done = 0;
  for (const StoredTensor& tensor : model.tensors()) total += tensor.bytes;
  for (size_t i = 0; i < model.tensors().size(); ++i) {
    InspectedTensor tensor;
    tensor.stored = model.tensors()[i];
    if (tensor.stored.HasValues()) {
      Measure(model, i, formats, &tensor);
      result.parameters += tensor.stored.size();
    }
    const int shift = tensor.amax > 0 ? std::ilogb(target) - std::ilogb(tensor.amax) : 0;
    for (const auto& [exponent, count] : tensor.exponents) {
      result.exponents[exponent] += count;
      result.scaled[exponent + shift] += count;
    }
    result.tensors.push_back(std::move(tensor));
    log.Progress("reading tensors", done += result.tensors.back().stored.bytes, total);
  }
  return result;
}

std::string InspectionText(const Inspection& inspection, const NumberFormat& format, bool unicode,
                           size_t width) {
  std::vector<Row> rows = {
      {"tensor", "type", "shape", "amax", "rms", "zeros", "not finite", inspection.recipe}};
  for (const InspectedTensor& tensor : inspection.tensors) rows.push_back(MakeRow(tensor));
  std::string text =
      fmt::format("{}: {}, {}, {} tensors, {} parameters\n\n", CleanText(inspection.path),
                  inspection.kind, BytesText(static_cast<int64_t>(inspection.file_bytes)),
                  inspection.tensors.size(), inspection.parameters);
  // Names give way on a narrow terminal.
  text += Table(rows, width > 0 ? std::max<size_t>(24, width / 3) : 0, unicode);
  text += "\nExponents, floor(log2 |x|), of all values but zero:\n" +
          Histogram(inspection.exponents, {}, unicode);
  text += fmt::format(
      "\nThe same with each tensor scaled to a largest magnitude of {:g}, and the significant bits "
      "that {} has there:\n",
      inspection.target, format.name());
  text += Histogram(inspection.scaled, PrecisionBands(format), unicode);
  return text + "\n" + PlanLines(inspection);
}

std::string InspectionJson(const Inspection& inspection) {
  Json tensors = Json::array();
  for (const InspectedTensor& tensor : inspection.tensors) {
    const StoredTensor& stored = tensor.stored;
    Json entry = {{"name", stored.name},          {"dtype", DTypeName(stored.dtype)},
                  {"format", stored.format},      {"shape", stored.shape},
                  {"bytes", stored.bytes},        {"unknown", stored.unknown},
                  {"plan", PlanJson(tensor.plan)}};
    for (const char* key : {"amax", "rms", "zeros", "non_finite", "exponents"})
      entry[key] = nullptr;
    if (tensor.measured) {
      entry["amax"] = tensor.amax;
      entry["rms"] = tensor.rms;
      entry["zeros"] = tensor.zeros;
      entry["non_finite"] = tensor.non_finite;
      entry["exponents"] = CountsJson(tensor.exponents);
    }
    tensors.push_back(std::move(entry));
  }
  const Json document = {{"schema", "hif8.inspect/2"},
                         {"path", inspection.path},
                         {"kind", inspection.kind},
                         {"bytes", inspection.file_bytes},
                         {"parameters", inspection.parameters},
                         {"recipe", inspection.recipe},
                         {"plan", PlanJson(inspection)},
                         {"target", inspection.target},
                         {"exponents", CountsJson(inspection.exponents)},
                         {"scaled_exponents", CountsJson(inspection.scaled)},
                         {"tensors", std::move(tensors)}};
  return CleanJson(document.dump(2, ' ', false, Json::error_handler_t::replace)) + "\n";
}

}  // namespace hif8

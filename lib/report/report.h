// A report as plain data: what a run did to every layer and what it cost. docs/report.md describes
// each field; report.json is its JSON form, schema "hif8.report/1".
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/numeric/error_metrics.h"
#include "lib/numeric/exponent_histogram.h"

namespace hif8 {

inline constexpr std::string_view kReportSchema = "hif8.report/1";

// A number that may not have been measured. Infinity is a value (an exact result), NaN is not: use
// ToMeasured where a NaN means that there was nothing to measure.
using Measured = std::optional<double>;
Measured ToMeasured(double value);

// The elements with exponents that a format keeps with so many significant bits.
struct BandShare {
  int bits = 0;
  Measured share;
};

// Describes how the magnitudes of an operand are spread. Shares are of all finite elements.
struct ExponentReport {
  int first = 0;                // counts[i] elements have floor(log2 |x|) = first + i
  std::vector<int64_t> counts;  // nonzero elements
  int64_t zeros = 0;
  // Hold shares by the operand format's bits; with `zeros`, `below` and `above` they add up to all.
  std::vector<BandShare> bands;  // most bits first
  Measured below;                // smaller than the binade of the smallest positive value
  Measured above;                // greater than the binade of the largest finite value
};

// One operand of a layer, or what the layer makes of it. Absent (not empty) where a layer has none.
struct OperandReport {
  Measured sqnr_db;                                                 // infinite when exact
  Measured zero_rate, zeroed_rate, saturation_rate, exceeded_rate;  // shares, 0 to 1
  Measured cosine;
  Measured max_abs_error;
  Measured amax;
  Measured scale;   // per tensor only
  Measured target;  // magnitude that the reference was mapped to
  std::string scale_rule, format, granularity;
  std::optional<int64_t> samples;  // calibration samples that were seen
  std::optional<int64_t> bytes_before, bytes_after;
  std::vector<std::string> notes;
  // Describe x, and x / scale where the scales are known.
  std::optional<ExponentReport> exponents_before, exponents_after;
};

struct LayerReport {
  std::string name;
  std::string op;
  bool quantized = false;           // "status": "quantized" or "kept"
  std::string reason;               // why it was kept
  std::optional<bool> weight_only;  // quantized, its input stays as it is; nothing: not known
  std::optional<OperandReport> weight, activation;
  std::optional<OperandReport> output;       // quantized against original, same incoming data
  std::optional<OperandReport> accumulated;  // in the quantized network, its own incoming data
};

// The cached keys and values of one attention layer.
struct KvCacheReport {
  std::string name;
  std::optional<OperandReport> k, v;
};

// One operand under one number format, beside the others (--compare).
struct ComparisonReport {
  std::string layer;
  std::string operand;  // "weight", "activation", "k", "v"
  std::string format;
  Measured sqnr_db;
  Measured zero_rate, zeroed_rate;  // shares, 0 to 1
};

// A number format that operands of the report have.
struct FormatReport {
  std::string name;
  std::vector<PrecisionBand> bands;  // rising exponents
};

// One rule of delayed scaling over the steps of one layer's input (--delayed-study). Steps with a
// value that is not finite are counted and left out of everything else.
struct DelayedRuleReport {
  std::string layer;
  std::string rule;
  std::optional<int64_t> steps, non_finite_steps, elements;
  std::optional<int64_t> exceeded_steps, exceeded_elements;      // beyond the estimate
  std::optional<int64_t> overflowed_steps, overflowed_elements;  // beyond the format
  Measured overshoot_binades;                                    // largest log2(amax / estimate)
  Measured mean_sqnr_db, worst_sqnr_db;                          // of the steps
  Measured clipped_mean_sqnr_db, clipped_worst_sqnr_db;          // clipped to the estimate first
};

// A rule over all layers.
struct DelayedRankReport {
  std::string rule;
  Measured exceeded_step_rate, exceeded_rate, overflow_rate;  // shares of steps and elements
  Measured overshoot_binades;
  Measured mean_sqnr_db, worst_sqnr_db;  // mean of the layers' means, worst of the worst
  Measured clipped_mean_sqnr_db, clipped_worst_sqnr_db;
};

// The amax of the input that some layers read at its steps, and what each rule had estimated. Of
// many steps each entry stands for `stride` of them: that with the largest amax.
struct DelayedTraceReport {
  std::vector<std::string> layers;
  std::optional<int64_t> stride;
  std::vector<int64_t> steps;                          // counted from 0
  std::vector<Measured> amax;                          // absent: values that are not finite
  std::vector<Measured> most_recent, exp_smooth, max;  // `current` has amax itself
};

struct DelayedStudyReport {
  std::optional<int64_t> history, interval;
  Measured alpha;
  std::vector<DelayedRankReport> ranking;  // best first
  std::vector<DelayedRuleReport> rules;    // by layer in the model's order
  std::vector<DelayedTraceReport> traces;  // likewise
};

// Tells what a layer does alone (--auto).
struct SensitivityReport {
  std::string layer;
  Measured alone;                  // the goal's metric when only this layer is quantized
  std::optional<int64_t> samples;  // that it was measured on
};

// Tells what a layer that was kept bought (--auto).
struct KeptReport {
  std::string layer;
  Measured before;   // the goal's metric with the layers above it in the list kept
  Measured after;    // with this one too
  Measured without;  // with all of the list but this one
};

// Tells how a goal was sought (--auto).
struct AutoReport {
  std::string goal;
  std::string metric;
  bool met = false;
  Measured plain;                          // the goal's metric with nothing kept
  Measured result;                         // of the written network
  std::vector<SensitivityReport> ranking;  // most harmful first
  std::vector<KeptReport> kept;            // most harmful first
};

struct NetworkOutputReport {
  std::string name;
  Measured sqnr_db, cosine;
  Measured argmax_agreement;  // share of positions with the same largest element of the last axis
};

struct PerplexityReport {
  Measured original, quantized;
  Measured loss_gap_percent;
};

struct NetworkReport {
  std::vector<NetworkOutputReport> outputs;
  std::optional<PerplexityReport> perplexity;
};

// Shares from 0 to 1.
struct CoverageReport {
  Measured parameters;  // quantized elements of all floating-point weights
  Measured macs;        // quantized multiply-adds of all
};

struct ModelReport {
  std::string path;
  std::string kind;                                  // "onnx", "safetensors"
  std::string fingerprint;                           // hash over the tensors' bytes
  std::optional<int64_t> bytes_before, bytes_after;  // of the files
};

struct RecipeReport {
  std::string name;      // built-in name or file
  std::string resolved;  // the complete recipe, YAML
};

struct DataReport {
  std::string description;  // what was given on the command line
  std::optional<int64_t> samples;
  bool is_calibration_data = false;  // evaluation only: the data that scales were chosen on
};

// A tensor of one model that the other has not, after a comparison of files.
struct UnmatchedReport {
  std::string name;
  std::string in;  // "original" or "quantized": the model that has it
};

// All that may differ between two runs with the same result.
struct RunReport {
  std::string version, command, host;
  std::string time;                         // ISO 8601, UTC
  std::map<std::string, double> durations;  // seconds by stage
  std::optional<DataReport> data;           // calibration
  std::optional<DataReport> evaluation;
  bool synthetic = false;  // the data was made up
  std::vector<std::string> warnings;
};

struct Report {
  ModelReport model;
  std::vector<LayerReport> layers;  // in the model's order
  std::vector<KvCacheReport> kv_cache;
  std::vector<ComparisonReport> comparisons;
  std::vector<FormatReport> formats;
  std::optional<std::vector<UnmatchedReport>> unmatched;  // only of a comparison of files
  NetworkReport network;
  std::optional<AutoReport> automatic;  // "auto"
  std::optional<DelayedStudyReport> delayed_study;
  CoverageReport coverage;
  RecipeReport recipe;
  RunReport run;
};

// The metrics' part of an operand; the rest of `operand` stays.
void SetMetrics(const ErrorMetrics& metrics, OperandReport* operand);

// Reports a histogram in the bands of a format.
ExponentReport ReportExponents(const ExponentHistogram& histogram,
                               std::span<const PrecisionBand> bands);
// Both histograms of an operand in its format's bands; one that nothing was counted in is absent.
void SetExponents(const ScaledExponents& exponents, const NumberFormat& format,
                  OperandReport* operand);
FormatReport ReportFormat(const NumberFormat& format);

// Two-space indented or, `compact`, in one line; a line break at the end. Text that is not UTF-8 is
// repaired.
std::string ReportToJson(const Report& report, bool compact = false);
// Throws kModel with "source#/json/pointer" for text that is no report or breaks its rules.
Report ReportFromJson(std::string_view text, const std::string& source);
// `path`: report.json or a folder that holds one. Throws as ReportFromJson, or with a hint when
// there is none.
Report ReadReport(const std::filesystem::path& path);

}  // namespace hif8

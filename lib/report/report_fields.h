// The fields of a report with their JSON names, once for writing and reading: Fields(object, visit)
// calls visit(name, member) for each member in the order of the file.
#pragma once

#include <concepts>
#include <type_traits>

#include "lib/report/report.h"

namespace hif8 {

template <typename T, typename V>
requires std::same_as<std::remove_const_t<T>, PrecisionBand>
void Fields(T& o, V&& visit) {
  visit("bits", o.bits);
  visit("first", o.first);
  visit("last", o.last);
}

template <typename T, typename V>
requires std::same_as<std::remove_const_t<T>, FormatReport>
void Fields(T& o, V&& visit) {
  visit("name", o.name);
  visit("bands", o.bands);
}

template <typename T, typename V>
requires std::same_as<std::remove_const_t<T>, BandShare>
void Fields(T& o, V&& visit) {
  visit("bits", o.bits);
  visit("share", o.share);
}

template <typename T, typename V>
requires std::same_as<std::remove_const_t<T>, ExponentReport>
void Fields(T& o, V&& visit) {
  visit("first", o.first);
  visit("counts", o.counts);
  visit("zeros", o.zeros);
  visit("bands", o.bands);
  visit("below", o.below);
  visit("above", o.above);
}

template <typename T, typename V>
requires std::same_as<std::remove_const_t<T>, OperandReport>
void Fields(T& o, V&& visit) {
  visit("sqnr_db", o.sqnr_db);
  visit("zero_rate", o.zero_rate);
  visit("zeroed_rate", o.zeroed_rate);
  visit("saturation_rate", o.saturation_rate);
  visit("exceeded_rate", o.exceeded_rate);
  visit("cosine", o.cosine);
  visit("max_abs_error", o.max_abs_error);
  visit("amax", o.amax);
  visit("scale", o.scale);
  visit("scale_rule", o.scale_rule);
  visit("target", o.target);
  visit("format", o.format);
  visit("granularity", o.granularity);
  visit("samples", o.samples);
  visit("bytes_before", o.bytes_before);
  visit("bytes_after", o.bytes_after);
  visit("notes", o.notes);
  visit("exponents_before", o.exponents_before);
  visit("exponents_after", o.exponents_after);
}

template <typename T, typename V>
requires std::same_as<std::remove_const_t<T>, LayerReport>
void Fields(T& o, V&& visit) {
  visit("name", o.name);
  visit("op", o.op);
  visit("status", o.quantized);
  visit("reason", o.reason);
  visit("weight_only", o.weight_only);
  visit("weight", o.weight);
  visit("activation", o.activation);
  visit("output", o.output);
  visit("accumulated", o.accumulated);
}

template <typename T, typename V>
requires std::same_as<std::remove_const_t<T>, KvCacheReport>
void Fields(T& o, V&& visit) {
  visit("name", o.name);
  visit("k", o.k);
  visit("v", o.v);
}

template <typename T, typename V>
requires std::same_as<std::remove_const_t<T>, ComparisonReport>
void Fields(T& o, V&& visit) {
  visit("layer", o.layer);
  visit("operand", o.operand);
  visit("format", o.format);
  visit("sqnr_db", o.sqnr_db);
  visit("zero_rate", o.zero_rate);
  visit("zeroed_rate", o.zeroed_rate);
}

template <typename T, typename V>
requires std::same_as<std::remove_const_t<T>, UnmatchedReport>
void Fields(T& o, V&& visit) {
  visit("name", o.name);
  visit("in", o.in);
}

template <typename T, typename V>
requires std::same_as<std::remove_const_t<T>, DelayedRuleReport>
void Fields(T& o, V&& visit) {
  visit("layer", o.layer);
  visit("rule", o.rule);
  visit("steps", o.steps);
  visit("non_finite_steps", o.non_finite_steps);
  visit("elements", o.elements);
  visit("exceeded_steps", o.exceeded_steps);
  visit("exceeded_elements", o.exceeded_elements);
  visit("overflowed_steps", o.overflowed_steps);
  visit("overflowed_elements", o.overflowed_elements);
  visit("overshoot_binades", o.overshoot_binades);
  visit("mean_sqnr_db", o.mean_sqnr_db);
  visit("worst_sqnr_db", o.worst_sqnr_db);
  visit("clipped_mean_sqnr_db", o.clipped_mean_sqnr_db);
  visit("clipped_worst_sqnr_db", o.clipped_worst_sqnr_db);
}

template <typename T, typename V>
requires std::same_as<std::remove_const_t<T>, DelayedRankReport>
void Fields(T& o, V&& visit) {
  visit("rule", o.rule);
  visit("exceeded_step_rate", o.exceeded_step_rate);
  visit("exceeded_rate", o.exceeded_rate);
  visit("overflow_rate", o.overflow_rate);
  visit("overshoot_binades", o.overshoot_binades);
  visit("mean_sqnr_db", o.mean_sqnr_db);
  visit("worst_sqnr_db", o.worst_sqnr_db);
  visit("clipped_mean_sqnr_db", o.clipped_mean_sqnr_db);
  visit("clipped_worst_sqnr_db", o.clipped_worst_sqnr_db);
}

template <typename T, typename V>
requires std::same_as<std::remove_const_t<T>, DelayedTraceReport>
void Fields(T& o, V&& visit) {
  visit("layers", o.layers);
  visit("stride", o.stride);
  visit("steps", o.steps);
  visit("amax", o.amax);
  visit("most_recent", o.most_recent);
  visit("exp_smooth", o.exp_smooth);
  visit("max", o.max);
}

template <typename T, typename V>
requires std::same_as<std::remove_const_t<T>, DelayedStudyReport>
void Fields(T& o, V&& visit) {
  visit("history", o.history);
  visit("interval", o.interval);
  visit("alpha", o.alpha);
  visit("ranking", o.ranking);
  visit("rules", o.rules);
  visit("traces", o.traces);
}

template <typename T, typename V>
requires std::same_as<std::remove_const_t<T>, SensitivityReport>
void Fields(T& o, V&& visit) {
  visit("layer", o.layer);
  visit("alone", o.alone);
  visit("samples", o.samples);
}

template <typename T, typename V>
requires std::same_as<std::remove_const_t<T>, KeptReport>
void Fields(T& o, V&& visit) {
  visit("layer", o.layer);
  visit("before", o.before);
  visit("after", o.after);
  visit("without", o.without);
}

template <typename T, typename V>
requires std::same_as<std::remove_const_t<T>, AutoReport>
void Fields(T& o, V&& visit) {
  visit("goal", o.goal);
  visit("metric", o.metric);
  visit("met", o.met);
  visit("plain", o.plain);
  visit("result", o.result);
  visit("ranking", o.ranking);
  visit("kept", o.kept);
}

template <typename T, typename V>
requires std::same_as<std::remove_const_t<T>, NetworkOutputReport>
void Fields(T& o, V&& visit) {
  visit("name", o.name);
  visit("sqnr_db", o.sqnr_db);
  visit("cosine", o.cosine);
  visit("argmax_agreement", o.argmax_agreement);
}

template <typename T, typename V>
requires std::same_as<std::remove_const_t<T>, PerplexityReport>
void Fields(T& o, V&& visit) {
  visit("original", o.original);
  visit("quantized", o.quantized);
  visit("loss_gap_percent", o.loss_gap_percent);
}

template <typename T, typename V>
requires std::same_as<std::remove_const_t<T>, NetworkReport>
void Fields(T& o, V&& visit) {
  visit("outputs", o.outputs);
  visit("perplexity", o.perplexity);
}

template <typename T, typename V>
requires std::same_as<std::remove_const_t<T>, CoverageReport>
void Fields(T& o, V&& visit) {
  visit("parameters", o.parameters);
  visit("macs", o.macs);
}

template <typename T, typename V>
requires std::same_as<std::remove_const_t<T>, ModelReport>
void Fields(T& o, V&& visit) {
  visit("path", o.path);
  visit("kind", o.kind);
  visit("fingerprint", o.fingerprint);
  visit("bytes_before", o.bytes_before);
  visit("bytes_after", o.bytes_after);
}

template <typename T, typename V>
requires std::same_as<std::remove_const_t<T>, RecipeReport>
void Fields(T& o, V&& visit) {
  visit("name", o.name);
  visit("resolved", o.resolved);
}

template <typename T, typename V>
requires std::same_as<std::remove_const_t<T>, DataReport>
void Fields(T& o, V&& visit) {
  visit("description", o.description);
  visit("samples", o.samples);
  visit("is_calibration_data", o.is_calibration_data);
}

template <typename T, typename V>
requires std::same_as<std::remove_const_t<T>, RunReport>
void Fields(T& o, V&& visit) {
  visit("version", o.version);
  visit("command", o.command);
  visit("host", o.host);
  visit("time", o.time);
  visit("durations", o.durations);
  visit("data", o.data);
  visit("evaluation", o.evaluation);
  visit("synthetic", o.synthetic);
  visit("warnings", o.warnings);
}

template <typename T, typename V>
requires std::same_as<std::remove_const_t<T>, Report>
void Fields(T& o, V&& visit) {
  visit("model", o.model);
  visit("layers", o.layers);
  visit("kv_cache", o.kv_cache);
  visit("comparisons", o.comparisons);
  visit("formats", o.formats);
  visit("unmatched", o.unmatched);
  visit("network", o.network);
  visit("auto", o.automatic);
  visit("delayed_study", o.delayed_study);
  visit("coverage", o.coverage);
  visit("recipe", o.recipe);
  visit("run", o.run);
}

}  // namespace hif8

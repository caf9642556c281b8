// A report with every kind of value: measured, exact, not measured, absent.
#pragma once

#include <limits>

#include "lib/report/report.h"

namespace hif8::testing {

inline Report SampleReport() {
  const double inf = std::numeric_limits<double>::infinity();
  Report r;
  r.model = {"m.onnx", "onnx", "0123456789abcdef0123456789abcdef", 8100000, 2100000};
  LayerReport conv;
  conv.name = "conv1";
  conv.op = "Conv";
  conv.quantized = true;
  conv.weight = OperandReport{};
  conv.weight->sqnr_db = 31.5;
  conv.weight->zero_rate = 0.0001;
  conv.weight->zeroed_rate = 0;
  conv.weight->scale_rule = "max";
  conv.weight->format = "hif8";
  conv.weight->granularity = "channel";
  conv.weight->target = 16;
  conv.weight->bytes_before = 4000;
  conv.weight->bytes_after = 1100;
  conv.weight->notes = {"per tensor: \"no\" channel axis", "second"};
  conv.weight->exponents_before =
      ExponentReport{-9, {1, 0, 4, 3}, 2, {{4, 0}, {3, 0.7}, {2, 0.1}, {1, 0}}, 0, 0};
  conv.weight->exponents_after =
      ExponentReport{1, {1, 0, 4, 3}, 2, {{4, 0.1}, {3, 0.7}, {2, 0}, {1, 0}}, 0, 0};
  conv.activation = OperandReport{};
  conv.activation->sqnr_db = 33.0;
  conv.activation->scale = 0.1;
  conv.activation->amax = 1.6;
  conv.activation->samples = 8;
  conv.activation->saturation_rate = 0;
  conv.activation->exceeded_rate = 0.125;
  conv.output = OperandReport{};
  conv.output->sqnr_db = 18.25;
  conv.output->cosine = 0.99;
  conv.accumulated = OperandReport{};
  conv.accumulated->sqnr_db = 17.125;

  LayerReport exact;
  exact.name = "model.layers.0.mlp,\"down\"|proj";
  exact.op = "MatMul";
  exact.quantized = true;
  exact.weight = OperandReport{};
  exact.weight->sqnr_db = inf;
  exact.output = OperandReport{};
  exact.output->sqnr_db = 27.123;
  exact.accumulated = OperandReport{};  // not measured

  LayerReport kept;
  kept.name = "head";
  kept.op = "Gemm";
  kept.reason = "matches keep '^head'";
  r.layers = {exact, conv, kept};

  KvCacheReport kv;
  kv.name = "model.layers.0.self_attn";
  kv.k = OperandReport{};
  kv.k->sqnr_db = 30;
  kv.v = OperandReport{};
  kv.v->sqnr_db = 25;
  r.kv_cache = {kv};
  r.formats = {
      {"hif8", {{1, -22, -16}, {2, -15, -8}, {3, -7, -4}, {4, -3, 3}, {3, 4, 7}, {2, 8, 15}}}};
  r.automatic = AutoReport{"network_sqnr>=14",
                           "network_sqnr",
                           true,
                           12.5,
                           14.2,
                           {{"head", 13.0, 24}, {"conv1", inf, 8}},
                           {{"head", 12.5, 14.2, std::nullopt}}};
  r.delayed_study = DelayedStudyReport{
      64,
      10,
      0.1,
      {{"max", 0.125, 0.001, 0, 2.5, 31.5, 28.25, 31.25, std::nullopt}},
      {{"conv1", "max", 8, 1, 700, 1, 3, 0, 0, inf, 31.5, 28.25, 31.25, std::nullopt}},
      {{{"conv1", "head"}, 2, {1, 2}, {0.5, std::nullopt}, {0.5, 0.5}, {0.5, 0.25}, {0.5, 0.5}}}};
  r.network.outputs = {{"out", 14.2, 0.98, 0.991}};
  r.network.perplexity = PerplexityReport{12.0, 12.5, 1.64};
  r.coverage = {0.97, 0.991};
  r.recipe = {"inference", "version: 1\n"};
  r.run.version = "0.1.0";
  r.run.command = "hif8-calibrate m.onnx --data calib/ -o out/";
  r.run.host = "box";
  r.run.time = "2026-01-02T03:04:05Z";
  r.run.durations = {{"collect", 1.5}, {"solve", 0.25}};
  r.run.data = DataReport{"calib/", 8, false};
  r.run.evaluation = DataReport{"calib/", 8, true};
  r.run.warnings = {"one layer was never reached"};
  return r;
}

}  // namespace hif8::testing

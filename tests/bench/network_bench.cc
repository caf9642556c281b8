// Times whole networks, as ratios within one run; JSON on stdout.
//   network_bench onnx MODEL QUANTIZED DATA ROUNDS [THREADS]   one network and its quantized file
//   network_bench lm CHECKPOINT IDS MATMUL   one pass over a language model; MATMUL is an ONNX file
//                                            with one product of its size
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>

#include "formats/builtin.h"
#include "lib/core/parallel.h"
#include "lib/model/onnx/onnx_functions.h"
#include "lib/model/onnx/onnx_graphs.h"
#include "lib/model/onnx/onnx_model.h"
#include "lib/runtime/checkpoint_source.h"
#include "lib/runtime/dataset.h"
#include "lib/runtime/ort_api.h"
#include "lib/runtime/passes.h"
#include "tests/bench/bench_util.h"

namespace hif8 {
namespace {

// Everything read beforehand: what is timed is what the networks do.
class InMemory : public Dataset {
 public:
  explicit InMemory(Dataset& data) : samples_(data.samples()) {
    for (size_t i = 0; i < data.runs(); ++i) runs_.push_back(data.Read(i));
  }
  size_t runs() const override { return runs_.size(); }
  uint64_t samples() const override { return samples_; }
  bool synthetic() const override { return false; }
  DataRun Read(size_t run) override { return runs_[run]; }

 private:
  std::vector<DataRun> runs_;
  uint64_t samples_;
};

// ONNX Runtime as it comes, only with the same number of threads.
class PlainEngine {
 public:
  explicit PlainEngine(const std::filesystem::path& file) : file_(file) {}

  void Open() {
    Ort::SessionOptions options;
    options.SetIntraOpNumThreads(Threads());
    session_ = Ort::Session(env_, file_.c_str(), options);
  }
  void Run(const NamedTensors& tensors) {
    std::vector<const char*> inputs;
    std::vector<const char*> outputs;
    std::vector<Ort::Value> values;
    const std::vector<std::string> input_names = InputNames(session_);
    const std::vector<std::string> output_names = OutputNames(session_);
    inputs.reserve(input_names.size());
    values.reserve(input_names.size());
    outputs.reserve(output_names.size());
    for (const std::string& name : input_names) {
      const TensorView& view = tensors.at(name).view;
      inputs.push_back(name.c_str());
      values.push_back(Ort::Value::CreateTensor(memory_, const_cast<std::byte*>(view.data),
                                                view.bytes(), view.shape.data(), view.shape.size(),
                                                ToOrt(view.dtype)));
    }
    for (const std::string& name : output_names) outputs.push_back(name.c_str());
    session_.Run(Ort::RunOptions(), inputs.data(), values.data(), values.size(), outputs.data(),
                 outputs.size());
  }

 private:
  std::filesystem::path file_;
  Ort::Env env_{ORT_LOGGING_LEVEL_FATAL, "plain"};
  Ort::MemoryInfo memory_ = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
  Ort::Session session_{nullptr};
};

RunnableGraph FileGraph(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  RunnableGraph graph;
  graph.model.assign(std::istreambuf_iterator<char>(in), {});
  graph.data_dir = file.parent_path();
  return graph;
}

nlohmann::json BenchOnnx(const std::filesystem::path& file, const std::filesystem::path& written,
                         const std::string& folder, int rounds) {
  LogSink& log = NullLog();
  const std::unique_ptr<OnnxModel> model = OnnxModel::Load(file, log);
  const std::unique_ptr<Dataset> read = OpenDataset({.source = folder}, model->inputs(), log);
  InMemory data(*read);
  std::vector<int> all(model->activations().size());
  std::iota(all.begin(), all.end(), 0);
  const RunnableGraph observed = BuildObservedGraph(*model, all);

  PlainEngine plain(file);
  const auto run_all = [&](const auto& run) {
    for (size_t i = 0; i < data.runs(); ++i) run(data.Read(i).inputs);
  };
  const std::string domain = FunctionDomain("hif8");
  const NativeOperator native{domain, std::string(kQuantizeDequantizeFunction),
                              &BuiltinFormats().Get("hif8")};
  Session original(FileGraph(file), {});
  Session quantized(FileGraph(written), {.operators = {native}});
  std::vector<Contender> contenders = {
      {"plain_run",
       [&] {
         plain.Open();
         run_all([&](const NamedTensors& inputs) { plain.Run(inputs); });
       }},
      {"calibration", [&] { CollectStats(observed, data, all.size(), "", log); }},
      {"original",
       [&] { run_all([&](const NamedTensors& inputs) { Keep(original.Run(inputs).data()); }); }},
      {"quantized",
       [&] { run_all([&](const NamedTensors& inputs) { Keep(quantized.Run(inputs).data()); }); }}};
  RunInTurns(contenders, rounds, Threads() == 1 ? Clock::kThread : Clock::kWall,
             std::chrono::milliseconds(20));
  nlohmann::json out;
  for (const Contender& c : contenders) out[c.name + "_seconds"] = c.seconds;
  out["samples"] = data.samples();
  out["threads"] = Threads();
  out["calibration_to_plain_run"] = contenders[1].seconds / contenders[0].seconds;
  out["quantized_to_original"] = contenders[3].seconds / contenders[2].seconds;
  return out;
}

// Products of weights and of attention, per token of a sequence of `length`, causal or not: the
// whole square is computed.
double FlopsPerToken(const Checkpoint& checkpoint, double length) {
  double flops = 0;
  for (const Layer& layer : checkpoint.layers()) {
    if (layer.weight < 0 || layer.optional) continue;
    const Shape& shape = checkpoint.weights()[static_cast<size_t>(layer.weight)].shape;
    flops += 2.0 * static_cast<double>(shape[0]) * static_cast<double>(shape[1]);
  }
  const DecoderSpec& spec = checkpoint.network().spec;
  const double attention = 4.0 * length * static_cast<double>(spec.heads * spec.head_dim);
  return flops + static_cast<double>(spec.blocks) * attention;
}

nlohmann::json BenchLanguageModel(const std::filesystem::path& folder, const std::string& ids,
                                  const std::filesystem::path& matmul) {
  LogSink& log = NullLog();
  const std::shared_ptr<const Checkpoint> checkpoint = Checkpoint::Open(folder, StoredFormats());
  CheckpointSourceOptions options;
  options.calibration = ReadTokenData(ids, {.tokenizer_dir = folder});
  double tokens = 0;
  for (const auto& sample : options.calibration.samples) {
    tokens += static_cast<double>(sample.size());
  }
  const double length = tokens / static_cast<double>(options.calibration.samples.size());
  CheckpointSource source(checkpoint, options, BuiltinFormats(), log);
  std::vector<int> all(checkpoint->activations().size());
  std::iota(all.begin(), all.end(), 0);

  const std::unique_ptr<OnnxModel> product = OnnxModel::Load(matmul, log);
  const std::unique_ptr<Dataset> read = OpenDataset({.source = "random:1"}, product->inputs(), log);
  const NamedTensors input = read->Read(0).inputs;
  const Shape& left = product->inputs()[0].shape;
  const Shape& right = product->weights()[0].shape;
  const double product_flops = 2.0 * static_cast<double>(left[0]) * static_cast<double>(right[0]) *
                               static_cast<double>(right[1]);
  PlainEngine plain(matmul);
  plain.Open();
  const auto product_rate = [&] {
    std::vector<Contender> contenders = {{"matmul", [&] { plain.Run(input); }}};
    RunInTurns(contenders, 9);
    return product_flops / contenders[0].seconds;
  };
  // Before and after: the machine may be busier in between.
  const double before = product_rate();
  const double start = Now(Clock::kWall);
  source.Collect(all);
  const double seconds = Now(Clock::kWall) - start;
  const double rate = FlopsPerToken(*checkpoint, length) * tokens / seconds;
  const double after = product_rate();
  return {{"parameters", checkpoint->parameter_count()},
          {"tokens", tokens},
          {"threads", Threads()},
          {"seconds", seconds},
          {"gflops", rate * 1e-9},
          {"matmul_gflops", {before * 1e-9, after * 1e-9}},
          {"rate_to_matmul", rate / ((before + after) / 2)}};
}

int Main(const std::vector<std::string>& arguments) {
  EngineVersion();  // makes the engine's API known to this file too
  if ((arguments.size() == 5 || arguments.size() == 6) && arguments[0] == "onnx") {
    if (arguments.size() == 6) SetThreads(std::stoi(arguments[5]));
    std::cout
        << BenchOnnx(arguments[1], arguments[2], arguments[3], std::stoi(arguments[4])).dump(2)
        << '\n';
    return 0;
  }
  if (arguments.size() == 4 && arguments[0] == "lm") {
    std::cout << BenchLanguageModel(arguments[1], arguments[2], arguments[3]).dump(2) << '\n';
    return 0;
  }
  std::cerr << "network_bench onnx MODEL QUANTIZED DATA ROUNDS [THREADS]\n"
               "network_bench lm CHECKPOINT IDS MATMUL\n";
  return 2;
}

}  // namespace
}  // namespace hif8

int main(int argc, char** argv) {
  try {
    return hif8::Main({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}

// The original network and quantized ones side by side, part by part.
#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <set>
#include <utility>

#include "lib/model/safetensors/written_checkpoint.h"
#include "lib/runtime/checkpoint_source.h"
#include "lib/runtime/measure_sink.h"
#include "lib/runtime/memory_plan.h"
#include "lib/runtime/network_run.h"
#include "lib/runtime/network_variants.h"
#include "lib/runtime/token_scores.h"

namespace hif8 {
namespace {

constexpr size_t kVariantsAtOnce = 16;
constexpr int64_t kHeadPieceElements = int64_t{1} << 22;  // 16 MiB of fp32, in both networks

constexpr size_t kDecodedRows = 1024;  // of the embedding that are kept

// A network that is compared with the original.
struct OtherNetwork {
  LayerSet layers;                       // that are quantized in it
  std::unique_ptr<HiddenStates> states;  // null: those of the original still
  std::unique_ptr<ExpertRouting> routing;
  std::vector<TokenScores> scores;
  OutputMeasurement logits;
};

class MeasurePass {
 public:
  MeasurePass(const std::shared_ptr<const Checkpoint>& checkpoint, const TokenData& data,
              uint64_t memory_limit, const std::filesystem::path& written,
              const std::map<int, QuantizedActivation>& quantized,
              std::span<const LayerSet> networks, bool comparing_layers,
              const FormatRegistry& formats, LogSink& log)
      : checkpoint_(*checkpoint),
        written_(checkpoint, written),
        quantized_(quantized),
        variants_(*checkpoint, quantized),
        spec_(checkpoint->network().spec),
        run_(*checkpoint, data),
        loader_(
            *checkpoint,
            [this, &formats](const std::string& tensor, int64_t begin, int64_t end, float* values) {
              written_.ReadRows(tensor, formats, begin, end, values);
            }),
        sink_(*checkpoint, quantized, &measurement_),
        parts_(checkpoint->network(), formats, &sink_, &log),
        log_(log),
        comparing_layers_(comparing_layers),
        others_(networks.size()),
        memory_(PlanMemory(checkpoint->network(), run_.longest(), 2, false, memory_limit)) {
    // Weights are held in two forms, however many networks there are.
    memory_.hidden_states = memory_.hidden_states * 2 / (others_.size() + 1);
    for (size_t i = 0; i < networks.size(); ++i) others_[i].layers = networks[i];
    measurement_.activation.resize(checkpoint_.activations().size());
    measurement_.output.resize(checkpoint_.layers().size());
    measurement_.accumulated.resize(checkpoint_.layers().size());
    measurement_.samples = run_.samples();
  }

  // One measurement for each network, with layers and activations where those are compared.
  std::vector<Measurement> Run() {
    Embed();
    RunBlocks();
    RunNorm();
    RunHead();
    std::vector<Measurement> results(others_.size());
    if (comparing_layers_) results.front() = std::move(measurement_);
    for (size_t i = 0; i < results.size(); ++i) {
      results[i].samples = run_.samples();
      results[i].outputs.push_back(std::move(others_[i].logits));
      if (!spec_.PredictsTokens()) continue;
      results[i].perplexity_original = Perplexity(scores_);
      results[i].perplexity_quantized = Perplexity(others_[i].scores);
    }
    return results;
  }

 private:
  bool IsQuantized(const std::string& tensor, const OtherNetwork& other) const {
    return variants_.IsQuantized(tensor, other.layers);
  }
  PartOptions Options(PartMode mode, const std::string& prefix,
                      const std::vector<PartLayer>& layers, const OtherNetwork& other) const {
    return variants_.Options(mode, prefix, layers, other.layers);
  }
  PartOptions OriginalOptions(const std::string& prefix,
                              const std::vector<PartLayer>& layers) const {
    if (!comparing_layers_) return {};
    return Options(PartMode::kOriginal, prefix, layers, others_.front());
  }

  // From here on the network goes its own way.
  void Leave(OtherNetwork* other) {
    if (other->states != nullptr) return;
    other->states = run_.NewStates(memory_.hidden_states);
    for (size_t i = 0; i < run_.samples(); ++i) other->states->Write(i, original_->Read(i));
  }

  void AddScales(const PartGraph& part, const std::string& prefix, NamedTensors* inputs) const {
    hif8::AddScales(checkpoint_, quantized_, part, prefix, inputs);
  }

  void Embed() {
    if (spec_.input == InputType::kTokens) {
      EmbedTokens();
    } else {
      original_ = run_.NewStates(memory_.hidden_states);
      for (OtherNetwork& other : others_) other.states = run_.NewStates(memory_.hidden_states);
    }
    if (!spec_.HasFront()) return;
    const Network& network = run_.network();
    RunEnd(
        &parts_.fronts, [&](PartOptions o) { return network.Front(std::move(o)); }, network.prefix,
        network.Front({}).layers,
        [&](const PartSession& part, NamedTensors* inputs, size_t i, HiddenStates* states) {
          run_.RunFront(part, inputs, i, states);
        });
  }

  void EmbedTokens() {
    const std::string& name = run_.network().embedding;
    const CheckpointTensor& table = *checkpoint_.Find(name);
    original_ = run_.Embed(memory_.hidden_states, [&](int64_t begin, int64_t end, float* values) {
      checkpoint_.ReadRows(table, begin, end, values);
    });
    std::map<int64_t, Tensor> rows;  // decoded
    for (OtherNetwork& other : others_) {
      if (!IsQuantized(name, other)) continue;
      other.states =
          run_.Embed(memory_.hidden_states, [&](int64_t begin, int64_t end, float* values) {
            if (rows.size() >= kDecodedRows) rows.clear();
            Tensor& row = rows[begin];
            if (row.owner == nullptr) row = loader_.LoadRows(name, true, begin, end);
            std::copy_n(reinterpret_cast<const float*>(row.view.data), row.view.size(), values);
          });
    }
  }

  // The constants that the original's part and the others' need, loaded together.
  NamedTensors LoadConstants(const std::function<PartGraph(PartOptions)>& describe,
                             const std::string& prefix,
                             const std::vector<PartLayer>& layers) const {
    std::vector<PartGraph> parts = {describe(OriginalOptions(prefix, layers))};
    for (const OtherNetwork& other : others_) {
      parts.push_back(describe(Options(PartMode::kQuantized, prefix, layers, other)));
    }
    std::vector<const PartGraph*> pointers;
    pointers.reserve(parts.size());
    for (const PartGraph& part : parts) pointers.push_back(&part);
    return loader_.Load(pointers, prefix);
  }

  void RunBlocks() {
    const Network& network = run_.network();
    const auto layers = [&](int64_t b) { return network.Block(b, {}).layers; };
    Prefetch constants(spec_.blocks, memory_.prefetch, [&](int64_t b) {
      return LoadConstants([&](PartOptions o) { return network.Block(b, std::move(o)); },
                           network.BlockPrefix(b), layers(b));
    });
    for (int64_t b = 0; b < spec_.blocks; ++b) {
      const std::string prefix = network.BlockPrefix(b);
      PartSessions& sessions = parts_.Block(b);
      const PartSession& original = sessions.Get(OriginalOptions(prefix, layers(b)));
      NamedTensors inputs = constants.Take(b);
      AddScales(original.part, prefix, &inputs);
      std::vector<const PartSession*> parts(others_.size());
      for (size_t k = 0; k < others_.size(); ++k) {
        const PartOptions options = Options(PartMode::kQuantized, prefix, layers(b), others_[k]);
        if (comparing_layers_ || spec_.At(b).kind.sparse || !options.inputs.empty() ||
            !options.weights.empty()) {
          Leave(&others_[k]);
        }
        if (others_[k].states == nullptr) continue;
        parts[k] = &sessions.Get(options);
        AddScales(parts[k]->part, prefix, &inputs);
        others_[k].routing = run_.Route(b, memory_.hidden_states);
      }
      const std::unique_ptr<ExpertRouting> routing = run_.Route(b, memory_.hidden_states);
      for (size_t i = 0; i < run_.samples(); ++i) {
        sink_.Aim(original.part, prefix, true);
        run_.RunBlock(original, b, &inputs, i, original_.get(), original_.get(), routing.get());
        for (size_t k = 0; k < others_.size(); ++k) {
          if (parts[k] == nullptr) continue;
          OtherNetwork& other = others_[k];
          sink_.Aim(parts[k]->part, prefix, false, comparing_layers_);
          run_.RunBlock(*parts[k], b, &inputs, i, other.states.get(), other.states.get(),
                        other.routing.get());
        }
        log_.Progress(Stage(), static_cast<uint64_t>(b) * run_.samples() + i + 1,
                      static_cast<uint64_t>(spec_.blocks) * run_.samples());
      }
      inputs.clear();
      if (routing != nullptr) RunExperts(b, routing.get());
    }
  }

  std::string Stage() const { return comparing_layers_ ? "measure" : "auto"; }

  // Each network's rows go where its own router sends them.
  void RunExperts(int64_t block, ExpertRouting* routing) {
    const Network& network = run_.network();
    const std::vector<PartLayer> layers = network.Expert({}).layers;
    std::set<int64_t> routed;
    const auto add = [&](const ExpertRouting& r) {
      for (const int64_t expert : r.Active()) routed.insert(expert);
    };
    add(*routing);
    for (const OtherNetwork& other : others_) add(*other.routing);
    const std::vector<int64_t> active(routed.begin(), routed.end());
    const auto prefix = [&](int64_t at) {
      return network.ExpertPrefix(block, active[static_cast<size_t>(at)]);
    };
    const auto count = static_cast<int64_t>(active.size());
    Prefetch constants(count, memory_.prefetch, [&](int64_t at) {
      return LoadConstants([&](PartOptions o) { return network.Expert(std::move(o)); }, prefix(at),
                           layers);
    });
    for (int64_t at = 0; at < count; ++at) {
      const int64_t e = active[static_cast<size_t>(at)];
      const PartSession& original = parts_.experts.Get(OriginalOptions(prefix(at), layers));
      NamedTensors inputs = constants.Take(at);
      AddScales(original.part, prefix(at), &inputs);
      for (size_t i = 0; i < run_.samples(); ++i) {
        sink_.Aim(original.part, prefix(at), true);
        routing->Run(original, &inputs, e, i, false, original_.get());
        for (OtherNetwork& other : others_) {
          const PartSession& part =
              parts_.experts.Get(Options(PartMode::kQuantized, prefix(at), layers, other));
          AddScales(part.part, prefix(at), &inputs);
          const bool same_rows = routing->Rows(e, i) == other.routing->Rows(e, i);
          sink_.Aim(part.part, prefix(at), false, comparing_layers_ && same_rows);
          other.routing->Run(part, &inputs, e, i, false, other.states.get());
        }
      }
    }
  }

  void RunNorm() {
    RunEnd(
        &parts_.norms, [&](PartOptions o) { return DecoderNorm(spec_, std::move(o)); }, "",
        TailLayers(spec_),
        [&](const PartSession& part, NamedTensors* inputs, size_t i, HiddenStates* states) {
          run_.RunNorm(part, inputs, i, states);
        });
  }

  // What stands before or behind the blocks, in all networks.
  void RunEnd(
      PartSessions* sessions, const std::function<PartGraph(PartOptions)>& describe,
      const std::string& prefix, const std::vector<PartLayer>& layers,
      const std::function<void(const PartSession&, NamedTensors*, size_t, HiddenStates*)>& run) {
    const PartSession& original = sessions->Get(OriginalOptions(prefix, layers));
    NamedTensors inputs = LoadConstants(describe, prefix, layers);
    AddScales(original.part, prefix, &inputs);
    std::vector<const PartSession*> parts;
    for (OtherNetwork& other : others_) {
      Leave(&other);
      parts.push_back(&sessions->Get(Options(PartMode::kQuantized, prefix, layers, other)));
      AddScales(parts.back()->part, prefix, &inputs);
    }
    for (size_t i = 0; i < run_.samples(); ++i) {
      sink_.Aim(original.part, prefix, true);
      run(original, &inputs, i, original_.get());
      for (size_t k = 0; k < others_.size(); ++k) {
        sink_.Aim(parts[k]->part, prefix, false, comparing_layers_);
        run(*parts[k], &inputs, i, others_[k].states.get());
      }
    }
  }

  void RunHead() {
    const std::string& tensor = run_.network().head;
    if (tensor.empty()) return CompareNormed();
    for (size_t i = 0; i < run_.samples(); ++i) {
      scores_.emplace_back(run_.ids(i), static_cast<size_t>(run_.rows(i)));
    }
    bool quantized = false;
    for (OtherNetwork& other : others_) {
      other.scores = scores_;
      other.logits.name = "logits";
      quantized |= IsQuantized(tensor, other);
    }
    const int64_t step = std::max<int64_t>(kHeadPieceElements / spec_.hidden, 1);
    for (int64_t first = 0; first < spec_.head.rows; first += step) {
      const int64_t end = std::min(first + step, spec_.head.rows);
      Tensor decoded;
      if (quantized) decoded = loader_.LoadRows(tensor, true, first, end);
      RunHeadPiece(first, loader_.LoadHead(run_.network(), first, end), decoded);
      log_.Progress(Stage() + " logits", static_cast<uint64_t>(end),
                    static_cast<uint64_t>(spec_.head.rows));
    }
    for (OtherNetwork& other : others_) CountAgreement(scores_, other.scores, &other.logits);
  }

  // Of a network that ends before a head.
  void CompareNormed() {
    for (OtherNetwork& other : others_) {
      other.logits.name = "output";
      for (size_t i = 0; i < run_.samples(); ++i) {
        std::vector<float> a_buffer;
        std::vector<float> b_buffer;
        const Tensor a = run_.Normed(i, original_.get());
        const Tensor b = run_.Normed(i, other.states.get());
        other.logits.error.Add(AsFloats(a.view, &a_buffer), AsFloats(b.view, &b_buffer));
      }
    }
  }

  // The logits from `first` on, of the original head's `constants`; `decoded` are the written
  // file's rows, where some network needs them.
  void RunHeadPiece(int64_t first, const NamedTensors& constants, const Tensor& decoded) {
    const std::vector<PartLayer> layers = DecoderHead(spec_, {}).layers;
    const std::string prefix;
    const std::string weight = spec_.head.name + ".weight";
    const Tensor& rows = constants.at(weight);
    const PartSession& original = parts_.heads.Get(OriginalOptions(prefix, layers));
    for (size_t i = 0; i < run_.samples(); ++i) {
      NamedTensors inputs = constants;
      inputs[weight + ":quantized"] = decoded;
      AddScales(original.part, prefix, &inputs);
      sink_.Aim(original.part, prefix, true);
      const Tensor a = HeadLogits(original, i, original_.get(), &inputs);
      std::vector<float> a_buffer;
      const auto x = AsFloats(a.view, &a_buffer);
      scores_[i].Add(x, first, rows.view.shape[0]);
      for (OtherNetwork& other : others_) {
        const PartSession& head =
            parts_.heads.Get(Options(PartMode::kQuantized, prefix, layers, other));
        // Tied to a quantized embedding it has other values although it is no layer of its own.
        if (IsQuantized(run_.network().head, other)) inputs[weight] = decoded;
        AddScales(head.part, prefix, &inputs);
        sink_.Aim(head.part, prefix, false, comparing_layers_);
        const Tensor b = HeadLogits(head, i, other.states.get(), &inputs);
        inputs[weight] = rows;
        std::vector<float> b_buffer;
        const auto y = AsFloats(b.view, &b_buffer);
        other.logits.error.Add(x, y);
        other.scores[i].Add(y, first, rows.view.shape[0]);
      }
    }
  }

  Tensor HeadLogits(const PartSession& head, size_t sample, HiddenStates* states,
                    NamedTensors* inputs) const {
    (*inputs)["normed"] = run_.Normed(sample, states);
    return head.Run(*inputs);
  }

  static void CountAgreement(const std::vector<TokenScores>& a, const std::vector<TokenScores>& b,
                             OutputMeasurement* output) {
    for (size_t i = 0; i < a.size(); ++i) {
      const std::vector<int64_t> x = a[i].Predictions();
      const std::vector<int64_t> y = b[i].Predictions();
      output->argmax_rows += x.size();
      for (size_t t = 0; t < x.size(); ++t) output->argmax_equal += x[t] == y[t] ? 1 : 0;
    }
  }

  const Checkpoint& checkpoint_;
  WrittenCheckpoint written_;
  const std::map<int, QuantizedActivation>& quantized_;
  NetworkVariants variants_;
  const DecoderSpec& spec_;
  NetworkRun run_;
  ConstantLoader loader_;
  Measurement measurement_;
  MeasureSink sink_;
  DecoderParts parts_;
  LogSink& log_;
  bool comparing_layers_;  // one other network, compared layer by layer
  std::vector<OtherNetwork> others_;
  MemoryPlan memory_;
  std::unique_ptr<HiddenStates> original_;
  std::vector<TokenScores> scores_;
};

}  // namespace

Measurement CheckpointSource::Measure(const std::filesystem::path& written,
                                      const std::map<int, QuantizedActivation>& quantized,
                                      const LayerSet& layers) {
  return std::move(MeasurePass(checkpoint_, options_.evaluation, options_.memory_limit, written,
                               quantized, {&layers, 1}, true, formats_, log_)
                       .Run()
                       .front());
}

std::vector<Measurement> CheckpointSource::MeasureVariants(
    const std::filesystem::path& written, const std::map<int, QuantizedActivation>& quantized,
    std::span<const LayerSet> variants, uint64_t samples) {
  TokenData data = options_.evaluation;
  if (samples > 0) data.most = static_cast<size_t>(samples);
  std::vector<Measurement> results;
  while (results.size() < variants.size()) {
    const auto some = variants.subspan(results.size(),
                                       std::min(kVariantsAtOnce, variants.size() - results.size()));
    for (Measurement& result : MeasurePass(checkpoint_, data, options_.memory_limit, written,
                                           quantized, some, false, formats_, log_)
                                   .Run()) {
      results.push_back(std::move(result));
    }
  }
  return results;
}

}  // namespace hif8

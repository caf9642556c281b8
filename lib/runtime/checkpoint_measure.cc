// The original and the quantized network side by side, part by part.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "lib/model/safetensors/written_checkpoint.h"
#include "lib/runtime/checkpoint_source.h"
#include "lib/runtime/memory_plan.h"
#include "lib/runtime/network_run.h"
#include "lib/runtime/token_scores.h"

namespace hif8 {
namespace {

constexpr int64_t kHeadPieceElements = int64_t{1} << 22;  // 16 MiB of fp32, in both networks

constexpr size_t kDecodedRows = 1024;  // of the embedding that are kept

// Turns what the taps of one part see into the measurement.
class MeasureSink : public TapSink {
 public:
  MeasureSink(const Checkpoint& checkpoint, const std::map<int, QuantizedActivation>& quantized,
              Measurement* measurement)
      : checkpoint_(checkpoint), quantized_(quantized), measurement_(measurement) {}

  // `comparable` false: the quantized network's rows are others than the original's were, so that
  // its outputs cannot be compared.
  void Aim(const PartGraph& part, const std::string& prefix, bool original,
           bool comparable = true) {
    if (original) outputs_.clear();  // the last run's are compared by now
    original_ = original;
    comparable_ = comparable;
    targets_.clear();
    for (const PartTap& tap : part.taps) {
      const std::string name = prefix + tap.name;
      targets_.push_back({tap.kind, tap.kind == TapKind::kActivation
                                        ? checkpoint_.ActivationIndex(name)
                                        : checkpoint_.LayerIndex(name)});
    }
  }

  void Observe(int id, const TensorView& x) override {
    const int index = targets_[static_cast<size_t>(id)].index;
    if (index < 0 || !comparable_) return;
    std::vector<float> buffer;
    const auto values = AsFloats(x, &buffer);
    std::vector<float>& original = outputs_[index];
    if (original_) {
      original.assign(values.begin(), values.end());
    } else {
      measurement_->accumulated[static_cast<size_t>(index)].Add(original, values);
    }
  }

  void Compare(int id, const TensorView& x, const TensorView& y) override {
    const Tap& tap = targets_[static_cast<size_t>(id)];
    if (tap.index < 0) return;
    const auto at = static_cast<size_t>(tap.index);
    std::vector<float> x_buffer;
    std::vector<float> y_buffer;
    const auto a = AsFloats(x, &x_buffer);
    const auto b = AsFloats(y, &y_buffer);
    if (tap.kind == TapKind::kOutput) return measurement_->output[at].Add(a, b);
    const QuantizedActivation& q = quantized_.at(tap.index);
    measurement_->activation[at].Add(a, b);
    measurement_->activation[at].CountRange(a, q.scale, q.overflow_threshold, q.reference);
    if (q.visit) q.visit(x);
  }

 private:
  const Checkpoint& checkpoint_;
  const std::map<int, QuantizedActivation>& quantized_;
  Measurement* measurement_;
  bool original_ = true;
  bool comparable_ = true;
  std::vector<Tap> targets_;
  std::map<int, std::vector<float>> outputs_;  // of the original network's last run, by layer
};

class MeasurePass {
 public:
  MeasurePass(const std::shared_ptr<const Checkpoint>& checkpoint, const TokenData& data,
              uint64_t memory_limit, const std::filesystem::path& written,
              const std::map<int, QuantizedActivation>& quantized, const FormatRegistry& formats,
              LogSink& log)
      : checkpoint_(*checkpoint),
        written_(checkpoint, written),
        quantized_(quantized),
        spec_(checkpoint->network().spec),
        run_(*checkpoint, data),
        loader_(
            *checkpoint,
            [this, &formats](const std::string& tensor, int64_t begin, int64_t end, float* values) {
              written_.ReadRows(tensor, formats, begin, end, values);
            }),
        sink_(*checkpoint, quantized, &measurement_),
        dense_([this](PartOptions o) { return DecoderBlock(spec_, false, std::move(o)); }, formats,
               &sink_, &log),
        sparse_([this](PartOptions o) { return DecoderBlock(spec_, true, std::move(o)); }, formats,
                &sink_, &log),
        experts_([this](PartOptions o) { return DecoderExpert(spec_, std::move(o)); }, formats,
                 &sink_, &log),
        norms_([this](PartOptions o) { return DecoderNorm(spec_, std::move(o)); }, formats, &sink_,
               &log),
        heads_([this](PartOptions o) { return DecoderHead(spec_, std::move(o)); }, formats, &sink_,
               &log),
        log_(log),
        memory_(PlanMemory(checkpoint->network(), run_.longest(), 2, false, memory_limit)) {
    measurement_.activation.resize(checkpoint_.activations().size());
    measurement_.output.resize(checkpoint_.layers().size());
    measurement_.accumulated.resize(checkpoint_.layers().size());
    measurement_.samples = run_.samples();
    activation_format_ = written_.number_format();
    if (activation_format_.empty()) activation_format_ = formats.names().front();
  }

  Measurement Run() {
    Embed();
    RunBlocks();
    RunNorm();
    RunHead();
    return std::move(measurement_);
  }

 private:
  // The values of that tensor come from the written file in the quantized network.
  bool IsQuantized(const std::string& tensor) const {
    const int weight = checkpoint_.Find(tensor)->weight;
    if (weight < 0) return false;
    return written_.number_format().empty() || written_.IsQuantized(weight);
  }

  PartOptions Options(PartMode mode, const std::string& prefix,
                      const std::vector<PartLayer>& layers) const {
    PartOptions options;
    options.mode = mode;
    options.inputs = QuantizedInputs(checkpoint_, quantized_, prefix, layers, activation_format_);
    for (const PartLayer& layer : layers) {
      const std::string tensor = prefix + layer.name + ".weight";
      if (checkpoint_.Find(tensor) != nullptr && IsQuantized(tensor)) {
        options.weights.insert(layer.name);
      }
    }
    return options;
  }

  void AddScales(const PartGraph& part, const std::string& prefix, NamedTensors* inputs) const {
    hif8::AddScales(checkpoint_, quantized_, part, prefix, inputs);
  }

  void Embed() {
    const std::string& name = run_.network().embedding;
    const CheckpointTensor& table = *checkpoint_.Find(name);
    original_ = run_.Embed(memory_.hidden_states, [&](int64_t begin, int64_t end, float* values) {
      checkpoint_.ReadRows(table, begin, end, values);
    });
    const bool quantized = IsQuantized(name);
    std::map<int64_t, Tensor> rows;  // decoded once
    other_ = run_.Embed(memory_.hidden_states, [&](int64_t begin, int64_t end, float* values) {
      if (!quantized) return checkpoint_.ReadRows(table, begin, end, values);
      if (rows.size() >= kDecodedRows) rows.clear();
      Tensor& row = rows[begin];
      if (row.owner == nullptr) row = loader_.LoadRows(name, true, begin, end);
      std::copy_n(reinterpret_cast<const float*>(row.view.data), row.view.size(), values);
    });
  }

  void RunBlocks() {
    const Network& network = run_.network();
    const auto options = [&](PartMode mode, int64_t b) {
      return Options(mode, network.BlockPrefix(b), network.Block(b, {}).layers);
    };
    Prefetch constants(spec_.blocks, memory_.prefetch, [&](int64_t b) {
      const PartGraph original = network.Block(b, options(PartMode::kOriginal, b));
      const PartGraph other = network.Block(b, options(PartMode::kQuantized, b));
      const PartGraph* both[] = {&original, &other};
      return loader_.Load(both, network.BlockPrefix(b));
    });
    for (int64_t b = 0; b < spec_.blocks; ++b) {
      const std::string prefix = network.BlockPrefix(b);
      PartSessions& sessions = spec_.experts.HasExperts(b) ? sparse_ : dense_;
      const PartSession& original = sessions.Get(options(PartMode::kOriginal, b));
      const PartSession& other = sessions.Get(options(PartMode::kQuantized, b));
      NamedTensors inputs = constants.Take(b);
      AddScales(original.part, prefix, &inputs);
      AddScales(other.part, prefix, &inputs);
      const std::unique_ptr<ExpertRouting> routing = run_.Route(b, memory_.hidden_states);
      const std::unique_ptr<ExpertRouting> other_routing = run_.Route(b, memory_.hidden_states);
      for (size_t i = 0; i < run_.samples(); ++i) {
        sink_.Aim(original.part, prefix, true);
        run_.RunBlock(original, b, &inputs, i, original_.get(), original_.get(), routing.get());
        sink_.Aim(other.part, prefix, false);
        run_.RunBlock(other, b, &inputs, i, other_.get(), other_.get(), other_routing.get());
        log_.Progress("measure", static_cast<uint64_t>(b) * run_.samples() + i + 1,
                      static_cast<uint64_t>(spec_.blocks) * run_.samples());
      }
      inputs.clear();
      if (routing != nullptr) RunExperts(b, routing.get(), other_routing.get());
    }
  }

  // Each network's rows go where its own router sends them.
  void RunExperts(int64_t block, ExpertRouting* routing, ExpertRouting* other_routing) {
    const Network& network = run_.network();
    const std::vector<PartLayer> layers = DecoderExpert(spec_, {}).layers;
    std::vector<int64_t> active;
    const std::vector<int64_t> a = routing->Active();
    const std::vector<int64_t> b = other_routing->Active();
    std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(active));
    const auto prefix = [&](int64_t at) {
      return network.ExpertPrefix(block, active[static_cast<size_t>(at)]);
    };
    const auto count = static_cast<int64_t>(active.size());
    Prefetch constants(count, memory_.prefetch, [&](int64_t at) {
      const PartGraph original =
          DecoderExpert(spec_, Options(PartMode::kOriginal, prefix(at), layers));
      const PartGraph other =
          DecoderExpert(spec_, Options(PartMode::kQuantized, prefix(at), layers));
      const PartGraph* both[] = {&original, &other};
      return loader_.Load(both, prefix(at));
    });
    for (int64_t at = 0; at < count; ++at) {
      const int64_t e = active[static_cast<size_t>(at)];
      const PartSession& original = experts_.Get(Options(PartMode::kOriginal, prefix(at), layers));
      const PartSession& other = experts_.Get(Options(PartMode::kQuantized, prefix(at), layers));
      NamedTensors inputs = constants.Take(at);
      AddScales(original.part, prefix(at), &inputs);
      AddScales(other.part, prefix(at), &inputs);
      for (size_t i = 0; i < run_.samples(); ++i) {
        sink_.Aim(original.part, prefix(at), true);
        routing->Run(original, &inputs, e, i, false, original_.get());
        sink_.Aim(other.part, prefix(at), false, routing->Rows(e, i) == other_routing->Rows(e, i));
        other_routing->Run(other, &inputs, e, i, false, other_.get());
      }
    }
  }

  void RunNorm() {
    const std::vector<PartLayer> layers = DecoderHead(spec_, {}).layers;
    const PartSession& norm = norms_.Get(Options(PartMode::kOriginal, "", layers));
    const PartSession& plain = norms_.Get({});
    const PartGraph* parts[] = {&norm.part};
    NamedTensors inputs = loader_.Load(parts, run_.network().prefix);
    AddScales(norm.part, "", &inputs);
    for (size_t i = 0; i < run_.samples(); ++i) {
      sink_.Aim(norm.part, "", true);
      run_.RunNorm(norm, &inputs, i, original_.get());
      run_.RunNorm(plain, &inputs, i, other_.get());
    }
  }

  void RunHead() {
    const std::vector<PartLayer> layers = DecoderHead(spec_, {}).layers;
    const PartSession& original = heads_.Get(Options(PartMode::kOriginal, "", layers));
    const PartSession& other = heads_.Get(Options(PartMode::kQuantized, "", layers));
    const std::string& tensor = run_.network().head;
    const bool quantized = IsQuantized(tensor);
    std::vector<TokenScores> scores;
    std::vector<TokenScores> other_scores;
    for (size_t i = 0; i < run_.samples(); ++i) {
      scores.emplace_back(run_.ids(i));
      other_scores.emplace_back(run_.ids(i));
    }
    OutputMeasurement logits;
    logits.name = "logits";
    const int64_t step = std::max<int64_t>(kHeadPieceElements / spec_.hidden, 1);
    for (int64_t first = 0; first < spec_.vocabulary; first += step) {
      const int64_t end = std::min(first + step, spec_.vocabulary);
      NamedTensors inputs;
      inputs["lm_head.weight"] = loader_.LoadRows(tensor, false, first, end);
      NamedTensors other_inputs = inputs;
      if (quantized) {
        const Tensor decoded = loader_.LoadRows(tensor, true, first, end);
        inputs["lm_head.weight:quantized"] = decoded;
        other_inputs = inputs;
        other_inputs["lm_head.weight"] = decoded;  // tied to a quantized embedding
      }
      AddScales(original.part, "", &inputs);
      AddScales(other.part, "", &other_inputs);
      for (size_t i = 0; i < run_.samples(); ++i) {
        sink_.Aim(original.part, "", true);
        const Tensor a = RunHeadPiece(original, i, original_.get(), &inputs);
        sink_.Aim(other.part, "", false);
        const Tensor b = RunHeadPiece(other, i, other_.get(), &other_inputs);
        std::vector<float> a_buffer;
        std::vector<float> b_buffer;
        const auto x = AsFloats(a.view, &a_buffer);
        const auto y = AsFloats(b.view, &b_buffer);
        logits.error.Add(x, y);
        scores[i].Add(x, first, end - first);
        other_scores[i].Add(y, first, end - first);
      }
      log_.Progress("measure logits", static_cast<uint64_t>(end),
                    static_cast<uint64_t>(spec_.vocabulary));
    }
    CountAgreement(scores, other_scores, &logits);
    measurement_.outputs.push_back(std::move(logits));
    measurement_.perplexity_original = Perplexity(scores);
    measurement_.perplexity_quantized = Perplexity(other_scores);
  }

  Tensor RunHeadPiece(const PartSession& head, size_t sample, HiddenStates* states,
                      NamedTensors* inputs) const {
    (*inputs)["normed"] = FloatTensor(states->Read(sample), {run_.length(sample), spec_.hidden});
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

  // 0 when no token was predicted.
  static double Perplexity(const std::vector<TokenScores>& scores) {
    double loss = 0;
    uint64_t tokens = 0;
    for (const TokenScores& score : scores) {
      loss += score.NegativeLogLikelihood();
      tokens += score.predicted();
    }
    return tokens == 0 ? 0 : std::exp(loss / static_cast<double>(tokens));
  }

  const Checkpoint& checkpoint_;
  WrittenCheckpoint written_;
  const std::map<int, QuantizedActivation>& quantized_;
  const DecoderSpec& spec_;
  NetworkRun run_;
  ConstantLoader loader_;
  Measurement measurement_;
  MeasureSink sink_;
  PartSessions dense_, sparse_, experts_, norms_, heads_;
  LogSink& log_;
  MemoryPlan memory_;
  std::string activation_format_;
  std::unique_ptr<HiddenStates> original_, other_;
};

}  // namespace

Measurement CheckpointSource::Measure(const std::filesystem::path& written,
                                      const std::map<int, QuantizedActivation>& quantized) {
  return MeasurePass(checkpoint_, options_.evaluation, options_.memory_limit, written, quantized,
                     formats_, log_)
      .Run();
}

}  // namespace hif8

// From a model and a plan to the quantized model's files.
#include <algorithm>
#include <set>

#include "lib/core/error.h"
#include "lib/model/onnx/functions.h"
#include "lib/model/onnx/graph_edit.h"
#include "lib/model/onnx/onnx_writer.h"
#include "lib/model/onnx/plain_operators.h"
#include "lib/model/onnx/taps.h"
#include "lib/model/onnx/tensor_data.h"
#include "lib/model/onnx/tensor_store.h"
#include "lib/model/onnx/uses.h"
#include "lib/model/onnx/weight_codes.h"

namespace hif8 {
namespace {

// The first IR version whose initializers need not be inputs.
constexpr int64_t kInlinedIr = 4;

uint64_t ConstantBytes(const OnnxModel::Impl& model) {
  uint64_t bytes = 0;
  for (int i = 0; i < static_cast<int>(model.scopes->size()); ++i) {
    for (const onnx::TensorProto& tensor : (*model.scopes)[i].graph->initializer()) {
      bytes += TensorBytes(tensor);
    }
  }
  return bytes;
}

class Writer {
 public:
  Writer(const OnnxModel::Impl& model, const OnnxWritePlan& plan, const FormatRegistry& formats,
         const std::filesystem::path& folder)
      : model_(model),
        plan_(plan),
        formats_(formats),
        uses_(*model.scopes),
        edit_(model.proto),
        store_(folder, OutputBytes() >= plan.external_from_bytes),
        places_(&edit_),
        codes_(&edit_, &store_, formats, &functions_, &places_) {}

  OnnxWritten Run(LogSink& log) {
    Prepare();
    size_t done = 0;
    for (const auto& [weight, layers] : layers_of_) {
      RewriteWeight(weight, layers);
      log.Progress("writing weights", ++done, layers_of_.size());
    }
    if (!plan_.simulated) RewriteActivations();
    RemoveUnusedSteps();
    onnx::ModelProto result = edit_.Finish();
    if (!functions_.empty()) AddFunctions(&result);
    DropWeightInputs(&result);
    AddMetadata(&result);
    store_.PutAll(model_.files, result.mutable_graph());
    if (plan_.inlined) {
      ExpandFormatFunctions(&result);
      result.set_ir_version(std::max<int64_t>(model_.proto.ir_version(), kInlinedIr));
    }
    store_.Finish(result);
    return {store_.model_path(), store_.data_path(), store_.bytes()};
  }

 private:
  bool IsQuantized(int layer) const { return plan_.quantized[static_cast<size_t>(layer)]; }
  const LayerSite& Site(int layer) const { return model_.layer_sites[static_cast<size_t>(layer)]; }

  // About what the constants will take.
  uint64_t OutputBytes() const {
    uint64_t bytes = ConstantBytes(model_);
    if (plan_.simulated) return bytes;
    std::set<int> weights;
    for (size_t i = 0; i < model_.layers.size(); ++i) {
      if (plan_.quantized[i] && model_.layers[i].weight >= 0)
        weights.insert(model_.layers[i].weight);
    }
    for (const int w : weights) {
      const Weight& weight = model_.weights[static_cast<size_t>(w)];
      bytes -= weight.size() * (DTypeSize(weight.dtype) - 1);
    }
    return bytes;
  }

  void Prepare() {
    for (int i = 0; i < static_cast<int>(model_.layers.size()); ++i) {
      const Layer& layer = model_.layers[static_cast<size_t>(i)];
      if (!IsQuantized(i)) continue;
      if (!layer.unsupported.empty()) {
        throw BugError("layer '" + layer.name + "' cannot be quantized: " + layer.unsupported);
      }
      if (layer.weight < 0) continue;
      layers_of_[layer.weight].push_back(i);
      const LayerSite& site = Site(i);
      quantized_operands_.insert({site.scope, site.node, site.weight_input});
      for (const ChainStep& step : site.steps) steps_.emplace(step.scope, step.node);
    }
  }

  // Whether nobody but quantized layers reads the value, through their chains.
  bool OnlyForQuantized(int scope, const std::string& name) const {
    const std::vector<Use>& uses = uses_.Of(scope, name);
    return std::all_of(uses.begin(), uses.end(), [&](const Use& use) {
      if (quantized_operands_.contains(use)) return true;
      if (use.node < 0 || use.input != 0 || !steps_.contains({use.scope, use.node})) return false;
      const onnx::NodeProto& node = (*model_.scopes)[use.scope].graph->node(use.node);
      return OnlyForQuantized(use.scope, node.output(0));
    });
  }

  void RewriteWeight(int index, const std::vector<int>& layers) {
    const Definition& source = model_.weight_sites[static_cast<size_t>(index)].source;
    const Weight& weight = model_.weights[static_cast<size_t>(index)];
    const std::string stored = model_.scopes->Initializer(source).name();
    EncodedWeight encoded = plan_.encode(index);
    if (encoded.codes.size() != weight.size() || encoded.layout.size() != weight.size() ||
        encoded.scales.size() != encoded.layout.scale_count()) {
      throw BugError("codes of weight '" + weight.name + "' do not fit its shape");
    }
    const bool alone = OnlyForQuantized(source.scope, stored);
    const std::string value = alone ? stored : edit_.NewName(stored + "_dequantized");
    if (plan_.simulated) {
      StoreDecoded(source, encoded, weight, alone ? "" : value);
    } else {
      codes_.Store(source.scope, stored, encoded, weight, value);
      if (alone) edit_.RemoveInitializer(source.scope, source.index);
    }
    if (alone) return;
    std::map<std::pair<int, int>, std::string> copies;
    for (const int layer : layers) {
      const LayerSite& site = Site(layer);
      edit_.node(site.scope, site.node)
          .set_input(site.weight_input, CopySteps(site.steps, value, &copies));
    }
  }

  // The layer's operand made of `value` instead of the stored tensor.
  std::string CopySteps(const std::vector<ChainStep>& steps, std::string value,
                        std::map<std::pair<int, int>, std::string>* copies) {
    for (const ChainStep& step : steps) {
      std::string& output = (*copies)[{step.scope, step.node}];
      if (output.empty()) {
        onnx::NodeProto copy = edit_.node(step.scope, step.node);
        output = edit_.NewName(copy.output(0) + "_dequantized");
        copy.set_input(0, value);
        copy.set_output(0, output);
        if (!copy.name().empty()) copy.set_name(edit_.NewName(copy.name() + "_dequantized"));
        edit_.InsertAfter(step.scope, step.node, std::move(copy));
      }
      value = output;
    }
    return value;
  }

  void StoreDecoded(const Definition& source, const EncodedWeight& encoded, const Weight& weight,
                    const std::string& new_name) {
    std::vector<float> values(encoded.codes.size());
    DecodeTiles(formats_.Get(encoded.format), encoded.codes, encoded.layout, encoded.scales,
                values);
    std::vector<std::byte> bytes(values.size() * DTypeSize(weight.dtype));
    ConvertFromFloat(weight.dtype, values.data(), values.size(), bytes.data());
    onnx::TensorProto tensor;
    tensor.set_name(new_name.empty() ? model_.scopes->Initializer(source).name() : new_name);
    tensor.set_data_type(FromDType(weight.dtype));
    for (const int64_t d : weight.shape) tensor.add_dims(d);
    store_.Put(bytes, &tensor);
    if (new_name.empty()) {
      *edit_.graph(source.scope).mutable_initializer(source.index) = std::move(tensor);
    } else {
      edit_.AddInitializer(source.scope, std::move(tensor));
    }
  }

  static onnx::NodeProto Cast(const std::string& from, const std::string& to, int type) {
    onnx::NodeProto node = MakeNode("Cast", {from}, {to});
    SetAttribute(&node, "to", type);
    return node;
  }

  void RewriteActivations() {
    const auto readers = ActivationReaders(model_);
    for (const auto& [index, chosen] : plan_.activations) {
      std::vector<ActivationReader> places;
      for (const ActivationReader& reader : readers.at(static_cast<size_t>(index))) {
        if (IsQuantized(reader.layer)) places.push_back(reader);
      }
      if (!places.empty()) RewriteActivation(index, chosen, places);
    }
  }

  std::string AddNumber(const ActivationSite& site, const char* suffix, float value) {
    const std::string name = edit_.NewName(site.tensor + suffix);
    edit_.AddInitializer(site.scope, MakeTensor(name, {}, std::vector<float>{value}));
    return name;
  }

  // The node that finds the scales of `x`, the activation as fp32.
  std::string AddScale(int index, const FakeQuantize& chosen, const std::string& x, int before) {
    const ActivationSite& site = model_.activation_sites[static_cast<size_t>(index)];
    const Activation& activation = model_.activations[static_cast<size_t>(index)];
    const TileScaling& scaling = *chosen.dynamic;
    const bool grouped = scaling.tile.inputs != kWholeEdge;
    const auto edge = static_cast<int64_t>(scaling.tile.inputs);
    const bool known = activation.inputs > 0;
    const ScaleFunction how{activation.input_axis, grouped, scaling.power_of_two,
                            grouped && !known ? edge : 0};
    std::vector<std::string> inputs = {x};
    if (grouped && known) {
      inputs.push_back(places_.Groups(site.scope, activation.inputs, edge));
      const int64_t groups = (activation.inputs + edge - 1) / edge;
      inputs.push_back(places_.Places(site.scope, activation.inputs, edge, groups));
    }
    const ScaleEncoding encoding = chosen.format->scale_encoding();
    if (encoding != ScaleEncoding::kE8M0) {
      inputs.push_back(AddNumber(site, "_target", scaling.target));
    }
    if (encoding == ScaleEncoding::kCodes) {
      inputs.push_back(AddNumber(site, "_global_scale", scaling.global_scale));
    }
    std::string scale = edit_.NewName(site.tensor + "_scale");
    const auto make = [how](const NumberFormat& format, int64_t opset) {
      return MakeScaleFunction(format, how, opset);
    };
    edit_.InsertBefore(site.scope, before,
                       functions_.Call(std::string(chosen.format->name()), how.Name(), make,
                                       std::move(inputs), scale));
    return scale;
  }

  void RewriteActivation(int index, const FakeQuantize& chosen,
                         const std::vector<ActivationReader>& places) {
    const ActivationSite& site = model_.activation_sites[static_cast<size_t>(index)];
    const int before = Site(places.front().layer).node;
    const bool cast = site.elem_type != onnx::TensorProto::FLOAT;
    const std::string result = edit_.NewName(site.tensor + "_quantized");
    std::string from = site.tensor, to = result;
    if (cast) {
      from = edit_.NewName(site.tensor + "_fp32");
      to = edit_.NewName(site.tensor + "_quantized_fp32");
      edit_.InsertBefore(site.scope, before, Cast(site.tensor, from, onnx::TensorProto::FLOAT));
    }
    if (chosen.clip) from = Clip(site, before, from, chosen);
    const std::string scale = chosen.dynamic ? AddScale(index, chosen, from, before)
                                             : AddNumber(site, "_scale", chosen.scale);
    edit_.InsertBefore(
        site.scope, before,
        functions_.Call(std::string(chosen.format->name()), kQuantizeDequantizeFunction,
                        MakeQuantizeDequantizeFunction, {from, scale}, to));
    if (cast) edit_.InsertBefore(site.scope, before, Cast(to, result, site.elem_type));
    for (const ActivationReader& reader : places) {
      edit_.node(site.scope, Site(reader.layer).node).set_input(reader.input, result);
    }
  }

  // The fp32 value clipped to +-clip, in operators that every operator set has. NaN stays NaN.
  std::string Clip(const ActivationSite& site, int before, std::string from,
                   const FakeQuantize& chosen) {
    const float limit = *chosen.clip;
    for (const auto& [op, value] : {std::pair("Min", limit), std::pair("Max", -limit)}) {
      const std::string bound = edit_.NewName(site.tensor + "_limit");
      edit_.AddInitializer(site.scope, MakeTensor(bound, {}, std::vector<float>{value}));
      const std::string to = edit_.NewName(site.tensor + "_clipped");
      onnx::NodeProto node = MakeNode(op, {std::move(from), bound}, {to});
      node.set_doc_string(
          OperatorMarkText({std::string(chosen.format->name()), std::string(kLimitMark)}));
      edit_.InsertBefore(site.scope, before, std::move(node));
      from = to;
    }
    return from;
  }

  // Steps of chains that were copied and that nobody else reads.
  void RemoveUnusedSteps() {
    for (const auto& [weight, layers] : layers_of_) {
      const Definition& source = model_.weight_sites[static_cast<size_t>(weight)].source;
      if (OnlyForQuantized(source.scope, model_.scopes->Initializer(source).name())) continue;
      for (const int layer : layers) {
        for (const ChainStep& step : Site(layer).steps) {
          const std::string& output = (*model_.scopes)[step.scope].graph->node(step.node).output(0);
          if (OnlyForQuantized(step.scope, output)) edit_.Remove(step.scope, step.node);
        }
      }
    }
  }

  void AddFunctions(onnx::ModelProto* model) const {
    const int64_t opset = StandardOpset(*model);
    if (opset < kFunctionOpset) {
      throw ModelError("the model uses operator set " + std::to_string(opset) +
                           " and could not be converted: " + model_.not_converted,
                       "export it for operator set " + std::to_string(kFunctionOpset) + " or later",
                       model_.path.string());
    }
    functions_.AddTo(model, formats_);
  }

  // A tensor that is also an input would not be constant any more since IR version 4.
  void DropWeightInputs(onnx::ModelProto* model) const {
    onnx::GraphProto* graph = model->mutable_graph();
    const Scope& original = (*model_.scopes)[0];
    std::set<std::string> left;
    for (const onnx::TensorProto& tensor : graph->initializer()) left.insert(tensor.name());
    const bool raised = model->ir_version() != model_.proto.ir_version();
    google::protobuf::RepeatedPtrField<onnx::ValueInfoProto> inputs;
    for (onnx::ValueInfoProto& input : *graph->mutable_input()) {
      const bool weight = original.initializers.contains(input.name());
      if (!weight || (!raised && left.contains(input.name()))) *inputs.Add() = std::move(input);
    }
    graph->mutable_input()->Swap(&inputs);
  }

  void AddMetadata(onnx::ModelProto* model) const {
    for (const auto& [key, value] : plan_.metadata) {
      onnx::StringStringEntryProto* entry = nullptr;
      for (onnx::StringStringEntryProto& known : *model->mutable_metadata_props()) {
        if (known.key() == key) entry = &known;
      }
      if (entry == nullptr) entry = model->add_metadata_props();
      entry->set_key(key);
      entry->set_value(value);
    }
  }

  const OnnxModel::Impl& model_;
  const OnnxWritePlan& plan_;
  const FormatRegistry& formats_;
  const Uses uses_;
  GraphEdit edit_;
  TensorStore store_;
  FunctionSet functions_;
  ScalePlaces places_;
  WeightCodes codes_;
  std::map<int, std::vector<int>> layers_of_;  // quantized layers by weight
  std::set<Use> quantized_operands_;
  std::set<std::pair<int, int>> steps_;  // nodes of chains of quantized layers
};

}  // namespace

OnnxWritten WriteOnnxModel(const OnnxModel& model, const OnnxWritePlan& plan,
                           const FormatRegistry& formats, const std::filesystem::path& folder,
                           LogSink& log) {
  OnnxWritePlan complete = plan;
  complete.quantized.resize(model.layers().size(), false);
  return Writer(model.impl(), complete, formats, folder).Run(log);
}

}  // namespace hif8

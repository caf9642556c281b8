// Two networks side by side: the original with its layers recomputed from the written file, and the
// written one.
#include <set>
#include <utility>

#include "lib/model/onnx/import.h"
#include "lib/model/onnx/onnx_graphs.h"
#include "lib/model/onnx/runnable.h"
#include "lib/model/onnx/taps.h"

namespace hif8 {
namespace {

// The first output that is not left out; -1 when there is none.
int FirstOutput(const onnx::NodeProto& node) {
  for (int i = 0; i < node.output_size(); ++i) {
    if (!node.output(i).empty()) return i;
  }
  return -1;
}

// The node of the written model that computes what the layer's node computes; null where it is no
// longer the same operator.
const onnx::NodeProto* WrittenNode(const OnnxModel::Impl& original, const OnnxModel::Impl& written,
                                   const LayerSite& site, Definition* at) {
  const onnx::NodeProto& node = original.node(site);
  const int output = FirstOutput(node);
  if (output < 0) return nullptr;
  *at = written.scopes->Find(site.scope, node.output(output));
  if (at->kind != Definition::Kind::kNode || at->scope != site.scope) return nullptr;
  const onnx::NodeProto& theirs = written.scopes->Node(*at);
  const bool same = theirs.op_type() == node.op_type() && theirs.input_size() == node.input_size();
  return same ? &theirs : nullptr;
}

class EvaluationBuilder {
 public:
  EvaluationBuilder(const OnnxModel::Impl& original, const OnnxModel::Impl& written)
      : original_(original),
        written_(written),
        edit_(original.proto),
        quantized_edit_(written.proto),
        importer_(original, written, &edit_) {}

  EvaluationGraphs Build() {
    const auto& sites = original_.layer_sites;
    for (size_t i = 0; i < sites.size(); ++i) {
      // Layers of one node stand one after the other.
      size_t end = i + 1;
      while (end < sites.size() && sites[end].scope == sites[i].scope &&
             sites[end].node == sites[i].node) {
        ++end;
      }
      AddNode(static_cast<int>(i), static_cast<int>(end));
      i = end - 1;
    }
    importer_.ImportFunctions();
    EvaluationGraphs graphs;
    graphs.original = MakeRunnable(original_, edit_.Finish());
    graphs.original_taps = std::move(taps_);
    graphs.quantized = MakeRunnable(written_, quantized_edit_.Finish());
    graphs.quantized_taps = std::move(quantized_taps_);
    return graphs;
  }

 private:
  // Taps for layers [begin, end), all of one node.
  void AddNode(int begin, int end) {
    const LayerSite& site = original_.layer_sites[static_cast<size_t>(begin)];
    const onnx::NodeProto& node = original_.node(site);
    Definition at;
    const onnx::NodeProto* theirs = WrittenNode(original_, written_, site, &at);
    if (theirs == nullptr) return;
    const int output = FirstOutput(node);

    onnx::NodeProto local = *theirs;
    bool changed = false;
    for (int i = 0; i < local.input_size(); ++i) {
      local.set_input(i, importer_.Import(site.scope, theirs->input(i), site.node));
      changed = changed || local.input(i) != node.input(i);
    }
    if (!changed) return;
    std::vector<int> quantized;
    for (int layer = begin; layer < end; ++layer) {
      if (original_.layers[static_cast<size_t>(layer)].unsupported.empty()) {
        quantized.push_back(layer);
      }
    }
    if (quantized.empty()) return;
    for (const int layer : quantized) AddActivationTaps(layer, local);
    AddLocal(site, output, std::move(local), quantized);
    AddQuantizedTaps(at, output, quantized);
  }

  void AddActivationTaps(int layer, const onnx::NodeProto& local) {
    const Layer& known = original_.layers[static_cast<size_t>(layer)];
    const LayerSite& site = original_.layer_sites[static_cast<size_t>(layer)];
    const auto add = [&](int activation, int input) {
      if (activation < 0 || local.input(input) == original_.node(site).input(input)) return;
      const std::string read = ActivationTap(activation, local.input(input), site);
      edit_.node(site.scope, site.node).set_input(input, read);
    };
    add(known.activation, site.activation_input);
    add(known.second_activation, site.second_input);
  }

  // What layers read instead of the activation, so that the comparison comes before them.
  std::string ActivationTap(int activation, const std::string& rounded, const LayerSite& reader) {
    std::string& tapped = tapped_[activation];
    if (!tapped.empty()) return tapped;
    const ActivationSite& site = original_.activation_sites[static_cast<size_t>(activation)];
    tapped = edit_.NewName(site.tensor + "_compared");
    std::vector<onnx::NodeProto> nodes;
    AddCompare(site.elem_type, AddTap(&taps_, {TapKind::kActivation, activation}), site.tensor,
               rounded, tapped, &nodes);
    for (onnx::NodeProto& node : nodes) {
      edit_.InsertBefore(reader.scope, reader.node, std::move(node));
    }
    return tapped;
  }

  // The layer once more from what was written, beside the original; the taps take over the name of
  // the output, so that nobody who reads it changes.
  void AddLocal(const LayerSite& site, int output, onnx::NodeProto local,
                const std::vector<int>& layers) {
    onnx::NodeProto& node = edit_.node(site.scope, site.node);
    const std::string y = node.output(output);
    std::string now = edit_.NewName(y + "_raw");
    node.set_output(output, now);
    local.clear_name();
    for (std::string& name : *local.mutable_output()) {
      if (!name.empty()) name = edit_.NewName(name + "_local");
    }
    const std::string other = local.output(output);
    edit_.InsertAfter(site.scope, site.node, std::move(local));
    for (const int layer : layers) {
      const std::string observed = edit_.NewName(y + "_observed");
      const std::string next = layer == layers.back() ? y : edit_.NewName(y + "_compared");
      std::vector<onnx::NodeProto> nodes = {
          MakeTap(kObserveOp, AddTap(&taps_, {TapKind::kLayerOutput, layer}), {now}, observed)};
      AddCompare(site.elem_type, AddTap(&taps_, {TapKind::kOutput, layer}), observed, other, next,
                 &nodes);
      for (onnx::NodeProto& added : nodes) {
        edit_.InsertAfter(site.scope, site.node, std::move(added));
      }
      now = next;
    }
  }

  void AddQuantizedTaps(const Definition& at, int output, const std::vector<int>& layers) {
    onnx::NodeProto& node = quantized_edit_.node(at.scope, at.index);
    const std::string y = node.output(output);
    std::string now = quantized_edit_.NewName(y + "_raw");
    node.set_output(output, now);
    for (const int layer : layers) {
      const std::string next =
          layer == layers.back() ? y : quantized_edit_.NewName(y + "_observed");
      quantized_edit_.InsertAfter(
          at.scope, at.index,
          MakeTap(kObserveOp, AddTap(&quantized_taps_, {TapKind::kLayerOutput, layer}), {now},
                  next));
      now = next;
    }
  }

  // result = x, compared with y. Compare takes fp32 only: other types are converted and compared
  // beside the network, which goes on with x itself.
  void AddCompare(int elem_type, int id, const std::string& x, const std::string& y,
                  const std::string& result, std::vector<onnx::NodeProto>* nodes) {
    if (elem_type == onnx::TensorProto::FLOAT) {
      nodes->push_back(MakeTap(kCompareOp, id, {x, y}, result));
      return;
    }
    const auto cast = [&](const std::string& from, const std::string& to, int type) {
      onnx::NodeProto node = MakeNode("Cast", {from}, {to});
      SetAttribute(&node, "to", type);
      nodes->push_back(std::move(node));
      return to;
    };
    const std::string a = cast(x, edit_.NewName(x + "_fp32"), onnx::TensorProto::FLOAT);
    const std::string b = cast(y, edit_.NewName(y + "_fp32"), onnx::TensorProto::FLOAT);
    const std::string compared = edit_.NewName(x + "_compared_fp32");
    nodes->push_back(MakeTap(kCompareOp, id, {a, b}, compared));
    nodes->push_back(MakeNode("Identity", {x}, {result}));
  }

  static int AddTap(std::vector<Tap>* taps, Tap tap) {
    taps->push_back(tap);
    return static_cast<int>(taps->size()) - 1;
  }

  const OnnxModel::Impl& original_;
  const OnnxModel::Impl& written_;
  GraphEdit edit_;
  GraphEdit quantized_edit_;
  Importer importer_;
  std::vector<Tap> taps_;
  std::vector<Tap> quantized_taps_;
  std::map<int, std::string> tapped_;  // by activation
};

}  // namespace

RunnableGraph BuildPartlyQuantizedGraph(const OnnxModel& original, const OnnxModel& written,
                                        const std::vector<bool>& layers) {
  const OnnxModel::Impl& ours = original.impl();
  const OnnxModel::Impl& theirs = written.impl();
  GraphEdit edit(ours.proto);
  Importer importer(ours, theirs, &edit);
  std::set<std::pair<int, int>> tapped;  // nodes
  for (size_t i = 0; i < ours.layer_sites.size(); ++i) {
    if (!layers.at(i)) continue;
    const LayerSite& site = ours.layer_sites[i];
    Definition at;
    const onnx::NodeProto* node = WrittenNode(ours, theirs, site, &at);
    if (node == nullptr) continue;
    for (const int input : {site.weight_input, site.activation_input, site.second_input}) {
      if (input < 0) continue;
      const std::string name = importer.Import(site.scope, node->input(input), site.node);
      edit.node(site.scope, site.node).set_input(input, name);
    }
    // A tap where the written network has one when it is measured: the engine fuses the same nodes,
    // and rounding ties fall the same way.
    if (!tapped.emplace(site.scope, site.node).second) continue;
    const int output = FirstOutput(ours.node(site));
    onnx::NodeProto& edited = edit.node(site.scope, site.node);
    const std::string y = edited.output(output);
    const std::string raw = edit.NewName(y + "_raw");
    edited.set_output(output, raw);
    edit.InsertAfter(site.scope, site.node, MakeTap(kObserveOp, static_cast<int>(i), {raw}, y));
  }
  importer.ImportFunctions();
  return MakeRunnable(ours, edit.Finish());
}

EvaluationGraphs BuildEvaluationGraphs(const OnnxModel& original,
                                       const std::filesystem::path& written) {
  const auto model = OnnxModel::Load(written / "model.onnx", NullLog());
  return EvaluationBuilder(original.impl(), model->impl()).Build();
}

}  // namespace hif8

#include "apps/hif8-calibrate/calibrate_options.h"

#include <string>
#include <string_view>
#include <utility>

namespace hif8 {
namespace {

using cli::OptionGroup;
using cli::OptionKind;
using cli::OptionSpec;
using Mode = ConfigAssignment::Mode;

// A flag that is another name for a recipe key.
struct RecipeFlag {
  OptionSpec option;
  std::string key;
  Mode mode = Mode::kText;
};

constexpr OptionGroup kIn = OptionGroup::kInput;
constexpr OptionGroup kQuant = OptionGroup::kQuantization;
constexpr OptionGroup kOut = OptionGroup::kOutput;
constexpr OptionGroup kRun = OptionGroup::kRun;

std::vector<RecipeFlag> DataFlags() {
  return {
      {{.name = "samples",
        .kind = OptionKind::kText,
        .group = kIn,
        .value = "N",
        .help = "use the first N samples",
        .default_text = "all",
        .brief = true},
       "data.samples"},
      {{.name = "batch",
        .kind = OptionKind::kText,
        .group = kIn,
        .value = "N",
        .help = "samples per run where the model leaves its batch open; 'all': files as they are",
        .default_text = "1"},
       "data.batch"},
      {{.name = "drop-last",
        .group = kIn,
        .help = "drop the samples that do not fill the model's fixed batch"},
       "data.drop_last"},
      {{.name = "sequence-length",
        .kind = OptionKind::kText,
        .group = kIn,
        .value = "N",
        .help = "tokens per sample of text data",
        .default_text = "512"},
       "data.sequence_length"},
      {{.name = "image-size",
        .kind = OptionKind::kText,
        .group = kIn,
        .value = "H,W",
        .help = "height and width of images where the model leaves them open",
        .default_text = "224,224"},
       "data.image.size",
       Mode::kYaml},
      {{.name = "image-mean",
        .kind = OptionKind::kText,
        .group = kIn,
        .value = "M,M,M",
        .help = "subtracted from each channel, of values in [0, 1]",
        .default_text = "0,0,0"},
       "data.image.mean",
       Mode::kYaml},
      {{.name = "image-std",
        .kind = OptionKind::kText,
        .group = kIn,
        .value = "S,S,S",
        .help = "divides each channel after the mean",
        .default_text = "1,1,1"},
       "data.image.std",
       Mode::kYaml},
      {{.name = "image-layout",
        .kind = OptionKind::kChoice,
        .group = kIn,
        .value = "ORDER",
        .help = "order of the image tensor's dimensions",
        .choices = {"nchw", "nhwc"},
        .default_text = "nchw"},
       "data.image.layout"},
      {{.name = "image-channels",
        .kind = OptionKind::kChoice,
        .group = kIn,
        .value = "ORDER",
        .help = "channels of the image tensor",
        .choices = {"rgb", "bgr", "gray"},
        .default_text = "rgb"},
       "data.image.channels"},
  };
}

std::vector<RecipeFlag> QuantizationFlags() {
  return {
      {{.name = "weight-scale",
        .kind = OptionKind::kText,
        .group = kQuant,
        .value = "RULE",
        .help = "scale rule of weights; --list rules names them",
        .default_text = "max",
        .brief = true},
       "weights.rule"},
      {{.name = "weight-granularity",
        .kind = OptionKind::kText,
        .group = kQuant,
        .value = "KIND",
        .help = "which weights share a scale: tensor, channel, block or group",
        .default_text = "channel"},
       "weights.granularity"},
      {{.name = "weight-target",
        .kind = OptionKind::kText,
        .group = kQuant,
        .value = "X",
        .help = "magnitude that a weight's reference is mapped to",
        .default_text = "16"},
       "weights.target"},
      {{.name = "activation-scale",
        .kind = OptionKind::kText,
        .group = kQuant,
        .value = "RULE",
        .help = "scale rule of activations (--list rules names them), or off: weights only",
        .default_text = "max",
        .brief = true},
       "activations.rule"},
      {{.name = "activation-target",
        .kind = OptionKind::kText,
        .group = kQuant,
        .value = "X",
        .help = "magnitude that an activation's reference is mapped to",
        .default_text = "16"},
       "activations.target"},
      {{.name = "percentile",
        .kind = OptionKind::kText,
        .group = kQuant,
        .value = "P",
        .help = "percent of an activation's magnitudes below the reference of rule percentile",
        .default_text = "99"},
       "activations.percentile"},
      {{.name = "kv-cache",
        .kind = OptionKind::kText,
        .group = kQuant,
        .value = "RULE",
        .help = "scale rule of the KV cache (checkpoints)",
        .default_text = "off"},
       "kv_cache.rule"},
      {{.name = "attention",
        .group = kQuant,
        .help = "also quantize the products of two activations"},
       "attention"},
      {{.name = "high-precision-layers",
        .kind = OptionKind::kText,
        .group = kQuant,
        .value = "N",
        .help = "keep the first and last transformer blocks, N together",
        .default_text = "0"},
       "high_precision_layers"},
      {{.name = "layout",
        .kind = OptionKind::kText,
        .group = kOut,
        .value = "NAME",
        .help = "a checkpoint's names and settings, for the loaders that read them; --list "
                "layouts names them",
        .default_text = "compressed-tensors",
        .brief = true},
       "layout"},
      {{.name = "fused-groups",
        .kind = OptionKind::kChoice,
        .group = kQuant,
        .value = "POLICY",
        .help = "layers that loaders run as one and that are given several schemes",
        .choices = {"complete", "error", "ignore"},
        .default_text = "complete"},
       "fused_groups"},
      {{.name = "keep",
        .kind = OptionKind::kText,
        .group = kQuant,
        .value = "REGEX",
        .help = "leave layers whose name matches in high precision",
        .repeatable = true,
        .brief = true,
        .environment = false},
       "keep",
       Mode::kAppend},
      {{.name = "only",
        .kind = OptionKind::kText,
        .group = kQuant,
        .value = "REGEX",
        .help = "quantize only layers whose name matches",
        .repeatable = true,
        .environment = false},
       "only",
       Mode::kAppend},
  };
}

std::vector<RecipeFlag> RecipeFlags() {
  std::vector<RecipeFlag> flags = DataFlags();
  for (RecipeFlag& flag : QuantizationFlags()) flags.push_back(std::move(flag));
  return flags;
}

std::vector<OptionSpec> InputOptions() {
  return {
      {.name = "MODEL",
       .kind = OptionKind::kPositional,
       .group = kIn,
       .help = "an ONNX file, a checkpoint folder or a .safetensors file",
       .required = true,
       .brief = true},
      {.name = "data",
       .kind = OptionKind::kText,
       .group = kIn,
       .value = "PATH",
       .help = "calibration data: file or folder of .npy, .npz, .safetensors, images, ONNX test "
               "data; random:N for made-up samples",
       .brief = true},
      {.name = "eval-data",
       .kind = OptionKind::kText,
       .group = kIn,
       .value = "PATH",
       .help = "data that errors are measured on",
       .default_text = "the calibration data",
       .brief = true},
      {.name = "activations",
       .kind = OptionKind::kPath,
       .group = kIn,
       .value = "DIR",
       .help =
           "inputs of layers that another program captured (samples/capture), instead of --data",
       .environment = false},
      {.name = "architecture",
       .kind = OptionKind::kPath,
       .group = kIn,
       .value = "FILE",
       .help = "description of a checkpoint's network (docs/bring-your-own-model.md)",
       .default_text = "hif8_architecture.yaml in the model's folder, else the built-in one",
       .environment = false},
      {.name = "stats-in",
       .kind = OptionKind::kPath,
       .group = kIn,
       .value = "FILE",
       .help = "statistics gathered earlier instead of a pass over --data; several are merged",
       .repeatable = true,
       .environment = false},
      {.name = "calibration",
       .kind = OptionKind::kPath,
       .group = kIn,
       .value = "FILE",
       .help = "take activation scales from a calibration.yaml instead of data",
       .environment = false}};
}

std::vector<OptionSpec> OtherOptions() {
  return {
      {.name = "recipe",
       .kind = OptionKind::kText,
       .group = kQuant,
       .value = "NAME|FILE",
       .help = "built-in recipe or YAML file; --list recipes names the built-in ones",
       .default_text = "inference",
       .brief = true},
      {.name = "set",
       .kind = OptionKind::kText,
       .group = kQuant,
       .value = "KEY=VALUE",
       .help = "set any recipe key, such as weights.power_of_two=true",
       .repeatable = true,
       .environment = false},
      {.name = "auto",
       .kind = OptionKind::kText,
       .group = kQuant,
       .value = "GOAL",
       .help = "keep few layers in high precision so that this holds on the evaluation data, such "
               "as 'network_sqnr>=30' or 'loss_gap<=0.1'; exit with code 1 if it cannot be met",
       .environment = false},
      {.name = "delayed-study",
       .group = kQuant,
       .help = "replay every rule of delayed scaling over the calibration samples, and write the "
               "state that training can start from",
       .environment = false},
      {.name = "compare",
       .kind = OptionKind::kText,
       .group = kQuant,
       .value = "LIST",
       .help = "also measure the same operands under these formats, separated by commas, such as "
               "'mxfp8', 'hif8:mse' with another scale rule, 'hif8:all' with every rule, or 'all' "
               "formats"},
      {.name = "output",
       .letter = 'o',
       .kind = OptionKind::kPath,
       .group = kOut,
       .value = "DIR",
       .help = "folder for the quantized model, scales, recipe and report",
       .brief = true,
       .environment = false},
      {.name = "force", .group = kOut, .help = "replace an earlier result", .brief = true},
      {.name = "export",
       .kind = OptionKind::kChoice,
       .group = kOut,
       .value = "FORM",
       .help =
           "codes and scales; the same, an ONNX model's in standard operators instead of functions "
           "(inlined); or decoded weights in the model's own types (simulated)",
       .choices = {"quantized", "inlined", "simulated"},
       .default_text = "quantized"},
      {.name = "shards",
       .kind = OptionKind::kText,
       .group = kOut,
       .value = "K/N",
       .help = "write only part K of N of a checkpoint's files; 'hif8-calibrate merge' joins them",
       .environment = false},
      {.name = "stats-out",
       .kind = OptionKind::kPath,
       .group = kOut,
       .value = "FILE",
       .help = "save the gathered statistics; without -o nothing else is done",
       .environment = false},
      {.name = "dry-run",
       .group = kRun,
       .help = "print the plan, layer by layer, and write nothing",
       .brief = true,
       .environment = false},
      {.name = "fail-if",
       .kind = OptionKind::kText,
       .group = kRun,
       .value = "GATE",
       .help = "exit with code 1 if this holds anywhere, such as 'output_sqnr<20'; the output is "
               "written all the same",
       .repeatable = true,
       .brief = true},
      {.name = "threads",
       .kind = OptionKind::kCount,
       .group = kRun,
       .value = "N",
       .help = "threads to use; 0: one per processor",
       .default_text = "0"},
      {.name = "memory-limit",
       .kind = OptionKind::kSize,
       .group = kRun,
       .value = "SIZE",
       .help = "own memory to stay within, such as 512M or 1.5G; mapped files do not count",
       .default_text = "half of the machine's"},
      {.name = "list",
       .kind = OptionKind::kChoice,
       .group = kRun,
       .value = "WHAT",
       .help = "print the names that other options and recipes know",
       .choices = {"formats", "rules", "recipes", "layouts", "architecture"},
       .environment = false}};
}

}  // namespace

cli::ProgramSpec CalibrateSpec() {
  cli::ProgramSpec spec;
  spec.name = "hif8-calibrate";
  spec.summary = "Quantizes a model to HiF8 with scales chosen on calibration data";
  spec.usage = "[OPTIONS] MODEL -o DIR";
  spec.options = InputOptions();
  for (RecipeFlag& flag : RecipeFlags()) spec.options.push_back(std::move(flag.option));
  for (OptionSpec& option : OtherOptions()) spec.options.push_back(std::move(option));
  spec.generators = {"recipe"};
  for (OptionSpec& option : cli::CommonOptions(spec.generators)) {
    spec.options.push_back(std::move(option));
  }
  spec.examples = {
      {"Weights per channel, activations per tensor, scales from images",
       "hif8-calibrate model.onnx --data photos/ --image-size 48,192 -o out/"},
      {"The plan only: what would be quantized, and why not",
       "hif8-calibrate model.onnx --data calib.npz --dry-run"},
      {"One layer kept, and a gate for a CI job",
       "hif8-calibrate model.onnx --data calib/ -o out/ --keep '^head\\.' "
       "--fail-if 'network_sqnr<15'"},
      {"Weights only, no data needed",
       "hif8-calibrate Qwen3-8B/ -o Qwen3-8B-HiF8/ --recipe weight-only"},
      {"On the first of three machines: its part of the files",
       "hif8-calibrate Qwen3-8B/ -o part1/ --recipe cast --shards 1/3"},
      {"The parts joined (hif8-calibrate merge --help says more)",
       "hif8-calibrate merge part1/ part2/ part3/ -o Qwen3-8B-HiF8/"},
  };
  return spec;
}

RecipeAssignments MakeAssignments(const cli::ParsedOptions& options) {
  RecipeAssignments assignments;
  for (const RecipeFlag& flag : RecipeFlags()) {
    const bool list = flag.mode == Mode::kYaml;
    for (const cli::GivenValue& given : options.All(flag.option.name)) {
      const std::string text = list ? "[" + given.text + "]" : given.text;
      ConfigAssignment assignment{flag.key, text, given.origin, flag.mode};
      (given.from_environment ? assignments.weaker : assignments.stronger)
          .push_back(std::move(assignment));
    }
  }
  for (const std::string& text : options.Texts("set")) {
    assignments.stronger.push_back(ParseSetOption(text));
  }
  return assignments;
}

}  // namespace hif8

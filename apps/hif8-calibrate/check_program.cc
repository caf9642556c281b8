#include "apps/hif8-calibrate/check_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <utility>

#include "formats/builtin.h"
#include "lib/core/error.h"
#include "lib/runtime/reference_check.h"

namespace hif8 {
namespace {

using cli::OptionGroup;
using cli::OptionKind;

cli::ProgramSpec CheckSpec() {
  cli::ProgramSpec spec;
  spec.name = std::string("hif8-calibrate ") + kCheckCommand;
  spec.summary = "Compares a checkpoint's network with a recorded run of it, block by block";
  spec.usage = "MODEL --reference FILE";
  spec.options = {
      {.name = "MODEL",
       .kind = OptionKind::kPositional,
       .group = OptionGroup::kInput,
       .help = "folder of a checkpoint",
       .required = true,
       .brief = true},
      {.name = "architecture",
       .kind = OptionKind::kPath,
       .group = OptionGroup::kInput,
       .value = "FILE",
       .help = "description of the network, instead of hif8_architecture.yaml in the folder or the "
               "built-in one",
       .brief = true,
       .environment = false},
      {.name = "reference",
       .kind = OptionKind::kPath,
       .group = OptionGroup::kInput,
       .value = "FILE",
       .help = "what samples/capture/record_reference.py recorded",
       .brief = true,
       .environment = false},
      {.name = "tolerance",
       .kind = OptionKind::kText,
       .group = OptionGroup::kRun,
       .value = "X",
       .help = "relative difference above which the networks have parted",
       .default_text = "1e-4",
       .environment = false}};
  for (cli::OptionSpec& option : cli::CommonOptions({})) {
    if (option.name != "generate") spec.options.push_back(std::move(option));
  }
  spec.examples = {{"A description tried", spec.name + " Model-7B/ --architecture model.yaml "
                                                       "--reference reference.safetensors"}};
  return spec;
}

double Tolerance(const cli::ParsedOptions& options) {
  if (!options.Has("tolerance")) return 1e-4;
  const std::string text = options.Text("tolerance");
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && value > 0) return value;
  throw UsageError("--tolerance: expected a number above 0, found '" + text + "'",
                   "1e-4 tells the kinds of gelu apart");
}

// Where the networks part: the first input or block that differs.
std::string WhereTheyPart(const ReferenceCheck& check, double tolerance) {
  const auto block = std::find_if(check.blocks.begin(), check.blocks.end(),
                                  [&](double d) { return !(d <= tolerance); });
  const int first = static_cast<int>(block - check.blocks.begin());
  for (const InputCheck& input : check.inputs) {
    if (input.difference() <= tolerance || input.block > first) continue;
    return fmt::format(
        "They part in block {}, before '{}': its input reaches {:.6g}, recorded was "
        "{:.6g}.\n",
        input.block, input.layer, input.found, input.recorded);
  }
  if (block == check.blocks.end()) return "They part behind the last block: final norm or head.\n";
  return fmt::format("They part in block {}{}.\n", first,
                     check.inputs.empty() ? "" : ", behind the inputs of its layers");
}

void Check(const cli::ParsedOptions& options, cli::Console& console) {
  const double tolerance = Tolerance(options);
  if (!options.Has("reference")) {
    throw UsageError("check needs --reference FILE",
                     "samples/capture/record_reference.py records one");
  }
  std::optional<Description> description;
  if (options.Has("architecture")) description = ReadDescription(options.Text("architecture"));
  const auto checkpoint =
      Checkpoint::Open(options.Text("MODEL"), StoredFormats(), {}, false, std::move(description));
  const ReferenceCheck check =
      CheckReference(checkpoint, options.Text("reference"), BuiltinFormats(), console.log());
  std::string text;
  double worst = check.logits;
  for (size_t b = 0; b < check.blocks.size(); ++b) {
    text += fmt::format("block {:<4} {:.1e}\n", b, check.blocks[b]);
    worst = std::max(worst, check.blocks[b]);
  }
  text += fmt::format("logits     {:.1e}\n", check.logits);
  double inputs = 0;
  for (const InputCheck& input : check.inputs) inputs = std::max(inputs, input.difference());
  if (!check.inputs.empty()) {
    text += fmt::format("inputs     {:.1e} (largest magnitudes of {} layers)\n", inputs,
                        check.inputs.size());
  }
  const bool good = worst <= tolerance && inputs <= tolerance;
  text += good ? "The networks agree.\n" : WhereTheyPart(check, tolerance);
  console.Print(text);
  if (!good) {
    throw Error(ErrorCode::kGate,
                fmt::format("expected differences up to {:.1e}, found {:.1e}", tolerance,
                            std::max(worst, inputs)),
                "compare what the description says of that block with the model's code",
                options.Text("MODEL"));
  }
}

}  // namespace

cli::Program CheckProgram() { return {CheckSpec(), Check, nullptr, nullptr}; }

}  // namespace hif8

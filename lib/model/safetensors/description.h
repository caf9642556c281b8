// Descriptions of model families: YAML in a closed vocabulary that says what the blocks of a
// checkpoint compute, how its tensors are named and which keys of config.json say how much.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/model/safetensors/expression.h"

namespace hif8 {

class DescriptionValues;
struct DecoderSpec;

// Says what a key of the vocabulary stands for.
enum class KeyKind {
  kNumber,
  kInteger,  // 0 or more
  kSize,     // 1 or more
  kBool,
  kBlocks,      // true or false for every block
  kBlockTypes,  // a word for every block
  kChoice,      // one of `choices`
  kName         // a module, a tensor or the beginning of their names; none
};

struct DescriptionKey {
  std::string name;  // "attention.kv_heads"
  KeyKind kind;
  std::string usual;  // value where a description does not say
  std::string help;
  std::vector<std::string> choices;
  // Puts the value into its field, where the network has it; null: others refer to it only.
  std::function<void(DescriptionValues& values, DecoderSpec* spec)> fill;
};

// Returns the vocabulary, in the order of the documentation.
std::span<const DescriptionKey> DescriptionKeys();
// Returns null when there is no such key.
const DescriptionKey* FindDescriptionKey(std::string_view name);
// Returns "a number", "one of rms, layer": what is expected of the key's value.
std::string ExpectedText(const DescriptionKey& key);

struct Description {
  std::string source;                    // file, for errors
  std::vector<std::string> model_types;  // as config.json has them
  std::string config;                 // the object of config.json with the keys; empty: all of it
  std::vector<std::string> prefixes;  // that the decoder's tensors may have
  std::map<std::string, Expression> values;
};

// Throws kUsage with everything that is wrong, by line and column.
Description ParseDescription(std::string_view yaml, const std::string& source);
Description ReadDescription(const std::filesystem::path& file);

// Returns the descriptions that are compiled in.
std::span<const Description> BuiltinDescriptions();
// Returns all of their model types, separated by commas.
std::string KnownModelTypes();

}  // namespace hif8

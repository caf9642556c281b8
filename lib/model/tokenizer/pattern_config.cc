#include "lib/model/tokenizer/pattern_config.h"

namespace hif8 {

SplitRegex MakePattern(const JsonView& config) {
  const std::string& where = config.file();
  if (const auto text = config.Find("String")) return SplitRegex::Literal(text->String(), where);
  if (const auto regex = config.Find("Regex")) return {regex->String(), where};
  throw config.Fail("expected a String or a Regex");
}

Error RefuseComponent(const JsonView& config, const std::string& kind, const std::string& name,
                      const std::string& supported) {
  return config.Fail("the " + kind + " '" + name + "' is not supported; " + supported + " are",
                     "give the data as token ids (.npy, or .jsonl with input_ids)");
}

}  // namespace hif8

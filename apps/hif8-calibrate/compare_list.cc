#include "apps/hif8-calibrate/compare_list.h"

#include <algorithm>
#include <sstream>

#include "lib/core/error.h"

namespace hif8 {
namespace {

class ListParser {
 public:
  explicit ListParser(const ParseContext& context) : context_(context) {
    Add(context_.formats.names().front());
  }

  std::vector<FormatChoice> Parse(const std::string& text) {
    std::istringstream list(text);
    for (std::string entry; std::getline(list, entry, ',');) {
      const size_t colon = entry.find(':');
      if (colon != std::string::npos) {
        AddRule(entry.substr(0, colon), entry.substr(colon + 1));
      } else if (entry == "all") {
        for (const std::string& name : context_.formats.names()) Add(name);
      } else {
        Add(entry);
      }
    }
    return std::move(choices_);
  }

 private:
  void AddRule(const std::string& format, const std::string& rule) {
    if (context_.formats.Get(format).ScalesFollowAmax()) {
      throw UsageError("--compare: '" + format + ":" + rule + "': the scales of " + format +
                           " follow from the largest magnitude of each group, whatever the rule",
                       "give '" + format + "'");
    }
    if (rule != "all") return Add(format, &context_.rules.Get(rule));
    for (const std::string& name : context_.rules.names()) Add(format, &context_.rules.Get(name));
  }

  void Add(const std::string& format, const Calibrator* rule = nullptr) {
    const FormatChoice choice{&context_.formats.Get(format), rule};
    const bool known = std::any_of(choices_.begin(), choices_.end(), [&](const FormatChoice& c) {
      return c.format == choice.format && c.rule == choice.rule;
    });
    if (!known) choices_.push_back(choice);
  }

  const ParseContext& context_;
  std::vector<FormatChoice> choices_;
};

}  // namespace

std::vector<FormatChoice> ParseCompareList(const std::string& text, const ParseContext& context) {
  return ListParser(context).Parse(text);
}

}  // namespace hif8

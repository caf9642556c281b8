#include "lib/yaml/yaml_text.h"

#include <yaml-cpp/eventhandler.h>

#include <exception>
#include <set>
#include <sstream>

namespace hif8 {
namespace {

// Where a document starts; everything else about it is of no interest.
class StartHandler : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark& mark) override { start = mark; }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t,
                const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}

  YAML::Mark start;
};

}  // namespace

void Diagnostics::ThrowIfAny() const {
  if (errors_.empty()) return;
  Error all = errors_.front();
  for (size_t i = 1; i < errors_.size(); ++i) all.Add(errors_[i]);
  throw all;
}

std::string Source::At(const YAML::Mark& mark) const {
  if (!has_positions) return name;
  if (mark.line < 0) return name + ":1:1";
  return name + ":" + std::to_string(mark.line + 1) + ":" + std::to_string(mark.column + 1);
}

std::string FoundText(const YAML::Node& node) {
  if (node.IsScalar()) return "'" + Shortened(node.Scalar()) + "'";
  if (node.IsSequence()) return "a list of " + std::to_string(node.size());
  if (node.IsMap()) return "a mapping";
  return "nothing";
}

std::string Shortened(const std::string& text) {
  return text.size() <= 60 ? text : text.substr(0, 57) + "...";
}

bool IsPlainScalar(const YAML::Node& node) { return node.IsScalar() && node.Tag() != "!"; }

// YAML::LoadAll would not do: on some damaged input it finds documents without end.
bool ParseYaml(const std::string& text, const std::string& what, const Source& source,
               Diagnostics& diagnostics, YAML::Node* root) {
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    StartHandler handler;
    if (parser.HandleNextDocument(handler) && parser.HandleNextDocument(handler)) {
      diagnostics.Add(
          source.At(handler.start), "a second YAML document, or text outside of any",
          "a " + what + " is one document: remove the line --- or what does not belong");
      return false;
    }
    *root = YAML::Load(text);
    return true;
  } catch (const YAML::Exception& error) {
    diagnostics.Add(source.At(error.mark), "not valid YAML: " + error.msg,
                    "check indentation, brackets and quotes there");
  } catch (const std::exception& error) {
    diagnostics.Add(source.At({}), std::string("not valid YAML: ") + error.what(),
                    "correct the file, or begin with one that is built in");
  }
  return false;
}

void ForEachKey(const YAML::Node& map, const Source& source, Diagnostics& diagnostics,
                const VisitKey& visit) {
  std::set<std::string> seen;
  for (const auto& item : map) {
    const std::string where = source.At(item.first.Mark());
    if (!item.first.IsScalar()) {
      diagnostics.Add(where, "a key must be text, found " + FoundText(item.first),
                      "write 'name: value'");
    } else if (!seen.insert(item.first.Scalar()).second) {
      diagnostics.Add(where,
                      "the key '" + Shortened(item.first.Scalar()) + "' stands here a second time",
                      "keep one of them");
    } else {
      visit(item.first.Scalar(), item.second, where);
    }
  }
}

}  // namespace hif8

#include "lib/model/tokenizer/post_processor.h"

#include <string>
#include <utility>

#include "lib/model/tokenizer/pattern_config.h"

namespace hif8 {
namespace {

using Ids = std::vector<int32_t>;

void AppendSpecial(const JsonView& config, const JsonView& special, Ids* ids) {
  for (const JsonView& id :
       config.Get("special_tokens").Get(special.Get("id").String()).Get("ids").Items()) {
    ids->push_back(id.Id());
  }
}

// Special tokens before and behind the one sequence ($A) of the template `single`.
PostProcessor MakeTemplate(const JsonView& config) {
  Ids before;
  Ids behind;
  bool seen = false;
  for (const JsonView& item : config.Get("single").Items()) {
    if (const auto special = item.Find("SpecialToken")) {
      AppendSpecial(config, *special, seen ? &behind : &before);
    } else if (item.Get("Sequence").Get("id").String() == "A" && !seen) {
      seen = true;
    } else {
      throw item.Fail("expected the sequence A, once");
    }
  }
  if (!seen) throw config.Get("single").Fail("expected the sequence A, found only special tokens");
  return [before, behind](const Ids& ids) {
    Ids all = before;
    all.insert(all.end(), ids.begin(), ids.end());
    all.insert(all.end(), behind.begin(), behind.end());
    return all;
  };
}

// The token `cls` before and `sep` behind, each a pair of text and id.
PostProcessor MakeBert(const JsonView& config) {
  const auto id = [&](const char* key) {
    const std::vector<JsonView> pair = config.Get(key).Items();
    if (pair.size() != 2) throw config.Get(key).Fail("expected a token and its id");
    return pair[1].Id();
  };
  const int32_t before = id("cls");
  const int32_t behind = id("sep");
  return [before, behind](Ids ids) {
    ids.insert(ids.begin(), before);
    ids.push_back(behind);
    return ids;
  };
}

PostProcessor MakeSequence(const JsonView& config) {
  std::vector<PostProcessor> steps;
  for (const JsonView& item : config.Get("processors").Items()) {
    steps.push_back(MakePostProcessor(item));
  }
  return [steps = std::move(steps)](Ids ids) {
    for (const PostProcessor& step : steps) {
      if (step) ids = step(std::move(ids));
    }
    return ids;
  };
}

}  // namespace

PostProcessor MakePostProcessor(const std::optional<JsonView>& config) {
  if (!config || config->IsNull()) return nullptr;
  const std::string& type = config->Get("type").String();
  if (type == "ByteLevel") return nullptr;
  if (type == "TemplateProcessing") return MakeTemplate(*config);
  if (type == "BertProcessing" || type == "RobertaProcessing") return MakeBert(*config);
  if (type == "Sequence") return MakeSequence(*config);
  throw RefuseComponent(
      *config, "post-processor", type,
      "TemplateProcessing, BertProcessing, RobertaProcessing, ByteLevel and Sequence");
}

}  // namespace hif8

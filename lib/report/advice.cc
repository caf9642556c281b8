#include "lib/report/advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "lib/core/error.h"
#include "lib/core/pattern.h"
#include "lib/report/text_util.h"

namespace hif8 {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kWorthwhile = 0.1;  // dB

// A choice's format and rule.
using Choice = std::pair<std::string, std::string>;
// One operand of one layer under every choice, in the report's order.
struct Row {
  std::string layer, operand;
  std::vector<ComparedChoice> choices;
};

std::vector<Row> Rows(const Report& report) {
  std::vector<Row> rows;
  for (const ComparisonReport& compared : report.comparisons) {
    if (!compared.sqnr_db) continue;
    const auto same = [&](const Row& row) {
      return row.layer == compared.layer && row.operand == compared.operand;
    };
    // Rows of one operand stand together.
    if (rows.empty() || !same(rows.back())) rows.push_back({compared.layer, compared.operand, {}});
    const size_t colon = compared.format.find(':');
    const std::string rule = colon == std::string::npos ? "" : compared.format.substr(colon + 1);
    rows.back().choices.push_back({compared.format.substr(0, colon), rule, *compared.sqnr_db});
  }
  return rows;
}

// The format that the operand was written in, of an output both of its layer's operands; empty
// where there is no such, or the report does not say.
std::string WrittenFormat(const Report& report, const std::string& layer,
                          const std::string& operand) {
  for (const LayerReport& entry : report.layers) {
    if (entry.name != layer) continue;
    const auto& found = operand == "activation" ? entry.activation : entry.weight;
    const bool mixed = operand == "output" && entry.weight && entry.activation &&
                       entry.weight->format != entry.activation->format;
    return found && !mixed ? found->format : "";
  }
  for (const KvCacheReport& entry : report.kv_cache) {
    if (!layer.starts_with(entry.name)) continue;
    const auto& found = operand == "k" ? entry.k : entry.v;
    return found ? found->format : "";
  }
  return "";
}

const ComparedChoice* Find(const Row& row, const std::string& format, const std::string& rule) {
  for (const ComparedChoice& choice : row.choices) {
    if (choice.format == format && choice.rule == rule) return &choice;
  }
  return nullptr;
}

// Null where what was written is not among the choices.
const ComparedChoice* Written(const Report& report, const Row& row) {
  return Find(row, WrittenFormat(report, row.layer, row.operand), "");
}

// The recipe's names of what makes up an operand.
std::vector<std::string> KeysOf(const std::string& operand) {
  if (operand == "weight") return {"weights"};
  if (operand == "activation") return {"activations"};
  if (operand == "output") return {"weights", "activations"};
  return {"kv_cache"};
}

std::string Flags(const std::string& operand, const ComparedChoice& now,
                  const ComparedChoice& better) {
  std::string flags;
  for (const std::string& key : KeysOf(operand)) {
    if (better.format != now.format) flags += " --set " + key + ".format=" + better.format;
    if (!better.rule.empty()) flags += " --set " + key + ".rule=" + better.rule;
  }
  return flags.substr(std::min<size_t>(flags.size(), 1));
}

// An entry of `overrides`; the cache has no settings by layer.
std::string Entry(const std::string& layer, const std::string& operand, const ComparedChoice& now,
                  const ComparedChoice& better) {
  if (KeysOf(operand).front() == "kv_cache") return Flags(operand, now, better);
  std::string pattern;
  for (const char c : ExactPattern(layer)) pattern += c == '\'' ? "''" : std::string(1, c);
  std::string entry = "- {match: '" + pattern + "'";
  for (const std::string& key : KeysOf(operand)) {
    entry += ", " + key + ": {";
    if (better.format != now.format) entry += "format: " + better.format;
    if (better.format != now.format && !better.rule.empty()) entry += ", ";
    if (!better.rule.empty()) entry += "rule: " + better.rule;
    entry += "}";
  }
  return entry + "}";
}

// The choice with the largest mean over the layers of an operand, if it beats what was written.
std::optional<Advice> ForAll(const Report& report, const std::vector<Row>& rows,
                             const std::string& operand) {
  std::map<Choice, std::pair<double, size_t>> sums;
  std::vector<Choice> order;
  std::map<Choice, size_t> written;
  size_t layers = 0;
  for (const Row& row : rows) {
    if (row.operand != operand) continue;
    const bool finite = std::all_of(row.choices.begin(), row.choices.end(),
                                    [](const auto& c) { return std::isfinite(c.sqnr_db); });
    if (!finite) continue;
    ++layers;
    const ComparedChoice* now = Written(report, row);
    ++written[{now->format, now->rule}];
    for (const ComparedChoice& choice : row.choices) {
      const Choice key{choice.format, choice.rule};
      if (!sums.contains(key)) order.push_back(key);
      sums[key].first += choice.sqnr_db;
      ++sums[key].second;
    }
  }
  if (written.size() != 1) return std::nullopt;  // none, or a mixed recipe
  const Choice now = written.begin()->first;
  Choice best = now;
  for (const Choice& choice : order) {
    if (sums[choice].second == layers && sums[choice].first > sums[best].first) best = choice;
  }
  const auto mean = [&](const Choice& choice) {
    return ComparedChoice{choice.first, choice.second,
                          sums[choice].first / static_cast<double>(layers)};
  };
  Advice advice{"", operand, mean(now), mean(best), 0, ""};
  advice.gain_db = advice.better.sqnr_db - advice.now.sqnr_db;
  advice.how = Flags(operand, advice.now, advice.better);
  return advice.gain_db < kWorthwhile ? std::nullopt : std::optional(advice);
}

}  // namespace

std::string ComparedChoice::Name() const { return rule.empty() ? format : format + ":" + rule; }

std::vector<Advice> Advise(const Report& report, size_t top) {
  std::vector<Row> rows = Rows(report);
  if (rows.empty()) {
    throw UsageError(
        "the report compares nothing that advice could be drawn from",
        "run hif8-calibrate again with --compare all, or with the names of formats and rules, such "
        "as --compare mxfp8,hif8:mse");
  }
  std::erase_if(rows, [&](const Row& row) { return Written(report, row) == nullptr; });
  std::vector<Advice> all;
  for (const char* operand : {"weight", "activation", "k", "v", "output"}) {
    if (std::optional<Advice> advice = ForAll(report, rows, operand)) {
      all.push_back(std::move(*advice));
    }
  }
  std::vector<Advice> single;
  for (const Row& row : rows) {
    const ComparedChoice& now = *Written(report, row);
    const auto best =
        std::max_element(row.choices.begin(), row.choices.end(),
                         [](const auto& a, const auto& b) { return a.sqnr_db < b.sqnr_db; });
    double reached = now.sqnr_db;  // with the advice for all
    for (const Advice& advice : all) {
      if (advice.operand != row.operand) continue;
      const auto* found = Find(row, advice.better.format, advice.better.rule);
      if (found != nullptr) reached = std::max(reached, found->sqnr_db);
    }
    if (!(best->sqnr_db - reached >= kWorthwhile)) continue;
    single.push_back({row.layer, row.operand, now, *best, best->sqnr_db - now.sqnr_db,
                      Entry(row.layer, row.operand, now, *best)});
  }
  std::stable_sort(single.begin(), single.end(),
                   [](const Advice& a, const Advice& b) { return a.gain_db > b.gain_db; });
  if (top > 0 && single.size() > top) single.resize(top);
  all.insert(all.end(), std::make_move_iterator(single.begin()),
             std::make_move_iterator(single.end()));
  return all;
}

std::string AdviceText(const std::vector<Advice>& advice) {
  if (advice.empty()) return "nothing that was compared is better by 0.1 dB or more\n";
  std::string text;
  bool overrides = false;
  for (const Advice& entry : advice) {
    const std::string where = entry.layer.empty() ? "all layers (mean)" : CleanText(entry.layer);
    text += fmt::format("{}, {}: {} has {} dB, {} has {} dB: +{} dB\n", where, entry.operand,
                        entry.now.Name(), DecibelText(entry.now.sqnr_db), entry.better.Name(),
                        DecibelText(entry.better.sqnr_db), DecibelText(entry.gain_db));
    text += "    " + CleanText(entry.how) + "\n";
    overrides |= entry.how.starts_with("- ");
  }
  if (overrides) text += "\nlines that begin with '- ' go below 'overrides:' of a recipe\n";
  return text;
}

std::string AdviceJson(const std::vector<Advice>& advice) {
  const auto number = [](double v) {
    return std::isinf(v) ? Json(v > 0 ? "inf" : "-inf") : Json(v);
  };
  const auto choice = [&](const ComparedChoice& c) {
    return Json{{"format", c.format}, {"rule", c.rule}, {"sqnr_db", number(c.sqnr_db)}};
  };
  Json list = Json::array();
  for (const Advice& entry : advice) {
    list.push_back({{"layer", entry.layer},
                    {"operand", entry.operand},
                    {"now", choice(entry.now)},
                    {"better", choice(entry.better)},
                    {"gain_db", number(entry.gain_db)},
                    {"how", entry.how}});
  }
  return Json{{"advice", list}}.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace hif8

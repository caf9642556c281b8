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
// One operand of one layer, or of all that share it, under every choice, in the report's order.
struct Row {
  std::vector<std::string> layers;
  std::string operand;
  std::vector<ComparedChoice> choices;
};

std::vector<Row> Rows(const Report& report) {
  std::vector<Row> rows;
  for (const ComparisonReport& compared : report.comparisons) {
    if (!compared.sqnr_db) continue;
    const auto same = [&](const Row& row) {
      return row.layers.front() == compared.layer && row.operand == compared.operand;
    };
    // Rows of one operand stand together.
    if (rows.empty() || !same(rows.back()))
      rows.push_back({{compared.layer}, compared.operand, {}});
    const size_t colon = compared.format.find(':');
    const std::string rule = colon == std::string::npos ? "" : compared.format.substr(colon + 1);
    rows.back().choices.push_back({compared.format.substr(0, colon), rule, *compared.sqnr_db});
  }
  return rows;
}

const ComparedChoice* Find(const Row& row, const std::string& format, const std::string& rule) {
  for (const ComparedChoice& choice : row.choices) {
    if (choice.format == format && choice.rule == rule) return &choice;
  }
  return nullptr;
}

// What one layer alone cannot change: an operand with the same numbers everywhere is one tensor,
// and the input is part of an output.
std::vector<Row> JoinShared(const std::vector<Row>& rows) {
  using Numbers = std::vector<double>;
  const auto numbers = [](const Row& row) {
    Numbers all;
    for (const ComparedChoice& choice : row.choices) all.push_back(choice.sqnr_db);
    return all;
  };
  std::map<std::string, Numbers> inputs;  // by layer
  for (const Row& row : rows) {
    if (row.operand == "activation") inputs[row.layers.front()] = numbers(row);
  }
  std::vector<Row> joined;
  std::map<std::pair<std::string, Numbers>, size_t> known;
  for (const Row& row : rows) {
    const auto input = inputs.find(row.layers.front());
    const bool whole = row.operand == "output";
    if (whole && input == inputs.end()) {
      joined.push_back(row);
      continue;
    }
    const std::pair key(row.operand, whole ? input->second : numbers(row));
    const auto [at, added] = known.emplace(key, joined.size());
    if (added) {
      joined.push_back(row);
      continue;
    }
    Row& first = joined[at->second];
    const auto before = static_cast<double>(first.layers.size());
    first.layers.push_back(row.layers.front());
    std::erase_if(first.choices, [&](const auto& c) { return !Find(row, c.format, c.rule); });
    for (ComparedChoice& choice : first.choices) {
      const double more = Find(row, choice.format, choice.rule)->sqnr_db;
      if (choice.sqnr_db == more) continue;
      choice.sqnr_db = (choice.sqnr_db * before + more) / (before + 1);
    }
  }
  return joined;
}

// What was written of the operand, of an output both of its layer's operands.
std::vector<const OperandReport*> WrittenOperands(const Report& report, const std::string& layer,
                                                  const std::string& operand) {
  std::vector<const OperandReport*> found;
  const auto add = [&](const std::optional<OperandReport>& written) {
    if (written) found.push_back(&*written);
  };
  for (const LayerReport& entry : report.layers) {
    if (entry.name != layer) continue;
    if (operand != "activation") add(entry.weight);
    if (operand != "weight") add(entry.activation);
    return found;
  }
  for (const KvCacheReport& entry : report.kv_cache) {
    if (!layer.starts_with(entry.name)) continue;
    add(operand == "k" ? entry.k : entry.v);
    break;
  }
  return found;
}

// Empty where the report does not say, or operands differ.
std::string WrittenFormat(const Report& report, const std::string& layer,
                          const std::string& operand) {
  const auto written = WrittenOperands(report, layer, operand);
  if (written.empty() || written.front()->format != written.back()->format) return "";
  return written.front()->format;
}

// Null where what was written is not among the choices, or not the same for all.
const ComparedChoice* Written(const Report& report, const Row& row) {
  const std::string format = WrittenFormat(report, row.layers.front(), row.operand);
  const bool same = std::all_of(row.layers.begin(), row.layers.end(), [&](const auto& layer) {
    return WrittenFormat(report, layer, row.operand) == format;
  });
  return same ? Find(row, format, "") : nullptr;
}

// The recipe's names of what makes up an operand.
std::vector<std::string> KeysOf(const std::string& operand) {
  if (operand == "weight") return {"weights"};
  if (operand == "activation") return {"activations"};
  if (operand == "output") return {"weights", "activations"};
  return {"kv_cache"};
}

// What the recipe must say so that the program takes the choice: some formats have scales that
// follow from the largest magnitude alone.
std::string RuleOf(const std::string& key, const ComparedChoice& choice,
                   const FormatRegistry& formats) {
  const NumberFormat* format = formats.Find(choice.format);
  if (format == nullptr || !format->storage().tiled) return choice.rule;
  const bool by_magnitude = key == "activations" || format->ScalesFollowAmax();
  return by_magnitude ? "max" : choice.rule;
}

// "KEY=VALUE" of every setting of an operand that differs from what was written.
std::vector<std::string> Settings(const std::string& key, const ComparedChoice& now,
                                  const ComparedChoice& better, const FormatRegistry& formats) {
  std::vector<std::string> settings;
  const std::string rule = RuleOf(key, better, formats);
  if (better.format != now.format) settings.push_back("format=" + better.format);
  if (!rule.empty()) settings.push_back("rule=" + rule);
  return settings;
}

std::string Flags(const std::string& operand, const ComparedChoice& now,
                  const ComparedChoice& better, const FormatRegistry& formats) {
  std::string flags;
  for (const std::string& key : KeysOf(operand)) {
    for (const std::string& setting : Settings(key, now, better, formats)) {
      flags += (flags.empty() ? "--set " : " --set ") + key + "." + setting;
    }
  }
  return flags;
}

// That matches these names only.
std::string PatternOf(const std::vector<std::string>& layers) {
  if (layers.size() == 1) return ExactPattern(layers.front());
  std::string pattern;
  for (const std::string& layer : layers) {
    const std::string exact = ExactPattern(layer);
    pattern += (pattern.empty() ? "^(" : "|") + exact.substr(1, exact.size() - 2);
  }
  return pattern + ")$";
}

// An entry of `overrides`; the cache has no settings by layer.
std::string Entry(const Row& row, const ComparedChoice& now, const ComparedChoice& better,
                  const FormatRegistry& formats) {
  if (KeysOf(row.operand).front() == "kv_cache") return Flags(row.operand, now, better, formats);
  std::string pattern;
  for (const char c : PatternOf(row.layers)) pattern += c == '\'' ? "''" : std::string(1, c);
  std::string entry = "- {match: '" + pattern + "'";
  for (const std::string& key : KeysOf(row.operand)) {
    std::string settings;
    for (std::string setting : Settings(key, now, better, formats)) {
      setting.replace(setting.find('='), 1, ": ");
      settings += (settings.empty() ? "" : ", ") + setting;
    }
    entry += ", " + key + ": {" + settings + "}";
  }
  return entry + "}";
}

// Whether a flag reaches all layers: an override with a rule of its own would keep that.
bool FlagsReachAll(const Report& report, const std::vector<Row>& rows, const std::string& operand,
                   const ComparedChoice& better, const FormatRegistry& formats) {
  std::map<std::string, std::string> rules;  // by key
  const std::vector<std::string> keys = KeysOf(operand);
  for (const Row& row : rows) {
    if (row.operand != operand) continue;
    const auto written = WrittenOperands(report, row.layers.front(), operand);
    for (size_t i = 0; i < std::min(written.size(), keys.size()); ++i) {
      if (RuleOf(keys[i], better, formats) == better.rule) continue;
      const auto [known, added] = rules.emplace(keys[i], written[i]->scale_rule);
      if (known->second != written[i]->scale_rule) return false;
    }
  }
  return true;
}

// The choice with the largest mean over the layers of an operand, if it beats what was written.
std::optional<Advice> ForAll(const Report& report, const std::vector<Row>& rows,
                             const std::string& operand, const FormatRegistry& formats) {
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
  advice.how = Flags(operand, advice.now, advice.better, formats);
  const bool good =
      advice.gain_db >= kWorthwhile && FlagsReachAll(report, rows, operand, advice.better, formats);
  return good ? std::optional(advice) : std::nullopt;
}

}  // namespace

std::string ComparedChoice::Name() const { return rule.empty() ? format : format + ":" + rule; }

std::vector<Advice> Advise(const Report& report, const FormatRegistry& formats, size_t top) {
  std::vector<Row> rows = Rows(report);
  if (rows.empty()) {
    throw UsageError(
        "the report compares nothing that advice could be drawn from",
        "run hif8-calibrate again with --compare all, or with names of formats and rules, such as "
        "--compare FORMAT,FORMAT:RULE");
  }
  std::erase_if(rows, [&](const Row& row) { return Written(report, row) == nullptr; });
  std::vector<Advice> all;
  for (const char* operand : {"weight", "activation", "k", "v", "output"}) {
    if (std::optional<Advice> advice = ForAll(report, rows, operand, formats)) {
      all.push_back(std::move(*advice));
    }
  }
  std::vector<Advice> single;
  for (const Row& row : JoinShared(rows)) {
    const ComparedChoice* written = Written(report, row);
    if (written == nullptr) continue;
    const ComparedChoice& now = *written;
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
    std::string names;
    for (const std::string& layer : row.layers) names += (names.empty() ? "" : ", ") + layer;
    single.push_back({names, row.operand, now, *best, best->sqnr_db - now.sqnr_db,
                      Entry(row, now, *best, formats)});
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
  return CleanJson(Json{{"advice", list}}.dump(2, ' ', false, Json::error_handler_t::replace)) +
         "\n";
}

}  // namespace hif8

#include <cmath>
#include <concepts>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <type_traits>
#include <utility>

#include "lib/core/error.h"
#include "lib/core/input_file.h"
#include "lib/report/json_number.h"
#include "lib/report/report.h"
#include "lib/report/report_fields.h"
#include "lib/report/text_util.h"

namespace hif8 {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::string_view kStatus = "status";
const char* const kStatusNames[] = {"kept", "quantized"};

template <typename T>
Json ToJson(const T& value);
template <typename T>
Json ToJson(const std::vector<T>& list);

Json ToJson(const Measured& value) { return NumberJson(value); }

template <typename T>
Json ToJson(const std::optional<T>& value) {
  return value ? ToJson(*value) : Json(nullptr);
}

template <typename T>
Json ToJson(const std::vector<T>& list) {
  Json array = Json::array();
  for (const T& item : list) array.push_back(ToJson(item));
  return array;
}

Json ToJson(const std::map<std::string, double>& map) {
  Json object = Json::object();
  for (const auto& [key, value] : map) object[key] = ToJson(Measured(value));
  return object;
}

template <typename T>
Json ToJson(const T& value) {
  if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
    return value;
  } else {
    Json object = Json::object();
    Fields(value, [&](const char* name, const auto& member) {
      if constexpr (std::is_same_v<std::remove_cvref_t<decltype(member)>, bool>) {
        object[name] = kStatus == name ? Json(kStatusNames[member ? 1 : 0]) : Json(member);
      } else {
        object[name] = ToJson(member);
      }
    });
    return object;
  }
}

std::string Found(const Json& json) {
  if (json.is_object()) return "an object";
  if (json.is_array()) return "a list";
  const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  return text.size() <= 60 ? text : text.substr(0, 57) + "...";
}

// Reads values at a place in the document, which errors name as a JSON pointer.
class Reader {
 public:
  explicit Reader(std::string source) : source_(std::move(source)) {}

  [[noreturn]] void Fail(const std::string& pointer, const std::string& message) const {
    throw ModelError(message,
                     "reports are written by hif8-calibrate; docs/report.md describes them",
                     source_ + "#" + pointer);
  }
  [[noreturn]] void FailType(const std::string& pointer, const std::string& expected,
                             const Json& json) const {
    Fail(pointer, "expected " + expected + ", found " + Found(json));
  }

  void Read(const Json& json, const std::string& at, std::string& value) const {
    if (!json.is_string()) FailType(at, "text", json);
    value = json.get<std::string>();
  }
  void Read(const Json& json, const std::string& at, bool& value) const {
    if (at.ends_with("/status")) {
      if (json != kStatusNames[0] && json != kStatusNames[1]) {
        FailType(at, "\"quantized\" or \"kept\"", json);
      }
      value = json == kStatusNames[1];
    } else {
      if (!json.is_boolean()) FailType(at, "true or false", json);
      value = json.get<bool>();
    }
  }
  void Read(const Json& json, const std::string& at, int64_t& value) const {
    const bool fits =
        json.is_number_integer() &&
        (!json.is_number_unsigned() || json.get<uint64_t>() <= std::numeric_limits<int64_t>::max());
    if (!fits || json.get<int64_t>() < 0) FailType(at, "a count", json);
    value = json.get<int64_t>();
  }
  void Read(const Json& json, const std::string& at, int& value) const {
    constexpr int kMost = 1024;  // beyond every exponent
    const bool fits = json.is_number_integer() && json >= -kMost && json <= kMost;
    if (!fits) FailType(at, "a small whole number", json);
    value = json.get<int>();
  }
  void Read(const Json& json, const std::string& at, Measured& value) const {
    value.reset();
    if (json.is_null()) return;
    if (json == "inf" || json == "-inf") {
      value = json == "inf" ? kInfinity : -kInfinity;
    } else if (json.is_number()) {
      value = json.get<double>();
    } else {
      FailType(at, "a number, \"inf\" or null", json);
    }
    CheckRange(at, *value, json);
  }
  template <typename T>
  void Read(const Json& json, const std::string& at, std::optional<T>& value) const {
    value.reset();
    if (!json.is_null()) Read(json, at, value.emplace());
  }
  template <typename T>
  void Read(const Json& json, const std::string& at, std::vector<T>& list) const {
    if (!json.is_array()) FailType(at, "a list", json);
    list.resize(json.size());
    for (size_t i = 0; i < list.size(); ++i) Read(json[i], at + "/" + std::to_string(i), list[i]);
  }
  void Read(const Json& json, const std::string& at, std::map<std::string, double>& map) const {
    if (!json.is_object()) FailType(at, "an object", json);
    for (const auto& [key, item] : json.items()) {
      if (!item.is_number()) FailType(at + "/" + key, "a number", item);
      map[key] = item.get<double>();
    }
  }
  template <typename T>
  requires std::is_class_v<T>
  void Read(const Json& json, const std::string& at, T& object) const {
    if (!json.is_object()) FailType(at, "an object", json);
    Fields(object, [&](const char* name, auto& member) {
      const auto found = json.find(name);
      if (found != json.end()) {
        Read(*found, at + "/" + name, member);
      } else if (Required(at, name)) {
        Fail(at, std::string("the key '") + name + "' is missing");
      }
    });
  }

 private:
  // Newer reports may have more, older ones less; without these there is nothing to report.
  static bool Required(const std::string& at, std::string_view name) {
    return (at.empty() && name == "layers") ||
           (at.starts_with("/layers/") && at.find('/', 8) == std::string::npos &&
            (name == "name" || name == kStatus));
  }

  void CheckRange(const std::string& at, double value, const Json& json) const {
    const bool share = at.ends_with("_rate") || at.ends_with("/argmax_agreement") ||
                       at.ends_with("/share") || at.ends_with("/below") || at.ends_with("/above") ||
                       at.starts_with("/coverage/");
    if (share && !(value >= 0 && value <= 1)) FailType(at, "a share between 0 and 1", json);
    // Rounding may lead a little beyond 1.
    if (at.ends_with("/cosine") && !(std::fabs(value) <= 1 + 1e-6)) {
      FailType(at, "a cosine between -1 and 1", json);
    }
  }

  std::string source_;
};

}  // namespace

Measured ToMeasured(double value) { return std::isnan(value) ? Measured() : Measured(value); }

void SetMetrics(const ErrorMetrics& metrics, OperandReport* operand) {
  operand->sqnr_db = ToMeasured(metrics.SqnrDb());
  operand->zero_rate = ToMeasured(metrics.ZeroRate());
  operand->zeroed_rate = ToMeasured(metrics.ZeroedRate());
  operand->saturation_rate = ToMeasured(metrics.SaturationRate());
  operand->exceeded_rate = ToMeasured(metrics.ExceededRate());
  operand->cosine = ToMeasured(metrics.Cosine());
  if (metrics.count() == 0) return;
  operand->max_abs_error = metrics.MaxAbsError();
  operand->amax = metrics.Amax();
}

std::string ReportToJson(const Report& report, bool compact) {
  Json root = Json::object();
  root["schema"] = kReportSchema;
  root.update(ToJson(report));
  return CleanJson(root.dump(compact ? -1 : 2, ' ', false, Json::error_handler_t::replace)) + "\n";
}

Report ReportFromJson(std::string_view text, const std::string& source) {
  const Reader reader(source);
  Json root;
  try {
    root = Json::parse(text);
  } catch (const Json::parse_error& error) {
    throw ModelError("not valid JSON at byte " + std::to_string(error.byte),
                     "the file may be cut off: run hif8-calibrate again", source);
  } catch (const Json::exception& error) {  // a number beyond every type
    throw ModelError(std::string("not valid JSON: ") + error.what(), "run hif8-calibrate again",
                     source);
  }
  if (!root.is_object() || !root.contains("schema")) {
    throw ModelError("not a report: there is no \"schema\"",
                     "give the folder that hif8-calibrate wrote, or its report.json", source);
  }
  if (root["schema"] != kReportSchema) {
    throw ModelError("expected a report of schema " + std::string(kReportSchema) + ", found " +
                         Found(root["schema"]),
                     "it was written by another version of the program", source + "#/schema");
  }
  Report report;
  reader.Read(root, "", report);
  return report;
}

Report ReadReport(const std::filesystem::path& path) {
  std::error_code ignored;
  std::filesystem::path file = path;
  constexpr const char* kModels =
      "give the folder that hif8-calibrate wrote with -o; for models instead of reports: "
      "hif8-report ORIGINAL QUANTIZED, or hif8-report inspect MODEL";
  if (path.extension() == ".onnx" || path.extension() == ".safetensors") {
    throw UsageError("expected a report, found a model", kModels, path.string());
  }
  if (std::filesystem::is_directory(path, ignored)) {
    file = path / "report.json";
    if (!std::filesystem::exists(file, ignored)) {
      throw ModelError("the folder holds no report.json", kModels, path.string());
    }
  }
  return ReportFromJson(ReadFile(file), file.string());
}

}  // namespace hif8

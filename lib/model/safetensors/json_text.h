// JSON text of user files into documents, with bounded nesting and errors of ours. Internal.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "lib/core/error.h"
#include "lib/core/input_file.h"

namespace hif8 {

// `Json` is nlohmann::json or nlohmann::ordered_json. Throws kModel naming `where`.
template <typename Json>
Json ParseJson(std::string_view text, const std::string& where) {
  RequireNoLfsPointer(text, where);
  constexpr int kMaxDepth = 100;  // printing and copying a document recurse
  const auto check = [&](int depth, typename Json::parse_event_t, Json&) {
    if (depth > kMaxDepth)
      throw ModelError("the JSON nests deeper than 100 levels", "write the file with fewer levels",
                       where);
    return true;
  };
  try {
    return Json::parse(text.begin(), text.end(), check);
  } catch (const nlohmann::json::exception& error) {
    std::string reason = error.what();
    if (const size_t end = reason.find("] "); end != std::string::npos) reason.erase(0, end + 2);
    throw ModelError("expected JSON: " + reason.substr(0, 300),
                     "correct the file there, or get it again if it is cut off", where);
  }
}

}  // namespace hif8

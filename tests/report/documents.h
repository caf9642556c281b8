// What tests of written reports share: the data inside of a page, and the schemas' validator.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/paths.h"

namespace hif8::testing {

using Json = nlohmann::ordered_json;

// The data that an HTML page shows.
inline Json DataOf(const std::string& html) {
  const std::string start = "id=\"data\">";
  const size_t begin = html.find(start) + start.size();
  return Json::parse(html.substr(begin, html.find("</script>", begin) - begin));
}

// True when a document keeps to docs/SCHEMA.schema.json, by a validator in another language.
inline bool KeepsTo(const std::string& schema, const std::string& document) {
  const std::filesystem::path file =
      std::filesystem::path(::testing::TempDir()) / (schema + std::to_string(::getpid()) + ".json");
  std::ofstream(file) << document;
  const std::string source = HIF8_SOURCE_DIR;
  const std::string command = std::string(HIF8_PYTHON) + " '" + source +
                              "/tests/report/validate.py' '" + source + "/docs/" + schema +
                              ".schema.json' '" + file.string() + "'";
  const bool keeps = std::system(command.c_str()) == 0;
  std::filesystem::remove(file);
  return keeps;
}

}  // namespace hif8::testing

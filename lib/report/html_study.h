// The study of delayed scaling as an HTML page holds it. Internal to this folder.
#pragma once

#include <nlohmann/json.hpp>

#include "lib/report/report.h"

namespace hif8 {

// {fields, layers: [[name, [[values of the fields] per rule]]], traces}: names once, numbers in six
// digits. Traces of many layers are thinned out, peaks kept, so that the page stays small.
nlohmann::ordered_json StudyForPage(const DelayedStudyReport& study);

}  // namespace hif8

// hif8-report: shows a report and decides gates.
#pragma once

#include "apps/common/program.h"

namespace hif8 {

cli::Program ReportProgram();

}  // namespace hif8

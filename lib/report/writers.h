// The writers that exist. Inside of lib/report.
#pragma once

#include <memory>

#include "lib/report/writer.h"

namespace hif8 {

std::shared_ptr<const ReportWriter> MakeTextWriter();
std::shared_ptr<const ReportWriter> MakeJsonWriter();
std::shared_ptr<const ReportWriter> MakeCsvWriter();
std::shared_ptr<const ReportWriter> MakeMarkdownWriter();
std::shared_ptr<const ReportWriter> MakeJunitWriter();
std::shared_ptr<const ReportWriter> MakeHtmlWriter();

}  // namespace hif8

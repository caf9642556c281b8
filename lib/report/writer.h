// Writers turn a report into text of one kind. One file each; registered in writers.cc.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/core/registry.h"
#include "lib/report/columns.h"
#include "lib/report/gate.h"
#include "lib/report/report.h"
#include "lib/report/run_comparison.h"
#include "lib/report/selection.h"

namespace hif8 {

struct WriteOptions {
  Selection selection;
  bool sorted = false;                 // the user chose `selection.sort`; else writers may
  std::vector<const Column*> columns;  // empty: the writer's own
  std::vector<GateResult> gates;
  size_t width = 0;     // columns of the terminal, 0: no limit
  bool color = false;   // ANSI colours
  bool unicode = true;  // bars and ellipses beyond ASCII
};

class ReportWriter {
 public:
  virtual ~ReportWriter() = default;
  virtual std::string_view name() const = 0;         // as in --to
  virtual std::string_view description() const = 0;  // one line
  virtual std::string Write(const Report& report, const WriteOptions& options) const = 0;
  // Two runs side by side. Selection and columns apply to the layers of the current one.
  virtual std::string WriteComparison(const RunComparison& runs,
                                      const WriteOptions& options) const = 0;
};

using WriterRegistry = Registry<ReportWriter>;

// text, json, csv, markdown, junit, html.
const WriterRegistry& ReportWriters();

}  // namespace hif8

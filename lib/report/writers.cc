#include "lib/report/writers.h"

namespace hif8 {

const WriterRegistry& ReportWriters() {
  static const WriterRegistry kWriters = [] {
    WriterRegistry writers("report writer");
    for (const auto& writer : {MakeTextWriter(), MakeJsonWriter(), MakeCsvWriter(),
                               MakeMarkdownWriter(), MakeJunitWriter(), MakeHtmlWriter()}) {
      writers.Add(std::string(writer->name()), writer);
    }
    return writers;
  }();
  return kWriters;
}

}  // namespace hif8

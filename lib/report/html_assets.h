// The files of lib/report/html and the chart library, as text that the build puts into the program.
#pragma once

#include <string_view>

namespace hif8::html_assets {

extern const std::string_view kPage;  // with {{name}} where the other parts go
extern const std::string_view kStyle;
extern const std::string_view kScript;
extern const std::string_view kLibrary;
extern const std::string_view kLibraryStyle;
extern const std::string_view kLibraryLicence;

}  // namespace hif8::html_assets

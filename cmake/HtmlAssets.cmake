# Puts the files of lib/report/html and the chart library uPlot into hif8_report as text, so that an HTML report is one
# file. The chart library is the pinned one of npm; without it there is no build, rather than a report without charts.
execute_process(
  COMMAND ${CMAKE_SOURCE_DIR}/cmake/fetch-npm.sh uplot
  OUTPUT_VARIABLE uplot OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "The chart library of HTML reports could not be fetched (see above): npm must be reachable once, "
    "or ~/.cache/hif8 (or $HIF8_CACHE_DIR) come from a machine where it was.")
endif()

set(html ${CMAKE_SOURCE_DIR}/lib/report/html)
# The script is its files in this order.
set(script text baseline charts layers delayed report formats)
list(TRANSFORM script REPLACE "(.+)" "${html}/\\1.js")
list(JOIN script "+" script)
hif8_embed_text(hif8_report lib/report/html_assets.h hif8::html_assets ""
  kPage=${html}/page.html
  kStyle=${html}/report.css
  kScript=${script}
  kLibrary=${uplot}/dist/uPlot.iife.min.js
  kLibraryStyle=${uplot}/dist/uPlot.min.css
  kLibraryLicence=${uplot}/LICENSE)
install(FILES ${uplot}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME uplot-LICENSE.txt)

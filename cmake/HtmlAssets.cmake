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
set(assets
  kPage=${html}/page.html
  kStyle=${html}/report.css
  # The script is these files in this order.
  kScript=${html}/text.js+${html}/baseline.js+${html}/charts.js+${html}/layers.js+${html}/delayed.js+${html}/report.js+${html}/formats.js
  kLibrary=${uplot}/dist/uPlot.iife.min.js
  kLibraryStyle=${uplot}/dist/uPlot.min.css
  kLibraryLicence=${uplot}/LICENSE)
string(REGEX REPLACE "[A-Za-z]+=" "" asset_files "${assets}")
string(REPLACE "+" ";" asset_files "${asset_files}")
set(asset_source ${CMAKE_BINARY_DIR}/generated/html_assets.cc)
add_custom_command(OUTPUT ${asset_source}
  COMMAND ${CMAKE_COMMAND} "-DASSETS=${assets}" -DOUTPUT=${asset_source}
    -P ${CMAKE_SOURCE_DIR}/cmake/embed-text.cmake
  DEPENDS ${asset_files} ${CMAKE_SOURCE_DIR}/cmake/embed-text.cmake VERBATIM)
target_sources(hif8_report PRIVATE ${asset_source})
install(FILES ${uplot}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME uplot-LICENSE.txt)

# hif8_embed_text(TARGET HEADER NAMESPACE LIST NAME=FILE[+FILE...] ...) puts files into a target as text, for a header
# that declares either a constant NAME for each or, where LIST is not "", one list of that name with all names and texts.
function(hif8_embed_text target header namespace list)
  string(REGEX REPLACE "[^;=]+=" "" files "${ARGN}")
  string(REPLACE "+" ";" files "${files}")
  get_filename_component(name ${header} NAME_WE)
  set(source ${CMAKE_BINARY_DIR}/generated/${name}.cc)
  add_custom_command(OUTPUT ${source}
    COMMAND ${CMAKE_COMMAND} "-DASSETS=${ARGN}" -DHEADER=${header} -DNAMESPACE=${namespace} "-DLIST=${list}"
      -DOUTPUT=${source} -P ${CMAKE_SOURCE_DIR}/cmake/embed-text.cmake
    DEPENDS ${files} ${CMAKE_SOURCE_DIR}/cmake/embed-text.cmake VERBATIM)
  target_sources(${target} PRIVATE ${source})
endfunction()

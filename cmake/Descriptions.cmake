# Puts the descriptions of model families, lib/model/safetensors/arch/*.yaml, into hif8_model as text.
file(GLOB descriptions CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/lib/model/safetensors/arch/*.yaml)
set(description_source ${CMAKE_BINARY_DIR}/generated/builtin_descriptions.cc)
add_custom_command(OUTPUT ${description_source}
  COMMAND ${CMAKE_COMMAND} "-DFILES=${descriptions}" -DOUTPUT=${description_source}
    -P ${CMAKE_SOURCE_DIR}/cmake/embed-descriptions.cmake
  DEPENDS ${descriptions} ${CMAKE_SOURCE_DIR}/cmake/embed-descriptions.cmake VERBATIM)
target_sources(hif8_model PRIVATE ${description_source})

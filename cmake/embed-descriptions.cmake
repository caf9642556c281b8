# cmake -DFILES="FILE;..." -DOUTPUT=FILE.cc -P embed-descriptions.cmake: the files for
# lib/model/safetensors/builtin_descriptions.h.
set(text "#include \"lib/model/safetensors/builtin_descriptions.h\"\n\n#include <array>\n\nnamespace hif8 {\n\n")
string(APPEND text "std::span<const std::pair<std::string_view, std::string_view>> BuiltinDescriptionTexts() {\n")
list(LENGTH FILES count)
string(APPEND text
  "  static constexpr std::array<std::pair<std::string_view, std::string_view>, ${count}> kTexts = {{\n")
foreach(file IN LISTS FILES)
  get_filename_component(name ${file} NAME)
  file(READ ${file} content)
  string(APPEND text "      {\"${name}\", R\"yaml(${content})yaml\"},\n")
endforeach()
string(APPEND text "  }};\n  return kTexts;\n}\n\n}  // namespace hif8\n")
file(WRITE ${OUTPUT} "${text}")

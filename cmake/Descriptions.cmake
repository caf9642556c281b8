# Puts the descriptions of model families, lib/model/safetensors/arch/*.yaml, into hif8_model as text.
file(GLOB descriptions CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/lib/model/safetensors/arch/*.yaml)
list(TRANSFORM descriptions REPLACE "^.*/([^/]+)$" "\\1=\\0")
hif8_embed_text(hif8_model lib/model/safetensors/builtin_descriptions.h hif8 kBuiltinDescriptionTexts ${descriptions})

// What libhif8_sentencepiece.so exports. Debian's libsentencepiece carries and exports a protobuf
// of its own, older than the one that ONNX models need; a program that links both crashes while it
// is loaded. So the library is reached through this C interface and opened in a scope of its own.
#pragma once

#include <cstddef>

extern "C" {

struct Hif8SentencePiece {
  void* processor;
  int piece_count;
  int begin_id;  // -1: none
  int end_id;    // -1: none
};

// Receives a part of the result; `context` is the caller's.
using Hif8Ids = void(void* context, const int* ids, size_t count);
using Hif8Message = void(void* context, const char* message, size_t size);

// Both return false after `fail` got the library's message. What Open filled in is released by
// Close.
using SentencePieceOpenFunction = bool(const char* model, size_t size, Hif8SentencePiece* out,
                                       void* context, Hif8Message* fail);
using SentencePieceEncodeFunction = bool(void* processor, const char* text, size_t size,
                                         void* context, Hif8Ids* receive, Hif8Message* fail);
using SentencePieceCloseFunction = void(void* processor);

}  // extern "C"

inline constexpr char kHif8SentencePieceLibrary[] = "libhif8_sentencepiece.so";

#include "lib/model/tokenizer/plugin/sentencepiece_api.h"

#include <sentencepiece_processor.h>

#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace {

using sentencepiece::SentencePieceProcessor;

// Runs `body`, which returns the library's status, and passes its message or that of an exception
// on.
template <typename Body>
bool Guard(void* context, Hif8Message* fail, const Body& body) {
  std::string message;
  try {
    const sentencepiece::util::Status status = body();
    if (status.ok()) return true;
    message = status.ToString();
  } catch (const std::exception& error) {
    message = error.what();
  }
  fail(context, message.data(), message.size());
  return false;
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) bool Hif8SentencePieceOpen(const char* model, size_t size,
                                                                  Hif8SentencePiece* out,
                                                                  void* context,
                                                                  Hif8Message* fail) {
  return Guard(context, fail, [&] {
    auto processor = std::make_unique<SentencePieceProcessor>();
    auto status = processor->LoadFromSerializedProto(std::string_view(model, size));
    if (!status.ok()) return status;
    *out = {processor.get(), processor->GetPieceSize(), processor->bos_id(), processor->eos_id()};
    static_cast<void>(processor.release());
    return status;
  });
}

__attribute__((visibility("default"))) bool Hif8SentencePieceEncode(void* processor,
                                                                    const char* text, size_t size,
                                                                    void* context, Hif8Ids* receive,
                                                                    Hif8Message* fail) {
  return Guard(context, fail, [&] {
    std::vector<int> ids;
    auto status = static_cast<const SentencePieceProcessor*>(processor)->Encode(
        std::string_view(text, size), &ids);
    if (status.ok()) receive(context, ids.data(), ids.size());
    return status;
  });
}

__attribute__((visibility("default"))) void Hif8SentencePieceClose(void* processor) {
  delete static_cast<SentencePieceProcessor*>(processor);
}

}  // extern "C"

// Mutations that keep the shape of an input, so that it gets past the first check of a reader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hif8 {

// What an input is made of, and so which of its parts are changed, removed, doubled or exchanged.
enum class InputForm {
  kBytes,
  kJson,      // values of a document
  kLines,     // lines and words: YAML, JSON lines
  kProtobuf,  // fields of a message
  kFiles      // several files, see SplitFiles(); each is mutated by the form that its name tells
};

// A custom mutator for libFuzzer: changes `data` in place and returns its new size, at most
// `max_size`. Some changes are of bytes, whatever the form is.
size_t MutateInput(InputForm form, uint8_t* data, size_t size, size_t max_size, unsigned seed);

// A file of an input that holds several.
struct InputFile {
  std::string name;
  std::string bytes;
};

// Each file begins with a line "--- NAME" and ends before the next such line; text before the first
// one is ignored.
std::vector<InputFile> SplitFiles(std::string_view input);
std::string JoinFiles(const std::vector<InputFile>& files);

}  // namespace hif8

// Defines the custom mutator of a target.
#define HIF8_FUZZ_FORM(form)                                                             \
  extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, \
                                            unsigned seed) {                             \
    return hif8::MutateInput(hif8::InputForm::form, data, size, max_size, seed);         \
  }

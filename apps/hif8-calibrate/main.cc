#include <string_view>

#include "apps/common/program.h"
#include "apps/hif8-calibrate/calibrate_program.h"
#include "apps/hif8-calibrate/check_program.h"
#include "apps/hif8-calibrate/merge_program.h"

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == hif8::kMergeCommand) {
    return hif8::cli::RunProgram(hif8::MergeProgram(), argc - 1, argv + 1);
  }
  if (argc > 1 && std::string_view(argv[1]) == hif8::kCheckCommand) {
    return hif8::cli::RunProgram(hif8::CheckProgram(), argc - 1, argv + 1);
  }
  return hif8::cli::RunProgram(hif8::CalibrateProgram(), argc, argv);
}

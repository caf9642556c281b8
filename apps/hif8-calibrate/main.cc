#include "apps/common/program.h"
#include "apps/hif8-calibrate/calibrate_program.h"

int main(int argc, char** argv) {
  return hif8::cli::RunProgram(hif8::CalibrateProgram(), argc, argv);
}

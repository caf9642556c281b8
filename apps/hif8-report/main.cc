#include "apps/common/program.h"
#include "apps/hif8-report/report_program.h"

int main(int argc, char** argv) { return hif8::cli::RunProgram(hif8::ReportProgram(), argc, argv); }

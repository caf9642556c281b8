#include <functional>
#include <map>

#include "lib/report/report.h"

namespace hif8 {

ExponentReport ReportExponents(const ExponentHistogram& histogram,
                               std::span<const PrecisionBand> bands) {
  ExponentReport report;
  report.zeros = static_cast<int64_t>(histogram.zeros());
  const std::vector<ExponentCount> exponents = histogram.Exponents();
  if (!exponents.empty()) report.first = exponents.front().exponent;
  std::map<int, uint64_t, std::greater<>> by_bits;
  for (const PrecisionBand& band : bands) by_bits[band.bits] = 0;
  uint64_t below = 0;
  uint64_t above = 0;
  for (const ExponentCount& entry : exponents) {
    report.counts.resize(static_cast<size_t>(entry.exponent - report.first));
    report.counts.push_back(static_cast<int64_t>(entry.count));
    if (bands.empty()) continue;
    const int bits = BitsAt(bands, entry.exponent);
    if (bits > 0) {
      by_bits[bits] += entry.count;
    } else {
      (entry.exponent < bands.front().first ? below : above) += entry.count;
    }
  }
  const auto total = static_cast<double>(histogram.count());
  if (total == 0 || bands.empty()) return report;
  for (const auto& [bits, count] : by_bits) {
    report.bands.push_back({bits, static_cast<double>(count) / total});
  }
  report.below = static_cast<double>(below) / total;
  report.above = static_cast<double>(above) / total;
  return report;
}

void SetExponents(const ScaledExponents& exponents, const NumberFormat& format,
                  OperandReport* operand) {
  const std::vector<PrecisionBand> bands = PrecisionBands(format);
  const auto reported = [&](const ExponentHistogram& histogram) -> std::optional<ExponentReport> {
    if (histogram.count() == 0) return std::nullopt;
    return ReportExponents(histogram, bands);
  };
  operand->exponents_before = reported(exponents.before);
  operand->exponents_after = reported(exponents.after);
}

FormatReport ReportFormat(const NumberFormat& format) {
  return {std::string(format.name()), PrecisionBands(format)};
}

}  // namespace hif8

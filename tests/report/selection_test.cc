// Columns, conditions, order.
#include "lib/report/selection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "lib/core/error.h"
#include "tests/report/sample_report.h"

namespace hif8 {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::SampleReport;

std::vector<std::string> Names(const Report& report, const Selection& selection) {
  std::vector<std::string> names;
  for (const LayerReport* layer : SelectLayers(report.layers, selection)) {
    names.push_back(layer->name.substr(0, 5));
  }
  return names;
}

std::vector<std::string> Where(const std::string& condition) {
  Selection selection;
  selection.where.emplace_back(condition);
  return Names(SampleReport(), selection);
}

std::vector<std::string> Sorted(const std::string& sort, size_t top = 0) {
  Selection selection;
  ParseSort(sort, &selection);
  selection.top = top;
  return Names(SampleReport(), selection);
}

TEST(Selection, ConditionsOnText) {
  EXPECT_THAT(Where("op=Conv"), ElementsAre("conv1"));
  EXPECT_THAT(Where("op = Con"), ElementsAre());
  EXPECT_THAT(Where("op~^(Conv|Gemm)$"), ElementsAre("conv1", "head"));
  EXPECT_THAT(Where("layer~con"), ElementsAre("conv1"));
  EXPECT_THAT(Where("name=head"), ElementsAre("head"));
  EXPECT_THAT(Where("status=quantized"), ElementsAre("model", "conv1"));
  EXPECT_THAT(Where("notes~a<b|second"), ElementsAre("conv1"));
}

TEST(Selection, ConditionsOnNumbers) {
  EXPECT_THAT(Where("output_sqnr<20"), ElementsAre("conv1"));
  EXPECT_THAT(Where("output_sqnr>=18.25"), ElementsAre("model", "conv1"));
  EXPECT_THAT(Where("weight>1000"), ElementsAre("model"));  // exact is infinite
  EXPECT_THAT(Where("weight_zeroed_rate=0"), ElementsAre("conv1"));
  EXPECT_THAT(Where("accumulated_sqnr<1000"), ElementsAre("conv1"));  // not measured: no
  EXPECT_THAT(Where("samples=8"), ElementsAre("conv1"));
  EXPECT_THAT(Where("weight_bytes_after<=1100"), ElementsAre("conv1"));
}

TEST(Selection, ConditionsAreJoined) {
  Selection selection;
  selection.where.emplace_back("status=quantized");
  selection.where.emplace_back("op=MatMul");
  EXPECT_THAT(Names(SampleReport(), selection), ElementsAre("model"));
}

TEST(Selection, Order) {
  EXPECT_THAT(Sorted("output_sqnr"), ElementsAre("conv1", "model", "head"));
  EXPECT_THAT(Sorted("output_sqnr:desc"), ElementsAre("model", "conv1", "head"));
  EXPECT_THAT(Sorted("weight:desc"), ElementsAre("model", "conv1", "head"));
  EXPECT_THAT(Sorted("layer"), ElementsAre("conv1", "head", "model"));
  EXPECT_THAT(Sorted("layer:desc", 2), ElementsAre("model", "head"));
}

TEST(Selection, ErrorsTellWhatWasMeant) {
  const auto error = [](const std::function<void()>& run) {
    try {
      run();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::kUsage);
      return e.message() + " / " + e.hint();
    }
    return std::string();
  };
  EXPECT_THAT(error([] { Condition("op"); }), HasSubstr("key=value"));
  EXPECT_THAT(error([] { Condition("=x"); }), HasSubstr("key=value"));
  EXPECT_THAT(error([] { Condition("outptu_sqnr<2"); }), HasSubstr("did you mean 'output_sqnr'?"));
  EXPECT_THAT(error([] { Condition("op<3"); }), HasSubstr("is text"));
  EXPECT_THAT(error([] { Condition("output_sqnr<abc"); }), HasSubstr("found 'abc'"));
  EXPECT_THAT(error([] { Condition("output_sqnr<inf"); }), HasSubstr("found 'inf'"));
  EXPECT_THAT(error([] { Condition("layer~a("); }), HasSubstr("not a regular expression"));
  Selection selection;
  EXPECT_THAT(error([&] { ParseSort("layer:down", &selection); }), HasSubstr("found 'down'"));
  EXPECT_THAT(error([&] { ParseSort("laier", &selection); }), HasSubstr("did you mean 'layer'?"));
  EXPECT_THAT(error([] { ParseColumns("layer,,op"); }), HasSubstr("unknown column ''"));
}

TEST(Columns, NamesAreUniqueAndShortOnesResolve) {
  std::set<std::string> names;
  for (const Column& column : LayerColumns()) {
    EXPECT_TRUE(names.insert(column.name).second) << column.name;
    EXPECT_FALSE(column.help.empty());
    EXPECT_EQ(&GetColumn(column.name), &column);
  }
  EXPECT_EQ(GetColumn("output").name, "output_sqnr");
  EXPECT_EQ(GetColumn("samples").name, "activation_samples");
  EXPECT_EQ(ParseColumns("layer,op").size(), 2u);
}

TEST(Columns, CellsForPeopleAndForPrograms) {
  const Report r = SampleReport();
  const auto text = [&](size_t layer, const char* name) {
    const Column& column = GetColumn(name);
    return CellText(column, column.get(r.layers[layer])) + " " +
           CellExactText(column.get(r.layers[layer]));
  };
  EXPECT_EQ(text(1, "output_sqnr"), "18.25 18.25");
  EXPECT_EQ(text(0, "weight_sqnr"), "inf inf");
  EXPECT_EQ(text(0, "accumulated_sqnr"), "- ");
  EXPECT_EQ(text(2, "output_sqnr"), "- ");
  EXPECT_EQ(text(1, "weight_zero_rate"), "0.01 % 1e-04");
  EXPECT_EQ(text(1, "weight_bytes_before"), "4 kB 4000");
  EXPECT_EQ(text(1, "activation_samples"), "8 8");
  EXPECT_EQ(text(1, "weight_rule"), "max max");
  EXPECT_EQ(text(2, "status"), "kept kept");
}

}  // namespace
}  // namespace hif8

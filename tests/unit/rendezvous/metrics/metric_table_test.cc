#include "rendezvous/metrics/metric_table.h"

#include <gtest/gtest.h>

#include <set>
#include <string_view>

namespace ddprun::metrics {
namespace metric_table_test {

TEST(MetricTableTest, NamesAreOfPrometheusKind) {
  std::set<std::string_view> names;
  for (const Metric& metric : kMetrics) {
    EXPECT_TRUE(names.insert(metric.name).second) << metric.name << " stands there twice";
    EXPECT_EQ(metric.name.rfind("ddprun_", 0), 0u) << metric.name;
    const bool is_total =
        metric.name.size() > 6 && metric.name.substr(metric.name.size() - 6) == "_total";
    EXPECT_EQ(is_total, metric.kind == Kind::kCounter) << metric.name;
  }
}

}  // namespace metric_table_test
}  // namespace ddprun::metrics

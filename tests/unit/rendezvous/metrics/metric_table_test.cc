#include "rendezvous/metrics/metric_table.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace ddprun::metrics {
namespace metric_table_test {

const char* NameOf(Kind kind) {
  return kind == Kind::kCounter ? "counter" : kind == Kind::kGauge ? "gauge" : "histogram";
}

std::string RowOf(const Metric& metric) {
  std::string row = "| `" + std::string(metric.name) + "` | " + NameOf(metric.kind) + " | ";
  row.append(metric.labels).append(metric.labels.empty() ? "| " : " | ");
  return row.append(metric.help).append(" |");
}

// The rows of docs/metrics.md, in their order.
std::vector<std::string> DocumentedRows() {
  std::ifstream file(std::string(DDPRUN_SOURCE_DIR) + "/docs/metrics.md");
  std::vector<std::string> rows;
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("| `ddprun_", 0) == 0) rows.push_back(line);
  }
  return rows;
}

TEST(MetricTableTest, TheDocumentListsEachMetricAndNoOther) {
  std::vector<std::string> rows;
  for (const Metric& metric : kMetrics) rows.push_back(RowOf(metric));
  EXPECT_EQ(DocumentedRows(), rows);
}

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

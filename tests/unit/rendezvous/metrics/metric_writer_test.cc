#include "rendezvous/metrics/metric_writer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <optional>

namespace ddprun::metrics {
namespace metric_writer_test {

TEST(MetricWriterTest, DescribesAMetricOnceBeforeItsFirstSample) {
  MetricWriter writer;
  writer.Begin("ddprun_jobs");
  writer.Add(Labels().With("state", "Running"), 3);
  writer.Add(Labels().With("state", "Failed"), 0);
  EXPECT_EQ(writer.Take(),
            "# HELP ddprun_jobs Jobs that are known, by state.\n"
            "# TYPE ddprun_jobs gauge\n"
            "ddprun_jobs{state=\"Running\"} 3\n"
            "ddprun_jobs{state=\"Failed\"} 0\n");
}

TEST(MetricWriterTest, RestsAfterEvery512Samples) {
  int rests = 0;
  MetricWriter writer([&rests] { ++rests; });
  writer.Begin("ddprun_sessions");
  for (int i = 0; i < 511; ++i) writer.Add(Labels(), i);
  EXPECT_EQ(rests, 0);
  for (int i = 0; i < 513; ++i) writer.Add(Labels(), i);
  EXPECT_EQ(rests, 2);
}

TEST(MetricWriterTest, WithoutSamplesNothingIsLeft) {
  MetricWriter writer;
  writer.Begin("ddprun_jobs");
  writer.AddOne("ddprun_sessions", std::optional<int>());
  EXPECT_EQ(writer.Take(), "");
}

TEST(MetricWriterTest, ALabelCannotEndEarly) {
  const Labels labels = Labels().With("job", "a\"} 1\nb\\").With("host", "n1");
  EXPECT_EQ(labels.text(), R"(job="a\"} 1\nb\\",host="n1")");
}

TEST(MetricWriterTest, NumbersKeepTheirDigits) {
  MetricWriter writer;
  writer.Begin("ddprun_sessions");
  writer.Add(Labels(), std::int64_t{9'007'199'254'740'993});
  writer.Add(Labels(), 0.1);
  writer.Add(Labels(), Duration(std::chrono::microseconds(1'500'001)));
  const std::string text = writer.Take();
  EXPECT_EQ(text.substr(text.find("gauge\n") + 6),
            "ddprun_sessions 9007199254740993\nddprun_sessions 0.1\nddprun_sessions 1.500001\n");
}

TEST(MetricWriterTest, BucketsOfAHistogramAddUp) {
  Histogram histogram;
  histogram.Add(std::chrono::milliseconds(20));
  histogram.Add(std::chrono::seconds(100));
  MetricWriter writer;
  writer.Begin("ddprun_job_recovery_seconds");
  writer.Add(Labels().With("phase", "stop"), histogram);
  const std::string text = writer.Take();
  EXPECT_NE(text.find("_bucket{phase=\"stop\",le=\"0.01\"} 0\n"), text.npos) << text;
  EXPECT_NE(text.find("_bucket{phase=\"stop\",le=\"0.03\"} 1\n"), text.npos) << text;
  EXPECT_NE(text.find("_bucket{phase=\"stop\",le=\"60\"} 1\n"), text.npos) << text;
  EXPECT_NE(text.find("_bucket{phase=\"stop\",le=\"+Inf\"} 2\n"), text.npos) << text;
  EXPECT_NE(text.find("_sum{phase=\"stop\"} 100.02\n"), text.npos) << text;
  EXPECT_NE(text.find("_count{phase=\"stop\"} 2\n"), text.npos) << text;
}

}  // namespace metric_writer_test
}  // namespace ddprun::metrics

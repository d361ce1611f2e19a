// MetricWriter: Prometheus' text format 0.0.4. Pure.
//
//     MetricWriter writer;
//     writer.Begin("ddprun_jobs");
//     writer.Add(Labels().With("state", "Running"), 3);
//     writer.Take();   // # HELP ddprun_jobs ... # TYPE ... ddprun_jobs{state="Running"} 3
//
// All samples of a metric follow one Begin(). Nothing is written for a metric without samples.
#ifndef DDPRUN_RENDEZVOUS_METRICS_METRIC_WRITER_H_
#define DDPRUN_RENDEZVOUS_METRICS_METRIC_WRITER_H_

#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "rendezvous/core/measures/histogram.h"
#include "rendezvous/core/types.h"
#include "rendezvous/metrics/metric_table.h"

namespace ddprun::metrics {

// The Content-Type of the response.
inline constexpr char kContentType[] = "text/plain; version=0.0.4; charset=utf-8";

// Labels in the text format, without the braces. Values are UTF-8, like all strings of messages.
class Labels {
 public:
  Labels() = default;
  Labels With(std::string_view name, std::string_view value) const;
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

class MetricWriter {
 public:
  static constexpr int kLinesBetweenRests = 512;

  // `rest` is called after every kLinesBetweenRests lines of samples, so that a caller can leave
  // the CPU to more urgent work. Null: never.
  explicit MetricWriter(std::function<void()> rest = nullptr) : rest_(std::move(rest)) {}

  void Begin(Name name);

  void Add(const Labels& labels, std::integral auto value) {
    AddInteger(labels, static_cast<std::int64_t>(value));
  }
  void Add(const Labels& labels, double value);
  void Add(const Labels& labels, Duration value);  // in seconds
  void Add(const Labels& labels, const Histogram& histogram);
  // Adds nothing if there is no value.
  template <class Value>
  void Add(const Labels& labels, const std::optional<Value>& value) {
    if (value) Add(labels, *value);
  }

  // A metric with one sample, without labels.
  void AddOne(Name name, const auto& value) {
    Begin(name);
    Add(Labels(), value);
  }

  // Returns the text.
  std::string Take() { return std::move(text_); }

 private:
  void AddInteger(const Labels& labels, std::int64_t value);
  // "ddprun_job_recovery_seconds_bucket{job="mnist"} ", without the value.
  void BeginLine(std::string_view suffix, const Labels& labels);

  const std::function<void()> rest_;
  int lines_ = 0;
  std::string text_;
  const Metric* metric_ = nullptr;
  bool described_ = false;  // HELP and TYPE of metric_ are written
};

}  // namespace ddprun::metrics

#endif  // DDPRUN_RENDEZVOUS_METRICS_METRIC_WRITER_H_

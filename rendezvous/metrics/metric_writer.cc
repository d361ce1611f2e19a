#include "rendezvous/metrics/metric_writer.h"

#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstddef>

namespace ddprun::metrics {
namespace {

const char* TypeOf(Kind kind) {
  switch (kind) {
    case Kind::kCounter:
      return "counter";
    case Kind::kGauge:
      return "gauge";
    case Kind::kHistogram:
      return "histogram";
  }
  return "untyped";
}

void AppendNumber(std::string* to, auto value) {
  std::array<char, 32> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  to->append(digits.data(), end);
}

}  // namespace

Labels Labels::With(std::string_view name, std::string_view value) const {
  Labels more = *this;
  std::string& text = more.text_;
  if (!text.empty()) text += ',';
  text.append(name).append("=\"");
  for (const char c : value) {
    switch (c) {
      case '\\':
        text += "\\\\";
        break;
      case '"':
        text += "\\\"";
        break;
      case '\n':
        text += "\\n";
        break;
      default:
        text += c;
    }
  }
  text += '"';
  return more;
}

void MetricWriter::Begin(Name name) {
  metric_ = &name.metric();
  described_ = false;
}

void MetricWriter::Add(const Labels& labels, double value) {
  BeginLine("", labels);
  if (std::isnan(value)) {
    text_ += "NaN";
  } else if (std::isinf(value)) {
    text_ += value > 0 ? "+Inf" : "-Inf";
  } else {
    AppendNumber(&text_, value);
  }
  text_ += '\n';
}

// Rounded to microseconds, to keep the text short.
void MetricWriter::Add(const Labels& labels, Duration value) {
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(value).count();
  Add(labels, static_cast<double>(us) / 1e6);
}

void MetricWriter::Add(const Labels& labels, const Histogram& histogram) {
  for (std::size_t i = 0; i < Histogram::kBounds.size(); ++i) {
    std::string bound;
    AppendNumber(&bound, Histogram::kBounds[i]);
    BeginLine("_bucket", labels.With("le", bound));
    AppendNumber(&text_, histogram.CountUpTo(i));
    text_ += '\n';
  }
  BeginLine("_bucket", labels.With("le", "+Inf"));
  AppendNumber(&text_, histogram.count());
  text_ += '\n';
  BeginLine("_sum", labels);
  AppendNumber(&text_, histogram.sum());
  text_ += '\n';
  BeginLine("_count", labels);
  AppendNumber(&text_, histogram.count());
  text_ += '\n';
}

void MetricWriter::AddInteger(const Labels& labels, std::int64_t value) {
  BeginLine("", labels);
  AppendNumber(&text_, value);
  text_ += '\n';
}

void MetricWriter::BeginLine(std::string_view suffix, const Labels& labels) {
  if (!described_) {
    text_.append("# HELP ").append(metric_->name).append(" ").append(metric_->help);
    text_.append("\n# TYPE ").append(metric_->name).append(" ").append(TypeOf(metric_->kind));
    text_ += '\n';
    described_ = true;
  }
  if (rest_ && ++lines_ % kLinesBetweenRests == 0) rest_();
  text_.append(metric_->name).append(suffix);
  if (!labels.text().empty()) text_.append("{").append(labels.text()).append("}");
  text_ += ' ';
}

}  // namespace ddprun::metrics

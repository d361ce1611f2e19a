// Checks the fields of a wire message against their bounds. Internal to this folder.
#ifndef DDPRUN_RENDEZVOUS_WIRE_FIELD_CHECKER_H_
#define DDPRUN_RENDEZVOUS_WIRE_FIELD_CHECKER_H_

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "rendezvous/core/types.h"
#include "rendezvous/wire/limits.h"

namespace ddprun::wire {

inline constexpr std::int64_t kMaxInt32 = INT32_MAX;

// Checks fields one by one and stores the first error. Returned values are within bounds as long as
// status() is OK.
class FieldChecker {
 public:
  int Number(absl::string_view field, std::int64_t value, std::int64_t min, std::int64_t max) {
    if (value < min || value > max) {
      Fail(absl::StrCat(field, " is ", value, ", expected ", min, " to ", max));
      return static_cast<int>(min);
    }
    return static_cast<int>(value);
  }

  // A name: not empty, and printable, because it is used in logs and paths.
  std::string Name(absl::string_view field, const std::string& value, std::size_t max_bytes) {
    if (value.empty()) Fail(absl::StrCat(field, " is empty"));
    const bool printable = std::none_of(value.begin(), value.end(), [](char c) {
      return static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
    });
    if (!printable) Fail(absl::StrCat(field, " contains a control character"));
    return Text(field, value, max_bytes);
  }

  std::string Text(absl::string_view field, const std::string& value, std::size_t max_bytes) {
    if (value.size() > max_bytes) {
      Fail(absl::StrCat(field, " has ", value.size(), " bytes, expected at most ", max_bytes));
      return {};
    }
    return value;
  }

  std::int64_t Step(absl::string_view field, std::int64_t value) {
    if (value < 0) Fail(absl::StrCat(field, " is ", value, ", expected 0 or more"));
    return value;
  }

  Duration Timeout(absl::string_view field, std::int64_t value_ms,
                   std::chrono::milliseconds min = std::chrono::milliseconds(0),
                   std::chrono::milliseconds max = kMaxTimeout) {
    if (value_ms < min.count() || value_ms > max.count()) {
      Fail(absl::StrCat(field, " is ", value_ms, ", expected ", min.count(), " to ", max.count()));
      return {};
    }
    return std::chrono::milliseconds(value_ms);
  }

  void Fail(std::string what) {
    if (status_.ok()) status_ = absl::InvalidArgumentError(what);
  }

  const absl::Status& status() const { return status_; }

 private:
  absl::Status status_;
};

}  // namespace ddprun::wire

#endif  // DDPRUN_RENDEZVOUS_WIRE_FIELD_CHECKER_H_

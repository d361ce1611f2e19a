#include "launcher/config/job_spec_of.h"

#include <chrono>
#include <optional>
#include <variant>

#include "absl/strings/string_view.h"
#include "launcher/config/job_draft.h"
#include "launcher/config/job_keys.h"
#include "launcher/config/values.h"

namespace ddprun {
namespace {

// One overload for each type that a member of JobSpec has.
template <class T>
void Take(const Field& from, T* to) {
  *to = *std::get<T*>(from);
}
void Take(const Field& from, Duration* to) { *to = *std::get<std::chrono::milliseconds*>(from); }
void Take(const Field& from, std::optional<Duration>* to) {
  const std::chrono::milliseconds value = *std::get<std::chrono::milliseconds*>(from);
  if (value.count() > 0) *to = value;
}

}  // namespace

JobSpec JobSpecOf(const JobConfig& config) {
  JobSpec spec;
  spec.min_nodes = config.nodes.min;
  spec.max_nodes = config.nodes.max;
  spec.all_nodes = config.place.all_nodes;
  spec.start_anew = config.checkpoint.start_anew ? 1 : 0;
  const HangConfig& hang = config.restart.hang;
  if (const auto limit = ParseDuration(hang.timeout)) spec.hang_timeout = *limit;
  if (hang.on_hang == "restart") spec.on_hang = JobSpec::kRestartHang;
  if (hang.on_hang == "report") spec.on_hang = JobSpec::kReportHang;
  if (hang.timeout == "off") spec.on_hang = JobSpec::kIgnoreHang;
  JobDraft draft;
  draft.config = config;
  ForEachField([&](auto member, const JobSpecField& field) {
    if (*field.key != '\0') Take(FindJobKey(field.key)->field(draft), &(spec.*member));
  });
  if (spec.store == kWorkerStore) spec.store.clear();  // as agents of older versions say it
  return spec;
}

}  // namespace ddprun

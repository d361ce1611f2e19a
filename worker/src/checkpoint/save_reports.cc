#include "worker/src/checkpoint/save_reports.h"

#include <string>

#include "worker/contract/control.h"
#include "worker/src/agent/control_client.h"

namespace ddp::internal {
namespace {

void ReportTime(const std::string& tier, std::chrono::nanoseconds took) {
  const auto time = std::chrono::duration_cast<std::chrono::microseconds>(took);
  ControlClient::Process().Send(ddprun::control::kSaved, tier + " " + std::to_string(time.count()));
}

}  // namespace

CheckpointWriter::Events ReportsOf(const Context& ctx) {
  return {[&ctx](std::int64_t step, const std::string& path, std::chrono::nanoseconds took) {
            ctx.report_checkpoint(step, path);
            ReportTime(ddprun::control::kDurable, took);
          },
          [&ctx](std::int64_t step, std::int64_t failures, const std::string& reason) {
            ctx.report_checkpoint_failed(step, failures, reason);
          }};
}

void ReportSnapshot(std::int64_t step, std::chrono::nanoseconds took) {
  ControlClient::Process().Send(ddprun::control::kSnapshot, std::to_string(step));
  ReportTime(ddprun::control::kMemory, took);
}

}  // namespace ddp::internal

#include "rendezvous/client/report_gone.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "ddprun/v1/rendezvous.grpc.pb.h"
#include "rendezvous/client/channel.h"
#include "rendezvous/wire/translate.h"

namespace ddprun {
namespace {

// The rendezvous may just be restarting.
constexpr std::chrono::milliseconds kBetweenAttempts{100};

// Limit for one of several, so that a silent rendezvous does not keep the others from being asked.
constexpr std::chrono::milliseconds kForOneOfSeveral{1000};

using WallClock = std::chrono::system_clock;

class Reporter {
 public:
  explicit Reporter(const RendezvousPlace& place)
      : place_(place), connection_(place.endpoint, place.credentials) {}

  // `answered`: the rendezvous answered, with any status.
  absl::Status Report(const Header& agent, WallClock::time_point deadline, bool* answered) {
    const grpc::Status reached = connection_.Reach(deadline);
    *answered = reached.error_code() != grpc::StatusCode::UNAVAILABLE;
    if (!*answered) return Failure(reached.error_message());
    grpc::ClientContext context;
    context.set_deadline(deadline);
    if (place_.credentials != nullptr) {
      const absl::Status status =
          place_.credentials->Authorize(connection_.stub(), "ReportGone", deadline, &context);
      if (!status.ok()) return Failure(std::string(status.message()));
    }
    v1::GoneReceived received;
    const grpc::Status result =
        connection_.stub().ReportGone(&context, wire::ToGoneReport(agent), &received);
    return result.ok() ? absl::OkStatus() : Failure(result.error_message());
  }

 private:
  absl::Status Failure(const std::string& text) const {
    return absl::UnavailableError(
        absl::StrCat("cannot tell the rendezvous at ", place_.endpoint, ": ", text));
  }

  const RendezvousPlace place_;
  RenewableChannel connection_;
};

}  // namespace

absl::Status ReportGone(const std::vector<RendezvousPlace>& places, const Header& agent,
                        Duration limit) {
  const auto deadline = WallClock::now() + std::chrono::duration_cast<WallClock::duration>(limit);
  const bool several = places.size() > 1;
  std::vector<std::unique_ptr<Reporter>> reporters;
  for (const RendezvousPlace& place : places) {
    reporters.push_back(std::make_unique<Reporter>(place));
  }
  for (;;) {
    absl::Status status;
    for (const auto& reporter : reporters) {
      bool answered = false;
      const auto until =
          several ? std::min(deadline, WallClock::now() + kForOneOfSeveral) : deadline;
      status = reporter->Report(agent, until, &answered);
      // If there is one rendezvous, its answer is final. Of several, another one may lead.
      if (status.ok() || (answered && !several)) return status;
    }
    if (WallClock::now() >= deadline) return status;
    std::this_thread::sleep_for(kBetweenAttempts);
  }
}

}  // namespace ddprun

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
#include "rendezvous/client/channel_source.h"
#include "rendezvous/client/leader_search.h"
#include "rendezvous/wire/translate.h"

namespace ddprun {
namespace {

// The rendezvous may just be restarting.
constexpr std::chrono::milliseconds kBetweenAttempts{100};

// Time limit for one of several rendezvous: another one may lead meanwhile.
constexpr std::chrono::milliseconds kForOneOfSeveral{1000};

// Once one of several rendezvous says that it leads, the others have this long to say the same.
constexpr std::chrono::milliseconds kSettle{300};

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

std::chrono::milliseconds Until(WallClock::time_point deadline) {
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(deadline - WallClock::now());
  return std::max(left, std::chrono::milliseconds(0));
}

// The rendezvous that got the report must still lead afterwards. If another one has taken over, the
// first one answers as before until its validity ends. But its successor does not know of the
// report.
absl::Status ReportToLeader(const std::vector<RendezvousPlace>& places, const Header& agent,
                            WallClock::time_point deadline) {
  std::vector<std::shared_ptr<ChannelSource>> sources;
  std::vector<std::unique_ptr<Reporter>> reporters;
  for (const RendezvousPlace& place : places) {
    sources.push_back(std::make_shared<ChannelSource>(place.endpoint, place.credentials));
    reporters.push_back(std::make_unique<Reporter>(place));
  }
  for (;;) {
    absl::Status status;
    const LeaderFound leader = FindLeader(sources, Until(deadline), {}, kSettle);
    if (leader.place) {
      bool answered = false;
      status = reporters[*leader.place]->Report(
          agent, std::min(deadline, WallClock::now() + kForOneOfSeveral), &answered);
      if (status.ok()) {
        const LeaderFound now =
            FindLeader(sources, std::min(Until(deadline), kForOneOfSeveral), {}, kSettle);
        if (now.place == leader.place) return status;
        status =
            absl::UnavailableError("the rendezvous that got the report does not lead any longer");
      }
    } else {
      status = absl::UnavailableError(absl::StrCat("no rendezvous leads: ", leader.said));
    }
    if (WallClock::now() >= deadline) return status;
    std::this_thread::sleep_for(kBetweenAttempts);
  }
}

}  // namespace

absl::Status ReportGone(const std::vector<RendezvousPlace>& places, const Header& agent,
                        Duration limit) {
  const auto deadline = WallClock::now() + std::chrono::duration_cast<WallClock::duration>(limit);
  if (places.size() > 1) return ReportToLeader(places, agent, deadline);
  Reporter reporter(places.front());
  for (;;) {
    bool answered = false;
    const absl::Status status = reporter.Report(agent, deadline, &answered);
    if (status.ok() || answered || WallClock::now() >= deadline) return status;
    std::this_thread::sleep_for(kBetweenAttempts);
  }
}

}  // namespace ddprun

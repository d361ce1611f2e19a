#include "rendezvous/client/report_gone.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ddprun/v1/rendezvous.grpc.pb.h"
#include "rendezvous/client/channel.h"
#include "rendezvous/wire/translate.h"

namespace ddprun {
namespace {

// It may just be starting again.
constexpr std::chrono::milliseconds kBetweenAttempts{100};

absl::Status Report(RenewableChannel& connection, const Header& agent,
                    std::chrono::system_clock::time_point deadline,
                    const auth::ClientCredentials* credentials) {
  grpc::ClientContext context;
  context.set_deadline(deadline);
  if (credentials != nullptr) {
    const absl::Status status =
        credentials->Authorize(connection.stub(), "ReportGone", deadline, &context);
    if (!status.ok()) return status;
  }
  v1::GoneReceived received;
  const grpc::Status result =
      connection.stub().ReportGone(&context, wire::ToGoneReport(agent), &received);
  return result.ok() ? absl::OkStatus() : absl::UnavailableError(result.error_message());
}

}  // namespace

absl::Status ReportGone(const std::string& endpoint, const Header& agent, Duration limit,
                        std::shared_ptr<const auth::ClientCredentials> credentials) {
  const auto deadline = std::chrono::system_clock::now() +
                        std::chrono::duration_cast<std::chrono::system_clock::duration>(limit);
  RenewableChannel connection(endpoint, credentials);
  grpc::Status reached = connection.Reach(deadline);
  while (reached.error_code() == grpc::StatusCode::UNAVAILABLE &&
         std::chrono::system_clock::now() < deadline) {
    std::this_thread::sleep_for(kBetweenAttempts);
    reached = connection.Reach(deadline);
  }
  const bool there = reached.error_code() != grpc::StatusCode::UNAVAILABLE;
  const absl::Status status = there ? Report(connection, agent, deadline, credentials.get())
                                    : absl::UnavailableError(reached.error_message());
  if (status.ok()) return status;
  return absl::UnavailableError(
      absl::StrCat("cannot tell the rendezvous at ", endpoint, ": ", status.message()));
}

}  // namespace ddprun

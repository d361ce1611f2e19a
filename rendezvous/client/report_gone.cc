#include "rendezvous/client/report_gone.h"

#include <grpcpp/grpcpp.h>

#include <chrono>

#include "absl/strings/str_cat.h"
#include "ddprun/v1/rendezvous.grpc.pb.h"
#include "rendezvous/client/channel.h"
#include "rendezvous/wire/translate.h"

namespace ddprun {

absl::Status ReportGone(const std::string& endpoint, const Header& agent, Duration limit,
                        const auth::ClientCredentials* credentials) {
  const auto stub = v1::Rendezvous::NewStub(MakeChannel(endpoint, credentials));
  const auto deadline = std::chrono::system_clock::now() +
                        std::chrono::duration_cast<std::chrono::system_clock::duration>(limit);
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  context.set_deadline(deadline);
  absl::Status status;
  if (credentials != nullptr) {
    status = credentials->Authorize(*stub, "ReportGone", deadline, &context);
  }
  if (status.ok()) {
    v1::GoneReceived received;
    const grpc::Status result = stub->ReportGone(&context, wire::ToGoneReport(agent), &received);
    if (result.ok()) return absl::OkStatus();
    status = absl::UnavailableError(result.error_message());
  }
  return absl::UnavailableError(
      absl::StrCat("cannot tell the rendezvous at ", endpoint, ": ", status.message()));
}

}  // namespace ddprun

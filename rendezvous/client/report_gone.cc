#include "rendezvous/client/report_gone.h"

#include <grpcpp/grpcpp.h>

#include <chrono>

#include "absl/strings/str_cat.h"
#include "ddprun/v1/rendezvous.grpc.pb.h"
#include "rendezvous/client/channel.h"
#include "rendezvous/wire/translate.h"

namespace ddprun {

absl::Status ReportGone(const std::string& endpoint, const Header& agent, Duration limit) {
  const auto stub = v1::Rendezvous::NewStub(MakeChannel(endpoint));
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::duration_cast<std::chrono::system_clock::duration>(limit));
  v1::GoneReceived received;
  const grpc::Status status = stub->ReportGone(&context, wire::ToGoneReport(agent), &received);
  if (status.ok()) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("cannot tell the rendezvous at ", endpoint, ": ", status.error_message()));
}

}  // namespace ddprun

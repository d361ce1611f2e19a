#include "rendezvous/client/connect_deadline.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rendezvous/wire/grpc_handoff.h"

namespace ddprun {

ConnectDeadline::ConnectDeadline(std::string endpoint, Duration limit)
    : endpoint_(std::move(endpoint)), limit_(limit) {}

void ConnectDeadline::Start(Done done) {
  done_ = std::move(done);
  const auto deadline = std::chrono::system_clock::now() +
                        std::chrono::duration_cast<std::chrono::system_clock::duration>(limit_);
  wire::HandToGrpc(this);
  alarm_.Set(deadline, [this](bool expired) { OnAlarm(expired); });
}

void ConnectDeadline::OnAlarm(bool expired) {
  wire::TakeFromGrpc(this);
  if (!expired) return done_(std::nullopt);
  done_(absl::StrCat("cannot reach the rendezvous at ", endpoint_, ": no answer within ",
                     std::chrono::duration<double>(limit_).count(), "s"));
}

}  // namespace ddprun

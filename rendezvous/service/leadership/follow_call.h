// FollowCall: one Follow call of proto/ddprun/v1/rendezvous.proto. The LeaderBoard gives it the
// messages.
#ifndef DDPRUN_RENDEZVOUS_SERVICE_LEADERSHIP_FOLLOW_CALL_H_
#define DDPRUN_RENDEZVOUS_SERVICE_LEADERSHIP_FOLLOW_CALL_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <mutex>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ddprun/v1/rendezvous.grpc.pb.h"
#include "rendezvous/service/access_control.h"
#include "rendezvous/service/leadership/leader_board.h"
#include "rendezvous/service/server_call.h"

namespace ddprun {

// Owns itself until gRPC has finished with it; the board shares the ownership until either side
// ends the call. A slow reader gets only the newest state: nothing queues up.
class FollowCall final : public WriterCall<v1::FollowRequest, v1::Leading>,
                         public LeaderBoard::Follower,
                         public std::enable_shared_from_this<FollowCall> {
 public:
  explicit FollowCall(CallQueues& queues);

  // The interval at which the caller asks for messages. Error: InvalidArgument.
  static absl::StatusOr<Duration> IntervalOf(const v1::FollowRequest& request);

  // Follows the board, with this slot.
  static void Begin(std::unique_ptr<FollowCall> call, std::shared_ptr<LeaderBoard> board,
                    AccessControl::Slot slot, Duration interval);
  static void Refuse(std::unique_ptr<FollowCall> call, const absl::Status& why);

  // LeaderBoard::Follower.
  void Tell(const Leading& leading) override;
  void End(const absl::Status& why) override;

 private:
  void OnWritten(bool ok);
  void OnFinished(bool ok);
  void OnDone(bool ok);

  // Starts the next write, or the end of the call. No effect before Begin or Refuse. With mutex_
  // held.
  void Continue();
  // An operation has ended. The last one ends the call.
  void Leave(std::unique_lock<std::mutex> lock);

  Operation<FollowCall> write_{this, &FollowCall::OnWritten};
  Operation<FollowCall> finish_{this, &FollowCall::OnFinished};
  Operation<FollowCall> done_{this, &FollowCall::OnDone};

  std::shared_ptr<LeaderBoard> board_;  // null: it was refused
  std::optional<AccessControl::Slot> slot_;

  std::mutex mutex_;
  // Guarded by mutex_.
  int pending_ = 1;  // pending operations; done_ is one from the start until the call ends
  std::optional<Leading> next_;
  std::optional<absl::Status> end_;
  bool writing_ = false;
  bool ended_ = false;  // Finish was called

  std::shared_ptr<FollowCall> self_;  // from Begin or Refuse until gRPC is done
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_LEADERSHIP_FOLLOW_CALL_H_

// KeyWatch: the changes of one key of etcd, from whichever member tells them. Internal to this
// folder; others have it from Client::WatchKey.
//
// It reads the key (linearizably), then has the same member stream what changes after that
// revision. Where the stream ends, it begins again at another member. A member ends it that loses
// its leader; a member that does not answer for kSilence is left.
#ifndef DDPRUN_RENDEZVOUS_ETCD_ETCD_WATCH_H_
#define DDPRUN_RENDEZVOUS_ETCD_ETCD_WATCH_H_

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "etcd/v3.grpc.pb.h"
#include "rendezvous/etcd/etcd_client.h"
#include "rendezvous/etcd/etcd_members.h"
#include "worker/contract/task_queue.h"

namespace ddprun::etcd {

class KeyWatch final : public Watch {
 public:
  // A member is asked whether it is there when it has said nothing for half of that.
  static constexpr std::chrono::milliseconds kSilence{600};
  // For a connection, and for the answer to a read.
  static constexpr std::chrono::milliseconds kPatience{400};
  // Between two tries that led to no stream; doubles.
  static constexpr std::chrono::milliseconds kFirstPause{20};
  static constexpr std::chrono::milliseconds kLastPause{500};

  KeyWatch(std::shared_ptr<Members> members, std::string key, OnChange on_change);
  // Waits for kPatience at most, where a connection is being made.
  ~KeyWatch() override;

 private:
  class Stream;

  void Run();
  // From one member, until it fails. Whether it told anything.
  bool FollowOne(std::size_t index);
  // The revision up to which the key is known then.
  std::optional<std::int64_t> Read(std::size_t index, const Members::ChannelPtr& channel,
                                   grpc::ClientContext* context);
  // What changes from `revision` on, until the stream ends.
  void Listen(std::size_t index, const Members::ChannelPtr& channel, grpc::ClientContext* context,
              std::int64_t revision);
  void Tell(KeyState state);
  // Makes `context` the one that the destructor cancels; false: it has begun.
  bool Begin(grpc::ClientContext* context);
  void End();

  const std::shared_ptr<Members> members_;
  const std::string key_;
  const OnChange on_change_;
  std::optional<KeyState> told_;  // the thread's

  std::mutex mutex_;
  std::condition_variable stopped_;
  // Guarded by mutex_.
  bool stop_ = false;
  grpc::ClientContext* context_ = nullptr;  // of the call under way

  TaskQueue thread_{"ddp-etcd-watch"};  // ends first
};

}  // namespace ddprun::etcd

#endif  // DDPRUN_RENDEZVOUS_ETCD_ETCD_WATCH_H_

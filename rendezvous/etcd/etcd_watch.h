// KeyWatch: reports the changes of one key, from any member of etcd. Internal to this folder; other
// code gets it from Client::WatchKey.
//
// It reads the key (linearizably). Then the same member streams the changes after that revision. If
// the stream ends, KeyWatch starts again at another member. A member that loses its leader ends the
// stream. A member that is silent for kSilence is replaced by another one.
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
  // After half of this time without a message, the member is asked to send one.
  static constexpr std::chrono::milliseconds kSilence{600};
  // Time limit of a connection, and of the answer to a read.
  static constexpr std::chrono::milliseconds kPatience{400};
  // The pause before the next try. It doubles up to kLastPause until a member has answered a read.
  static constexpr std::chrono::milliseconds kFirstPause{20};
  static constexpr std::chrono::milliseconds kLastPause{500};

  KeyWatch(std::shared_ptr<Members> members, std::string key, OnChange on_change);
  // If a connection is being opened, waits for it: at most kPatience, and 2 s more while etcd is
  // asked for a token.
  ~KeyWatch() override;

 private:
  class Stream;

  void Run();
  // Watches at one member until it fails. Returns whether the member reported anything.
  bool FollowOne(std::size_t index);
  // Returns the revision of the read.
  std::optional<std::int64_t> Read(std::size_t index, const Members::ChannelPtr& channel,
                                   grpc::ClientContext* context);
  // Reports changes from `revision` on, until the stream ends.
  void Listen(std::size_t index, const Members::ChannelPtr& channel, grpc::ClientContext* context,
              std::int64_t revision);
  void Tell(KeyState state);
  // The destructor will cancel `context`. False: the destructor has begun.
  bool Begin(grpc::ClientContext* context);
  void End();

  const std::shared_ptr<Members> members_;
  const std::string key_;
  const OnChange on_change_;
  std::optional<KeyState> told_;  // used by thread_ only

  std::mutex mutex_;
  std::condition_variable stopped_;
  // Guarded by mutex_.
  bool stop_ = false;
  grpc::ClientContext* context_ = nullptr;  // of the call under way

  TaskQueue thread_{"ddp-etcd-watch"};  // ends first
};

}  // namespace ddprun::etcd

#endif  // DDPRUN_RENDEZVOUS_ETCD_ETCD_WATCH_H_

// PeerLink: a standby's link to the process that leads: one Follow call (rendezvous.proto), opened
// again whenever it ends.
//
// It tells the owner what Leadership wants to know: the leader was heard, is gone, or hands over.
// Silence it does not tell: Leadership has a clock for that. It is a hint only. etcd decides, so
// any certificate will do where no authority is configured.
//
// A connection that breaks is opened once more at once: only where that is refused, the process is
// gone. What a firewall resets is still there.
#ifndef DDPRUN_RENDEZVOUS_SERVICE_LEADERSHIP_PEER_LINK_H_
#define DDPRUN_RENDEZVOUS_SERVICE_LEADERSHIP_PEER_LINK_H_

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "rendezvous/leadership/leadership.h"

namespace ddprun {

class PeerLink {
 public:
  // Of one channel, with the files of TLS as they are now.
  using Credentials = std::function<std::shared_ptr<grpc::ChannelCredentials>()>;
  // PeerHeard, PeerRefused or PeerResigns; on the link's thread; must not block.
  using Report = std::function<void(Leadership::Event)>;

  // How often the leader is asked to say that it is there.
  static constexpr std::chrono::milliseconds kInterval{150};

  PeerLink(Credentials credentials, Report report);
  ~PeerLink();
  PeerLink(const PeerLink&) = delete;
  PeerLink& operator=(const PeerLink&) = delete;

  // Links to this process from now on, and to no other; "": to none. Any thread; never blocks.
  void Watch(std::string endpoint);

 private:
  void Run();
  // One call, until it ends. With mutex_ held before and after.
  grpc::Status Follow(std::unique_lock<std::mutex>& lock, const std::string& endpoint);
  void Tell(std::unique_lock<std::mutex>& lock, Leadership::Event event);

  const Credentials credentials_;
  const Report report_;

  std::mutex mutex_;
  std::condition_variable wake_;
  // Guarded by mutex_.
  std::string endpoint_;
  std::uint64_t watched_ = 0;               // how often Watch was called
  grpc::ClientContext* context_ = nullptr;  // of the call that goes on
  bool shutdown_ = false;

  std::thread thread_;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_LEADERSHIP_PEER_LINK_H_

// PeerLink: a standby's link to the leading process: one Follow call (rendezvous.proto), made again
// whenever it ends.
//
// It reports three events to Leadership: the leader was heard, is gone, or hands over. It does not
// report silence: Leadership measures that itself. The link is only a hint, because etcd decides.
// So without a configured authority any certificate is accepted.
//
// After a broken connection the link connects again at once. The process counts as gone only if an
// attempt to connect is refused: a firewall may reset the connection of a living process.
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
  // Makes the credentials of one channel, with the present content of the TLS files.
  using Credentials = std::function<std::shared_ptr<grpc::ChannelCredentials>()>;
  // PeerHeard, PeerRefused or PeerResigns; on the link's thread; must not block.
  using Report = std::function<void(Leadership::Event)>;

  // The interval of the leader's messages.
  static constexpr std::chrono::milliseconds kInterval{150};

  PeerLink(Credentials credentials, Report report);
  ~PeerLink();
  PeerLink(const PeerLink&) = delete;
  PeerLink& operator=(const PeerLink&) = delete;

  // From now on the link is to this process; "": there is no link. Any thread; never blocks.
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
  std::uint64_t watched_ = 0;               // how often Watch has changed endpoint_
  grpc::ClientContext* context_ = nullptr;  // of the call in progress
  bool shutdown_ = false;

  std::thread thread_;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_LEADERSHIP_PEER_LINK_H_

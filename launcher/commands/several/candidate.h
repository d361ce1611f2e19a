// Candidate: the parts of `ddprun rendezvous --etcd` besides its server. They are the connection to
// etcd, the job records there, and the loop that makes this process lead or stand by.
//
// It leads at most once. After that, unless it was asked to end, the process executes itself again
// and stands by. So no state of its earlier leadership is left over.
#ifndef DDPRUN_LAUNCHER_COMMANDS_SEVERAL_CANDIDATE_H_
#define DDPRUN_LAUNCHER_COMMANDS_SEVERAL_CANDIDATE_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "launcher/config/flags/cli.h"
#include "rendezvous/auth/server_credentials.h"
#include "rendezvous/etcd/etcd_client.h"
#include "rendezvous/etcd/etcd_store.h"
#include "rendezvous/service/leadership/leader_board.h"
#include "rendezvous/service/leadership/leader_key.h"
#include "rendezvous/service/leadership/leadership_loop.h"
#include "rendezvous/service/leadership/validity.h"
#include "rendezvous/service/rendezvous_server.h"

namespace ddprun {

class Candidate {
 public:
  // Why this process serves no more.
  struct End {
    std::string why;
    absl::Status status{};  // an error: why this process can never lead
    int ousted = 0;         // for the next execution (Leadership::Options)
  };
  // On any thread; must only enqueue. The first call counts.
  using OnEnd = std::function<void(End)>;

  // InvalidArgument, for people: other hosts may share this etcd, and would get an address that
  // only this host reaches. `host`: where the server will listen.
  static absl::Status CheckAdvertised(const EtcdConfig& config, const std::string& host);

  // Reads the files, and opens no connection yet. `credentials`: of the server.
  static absl::StatusOr<std::unique_ptr<Candidate>> Create(
      const EtcdConfig& config, std::shared_ptr<const auth::ServerCredentials> credentials,
      OnEnd on_end);
  // Sets the server's store and its validity. This object outlives the server.
  void AddTo(RendezvousServer::Options* options);

  // Stands for leadership from now on. `server` serves, listens at `host`, and outlives Stop;
  // `ousted` as in End.
  void Start(RendezvousServer* server, const std::string& host, int ousted);
  // Hands over. OnEnd follows: at once if another rendezvous stands by, else within a second.
  void Resign();
  // Call it before the server's end. Idempotent.
  void Stop();

 private:
  Candidate(EtcdConfig config, OnEnd on_end)
      : config_(std::move(config)), on_end_(std::move(on_end)) {}

  // The endpoint at which agents and the other rendezvous reach this one.
  std::string AdvertisedEndpoint(const std::string& host, int port) const;
  LeadershipLoop::Effects EffectsOn(RendezvousServer* server);

  const EtcdConfig config_;
  const OnEnd on_end_;
  std::shared_ptr<const auth::ServerCredentials> credentials_;
  Validity validity_;
  std::shared_ptr<LeaderBoard> board_;
  std::shared_ptr<etcd::Client> client_;
  std::unique_ptr<LeaderKey> key_;
  std::shared_ptr<etcd::EtcdStore> store_;
  std::unique_ptr<LeadershipLoop> loop_;  // from Start
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_COMMANDS_SEVERAL_CANDIDATE_H_

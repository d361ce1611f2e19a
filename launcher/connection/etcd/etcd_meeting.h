// EtcdMeeting: with --rdzv-backend etcd, finds the rendezvous at which the agents of a job meet:
// the one that etcd names, or one that an agent starts.
//
// An agent starts `ddprun rendezvous --etcd --until-idle` on a free port of its host. MeetingSearch
// decides which agent does this, and when. The started process is detached from the agent, takes
// over if nobody leads, and ends by itself after the job.
//
// The loop's thread only; another thread reads etcd.
#ifndef DDPRUN_LAUNCHER_CONNECTION_ETCD_ETCD_MEETING_H_
#define DDPRUN_LAUNCHER_CONNECTION_ETCD_ETCD_MEETING_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "launcher/config/job_config.h"
#include "launcher/connection/etcd/meeting_keys.h"
#include "launcher/connection/etcd/meeting_search.h"
#include "launcher/os/event_loop.h"
#include "launcher/os/off_loop.h"
#include "launcher/os/process/detached_process.h"
#include "rendezvous/auth/client_credentials.h"
#include "rendezvous/client/rendezvous_client.h"

namespace ddprun {

class EtcdMeeting {
 public:
  // Called when etcd names another rendezvous than before, with a reason for people.
  using OnMoved = std::function<void(const std::string& reason)>;

  // `node_address`: at which others reach this host. `claimant`: as in MeetingSearch. `log_file`:
  // of a started rendezvous. `loop` must outlive the result. May block on a name server. The
  // texts of errors are for people. FailedPrecondition: others could write to this etcd, a
  // rendezvous here would be open to others, or a file of etcd or of the credentials is unusable.
  static absl::StatusOr<std::unique_ptr<EtcdMeeting>> Create(const JobConfig& config,
                                                             const std::string& node_address,
                                                             std::string claimant,
                                                             std::string log_file, EventLoop* loop);
  ~EtcdMeeting();
  EtcdMeeting(const EtcdMeeting&) = delete;
  EtcdMeeting& operator=(const EtcdMeeting&) = delete;

  // Reads etcd from now on.
  void Begin(OnMoved on_moved);

  // Makes a client for one attempt to connect to the rendezvous that led when etcd was last read.
  // If none led, the client is lost at once, with the reason.
  std::unique_ptr<RendezvousClient> MakeClient(Duration limit) const;
  // The credentials of the newest client have been replaced.
  bool CredentialsOutdated() const { return credentials_ != nullptr && credentials_->Outdated(); }
  // A rendezvous that was started here runs.
  bool IsRunning() { return process_.running(); }
  void OnHeard();
  void OnLost(const RendezvousClient::Lost& lost);

 private:
  // The result of a read on the other thread.
  struct Found {
    absl::Status status{};
    MeetingSearch::Seen seen{};
    std::shared_ptr<const auth::ClientCredentials> credentials{};  // null unless endpoint is new
  };

  EtcdMeeting(const JobConfig& config, std::shared_ptr<const MeetingKeys> keys,
              std::vector<std::string> arguments, std::string claimant, std::string log_file,
              EventLoop* loop);

  void WaitForNextRead();
  void Read();
  void OnFound(const Found& found);
  void GoTo(const Found& found);
  void Claim();
  void Start();
  std::string Etcd() const { return "etcd at " + rendezvous_.endpoint; }

  const RendezvousConfig rendezvous_;
  const bool insecure_;
  const std::shared_ptr<const MeetingKeys> keys_;
  const std::vector<std::string> arguments_;  // of a started rendezvous
  const std::string log_file_;
  EventLoop* const loop_;
  MeetingSearch search_;
  OnMoved on_moved_;
  std::string endpoint_;     // of the next attempt; "": none
  std::string why_nowhere_;  // for people
  std::string logged_;       // the last logged end of a rendezvous started here
  std::shared_ptr<const auth::ClientCredentials> credentials_;
  bool asking_ = false;  // a request to etcd is in progress
  EventLoop::TimerId timer_ = 0;
  DetachedProcess process_;
  OffLoop asks_;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONNECTION_ETCD_ETCD_MEETING_H_

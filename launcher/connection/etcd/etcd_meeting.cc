#include "launcher/connection/etcd/etcd_meeting.h"

#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "launcher/config/values.h"
#include "launcher/connection/credentials.h"
#include "launcher/connection/etcd_client_options.h"
#include "launcher/connection/rendezvous_host.h"
#include "launcher/log.h"
#include "launcher/os/local_address.h"
#include "rendezvous/auth/server_credentials.h"
#include "rendezvous/client/grpc_rendezvous_client.h"

namespace ddprun {
namespace {

// An attempt without an endpoint to connect to: lost at once.
class NobodyClient final : public RendezvousClient {
 public:
  explicit NobodyClient(std::string reason) : reason_(std::move(reason)) {}
  void Open(Handler handler) override {
    Lost lost{reason_};
    lost.attempt_started_at = EventLoop::Clock::now();
    handler(std::move(lost));
  }
  void Send(const Header&, const AgentMessage&) override {}
  void Close() override {}

 private:
  const std::string reason_;
};

// The arguments that start a rendezvous on this host. FailedPrecondition: it must not be started
// here.
absl::StatusOr<std::vector<std::string>> ArgumentsOf(const JobConfig& config,
                                                     const std::string& node_address) {
  const auto own = OwnAddress(node_address);
  if (!own.ok()) return own.status();
  // The address may be that of a router in front of this host.
  const std::string listen =
      own->has_value() ? AddressToListenOn(node_address, **own) : std::string("0.0.0.0");
  const CredentialsConfig& credentials = config.rendezvous.credentials;
  const auto options = CredentialOptionsOf(credentials, !IsLoopback(listen));
  if (!IsLoopback(listen) && !config.insecure && !auth::AsksWhoCalls(options)) {
    return OpenToOthers(
        absl::StrCat("at ", node_address, ", because etcd names no running rendezvous"));
  }
  const absl::Status complete = auth::CheckServerOptions(options);
  if (!complete.ok()) return absl::FailedPreconditionError(complete.message());
  std::vector<std::string> arguments = {"rendezvous",
                                        "--listen",
                                        FormatEndpoint({listen, 0}),
                                        "--advertise",
                                        FormatEndpoint({node_address, 0}),
                                        "--until-idle",
                                        kFirstAgentWithin,
                                        "--starter",
                                        absl::StrCat(getpid())};
  if (config.insecure) arguments.emplace_back("--insecure");
  for (const auto& more :
       {EtcdArguments(config.rendezvous.etcd), CredentialArguments(credentials)}) {
    arguments.insert(arguments.end(), more.begin(), more.end());
  }
  return arguments;
}

}  // namespace

absl::StatusOr<std::unique_ptr<EtcdMeeting>> EtcdMeeting::Create(const JobConfig& config,
                                                                 const std::string& node_address,
                                                                 std::string claimant,
                                                                 std::string log_file,
                                                                 EventLoop* loop) {
  const absl::Status safe = CheckEtcd(config.rendezvous.etcd, config.insecure, "--rdzv-endpoint");
  if (!safe.ok()) return absl::FailedPreconditionError(safe.message());
  auto keys = MeetingKeys::Open(config.rendezvous.etcd);
  if (!keys.ok()) return absl::FailedPreconditionError(keys.status().message());
  std::vector<std::string> arguments;
  if (config.rendezvous.autostart != "false") {
    auto made = ArgumentsOf(config, node_address);
    if (!made.ok()) return made.status();
    arguments = *std::move(made);
  }
  return std::unique_ptr<EtcdMeeting>(new EtcdMeeting(config, *std::move(keys),
                                                      std::move(arguments), std::move(claimant),
                                                      std::move(log_file), loop));
}

EtcdMeeting::EtcdMeeting(const JobConfig& config, std::shared_ptr<const MeetingKeys> keys,
                         std::vector<std::string> arguments, std::string claimant,
                         std::string log_file, EventLoop* loop)
    : rendezvous_(config.rendezvous),
      insecure_(config.insecure),
      keys_(std::move(keys)),
      arguments_(std::move(arguments)),
      log_file_(std::move(log_file)),
      loop_(loop),
      search_(std::move(claimant), /*may_start=*/!arguments_.empty(), EventLoop::Clock::now()),
      why_nowhere_(absl::StrCat(Etcd(), " has not answered yet")),
      process_(loop),
      asks_(loop, "ddprun-etcd") {}

EtcdMeeting::~EtcdMeeting() { loop_->CancelTimer(timer_); }

void EtcdMeeting::Begin(OnMoved on_moved) {
  on_moved_ = std::move(on_moved);
  Read();
}

std::unique_ptr<RendezvousClient> EtcdMeeting::MakeClient(Duration limit) const {
  if (endpoint_.empty()) return std::make_unique<NobodyClient>(why_nowhere_);
  return std::make_unique<GrpcRendezvousClient>(
      GrpcRendezvousClient::Options{endpoint_, limit, credentials_});
}

void EtcdMeeting::OnHeard() { search_.OnHeard(EventLoop::Clock::now()); }

void EtcdMeeting::OnLost(const RendezvousClient::Lost& lost) {
  search_.OnLost(lost.refused, EventLoop::Clock::now());
  WaitForNextRead();
}

void EtcdMeeting::WaitForNextRead() {
  loop_->CancelTimer(timer_);
  if (asking_) return;
  timer_ = loop_->AddTimer(search_.NextRead(), [this] {
    EventLoop::Clock::now() < search_.NextRead() ? WaitForNextRead() : Read();
  });
}

void EtcdMeeting::Read() {
  loop_->CancelTimer(timer_);
  asking_ = true;
  search_.OnReadBegan(EventLoop::Clock::now());
  asks_.Run(
      [keys = keys_, known = endpoint_, config = rendezvous_.credentials, insecure = insecure_] {
        Found found;
        auto seen = keys->Read();
        found.status = seen.status();
        if (!seen.ok()) return found;
        found.seen = *std::move(seen);
        if (found.seen.endpoint.empty() || found.seen.endpoint == known) return found;
        auto credentials = LoadCredentials(config, found.seen.endpoint, insecure, &LogTlsFiles);
        found.status = credentials.status();
        if (credentials.ok()) found.credentials = *std::move(credentials);
        return found;
      },
      [this](const Found& found) {
        asking_ = false;
        OnFound(found);
        WaitForNextRead();
      });
}

void EtcdMeeting::OnFound(const Found& found) {
  if (!found.status.ok()) {
    why_nowhere_ = absl::StrCat(Etcd(), " does not answer: ", found.status.message());
    LogDebug(why_nowhere_);
    return;
  }
  const auto next = search_.OnSeen(found.seen, process_.running(), EventLoop::Clock::now());
  GoTo(found);
  if (next == MeetingSearch::Next::kClaim) Claim();
  if (next == MeetingSearch::Next::kStart) Start();
}

void EtcdMeeting::GoTo(const Found& found) {
  why_nowhere_ =
      absl::StrCat("no rendezvous leads: ", Etcd(), " names none under ", rendezvous_.etcd.prefix);
  if (found.seen.endpoint == endpoint_) return;
  endpoint_ = found.seen.endpoint;
  if (endpoint_.empty()) return;
  credentials_ = found.credentials;
  const std::string where = absl::StrCat("the rendezvous is at ", endpoint_, " by ", Etcd());
  LogInfo(absl::StrCat(where, "; for ddprun status, stacks and stop: --rdzv-endpoint ", endpoint_));
  on_moved_(where);
}

void EtcdMeeting::Claim() {
  asking_ = true;
  asks_.Run([keys = keys_, revision = search_.seen().claim_revision,
             claimant = search_.claimant()] { return keys->Claim(revision, claimant); },
            [this](const absl::Status& status) {
              if (!status.ok()) LogDebug(status.message());
              Read();
            });
}

void EtcdMeeting::Start() {
  const std::string& before = search_.seen().endpoint;
  LogInfo(absl::StrCat(before.empty() ? absl::StrCat("no rendezvous leads, according to ", Etcd())
                                      : absl::StrCat("the rendezvous at ", before, ", which ",
                                                     Etcd(), " names, does not answer"),
                       ": starting one here; its log is ", log_file_));
  process_.StartSelf(arguments_, log_file_,
                     {[](const absl::Status& status) { LogWarning(status.message()); },
                      [this](const DetachedProcess::Ended& ended) {
                        if (ended.status.ok()) return;
                        const RendezvousEnd end = EndOfRendezvous("for etcd", ended, log_file_);
                        if (std::exchange(logged_, end.why) != end.why) LogWarning(end.why);
                      }});
}

}  // namespace ddprun

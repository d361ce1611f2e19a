#include "launcher/commands/several/candidate.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "launcher/config/values.h"
#include "launcher/connection/connection.h"
#include "launcher/connection/etcd_client_options.h"
#include "launcher/log.h"
#include "launcher/os/local_address.h"
#include "rendezvous/auth/crypto.h"
#include "rendezvous/core/limits.h"
#include "rendezvous/etcd/state_map.h"

namespace ddprun {
namespace {

constexpr std::size_t kIdBytes = 16;

void Log(std::string_view text) { LogInfo(std::string(text)); }

std::int64_t MillisecondsSince(TimePoint begin) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(BootTime() - begin).count();
}

}  // namespace

absl::Status Candidate::CheckAdvertised(const EtcdConfig& config, const std::string& host) {
  const bool named = !config.advertised_host.empty();
  const std::string& advertised = named ? config.advertised_host : host;
  const bool alone =
      std::all_of(config.endpoints.begin(), config.endpoints.end(),
                  [](const std::string& endpoint) { return IsLoopback(HostOf(endpoint)); });
  if (alone || !IsLoopback(advertised)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      named ? "--advertise: " : "--listen: ", advertised,
      " is a loopback address: other rendezvous and agents, which share the etcd at ",
      absl::StrJoin(config.endpoints, ", "), ", would look for the leader on their own hosts; ",
      named ? "name" : "listen on, or name with --advertise,", " an address that they can reach"));
}

absl::StatusOr<std::unique_ptr<Candidate>> Candidate::Create(
    const EtcdConfig& config, std::shared_ptr<const auth::ServerCredentials> credentials,
    OnEnd on_end) {
  auto client = etcd::Client::Create(ClientOptionsOf(config));
  if (!client.ok()) return client.status();
  std::unique_ptr<Candidate> candidate(new Candidate(config, std::move(on_end)));
  candidate->credentials_ = std::move(credentials);
  candidate->client_ = *std::move(client);
  candidate->key_ = std::make_unique<LeaderKey>(candidate->client_.get(),
                                                etcd::StateMap(config.prefix).leader_key());
  candidate->board_ = std::make_shared<LeaderBoard>(&candidate->validity_);
  etcd::EtcdStore::Options store;
  store.client = candidate->client_;
  store.prefix = config.prefix;
  store.on_trouble = [board = candidate->board_](const std::string& why) {
    board->SetTrouble(why);
  };
  candidate->store_ = std::make_shared<etcd::EtcdStore>(std::move(store), &Log);
  return candidate;
}

void Candidate::AddTo(RendezvousServer::Options* options) {
  options->store = store_;
  options->validity = &validity_;
  options->board = board_;
  options->secret_key = credentials_->shared_key;
  options->machine.shortest_lease = kMinLeaseOfSeveral;
  options->machine.longest_lease = Leadership::Options().longest_lease;
  options->lost_right = [this] { loop_->Post(Leadership::RightLost{}); };
}

std::string Candidate::AdvertisedEndpoint(const std::string& host, int port) const {
  Endpoint endpoint{config_.advertised_host, config_.advertised_port};
  if (endpoint.port == 0) endpoint.port = port;
  if (endpoint.host.empty()) endpoint.host = host;
  if (endpoint.host == "0.0.0.0" || endpoint.host == "::") {
    endpoint.host = OutsideAddress().value_or(HostName());
  }
  return FormatEndpoint(endpoint);
}

void Candidate::Start(RendezvousServer* server, const std::string& host, int ousted) {
  const std::string endpoint = AdvertisedEndpoint(host, server->port());
  LeadershipLoop::Options options;
  options.leadership.id = auth::RandomBytes(kIdBytes);
  options.leadership.endpoint = endpoint;
  options.leadership.validity = config_.leader_validity;
  options.leadership.ousted = ousted;
  options.board = board_;
  options.validity = &validity_;
  options.key = key_.get();
  options.to_peers = credentials_->to_peers;
  LogInfo(absl::StrCat("keeps the jobs in etcd at ", absl::StrJoin(config_.endpoints, ", "),
                       ", under ", config_.prefix, "; agents and other rendezvous reach it at ",
                       endpoint));
  loop_ = std::make_unique<LeadershipLoop>(std::move(options), EffectsOn(server));
  loop_->Start();
}

LeadershipLoop::Effects Candidate::EffectsOn(RendezvousServer* server) {
  LeadershipLoop::Effects effects;
  effects.in_order = [this](std::function<void()> task) { store_->Post(std::move(task)); };
  effects.set_writer = [this](Term term) { store_->SetTerm(term); };
  effects.lead = [server](Term term, Duration hold, bool restored) {
    const TimePoint begin = BootTime();
    absl::Status status = server->Lead(term, hold, restored);
    if (status.ok()) {
      Log(absl::StrCat("serves the jobs: term ", term.revision, " of etcd cluster ",
                       absl::Hex(term.cluster), ", read in ", MillisecondsSince(begin), " ms"));
    }
    return status;
  };
  effects.change_term = [server](Term term) { server->ChangeTerm(term); };
  effects.on_valid = [server] { server->OnValidity(); };
  effects.set_leader = [server](const std::string& endpoint) { server->SetLeader(endpoint); };
  effects.step_down = [this](const Leadership::StepDown& down) {
    on_end_({down.why, absl::OkStatus(), down.ousted});
  };
  effects.cannot_lead = [this](const absl::Status& status) {
    on_end_({absl::IsDataLoss(status) ? "cannot read the jobs in etcd"
                                      : "etcd does not let this rendezvous in",
             status, 0});
  };
  effects.log = &Log;
  return effects;
}

void Candidate::Resign() { loop_->Post(Leadership::EndAsked{}); }

void Candidate::Stop() {
  if (loop_ != nullptr) loop_->Stop();
}

}  // namespace ddprun

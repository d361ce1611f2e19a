#include "launcher/connection/connection.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "launcher/config/values.h"
#include "launcher/connection/credentials.h"
#include "launcher/connection/leader_watch.h"
#include "launcher/connection/persistent_rendezvous_client.h"
#include "launcher/log.h"
#include "launcher/os/local_address.h"
#include "rendezvous/auth/client_credentials.h"
#include "rendezvous/auth/server_credentials.h"
#include "rendezvous/client/channel_source.h"
#include "rendezvous/client/follower.h"
#include "rendezvous/client/grpc_rendezvous_client.h"
#include "worker/contract/job_name.h"

namespace ddprun {

std::string HostOf(const std::string& endpoint) {
  std::string host = endpoint.substr(0, endpoint.rfind(':'));
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  return host;
}

int PortOf(const std::string& endpoint) {
  int port = 0;
  const bool number = absl::SimpleAtoi(endpoint.substr(endpoint.rfind(':') + 1), &port);
  return number ? port : 0;
}

absl::StatusOr<std::string> NodeAddress(const JobConfig& config) {
  if (!config.local_addr.empty()) return config.local_addr;
  if (config.standalone()) return std::string("127.0.0.1");
  absl::StatusOr<std::string> address;
  // Of several endpoints, the first one with a host that a name server knows.
  for (const std::string& endpoint : SplitEndpoints(config.rendezvous.endpoint)) {
    const std::string host = HostOf(endpoint);
    address = LocalAddressTowards(host, 1);
    if (!address.ok()) continue;
    // Debian's /etc/hosts maps a host's own name to 127.0.1.1, which other nodes cannot reach.
    if (IsLoopback(*address) && !IsLoopback(host)) {
      if (const auto outside = OutsideAddress(); outside.has_value()) return *outside;
    }
    break;
  }
  return address;
}

std::vector<std::string> PlacesOf(const RendezvousConfig& config) {
  if (config.several()) return SplitEndpoints(config.endpoint);
  std::vector<std::string> places = {config.endpoint};
  const std::string host = config.endpoint.substr(0, config.endpoint.rfind(':'));
  for (int spare = 1; spare <= config.spare_ports; ++spare) {
    places.push_back(absl::StrCat(host, ":", PortOf(config.endpoint) + spare));
  }
  return places;
}

namespace {

constexpr std::chrono::milliseconds kMungedWithin{1000};

// nullptr: the endpoint is on another host.
absl::StatusOr<std::unique_ptr<RendezvousHosts>> MakeHosts(const JobConfig& config,
                                                           const RunDirectory& run, int places,
                                                           EventLoop* loop) {
  const auth::CredentialOptions options =
      CredentialOptionsOf(config.rendezvous.credentials, IsReachable(config.rendezvous.endpoint));
  std::vector<std::unique_ptr<RendezvousHost>> hosts;
  for (int place = 0; place < places; ++place) {
    RendezvousHost::Options host_options;
    host_options.host = HostOf(config.rendezvous.endpoint);
    host_options.port = PortOf(config.rendezvous.endpoint) + place;
    host_options.insecure = config.insecure;
    host_options.asks_who_calls = auth::AsksWhoCalls(options);
    host_options.credentials = CredentialArguments(config.rendezvous.credentials);
    host_options.log_file = absl::StrCat(run.path(), "/rendezvous.log");
    auto host = RendezvousHost::Create(std::move(host_options), loop);
    if (!host.ok()) return host.status();
    if (*host == nullptr) return nullptr;
    hosts.push_back(*std::move(host));
  }
  const absl::Status complete = auth::CheckServerOptions(options);
  if (!complete.ok()) return absl::FailedPreconditionError(complete.message());
  return std::make_unique<RendezvousHosts>(std::move(hosts), config.rendezvous.endpoint,
                                           /*only_at_first=*/config.rendezvous.autostart == "auto");
}

// Whether this agent may start the rendezvous. With `auto` and given credentials it may not: their
// user runs a daemon, which may be restarting now.
bool MayStart(const RendezvousConfig& rendezvous) {
  if (rendezvous.autostart != "auto") return rendezvous.autostart == "true";
  return !CredentialOptionsOf(rendezvous.credentials, /*reachable=*/false).any();
}

// `hosts` stays null if this agent starts no rendezvous.
absl::Status AddHosts(const JobConfig& config, const RunDirectory& run, int places, EventLoop* loop,
                      std::unique_ptr<RendezvousHosts>* hosts) {
  if (!MayStart(config.rendezvous)) return absl::OkStatus();
  auto made = MakeHosts(config, run, places, loop);
  if (made.ok()) {
    *hosts = *std::move(made);
  } else if (config.rendezvous.autostart == "auto") {
    LogDebug(absl::StrCat("no rendezvous is started here: ", made.status().message()));
  } else {
    return made.status();
  }
  return absl::OkStatus();
}

// If munged is needed: checks that it answers on this host, with retries, because it may be
// restarting. `hosts` may be null. Without munged the rendezvous is started all the same: only it
// can tell the other nodes that munged is missing.
absl::Status CheckMunged(const auth::ClientCredentials& credentials, RendezvousHosts* hosts) {
  const auto deadline = EventLoop::Clock::now() + kMungedWithin;
  for (;;) {
    const absl::Status status = credentials.Check();
    // A busy munged is asked again later, when it is needed.
    if (!absl::IsFailedPrecondition(status)) return absl::OkStatus();
    if (EventLoop::Clock::now() > deadline) {
      return absl::PermissionDeniedError(absl::StrCat("--munge: ", status.message()));
    }
    if (hosts != nullptr) hosts->EnsureRunning(0);
    std::this_thread::sleep_for(kMungedWithin / 10);
  }
}

// How to reach the rendezvous at one place.
struct MeetingPlace {
  std::string endpoint;
  std::shared_ptr<const auth::ClientCredentials> credentials;
  std::shared_ptr<ChannelSource> shared;  // with several rendezvous; else null
};

std::vector<MeetingPlace> MeetingPlacesOf(
    const RendezvousConfig& config, const std::vector<std::string>& places,
    const std::vector<std::shared_ptr<const auth::ClientCredentials>>& credentials) {
  std::vector<MeetingPlace> all;
  for (std::size_t place = 0; place < places.size(); ++place) {
    all.push_back({places[place], credentials[place], nullptr});
    if (!config.several()) continue;
    all.back().shared = std::make_shared<ChannelSource>(places[place], credentials[place]);
  }
  return all;
}

PersistentRendezvousClient::Options ClientOptionsOf(const JobConfig& config,
                                                    std::vector<MeetingPlace> meeting,
                                                    RendezvousHosts* hosts, SharedPlace* heard_at) {
  PersistentRendezvousClient::Options options;
  options.places = static_cast<int>(meeting.size());
  options.several = config.rendezvous.several();
  options.credentials_outdated = [meeting](int place) {
    return meeting[place].credentials->Outdated();
  };
  options.make_waiting = [meeting](int place) {
    const MeetingPlace& there = meeting[place];
    return std::make_unique<GrpcRendezvousClient>(GrpcRendezvousClient::Options{
        there.endpoint, kDefaultConnectTimeout, there.credentials, there.shared, /*waits=*/true});
  };
  options.make_client = [meeting = std::move(meeting)](int place, Duration limit) {
    const MeetingPlace& there = meeting[place];
    return std::make_unique<GrpcRendezvousClient>(
        GrpcRendezvousClient::Options{there.endpoint, limit, there.credentials, there.shared});
  };
  options.ensure_running = [hosts](int place) {
    return hosts != nullptr && hosts->EnsureRunning(place);
  };
  options.denied_at = [hosts](int place) {
    if (hosts != nullptr) hosts->OnDenied(place);
  };
  options.heard_at = [heard_at, hosts](int place) {
    heard_at->Set(place);
    if (hosts != nullptr) hosts->OnHeard();
  };
  return options;
}

ReconnectTiming::Options TimingOf(const JobConfig& config, std::uint64_t seed) {
  ReconnectTiming::Options timing;
  timing.seed = seed;
  // At least one attempt must fit into a lease, even into the shortest one.
  const Duration third = config.spec.lease / 3;
  timing.longest_backoff = std::min(timing.longest_backoff, third);
  timing.shortest_attempt = std::min(timing.shortest_attempt, third);
  return timing;
}

// Makes the client and, with several rendezvous, the LeaderWatch that directs it to the leader.
void Meet(const JobConfig& config, const std::vector<MeetingPlace>& meeting, std::uint64_t seed,
          SharedPlace* heard_at, EventLoop* loop, Connection* connection) {
  auto options = ClientOptionsOf(config, meeting, connection->hosts.get(), heard_at);
  options.timing = TimingOf(config, seed);
  auto client = std::make_unique<PersistentRendezvousClient>(loop, std::move(options));
  if (config.rendezvous.several()) {
    connection->leader = std::make_unique<LeaderWatch>(
        loop, static_cast<int>(meeting.size()), seed,
        [meeting](int place, Follower::Handler handler) {
          return Follow(meeting[place].shared, std::move(handler));
        },
        [client = client.get(), meeting](std::optional<int> place) {
          client->Lead(place, place ? absl::StrCat("the rendezvous at ", meeting[*place].endpoint,
                                                   " leads now")
                                    : "");
        },
        [client = client.get()](int place) { client->StandBy(place); });
  }
  if (connection->hosts != nullptr) {
    connection->hosts->WhenUseless(
        [client = client.get()] { client->SkipPlace(); },
        [client = client.get()](const std::string& why) { client->FindUseless(why); });
  }
  connection->client = std::move(client);
}

// Warns about weak settings, and returns errors before any connection is opened.
absl::Status CheckCredentials(const JobConfig& config, const std::string& node_address,
                              const auth::ClientCredentials& credentials, RendezvousHosts* hosts) {
  if (!credentials.warning().empty()) LogWarning(credentials.warning());
  if (const std::string warning = WarnOfName(config, node_address); !warning.empty()) {
    LogWarning(warning);
  }
  return CheckMunged(credentials, hosts);
}

// With --rdzv-backend etcd.
absl::Status MeetByEtcd(const JobConfig& config, const RunDirectory& run, std::uint64_t seed,
                        EventLoop* loop, Connection* connection) {
  auto made =
      EtcdMeeting::Create(config, connection->node_address,
                          absl::StrCat(HostName(), " pid ", getpid(), " agent ", absl::Hex(seed)),
                          absl::StrCat(run.path(), "/rendezvous.log"), loop);
  if (!made.ok()) return made.status();
  // The credentials for the endpoint that etcd will name are probably the same.
  const auto credentials =
      LoadCredentials(config.rendezvous.credentials, FormatEndpoint({connection->node_address, 0}),
                      config.insecure);
  if (!credentials.ok()) return credentials.status();
  const absl::Status status =
      CheckCredentials(config, connection->node_address, **credentials, nullptr);
  if (!status.ok()) return status;
  connection->etcd = *std::move(made);
  EtcdMeeting* const etcd = connection->etcd.get();
  PersistentRendezvousClient::Options options;
  options.several = true;
  options.make_client = [etcd](int, Duration limit) { return etcd->MakeClient(limit); };
  options.ensure_running = [etcd](int) { return etcd->IsRunning(); };
  options.credentials_outdated = [etcd](int) { return etcd->CredentialsOutdated(); };
  options.heard_at = [etcd](int) { etcd->OnHeard(); };
  options.lost = [etcd](const RendezvousClient::Lost& lost) { etcd->OnLost(lost); };
  options.timing = TimingOf(config, seed);
  auto client = std::make_unique<PersistentRendezvousClient>(loop, std::move(options));
  etcd->Begin([client = client.get()](const std::string& reason) { client->Move(reason); });
  connection->client = std::move(client);
  return absl::OkStatus();
}

}  // namespace

std::string WarnOfName(const JobConfig& config, const std::string& node_address) {
  if (config.nodes.max == 1 || config.rendezvous.id != kUnnamedJob || IsLoopback(node_address)) {
    return "";
  }
  return "this job has no --rdzv-id: the rendezvous would take another job without one for the "
         "same job; give each job its own --rdzv-id";
}

absl::StatusOr<Connection> PrepareConnection(const JobConfig& config, const RunDirectory& run,
                                             const std::string& version, std::uint64_t seed,
                                             SharedPlace* heard_at, EventLoop* loop) {
  Connection connection;
  auto address = NodeAddress(config);
  if (!address.ok()) return address.status();
  connection.node_address = *std::move(address);

  if (config.standalone()) {
    const std::string endpoint = absl::StrCat("unix:", run.sockets(), "/rendezvous.sock");
    auto own = OwnRendezvous::Start(endpoint, version, loop);
    if (!own.ok()) return own.status();
    LogInfo(absl::StrCat("for ddprun status, stacks and stop of ", NameOfJob(config.rendezvous.id),
                         ": --rdzv-endpoint ", endpoint));
    connection.own = *std::move(own);
    connection.client = connection.own->MakeClient();
    return connection;
  }
  if (config.rendezvous.in_etcd()) {
    const absl::Status met = MeetByEtcd(config, run, seed, loop, &connection);
    if (!met.ok()) return met;
    return connection;
  }
  const std::vector<std::string> places = PlacesOf(config.rendezvous);
  const auto credentials =
      LoadCredentialsOfAll(config.rendezvous.credentials, places, config.insecure, &LogTlsFiles);
  if (!credentials.ok()) return credentials.status();
  const int count = static_cast<int>(places.size());
  const absl::Status hosted = AddHosts(config, run, count, loop, &connection.hosts);
  if (!hosted.ok()) return hosted;
  const absl::Status status = CheckCredentials(config, connection.node_address,
                                               *credentials->front(), connection.hosts.get());
  if (!status.ok()) return status;
  Meet(config, MeetingPlacesOf(config.rendezvous, places, *credentials), seed, heard_at, loop,
       &connection);
  return connection;
}

}  // namespace ddprun

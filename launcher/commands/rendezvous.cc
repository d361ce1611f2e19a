#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "launcher/commands/commands.h"
#include "launcher/commands/idle_watch.h"
#include "launcher/commands/page/rendezvous_page.h"
#include "launcher/commands/several/candidate.h"
#include "launcher/commands/several/execute_again.h"
#include "launcher/config/values.h"
#include "launcher/connection/credentials.h"
#include "launcher/connection/etcd_client_options.h"
#include "launcher/connection/state_home.h"
#include "launcher/log.h"
#include "launcher/os/descriptor_limit.h"
#include "launcher/os/event_loop.h"
#include "launcher/os/file_util.h"
#include "launcher/os/local_address.h"
#include "launcher/os/service_notify.h"
#include "launcher/os/signal_source.h"
#include "rendezvous/auth/crypto.h"
#include "rendezvous/auth/server_credentials.h"
#include "rendezvous/service/job/event_log.h"
#include "rendezvous/service/rendezvous_server.h"
#include "rendezvous/store/file_store.h"
#include "worker/contract/job_name.h"
#include "worker/contract/unique_fd.h"

namespace ddprun {
namespace {

constexpr std::chrono::seconds kFlushLimit{2};
// How long to wait for a process that holds the endpoint's folder but does not listen. It is an
// earlier daemon that is ending, or systemd-tmpfiles, which looks into the folder.
constexpr std::chrono::seconds kFolderPatience{2};
constexpr std::chrono::milliseconds kFolderRetry{10};
constexpr std::size_t kTokenBytes = 32;
// The time from the handover to the end. In it the agents go to the successor, so none finds its
// session broken.
constexpr std::chrono::milliseconds kLinger{500};
constexpr std::chrono::milliseconds kToldWithin{1500};

// Whether users of other machines can reach it. A Unix socket (mode 0600) is for its owner alone.
bool IsReachable(const RendezvousCommand& command) {
  return command.socket.empty() && !IsLoopback(command.host);
}

int ExitCodeOfStart(const absl::Status& why_it_did_not_start) {
  switch (why_it_did_not_start.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kPermissionDenied:
      return kExitUsage;
    case absl::StatusCode::kDataLoss:  // the journal is damaged
    case absl::StatusCode::kFailedPrecondition:
      return kExitBadConfig;
    default:
      return kExitUnavailable;
  }
}

// The exit code of one of several rendezvous that can never lead: its jobs in etcd are damaged, or
// etcd refuses it.
int ExitCodeOfReign(const absl::Status& why_it_cannot_lead) {
  return absl::IsDataLoss(why_it_cannot_lead) ? kExitBadConfig : kExitRefused;
}

void RemoveJournal(const std::string& state_dir) {
  std::error_code ignored;
  std::filesystem::remove(state_dir + "/journal", ignored);
  // The lock comes last, because after this others make and lock a new file.
  std::filesystem::remove(state_dir + "/lock", ignored);
  std::filesystem::remove(state_dir, ignored);  // only if it is empty
}

// Redirects stderr to this file. Opens the file again each time: it may have been renamed.
absl::Status LogTo(const std::string& path) {
  const UniqueFd file(open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640));
  if (file.valid() && dup2(file.get(), STDERR_FILENO) >= 0) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot open the log file ", path, ": ",
                                             std::generic_category().message(errno)));
}

// The history of the jobs, also in a file if the command names one.
absl::StatusOr<std::shared_ptr<EventLog>> OpenEventLog(const RendezvousCommand& command) {
  EventLog::Options options;
  options.file = command.events_file;
  options.log = [](std::string_view text) { LogWarning(std::string(text)); };
  auto events = std::make_shared<EventLog>(std::move(options));
  if (command.events_file.empty()) return events;
  if (!command.state_dir.empty()) {
    const auto parent = std::filesystem::path(command.state_dir).parent_path();
    if (absl::Status made = MakeDirs(parent); !made.ok()) return made;
    mkdir(command.state_dir.c_str(), 0700);  // opening the file reports a missing folder
  }
  if (absl::Status opened = events->Open(); !opened.ok()) return opened;
  return events;
}

void Notify(const absl::Status& notified) {
  if (!notified.ok()) LogWarning(notified.message());
}

std::string ListenEndpoint(const RendezvousCommand& command, int port) {
  return command.socket.empty() ? FormatEndpoint({command.host, port})
                                : absl::StrCat("unix:", command.socket);
}

// True for a daemon that an agent started. It stores the jobs in the endpoint's folder, where the
// next daemon finds them, whoever starts it.
bool KeepsJobsInEndpointFolder(const RendezvousCommand& command) {
  return command.starter.has_value() && command.state_dir.empty() && command.socket.empty() &&
         command.port != 0 && command.etcd.endpoints.empty();
}

// `we_listen`: this process already listens at the endpoint. If it does not, and another daemon
// listens, returns AlreadyExists at once.
absl::StatusOr<EndpointFolder> TakeEndpointFolder(const std::string& host, int port,
                                                  bool we_listen) {
  const auto deadline = EventLoop::Clock::now() + kFolderPatience;
  for (;;) {
    auto folder = EndpointFolder::Take(host, port);
    if (!absl::IsAlreadyExists(folder.status())) return folder;
    if ((!we_listen && SomebodyListens(host, static_cast<std::uint16_t>(port))) ||
        EventLoop::Clock::now() > deadline) {
      return absl::AlreadyExistsError(
          absl::StrCat("cannot listen on ", FormatEndpoint({host, port}),
                       ": address already in use: ", folder.status().message()));
    }
    std::this_thread::sleep_for(kFolderRetry);
  }
}

// The daemon process, from its first descriptor to its exit code. Main thread only.
class Daemon {
 public:
  Daemon(const RendezvousCommand& command, auth::CredentialOptions credential_options)
      : command_(command),
        credential_options_(std::move(credential_options)),
        state_dir_(command.state_dir) {}
  ~Daemon() { ShutDownServers(); }

  int Run();

 private:
  // Called in this order. An exit code: the daemon cannot continue.
  std::optional<int> LoadCredentials();
  std::optional<int> OpenLog();
  std::optional<int> TakeFolder(int port);
  std::optional<int> StartServer();
  absl::Status StartPage();
  void ShutDownServers();
  int CannotStart(const absl::Status& why, int exit_code);
  int Usage(const absl::Status& why);
  // Ends the servers, and executes this program again.
  int StandByAgain();

  void OnSignal(int signo);
  [[noreturn]] void EndAtOnce(int signo);
  void ReopenFiles();
  RendezvousServer::Options ServerOptions();
  void WarnOfStrangers(const std::string& endpoint);
  void OnReignOver(const Candidate::End& end);
  void Stop();

  const RendezvousCommand& command_;
  const auth::CredentialOptions credential_options_;
  std::string state_dir_;  // folder of the journal; empty: none
  // The token that this daemon made because no credentials were given, or "".
  std::string own_token_;
  // Made before any thread starts (gRPC starts some for credentials): threads inherit the blocked
  // signals.
  EventLoop loop_;
  std::optional<EndpointFolder> folder_;  // if needed
  UniqueFd other_loopback_;  // holds the port of localhost's other address, if own_token_ is set
  std::shared_ptr<EventLog> events_;  // null until it is open
  std::optional<IdleWatch> idle_;
  SignalSource signals_{&loop_, [this](int signo, pid_t) { OnSignal(signo); }};
  std::shared_ptr<const auth::ServerCredentials> credentials_;
  UniqueFd terminal_;  // a copy of the original stderr
  Console console_;
  std::unique_ptr<Candidate> candidate_;  // null without --etcd
  std::unique_ptr<RendezvousServer> server_;
  std::unique_ptr<RendezvousPage> page_;  // null without --http
  std::optional<Candidate::End> reign_over_;
  bool lost_right_ = false;
  bool asked_to_end_ = false;
};

int Daemon::Run() {
  if (const auto exit_code = LoadCredentials()) return *exit_code;
  if (const auto exit_code = OpenLog()) return *exit_code;
  if (const auto exit_code = StartServer()) return *exit_code;
  const std::string endpoint = ListenEndpoint(command_, server_->port());
  WarnOfStrangers(endpoint);
  if (!command_.port_file.empty()) {
    const absl::Status status =
        WriteFileAtomic(command_.port_file, absl::StrCat(server_->port(), "\n"));
    if (!status.ok()) return CannotStart(status, kExitInternal);
  }
  console_.out->Write("", absl::StrCat("ddprun rendezvous: listening on ", endpoint, "\n"));
  if (page_ != nullptr) {
    console_.out->Write("", absl::StrCat("ddprun rendezvous: page on ", page_->url(), "\n"));
  }
  Notify(ServiceNotify(absl::StrCat("READY=1\nSTATUS=listening on ", endpoint)));
  if (candidate_ != nullptr) {
    candidate_->Start(server_.get(), command_.host, OustedBefore());
  }
  loop_.Run();
  if (candidate_ != nullptr && idle_ && idle_->ended()) {
    asked_to_end_ = true;
    // Resigns, so that the agents of the next job do not look for this rendezvous first.
    if (!reign_over_) {
      candidate_->Resign();
      loop_.Run();
    }
  }
  if (reign_over_ && reign_over_->status.ok() && !asked_to_end_) return StandByAgain();
  Notify(ServiceNotify("STOPPING=1"));
  Stop();
  if (reign_over_ && !reign_over_->status.ok()) return ExitCodeOfReign(reign_over_->status);
  return lost_right_ ? kExitUnavailable : 0;
}

int Daemon::StandByAgain() {
  Stop();
  const absl::Status status = ExecuteAgain(reign_over_->ousted);
  return CannotStart(status, kExitUnavailable);
}

void Daemon::OnReignOver(const Candidate::End& end) {
  if (reign_over_) return;
  reign_over_ = end;
  if (!end.status.ok()) {
    LogError(absl::StrCat(end.why, ": ", end.status.message()));
  } else {
    LogInfo(absl::StrCat(end.why, asked_to_end_ ? "" : ": stands by again"));
  }
  if (!asked_to_end_ || idle_) return loop_.Quit();
  loop_.AddTimer(EventLoop::Clock::now() + kLinger, [this] { loop_.Quit(); });
}

std::optional<int> Daemon::LoadCredentials() {
  if (command_.socket.empty() &&
      UsesOwnToken(command_.credentials, command_.host, command_.insecure)) {
    own_token_ = absl::BytesToHexString(auth::RandomBytes(kTokenBytes));
    auth::Token token;
    token.secret = own_token_;
    credentials_ = auth::ServerCredentialsOf(std::move(token));
    return std::nullopt;
  }
  auto credentials =
      auth::LoadServerCredentials(credential_options_, [this](bool ok, const std::string& text) {
        // Posted, because the log is not open yet.
        loop_.Post([ok, text] { LogTlsFiles(ok, text); });
      });
  if (!credentials.ok()) return Usage(credentials.status());
  credentials_ = *std::move(credentials);
  return std::nullopt;
}

int Daemon::Usage(const absl::Status& why) {
  std::fprintf(stderr, "ddprun rendezvous: %s\n", std::string(why.message()).c_str());
  return kExitUsage;
}

std::optional<int> Daemon::OpenLog() {
  terminal_.reset(fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0));
  if (!command_.log_file.empty()) {
    if (const absl::Status status = LogTo(command_.log_file); !status.ok()) return Usage(status);
  }
  console_ = OpenConsole(1, 2, {});
  InitLog(console_.err, command_.verbosity);
  auto opened = OpenEventLog(command_);
  if (!opened.ok()) return CannotStart(opened.status(), kExitUsage);
  events_ = *std::move(opened);
  return std::nullopt;
}

int Daemon::CannotStart(const absl::Status& why, int exit_code) {
  LogError(why.message());
  console_.err->Flush(EventLoop::Clock::now() + kFlushLimit);
  if (!command_.log_file.empty() && terminal_.valid()) {
    dprintf(terminal_.get(), "ddprun rendezvous: %s\n", std::string(why.message()).c_str());
  }
  return exit_code;
}

RendezvousServer::Options Daemon::ServerOptions() {
  RendezvousServer::Options options;
  options.listen = ListenEndpoint(command_, command_.port);
  options.log = [](std::string_view job, std::string_view text) {
    LogInfo(absl::StrCat(job.empty() ? "" : absl::StrCat(NameOfJob(std::string(job)), ": "),
                         std::string(text)));
  };
  options.credentials = credentials_;
  options.events = events_;
  options.version = DDPRUN_VERSION;
  if (!command_.http.host.empty()) {
    options.open_page = [this](const std::string& owner) { return page_->Open(owner); };
  }
  if (!state_dir_.empty()) {
    FileStore::Options store;
    store.journal.directory = state_dir_;
    options.store = std::make_shared<FileStore>(
        std::move(store), [](std::string_view text) { LogInfo(std::string(text)); });
  }
  if (idle_) {
    options.load = [this](const JobLoopLoad& load) {
      loop_.Post([this, load] { idle_->OnLoad(load); });
    };
  }
  if (candidate_ != nullptr) {
    candidate_->AddTo(&options);
    return options;
  }
  options.lost_right = [this] {
    loop_.Post([this] {
      LogError("ending, so that the agents find the rendezvous that has taken over");
      lost_right_ = true;
      loop_.Quit();
    });
  };
  return options;
}

std::optional<int> Daemon::TakeFolder(int port) {
  const bool keeps_jobs = KeepsJobsInEndpointFolder(command_);
  if (!keeps_jobs && own_token_.empty()) return std::nullopt;
  auto folder = TakeEndpointFolder(command_.host, port, server_ != nullptr);
  if (!folder.ok()) {
    const bool taken = absl::IsAlreadyExists(folder.status());
    return CannotStart(folder.status(), taken ? kExitUnavailable : kExitUsage);
  }
  folder_.emplace(*std::move(folder));
  if (keeps_jobs) state_dir_ = folder_->path();
  if (own_token_.empty()) return std::nullopt;
  // Another process with that port could relay messages of clients that connect to localhost.
  auto other = HoldOtherLoopback(command_.host, static_cast<std::uint16_t>(port));
  const absl::Status written = other.ok()
                                   ? folder_->WriteToken(own_token_)
                                   : absl::AlreadyExistsError(absl::StrCat(
                                         "cannot listen on ", FormatEndpoint({command_.host, port}),
                                         ": address already in use: ", other.status().message()));
  if (!written.ok()) {
    folder_->Remove();
    return CannotStart(written, kExitUnavailable);
  }
  other_loopback_ = *std::move(other);
  return std::nullopt;
}

std::optional<int> Daemon::StartServer() {
  // Without munged no job can begin, but other nodes' agents learn that from this rendezvous. So it
  // stays even if its starter ends.
  const absl::Status munged = credentials_->authenticator->CheckHost();
  if (!munged.ok()) LogWarning(munged.message());
  const bool away = absl::IsFailedPrecondition(munged);
  if (command_.until_idle && away) {
    idle_.emplace(&loop_, std::min(*command_.until_idle, kToldWithin), std::nullopt);
  } else if (command_.until_idle) {
    idle_.emplace(&loop_, *command_.until_idle, command_.starter);
  }
  if (!command_.etcd.endpoints.empty()) {
    const absl::Status advertised = Candidate::CheckAdvertised(command_.etcd, command_.host);
    if (!advertised.ok()) return CannotStart(advertised, kExitUsage);
    auto candidate = Candidate::Create(
        command_.etcd, credentials_,
        [this](const Candidate::End& end) { loop_.Post([this, end] { OnReignOver(end); }); });
    if (!candidate.ok()) return CannotStart(candidate.status(), kExitUsage);
    candidate_ = *std::move(candidate);
  }
  // Writes the token before anybody can connect. With a port chosen by the kernel that is done
  // later: nobody knows the port yet.
  if (command_.port != 0) {
    if (const auto exit_code = TakeFolder(command_.port)) return exit_code;
  }
  // The umask protects a Unix socket until the server sets its mode.
  const mode_t mask = umask(0077);
  if (command_.socket.empty()) umask(mask);
  auto server = RendezvousServer::Create(ServerOptions());
  umask(mask);
  absl::Status status = server.status();
  if (status.ok()) {
    server_ = *std::move(server);
    status = StartPage();  // before operators can ask for a link to the page
  }
  if (status.ok()) status = server_->Serve();
  if (!status.ok()) {
    if (folder_) folder_->Remove();
    return CannotStart(status, ExitCodeOfStart(status));
  }
  return command_.port == 0 ? TakeFolder(server_->port()) : std::nullopt;
}

absl::Status Daemon::StartPage() {
  if (command_.http.host.empty()) return absl::OkStatus();
  auto page = RendezvousPage::Start(
      command_.http, server_.get(), events_,
      {command_.state_dir,
       {{"grpc", command_.credentials.tls_cert}, {"http", command_.http.certificate_file}}});
  if (page.ok()) page_ = *std::move(page);
  return page.status();
}

void Daemon::WarnOfStrangers(const std::string& endpoint) {
  if (!own_token_.empty()) {
    LogInfo(absl::StrCat(
        "accepts only this user: agents and commands on this host read its token from ",
        TokenPath(folder_->path())));
  } else if (auth::AsksWhoCalls(credential_options_)) {
    const bool encrypts = credential_options_.tls() || credential_options_.reachable;
    LogInfo(absl::StrCat("asks every agent for ", credentials_->description,
                         encrypts ? "" : "; connections are not encrypted"));
    if (!credentials_->warning.empty()) LogWarning(credentials_->warning);
  } else if (IsReachable(command_)) {
    LogWarning(absl::StrCat("--insecure: anybody who reaches ", endpoint, " can end every job",
                            credential_options_.tls() ? "" : ", and nothing is encrypted"));
  } else if (command_.socket.empty()) {
    LogWarning(absl::StrCat(command_.insecure ? "--insecure: " : "TLS without credentials: ",
                            "every user of this host can join and end every job"));
  }
}

void Daemon::OnSignal(int signo) {
  const bool ends = signo == SIGTERM || signo == SIGINT || signo == SIGQUIT;
  if (signo == SIGTERM && idle_) {
    idle_->EndSoon();
  } else if (ends && candidate_ != nullptr) {
    if (std::exchange(asked_to_end_, true)) EndAtOnce(signo);
    candidate_->Resign();
  } else if (ends) {
    loop_.Quit();
  } else if (signo == SIGHUP) {
    ReopenFiles();
  }
}

// For a second signal: the user does not want to wait until another rendezvous leads.
void Daemon::EndAtOnce(int signo) {
  if (folder_) folder_->Remove();
  console_.err->Flush(EventLoop::Clock::now() + kFlushLimit);
  _exit(128 + signo);
}

void Daemon::ReopenFiles() {
  if (events_ != nullptr) events_->ReopenFile();
  if (!command_.log_file.empty()) {
    if (const absl::Status status = LogTo(command_.log_file); !status.ok()) {
      LogWarning(absl::StrCat(status.message(), "; the old log file stays in use"));
    }
  }
  LogInfo("SIGHUP: reopened the files");
  Notify(ServiceNotifyReloaded());
}

// The page uses server_ until the page's Shutdown(). It gets callbacks from server_ until server_'s
// Shutdown().
void Daemon::ShutDownServers() {
  if (page_ != nullptr) page_->Shutdown();
  if (candidate_ != nullptr) candidate_->Stop();
  if (server_ != nullptr) server_->Shutdown();
}

void Daemon::Stop() {
  ShutDownServers();
  // The state of a rendezvous for one job is useless after the job. Removed while the server holds
  // the folder's lock, so it cannot be another process's journal.
  const bool ours = !state_dir_.empty() && !lost_right_;
  if (idle_ && idle_->ended() && ours) RemoveJournal(state_dir_);
  if (folder_) folder_->Remove();
  console_.err->Flush(EventLoop::Clock::now() + kFlushLimit);
}

}  // namespace

int ServeRendezvous(const RendezvousCommand& command) {
  // glibc keeps small freed blocks apart, and merges all of them when somebody asks for more than
  // 1 KiB. After a job of thousands of nodes the next job would wait for that.
  (void)mallopt(M_MXFAST, 0);
  auth::CredentialOptions credentials =
      CredentialOptionsOf(command.credentials, IsReachable(command));
  if (IsReachable(command) && !command.insecure && !auth::AsksWhoCalls(credentials)) {
    std::fprintf(
        stderr,
        "ddprun rendezvous: --listen %s: anybody who can reach this address could join or end "
        "jobs; give --token-file, certificates (--tls-ca, --tls-cert, --tls-key) or --munge, "
        "listen on 127.0.0.1, or say --insecure where the network is trusted; docs/security.md\n",
        command.host.c_str());
    return kExitUsage;
  }
  if (const absl::Status safe = CheckEtcd(command.etcd, command.insecure, "--etcd"); !safe.ok()) {
    std::fprintf(stderr, "ddprun rendezvous: %s\n", std::string(safe.message()).c_str());
    return kExitUsage;
  }
  RaiseDescriptorLimit();
  return Daemon(command, std::move(credentials)).Run();
}

}  // namespace ddprun

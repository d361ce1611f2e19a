#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "launcher/commands/commands.h"
#include "launcher/commands/credentials.h"
#include "launcher/log.h"
#include "launcher/os/descriptor_limit.h"
#include "launcher/os/event_loop.h"
#include "launcher/os/file_util.h"
#include "launcher/os/local_address.h"
#include "launcher/os/service_notify.h"
#include "launcher/os/signal_source.h"
#include "rendezvous/auth/server_credentials.h"
#include "rendezvous/service/event_log.h"
#include "rendezvous/service/rendezvous_server.h"
#include "rendezvous/store/file_store.h"
#include "worker/contract/unique_fd.h"

namespace ddprun {
namespace {

// --until-idle: quits `loop` when no session and no job is left, at once after a job, else after
// `patience`. Of a job that knows its nodes those that have not come yet get a while to hear of its
// end: a spare may be slower than a short job. An agent that comes while we end is told so, and
// starts the next rendezvous.
//
// `starter` is the agent that we were started for. We may have been so slow that another rendezvous
// has served its job meanwhile, and left us the port: then nobody comes any more.
class IdleWatch {
 public:
  IdleWatch(EventLoop* loop, std::chrono::milliseconds patience, std::optional<pid_t> starter)
      : loop_(loop), patience_(patience) {
    if (starter) {
      starter_.reset(static_cast<int>(syscall(SYS_pidfd_open, *starter, 0)));
      if (starter_.valid()) {
        loop_->Watch(starter_.get(), EPOLLIN, [this](std::uint32_t) { OnStarterEnded(); });
      } else if (errno == ESRCH) {
        patience_ = std::chrono::milliseconds(0);
      }
    }
    OnLoad({});
  }
  ~IdleWatch() {
    if (starter_.valid()) loop_->Unwatch(starter_.get());
  }
  IdleWatch(const IdleWatch&) = delete;
  IdleWatch& operator=(const IdleWatch&) = delete;

  bool ended() const { return ended_; }  // because of it

  // SIGTERM: from now on it waits for nobody. Who is connected goes on: Slurm, for one, signals all
  // processes of a step, the agents and their rendezvous, and the agents need it to end in order.
  void EndSoon() {
    for_late_agents_ = std::chrono::milliseconds(0);
    WaitForNoFirstJob();
  }

  // On the loop.
  void OnLoad(const RoundLoopLoad& load) {
    load_ = load;
    loop_->CancelTimer(timer_);
    if (load.sessions != 0 || load.jobs != 0) return;
    const auto wait = load.awaited > 0      ? for_late_agents_
                      : load.jobs_begun > 0 ? std::chrono::milliseconds(0)
                                            : patience_;
    timer_ = loop_->AddTimer(EventLoop::Clock::now() + wait, [this] {
      LogInfo("no job is left: ending");
      ended_ = true;
      loop_->Quit();
    });
  }

 private:
  void OnStarterEnded() {
    loop_->Unwatch(starter_.get());
    starter_.reset();
    WaitForNoFirstJob();
  }

  void WaitForNoFirstJob() {
    patience_ = std::chrono::milliseconds(0);
    OnLoad(load_);
  }

  EventLoop* const loop_;
  std::chrono::milliseconds patience_;
  std::chrono::milliseconds for_late_agents_{10'000};
  UniqueFd starter_;  // a pidfd, until it has ended
  RoundLoopLoad load_;
  EventLoop::TimerId timer_ = 0;
  bool ended_ = false;
};

int ExitCodeOf(const absl::Status& why_it_did_not_start) {
  switch (why_it_did_not_start.code()) {
    case absl::StatusCode::kInvalidArgument:
      return kExitUsage;
    case absl::StatusCode::kDataLoss:  // the journal is damaged
    case absl::StatusCode::kFailedPrecondition:
      return kExitBadConfig;
    default:
      return kExitUnavailable;
  }
}

void RemoveJournal(const std::string& state_dir) {
  std::error_code ignored;
  std::filesystem::remove(state_dir + "/journal", ignored);
  std::filesystem::remove(state_dir + "/lock", ignored);  // last: others lock another one from now
  std::filesystem::remove(state_dir, ignored);            // if it is empty
}

// Makes stderr this file, which is opened anew each time: it may have been renamed.
absl::Status LogTo(const std::string& path) {
  const UniqueFd file(open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640));
  if (file.valid() && dup2(file.get(), STDERR_FILENO) >= 0) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot open the log file ", path, ": ",
                                             std::generic_category().message(errno)));
}

// The history of the jobs; in a file, too, if the command names one.
absl::StatusOr<std::shared_ptr<EventLog>> OpenEventLog(const RendezvousCommand& command) {
  EventLog::Options options;
  options.file = command.events_file;
  options.log = [](std::string_view text) { LogWarning(std::string(text)); };
  auto events = std::make_shared<EventLog>(std::move(options));
  if (command.events_file.empty()) return events;
  if (!command.state_dir.empty()) {
    const auto parent = std::filesystem::path(command.state_dir).parent_path();
    if (absl::Status made = MakeDirs(parent); !made.ok()) return made;
    mkdir(command.state_dir.c_str(), 0700);  // whether there is one, opening the file will tell
  }
  if (absl::Status opened = events->Open(); !opened.ok()) return opened;
  return events;
}

void Notify(const absl::Status& notified) {
  if (!notified.ok()) LogWarning(notified.message());
}

std::string Endpoint(const std::string& host, int port) {
  const bool ipv6 = absl::StrContains(host, ':');
  return absl::StrCat(ipv6 ? "[" : "", host, ipv6 ? "]:" : ":", port);
}

}  // namespace

int ServeRendezvous(const RendezvousCommand& command) {
  const auth::CredentialOptions credential_options = CredentialOptionsOf(command.credentials);
  const bool asks = auth::AsksWhoCalls(credential_options);
  // A Unix socket is for its owner alone (mode 0600).
  const bool reachable = command.socket.empty() && !IsLoopback(command.host);
  if (reachable && !command.insecure && !asks) {
    std::fprintf(stderr,
                 "ddprun rendezvous: --listen %s: whoever can reach this address could join or end "
                 "jobs; give --token-file, certificates (--tls-ca, --tls-cert, --tls-key) or "
                 "--munge, listen on 127.0.0.1, or say --insecure where the network is trusted; "
                 "docs/security.md\n",
                 command.host.c_str());
    return kExitUsage;
  }
  RaiseDescriptorLimit();
  // Before any thread is started, as gRPC does for credentials: they inherit the blocked signals.
  EventLoop loop;
  std::shared_ptr<EventLog> events;  // null until it is open
  std::optional<IdleWatch> idle;
  SignalSource signals(&loop, [&](int signo, pid_t) {
    if (signo == SIGTERM && idle) {
      idle->EndSoon();
    } else if (signo == SIGTERM || signo == SIGINT || signo == SIGQUIT) {
      loop.Quit();
    }
    if (signo != SIGHUP) return;
    if (events != nullptr) events->ReopenFile();
    if (!command.log_file.empty()) {
      if (const absl::Status status = LogTo(command.log_file); !status.ok()) {
        LogWarning(absl::StrCat(status.message(), "; the old one goes on"));
      }
    }
    LogInfo("SIGHUP: opened the files anew");
    Notify(ServiceNotifyReloaded());
  });
  const auto credentials = auth::LoadServerCredentials(credential_options);
  if (!credentials.ok()) {
    std::fprintf(stderr, "ddprun rendezvous: %s\n",
                 std::string(credentials.status().message()).c_str());
    return kExitUsage;
  }
  const UniqueFd terminal(fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0));
  if (!command.log_file.empty()) {
    if (const absl::Status status = LogTo(command.log_file); !status.ok()) {
      std::fprintf(stderr, "ddprun rendezvous: %s\n", std::string(status.message()).c_str());
      return kExitUsage;
    }
  }
  const Console console = OpenConsole(1, 2, {});
  InitLog(console.err, command.verbosity);
  const auto cannot_start = [&](const absl::Status& why, int exit_code) {
    LogError(why.message());
    console.err->Flush(EventLoop::Clock::now() + std::chrono::seconds(2));
    if (!command.log_file.empty() && terminal.valid()) {
      dprintf(terminal.get(), "ddprun rendezvous: %s\n", std::string(why.message()).c_str());
    }
    return exit_code;
  };
  {
    auto opened = OpenEventLog(command);
    if (!opened.ok()) return cannot_start(opened.status(), kExitUsage);
    events = *std::move(opened);
  }

  RendezvousServer::Options options;
  options.listen = command.socket.empty() ? Endpoint(command.host, command.port)
                                          : absl::StrCat("unix:", command.socket);
  options.log = [](std::string_view job, std::string_view text) {
    LogInfo(absl::StrCat(job.empty() ? "" : absl::StrCat("job ", std::string(job), ": "),
                         std::string(text)));
  };
  options.credentials = *credentials;
  options.events = events;
  options.version = DDPRUN_VERSION;
  if (!command.state_dir.empty()) {
    FileStore::Options store;
    store.journal.directory = command.state_dir;
    options.store = std::make_shared<FileStore>(
        std::move(store), [](std::string_view text) { LogInfo(std::string(text)); });
  }
  if (command.until_idle) {
    idle.emplace(&loop, *command.until_idle, command.starter);
    options.load = [&loop, &idle](const RoundLoopLoad& load) {
      loop.Post([&idle, load] { idle->OnLoad(load); });
    };
  }
  // The server sets the mode of a Unix socket, but until then it has the one it was made with.
  const mode_t mask = umask(0077);
  if (command.socket.empty()) umask(mask);
  auto server = RendezvousServer::Start(std::move(options));
  umask(mask);
  if (!server.ok()) return cannot_start(server.status(), ExitCodeOf(server.status()));
  const std::string endpoint = command.socket.empty() ? Endpoint(command.host, (*server)->port())
                                                      : absl::StrCat("unix:", command.socket);
  if (asks) {
    LogInfo(absl::StrCat("asks every agent for ", (*credentials)->description,
                         credential_options.tls() ? "" : "; connections are not encrypted"));
    if (!(*credentials)->warning.empty()) LogWarning((*credentials)->warning);
  } else if (reachable) {
    LogWarning(absl::StrCat("--insecure: anybody who reaches ", endpoint, " can end every job"));
  } else if (command.socket.empty()) {
    LogInfo("on loopback, without credentials: every user of this machine can end every job");
  }
  if (!command.port_file.empty()) {
    const absl::Status status =
        WriteFileAtomic(command.port_file, absl::StrCat((*server)->port(), "\n"));
    if (!status.ok()) return cannot_start(status, kExitInternal);
  }
  console.out->Write("", absl::StrCat("ddprun rendezvous: listening on ", endpoint, "\n"));
  Notify(ServiceNotify(absl::StrCat("READY=1\nSTATUS=listening on ", endpoint)));
  loop.Run();
  Notify(ServiceNotify("STOPPING=1"));
  (*server)->Shutdown();
  // What a rendezvous of one job leaves behind is of no use to anybody. While the server has the
  // folder's lock: nobody else's journal is there.
  if (idle && idle->ended() && !command.state_dir.empty()) RemoveJournal(command.state_dir);
  console.err->Flush(EventLoop::Clock::now() + std::chrono::seconds(2));
  return 0;
}

}  // namespace ddprun

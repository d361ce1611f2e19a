// The programs that tests of launcher/os start, if a line of shell is not enough. See kModes below.
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/os/event_loop.h"
#include "launcher/os/process/guarded_process_runner.h"
#include "launcher/os/process/posix_process_runner.h"
#include "launcher/os/signal_source.h"
#include "tests/unit/launcher/os/pattern.h"

namespace {

using Arguments = std::vector<std::string>;

void WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t size = ::write(fd, bytes.data(), bytes.size());
    if (size < 0) std::_Exit(3);
    bytes.remove_prefix(static_cast<std::size_t>(size));
  }
}

// flood BLOCKS: the pattern, as fast as the reader takes it.
int Flood(const Arguments& arguments) {
  static char block[ddprun::test::kPatternBlock];
  for (std::uint64_t i = 0; i < std::stoull(arguments[0]); ++i) {
    ddprun::test::FillPattern(i, block);
    WriteAll(STDOUT_FILENO, {block, sizeof(block)});
  }
  return 0;
}

// lines NAME COUNT: numbered lines of many lengths. The writes end in the middle of a line.
int Lines(const Arguments& arguments) {
  std::string text;
  for (int i = 0; i < std::stoi(arguments[1]); ++i) {
    text += arguments[0] + " " + std::to_string(i) + " ";
    text.append(static_cast<std::size_t>(i * 37 % 500), 'x');
    text += "\n";
  }
  constexpr std::size_t kChunk = 997;
  for (std::size_t at = 0; at < text.size(); at += kChunk) {
    WriteAll(STDOUT_FILENO, std::string_view(text).substr(at, kChunk));
  }
  return 0;
}

// fds: every open descriptor, one per line.
int Descriptors(const Arguments&) {
  std::string text;
  for (int fd = 0; fd < 65536; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0) text += std::to_string(fd) + "\n";
  }
  WriteAll(STDOUT_FILENO, text);
  return 0;
}

// control PACKET...: connects to $DDPRUN_CONTROL_SOCKET, sends the packets and exits.
int Control(const Arguments& arguments) {
  const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, std::getenv("DDPRUN_CONTROL_SOCKET"),
               sizeof(address.sun_path) - 1);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) return 4;
  for (const std::string& packet : arguments) {
    if (::send(fd, packet.data(), packet.size(), MSG_NOSIGNAL) < 0) return 5;
  }
  return 0;
}

// spawner: starts a process that would live for ever, prints its pid, and waits to be killed.
int Spawner(const Arguments&) {
  ddprun::PosixProcessRunner runner;
  const auto process = runner.Spawn({{"/bin/sleep", "100000"}, {}, ""});
  if (!process.ok()) return 6;
  WriteAll(STDOUT_FILENO, std::to_string(process->pid) + "\n");
  for (;;) ::pause();
}

// agent FILE: starts a worker under a guardian, prints its pid, and waits to be killed. The
// guardian's last duty writes FILE.
int Agent(const Arguments& arguments) {
  ddprun::GuardianOptions options;
  options.on_agent_killed = [file = arguments[0]](const std::vector<pid_t>& left) {
    const int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    WriteAll(fd, "left: " + std::to_string(left.size()));
  };
  auto runner = ddprun::GuardedProcessRunner::Start(options);
  if (!runner.ok()) return 6;
  const auto process = (*runner)->Spawn({{"/bin/sleep", "100000"}, {}, ""});
  if (!process.ok()) return 7;
  WriteAll(STDOUT_FILENO, std::to_string(process->pid) + "\n");
  for (;;) ::pause();
}

// fenced MILLISECONDS: starts a worker under a guardian, and the worker starts a daemon. Sets the
// fence, prints the pids of both, and stops itself by SIGSTOP. After SIGCONT it prints how the
// worker ended.
int Fenced(const Arguments& arguments) {
  auto runner = ddprun::GuardedProcessRunner::Start({});
  if (!runner.ok()) return 6;
  const auto process = (*runner)->Spawn(
      {{"/bin/sh", "-c", "setsid sleep 100000 & echo $!; exec sleep 100000"}, {}, ""});
  if (!process.ok()) return 7;
  ::fcntl(process->stdout_pipe.get(), F_SETFL, 0);
  char daemon[32] = {};
  if (::read(process->stdout_pipe.get(), daemon, sizeof(daemon)) <= 0) return 8;
  WriteAll(STDOUT_FILENO, std::to_string(process->pid) + " " + daemon);
  (*runner)->SetFence(std::chrono::steady_clock::now() +
                      std::chrono::milliseconds(std::stoi(arguments[0])));
  ::raise(SIGSTOP);
  const auto status = (*runner)->Reap(process->pidfd.get());
  WriteAll(STDOUT_FILENO, (status.ok() ? status->Describe() : status.status().ToString()) + "\n");
  return 0;
}

// suspend: prints what SIGTSTP makes it do. SIGTERM ends it.
int Suspend(const Arguments&) {
  ddprun::EventLoop loop;
  const ddprun::SignalSource signals(
      &loop, [&loop](int, pid_t) { loop.Quit(); },
      {[] { WriteAll(STDOUT_FILENO, "stop\n"); }, [] { WriteAll(STDOUT_FILENO, "go\n"); }});
  WriteAll(STDOUT_FILENO, "up\n");
  loop.Run();
  return 0;
}

// closed-stdio: starts a process while 0, 1 and 2 are closed. Exits with 0 if its output arrives.
int ClosedStdio(const Arguments&) {
  for (int fd = 0; fd < 3; ++fd) ::close(fd);
  ddprun::PosixProcessRunner runner;
  const auto process = runner.Spawn({{"/bin/sh", "-c", "echo out; echo err >&2"}, {}, ""});
  if (!process.ok()) return 6;
  char text[8] = {};
  for (const int fd : {process->stdout_pipe.get(), process->stderr_pipe.get()}) {
    ::fcntl(fd, F_SETFL, 0);
    if (::read(fd, text, sizeof(text)) != 4) return 7;
    if (std::strcmp(text, fd == process->stdout_pipe.get() ? "out\n" : "err\n") != 0) return 8;
  }
  return 0;
}

const std::map<std::string, std::function<int(const Arguments&)>> kModes = {
    {"flood", Flood},     {"lines", Lines},     {"fds", Descriptors},
    {"control", Control}, {"spawner", Spawner}, {"closed-stdio", ClosedStdio},
    {"agent", Agent},     {"suspend", Suspend}, {"fenced", Fenced},
};

}  // namespace

int main(int argc, char** argv) {
  const Arguments all(argv + 1, argv + argc);
  const auto mode = all.empty() ? kModes.end() : kModes.find(all[0]);
  if (mode == kModes.end()) return 2;
  return mode->second(Arguments(all.begin() + 1, all.end()));
}

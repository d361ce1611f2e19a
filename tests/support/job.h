// A job of several nodes on this host: one rendezvous daemon and one ddprun per node.
#ifndef DDPRUN_TESTS_SUPPORT_JOB_H_
#define DDPRUN_TESTS_SUPPORT_JOB_H_

#include <unistd.h>

#include <csignal>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/program.h"

namespace ddprun {

inline std::string DdprunPath() { return DDPRUN_BIN_DIR "/ddprun"; }
inline std::string SourceDir() { return DDPRUN_SOURCE_DIR; }

// A rendezvous daemon on a free port of loopback, with a journal. After Kill(), Start()
// starts another daemon on the same port.
class Daemon {
 public:
  // `flags`: more flags. `host`: where it listens; this must include loopback.
  explicit Daemon(const std::string& folder, std::vector<std::string> flags = {},
                  std::string host = "127.0.0.1")
      : folder_(folder), flags_(std::move(flags)), host_(std::move(host)) {
    Start();
  }
  int port() const { return port_; }
  std::string endpoint() const { return "127.0.0.1:" + std::to_string(port_); }
  Program& program() { return *program_; }

  void Kill() {
    program_->Signal(SIGKILL);
    program_->ExitCode();
  }
  void Start() {
    const std::string port_file = folder_ + "/port" + std::to_string(++starts_);
    std::vector<std::string> argv = {
        DdprunPath(),  "rendezvous", "--listen",    host_ + ":" + std::to_string(port_),
        "--port-file", port_file,    "--state-dir", folder_ + "/state"};
    argv.insert(argv.end(), flags_.begin(), flags_.end());
    program_ = std::make_unique<Program>(argv);
    WaitForChange(folder_, [&] { return !ReadFile(port_file).empty(); });
    port_ = std::stoi("0" + ReadFile(port_file));
  }

 private:
  const std::string folder_;
  const std::vector<std::string> flags_;
  const std::string host_;
  std::unique_ptr<Program> program_;
  int starts_ = 0;
  int port_ = 0;
};

// Nodes of one job. All processes of the job carry DDPRUN_TEST_MARK=mark().
class Job {
 public:
  // All nodes have `environment`.
  Job(std::string folder, std::map<std::string, std::string> environment = {})
      : folder_(std::move(folder)), environment_(std::move(environment)) {
    static int count = 0;
    mark_ = std::to_string(getpid()) + "-" + std::to_string(count++);
    environment_["DDPRUN_TEST_MARK"] = mark_;
  }

  // Starts the next node; its logs are in logs(index). `arguments`: more flags, and the command.
  Program& AddNode(std::vector<std::string> arguments) {
    std::vector<std::string> argv = {DdprunPath(), "--log-dir", logs(nodes_.size())};
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    nodes_.push_back(std::make_unique<Program>(argv, environment_, SourceDir()));
    return *nodes_.back();
  }

  Program& node(std::size_t index) { return *nodes_[index]; }
  std::size_t size() const { return nodes_.size(); }
  std::string logs(std::size_t index) const { return folder_ + "/logs" + std::to_string(index); }
  // The folder of the only run below logs(index).
  std::string run(std::size_t index) const {
    for (const auto& entry : std::filesystem::directory_iterator(logs(index))) {
      return entry.path();
    }
    return "";
  }
  const std::string& folder() const { return folder_; }
  const std::string& mark() const { return mark_; }

  // The pid of the worker with this rank; 0: there is none.
  pid_t Worker(int rank) const {
    for (const pid_t pid :
         ProcessesWith({{"DDPRUN_TEST_MARK", mark_}, {"RANK", std::to_string(rank)}})) {
      if (getpgid(pid) == pid) return pid;
    }
    return 0;
  }
  // Every process of the job that still runs.
  std::vector<pid_t> Survivors() const { return ProcessesWith({{"DDPRUN_TEST_MARK", mark_}}); }

 private:
  const std::string folder_;
  std::map<std::string, std::string> environment_;
  std::string mark_;
  std::vector<std::unique_ptr<Program>> nodes_;
};

}  // namespace ddprun

#endif  // DDPRUN_TESTS_SUPPORT_JOB_H_

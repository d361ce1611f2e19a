// Pods as kubelet runs them, but without Kubernetes. A container is a set of network, mount, pid
// and UTS namespaces. It has the host name, the /etc/hosts, the variables and the signals of a pod
// of an Indexed Job with a headless service. Each pod's /etc/hosts has the entries that a cluster's
// name server would have; one test has a real name server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/capabilities.h"
#include "tests/support/job.h"
#include "tests/support/network.h"
#include "tests/support/temp_dir.h"

namespace ddprun {
namespace kubernetes_pods_test {

using std::chrono::nanoseconds;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

using Variables = std::map<std::string, std::string>;

constexpr int kMachines = 4;
constexpr char kDomain[] = ".train.default.svc.cluster.local";

// $0: the pod's name; $1: its /etc/hosts; the rest: its command. POD_RESOLV_CONF is the pod's
// /etc/resolv.conf; without it, the pod has no name server. POD_MEMORY is a cgroup: the container
// runs in it and sees nothing else of the hierarchy, as a container without a cgroup namespace
// does. It does not see the host's number of OOM kills either.
constexpr char kContainer[] = R"(
echo "$0" > /proc/sys/kernel/hostname
if [ -n "$POD_MEMORY" ]; then
  (mount -t tmpfs none /sys/fs/cgroup && cd /sys/fs/cgroup && mkdir all memory &&
    mount -t cgroup -o memory none all && echo $$ > "all/$POD_MEMORY/cgroup.procs" &&
    mount --bind "all/$POD_MEMORY" memory && umount all &&
    mount --bind /dev/null /proc/vmstat) || exit 70
fi
mount --bind "$1" /etc/hosts && mount --bind "${POD_RESOLV_CONF:-/dev/null}" /etc/resolv.conf &&
  shift && exec "$@"
)";

nanoseconds Now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::chrono::seconds(now.tv_sec) + nanoseconds(now.tv_nsec);
}

// The memory limit of a container: a cgroup of version 1. It outlives all processes in it.
class MemoryLimit {
 public:
  // The path is "" if this machine does not allow a new cgroup.
  MemoryLimit(const std::string& name, std::int64_t bytes) {
    const std::string path = "/sys/fs/cgroup/memory/" + name;
    if (mkdir(path.c_str(), 0755) != 0) return;
    path_ = path;
    std::ofstream(path_ + "/memory.limit_in_bytes") << bytes;
  }
  ~MemoryLimit() {
    if (!path_.empty()) rmdir(path_.c_str());
  }
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// A cluster's name server for its pods, on a machine of its own.
class NameServer {
 public:
  NameServer(const Network& network, const std::string& folder)
      : names_(folder + "/names"), resolv_conf_(folder + "/resolv.conf") {
    Write("");
    // The file that kubelet writes for a pod with the policy ClusterFirst.
    std::ofstream(resolv_conf_) << "search default.svc.cluster.local svc.cluster.local "
                                   "cluster.local\nnameserver "
                                << Network::DaemonAddress() << "\noptions ndots:5\n";
    program_ = std::make_unique<Program>(
        network.OnDaemon({"python3", SourceDir() + "/tests/programs/name_server.py",
                          Network::DaemonAddress(), names_}));
  }

  const std::string& resolv_conf() const { return resolv_conf_; }
  Program& program() { return *program_; }

  // From now on the name server knows only this name.
  void Know(const std::string& pod, const std::string& address) {
    Write(pod + kDomain + " " + address + "\n");
  }

 private:
  // Replaces the file at once: the name server never reads half of it.
  void Write(const std::string& text) {
    std::ofstream(names_ + ".new") << text;
    std::filesystem::rename(names_ + ".new", names_);
  }

  const std::string names_;
  const std::string resolv_conf_;
  std::unique_ptr<Program> program_;
};

// One life of a pod, on a machine of its own. `name` ends in its index.
class Pod {
 public:
  Pod(const Network& network, const std::string& folder, std::string name, int machine,
      Variables variables, const std::vector<std::string>& command)
      : name_(std::move(name)),
        address_("10.77." + std::to_string(machine + 1) + ".2"),
        hosts_(folder + "/hosts." + name_ + "." + std::to_string(machine)) {
    std::ofstream(hosts_) << "127.0.0.1\tlocalhost\n"
                          << address_ << "\t" << name_ << kDomain << "\t" << name_ << "\n";
    variables.insert({{"KUBERNETES_SERVICE_HOST", "10.96.0.1"},
                      {"JOB_COMPLETION_INDEX", name_.substr(name_.rfind('-') + 1)},
                      {"DDPRUN_LOCAL_ADDR", address_},
                      // In a real pod this folder ends with the container.
                      {"DDPRUN_STATE_HOME", folder + "/state." + std::to_string(machine)},
                      {"DDPRUN_LOG_DIR", folder + "/logs." + std::to_string(machine)}});
    std::vector<std::string> argv = {"unshare", "--uts",        "--mount",      "--pid",
                                     "--fork",  "--kill-child", "--mount-proc", "sh",
                                     "-c",      kContainer,     name_,          hosts_};
    argv.insert(argv.end(), command.begin(), command.end());
    program_ = std::make_unique<Program>(network.OnNode(machine, argv), variables, SourceDir());
  }

  const std::string& name() const { return name_; }
  const std::string& address() const { return address_; }
  Program& program() { return *program_; }

  // From now on the name server says this address for another pod.
  void Resolve(const std::string& name, const std::string& address) {
    std::istringstream lines(ReadFile(hosts_));
    std::string text;
    for (std::string line; std::getline(lines, line);) {
      if (line.find("\t" + name + ".") == std::string::npos) text += line + "\n";
    }
    // Writes into the file that exists, because it is mounted.
    std::ofstream(hosts_) << text << address << "\t" << name << kDomain << "\n";
  }

  // Signals the container's first process, as kubelet does.
  void Signal(int signo) const {
    const std::string pid = std::to_string(program_->pid());
    pid_t first = 0;
    std::istringstream(ReadFile("/proc/" + pid + "/task/" + pid + "/children")) >> first;
    ASSERT_GT(first, 0) << name_;
    kill(first, signo);
  }

  // Kills all processes of the container.
  void Kill() {
    Signal(SIGKILL);
    EXPECT_TRUE(program_->Wait().has_value()) << name_;
  }

 private:
  const std::string name_;
  const std::string address_;
  const std::string hosts_;
  std::unique_ptr<Program> program_;
};

class KubernetesPodsTest : public testing::Test {
 protected:
  void SetUp() override {
    DDPRUN_NEEDS(MissingForNetworks());
    std::string why_not;
    network_ = std::make_unique<Network>(kMachines, &why_not);
    ASSERT_EQ(why_not, "");
    for (const std::string& folder : {alive_, checkpoints_}) {
      std::filesystem::create_directory(folder);
    }
    std::ofstream(folder_ / "token") << "0123456789abcdef0123456789abcdef\n";
    ASSERT_EQ(chmod((folder_ / "token").c_str(), 0600), 0);
  }

  void TearDown() override {
    if (!HasFailure()) return;
    for (const auto& pod : pods_) {
      fprintf(stderr, "---- %s\n%s", pod->name().c_str(), pod->program().err().c_str());
    }
  }

  // Two pods are one job. Every variable is one of the manifest that `ddprun kubernetes` prints.
  Pod& Start(int index, int machine, const std::vector<std::string>& flags = {}) {
    return StartNamed("train-" + std::to_string(index), machine,
                      {{"DDPRUN_RDZV_ENDPOINT", "train-0.train:29400"}}, flags);
  }
  Pod& StartNamed(const std::string& name, int machine, Variables variables,
                  const std::vector<std::string>& flags = {}) {
    variables.insert({{"DDPRUN_TEST_MARK", mark_},
                      {"DDPRUN_NNODES", "2"},
                      {"DDPRUN_TOKEN_FILE", folder_ / "token"},
                      {"DDPRUN_CHECKPOINT_DIR", checkpoints_}});
    std::vector<std::string> command = {DdprunPath()};
    command.insert(command.end(), flags.begin(), flags.end());
    command.insert(command.end(), {SourceDir() + "/tests/programs/pod_worker.py", alive_});
    pods_.push_back(std::make_unique<Pod>(*network_, folder_.path(), name, machine,
                                          std::move(variables), command));
    return *pods_.back();
  }

  // Starts both pods; each can resolve the other's name.
  void StartBoth(const std::vector<std::string>& flags = {}) {
    Pod& first = Start(0, 0, flags);
    Pod& second = Start(1, 1, flags);
    second.Resolve(first.name(), first.address());
    ASSERT_TRUE(LivesAfter(0, nanoseconds(0)) && LivesAfter(1, nanoseconds(0)));
  }

  // The newest sign of life of the worker of pod train-INDEX, which must have rank INDEX.
  nanoseconds LastSign(int index) const {
    return LastSignOf("train-" + std::to_string(index), index);
  }
  nanoseconds LastSignOf(const std::string& pod, int rank) const {
    const std::string begin = pod + ".g";
    nanoseconds last{0};
    for (const auto& entry : std::filesystem::directory_iterator(alive_)) {
      const std::string name = entry.path().filename();
      if (!name.starts_with(begin)) continue;
      EXPECT_TRUE(name.ends_with(".r" + std::to_string(rank))) << name;
      std::istringstream text(ReadFile(entry.path()));
      long pid = 0;
      for (long long time = 0; text >> pid >> time;) last = std::max(last, nanoseconds(time));
    }
    return last;
  }
  bool LivesAfter(int index, nanoseconds time) const {
    return WaitForChange(alive_, [&] { return LastSign(index) > time; });
  }
  bool Lives(const std::string& pod, int rank) const {
    return WaitForChange(alive_, [&] { return LastSignOf(pod, rank) > nanoseconds(0); });
  }
  void ExpectBothLiveAfter(nanoseconds time) {
    EXPECT_TRUE(LivesAfter(0, time)) << "train-0";
    EXPECT_TRUE(LivesAfter(1, time)) << "train-1";
  }
  bool SaidRestore(Pod& pod, int step) {
    return pod.program().WaitForOut("restore " + std::to_string(step));
  }

  // The folder of a new cgroup; "" if this machine does not allow one.
  const std::string& LimitMemory(std::int64_t bytes) {
    limit_ = std::make_unique<MemoryLimit>("ddprun-" + mark_, bytes);
    return limit_->path();
  }
  // The worker of this rank takes memory until it is killed.
  void EatMemory(int rank) const { std::ofstream(alive_ + ".eat" + std::to_string(rank)) << ""; }

  pid_t Worker(int rank) const {
    for (const pid_t pid :
         ProcessesWith({{"DDPRUN_TEST_MARK", mark_}, {"RANK", std::to_string(rank)}})) {
      if (getpgid(pid) == pid) return pid;
    }
    return 0;
  }

  void ExpectEnd(Pod& first, Pod& second) {
    std::ofstream(alive_ + ".go") << "";
    EXPECT_EQ(first.program().ExitCode(), 0) << first.program().err();
    EXPECT_EQ(second.program().ExitCode(), 0) << second.program().err();
    EXPECT_THAT(ProcessesWith({{"DDPRUN_TEST_MARK", mark_}}), IsEmpty());
  }

  Network& network() { return *network_; }
  const std::string& folder() const { return folder_.path(); }
  Pod& pod(std::size_t started) { return *pods_[started]; }

 private:
  static inline int count_ = 0;
  const TempDir folder_;
  const std::string alive_ = folder_ / "alive";
  const std::string checkpoints_ = folder_ / "checkpoints";
  const std::string mark_ = "pods-" + std::to_string(getpid()) + "-" + std::to_string(count_++);
  std::unique_ptr<Network> network_;
  std::unique_ptr<MemoryLimit> limit_;
  std::vector<std::unique_ptr<Pod>> pods_;
};

// The name of index 0 does not exist yet: its pod has not been scheduled.
TEST_F(KubernetesPodsTest, PodsMeetAtIndexZeroWhicheverStartsFirstAndAWorkerIsReplaced) {
  Pod& second = Start(1, 1, {"--max-restarts=1"});
  ASSERT_TRUE(second.program().WaitForErr("waiting for")) << second.program().err();
  Pod& first = Start(0, 0, {"--max-restarts=1"});
  second.Resolve(first.name(), first.address());
  ExpectBothLiveAfter(nanoseconds(0));
  kill(Worker(1), SIGKILL);
  EXPECT_TRUE(first.program().WaitForErr("restart 1 of 1")) << first.program().err();
  ExpectBothLiveAfter(Now());
  ExpectEnd(first, second);
}

// Only the pod's cgroup shows the kill: the kernel's log has the pids of another namespace.
TEST_F(KubernetesPodsTest, AWorkerThatTheOomKillerEndsIsToldAsSuch) {
  const std::string& limit = LimitMemory(256 << 20);
  if (limit.empty()) GTEST_SKIP() << LeftOut("a memory controller of cgroup v1");
  const Variables endpoint = {{"DDPRUN_RDZV_ENDPOINT", "train-0.train:29400"}};
  Variables limited = endpoint;
  limited["POD_MEMORY"] = std::filesystem::path(limit).filename();
  Pod& first = StartNamed("train-0", 0, endpoint);
  Pod& second = StartNamed("train-1", 1, limited);
  second.Resolve(first.name(), first.address());
  ASSERT_TRUE(LivesAfter(0, nanoseconds(0)) && LivesAfter(1, nanoseconds(0)));
  EatMemory(1);
  for (Pod* const pod : {&first, &second}) {
    EXPECT_EQ(pod->program().ExitCode(), 137) << pod->program().err();
    EXPECT_THAT(pod->program().err(), HasSubstr("SIGKILL by the kernel: out of memory"));
  }
}

// No restart is spent: another agent takes part in the same job.
TEST_F(KubernetesPodsTest, APodThatIsKilledIsReplacedByANewAgentOfTheSameJob) {
  StartBoth();
  pod(1).Kill();
  const nanoseconds killed = Now();
  Pod& replaced = Start(1, 2);
  replaced.Resolve(pod(0).name(), pod(0).address());
  ExpectBothLiveAfter(killed);
  EXPECT_TRUE(SaidRestore(replaced, 1));
  EXPECT_THAT(pod(0).program().err(), Not(HasSubstr("restart 1 of")));
  ExpectEnd(pod(0), replaced);
}

// kubelet does this if the pod has no `restartPolicy: Never`: the new container has the name, the
// address and the disk of the old one.
TEST_F(KubernetesPodsTest, AContainerThatIsRestartedInItsPodIsANewAgentOfTheSameJob) {
  StartBoth();
  pod(1).Kill();
  const nanoseconds killed = Now();
  Pod& restarted = Start(1, 1);
  restarted.Resolve(pod(0).name(), pod(0).address());
  ExpectBothLiveAfter(killed);
  EXPECT_TRUE(SaidRestore(restarted, 1));
  EXPECT_THAT(pod(0).program().err(), Not(HasSubstr("restart 1 of")));
  ExpectEnd(pod(0), restarted);
}

// Two Jobs of one pod each: each has an index 0, and the pod of the second Job is node 1. Their
// manifest names no endpoint.
TEST_F(KubernetesPodsTest, TheJobsOfAJobSetAreOneJob) {
  const Variables jobset = {{"JOBSET_NAME", "train"}, {"JOBSET_RESTART_ATTEMPT", "0"}};
  Pod& first = StartNamed("train-node-0-0", 0, jobset);
  Pod& second = StartNamed("train-node-1-0", 1, jobset);
  second.Resolve(first.name(), first.address());
  EXPECT_TRUE(Lives("train-node-0-0", 0)) << second.program().err();
  EXPECT_TRUE(Lives("train-node-1-0", 1)) << second.program().err();
  ExpectEnd(first, second);
}

// The rendezvous and its journal are lost with the pod of index 0. The new pod has another address.
TEST_F(KubernetesPodsTest, IndexZeroIsReplacedAndFoundByItsNameAgain) {
  StartBoth();
  pod(0).Kill();
  const nanoseconds killed = Now();
  Pod& replaced = Start(0, 3);
  pod(1).Resolve(replaced.name(), replaced.address());
  ExpectBothLiveAfter(killed);
  EXPECT_TRUE(SaidRestore(pod(1), 1));
  ExpectEnd(replaced, pod(1));
}

// Each pod's /etc/hosts has only the pod's own name. The name server says that an address is valid
// for 30 s, but the pod with this address ends earlier.
TEST_F(KubernetesPodsTest, IndexZeroIsAskedForAtTheNameServerBeforeEachAttempt) {
  NameServer names(network(), folder());
  ASSERT_TRUE(names.program().WaitForOut("ready")) << names.program().err();
  const Variables variables = {{"DDPRUN_RDZV_ENDPOINT", "train-0.train:29400"},
                               {"POD_RESOLV_CONF", names.resolv_conf()}};
  Pod& second = StartNamed("train-1", 1, variables);
  ASSERT_TRUE(names.program().WaitForOut("train-0" + std::string(kDomain) + " NXDOMAIN"));
  ASSERT_TRUE(second.program().WaitForErr("waiting for")) << second.program().err();
  Pod& first = StartNamed("train-0", 0, variables);
  names.Know(first.name(), first.address());
  ExpectBothLiveAfter(nanoseconds(0));
  first.Kill();
  const nanoseconds killed = Now();
  Pod& replaced = StartNamed("train-0", 3, variables);
  names.Know(replaced.name(), replaced.address());
  ExpectBothLiveAfter(killed);
  EXPECT_TRUE(SaidRestore(second, 1));
  EXPECT_THAT(names.program().out(), HasSubstr(kDomain + (" " + replaced.address())));
  ExpectEnd(replaced, second);
}

// SIGTERM to one pod: both pods save, and both end with the exit code that podFailurePolicy
// ignores.
TEST_F(KubernetesPodsTest, APodThatIsEvictedSavesAndAllPodsComeBack) {
  StartBoth();
  pod(1).Signal(SIGTERM);
  EXPECT_EQ(pod(0).program().ExitCode(), 75) << pod(0).program().err();
  EXPECT_EQ(pod(1).program().ExitCode(), 75) << pod(1).program().err();
  Pod& first = Start(0, 2);
  Pod& second = Start(1, 3);
  second.Resolve(first.name(), first.address());
  EXPECT_TRUE(SaidRestore(first, 2));
  EXPECT_TRUE(SaidRestore(second, 2));
  ExpectEnd(first, second);
}

// The machine of the pod is cut off, and somebody has deleted the pod by force. The old pod ends
// its worker by itself. The new pod waits for that, and then starts its own worker.
TEST_F(KubernetesPodsTest, APodWhoseMachineIsLostIsReplacedAndDoesNoHarm) {
  StartBoth();
  network().Unplug(1);
  Pod& replaced = Start(1, 2);
  replaced.Resolve(pod(0).name(), pod(0).address());
  EXPECT_TRUE(replaced.program().WaitForErr("waits as a spare")) << replaced.program().err();
  EXPECT_TRUE(pod(1).program().WaitForErr("fenced")) << pod(1).program().err();
  const nanoseconds last = LastSign(1);
  ExpectBothLiveAfter(last + std::chrono::milliseconds(1));
  EXPECT_TRUE(SaidRestore(replaced, 1));
  pod(1).Kill();
  ExpectEnd(pod(0), replaced);
}

}  // namespace kubernetes_pods_test
}  // namespace ddprun

#include "tests/support/network.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sstream>

#include "tests/support/program.h"

namespace ddprun {
namespace {

struct Result {
  int code = -1;
  std::string out;
  std::string err;
};

Result Execute(const std::vector<std::string>& argv) {
  Program program(argv);
  Result result;
  result.code = program.ExitCode();
  result.out = program.out();
  result.err = program.err();
  return result;
}

// The output of a command that cannot fail once the namespaces exist.
std::string Must(const std::vector<std::string>& argv) {
  const Result result = Execute(argv);
  if (result.code == 0) return result.out;
  for (const std::string& one : argv) fprintf(stderr, "%s ", one.c_str());
  fprintf(stderr, "failed: %s\n", result.err.c_str());
  abort();
}

// Ends all processes in the namespaces (frozen ones, too: SIGKILL), and removes the namespaces.
constexpr char kRemove[] = R"(
remove() {
  for pid in $(ip netns pids "$1" 2>/dev/null); do kill -9 "$pid"; done
  ip netns del "$1"
}
)";

// Removes what a test has left behind if the test and its guard were killed.
constexpr char kRemoveStale[] = R"(
for name in $(ip netns list | sed -n 's/^\(ddprun-test-[0-9]*-[a-z0-9-]*\).*/\1/p'); do
  pid=${name#ddprun-test-}
  [ -e "/proc/${pid%%-*}" ] || remove "$name"
done
)";

constexpr char kNeeds[] =
    "tests of partitions need root (CAP_SYS_ADMIN and CAP_NET_ADMIN), iproute2, nftables, and a "
    "kernel with network namespaces, veth and nf_tables; scripts/install_packages.sh has the "
    "packages. What failed: ";

std::string NewPrefix() {
  static int count = 0;
  return "ddprun-test-" + std::to_string(getpid()) + "-" + std::to_string(count++);
}

}  // namespace

Network::Network(int nodes, std::string* why_not) : prefix_(NewPrefix()) {
  std::vector<std::string> hosts = {"daemon"};
  for (int node = 0; node < nodes; ++node) hosts.push_back(NodeName(node));
  cleanup_ = kRemove;
  for (const std::string& host : hosts) cleanup_ += "remove " + Namespace(host) + "\n";
  cleanup_ += "remove " + Namespace("net") + "\n";
  StartGuard();

  std::ostringstream script;
  script << "exec 2>&1\n{\n" << kRemove << kRemoveStale << "} >/dev/null 2>&1\nset -ex\n";
  const std::string net = Namespace("net");
  script << "ip netns add " << net << "\n";
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    const std::string name = Namespace(hosts[i]);
    const std::string subnet = "10.77." + std::to_string(i);
    script << "ip netns add " << name << "\n"
           << "ip -n " << net << " link add " << hosts[i] << " type veth peer name eth0 netns "
           << name << "\n"
           << "ip -n " << net << " addr add " << subnet << ".1/24 dev " << hosts[i] << "\n"
           << "ip -n " << net << " link set " << hosts[i] << " up\n"
           << "ip -n " << name << " link set lo up\n"
           << "ip -n " << name << " addr add " << subnet << ".2/24 dev eth0\n"
           << "ip -n " << name << " link set eth0 up\n"
           << "ip -n " << name << " route add default via " << subnet << ".1\n";
  }
  script << "ip netns exec " << net << " sh -c 'echo 1 > /proc/sys/net/ipv4/ip_forward'\n"
         << "ip netns exec " << net << " nft 'table ip cut { chain forward { type filter hook "
         << "forward priority 0; }; }'\n";
  const Result made = Execute({"sh", "-c", script.str()});
  if (made.code == 0) return;
  // The last command of the trace, and its output.
  const std::size_t last = made.out.rfind("\n+ ");
  *why_not = kNeeds + (last == std::string::npos ? made.out : made.out.substr(last + 3));
}

Network::~Network() {
  Execute({"sh", "-c", cleanup_});
  close(guard_);
}

// The guard has a session of its own and is nobody's child: a kill of the test and its children
// leaves the guard alone.
void Network::StartGuard() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) abort();
  const std::string script = "read -r nothing\n" + cleanup_;
  std::vector<std::string> argv = {"setsid", "-f", "sh", "-c", script};
  std::vector<char*> args;
  for (std::string& one : argv) args.push_back(one.data());
  args.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[0], 0);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  pid_t pid = -1;
  if (posix_spawnp(&pid, args[0], &actions, nullptr, args.data(), environ) != 0) abort();
  posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  waitpid(pid, &status, 0);  // setsid -f: the guard itself is a grandchild
  close(ends[0]);
  guard_ = ends[1];
}

std::vector<std::string> Network::On(const std::string& host,
                                     const std::vector<std::string>& argv) const {
  std::vector<std::string> command = {"ip", "netns", "exec", Namespace(host)};
  command.insert(command.end(), argv.begin(), argv.end());
  return command;
}

std::vector<std::string> Network::OnDaemon(const std::vector<std::string>& argv) const {
  return On("daemon", argv);
}

std::vector<std::string> Network::OnNode(int node, const std::vector<std::string>& argv) const {
  std::vector<std::string> named = {
      "unshare",     "--uts", "sh", "-c", "echo \"$0\" > /proc/sys/kernel/hostname && exec \"$@\"",
      NodeName(node)};
  named.insert(named.end(), argv.begin(), argv.end());
  return On(NodeName(node), named);
}

void Network::Cut(int node, Direction direction, Verdict verdict) {
  const std::string what = [verdict] {
    switch (verdict) {
      case Verdict::kReject:
        return "counter reject with icmp type admin-prohibited";
      case Verdict::kRejectPort:
        return "counter reject with icmp type port-unreachable";
      case Verdict::kRejectReset:
        return "meta l4proto tcp counter reject with tcp reset";
      default:
        return "counter drop";
    }
  }();
  std::string rules;  // one transaction
  const auto add = [&](const char* match) {
    rules +=
        std::string("add rule ip cut forward ") + match + " " + NodeName(node) + " " + what + "\n";
  };
  if (direction != Direction::kToNode) add("iifname");
  if (direction != Direction::kFromNode) add("oifname");
  Must(On("net", {"nft", rules}));
}

int Network::Heal() {
  std::istringstream words(Must(On("net", {"nft", "list chain ip cut forward"})));
  int packets = 0;
  for (std::string word; words >> word;) {
    if (word != "packets") continue;
    words >> word;
    packets += std::stoi(word);
  }
  Must(On("net", {"nft", "flush chain ip cut forward"}));
  return packets;
}

void Network::Unplug(int node) {
  Must({"ip", "-n", Namespace("net"), "link", "set", NodeName(node), "down"});
}

void Network::PowerOff(int node) {
  // A process may have ended since it was listed.
  Must({"sh", "-c",
        "for pid in $(ip netns pids " + Namespace(NodeName(node)) + "); do kill -9 $pid; done; :"});
}

int Network::DaemonConnections(int node) const {
  const std::string address = "10.77." + std::to_string(node + 1) + ".2";
  std::istringstream lines(Must(OnDaemon({"ss", "-Htn", "state", "established", "dst", address})));
  int count = 0;
  for (std::string line; std::getline(lines, line);) ++count;
  return count;
}

}  // namespace ddprun

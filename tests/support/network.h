// A network for one test: a host for the daemon, a host for each node, and a router between them
// that can drop or reject packets. Each is a network namespace. All share this machine's clock.
//
// Needs root, iproute2, nftables and a kernel with both. The names of the namespaces contain the
// pid of the test. The namespaces and every process in them end with the Network. If the test is
// killed, a guard ends them; if the guard is killed, too, the next Network does.
//
// One thread.
#ifndef DDPRUN_TESTS_SUPPORT_NETWORK_H_
#define DDPRUN_TESTS_SUPPORT_NETWORK_H_

#include <string>
#include <vector>

namespace ddprun {

class Network {
 public:
  // How the router treats packets between a node and all others.
  enum class Direction { kFromNode, kToNode, kBoth };
  enum class Verdict {
    kDrop,        // a cut: silence
    kReject,      // a firewall that says so: an ICMP "prohibited"
    kRejectPort,  // REJECT's default: an ICMP "port unreachable"
    kRejectReset  // a firewall that answers in the other's name: a TCP reset
  };

  // If the network cannot be made, `why_not` says what failed and what is needed.
  Network(int nodes, std::string* why_not);
  ~Network();
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  static std::string DaemonAddress() { return "10.77.0.2"; }
  static std::string NodeName(int node) { return "node" + std::to_string(node); }

  // The command that runs `argv` on the daemon's host or on a node's host. On a node's host the
  // program sees the host name NodeName(node). The command executes the program, so the pid is that
  // of the program.
  std::vector<std::string> OnDaemon(const std::vector<std::string>& argv) const;
  std::vector<std::string> OnNode(int node, const std::vector<std::string>& argv) const;

  void Cut(int node, Direction direction, Verdict verdict = Verdict::kDrop);
  // Undoes each Cut(). Returns the number of packets that did not pass.
  int Heal();
  // Pulls the cable: from now on no packet passes, and nobody gets an error.
  void Unplug(int node);
  // SIGKILL to every process of a node at once, as when its power fails.
  void PowerOff(int node);
  // The number of open connections to a node, as the daemon's kernel sees them.
  int DaemonConnections(int node) const;

 private:
  std::string Namespace(const std::string& host) const { return prefix_ + "-" + host; }
  std::vector<std::string> On(const std::string& host, const std::vector<std::string>& argv) const;
  void StartGuard();

  const std::string prefix_;
  std::string cleanup_;  // a shell script
  int guard_ = -1;       // when this is closed, the guard cleans up
};

}  // namespace ddprun

#endif  // DDPRUN_TESTS_SUPPORT_NETWORK_H_

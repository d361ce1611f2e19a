// A real etcd for a test: members on loopback, with data in a folder of their own, heartbeat 50 ms
// and election 300 ms. Needs Debian's package etcd-server.
//
// One thread.
#ifndef DDPRUN_TESTS_SUPPORT_ETCD_CLUSTER_H_
#define DDPRUN_TESTS_SUPPORT_ETCD_CLUSTER_H_

#include <memory>
#include <string>
#include <vector>

#include "tests/support/program.h"
#include "tests/support/temp_dir.h"

namespace ddprun {

// What an EtcdCluster needs and this machine lacks: "" where nothing is missing (DDPRUN_NEEDS).
std::string MissingForEtcd();

class EtcdCluster {
 public:
  // Starts them, and waits until they have a leader. `flags`: more of etcd's, for each member.
  explicit EtcdCluster(int members, std::vector<std::string> flags = {});
  EtcdCluster(const EtcdCluster&) = delete;
  EtcdCluster& operator=(const EtcdCluster&) = delete;

  // "127.0.0.1:PORT" of each member, for clients.
  const std::vector<std::string>& endpoints() const { return endpoints_; }
  int size() const { return static_cast<int>(endpoints_.size()); }
  pid_t pid(int member) const { return programs_[member]->pid(); }

  // The member that leads, as a member that answers knows it; waits for one.
  int WaitForLeader() const;

  void Freeze(int member);  // SIGSTOP: its connections stay open; nobody answers any more
  void Thaw(int member);
  void Kill(int member);   // SIGKILL; its data stays
  void Start(int member);  // again, after Kill

 private:
  std::vector<std::string> CommandOf(int member) const;

  const TempDir folder_;
  const std::vector<std::string> flags_;
  std::vector<std::string> endpoints_;
  std::vector<std::string> peers_;                  // "127.0.0.1:PORT", for one another
  std::vector<std::unique_ptr<Program>> programs_;  // null: killed
};

}  // namespace ddprun

#endif  // DDPRUN_TESTS_SUPPORT_ETCD_CLUSTER_H_

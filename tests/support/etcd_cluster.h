// A real etcd for a test. Its members are on loopback, and have their data in a folder of their
// own, a heartbeat of 50 ms and an election timeout of 300 ms. Needs Debian's packages etcd-server
// and etcd-client.
//
// One thread.
#ifndef DDPRUN_TESTS_SUPPORT_ETCD_CLUSTER_H_
#define DDPRUN_TESTS_SUPPORT_ETCD_CLUSTER_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/etcd/etcd_client.h"
#include "tests/support/program.h"
#include "tests/support/temp_dir.h"

namespace ddprun {

// What this machine lacks for an EtcdCluster; "": nothing (DDPRUN_NEEDS).
std::string MissingForEtcd();

class EtcdCluster {
 public:
  struct Options {
    std::vector<std::string> flags;  // more flags for each member
    // A folder with ca.crt, head.crt and head.key, as `ddprun certs` makes them. Members speak TLS,
    // and ask their clients and each other for a certificate. Empty: no TLS.
    std::string certificates;
  };

  // Starts the members, and waits until they have a leader. Aborts if that takes a minute.
  explicit EtcdCluster(int members, std::vector<std::string> flags = {})
      : EtcdCluster(members, Options{std::move(flags), ""}) {}
  EtcdCluster(int members, Options options);
  EtcdCluster(const EtcdCluster&) = delete;
  EtcdCluster& operator=(const EtcdCluster&) = delete;

  // "127.0.0.1:PORT" of each member, for clients.
  const std::vector<std::string>& endpoints() const { return endpoints_; }
  int size() const { return static_cast<int>(endpoints_.size()); }
  pid_t pid(int member) const { return programs_[member]->pid(); }

  // The leading member. Waits until a member names a leader that answers, too. Aborts after a
  // minute.
  int WaitForLeader() const;

  // The options of a client with a certificate from `certificates`.
  etcd::Options ClientOptions() const;
  // The output of etcdctl, which gets the endpoints of all members; nullopt: etcdctl has failed.
  std::optional<std::string> Ctl(std::vector<std::string> arguments) const {
    return CtlAt(endpoints_, std::move(arguments));
  }
  // False: etcdctl has failed.
  bool SaveSnapshot(const std::string& file) const {
    return CtlAt({endpoints_[0]}, {"snapshot", "save", file}).has_value();
  }

  void Freeze(int member);  // SIGSTOP: its connections stay open; nobody answers any more
  void Thaw(int member);
  void Kill(int member);   // SIGKILL; its data stays
  void Start(int member);  // starts a killed member again
  // Kills all members, and starts another cluster with the keys of this snapshot, or without keys
  // if `snapshot` is "" (docs/ha.md). Does not wait for a leader. False: etcdctl has failed.
  bool Restore(const std::string& snapshot);

 private:
  std::vector<std::string> CommandOf(int member) const;

  std::optional<std::string> CtlAt(const std::vector<std::string>& endpoints,
                                   std::vector<std::string> arguments) const;
  static std::string NameOf(int member) { return "m" + std::to_string(member); }
  std::string Url(const std::string& address) const;
  std::string InitialCluster() const;
  std::string Token() const;
  std::string DataOf(int member) const;

  const TempDir folder_;
  const Options options_;
  int restores_ = 0;
  std::vector<std::string> endpoints_;
  std::vector<std::string> peers_;                  // "127.0.0.1:PORT", for the other members
  std::vector<std::unique_ptr<Program>> programs_;  // null: killed
};

}  // namespace ddprun

#endif  // DDPRUN_TESTS_SUPPORT_ETCD_CLUSTER_H_

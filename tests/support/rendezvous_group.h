// Several `ddprun rendezvous` on loopback that share one etcd.
//
// One thread.
#ifndef DDPRUN_TESTS_SUPPORT_RENDEZVOUS_GROUP_H_
#define DDPRUN_TESTS_SUPPORT_RENDEZVOUS_GROUP_H_

#include <memory>
#include <string>
#include <vector>

#include "tests/support/program.h"

namespace ddprun {

class RendezvousGroup {
 public:
  // Starts `count` rendezvous, and waits until they listen. `flags`: of each of them; must have
  // --etcd.
  RendezvousGroup(std::vector<std::string> flags, int count);
  RendezvousGroup(const RendezvousGroup&) = delete;
  RendezvousGroup& operator=(const RendezvousGroup&) = delete;

  void Start(int index);
  // "HOST:PORT,...", for agents and operators.
  std::string endpoints() const;
  Program& operator[](int index) { return *programs_[index]; }

  // How often each rendezvous has led since its newest Start().
  std::vector<int> Reigns() const;
  // Waits for a rendezvous that has led more often than `before` says. Returns its index; -1 if
  // there is none within kHang.
  int WaitForLeader(const std::vector<int>& before) const;

 private:
  const std::vector<std::string> flags_;
  const std::vector<std::string> endpoints_;
  std::vector<std::unique_ptr<Program>> programs_;
};

}  // namespace ddprun

#endif  // DDPRUN_TESTS_SUPPORT_RENDEZVOUS_GROUP_H_

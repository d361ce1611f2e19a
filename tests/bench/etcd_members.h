// Three members of etcd on loopback, each a process of its own, without TLS. For benchmarks.
#ifndef DDPRUN_TESTS_BENCH_ETCD_MEMBERS_H_
#define DDPRUN_TESTS_BENCH_ETCD_MEMBERS_H_

#include <memory>
#include <string>
#include <vector>

#include "tests/support/program.h"
#include "tests/support/temp_dir.h"

namespace ddprun {

class EtcdMembers {
 public:
  // Returns when all members serve; ends the program if they do not. The members end with this
  // object, at the latest with the process.
  EtcdMembers();

  // For --etcd.
  const std::string& endpoints() const { return endpoints_; }

 private:
  TempDir folder_;
  std::vector<std::unique_ptr<Program>> members_;
  std::string endpoints_;
};

}  // namespace ddprun

#endif  // DDPRUN_TESTS_BENCH_ETCD_MEMBERS_H_

// The fixture of failover tests: three rendezvous over a real etcd, and a job of two nodes. The
// workers wait until the test ends the job.
#ifndef DDPRUN_TESTS_INTEGRATION_FAILOVER_FIXTURE_H_
#define DDPRUN_TESTS_INTEGRATION_FAILOVER_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/support/etcd_cluster.h"
#include "tests/support/job.h"
#include "tests/support/rendezvous_group.h"
#include "tests/support/temp_dir.h"

namespace ddprun {

class FailoverFixture : public testing::Test {
 protected:
  // Three members of etcd and three rendezvous; one rendezvous leads. `flags`: more flags of the
  // rendezvous.
  void Begin(EtcdCluster::Options options = {}, std::vector<std::string> flags = {}) {
    etcd_ = std::make_unique<EtcdCluster>(3, std::move(options));
    flags.insert(flags.end(), {"--etcd", absl::StrJoin(etcd_->endpoints(), ",")});
    rendezvous_ = std::make_unique<RendezvousGroup>(std::move(flags), 3);
    leader_ = rendezvous_->WaitForLeader({0, 0, 0});
    ASSERT_GE(leader_, 0) << "nobody leads";
  }
  // `credentials`: flags of the agents.
  void StartJob(int max_restarts = 0, const std::vector<std::string>& credentials = {}) {
    for (int node = 0; node < 2; ++node) {
      std::vector<std::string> argv = {
          "--rdzv-endpoint", rendezvous_->endpoints(),    "--rdzv-id", "job", "--nnodes", "2",
          "--max-restarts",  std::to_string(max_restarts)};
      argv.insert(argv.end(), credentials.begin(), credentials.end());
      argv.insert(argv.end(), {"sh", "-c",
                               absl::StrCat("echo up $DDPRUN_GENERATION; "
                                            "[ $DDPRUN_GENERATION = 0 ] || echo up again; "
                                            "while [ ! -e ",
                                            go(), " ]; do sleep 0.05; done")});
      job_.AddNode(argv);
    }
    for (int node = 0; node < 2; ++node) {
      ASSERT_TRUE(job_.node(node).WaitForOut("up 0")) << job_.node(node).err();
    }
  }
  std::string go() const { return folder_ / "go"; }
  std::array<pid_t, 2> Workers() const { return {job_.Worker(0), job_.Worker(1)}; }
  Program& leader() { return (*rendezvous_)[leader_]; }
  // Waits until the next rendezvous leads and one of the agents has found it.
  void WaitForNext(const std::vector<int>& before) {
    leader_ = rendezvous_->WaitForLeader(before);
    ASSERT_GE(leader_, 0) << "nobody leads";
    ASSERT_TRUE(leader().WaitForErr("is back within its lease")) << leader().err();
  }
  // Waits longer than a lease. A fixed sleep, because the test shows that nothing happens
  // meanwhile.
  void OutliveTheLease() { std::this_thread::sleep_for(std::chrono::seconds(4)); }
  void EndTheJob() {
    std::ofstream(go()) << "";
    for (int node = 0; node < 2; ++node) {
      EXPECT_EQ(job_.node(node).ExitCode(), 0) << job_.node(node).err();
    }
  }
  void EndUndisturbed(const std::array<pid_t, 2>& workers) {
    OutliveTheLease();
    EXPECT_EQ(Workers(), workers);
    EndTheJob();
    for (int node = 0; node < 2; ++node) {
      EXPECT_THAT(job_.node(node).err(), testing::Not(testing::HasSubstr("generation 1")));
    }
  }

  TempDir folder_;
  std::unique_ptr<EtcdCluster> etcd_;
  std::unique_ptr<RendezvousGroup> rendezvous_;
  Job job_{folder_.path()};
  int leader_ = 0;
};

}  // namespace ddprun

#endif  // DDPRUN_TESTS_INTEGRATION_FAILOVER_FIXTURE_H_

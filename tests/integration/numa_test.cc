// --numa-binding with real processes. The GPUs of the machine are hidden.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/job.h"
#include "tests/support/two_cores.h"

namespace ddprun {
namespace numa_test {

using testing::HasSubstr;
using testing::IsEmpty;

class NumaTest : public testing::Test {
 protected:
  int Run(const std::string& workers, const std::string& mode) {
    return job_
        .AddNode({"-v", "--nproc-per-node", workers, "--numa-binding", mode, "sh", "-c",
                  "grep Cpus_allowed_list /proc/self/status"})
        .ExitCode();
  }
  std::string CpusOf(int local_rank) {
    const std::string text =
        ReadFile(job_.run(0) + "/attempt_0/" + std::to_string(local_rank) + "/stdout.log");
    return text.substr(text.find('\t') + 1);  // with the end of the line
  }

  TempDir folder_;
  Job job_{folder_.path(), {{"CUDA_VISIBLE_DEVICES", ""}}};
};

TEST_F(NumaTest, ExclusiveGivesEachWorkerCpusOfItsOwnAndSaysWhich) {
  if (!HasTwoCores()) GTEST_SKIP() << "needs two physical cores";
  ASSERT_EQ(Run("2", "exclusive"), 0) << job_.node(0).err();
  EXPECT_NE(CpusOf(0), CpusOf(1));
  for (const int rank : {0, 1}) {
    EXPECT_THAT(job_.node(0).err(),
                HasSubstr("--numa-binding exclusive: local rank " + std::to_string(rank) +
                          " runs on CPUs " + CpusOf(rank)));
  }
}

TEST_F(NumaTest, WorkersAreNotBoundUnlessAsked) {
  ASSERT_EQ(Run("2", "off"), 0) << job_.node(0).err();
  for (const std::string& line : ReadLines("/proc/self/status")) {
    if (line.starts_with("Cpus_allowed_list:")) {
      EXPECT_EQ("Cpus_allowed_list:\t" + CpusOf(1), line + "\n");
    }
  }
}

TEST_F(NumaTest, ANodeWithTooFewCoresStartsNobody) {
  EXPECT_EQ(Run("4096", "exclusive"), 69);
  EXPECT_THAT(job_.node(0).err(),
              HasSubstr("this node stays out: --numa-binding exclusive: NUMA node "));
  EXPECT_THAT(job_.Survivors(), IsEmpty());
}

}  // namespace numa_test
}  // namespace ddprun

#include "worker/src/storage/lineage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

namespace ddp::internal {
namespace lineage_test {

Lineage OfRun(const std::string& run) {
  return Lineage::OfProcess([&](const char* name) -> const char* {
    return std::string(name) == "DDPRUN_JOB_RUN_ID" ? run.c_str() : nullptr;
  });
}

Metadata FileOf(const Lineage& lineage) {
  Metadata metadata;
  lineage.AddTo(&metadata);
  return metadata;
}

TEST(LineageTest, IsWrittenAndReadBack) {
  Lineage first = OfRun("a");
  EXPECT_EQ(FileOf(first), (Metadata{{"ddprun_run", "a"}}));
  Lineage second = OfRun("b");
  second.Loaded(FileOf(first));
  Lineage third = OfRun("c");
  third.Loaded(FileOf(second));
  const Metadata file = FileOf(third);
  EXPECT_EQ(file, (Metadata{{"ddprun_run", "c"}, {"ddprun_descends_from", "b,a"}}));
  EXPECT_EQ(FileOf(Lineage::Of(file)), file);
}

TEST(LineageTest, ALaterGenerationHasTheAncestorsOfItsRun) {
  Lineage first_generation = OfRun("b");
  first_generation.Loaded({{"ddprun_run", "a"}});
  Lineage second_generation = OfRun("b");
  second_generation.Loaded(FileOf(first_generation));
  EXPECT_EQ(FileOf(second_generation), FileOf(first_generation));
  EXPECT_TRUE(second_generation.MayRemove({{"ddprun_run", "a"}}));
}

TEST(LineageTest, AFileThatNamesNoRunIsLoadedAndNeverRemoved) {
  Lineage lineage = OfRun("a");
  lineage.Loaded({});
  EXPECT_EQ(FileOf(lineage), (Metadata{{"ddprun_run", "a"}}));
  EXPECT_FALSE(lineage.MayRemove({}));
  EXPECT_FALSE(Lineage::Of({}).MayRemove({})) << "nor by who has no run either";
}

TEST(LineageTest, WithoutALauncherEachProcessIsARun) {
  const auto none = [](const char*) -> const char* { return nullptr; };
  const Lineage one = Lineage::OfProcess(none);
  EXPECT_EQ(one.run().size(), 16U);
  EXPECT_EQ(one.run(), Lineage::OfProcess(none).run());
}

// A header must not grow without limit.
TEST(LineageTest, TheOldestAncestorsAreForgotten) {
  Lineage lineage = OfRun("0");
  for (int i = 1; i <= 1000; ++i) {
    Lineage next = OfRun(std::to_string(i));
    next.Loaded(FileOf(lineage));
    lineage = next;
  }
  const std::string ancestors = FileOf(lineage).at("ddprun_descends_from");
  EXPECT_EQ(ancestors.substr(0, 8), "999,998,");
  EXPECT_EQ(ancestors.substr(ancestors.size() - 4), ",744");
}

}  // namespace lineage_test
}  // namespace ddp::internal

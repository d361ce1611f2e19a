#include "launcher/agent/run/hang_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <string>

#include "rendezvous/stacks/stack_tree.h"
#include "tests/support/temp_dir.h"

namespace ddprun {
namespace hang_files_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class HangFilesTest : public testing::Test {
 protected:
  void Hang(int generation, const std::string& line) {
    HangStacks stacks;
    stacks.verdict = {line};
    stacks.tree = std::make_shared<const EncodedStackTree>(StackTree().Encode());
    EXPECT_TRUE(WriteHangFiles(folder_.path(), stacks, "job", Generation{generation}).ok());
  }
  std::set<std::string> Names() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      names.insert(entry.path().filename());
    }
    return names;
  }
  std::string Text(int generation) const {
    std::ifstream file(HangTextPath(folder_.path(), Generation{generation}));
    return {std::istreambuf_iterator<char>(file), {}};
  }

  const TempDir folder_;
};

// Seen red where all were called stacks.txt: a second hang overwrote the first.
TEST_F(HangFilesTest, EachGenerationHasItsOwn) {
  Hang(0, "rank 1 hangs");
  Hang(2, "rank 5 hangs");
  EXPECT_THAT(Names(),
              ElementsAre("stacks.0.json", "stacks.0.txt", "stacks.2.json", "stacks.2.txt"));
  EXPECT_THAT(Text(0), HasSubstr("rank 1 hangs"));
  Hang(2, "rank 6 hangs");
  EXPECT_THAT(Text(2), AllOf(HasSubstr("rank 6 hangs"), Not(HasSubstr("rank 5 hangs"))));
}

TEST_F(HangFilesTest, TheOldestGoAndNothingElseDoes) {
  for (const char* const other : {"stacks.txt", "stacks.0.log", "stacks.x.txt", "attempt_0"}) {
    std::ofstream(folder_.path() + "/" + other) << "another's";
  }
  for (int generation = 7; generation <= 12; ++generation) Hang(generation, "rank 1 hangs");
  EXPECT_THAT(Names(), ElementsAre("attempt_0", "stacks.0.log", "stacks.10.json", "stacks.10.txt",
                                   "stacks.11.json", "stacks.11.txt", "stacks.12.json",
                                   "stacks.12.txt", "stacks.8.json", "stacks.8.txt",
                                   "stacks.9.json", "stacks.9.txt", "stacks.txt", "stacks.x.txt"));
}

}  // namespace hang_files_test
}  // namespace ddprun

// Every file of tests/scenario/*.txt: a JobMachine's actions, command by command.
//
//     scenario_test                one test for each file
//     scenario_test --rewrite      writes what happens into the files: review the diff
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/scenario/job_script.h"
#include "tests/support/golden.h"

namespace ddprun {
namespace scenario_test {

constexpr char kFolder[] = "tests/scenario/";

std::vector<std::string> Names() {
  std::vector<std::string> names;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(DDPRUN_SOURCE_DIR) + "/" + kFolder)) {
    if (entry.path().extension() == ".txt" && entry.path().stem() != "CMakeLists") {
      names.push_back(entry.path().stem().string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

class ScenarioTest : public testing::TestWithParam<std::string> {};

TEST_P(ScenarioTest, GoesAsItIsWrittenDown) {
  const std::string path = kFolder + GetParam() + ".txt";
  std::ifstream file(std::string(DDPRUN_SOURCE_DIR) + "/" + path);
  std::stringstream text;
  text << file.rdbuf();
  ExpectGolden(path, JobScript().Play(text.str()));
}

INSTANTIATE_TEST_SUITE_P(Files, ScenarioTest, testing::ValuesIn(Names()),
                         [](const auto& info) { return info.param; });

TEST(JobScriptTest, WhatIsNoCommandIsNotPassedOver) {
  EXPECT_THROW(JobScript().Play("job nodes=1\njoyn a\n"), std::invalid_argument);
  EXPECT_THROW(JobScript().Play("join a\n"), std::invalid_argument);
}

}  // namespace scenario_test
}  // namespace ddprun

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--rewrite") == 0) setenv("DDPRUN_REWRITE", "1", 1);
  }
  return RUN_ALL_TESTS();
}

// The folder for Python workers, and how it gets on PYTHONPATH. tests/python/test_module.py tests
// it with an interpreter.
#include "launcher/python/python_path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "tests/support/temp_dir.h"

namespace ddprun {
namespace python_path_test {

using testing::ElementsAre;
using testing::HasSubstr;

mode_t ModeOf(const std::string& path) {
  struct stat facts {};
  return ::stat(path.c_str(), &facts) == 0 ? facts.st_mode & 07777 : 0;
}

TEST(PythonFolderTest, IsTheUsersAloneAndHasNothingElseOnThePathOfTheInterpreter) {
  const TempDir temp;
  const auto entry = MakePythonFolder(temp.path() + "/a//b/../python", {});
  ASSERT_FALSE(entry.ok()) << "the folder above it is not made";
  const auto made = MakePythonFolder(temp.path() + "//python", {});
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(*made, temp.path() + "/python/site") << "as Python writes it in sys.path";
  for (const char* const folder :
       {"/python", "/python/site", "/python/module", "/python/module/_ddprun_state"}) {
    EXPECT_EQ(ModeOf(temp.path() + folder), 0700u) << folder;
  }
  int files = 0;
  for (const auto& file : std::filesystem::directory_iterator(*made)) {
    EXPECT_EQ(file.path().filename(), "sitecustomize.py");
    ++files;
  }
  EXPECT_EQ(files, 1);
  EXPECT_TRUE(std::filesystem::exists(temp.path() + "/python/module/ddprun.py"));
  EXPECT_TRUE(std::filesystem::exists(temp.path() + "/python/module/_ddprun_state/__init__.py"));
  EXPECT_FALSE(std::filesystem::exists(temp.path() + "/python/module/_ddprun_auto_step.py"));
  EXPECT_FALSE(std::filesystem::exists(temp.path() + "/python/module/_ddprun_store.py"));
}

TEST(PythonFolderTest, HasThePartForAutoStepWhereItIsAskedFor) {
  const TempDir temp;
  ASSERT_TRUE(MakePythonFolder(temp.path() + "/python", {.auto_step = true}).ok());
  EXPECT_TRUE(std::filesystem::exists(temp.path() + "/python/module/_ddprun_auto_step.py"));
}

TEST(PythonFolderTest, HasThePartForAnAgentsStoreWhereThereMayBeOne) {
  const TempDir temp;
  ASSERT_TRUE(MakePythonFolder(temp.path() + "/python", {.agent_store = true}).ok());
  for (const char* const file : {"_ddprun_store.py", "_ddprun_after_import.py"}) {
    EXPECT_TRUE(std::filesystem::exists(temp.path() + "/python/module/" + file)) << file;
  }
}

TEST(PythonFolderTest, IsRefusedWherePythonPathCannotNameIt) {
  const TempDir temp;
  const auto made = MakePythonFolder(temp.path() + "/a:b", {});
  EXPECT_THAT(made.status().message(), HasSubstr("a:b; set TMPDIR to a folder without a colon"));
}

TEST(PythonPathTest, WhatWasThereBeforeCanBeTold) {
  const auto with = [](std::vector<std::string> env) {
    PutOnPythonPath("/F", &env);
    return env;
  };
  EXPECT_THAT(with({"A=1"}), ElementsAre("A=1", "PYTHONPATH=/F"));
  EXPECT_THAT(with({"PYTHONPATH=", "Z=1"}), ElementsAre("PYTHONPATH=/F:/F", "Z=1"));
  EXPECT_THAT(with({"PYTHONPATH=/a::/b:"}), ElementsAre("PYTHONPATH=/F:/a::/b:"));
}

TEST(PythonPathTest, WhatWasPutOnComesOffWithoutATrace) {
  for (const std::vector<std::string>& env : std::vector<std::vector<std::string>>{
           {}, {"A=1"}, {"PYTHONPATH=", "Z=1"}, {"PYTHONPATH=/a::/b:"}, {"PYTHONPATH=:"}}) {
    auto changed = env;
    PutOnPythonPath("/F", &changed);
    EXPECT_NE(changed, env);
    TakeOffPythonPath("/F", &changed);
    EXPECT_EQ(changed, env);
    TakeOffPythonPath("/F", &changed);
    EXPECT_EQ(changed, env) << "it was not there";
    PutOnPythonPath("", &changed);
    TakeOffPythonPath("", &changed);
    EXPECT_EQ(changed, env) << "there is no folder";
  }
}

}  // namespace python_path_test
}  // namespace ddprun

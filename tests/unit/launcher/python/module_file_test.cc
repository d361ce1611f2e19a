// Which files `ddprun python-module` replaces.
#include "launcher/python/module_file.h"

#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "launcher/python/module_source.h"

namespace ddprun {
namespace module_file_test {

TEST(ModuleFileTest, IsTheModuleBehindALineThatNamesItsVersion) {
  const std::string file = PythonModuleFile("import os\n", "1.2.3");
  EXPECT_TRUE(absl::StartsWith(file, "# Written by `ddprun python-module`, version 1.2.3, hash "));
  EXPECT_TRUE(absl::EndsWith(file, " edited.\nimport os\n"));
}

TEST(ModuleFileTest, ReplacesAnUneditedFileOfThisVersionOrAnOlderOne) {
  for (const char* const version : {"0.9", "0.9.12", "0.10.0", "0.10.1"}) {
    EXPECT_EQ(WhyNotReplaced(PythonModuleFile("old\n", version), "0.10.1"), "") << version;
  }
}

TEST(ModuleFileTest, LeavesANewerOneAnEditedOneAndAnyOtherFile) {
  EXPECT_EQ(WhyNotReplaced(PythonModuleFile("new\n", "0.10.2"), "0.10.1"),
            "it is of ddprun 0.10.2, which is newer than 0.10.1");
  const std::string file = PythonModuleFile("import os\n", "0.1");
  EXPECT_EQ(WhyNotReplaced(file + "#", "0.2"), "it was edited since ddprun wrote it");
  EXPECT_EQ(WhyNotReplaced(file.substr(0, file.size() - 1), "0.2"),
            "it was edited since ddprun wrote it");
  for (const char* const other : {"", "\n", "import os\n", "# Written by `ddprun python-module`"}) {
    EXPECT_EQ(WhyNotReplaced(other, "0.2"), "it is not one that ddprun has written") << other;
  }
}

TEST(ModuleSourceTest, KnowsTheVersionOfDdprun) {
  EXPECT_TRUE(absl::StrContains(kPythonModule, "\n__version__ = \""));
  EXPECT_FALSE(absl::StrContains(kPythonModule, "__version__ = \"0\""));
}

}  // namespace module_file_test
}  // namespace ddprun

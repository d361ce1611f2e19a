// Passes the command lines of tests to ParseCommandLine.
#ifndef DDPRUN_TESTS_UNIT_LAUNCHER_CONFIG_PARSE_COMMAND_H_
#define DDPRUN_TESTS_UNIT_LAUNCHER_CONFIG_PARSE_COMMAND_H_

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "launcher/config/flags/cli.h"
#include "tests/unit/launcher/config/fake_host.h"

namespace ddprun {

inline Command Parse(const std::vector<std::string>& arguments, const FakeHost& host = {}) {
  std::vector<const char*> argv = {"ddprun"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  return ParseCommandLine(static_cast<int>(argv.size()), argv.data(), host);
}

// The command of `arguments`, which must be an Expected.
template <typename Expected>
Expected ParseAs(const std::vector<std::string>& arguments, const FakeHost& host = {}) {
  const Command command = Parse(arguments, host);
  if (const auto* error = std::get_if<CommandLineError>(&command)) {
    if (!std::is_same_v<Expected, CommandLineError>) ADD_FAILURE() << error->message;
  }
  const auto* expected = std::get_if<Expected>(&command);
  if (expected == nullptr) ADD_FAILURE() << "another command: " << command.index();
  return expected == nullptr ? Expected() : *expected;
}

inline RunCommand RunOf(const std::vector<std::string>& arguments, const FakeHost& host = {}) {
  return ParseAs<RunCommand>(arguments, host);
}

// The error message. The exit code must be `code`.
inline std::string ErrorOf(const std::vector<std::string>& arguments, int code = kExitUsage,
                           const FakeHost& host = {}) {
  const auto error = ParseAs<CommandLineError>(arguments, host);
  EXPECT_EQ(error.exit_code, code) << error.message;
  return error.message;
}

// A job file that lives as long as the object.
class JobFile {
 public:
  explicit JobFile(const std::string& text) {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    path_ = testing::TempDir() + "/" + test->test_suite_name() + "." + test->name() + ".yaml";
    std::ofstream(path_) << text;
  }
  ~JobFile() { std::filesystem::remove(path_); }
  JobFile(const JobFile&) = delete;
  JobFile& operator=(const JobFile&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace ddprun

#endif  // DDPRUN_TESTS_UNIT_LAUNCHER_CONFIG_PARSE_COMMAND_H_

// Facts that are in several places are equal in all of them: in constants, the keys of job files,
// rendezvous.proto, the help of the flags and the documentation.
#include <chrono>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "launcher/config/flags/flags.h"
#include "launcher/config/flags/operator_options.h"
#include "launcher/config/job_keys.h"
#include "launcher/config/job_spec_of.h"
#include "launcher/config/job_values.h"
#include "launcher/config/values.h"
#include "launcher/core/supervisor_options.h"
#include "rendezvous/core/exit_codes.h"
#include "rendezvous/core/job_event.h"
#include "rendezvous/core/job_spec.h"
#include "rendezvous/core/job_status.h"
#include "rendezvous/core/words.h"
#include "rendezvous/hangs/hang_watch.h"
#include "worker/contract/checkpoint_file.h"
#include "worker/contract/control.h"
#include "worker/contract/environment.h"
#include "worker/contract/limits.h"
#include "worker/contract/own_stacks.h"

namespace ddprun {
namespace facts_test {

using testing::HasSubstr;
using testing::UnorderedElementsAreArray;

std::string ReadSource(const std::string& path) {
  std::ifstream file(absl::StrCat(DDPRUN_SOURCE_DIR, "/", path));
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_FALSE(text.str().empty()) << path;
  return text.str();
}

// The entries in the first column of the table that follows the line `before`. A cell may contain
// several entries, separated by commas.
std::set<std::string> FirstColumn(const std::string& document, const std::string& before) {
  std::set<std::string> entries;
  bool found = false;
  for (const absl::string_view line : absl::StrSplit(ReadSource(document), '\n')) {
    if (line == before) found = true;
    if (!found || !absl::StartsWith(line, "|")) {
      if (!entries.empty()) break;
      continue;
    }
    const std::vector<absl::string_view> cells = absl::StrSplit(line, '|');
    for (const absl::string_view entry : absl::StrSplit(cells[1], ',')) {
      entries.emplace(absl::StripAsciiWhitespace(entry));
    }
  }
  return entries;
}

// The line of JobSpec in rendezvous.proto that declares this field.
std::string ProtoLine(const std::string& field) {
  const std::string text = ReadSource("proto/ddprun/v1/rendezvous.proto");
  const std::string spec = text.substr(text.find("message JobSpec {"));
  for (const absl::string_view line : absl::StrSplit(spec.substr(0, spec.find("\n}")), '\n')) {
    if (absl::StrContains(line, absl::StrCat(" ", field, " = "))) return std::string(line);
  }
  return "";
}

TEST(FactsTest, TheDocumentedExitCodesAreThose) {
  std::set<std::string> numbers;
  for (const std::string& entry : FirstColumn("docs/exit-codes.md", "## Exit codes")) {
    int number = 0;
    if (absl::SimpleAtoi(entry, &number)) numbers.insert(entry);
  }
  std::vector<std::string> codes = {"0"};
  for (const int code :
       {kExitUsage, kExitBadConfig, kExitStateUnreadable, kExitUnavailable, kExitInternal,
        kExitPreempted, kExitRefused, kExitCannotExecute, kExitNotFound}) {
    codes.push_back(absl::StrCat(code));
  }
  EXPECT_THAT(numbers, UnorderedElementsAreArray(codes));
  // The table of the manual also has 1, the exit code of the operators' commands.
  std::set<std::string> entries = FirstColumn("docs/exit-codes.md", "## Exit codes");
  EXPECT_EQ(entries.erase("code") + entries.erase("---"), 2U);
  entries.insert(absl::StrCat(kExitNo));
  std::set<std::string> in_manual;
  for (const ExitCode& row : kExitCodes) {
    for (const absl::string_view entry : absl::StrSplit(row.code, ", ")) in_manual.emplace(entry);
  }
  EXPECT_EQ(in_manual, entries);
  // The exit codes of status, stop, drain and events.
  std::set<std::string> of_operators = FirstColumn("docs/jobs.md", "| exit code | |");
  EXPECT_EQ(of_operators.erase("exit code") + of_operators.erase("---"), 2U);
  codes = {"0"};
  for (const int code : {kExitNo, kExitUsage, kExitUnavailable, kExitInternal, kExitRefused}) {
    codes.push_back(absl::StrCat(code));
  }
  EXPECT_THAT(of_operators, UnorderedElementsAreArray(codes));
}

TEST(FactsTest, TheDocumentedEventsAreThose) {
  std::set<std::string> events = FirstColumn("docs/jobs.md", "### Events");
  // Without the head of the table, and without "dropped", which only event files have.
  EXPECT_EQ(events.erase("event") + events.erase("---") + events.erase("dropped"), 3U);
  EXPECT_THAT(events, UnorderedElementsAreArray(kEventNames));
}

TEST(FactsTest, EveryVariableOfAWorkerIsDocumented) {
  const std::string usage = ReadSource("docs/worker-environment.md");
  for (const env::Variable& variable : env::kVariables) {
    const std::string pattern = absl::StrCat("[^A-Z_]", variable.name, "[^A-Z_]");
    EXPECT_TRUE(testing::internal::RE::PartialMatch(usage, pattern)) << variable.name;
  }
}

TEST(FactsTest, EveryVariablesKeyExists) {
  for (const env::Variable& variable : env::kVariables) {
    EXPECT_EQ(FindJobKey(variable.key) != nullptr, *variable.key != '\0') << variable.name;
  }
}

TEST(FactsTest, EveryStateOfJobMachineIsDocumented) {
  const std::string text = ReadSource("docs/internals/architecture.md");
  int states = 0;
  for (;; ++states) {
    const std::string name = ToString(static_cast<JobState>(states));
    if (name == "?") break;
    EXPECT_THAT(text, HasSubstr(name));
  }
  EXPECT_GE(states, 9);
}

TEST(FactsTest, TheWiresDescriptionStatesTheBounds) {
  const auto check = [](const JobSpecField& field) {
    EXPECT_THAT(ProtoLine(field.wire), HasSubstr(absl::StrCat(field.max))) << field.wire;
  };
  ForEachField([&](auto member, const JobSpecField& field) {
    using T = std::decay_t<decltype(JobSpec{}.*member)>;
    if constexpr (std::is_same_v<T, Duration> || std::is_same_v<T, std::optional<Duration>>) {
      if (field.max == kMaxTimeout.count()) {
        EXPECT_THAT(ProtoLine(field.wire), HasSubstr("at most 1 year")) << field.wire;
      }
    } else {
      check(field);
    }
  });
  const std::string proto = ReadSource("proto/ddprun/v1/rendezvous.proto");
  EXPECT_THAT(proto,
              HasSubstr(absl::StrCat("uint32 worker_count = 3;   // 1–", kMaxWorkersPerNode)));
}

// The key that sets this member of JobConfig::spec directly; nullptr: JobSpecOf() sets it.
template <class Member>
const JobKey* KeyOf(Member member) {
  JobDraft draft;
  const void* const wanted = &(draft.config.spec.*member);
  for (const JobKey& key : JobKeys()) {
    const Field field = key.field(draft);
    const void* const at = std::visit([](auto* value) -> const void* { return value; }, field);
    if (at == wanted) return &key;
  }
  return nullptr;
}

// A key sets each member of JobSpec, except the listed ones, which JobSpecOf() sets.
TEST(FactsTest, EverySettingOfTheWholeJobHasAKey) {
  std::vector<std::string> others;
  ForEachField([&](auto member, const JobSpecField& field) {
    if (KeyOf(member) == nullptr) others.push_back(field.wire);
  });
  EXPECT_THAT(others, testing::ElementsAre("min_nodes", "max_nodes", "hang_timeout_ms", "on_hang",
                                           "all_nodes", "store"));
}

// The rendezvous accepts each value that a job file may have.
TEST(FactsTest, KeysOfJobFilesStayWithinTheBoundsOfTheWire) {
  ForEachField([](auto member, const JobSpecField& field) {
    const JobKey* const key = KeyOf(member);
    if (key == nullptr) return;
    EXPECT_GE(key->min, field.min) << field.wire;
    EXPECT_LE(key->max, field.max) << field.wire;
  });
  EXPECT_EQ(FindJobKey("nodes")->max, kMaxNodes);
  EXPECT_EQ(FindJobKey("nproc_per_node")->max, kMaxWorkersPerNode);
  EXPECT_EQ(FindJobKey("restart.warm")->max, kMaxWorkersPerNode);
}

// A value that is not the default.
std::string OtherValueOf(const JobKey& key) {
  switch (key.type) {
    case KeyType::kDuration:
      return "7s";
    case KeyType::kBoolean:
      return "true";
    case KeyType::kChoice:
      return std::string(key.Choices().back());
    default:
      return "7";
  }
}

// Break: leave a member out of JobSpecOf().
TEST(FactsTest, WhatAJobFileSaysReachesTheRendezvous) {
  const JobSpec before = JobSpecOf(JobDraft().config);
  ForEachField([&](auto member, const JobSpecField& field) {
    const JobKey* const key = KeyOf(member);
    if (key == nullptr) return;
    JobDraft draft;
    ASSERT_TRUE(SetFromText(*key, OtherValueOf(*key), &draft).ok()) << field.wire;
    const JobSpec after = JobSpecOf(draft.config);
    EXPECT_NE(after.*member, before.*member) << field.wire;
    JobSpec others = after;
    others.*member = before.*member;
    EXPECT_EQ(others, before) << field.wire;
  });
  JobConfig config;
  config.nodes = {2, 4};
  config.place.all_nodes = 5;
  config.restart.hang.timeout = "7s";
  config.restart.hang.on_hang = "restart";
  config.program.store = kWorkerStore;
  JobSpec expected;
  expected.min_nodes = 2;
  expected.max_nodes = 4;
  expected.all_nodes = 5;
  expected.hang_timeout = std::chrono::seconds(7);
  expected.on_hang = JobSpec::kRestartHang;
  EXPECT_EQ(JobSpecOf(config), expected) << "as agents of older versions say kWorkerStore";
}

TEST(FactsTest, AgentsWithoutAJobFileBeginWithTheSameDefaults) {
  JobSpec plain;
  plain.store = kAgentStore;
  EXPECT_EQ(JobSpecOf(JobConfig()), plain);
}

std::string HelpOfFlag(absl::Span<const FlagSpec> flags, absl::string_view name) {
  for (const FlagSpec& flag : flags) {
    if (flag.name == name) return HelpOf(flag);
  }
  return "";
}

TEST(FactsTest, HelpTellsTheDefaultsThatHold) {
  EXPECT_THAT(HelpOfFlag(RunFlags(), "stop-grace"),
              HasSubstr(absl::StrCat("(default ", FormatDuration(kDefaultStopGrace), ")")));
  EXPECT_THAT(HelpOfFlag(RunFlags(), "rdzv-endpoint"), HasSubstr(absl::StrCat(kDefaultPort)));
  EXPECT_THAT(HelpOfFlag(RunFlags(), "master-port"),
              HasSubstr(absl::StrCat("(default ", kDefaultMasterPort, ")")));
  EXPECT_THAT(HelpOfFlag(CertsFlags(), "days"),
              HasSubstr(absl::StrCat("(default ", CertsCommand().days, ")")));
  const auto status = OperatorFlags(OperatorCommand::Kind::kStatus);
  EXPECT_THAT(HelpOfFlag(status, "timeout"),
              HasSubstr(absl::StrCat("(default ", FormatDuration(OperatorCommand().timeout), ")")));
  EXPECT_THAT(HelpOfFlag(status, "rdzv-endpoint"), HasSubstr(absl::StrCat(":", kDefaultPort, ")")));
  for (const FlagSpec& flag : RunFlags()) EXPECT_THAT(HelpOf(flag), testing::Not(HasSubstr("{")));
  for (const FlagSpec& flag : status) EXPECT_THAT(HelpOf(flag), testing::Not(HasSubstr("{")));
}

TEST(FactsTest, KeysOfJobFilesAreDescribedWithTheNumbersThatHold) {
  const auto expect = [](const char* key, const std::string& number) {
    EXPECT_THAT(std::string(FindJobKey(key)->description), HasSubstr(number)) << key;
  };
  expect("rendezvous.endpoint", absl::StrCat("the default port is ", kDefaultPort, ";"));
  expect("hang.timeout", absl::StrCat("auto: the longer of ", Seconds(HangWatch::kFloor), " and"));
  expect("hang.signal", absl::StrCat("within ", Seconds(SupervisorOptions().hang_grace)));
  expect("checkpoint.take_folder", absl::StrCat("silent for ", Seconds(kOwnerSilence)));
}

// The value of the constant `name` in a file of the Python module.
double PythonNumber(const std::string& file, const std::string& name) {
  for (const absl::string_view line : absl::StrSplit(ReadSource(file), '\n')) {
    const std::vector<absl::string_view> sides =
        absl::StrSplit(line, absl::MaxSplits(absl::StrCat(name, " = "), 1));
    double number = 0;
    if (sides.size() != 2 || !sides[0].empty()) continue;
    const std::vector<absl::string_view> parts = absl::StrSplit(sides[1], '#');
    if (absl::SimpleAtod(absl::StripAsciiWhitespace(parts[0]), &number)) return number;
  }
  ADD_FAILURE() << file << " has no number " << name;
  return -1;
}

// The Python module cannot include the C++ headers, so it repeats their numbers.
TEST(FactsTest, ThePythonModuleHasTheNumbersOfTheCppLibrary) {
  using InSeconds = std::chrono::duration<double>;
  const std::string owner = "launcher/python/_ddprun_state/owner.py";
  EXPECT_EQ(PythonNumber(owner, "_FILE_BYTES"), kOwnerFileBytes);
  EXPECT_EQ(PythonNumber(owner, "_REFRESH_S"), InSeconds(kOwnerRefresh).count());
  EXPECT_EQ(PythonNumber(owner, "_SILENCE_S"), InSeconds(kOwnerSilence).count());
  EXPECT_EQ(PythonNumber(owner, "_LOCK_S"), InSeconds(kOwnerLock).count());
  EXPECT_EQ(PythonNumber(owner, "LOOK_S"), InSeconds(kOwnerLook).count());
  const std::string plan = "launcher/python/_ddprun_state/plan.py";
  EXPECT_EQ(PythonNumber(plan, "_MAX_ANCESTORS"), checkpoint_file::kMaxAncestors);
  EXPECT_EQ(PythonNumber(plan, "_STATE_TIMEOUT_MS"), kDefaultStateTimeout.count());
  EXPECT_EQ(PythonNumber(plan, "_LONGEST_TIMEOUT_MS"), kMaxTimeout.count());
  const std::string module = "launcher/python/ddprun.py";
  EXPECT_EQ(PythonNumber(module, "_MAX_PHASE_BYTES"), kMaxPhaseBytes);
  EXPECT_EQ(PythonNumber(module, "_MAX_PACKET_BYTES"), control::kMaxPacketBytes);
  EXPECT_EQ(PythonNumber(module, "_STACK_SIGNAL"), kStackSignal);
}

}  // namespace facts_test
}  // namespace ddprun

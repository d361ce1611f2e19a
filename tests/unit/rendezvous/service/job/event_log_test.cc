#include "rendezvous/service/job/event_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/temp_dir.h"

namespace ddprun {
namespace event_log_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Json = nlohmann::json;

constexpr std::chrono::seconds kTestDeadline(20);

JobEvent Joined(const std::string& host) {
  JobEvent event;
  event.kind = JobEvent::Kind::kJoined;
  event.generation = Generation{3};
  event.host = host;
  return event;
}

std::vector<std::string> LinesOf(const std::string& path) {
  std::ifstream stream(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// Waits for the thread of the file. False: `done` is still false after kTestDeadline.
bool Eventually(const std::function<bool()>& done) {
  const auto deadline = std::chrono::steady_clock::now() + kTestDeadline;
  while (!done()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// Waits until the file at `path` has `lines` lines, and the last one names `host`.
bool EndsWith(const std::string& path, std::size_t lines, const std::string& host) {
  return Eventually([&] {
    const std::vector<std::string> found = LinesOf(path);
    return found.size() == lines && found.back().find("\"" + host + "\"") != std::string::npos;
  });
}

// The hosts of all lines that match the filter.
std::vector<std::string> Hosts(const EventLog& log, const EventLog::Filter& filter = {}) {
  std::vector<std::string> hosts;
  std::uint64_t place = log.Oldest();
  for (;;) {
    std::shared_ptr<const EventLog::Line> line;
    EXPECT_TRUE(log.Next(filter, &place, &line).ok());
    if (line == nullptr) return hosts;
    hosts.push_back(Json::parse(line->json).value("host", "?"));
  }
}

TEST(EventLogTest, ALineHasTimeJobEpochGenerationAndEvent) {
  EventLog log({.unix_ms = [] { return std::int64_t{1'700'000'000'123}; }});
  log.Add("train", "uid:7", 2, Joined("n1"));
  std::uint64_t place = log.Oldest();
  std::shared_ptr<const EventLog::Line> line;
  ASSERT_TRUE(log.Next({}, &place, &line).ok());
  EXPECT_EQ(line->json,
            R"({"time":"2023-11-14T22:13:20.123Z","job":"train","owner":"uid:7","epoch":2,)"
            R"("generation":3,"event":"joined","host":"n1"})");
}

TEST(EventLogTest, TheOldestLinesGoFirst) {
  EventLog log({.max_lines = 3});
  for (const char* const host : {"a", "b", "c", "d"}) log.Add("j", "", 0, Joined(host));
  EXPECT_THAT(Hosts(log), ElementsAre("b", "c", "d"));
}

TEST(EventLogTest, BytesAreBoundedToo) {
  EventLog log({.max_bytes = 20'000});
  for (int i = 0; i < 1000; ++i) log.Add("j", "", 0, Joined(std::string(1000, 'x')));
  EXPECT_LE(Hosts(log).size(), 20u);
  EXPECT_GE(Hosts(log).size(), 10u);
}

TEST(EventLogTest, AReaderSeesTheLinesOfItsOwnerJobAndTime) {
  std::int64_t now = 1000;
  EventLog log({.unix_ms = [&now] { return now; }});
  log.Add("j", "mine", 0, Joined("early"));
  now = 2000;
  log.Add("j", "mine", 0, Joined("a"));
  log.Add("k", "mine", 0, Joined("b"));
  log.Add("j", "yours", 0, Joined("c"));
  EXPECT_THAT(Hosts(log, {.owner = "mine"}), ElementsAre("early", "a", "b"));
  EXPECT_THAT(Hosts(log, {.owner = "mine", .job = "j", .since_ms = 2000}), ElementsAre("a"));
  EXPECT_THAT(Hosts(log, {.owner = "nobody"}), IsEmpty());
}

TEST(EventLogTest, AReaderThatIsTooSlowIsTold) {
  EventLog log({.max_lines = 2});
  std::uint64_t place = log.Oldest();
  for (int i = 0; i < 5; ++i) log.Add("j", "", 0, Joined("n"));
  std::shared_ptr<const EventLog::Line> line;
  const absl::Status status = log.Next({}, &place, &line);
  EXPECT_TRUE(absl::IsOutOfRange(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("3 lines were forgotten"));
}

TEST(EventLogTest, FollowersAreWokenAndBounded) {
  EventLog log({});
  int woken = 0;
  const std::uint64_t follower = log.Follow([&woken] { ++woken; });
  log.Add("j", "", 0, Joined("n"));
  EXPECT_EQ(woken, 1);
  log.Unfollow(follower);
  log.Add("j", "", 0, Joined("n"));
  EXPECT_EQ(woken, 1);
  for (std::size_t i = 0; i < EventLog::kMaxFollowers; ++i) EXPECT_NE(log.Follow([] {}), 0u);
  EXPECT_EQ(log.Follow([] {}), 0u);
}

TEST(EventLogTest, AfterCloseReadersAreToldThatNoMoreWillCome) {
  EventLog log({});
  log.Add("j", "", 0, Joined("n"));
  log.Close();
  std::uint64_t place = log.Oldest();
  std::shared_ptr<const EventLog::Line> line;
  EXPECT_TRUE(log.Next({}, &place, &line).ok());
  EXPECT_NE(line, nullptr);
  EXPECT_TRUE(absl::IsUnavailable(log.Next({}, &place, &line)));
}

TEST(EventLogTest, TheFileGoesOnAfterItWasRenamed) {
  const TempDir folder;
  EventLog log({.file = folder / "events"});
  ASSERT_TRUE(log.Open().ok());
  log.Add("j", "", 0, Joined("a"));
  ASSERT_TRUE(EndsWith(folder / "events", 1, "a"));
  std::filesystem::rename(folder / "events", folder / "events.1");
  log.Add("j", "", 0, Joined("b"));
  ASSERT_TRUE(EndsWith(folder / "events.1", 2, "b"));
  log.ReopenFile();
  log.Add("j", "", 0, Joined("c"));
  ASSERT_TRUE(EndsWith(folder / "events", 1, "c"));
  EXPECT_THAT(LinesOf(folder / "events.1"), ElementsAre(HasSubstr("\"a\""), HasSubstr("\"b\"")));
  EXPECT_THAT(LinesOf(folder / "events"), ElementsAre(HasSubstr("\"c\"")));
  struct stat state {};
  ASSERT_EQ(stat((folder / "events").c_str(), &state), 0);
  EXPECT_EQ(state.st_mode & 0777, 0600u);
}

TEST(EventLogTest, WhatHappenedBeforeARestartIsStillTold) {
  const TempDir folder;
  {
    EventLog log({.file = folder / "events"});
    ASSERT_TRUE(log.Open().ok());
    log.Add("j", "mine", 0, Joined("a"));
    log.Add("j", "yours", 0, Joined("b"));
  }
  std::ofstream(folder / "events", std::ios::app) << "torn {\n{\"time\":1}\n";
  EventLog log({.file = folder / "events"});
  ASSERT_TRUE(log.Open().ok());
  log.Add("j", "mine", 0, Joined("c"));
  EXPECT_THAT(Hosts(log, {.owner = "mine"}), ElementsAre("a", "c"));
  EXPECT_THAT(Hosts(log), SizeIs(3));
}

// Seen red when nothing was renamed.
TEST(EventLogTest, TheFileIsRenamedAtItsSizeAndFourOlderOnesAreKept) {
  const TempDir folder;
  const std::string path = folder / "events";
  constexpr std::size_t kMost = 2000;
  constexpr int kLines = 200;
  EventLog log({.file = path, .max_file_bytes = kMost});
  ASSERT_TRUE(log.Open().ok());
  for (int i = 0; i < kLines; ++i) {
    const std::string host = "n" + std::to_string(i);
    log.Add("j", "", 0, Joined(host));
    ASSERT_TRUE(Eventually([&] {
      const std::vector<std::string> lines = LinesOf(path);
      return !lines.empty() && lines.back().find("\"" + host + "\"") != std::string::npos;
    }));
  }
  // The newest lines, each once and in their order.
  int next = kLines;
  for (int age = 0; age <= 4; ++age) {
    const std::string file = age == 0 ? path : LineFile::RenamedPath(path, age);
    EXPECT_LE(std::filesystem::file_size(file), kMost) << file;
    std::vector<std::string> lines = LinesOf(file);
    EXPECT_GT(lines.size(), age == 0 ? 0u : 5u);
    for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
      EXPECT_EQ(Json::parse(*line).value("host", "?"), "n" + std::to_string(--next)) << file;
    }
  }
  EXPECT_GT(next, 0) << "nothing was to be forgotten";
  EXPECT_FALSE(std::filesystem::exists(LineFile::RenamedPath(path, 5)));
}

TEST(EventLogTest, AFileThatSomebodyElseRenamedIsLeftToHim) {
  const TempDir folder;
  EventLog log({.file = folder / "events", .max_file_bytes = 150});
  ASSERT_TRUE(log.Open().ok());
  log.Add("j", "", 0, Joined("a"));
  ASSERT_TRUE(EndsWith(folder / "events", 1, "a"));
  std::filesystem::rename(folder / "events", folder / "mine");
  std::ofstream(folder / "events") << "{}\n";
  log.Add("j", "", 0, Joined("b"));
  ASSERT_TRUE(EndsWith(folder / "events", 2, "b"));
  EXPECT_THAT(LinesOf(folder / "mine"), ElementsAre(HasSubstr("\"a\"")));
  EXPECT_THAT(LinesOf(folder / "events"), ElementsAre("{}", HasSubstr("\"b\"")));
  EXPECT_FALSE(std::filesystem::exists(folder / "events.1"));
}

TEST(EventLogTest, AFileThatCannotBeRenamedGoesOnAndThatIsToldOnce) {
  const TempDir folder;
  for (int age = 1; age <= 4; ++age) {
    std::filesystem::create_directories(LineFile::RenamedPath(folder / "events", age) + "/full");
  }
  std::mutex mutex;
  std::vector<std::string> said;
  EventLog log(
      {.file = folder / "events", .max_file_bytes = 150, .log = [&](std::string_view text) {
         const std::lock_guard lock(mutex);
         said.emplace_back(text);
       }});
  ASSERT_TRUE(log.Open().ok());
  for (std::size_t lines = 1; lines <= 5; ++lines) {
    log.Add("j", "", 0, Joined("a"));
    ASSERT_TRUE(EndsWith(folder / "events", lines, "a"));
  }
  const std::lock_guard lock(mutex);
  EXPECT_THAT(said, ElementsAre(HasSubstr("cannot rename " + folder.path() + "/events to ")));
}

TEST(EventLogTest, WhatIsInTheFileBeforeIsTold) {
  const TempDir folder;
  {
    EventLog log({.file = folder / "events", .max_file_bytes = 150});
    ASSERT_TRUE(log.Open().ok());
    for (const char* const host : {"a", "b"}) {
      log.Add("j", "", 0, Joined(host));
      ASSERT_TRUE(EndsWith(folder / "events", 1, host));
    }
  }
  EventLog log({.file = folder / "events"});
  ASSERT_TRUE(log.Open().ok());
  EXPECT_THAT(Hosts(log), ElementsAre("a", "b"));
}

TEST(EventLogTest, ADiskThatIsFullCostsLinesAndIsToldOnce) {
  std::mutex mutex;
  std::vector<std::string> said;
  EventLog log({.file = "/dev/full", .log = [&](std::string_view text) {
                  const std::lock_guard lock(mutex);
                  said.emplace_back(text);
                }});
  ASSERT_TRUE(log.Open().ok());
  for (std::size_t dropped = 1; dropped <= 3; ++dropped) {
    log.Add("j", "", 0, Joined("a"));
    ASSERT_TRUE(Eventually([&] { return log.dropped_from_file() == dropped; }));
  }
  EXPECT_THAT(Hosts(log), SizeIs(3));
  const std::lock_guard lock(mutex);
  EXPECT_THAT(said, ElementsAre(HasSubstr("/dev/full: No space left on device")));
}

TEST(LineFileTest, ADiskThatHangsNeverMakesTheCallerWait) {
  const TempDir folder;
  // A pipe that nobody reads: a write hangs, like a write to a dead file server.
  ASSERT_EQ(mkfifo((folder / "events").c_str(), 0600), 0);
  std::fstream reader(folder / "events", std::ios::in | std::ios::out);
  LineFile file({.path = folder / "events",
                 .max_queued_bytes = 100'000,
                 .missing = [](std::size_t lines) { return std::to_string(lines) + " missing"; },
                 .log = [](std::string_view) {}});
  ASSERT_TRUE(file.Open().ok());
  for (int i = 0; i < 1000; ++i) file.Append(std::string(1000, 'x'));
  EXPECT_GT(file.dropped(), 700u);
  // Then it is read: the number of dropped lines comes before the later lines.
  std::size_t told = 0;
  std::thread reading([&] {
    for (std::string line; std::getline(reader, line) && line != "last";) {
      if (line.find(" missing") != std::string::npos) told += std::stoul(line);
    }
  });
  // Until there is room, each "last" is dropped as well, and counted.
  for (std::size_t dropped = file.dropped();; dropped = file.dropped()) {
    file.Append("last");
    if (file.dropped() == dropped) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  reading.join();
  EXPECT_EQ(told, file.dropped());
}

TEST(EventLogTest, AFileThatCannotBeOpenedIsNamed) {
  EventLog log({.file = "/nowhere/events"});
  EXPECT_THAT(std::string(log.Open().message()), HasSubstr("/nowhere/events: No such file"));
}

}  // namespace event_log_test
}  // namespace ddprun

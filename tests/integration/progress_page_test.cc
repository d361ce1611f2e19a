// What the agent can read about its workers in their progress pages (shared memory). The test reads
// the pages through the agent's own descriptors.
#include "worker/contract/progress_page.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/job.h"
#include "worker/contract/unique_fd.h"

namespace ddprun {
namespace progress_page_test {

using testing::IsEmpty;

std::vector<ProgressSnapshot> PagesOf(pid_t agent) {
  std::vector<ProgressSnapshot> pages;
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/" + std::to_string(agent) + "/fd", error)) {
    const std::string name = std::filesystem::read_symlink(entry.path(), error).string();
    if (name.find("memfd:ddprun-progress") == std::string::npos) continue;
    const UniqueFd fd(open(entry.path().c_str(), O_RDONLY | O_CLOEXEC));
    void* const page = mmap(nullptr, kProgressFileBytes, PROT_READ, MAP_SHARED, fd.get(), 0);
    if (page == MAP_FAILED) continue;
    if (const auto read = ReadProgress(page, kProgressFileBytes)) pages.push_back(*read);
    munmap(page, kProgressFileBytes);
  }
  return pages;
}

// Polls, because a page does not announce that it has changed.
bool Eventually(const std::function<bool()>& is) {
  const auto limit = std::chrono::steady_clock::now() + kHang;
  while (!is()) {
    if (std::chrono::steady_clock::now() > limit) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // polls
  }
  return true;
}

TEST(ProgressPageTest, TellsInWhichCollectiveARankWaitsForAStoppedOne) {
  TempDir folder;
  Job job(folder.path());
  Program& node = job.AddNode({"--nproc-per-node", "2", "--", STRAGGLER_WORKER, "-1"});
  const auto number = [](const ProgressSnapshot& page) {
    return page.groups[0].entered ? page.groups[0].entered->number : 0;
  };
  std::vector<ProgressSnapshot> pages;
  ASSERT_TRUE(Eventually([&] {
    pages = PagesOf(node.pid());
    return pages.size() == 2 && number(pages[0]) > 20 && number(pages[1]) > 20;
  })) << node.err();

  const pid_t stopped = job.Worker(1);
  ASSERT_GT(stopped, 0);
  ASSERT_EQ(kill(stopped, SIGSTOP), 0);
  std::uint64_t moves = 0;
  const bool waits = Eventually([&] {
    pages = PagesOf(node.pid());
    const auto far = std::max_element(pages.begin(), pages.end(),
                                      [&](auto& a, auto& b) { return number(a) < number(b); });
    return pages.size() == 2 && far->groups[0].unfinished() > 0 &&
           std::exchange(moves, pages[0].moves + pages[1].moves) == pages[0].moves + pages[1].moves;
  });
  EXPECT_TRUE(waits);
  for (const ProgressSnapshot& page : pages) EXPECT_EQ(page.phase, ProgressPhase::kStep);
  kill(stopped, SIGCONT);
  EXPECT_EQ(node.ExitCode(), 0) << node.err();
  EXPECT_THAT(job.Survivors(), IsEmpty());
}

}  // namespace progress_page_test
}  // namespace ddprun

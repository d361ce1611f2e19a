#include "launcher/os/process/vfork_threads.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <memory>

#include "launcher/os/output/output_pipe.h"

namespace ddprun {
namespace vfork_threads_test {

using MayAllocate = std::function<void()>;

std::ptrdiff_t ThreadCount() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
}

int StatusOf(pid_t pid) {
  int status = 0;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  return status;
}

TEST(VforkThreadsTest, TheChildRunsAsAProcessOfItsOwn) {
  VforkThreads threads;
  const pid_t parent = ::getpid();
  const absl::StatusOr<pid_t> child = threads.Start([parent](const MayAllocate&) {
    ::_exit(::getpid() != parent && ::getppid() == parent ? 3 : 4);
  });
  ASSERT_TRUE(child.ok()) << child.status();
  const int status = StatusOf(*child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 3);
}

// Seen red with one thread for all: the second Start() waited for the first child.
TEST(VforkThreadsTest, AChildThatDoesNotExecuteHoldsNobodyUp) {
  VforkThreads threads;
  const absl::StatusOr<pid_t> hung = threads.Start([](const MayAllocate&) {
    for (;;) ::pause();
  });
  ASSERT_TRUE(hung.ok()) << hung.status();
  const absl::StatusOr<pid_t> next = threads.Start([](const MayAllocate&) { ::_exit(0); });
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(StatusOf(*next), 0);
  ::kill(*hung, SIGKILL);
  EXPECT_TRUE(WIFSIGNALED(StatusOf(*hung)));
}

#ifndef __SANITIZE_THREAD__  // with TSan, VforkThreads uses fork() and no threads
// Waits until the thread of the child is free: it releases the child's captures after that.
void AwaitRelease(const std::shared_ptr<int>& used) {
  while (used.use_count() > 1) ::sched_yield();
}

TEST(VforkThreadsTest, ThreadsAreUsedAgain) {
  VforkThreads threads;
  const std::ptrdiff_t before = ThreadCount();
  const auto used = std::make_shared<int>(1);
  for (int i = 0; i < 100; ++i) {
    const absl::StatusOr<pid_t> child =
        threads.Start([used](const MayAllocate&) { ::_exit(*used == 1 ? 0 : 1); });
    ASSERT_TRUE(child.ok()) << child.status();
    EXPECT_EQ(StatusOf(*child), 0);
    AwaitRelease(used);
  }
  EXPECT_EQ(ThreadCount() - before, 1);
}

// The child may have ended while it held a lock of the allocator. The thread must not wait for it.
TEST(VforkThreadsTest, AThreadWhoseChildMayHaveAllocatedIsNotUsedAgain) {
  VforkThreads threads;
  const std::ptrdiff_t before = ThreadCount();
  for (int i = 0; i < 5; ++i) {
    const absl::StatusOr<pid_t> child = threads.Start([](const MayAllocate& may_allocate) {
      may_allocate();
      ::_exit(0);
    });
    ASSERT_TRUE(child.ok()) << child.status();
    StatusOf(*child);
  }
  EXPECT_EQ(ThreadCount() - before, 5);
}

#endif

TEST(VforkThreadsTest, AChildHasTheDescriptorsOfWhenItWasMade) {
  VforkThreads threads;
  absl::StatusOr<OutputPipe> go = OutputPipe::MakeSmall();
  ASSERT_TRUE(go.ok()) << go.status();
  ASSERT_EQ(::fcntl(go->read_end.get(), F_SETFL, 0), 0);  // reads wait
  const absl::StatusOr<pid_t> child =
      threads.Start([pipe = go->read_end.get()](const MayAllocate&) {
        char byte;
        ::_exit(::read(pipe, &byte, 1) == 1 ? 0 : 1);
      });
  ASSERT_TRUE(child.ok()) << child.status();
  go->read_end.reset();
  ASSERT_EQ(::write(go->write_end.get(), "x", 1), 1);
  EXPECT_EQ(StatusOf(*child), 0);
}

}  // namespace vfork_threads_test
}  // namespace ddprun

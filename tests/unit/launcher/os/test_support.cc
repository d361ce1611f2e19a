#include "tests/unit/launcher/os/test_support.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace ddprun::test {

TempDir::TempDir() {
  path_ = ::testing::TempDir() + "ddprun_os_XXXXXX";
  if (::mkdtemp(path_.data()) == nullptr) ::abort();
}

TempDir::~TempDir() { std::filesystem::remove_all(path_); }

PipeEnds MakePipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) ::abort();
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

std::size_t FillPipe(const PipeEnds& pipe) {
  ::fcntl(pipe.write_end.get(), F_SETFL, O_NONBLOCK);
  const std::string page(4096, '.');
  std::size_t total = 0;
  while (::write(pipe.write_end.get(), page.data(), page.size()) > 0) total += page.size();
  ::fcntl(pipe.write_end.get(), F_SETFL, 0);
  return total;
}

bool RunUntil(EventLoop* loop, const std::function<bool()>& done) {
  const EventLoop::Clock::time_point deadline = EventLoop::Clock::now() + kPatience;
  EventLoop::TimerId timer = 0;
  bool result = false;
  const std::function<void()> check = [&] {
    result = done();
    if (result || EventLoop::Clock::now() > deadline) return loop->Quit();
    timer = loop->AddTimer(EventLoop::Clock::now() + std::chrono::milliseconds(1), check);
  };
  timer = loop->AddTimer(EventLoop::Clock::now(), check);
  loop->Run();
  loop->CancelTimer(timer);
  return result;
}

bool RunUntilDead(EventLoop* loop, int pidfd) {
  bool dead = false;
  const EventLoop::TimerId patience =
      loop->AddTimer(EventLoop::Clock::now() + kPatience, [loop] { loop->Quit(); });
  loop->Watch(pidfd, EPOLLIN, [&](std::uint32_t) {
    dead = true;
    loop->Quit();
  });
  loop->Run();
  loop->Unwatch(pidfd);
  loop->CancelTimer(patience);
  return dead;
}

bool ReadAvailable(int fd, std::string* text) {
  char buffer[16 << 10];
  for (;;) {
    const ssize_t size = ::read(fd, buffer, sizeof(buffer));
    if (size == 0) return false;
    if (size < 0) return errno == EAGAIN;
    text->append(buffer, static_cast<std::size_t>(size));
  }
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

void WriteFile(const std::string& path, const std::string& content, int mode) {
  std::ofstream(path, std::ios::binary) << content;
  ::chmod(path.c_str(), static_cast<mode_t>(mode));
}

std::vector<std::string> SplitLines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::uint64_t LinesNotShown(const std::string& text, const std::string& log_directory) {
  const std::string before = "ddprun: ";
  const std::string after =
      " lines not shown: the terminal did not keep up (they are in " + log_directory + ")\n";
  const std::size_t start = text.rfind(before);
  if (start == std::string::npos || !text.ends_with(after)) return 0;
  const std::size_t number = start + before.size();
  const std::string digits = text.substr(number, text.size() - after.size() - number);
  const bool whole = !digits.empty() && digits.find_first_not_of("0123456789") == std::string::npos;
  return whole ? std::stoull(digits) : 0;
}

SpawnRequest Shell(const std::string& script) {
  return {{"sh", "-c", script}, {"PATH=/usr/bin:/bin"}, ""};
}

SpawnRequest Child(const std::vector<std::string>& arguments) {
  SpawnRequest request{{OS_TEST_CHILD}, {"PATH=/usr/bin:/bin"}, ""};
  request.argv.insert(request.argv.end(), arguments.begin(), arguments.end());
  return request;
}

absl::Status AwaitOutcome(const SpawnedProcess& process) {
  pollfd known{process.outcome_pipe.get(), POLLIN, 0};
  const int patience = static_cast<int>(std::chrono::milliseconds(kPatience).count());
  if (::poll(&known, 1, patience) != 1) return absl::DeadlineExceededError("no outcome");
  return SpawnOutcome(process.outcome_pipe.get())
      .value_or(absl::InternalError("readable for nothing"));
}

absl::Status OutcomeOf(ProcessRunner* runner, const SpawnRequest& request) {
  const absl::StatusOr<SpawnedProcess> process = runner->Spawn(request);
  if (!process.ok()) return process.status();
  const absl::Status outcome = AwaitOutcome(*process);
  EXPECT_TRUE(runner->Discard(*process).ok());
  return outcome;
}

std::string HangExec(const TempDir& folder, SpawnRequest* request) {
  WriteFile(folder / "0", "", 0644);
  request->env.insert(request->env.end(), {"HANG_EXEC=" + folder.path(), "RANK=0"});
  return folder / "0";
}

Finished RunToEnd(const SpawnRequest& request) {
  Finished finished;
  PosixProcessRunner runner;
  absl::StatusOr<SpawnedProcess> process = runner.Spawn(request);
  if (!process.ok()) {
    ADD_FAILURE() << process.status();
    return finished;
  }
  EventLoop loop;
  EXPECT_TRUE(RunUntil(&loop, [&] {
    const bool out = ReadAvailable(process->stdout_pipe.get(), &finished.out);
    const bool err = ReadAvailable(process->stderr_pipe.get(), &finished.err);
    return !out && !err;
  }));
  EXPECT_TRUE(RunUntilDead(&loop, process->pidfd.get()));
  const absl::StatusOr<ExitStatus> status = runner.Reap(process->pidfd.get());
  EXPECT_TRUE(status.ok()) << status.status();
  if (status.ok()) finished.status = *status;
  return finished;
}

}  // namespace ddprun::test

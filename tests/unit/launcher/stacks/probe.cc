#include "tests/unit/launcher/stacks/probe.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "launcher/stacks/process_facts.h"

namespace ddprun::stacks_test {

Probe::Probe(std::vector<std::string> arguments, std::function<void()> before_exec) {
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  int pipe[2];
  EXPECT_EQ(::pipe2(pipe, O_CLOEXEC), 0);
  pid_ = ::fork();
  if (pid_ == 0) {
    ::dup2(pipe[1], STDOUT_FILENO);
    if (before_exec) before_exec();
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  ::close(pipe[1]);
  output_.reset(pipe[0]);
  std::string said;
  for (char letter; said.find('\n') == said.npos && ::read(output_.get(), &letter, 1) == 1;) {
    said += letter;
  }
  EXPECT_EQ(said, "ready\n");
}

Probe::~Probe() {
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

char Probe::State() const { return stacks::LookAtThread(pid_, pid_).state; }

void Probe::Signal(int signal) const { EXPECT_EQ(::kill(pid_, signal), 0); }

void Probe::SignalAndWaitFor(int signal, char state) const {
  Signal(signal);
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (State() != state && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  EXPECT_EQ(State(), state);
}

std::string InChild(const std::function<void()>& become, const std::function<std::string()>& act) {
  int pipe[2];
  EXPECT_EQ(::pipe2(pipe, O_CLOEXEC), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    become();
    const std::string text = act();
    [[maybe_unused]] const ssize_t size = ::write(pipe[1], text.data(), text.size());
    ::_exit(0);
  }
  ::close(pipe[1]);
  std::string text(1 << 16, '\0');
  std::size_t had = 0;
  for (ssize_t size; (size = ::read(pipe[0], text.data() + had, text.size() - had)) > 0;) {
    had += static_cast<std::size_t>(size);
  }
  text.resize(had);
  ::close(pipe[0]);
  ::waitpid(child, nullptr, 0);
  return text;
}

}  // namespace ddprun::stacks_test

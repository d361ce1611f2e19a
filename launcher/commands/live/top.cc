// ddprun top.
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "launcher/commands/live/errand.h"
#include "launcher/commands/live/errands.h"
#include "launcher/commands/live/status_source.h"
#include "launcher/commands/live/terminal.h"
#include "launcher/commands/operator.h"
#include "launcher/os/check.h"
#include "launcher/os/event_loop.h"
#include "launcher/os/signal_source.h"
#include "launcher/text/printable.h"
#include "launcher/text/top/model.h"
#include "rendezvous/core/exit_codes.h"
#include "worker/contract/unique_fd.h"

namespace ddprun {
namespace top {
namespace {

constexpr std::chrono::milliseconds kEscapePause{50};  // after ESC alone
// How long an order that was just given may take when the command ends.
constexpr std::chrono::milliseconds kForOrders{1000};

// SIGWINCH as a descriptor. Made before other threads, which inherit the blocked signal.
UniqueFd Resizes() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGWINCH);
  Check(pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0, "pthread_sigmask");
  return UniqueFd(CheckSyscall(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK), "signalfd"));
}

void SayThatNoAnswerCame(const Request& order) {
  const std::string what = order.kind == Request::Kind::kDrain ? absl::StrCat("drain ", order.host)
                           : order.kind == Request::Kind::kSaveAndStop
                               ? absl::StrCat("save and stop job ", order.job)
                               : absl::StrCat("stop job ", order.job);
  std::fprintf(stderr,
               "ddprun top: the rendezvous has not answered the order: %s; `ddprun status` says "
               "whether it was carried out\n",
               Printable(what).c_str());
}

// Handles all events, on the loop's thread.
class Top {
 public:
  Top(const OperatorCommand& command, OperatorClient::Options options)
      : command_(command),
        options_(std::move(options)),
        model_(command.endpoint, command.job),
        errands_(&loop_, options_,
                 [this](const Request& request, const absl::StatusOr<std::string>& answer) {
                   TakeAnswer(request, answer);
                 }) {}

  int Run() {
    const UniqueFd resizes = Resizes();
    const SignalSource signals(&loop_, [this](int signo, pid_t) { End(128 + signo); });
    loop_.Watch(resizes.get(), EPOLLIN, [this, &resizes](std::uint32_t) {
      signalfd_siginfo info;
      while (read(resizes.get(), &info, sizeof info) > 0) continue;
      Draw();
    });
    {
      const StatusSource source(options_, command_.job, [this](absl::StatusOr<std::string> status) {
        loop_.Post([this, status = std::move(status)] { TakeStatus(status); });
      });
      loop_.Run();
      CloseTerminal();
      for (const Request& order : errands_.End(kForOrders)) SayThatNoAnswerCame(order);
    }
    loop_.Unwatch(resizes.get());
    if (!failure_.ok()) return FailOperator(command_, failure_);
    return exit_code_;
  }

 private:
  void End(int exit_code) {
    exit_code_ = exit_code;
    loop_.Quit();
  }

  // There is no screen before the first status: until then the command fails like the other
  // commands.
  void TakeStatus(const absl::StatusOr<std::string>& status) {
    absl::Status problem = status.status();
    if (status.ok() && terminal_ == nullptr) problem = CheckThatJobExists(command_, *status);
    if (problem.ok()) {
      auto snapshot = ParseSnapshot(*status);
      problem = snapshot.status();
      if (snapshot.ok()) model_.TakeSnapshot(*std::move(snapshot));
    }
    if (!problem.ok()) {
      const bool may_return = absl::IsUnavailable(problem) || absl::IsDeadlineExceeded(problem);
      if (terminal_ == nullptr || !may_return) {
        failure_ = problem;
        return loop_.Quit();
      }
      model_.LoseContact(std::string(problem.message()));
    } else if (terminal_ == nullptr) {
      terminal_ = std::make_unique<Terminal>();
      loop_.Watch(STDIN_FILENO, EPOLLIN, [this](std::uint32_t) { ReadKeys(); });
    }
    Draw();
  }

  void CloseTerminal() {
    if (terminal_ == nullptr) return;
    loop_.Unwatch(STDIN_FILENO);
    terminal_.reset();
  }

  void ReadKeys() {
    const std::string typed = terminal_->Read();
    if (typed.empty()) return End(0);  // the terminal is gone
    TakeKeys(keys_.Take(typed));
    if (keys_.waiting()) {
      loop_.SetDeadline(EventLoop::Clock::now() + kEscapePause,
                        [this] { TakeKeys(keys_.Pause()); });
    }
  }

  void TakeKeys(const std::vector<Key>& keys) {
    for (const Key& key : keys) {
      const std::optional<Request> request = model_.TakeKey(key);
      if (model_.quits()) return End(0);
      if (!request) continue;
      model_.TakeAnswer("asking the rendezvous...");
      errands_.Begin(*request);
    }
    Draw();
  }

  void TakeAnswer(const Request& request, const absl::StatusOr<std::string>& answer) {
    if (!answer.ok()) {
      model_.TakeAnswer(std::string(answer.status().message()));
    } else if (BringsText(request)) {
      model_.TakeText(request, *answer);
    } else {
      model_.TakeAnswer(*answer);
    }
    Draw();
  }

  void Draw() {
    if (terminal_ == nullptr) return;
    const Size size = terminal_->size();
    model_.Resize(size);
    if (!terminal_->Write(screen_.Show(model_.Lines(), size))) End(0);
  }

  const OperatorCommand& command_;
  const OperatorClient::Options options_;
  EventLoop loop_;
  Model model_;
  KeyReader keys_;
  Screen screen_;
  std::unique_ptr<Terminal> terminal_;  // null until the first status
  Errands errands_;
  absl::Status failure_;
  int exit_code_ = 0;
};

// For a pipe or a file: prints the content of the first screen in full.
int PrintOnce(const OperatorCommand& command, const OperatorClient::Options& options) {
  OperatorClient client(options);
  const auto status = client.Status(command.job);
  if (!status.ok()) return FailOperator(command, status.status());
  if (const absl::Status found = CheckThatJobExists(command, *status); !found.ok()) {
    return FailOperator(command, found);
  }
  auto snapshot = ParseSnapshot(*status);
  if (!snapshot.ok()) return FailOperator(command, snapshot.status());
  Model model(command.endpoint, command.job);
  model.TakeSnapshot(*std::move(snapshot));
  PrintOut(model.PlainText());
  return 0;
}

}  // namespace
}  // namespace top

int ShowTop(const OperatorCommand& command, OperatorClient::Options options) {
  if (!top::Terminal::IsOne()) return top::PrintOnce(command, options);
  return top::Top(command, std::move(options)).Run();
}

}  // namespace ddprun

#include "worker/src/peers/peers.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "worker/src/base/tcp.h"

namespace ddp::internal {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using State = PeerReport::State;

constexpr int kWelcomeMs = 2000;
constexpr std::size_t kMostStrangers = 64;  // connections that have not said HELLO
constexpr milliseconds kSlack(500);         // for the way of an answer

[[noreturn]] void ThrowErrno(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

// Splits off the first word.
std::string_view NextWord(std::string_view* text) {
  const std::size_t end = std::min(text->find(' '), text->size());
  const std::string_view word = text->substr(0, end);
  text->remove_prefix(std::min(end + 1, text->size()));
  return word;
}

std::optional<int> Number(std::string_view text, int low, int high) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (value < low || value > high) return std::nullopt;
  return value;
}

// Never blocks, never raises SIGPIPE; what cannot be sent is lost.
void Send(int fd, std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  if (text.size() >= kMaxPeerLine) text.resize(kMaxPeerLine - 1);
  text += '\n';
  [[maybe_unused]] const ssize_t sent =
      send(fd, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

// The hub knows this rank once it has said so; nothing that happens later is missed.
void WaitForWelcome(int fd) {
  std::string line;
  pollfd ready = {fd, POLLIN, 0};
  for (char byte = 0; byte != '\n'; line += byte) {
    if (line.size() > kMaxPeerLine || poll(&ready, 1, kWelcomeMs) != 1 ||
        recv(fd, &byte, 1, 0) != 1) {
      throw std::runtime_error("rank 0 does not answer");
    }
  }
  if (line != "WELCOME\n") throw std::runtime_error("rank 0 answers something else");
}

}  // namespace

struct Peers::Line {
  ddprun::UniqueFd socket;
  int rank = -1;  // at the other end; -1 until it has said
  std::string unread;
  bool closed = false;
};

Peers::Peers(int world_size, Where where)
    : rank_(0), world_size_(world_size), where_(std::move(where)), token_(MakeToken()) {
  int port = 0;
  listener_ = ListenEverywhere(&port);
  contact_ = std::to_string(port) + " " + token_;
  reports_.resize(static_cast<std::size_t>(world_size));
  Start();
}

Peers::Peers(const std::string& host, const std::string& contact, int rank, int world_size,
             Where where)
    : rank_(rank), world_size_(world_size), where_(std::move(where)), contact_(contact) {
  std::string_view rest = contact_;
  const std::string_view port = NextWord(&rest);
  lines_.push_back(std::make_unique<Line>());
  lines_[0]->socket = ConnectTo(host, port);
  KeepAlive(lines_[0]->socket.get());
  lines_[0]->rank = 0;
  hub_socket_ = lines_[0]->socket.get();
  Send(hub_socket_, "HELLO " + std::string(rest) + " " + std::to_string(rank));
  WaitForWelcome(hub_socket_);
  Start();
}

// Signals are for the program's own threads.
void Peers::Start() {
  wake_ = ddprun::UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_.valid()) ThrowErrno("eventfd");
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { Run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Peers::~Peers() {
  if (!IsHub()) SendToHub("BYE");
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  Wake();
  thread_.join();
}

std::string Peers::Ask() {
  if (!IsHub()) SendToHub("ASK");
  std::unique_lock<std::mutex> lock(mutex_);
  ask_ = true;
  Wake();
  changed_.wait_for(lock, kPeerPatience + kSlack, [this] { return cause_.has_value(); });
  return cause_.value_or("");
}

std::string Peers::KnownCause() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return cause_.value_or("");
}

void Peers::ReportError(const std::string& text) {
  if (!IsHub()) {
    SendToHub("ERROR " + text);
    return;
  }
  std::unique_lock<std::mutex> lock(mutex_);
  error_ = text;
  Wake();
  changed_.wait_for(lock, kSlack, [this] { return cause_.has_value(); });
}

void Peers::WatchForLoss(std::function<void()> on_loss) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    watches_ = true;
    if (!lost_ && on_loss != nullptr) on_loss_ = std::exchange(on_loss, nullptr);
  }
  if (on_loss != nullptr) on_loss();
  Wake();
}

void Peers::Wake() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_.get(), &one, sizeof(one));
}

void Peers::SendToHub(const std::string& text) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (hub_socket_ >= 0) Send(hub_socket_, text);
}

void Peers::SendToAll(const std::string& text) {
  for (const auto& line : lines_) {
    if (line->rank > 0 && !line->closed) Send(line->socket.get(), text);
  }
}

// ---- The thread ----

void Peers::Run() {
  for (;;) {
    std::vector<pollfd> ready = {{wake_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
    for (const auto& line : lines_) ready.push_back({line->socket.get(), POLLIN, 0});
    int timeout = -1;
    if (asking_rank_.has_value()) {
      const auto left = std::chrono::ceil<milliseconds>(deadline_ - steady_clock::now());
      timeout = static_cast<int>(std::max<std::int64_t>(left.count(), 0));
    }
    if (poll(ready.data(), ready.size(), timeout) < 0 && errno != EINTR) return;

    for (std::size_t i = 2; i < ready.size(); ++i) {
      if (ready[i].revents != 0) Receive(lines_[i - 2].get());
    }
    if (ready[1].revents != 0) Accept();
    if (asking_rank_.has_value() && steady_clock::now() >= deadline_) {
      Conclude(NameTheCause(reports_, *asking_rank_));
    }
    lines_.erase(
        std::remove_if(lines_.begin(), lines_.end(), [](const auto& line) { return line->closed; }),
        lines_.end());
    if (ready[0].revents != 0 && !ObeyOwner()) return;
    if (IsHub()) LookForLoss();
  }
}

// False: the owner wants the thread to end.
bool Peers::ObeyOwner() {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t taken = read(wake_.get(), &count, sizeof(count));
  bool stop = false;
  bool ask = false;
  std::optional<std::string> error;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop = stop_;
    ask = std::exchange(ask_, false);
    error = std::exchange(error_, std::nullopt);
  }
  if (!IsHub()) return !stop;
  if (error.has_value()) {
    Conclude("Rank 0 failed: " + *error + (error->ends_with('.') ? "" : "."));
    reports_[0] = {State::kFailed, *error, {}};
  } else if (ask) {
    BeginAsking(0);
  }
  if (stop) SendToAll("BYE");
  return !stop;
}

void Peers::Accept() {
  ddprun::UniqueFd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket.valid() || lines_.size() >= static_cast<std::size_t>(world_size_) + kMostStrangers) {
    return;
  }
  KeepAlive(socket.get());
  lines_.push_back(std::make_unique<Line>());
  lines_.back()->socket = std::move(socket);
}

void Peers::Receive(Line* line) {
  char bytes[kMaxPeerLine];
  const ssize_t size = recv(line->socket.get(), bytes, sizeof(bytes), MSG_DONTWAIT);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (size <= 0) {
    HandleEnd(line);
    return;
  }
  line->unread.append(bytes, static_cast<std::size_t>(size));
  for (std::size_t end; !line->closed && (end = line->unread.find('\n')) != std::string::npos;) {
    const std::string text = line->unread.substr(0, end);
    line->unread.erase(0, end + 1);
    HandleLine(line, text);
  }
  if (line->unread.size() > kMaxPeerLine) line->closed = true;
}

void Peers::HandleLine(Line* from, const std::string& text) {
  std::string_view rest = text;
  const std::string_view verb = NextWord(&rest);
  if (!IsHub()) {
    if (verb == "WHERE") {
      const Activity activity = where_();
      SendToHub("AT " + std::to_string(activity.age.count()) + " " + activity.what);
    } else if (verb == "CAUSE") {
      Conclude(std::string(rest));
    } else if (verb == "LOST") {
      NoticeLoss();
    } else if (verb == "BYE") {
      hub_left_ = true;
    }
    return;
  }
  if (from->rank < 0) {
    HandleHello(from, text);
    return;
  }
  PeerReport& report = reports_[static_cast<std::size_t>(from->rank)];
  if (verb == "ASK") {
    BeginAsking(from->rank);
  } else if (verb == "AT") {
    const std::string_view age = NextWord(&rest);
    // It may still be there for a moment after it said that it failed.
    if (report.state == State::kFailed || report.state == State::kLeft) return;
    report = {State::kAnswered, std::string(rest),
              milliseconds(Number(age, 0, std::numeric_limits<int>::max()).value_or(0))};
  } else if (verb == "ERROR") {
    report = {State::kFailed, std::string(rest), {}};
  } else if (verb == "BYE") {
    report = {State::kLeft, "", {}};
  }
  ConcludeIfDone();
}

void Peers::HandleHello(Line* from, const std::string& text) {
  std::string_view rest = text;
  const bool known = NextWord(&rest) == "HELLO" && NextWord(&rest) == token_;
  const std::optional<int> rank = known ? Number(rest, 1, world_size_ - 1) : std::nullopt;
  if (!rank.has_value()) {
    from->closed = true;
    return;
  }
  from->rank = *rank;
  Send(from->socket.get(), "WELCOME");
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (cause_.has_value()) Send(from->socket.get(), "CAUSE " + *cause_);
    if (lost_) Send(from->socket.get(), "LOST");
  }
  if (asking_rank_.has_value()) Send(from->socket.get(), "WHERE");
}

void Peers::HandleEnd(Line* line) {
  line->closed = true;
  if (!IsHub()) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      hub_socket_ = -1;
    }
    Conclude(hub_left_ ? "Rank 0 has finished and left."
                       : "Rank 0 has ended, or can no longer be reached.");
    if (!hub_left_) NoticeLoss();
    return;
  }
  if (line->rank < 0) return;
  PeerReport& report = reports_[static_cast<std::size_t>(line->rank)];
  if (report.state != State::kFailed && report.state != State::kLeft) report.state = State::kEnded;
  ConcludeIfDone();
}

void Peers::BeginAsking(int asking_rank) {
  if (asking_rank_.has_value()) return;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (cause_.has_value()) return;  // all ranks have it
  }
  asking_rank_ = asking_rank;
  deadline_ = steady_clock::now() + kPeerPatience;
  const Activity own = where_();
  reports_[0] = {State::kAnswered, own.what, own.age};
  SendToAll("WHERE");
  ConcludeIfDone();
}

void Peers::ConcludeIfDone() {
  if (!asking_rank_.has_value()) return;
  const auto silent = [](const PeerReport& report) { return report.state == State::kSilent; };
  if (std::none_of(reports_.begin(), reports_.end(), silent)) {
    Conclude(NameTheCause(reports_, *asking_rank_));
  }
}

void Peers::LookForLoss() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!watches_ || lost_) return;
  }
  const auto lost = [](const PeerReport& report) {
    return report.state == State::kEnded || report.state == State::kFailed;
  };
  if (std::none_of(reports_.begin(), reports_.end(), lost)) return;
  NoticeLoss();
  BeginAsking(0);
}

void Peers::NoticeLoss() {
  std::function<void()> on_loss;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (lost_) return;
    lost_ = true;
    on_loss = std::exchange(on_loss_, nullptr);
  }
  if (IsHub()) SendToAll("LOST");
  if (on_loss != nullptr) on_loss();
}

// The first conclusion stands: what ranks do after it follows from it.
void Peers::Conclude(const std::string& cause) {
  asking_rank_.reset();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (cause_.has_value()) return;
    cause_ = cause;
  }
  if (IsHub()) SendToAll("CAUSE " + cause);
  changed_.notify_all();
}

// ---- The process's own ----

namespace {

struct ProcessOwn {
  std::mutex mutex;
  std::shared_ptr<Peers> peers;  // guarded by mutex
};

// Never destroyed: errors are reported until the very end.
ProcessOwn& TheOwner() {
  static ProcessOwn* const own = new ProcessOwn;
  return *own;
}

}  // namespace

std::shared_ptr<Peers> ProcessPeers() {
  const std::lock_guard<std::mutex> lock(TheOwner().mutex);
  return TheOwner().peers;
}

void SetProcessPeers(std::shared_ptr<Peers> peers) {
  const std::lock_guard<std::mutex> lock(TheOwner().mutex);
  TheOwner().peers.swap(peers);
}

}  // namespace ddp::internal

#include "worker/src/peers/rank_failure_detector.h"

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

#include "worker/contract/without_controls.h"
#include "worker/src/base/peer_crypto.h"
#include "worker/src/base/tcp.h"

namespace ddp::internal {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using State = PeerReport::State;

constexpr int kWelcomeMs = 2000;
constexpr std::size_t kMostUnknownConnections = 64;  // connections that have not sent HELLO
constexpr milliseconds kSlack(500);                  // for an answer to travel

// Removes the first word from `text` and returns it.
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

// Never blocks, and never raises SIGPIPE. If the text cannot be sent at once, drops it.
void Send(int fd, std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  if (text.size() >= kMaxPeerLine) text.resize(kMaxPeerLine - 1);
  text += '\n';
  [[maybe_unused]] const ssize_t sent =
      send(fd, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

// Once the hub has sent WELCOME, it knows this rank and notices every later event.
void WaitForWelcome(int fd, const std::string& welcome) {
  std::string line;
  pollfd ready = {fd, POLLIN, 0};
  for (char byte = 0; byte != '\n'; line += byte) {
    if (line.size() > kMaxPeerLine || poll(&ready, 1, kWelcomeMs) != 1 ||
        recv(fd, &byte, 1, 0) != 1) {
      throw std::runtime_error("rank 0 does not answer");
    }
  }
  if (!IsEqualProof(line, welcome)) throw std::runtime_error("rank 0 answers something else");
}

}  // namespace

struct RankFailureDetector::Line {
  ddprun::UniqueFd socket;
  int rank = -1;                          // of the other end; -1 before its HELLO
  steady_clock::time_point hello_before;  // deadline of its HELLO
  std::string unread;
  bool closed = false;
};

RankFailureDetector::RankFailureDetector(int world_size, Where where, std::string secret)
    : rank_(0),
      world_size_(world_size),
      where_(std::move(where)),
      secret_(std::move(secret)),
      token_(MakeToken()) {
  int port = 0;
  listener_ = ListenEverywhere(&port);
  contact_ = std::to_string(port) + " " + token_;
  reports_.resize(static_cast<std::size_t>(world_size));
  Start();
}

RankFailureDetector::RankFailureDetector(const std::string& host, const std::string& contact,
                                         int rank, int world_size, Where where, std::string secret)
    : rank_(rank),
      world_size_(world_size),
      where_(std::move(where)),
      secret_(std::move(secret)),
      contact_(contact) {
  std::string_view rest = contact_;
  const std::string_view port = NextWord(&rest);
  lines_.push_back(std::make_unique<Line>());
  lines_[0]->socket = ConnectTo(host, port);
  KeepAlive(lines_[0]->socket.get());
  lines_[0]->rank = 0;
  hub_socket_ = lines_[0]->socket.get();
  token_ = rest;
  const std::string number = MakeToken();
  Send(hub_socket_, "HELLO " + token_ + " " + std::to_string(rank) + HelloProof(rank, number));
  WaitForWelcome(hub_socket_, "WELCOME" + WelcomeProof(rank, number) + "\n");
  Start();
}

// The thread blocks all signals, because they are for the program's own threads.
void RankFailureDetector::Start() {
  wake_ = ddprun::UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_.valid()) ThrowErrno("eventfd");
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { Run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

RankFailureDetector::~RankFailureDetector() {
  if (!IsHub()) SendToHub("BYE");
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    requests_.stop = true;
  }
  Wake();
  thread_.join();
}

std::string RankFailureDetector::Ask() {
  if (!IsHub()) SendToHub("ASK");
  std::unique_lock<std::mutex> lock(mutex_);
  requests_.ask = true;
  Wake();
  changed_.wait_for(lock, kPeerPatience + kSlack, [this] { return cause_.has_value(); });
  return cause_.value_or("");
}

std::string RankFailureDetector::KnownCause() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return cause_.value_or("");
}

void RankFailureDetector::ReportError(const std::string& text) {
  if (!IsHub()) {
    SendToHub("ERROR " + text);
    return;
  }
  std::unique_lock<std::mutex> lock(mutex_);
  requests_.error = text;
  Wake();
  changed_.wait_for(lock, kSlack, [this] { return cause_.has_value(); });
}

void RankFailureDetector::WatchForLoss(std::function<void()> on_loss) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    loss_.on = true;
    if (!loss_.lost && on_loss != nullptr) loss_.on_loss = std::exchange(on_loss, nullptr);
  }
  if (on_loss != nullptr) on_loss();
  Wake();
}

void RankFailureDetector::Wake() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_.get(), &one, sizeof(one));
}

void RankFailureDetector::SendToHub(const std::string& text) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (hub_socket_ >= 0) Send(hub_socket_, text);
}

void RankFailureDetector::SendToAll(const std::string& text) {
  for (const auto& line : lines_) {
    if (line->rank > 0 && !line->closed) Send(line->socket.get(), text);
  }
}

// ---- The thread ----

void RankFailureDetector::Run() {
  for (;;) {
    std::vector<pollfd> ready = {{wake_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
    for (const auto& line : lines_) ready.push_back({line->socket.get(), POLLIN, 0});
    int timeout = -1;
    if (const auto deadline = NextDeadline(); deadline != steady_clock::time_point::max()) {
      const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now());
      timeout = static_cast<int>(std::max<std::int64_t>(left.count(), 0));
    }
    if (poll(ready.data(), ready.size(), timeout) < 0 && errno != EINTR) return;

    for (std::size_t i = 2; i < ready.size(); ++i) {
      if (ready[i].revents != 0) Receive(lines_[i - 2].get());
    }
    if (ready[1].revents != 0) Accept();
    CutOffStrangers();
    if (inquiry_.has_value() && steady_clock::now() >= inquiry_->deadline) {
      Conclude(NameTheCause(reports_, inquiry_->asking_rank));
    }
    lines_.erase(
        std::remove_if(lines_.begin(), lines_.end(), [](const auto& line) { return line->closed; }),
        lines_.end());
    if (ready[0].revents != 0 && !ServeRequests()) return;
    if (IsHub()) LookForLoss();
  }
}

steady_clock::time_point RankFailureDetector::NextDeadline() const {
  auto next = inquiry_.has_value() ? inquiry_->deadline : steady_clock::time_point::max();
  for (const auto& line : lines_) {
    if (line->rank < 0) next = std::min(next, line->hello_before);
  }
  return next;
}

void RankFailureDetector::CutOffStrangers() {
  const auto now = steady_clock::now();
  for (const auto& line : lines_) {
    if (line->rank >= 0 || now < line->hello_before) continue;
    Receive(line.get());  // this thread may be late, not the peer
    if (line->rank < 0) line->closed = true;
  }
}

// False: the owner asks the thread to end.
bool RankFailureDetector::ServeRequests() {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t taken = read(wake_.get(), &count, sizeof(count));
  Requests requests;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::swap(requests, requests_);
  }
  if (!IsHub()) return !requests.stop;
  if (const auto& error = requests.error; error.has_value()) {
    Conclude("Rank 0 failed: " + *error + (error->ends_with('.') ? "" : "."));
    reports_[0] = {State::kFailed, *error, {}};
  } else if (requests.ask) {
    BeginAsking(0);
  }
  if (requests.stop) SendToAll("BYE");
  return !requests.stop;
}

void RankFailureDetector::Accept() {
  ddprun::UniqueFd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket.valid()) return;
  if (lines_.size() >= static_cast<std::size_t>(world_size_) + kMostUnknownConnections) {
    // Drop the oldest. A rank sends HELLO at once, so a rank is never the oldest of many.
    const auto oldest = std::find_if(lines_.begin(), lines_.end(), [](const auto& line) {
      return line->rank < 0 && !line->closed;
    });
    if (oldest != lines_.end()) (*oldest)->closed = true;
  }
  KeepAlive(socket.get());
  lines_.push_back(std::make_unique<Line>());
  lines_.back()->socket = std::move(socket);
  lines_.back()->hello_before = steady_clock::now() + kHelloPatience;
}

void RankFailureDetector::Receive(Line* line) {
  char bytes[kMaxPeerLine];
  const ssize_t size = recv(line->socket.get(), bytes, sizeof(bytes), MSG_DONTWAIT);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (size <= 0) {
    HandleEnd(line);
    return;
  }
  line->unread.append(bytes, static_cast<std::size_t>(size));
  for (std::size_t end; !line->closed && (end = line->unread.find('\n')) != std::string::npos;) {
    // Ranks print what other ranks send.
    const std::string text = ddprun::WithoutControls(line->unread.substr(0, end));
    line->unread.erase(0, end + 1);
    HandleLine(line, text);
  }
  if (line->unread.size() > kMaxPeerLine) line->closed = true;
}

void RankFailureDetector::HandleLine(Line* from, const std::string& text) {
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
    // A rank that has reported its failure or its end may still run for a moment.
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

std::string RankFailureDetector::HelloProof(int rank, const std::string& number) const {
  if (secret_.empty()) return "";
  return " " + number + " " +
         Proof(secret_, "hello " + token_ + " " + std::to_string(rank) + " " + number);
}

std::string RankFailureDetector::WelcomeProof(int rank, const std::string& number) const {
  if (secret_.empty()) return "";
  return " " + Proof(secret_, "welcome " + token_ + " " + std::to_string(rank) + " " + number);
}

void RankFailureDetector::HandleHello(Line* from, const std::string& text) {
  std::string_view rest = text;
  const bool known = NextWord(&rest) == "HELLO" && NextWord(&rest) == token_;
  const std::optional<int> rank =
      known ? Number(NextWord(&rest), 1, world_size_ - 1) : std::nullopt;
  const std::string number(rest.substr(0, rest.find(' ')));
  const std::string proof = rest.empty() ? "" : " " + std::string(rest);
  // Refuse a second HELLO, because an eavesdropper could repeat the first one.
  const bool twice = rank && !secret_.empty() && greeted_.contains(*rank);
  if (!rank || twice || !IsEqualProof(proof, HelloProof(*rank, number))) {
    from->closed = true;
    return;
  }
  from->rank = *rank;
  greeted_.insert(*rank);
  Send(from->socket.get(), "WELCOME" + WelcomeProof(*rank, number));
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (cause_.has_value()) Send(from->socket.get(), "CAUSE " + *cause_);
    if (loss_.lost) Send(from->socket.get(), "LOST");
  }
  if (inquiry_.has_value()) Send(from->socket.get(), "WHERE");
}

void RankFailureDetector::HandleEnd(Line* line) {
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

void RankFailureDetector::BeginAsking(int asking_rank) {
  if (inquiry_.has_value()) return;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (cause_.has_value()) return;  // all ranks know the cause already
  }
  inquiry_ = {asking_rank, steady_clock::now() + kPeerPatience};
  const Activity activity = where_();
  reports_[0] = {State::kAnswered, activity.what, activity.age};
  SendToAll("WHERE");
  ConcludeIfDone();
}

void RankFailureDetector::ConcludeIfDone() {
  if (!inquiry_.has_value()) return;
  const auto silent = [](const PeerReport& report) { return report.state == State::kSilent; };
  if (std::none_of(reports_.begin(), reports_.end(), silent)) {
    Conclude(NameTheCause(reports_, inquiry_->asking_rank));
  }
}

void RankFailureDetector::LookForLoss() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!loss_.on || loss_.lost) return;
  }
  const auto lost = [](const PeerReport& report) {
    return report.state == State::kEnded || report.state == State::kFailed;
  };
  if (std::none_of(reports_.begin(), reports_.end(), lost)) return;
  NoticeLoss();
  BeginAsking(0);
}

void RankFailureDetector::NoticeLoss() {
  std::function<void()> on_loss;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (loss_.lost) return;
    loss_.lost = true;
    on_loss = std::exchange(loss_.on_loss, nullptr);
  }
  if (IsHub()) SendToAll("LOST");
  if (on_loss != nullptr) on_loss();
}

// The first conclusion is final, because later events are its consequences.
void RankFailureDetector::Conclude(const std::string& cause) {
  inquiry_.reset();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (cause_.has_value()) return;
    cause_ = cause;
  }
  if (IsHub()) SendToAll("CAUSE " + cause);
  changed_.notify_all();
}

// ---- The process's detector ----

namespace {

struct Shared {
  std::mutex mutex;
  std::shared_ptr<RankFailureDetector> detector;  // guarded by mutex
};

// Never destroyed, because errors are reported until the process ends.
Shared& OfProcess() {
  static Shared* const shared = new Shared;
  return *shared;
}

}  // namespace

std::shared_ptr<RankFailureDetector> ProcessFailureDetector() {
  const std::lock_guard<std::mutex> lock(OfProcess().mutex);
  return OfProcess().detector;
}

void SetProcessFailureDetector(std::shared_ptr<RankFailureDetector> detector) {
  const std::lock_guard<std::mutex> lock(OfProcess().mutex);
  OfProcess().detector.swap(detector);
}

}  // namespace ddp::internal

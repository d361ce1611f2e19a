#include "launcher/agent/start_watch.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace ddprun {
namespace {

constexpr std::chrono::milliseconds kFirstInterval{100};
constexpr int kIntervalsPerTime = 4;             // an interval is 1/4 of the elapsed time
constexpr std::chrono::minutes kWatchLimit{30};  // a longer start is not measured
constexpr char kEstablished[] = "01";

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

int CountConnectionsTo(int port, absl::string_view proc_net_tcp) {
  int count = 0;
  for (const auto line : absl::StrSplit(proc_net_tcp, '\n')) {
    //   sl local_address rem_address st ...
    const std::vector<absl::string_view> fields =
        absl::StrSplit(absl::StripAsciiWhitespace(line), ' ', absl::SkipEmpty());
    if (fields.size() < 4 || fields[3] != kEstablished) continue;
    const std::vector<absl::string_view> remote = absl::StrSplit(fields[2], ':');
    std::int32_t remote_port = 0;
    if (remote.size() == 2 && absl::SimpleHexAtoi(remote[1], &remote_port) && remote_port == port)
      ++count;
  }
  return count;
}

std::int64_t CpuTicks(absl::string_view proc_pid_stat) {
  // The program's name is in parentheses and may contain anything. The fields after the last
  // parenthesis begin with field 3.
  constexpr std::size_t kUserTime = 14 - 3;
  constexpr std::size_t kTimes = 4;  // utime stime cutime cstime
  const std::size_t name_end = proc_pid_stat.rfind(')');
  if (name_end == absl::string_view::npos) return 0;
  const std::vector<absl::string_view> fields =
      absl::StrSplit(proc_pid_stat.substr(name_end + 1), ' ', absl::SkipEmpty());
  std::int64_t ticks = 0;
  for (std::size_t i = kUserTime; i < kUserTime + kTimes && i < fields.size(); ++i) {
    std::int64_t time = 0;
    if (absl::SimpleAtoi(fields[i], &time)) ticks += time;
  }
  return ticks;
}

StartWatch::StartWatch(EventLoop* loop, int workers, Pids pids, Done done, Duration assumed)
    : loop_(loop),
      workers_(workers),
      pids_(std::move(pids)),
      done_(std::move(done)),
      assumed_(assumed) {}

void StartWatch::Begin(Generation generation, int master_port, bool alone) {
  End();
  generation_ = generation;
  master_port_ = master_port;
  assume_ = alone;
  began_ = EventLoop::Clock::now();
  interval_ = kFirstInterval;
  at_work_.clear();
  PollLater();
}

void StartWatch::OnAtWork(LocalRank local_rank) {
  if (!timer_) return;
  at_work_.insert(local_rank);
  if (static_cast<int>(at_work_.size()) == workers_) Complete();
}

void StartWatch::End() {
  if (timer_) loop_->CancelTimer(*timer_);
  timer_.reset();
}

void StartWatch::PollLater() {
  timer_ = loop_->AddTimer(EventLoop::Clock::now() + interval_, [this] { Poll(); });
}

void StartWatch::Poll() {
  timer_.reset();
  const Duration passed = EventLoop::Clock::now() - began_;
  const int connections = CountConnectionsTo(master_port_, ReadAll("/proc/net/tcp")) +
                          CountConnectionsTo(master_port_, ReadAll("/proc/net/tcp6"));
  if (connections >= workers_ || (cpu_of_last_ && CpuUsed() >= *cpu_of_last_)) return Complete();
  if (assume_ && passed >= assumed_) {
    assume_ = false;
    done_(generation_, assumed_);
  }
  interval_ = std::max<Duration>(kFirstInterval, passed / kIntervalsPerTime);
  if (passed < kWatchLimit) PollLater();
}

void StartWatch::Complete() {
  End();
  cpu_of_last_ = CpuUsed();
  done_(generation_, EventLoop::Clock::now() - began_);
}

std::int64_t StartWatch::CpuUsed() const {
  std::int64_t ticks = 0;
  for (const pid_t pid : pids_()) ticks += CpuTicks(ReadAll(absl::StrCat("/proc/", pid, "/stat")));
  return ticks;
}

}  // namespace ddprun

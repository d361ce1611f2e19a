// The life of a rendezvous over months, in a minute: one daemon serves thousands of short jobs, a
// few at a time. The daemon's memory and its descriptors must not grow.
//
//     build/bin/long_life [--jobs 10000] [--at-once 16] [--ddprun build/bin/ddprun]
//
// The daemon is real, with a journal and an event file; the agents are simulated. Each job has one
// agent with a connection of its own. The agent reports one worker, which ends with code 0. Prints
// a table, and exits with 1 if memory or descriptors have grown.
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "rendezvous/client/grpc_rendezvous_client.h"
#include "tests/support/program.h"
#include "tests/support/sanitizer.h"

namespace ddprun {
namespace {

struct Sample {
  int jobs = 0;
  double seconds = 0;
  long rss_kib = 0;
  int descriptors = 0;
};

long RssKib(pid_t pid) {
  std::ifstream status(absl::StrCat("/proc/", pid, "/status"));
  for (std::string word; status >> word;) {
    long kib = 0;
    if (word == "VmRSS:" && status >> kib) return kib;
  }
  return 0;
}

int OpenDescriptors(pid_t pid) {
  int count = 0;
  for ([[maybe_unused]] const auto& entry :
       std::filesystem::directory_iterator(absl::StrCat("/proc/", pid, "/fd"))) {
    ++count;
  }
  return count;
}

// The client's events, for the job's own thread.
class Inbox {
 public:
  void Put(RendezvousClient::Event event) {
    const std::lock_guard lock(mutex_);
    events_.push_back(std::move(event));
    arrived_.notify_one();
  }
  std::optional<RendezvousClient::Event> Next() {
    std::unique_lock lock(mutex_);
    const auto some = [this] { return !events_.empty(); };
    if (!arrived_.wait_for(lock, std::chrono::seconds(60), some)) return std::nullopt;
    RendezvousClient::Event event = std::move(events_.front());
    events_.pop_front();
    return event;
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<RendezvousClient::Event> events_;
};

// One job, from its agent's start to its end. False if it did not succeed.
bool RunOneJob(const std::string& endpoint, int number) {
  Inbox inbox;
  GrpcRendezvousClient client({.endpoint = endpoint});
  client.Open([&inbox](RendezvousClient::Event event) { inbox.Put(std::move(event)); });
  Join join;
  join.job.join_timeout = std::chrono::seconds(60);
  join.node = {"n1", "127.0.0.1", 1};
  join.offered_port = 29500;
  client.Send({absl::StrCat("job-", number), 0, Generation{-1},
               AgentId{static_cast<std::uint64_t>(number) + 1}},
              join);
  while (const auto event = inbox.Next()) {
    if (const auto* const lost = std::get_if<RendezvousClient::Lost>(&*event)) {
      std::fprintf(stderr, "long_life: job-%d: %s\n", number, lost->reason.c_str());
      return false;
    }
    const auto* const received = std::get_if<RendezvousClient::Received>(&*event);
    if (received == nullptr) continue;
    if (std::holds_alternative<Assignment>(received->message)) {
      client.Send(received->header, AssignmentAck{});
    } else if (std::holds_alternative<Start>(received->message)) {
      WorkerExited exited;
      exited.pid = 1;
      exited.step = 10;
      client.Send(received->header, exited);
    } else if (const auto* finished = std::get_if<Finished>(&received->message)) {
      client.Close();
      return finished->outcome == Outcome::kSucceeded;
    }
  }
  return false;
}

int Run(int jobs, int at_once, const std::string& ddprun) {
  const TempDir folder;
  // The simulated agents show no token.
  Program daemon({ddprun, "rendezvous", "--insecure", "--listen", "127.0.0.1:0", "--port-file",
                  folder / "port", "--state-dir", folder / "state", "--log-file", folder / "log"});
  WaitForChange(folder.path(), [&] { return !ReadFile(folder / "port").empty(); });
  const std::string port = ReadFile(folder / "port");
  if (port.empty()) {
    std::fprintf(stderr, "long_life: the daemon did not start: %s\n", daemon.err().c_str());
    return 1;
  }
  const std::string endpoint = absl::StrCat("127.0.0.1:", port.substr(0, port.find('\n')));
  const auto start = std::chrono::steady_clock::now();
  std::vector<Sample> samples;
  std::printf("%8s %8s %10s %12s\n", "jobs", "s", "RSS KiB", "descriptors");
  for (int part = 1; part <= 5; ++part) {
    std::atomic<int> next{jobs * (part - 1) / 5};
    std::atomic<int> failed{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < at_once; ++i) {
      threads.emplace_back([&] {
        for (int number = next++; number < jobs * part / 5; number = next++) {
          if (!RunOneJob(endpoint, number)) ++failed;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    if (failed > 0) {
      std::fprintf(stderr, "long_life: %d jobs did not succeed\n", failed.load());
      return 1;
    }
    Sample sample;
    sample.jobs = jobs * part / 5;
    sample.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    sample.rss_kib = RssKib(daemon.pid());
    // The last connections close a moment after their clients, so a few may be open here: at most
    // `at_once`.
    sample.descriptors = OpenDescriptors(daemon.pid());
    std::printf("%8d %8.1f %10ld %12d\n", sample.jobs, sample.seconds, sample.rss_kib,
                sample.descriptors);
    std::fflush(stdout);
    samples.push_back(sample);
  }
  daemon.Signal(SIGTERM);
  const int code = daemon.ExitCode();
  // The history in memory fills until it has 10,000 lines, which 2,000 jobs write.
  const long allowed_kib = 4096 + (jobs < 10'000 ? 8192 : 0) + kSanitizerKib;
  const long grown = samples.back().rss_kib - samples.front().rss_kib;
  if (code != 0 || grown > allowed_kib ||
      samples.back().descriptors > samples.front().descriptors + at_once) {
    std::fprintf(stderr,
                 "long_life: the daemon grew by %ld KiB (allowed: %ld), from %d to %d "
                 "descriptors, and ended with %d\n",
                 grown, allowed_kib, samples.front().descriptors, samples.back().descriptors, code);
    return 1;
  }
  std::printf("flat: %+ld KiB from %d to %d jobs\n", grown, samples.front().jobs,
              samples.back().jobs);
  return 0;
}

}  // namespace
}  // namespace ddprun

int main(int argc, char** argv) {
  int jobs = 10'000;
  int at_once = 16;
  std::string binary = DDPRUN_BIN_DIR "/ddprun";
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    if (flag == "--jobs" && absl::SimpleAtoi(argv[i + 1], &jobs) && jobs >= 5) continue;
    if (flag == "--at-once" && absl::SimpleAtoi(argv[i + 1], &at_once) && at_once >= 1) continue;
    if (flag == "--ddprun") {
      binary = argv[i + 1];
      continue;
    }
    std::fprintf(stderr, "usage: long_life [--jobs N] [--at-once N] [--ddprun FILE]\n");
    return 64;
  }
  return ddprun::Run(jobs, at_once, binary);
}

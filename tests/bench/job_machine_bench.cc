// The longest steps of a JobMachine in a very large job, by the kind of event.
//
// The rendezvous steps the machines of all its jobs on one thread at a time. While one step takes
// long, the agents of the other jobs wait for their answers. The job of this benchmark starts,
// makes training steps, hangs, is asked for its stacks, restarts because of the verdict, and ends.
// The times are of the thread's CPU clock, so other programs on the machine hardly change them.
//
//     build/bin/job_machine_bench                 16,384 nodes
//     build/bin/job_machine_bench 1024
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rendezvous/machine/job_machine.h"
#include "rendezvous/stacks/stack_tree.h"
#include "worker/contract/overloaded.h"

namespace ddprun {
namespace {

using std::chrono::seconds;

constexpr int kWorkers = 8;

double ThreadMs() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return 1e3 * static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_nsec);
}

class Bench {
 public:
  explicit Bench(int nodes) : nodes_(nodes) {
    spec_.min_nodes = spec_.max_nodes = nodes;
    spec_.max_restarts = 3;
    spec_.join_timeout = seconds(600);
    spec_.heartbeat = seconds(5);
    spec_.lease = seconds(120);
    spec_.hang_timeout = seconds(20);
    spec_.hang_startup_timeout = seconds(600);
    spec_.on_hang = JobSpec::kRestartHang;
  }

  // Returns false if the job did not get as far as the benchmark expects.
  bool Run() {
    ForAll("Join", [&](int node) {
      Join join;
      join.job = spec_;
      join.node = {absl::StrCat("cluster-node-", node), "10.0.0.1", kWorkers};
      join.offered_port = 1000;
      join.program = {"trainer", "train.py", {}};
      return join;
    });
    ForAll("AssignmentAck", [](int) { return AssignmentAck{}; });
    for (int step = 1; step <= 3; ++step) Beat(step, /*moves=*/true);
    while (asked_ == 0) Beat(3, /*moves=*/false);
    while (asked_ < nodes_ && question_ == nullptr) {
      now_ += StackPace().pause;
      Step("Tick", JobMachine::Tick{});
      AnswerStacks();
    }
    if (asked_ < nodes_) {
      std::printf("only %d nodes are asked for stacks\n", asked_);
      return false;
    }
    Judge();
    ForAll("Stopped", [](int) { return Stopped(); });
    ForAll("AssignmentAck", [](int) { return AssignmentAck{}; });
    Step("StopAsked", JobMachine::StopAsked{});
    ForAll("Stopped", [](int) { return Stopped(); });
    std::printf("%d nodes of %d workers; the longest step, ms of CPU\n", nodes_, kWorkers);
    for (const auto& [about, longest] : longest_) {
      std::printf("    %-20s %8.2f\n", about.c_str(), longest);
    }
    return true;
  }

 private:
  void Step(const std::string& about, const JobMachine::Event& event) {
    const double before = ThreadMs();
    std::vector<JobMachine::Action> actions = machine_.Step(event, now_);
    machine_.NextDeadline();
    double& longest = longest_[about];
    longest = std::max(longest, ThreadMs() - before);
    for (const JobMachine::Action& action : actions) Note(action);
  }

  void Note(const JobMachine::Action& action) {
    if (const auto* const judge = std::get_if<JobMachine::JudgeStacks>(&action)) {
      question_ = judge->question;
    }
    const auto* const send = std::get_if<JobMachine::Send>(&action);
    if (send == nullptr) return;
    if (const auto* const take = std::get_if<TakeStacks>(&send->message)) {
      request_ = take->request;
      to_answer_.push_back(static_cast<int>(send->header.agent_id.value) - 1);
      ++asked_;
    }
  }

  template <class Make>
  void ForAll(const std::string& about, Make make) {
    const Generation generation = machine_.generation();
    for (int node = 0; node < nodes_; ++node) Receive(about, node, generation, make(node));
  }
  void Receive(const std::string& about, int node, Generation generation, AgentMessage message) {
    const AgentId agent{static_cast<std::uint64_t>(node) + 1};
    Step(about, JobMachine::Received{{"job", 0, generation, agent}, std::move(message)});
  }

  void Beat(int step, bool moves) {
    now_ += spec_.heartbeat;
    still_ = moves ? Duration{} : still_ + spec_.heartbeat;
    ForAll("Heartbeat", [&](int) {
      Heartbeat heartbeat;
      heartbeat.step = step;
      heartbeat.progress = NodeProgress{kWorkers, still_, {""}};
      heartbeat.progress->moves = static_cast<std::uint64_t>(step);
      heartbeat.progress->stepped = true;
      if (moves) return heartbeat;
      for (int i = 0; i < kWorkers; ++i) {
        StillWorker worker{LocalRank{i}, 100 + i, still_, step, ""};
        worker.inside = CollectiveCall{"default", 9, "all_reduce", 4};
        heartbeat.progress->still_workers.push_back(worker);
      }
      return heartbeat;
    });
    Step("Tick", JobMachine::Tick{});
  }

  void AnswerStacks() {
    const auto tree = std::make_shared<const EncodedStackTree>();
    const std::size_t answers = to_answer_.size();
    for (const int node : std::exchange(to_answer_, {})) {
      Receive("StacksTaken", node, machine_.generation(), StacksTaken{request_, tree});
    }
    Step("StacksMerged", JobMachine::StacksMerged{request_, answers});
  }

  void Judge() {
    StackMerge merge;
    const auto findings = std::make_shared<StackFindings>(merge.Conclude(*question_));
    question_.reset();
    Step("StacksJudged", JobMachine::StacksJudged{request_, findings});
  }

  const int nodes_;
  JobSpec spec_;
  JobMachine machine_{"job", 0};
  TimePoint now_ = TimePoint(seconds(1000));
  Duration still_{};
  int asked_ = 0;
  StackRequestId request_;
  std::vector<int> to_answer_;
  std::shared_ptr<const StackQuestion> question_;
  std::map<std::string, double> longest_;
};

}  // namespace
}  // namespace ddprun

int main(int argc, char** argv) {
  return ddprun::Bench(argc > 1 ? std::atoi(argv[1]) : 16384).Run() ? 0 : 1;
}

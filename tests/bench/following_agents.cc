#include "tests/bench/following_agents.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rendezvous/client/channel.h"
#include "tests/bench/following_agent.h"

namespace ddprun {
namespace {

constexpr int kAgentsPerQueue = 1024;
constexpr int kMostQueues = 4;
constexpr std::chrono::milliseconds kTick(5);

}  // namespace

FollowingAgents::FollowingAgents(Options options, Tell tell)
    : options_(std::move(options)), tell_(std::move(tell)) {
  const int channels = options_.channels > 0 ? options_.channels : options_.agents;
  for (const std::string& endpoint : options_.endpoints) {
    auto& stubs = stubs_.emplace_back();
    for (int i = 0; i < channels; ++i) {
      stubs.push_back(v1::Rendezvous::NewStub(MakeChannel(endpoint, options_.credentials.get())));
    }
  }
  const int queues = std::clamp(options_.agents / kAgentsPerQueue, 1, kMostQueues);
  for (int i = 0; i < queues; ++i) queues_.push_back(std::make_unique<Queue>());
  for (int i = 0; i < options_.agents; ++i) {
    std::vector<v1::Rendezvous::Stub*> own;
    for (const auto& stubs : stubs_) own.push_back(stubs[i % channels].get());
    Queue* const queue = queues_[i % queues].get();
    agents_.push_back(std::make_unique<FollowingAgent>(this, i, std::move(own), queue));
  }
  // Before any thread runs: an agent is touched by its queue's thread alone.
  for (const auto& agent : agents_) agent->Begin();
  for (const auto& queue : queues_) {
    queue->thread = std::thread([queue = queue.get()] { queue->Run(); });
  }
}

void FollowingAgents::Timers::Run() {
  const auto now = Clock::now();
  while (!due_.empty() && due_.begin()->first <= now) {
    const auto first = due_.extract(due_.begin());
    first.mapped()();
  }
}

void FollowingAgents::Queue::Run() {
  Tick();
  void* tag = nullptr;
  bool ok = false;
  while (completions.Next(&tag, &ok)) {
    const std::unique_ptr<OnDone> done(static_cast<OnDone*>(tag));
    (*done)(ok);
  }
}

void FollowingAgents::Queue::Tick() {
  timers.Run();
  alarm.Set(&completions, std::chrono::system_clock::now() + kTick,
            new OnDone([this](bool) { Tick(); }));
}

FollowingAgents::~FollowingAgents() = default;

void FollowingAgents::OnFollowing(int change) {
  const std::lock_guard lock(mutex_);
  following_ += change;
  if (change > 0) TellIfSteady();
}

void FollowingAgents::OnWaiting(int change) {
  const std::lock_guard lock(mutex_);
  waiting_ += change;
  if (change > 0) TellIfSteady();
}

void FollowingAgents::TellIfSteady() {
  const int places = static_cast<int>(options_.endpoints.size());
  const bool steady =
      following_ == options_.agents * places && waiting_ == options_.agents * (places - 1);
  if (steady) tell_("{\"event\": \"following\"}");
}

void FollowingAgents::OnStarted() {
  const std::lock_guard lock(mutex_);
  if (++started_ == options_.agents) tell_("{\"event\": \"running\"}");
}

void FollowingAgents::OnAcknowledged(std::uint64_t term) {
  const std::int64_t now = std::chrono::steady_clock::now().time_since_epoch().count();
  const std::lock_guard lock(mutex_);
  std::vector<std::int64_t>& times = acknowledged_[term];
  times.push_back(now);
  if (static_cast<int>(times.size()) < options_.agents) return;
  tell_(absl::StrCat("{\"event\": \"acknowledged\", \"term\": ", term,
                     ", \"first_ns\": ", times.front(),
                     ", \"median_ns\": ", times[times.size() / 2], ", \"last_ns\": ", now, "}"));
  acknowledged_.clear();
}

void FollowingAgents::OnDisturbed(const std::string& what) {
  const std::lock_guard lock(mutex_);
  started_ = std::max(0, started_ - 1);
  tell_(absl::StrCat("{\"event\": \"disturbed\", \"count\": ", ++disturbed_, ", \"what\": \"", what,
                     "\"}"));
}

}  // namespace ddprun

#include "rendezvous/etcd/etcd_store.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <future>
#include <iterator>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "rendezvous/core/check.h"
#include "rendezvous/etcd/state_map.h"
#include "rendezvous/store/batches.h"

namespace ddprun::etcd {
namespace {

using Clock = std::chrono::steady_clock;
using Dones = std::vector<Store::Done>;

absl::Status NotOurTerm() {
  return absl::FailedPreconditionError(
      "another rendezvous has taken over: the leader key in etcd is no longer ours");
}

}  // namespace

struct EtcdStore::State : std::enable_shared_from_this<EtcdStore::State> {
  // Waiting batches; `dones` has the callbacks of each batch.
  struct Group {
    std::deque<Batch> batches;
    std::deque<Dones> dones;
    std::size_t bytes = 0;
  };

  State(Options options, Log log, TaskQueue* tasks)
      : options(std::move(options)), tasks(tasks), map(this->options.prefix), log(std::move(log)) {}

  absl::StatusOr<std::map<std::string, std::string>> TryLoad();
  // Writes until nothing is queued, or another task waits.
  void WriteQueued();
  // True: there is something to send, and `changes` is not empty.
  bool PlanNext();
  // Sends the first of `changes`. kFailed: it may be tried again.
  Outcome Send();
  absl::StatusOr<Answer> ReadBack();
  // Takes the leader key's value out of an answer, if it is that of our term. False: it is not.
  bool TakeLeaderValue(const Answer& answer, const Term& ours);
  std::vector<Guard> GuardsOf(const StateMap::Change& change, const Term& ours) const;
  void OnKept();
  void OnLostRight();
  // Waits before the next try. False: this task must not continue.
  bool Pause();
  // True: this task must let another one run first. With the mutex held.
  bool GivesWay();
  void Schedule();  // with the mutex held
  Term CurrentTerm() const;
  void LogLine(std::string_view text);
  void TellTrouble(const std::string& why);
  void CallAll(const Dones& dones, Outcome outcome);

  const Options options;
  // Not owned. Used only with the mutex held and while `stop` is false: until then the EtcdStore,
  // its owner, exists.
  TaskQueue* const tasks;

  // Used by the caller of Load until Load returns, then by the thread.
  StateMap map;
  // The leader key's value and mod_revision; 0: not known yet. The value names its writer. So a
  // guard with this value fails in an etcd that was emptied or restored meanwhile.
  KeyValue leader;
  Group group;                           // taken from the queue
  std::deque<StateMap::Change> changes;  // planned from `group`
  Dones dones;  // of the batches that are durable once the last change is kept
  struct Try {
    bool uncertain = false;  // the first of `changes` was sent, and may have been kept
    absl::Status error;      // of the last try
    int failed = 0;
    Clock::time_point since{};  // the first failed try
    std::chrono::milliseconds pause{};
    bool told = false;
  } tries;

  // Held during callbacks to the owner, and to stop them. Lock order: before `mutex`.
  std::mutex callback_mutex;
  Log log;              // guarded by callback_mutex
  bool silent = false;  // guarded by callback_mutex

  mutable std::mutex mutex;
  std::condition_variable changed;
  // Guarded by mutex.
  Term term;
  Group queue;
  std::size_t merge_above = 0;
  bool scheduled = false;  // a task writes what is queued
  std::size_t posted = 0;  // other tasks that have not begun
  bool lost_right = false;
  bool stop = false;
};

EtcdStore::EtcdStore(Options options, Log log)
    : state_(std::make_shared<State>(std::move(options), std::move(log), &tasks_)) {
  state_->merge_above = state_->options.merge_above_bytes;
}

EtcdStore::~EtcdStore() {
  {
    const std::lock_guard lock(state_->callback_mutex);
    state_->silent = true;
  }
  {
    const std::lock_guard lock(state_->mutex);
    state_->stop = true;
    state_->changed.notify_all();
  }
  tasks_.CloseWithin(state_->options.close_grace);
}

void EtcdStore::Post(std::function<void()> task) {
  const std::lock_guard lock(state_->mutex);
  ++state_->posted;
  state_->changed.notify_all();
  tasks_.Post([state = state_, task = std::move(task)] {
    {
      const std::lock_guard lock(state->mutex);
      --state->posted;
    }
    task();
  });
}

void EtcdStore::SetTerm(const Term& term) {
  const std::lock_guard lock(state_->mutex);
  state_->term = term;
}

absl::StatusOr<std::map<std::string, std::string>> EtcdStore::Load() {
  DDPRUN_CHECK(!state_->CurrentTerm().none(), "EtcdStore::Load comes after SetTerm");
  const auto end = Clock::now() + state_->options.load_limit;
  for (;;) {
    auto loaded = state_->TryLoad();
    if (loaded.ok()) {
      const std::lock_guard lock(state_->mutex);
      state_->Schedule();  // removes the parts that an earlier leader left
      return loaded;
    }
    const absl::Status& error = loaded.status();
    if (!absl::IsAborted(error) && !absl::IsUnknown(error)) return error;
    if (Clock::now() >= end) {
      return absl::UnavailableError(absl::StrCat("cannot read the job records: ", error.message()));
    }
    std::this_thread::sleep_for(state_->options.first_retry);
  }
}

void EtcdStore::Commit(Batch batch, Done done) {
  std::unique_lock lock(state_->mutex);
  if (state_->lost_right) {
    lock.unlock();
    done(Outcome::kLostRight);
    return;
  }
  State::Group& queue = state_->queue;
  queue.bytes += BytesOf(batch);
  queue.batches.push_back(std::move(batch));
  queue.dones.push_back({std::move(done)});
  if (queue.bytes > state_->merge_above) {
    std::vector<Batch> batches(std::make_move_iterator(queue.batches.begin()),
                               std::make_move_iterator(queue.batches.end()));
    Batch merged = Merge(batches);
    Dones dones;
    for (Dones& some : queue.dones) std::move(some.begin(), some.end(), std::back_inserter(dones));
    queue.bytes = BytesOf(merged);
    queue.batches.clear();
    queue.batches.push_back(std::move(merged));
    queue.dones.clear();
    queue.dones.push_back(std::move(dones));
    // Doubles the limit until the next merge, so merging stays cheap for callers of Commit.
    state_->merge_above = std::max(state_->options.merge_above_bytes, 2 * queue.bytes);
  }
  state_->Schedule();
}

std::size_t EtcdStore::QueuedBytes() const {
  const std::lock_guard lock(state_->mutex);
  return state_->queue.bytes;
}

// We do not write yet, and nobody else writes while the leader key is ours. The leader key is read
// last, so all three reads are from our term and agree. Agents wait meanwhile, so two reads run at
// once.
absl::StatusOr<std::map<std::string, std::string>> EtcdStore::State::TryLoad() {
  auto parts_read = std::async(std::launch::async, [this] {
    return options.client->List(map.parts_prefix(), false, options.load_limit);
  });
  auto state = options.client->List(map.state_prefix(), false, options.load_limit);
  auto parts = parts_read.get();
  if (!state.ok()) return state.status();
  if (!parts.ok()) return parts.status();
  const auto keys = ReadBack();
  if (!keys.ok()) return keys.status();
  const Term ours = CurrentTerm();
  if (!TakeLeaderValue(*keys, ours) || state->cluster != ours.cluster ||
      parts->cluster != ours.cluster) {
    return NotOurTerm();
  }
  std::optional<KeyValue> last_write;
  for (const KeyValue& found : keys->found) {
    if (found.key == map.last_write_key()) last_write = found;
  }
  return map.Load(last_write, std::move(state->found), std::move(parts->found));
}

void EtcdStore::State::Schedule() {
  if (std::exchange(scheduled, true)) return;
  tasks->Post([state = shared_from_this()] { state->WriteQueued(); });
}

bool EtcdStore::State::GivesWay() {
  if (posted == 0 || stop) return false;
  tasks->Post([state = shared_from_this()] { state->WriteQueued(); });
  return true;
}

Term EtcdStore::State::CurrentTerm() const {
  const std::lock_guard lock(mutex);
  return term;
}

void EtcdStore::State::LogLine(std::string_view text) {
  const std::lock_guard lock(callback_mutex);
  if (!silent && log) log(text);
}

void EtcdStore::State::TellTrouble(const std::string& why) {
  const std::lock_guard lock(callback_mutex);
  if (!silent && options.on_trouble) options.on_trouble(why);
}

void EtcdStore::State::CallAll(const Dones& dones, Outcome outcome) {
  const std::lock_guard lock(callback_mutex);
  for (const Done& done : dones) {
    if (!silent && done) done(outcome);
  }
}

void EtcdStore::State::WriteQueued() {
  for (;;) {
    if (changes.empty() && !PlanNext()) return;
    switch (Send()) {
      case Outcome::kKept:
        OnKept();
        break;
      case Outcome::kLostRight:
        OnLostRight();
        return;
      case Outcome::kFailed:
        if (!Pause()) return;
        break;
    }
    const std::lock_guard lock(mutex);
    if (GivesWay()) return;
  }
}

bool EtcdStore::State::PlanNext() {
  const std::lock_guard lock(mutex);
  if (lost_right) return false;
  if (group.batches.empty()) {
    group = std::exchange(queue, {});
    merge_above = options.merge_above_bytes;
  }
  if (!group.batches.empty()) {
    std::size_t batches_done = 0;
    for (StateMap::Change& change : map.Plan(group.batches, term, &batches_done)) {
      changes.push_back(std::move(change));
    }
    for (; batches_done > 0; --batches_done) {
      std::move(group.dones.front().begin(), group.dones.front().end(), std::back_inserter(dones));
      group.dones.pop_front();
    }
  } else if (auto removal = map.PlanRemoval(term)) {
    changes.push_back(*std::move(removal));
  }
  scheduled = !changes.empty();
  return scheduled;
}

absl::StatusOr<Answer> EtcdStore::State::ReadBack() {
  return options.client->Transact({}, {}, {map.leader_key(), map.last_write_key()},
                                  options.call_limit);
}

bool EtcdStore::State::TakeLeaderValue(const Answer& answer, const Term& ours) {
  if (answer.cluster != ours.cluster) return false;
  for (const KeyValue& found : answer.found) {
    if (found.key != map.leader_key() || found.mod_revision != ours.revision) continue;
    leader = found;
    return true;
  }
  return false;
}

std::vector<Guard> EtcdStore::State::GuardsOf(const StateMap::Change& change,
                                              const Term& ours) const {
  std::vector<Guard> guards = map.GuardsOf(change, ours);
  for (Guard& guard : guards) {
    if (guard.key == map.leader_key()) guard.value = leader.value;
  }
  return guards;
}

Store::Outcome EtcdStore::State::Send() {
  const StateMap::Change& change = changes.front();
  const Term ours = CurrentTerm();
  std::uint64_t revision = 0;
  const auto kept = [&] {
    map.Apply(change, revision);
    return Outcome::kKept;
  };
  if (leader.mod_revision != ours.revision) {  // the term has changed, or nothing was loaded
    const auto found = ReadBack();
    if (!found.ok()) {
      tries.error = found.status();
      return Outcome::kFailed;
    }
    if (!TakeLeaderValue(*found, ours)) return Outcome::kLostRight;
  }
  if (tries.uncertain) {
    const auto found = ReadBack();
    if (!found.ok()) {
      tries.error = found.status();
      return Outcome::kFailed;
    }
    switch (map.Judge(change, ours, *found, &revision)) {
      case StateMap::Verdict::kKept:
        return kept();
      case StateMap::Verdict::kLostRight:
        return Outcome::kLostRight;
      case StateMap::Verdict::kNotYet:
        tries.uncertain = false;
    }
  }
  const auto answer =
      options.client->Transact(GuardsOf(change, ours), map.WritesOf(change),
                               {map.leader_key(), map.last_write_key()}, options.call_limit);
  if (!answer.ok()) {
    tries.uncertain = absl::IsUnknown(answer.status());
    tries.error = answer.status();
    return Outcome::kFailed;
  }
  // Another cluster, restored from a snapshot, may have the revisions that the guards ask for.
  if (answer->cluster != ours.cluster) return Outcome::kLostRight;
  if (answer->guarded) {
    revision = answer->revision;
    return kept();
  }
  // Either an earlier try of this change was kept, or another process has written. If only keys of
  // the state differ from the guards, another process has written them.
  return map.Judge(change, ours, *answer, &revision) == StateMap::Verdict::kKept
             ? kept()
             : Outcome::kLostRight;
}

void EtcdStore::State::OnKept() {
  changes.pop_front();
  if (tries.told) {
    LogLine(
        absl::StrCat("etcd: the job records can be written again, after ", tries.failed, " tries"));
    TellTrouble("");
  }
  tries = {};
  if (changes.empty()) CallAll(std::exchange(dones, {}), Outcome::kKept);
}

void EtcdStore::State::OnLostRight() {
  Dones lost = std::move(dones);
  const auto add = [&lost](std::deque<Dones>& more) {
    for (Dones& some : more) std::move(some.begin(), some.end(), std::back_inserter(lost));
  };
  {
    const std::lock_guard lock(mutex);
    lost_right = true;
    scheduled = false;
    add(group.dones);
    add(queue.dones);
    queue = {};
  }
  group = {};
  changes.clear();
  LogLine(absl::StrCat(NotOurTerm().message()));
  CallAll(lost, Outcome::kLostRight);
}

bool EtcdStore::State::Pause() {
  const auto now = Clock::now();
  if (++tries.failed == 1) {
    tries.since = now;
    tries.pause = options.first_retry;
  }
  if (!tries.told && now - tries.since >= options.patience) {
    tries.told = true;
    LogLine(absl::StrCat("etcd: the job records cannot be written: ", tries.error.message(),
                         ": the rendezvous decides nothing new until it can; it keeps trying"));
    TellTrouble(std::string(tries.error.message()));
    CallAll(dones, Outcome::kFailed);
  }
  std::unique_lock lock(mutex);
  changed.wait_for(lock, tries.pause, [this] { return stop || posted > 0; });
  tries.pause = std::min(2 * tries.pause, options.last_retry);
  return !stop;
}

}  // namespace ddprun::etcd

#include "worker/src/group/connect_with_deadline.h"

#include <ddp/errors.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <sstream>
#include <thread>
#include <utility>

#include "worker/src/agent/control_client.h"
#include "worker/src/group/failure.h"
#include "worker/src/peers/rank_failure_detector.h"

namespace ddp::internal {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kLookAround(20);  // between two checks for a failed rank
// After a rank has failed, `connect` still has this time. It may succeed, because the failed rank
// may have been connected before it left. If this process leaves, `connect` fails within this time.
constexpr milliseconds kGrace(500);

// The connecting thread and the waiting thread share it. The connecting thread may continue after
// the wait.
struct Attempt {
  std::function<c10::intrusive_ptr<c10d::ProcessGroup>()> connect;

  std::mutex mutex;
  std::condition_variable changed;
  // Guarded by mutex.
  bool done = false;
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  std::string error;  // why there is no group
};

void Connect(const std::shared_ptr<Attempt>& attempt) {
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  std::string error;
  try {
    group = attempt->connect();
  } catch (const std::exception& e) {
    error = TextOf(e);
  }
  const std::lock_guard<std::mutex> lock(attempt->mutex);
  attempt->group = std::move(group);
  attempt->error = error;
  attempt->done = true;
  attempt->changed.notify_all();
}

std::string ExactSeconds(milliseconds time) {
  std::ostringstream text;
  text << std::chrono::duration<double>(time).count() << " s";
  return text.str();
}

// Says why this rank gives up. Tells the other ranks, unless a rank has already reported a cause.
std::string Complaint(const std::string& error) {
  const std::shared_ptr<RankFailureDetector> detector = ProcessFailureDetector();
  if (detector == nullptr) return error + Cause();
  const std::string known = detector->KnownCause();
  if (!known.empty()) return error + ". " + known;
  detector->ReportError(error);
  detector->Ask();
  return error;
}

}  // namespace

c10::intrusive_ptr<c10d::ProcessGroup> ConnectWithDeadline(
    const LaunchEnvironment& env, milliseconds limit, const std::string& hint,
    std::function<c10::intrusive_ptr<c10d::ProcessGroup>()> connect) {
  const auto attempt = std::make_shared<Attempt>();
  attempt->connect = std::move(connect);
  std::thread thread(Connect, attempt);

  auto deadline = steady_clock::now() + limit;
  const std::shared_ptr<RankFailureDetector> detector = ProcessFailureDetector();
  std::unique_lock<std::mutex> lock(attempt->mutex);
  std::string cause;
  const ControlClient& agent = ControlClient::Process();
  while (!attempt->done && steady_clock::now() < deadline) {
    attempt->changed.wait_for(lock, kLookAround);
    if (attempt->done || !cause.empty()) continue;
    if (agent.leaves()) {
      cause = "The generation is over";
    } else if (detector != nullptr) {
      cause = detector->KnownCause();
    }
    if (!cause.empty()) deadline = std::min(deadline, steady_clock::now() + kGrace);
  }
  const bool done = attempt->done;
  const std::string error = attempt->error;
  c10::intrusive_ptr<c10d::ProcessGroup> group = std::move(attempt->group);
  lock.unlock();
  if (done) {
    thread.join();
  } else {
    thread.detach();
  }
  if (group.defined()) return group;
  const std::string what = "connecting the ranks failed on rank " + std::to_string(env.rank) +
                           " of " + std::to_string(env.world_size) + ": ";
  if (agent.leaves()) throw CollectiveError(what + "this rank leaves. " + error);
  if (done) throw CollectiveError(what + Complaint(error));
  if (!cause.empty()) throw CollectiveError(what + "another rank gave up. " + cause);
  throw CollectiveError(what +
                        Complaint("not connected to all within " + ExactSeconds(limit) + hint));
}

}  // namespace ddp::internal

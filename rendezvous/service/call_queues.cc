#include "rendezvous/service/call_queues.h"

#include <grpc/grpc.h>

#include <algorithm>
#include <utility>

namespace ddprun {
namespace {

// Only gRPC's C interface can make such a queue.
std::unique_ptr<grpc::CompletionQueue> MakeNonPollingQueue() {
  const grpc_completion_queue_attributes attributes{GRPC_CQ_CURRENT_VERSION, GRPC_CQ_NEXT,
                                                    GRPC_CQ_NON_POLLING, nullptr};
  const grpc_completion_queue_factory* const factory =
      grpc_completion_queue_factory_lookup(&attributes);
  return std::make_unique<grpc::CompletionQueue>(
      grpc_completion_queue_create(factory, &attributes, nullptr));
}

}  // namespace

CallQueues::Place::Place(Place&& other) noexcept
    : queues_(std::exchange(other.queues_, nullptr)), queue_(other.queue_) {}

CallQueues::Place::~Place() {
  if (queues_ != nullptr) queues_->Leave(queue_);
}

void CallQueues::AddTo(grpc::ServerBuilder& builder) {
  std::unique_ptr<grpc::ServerCompletionQueue> queue = builder.AddCompletionQueue();
  accepting_ = queue.get();
  const std::lock_guard lock(mutex_);
  queues_.insert(queues_.begin(), std::make_unique<Queue>(std::move(queue)));
}

void CallQueues::Start() {
  const std::lock_guard lock(mutex_);
  StartThread(*queues_.front());
}

void CallQueues::StartThread(Queue& queue) {
  queue.thread = std::thread([completions = queue.completions.get()] {
    void* tag = nullptr;
    bool ok = false;
    while (completions->Next(&tag, &ok)) {
      auto* const operation = static_cast<CallTag*>(tag);
      wire::TakeFromGrpc(operation);
      operation->OnOperationDone(ok);
    }
  });
}

CallQueues::Place CallQueues::Enter() {
  const std::lock_guard lock(mutex_);
  // The first queue that has room: so one thread serves the calls that come at the same time.
  auto best = std::find_if(queues_.begin(), queues_.end(),
                           [this](const auto& queue) { return queue->calls < calls_per_queue_; });
  if (best == queues_.end() && queues_.size() < kMostQueues) {
    best = queues_.insert(queues_.end(), std::make_unique<Queue>(MakeNonPollingQueue()));
    StartThread(**best);
  } else if (best == queues_.end()) {
    best = std::min_element(queues_.begin(), queues_.end(),
                            [](const auto& a, const auto& b) { return a->calls < b->calls; });
  }
  ++(*best)->calls;
  ++calls_;
  return {this, best->get()};
}

void CallQueues::Leave(Queue* queue) {
  const std::lock_guard lock(mutex_);
  --queue->calls;
  if (--calls_ == 0) left_.notify_all();
}

void CallQueues::Shutdown() {
  std::unique_lock lock(mutex_);
  left_.wait(lock, [this] { return calls_ == 0; });
  // No operation may begin on a queue that is shut down. Only calls begin operations, and no call
  // is left.
  const auto queues = std::exchange(queues_, {});
  lock.unlock();
  for (const auto& queue : queues) queue->completions->Shutdown();
  for (const auto& queue : queues) {
    if (queue->thread.joinable()) queue->thread.join();
    // gRPC requires that every queue is drained, even if its thread was never started.
    void* tag = nullptr;
    bool ok = false;
    while (queue->completions->Next(&tag, &ok)) continue;
  }
}

}  // namespace ddprun

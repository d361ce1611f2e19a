// CallQueues: spreads the asynchronous calls of a gRPC server over several completion queues, each
// with a thread.
//
// gRPC's callback API has one completion queue per process, and in Debian's gRPC finding a finished
// operation in a queue takes time linear in the pending ones. So the cost of a message would grow
// with the number of calls. Here a further queue is added when all queues are full, up to
// kMostQueues. So a server with few calls has few threads.
//
// One thread waits for the network and takes new calls. If several threads waited, each would have
// to wake another one for every packet that it reads. The same thread serves the calls of the first
// queue, so their messages need no thread switch (a quarter of the cost of an answered heartbeat).
// The threads of the other queues wait only for the operations that this thread hands to them.
//
// Thread-safe.
#ifndef DDPRUN_RENDEZVOUS_SERVICE_CALL_QUEUES_H_
#define DDPRUN_RENDEZVOUS_SERVICE_CALL_QUEUES_H_

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "rendezvous/wire/grpc_handoff.h"

namespace ddprun {

// The tag of one gRPC operation.
class CallTag {
 public:
  // The pointer to pass to gRPC when the operation starts.
  void* Tag() {
    wire::HandToGrpc(this);
    return this;
  }
  // The operation has ended. Called on the thread of its call's queue.
  virtual void OnOperationDone(bool ok) = 0;

 protected:
  ~CallTag() = default;
};

// Calls a member function of `owner` at the end of an operation. At most one operation may be
// pending for each Operation object.
template <class Owner>
struct Operation final : CallTag {
  using Handler = void (Owner::*)(bool ok);
  Operation(Owner* owner, Handler handler) : owner(owner), handler(handler) {}

  void OnOperationDone(bool ok) override { (owner->*handler)(ok); }

  Owner* const owner;
  const Handler handler;
};

class CallQueues {
 private:
  struct Queue {
    explicit Queue(std::unique_ptr<grpc::CompletionQueue> queue) : completions(std::move(queue)) {}

    const std::unique_ptr<grpc::CompletionQueue> completions;
    std::size_t calls = 0;  // guarded by mutex_
    std::thread thread;
  };

 public:
  static constexpr std::size_t kMostQueues = 16;

  // A call's place in a queue. Keep it until the call is destroyed and has no pending operation.
  class Place {
   public:
    Place(Place&& other) noexcept;
    Place& operator=(Place&&) = delete;
    ~Place();

    grpc::CompletionQueue* queue() const { return queue_->completions.get(); }

   private:
    friend class CallQueues;
    Place(CallQueues* queues, Queue* queue) : queues_(queues), queue_(queue) {}

    CallQueues* queues_;  // nullptr: moved from
    Queue* const queue_;
  };

  // A further queue is added when each queue has `calls_per_queue` calls, up to kMostQueues.
  explicit CallQueues(std::size_t calls_per_queue) : calls_per_queue_(calls_per_queue) {}
  ~CallQueues() { Shutdown(); }
  CallQueues(const CallQueues&) = delete;
  CallQueues& operator=(const CallQueues&) = delete;

  // Adds the first queue, which also reports new calls. Call it before the server is built.
  void AddTo(grpc::ServerBuilder& builder);
  grpc::ServerCompletionQueue* accepting() const { return accepting_; }

  // Call it once the server is built.
  void Start();

  // Returns a place for one more call. Call it after AddTo.
  Place Enter();

  // Call it after the server's own shutdown, not from one of these threads. Waits until the calls
  // have given back their places, and ends the threads. Idempotent.
  void Shutdown();

 private:
  void StartThread(Queue& queue);
  void Leave(Queue* queue);

  const std::size_t calls_per_queue_;
  grpc::ServerCompletionQueue* accepting_ = nullptr;  // the first queue's, after AddTo

  std::mutex mutex_;
  std::condition_variable left_;                // calls_ became 0
  std::vector<std::unique_ptr<Queue>> queues_;  // guarded by mutex_
  std::size_t calls_ = 0;                       // guarded by mutex_
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_CALL_QUEUES_H_

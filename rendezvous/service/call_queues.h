// CallQueues: where the asynchronous calls of a gRPC server wait for the ends of their operations,
// spread over several completion queues, each with a thread.
//
// gRPC's callback interface has one completion queue in the whole process, and gRPC as Debian
// builds it looks for each operation that ends in a list of all that its queue waits for: the cost
// of a message grows with the number of calls. Here it does not, and a server of few calls has few
// threads: there is another queue when the others have their share of calls.
//
// One thread waits for the network, and takes new calls. With more of them, each would have to wake
// another for every packet that it reads. It also serves the first calls itself, so that a message
// of theirs costs no switch of threads (a quarter of what an answered heartbeat costs), until their
// number makes gRPC's list long. The threads of the other queues only wait for what it hands to
// them.
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

// What an operation of gRPC is started with.
class CallTag {
 public:
  // What gRPC is given to start it.
  void* Tag() {
    wire::HandToGrpc(this);
    return this;
  }
  // Its end; on a thread of its call's queue.
  virtual void OnOperationDone(bool ok) = 0;

 protected:
  ~CallTag() = default;
};

// Calls a member function of `owner` at the end of an operation. Of one kind of operation that is
// started once at a time.
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

  // A call's place in a queue. Held until the call is destroyed, and no operation of it is left.
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

  // A queue gets so many calls before there is another, until there are kMostQueues.
  explicit CallQueues(std::size_t calls_per_queue) : calls_per_queue_(calls_per_queue) {}
  ~CallQueues() { Shutdown(); }
  CallQueues(const CallQueues&) = delete;
  CallQueues& operator=(const CallQueues&) = delete;

  // Adds the first queue, which also tells of calls that begin, before the server is built.
  void AddTo(grpc::ServerBuilder& builder);
  grpc::ServerCompletionQueue* accepting() const { return accepting_; }

  // Once the server is built.
  void Start();

  // A place in the queue that is best for one more call. After AddTo.
  Place Enter();

  // After the server's own shutdown: waits for the calls to give back their places, and ends the
  // threads. Not from one of these. Idempotent.
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

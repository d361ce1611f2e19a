// A process group that records its collectives in the progress page, when they begin and when they
// complete. These are the collectives of this library, of the Reducer, and of the program itself.
#ifndef DDPRUN_WORKER_SRC_GROUP_RECORDED_GROUP_H_
#define DDPRUN_WORKER_SRC_GROUP_RECORDED_GROUP_H_

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <utility>
#include <vector>

#include "worker/src/agent/progress.h"

namespace ddp::internal {

// What one process group tells. Any thread, but for the destructor.
class CollectiveRecord {
 public:
  using WorkPtr = decltype(std::declval<c10d::ProcessGroup>().barrier());
  using Tensors = std::vector<at::Tensor>;

  // `look_every`: how often works that do not tell when they complete are looked at while nothing
  // moves.
  explicit CollectiveRecord(bool is_nccl,
                            std::chrono::milliseconds look_every = std::chrono::milliseconds(500))
      : is_nccl_(is_nccl), look_every_(look_every) {}

  // Begins a collective by `begin`. `input` is what this rank gives. Throws CollectiveError where
  // the agent has said LEAVE: the others are leaving too.
  template <typename Begin>
  WorkPtr Record(ProgressOperation operation, const Tensors& input, Begin begin) {
    ThrowIfLeaving();
    if (!Progress::Process().enabled()) return begin();
    Begun begun = Enter(operation, input);
    try {
      begun.work = begin();
    } catch (...) {
      Complete(begun);  // it was refused: nobody waits in it
      throw;
    }
    WorkPtr work = begun.work;
    CompleteLater(std::move(begun));
    return work;
  }

 private:
  static void ThrowIfLeaving();

  struct Begun {
    WorkPtr work;
    std::size_t group;
    std::uint64_t number;
    ProgressOperation operation;
    std::uint64_t bytes;
    bool on_cpu;
  };

  Begun Enter(ProgressOperation operation, const Tensors& input);
  static void Complete(const Begun& begun);
  void CompleteLater(Begun begun);
  // Takes the works from pending_ that have completed.
  void TakeCompleted();
  // looker_: until the end.
  void LookWhileNothingMoves(const std::stop_token& stop);

  const bool is_nccl_;
  const std::chrono::milliseconds look_every_;
  std::mutex mutex_;
  std::condition_variable_any ends_;
  // Guarded by mutex_.
  std::optional<std::size_t> group_;  // Progress's number of it, since the first collective
  std::deque<Begun> pending_;         // works whose future does not tell when they complete

  std::jthread looker_;  // since there was such a work; the last member: ends before all others
};

// `Base` is the class whose collectives these are. 1.13: Gloo's or NCCL's, which are process groups
// (and c10d::Logger takes them for what their name says). 2.x: c10d::ProcessGroup, which has those
// as backends.
//
// Collectives are numbered as they begin, which is the same on all ranks. Of messages between two
// ranks it is only told that something went on.
//
// That a collective of Gloo has completed is known by a callback of its future: it runs on Gloo's
// own thread as soon as the data is there, before wait() returns, and also where nobody waits yet.
// NCCL's futures are complete as soon as the GPU has been told what to do. So its collectives are
// looked at when the next one begins. A rank that begins none, as in a loop, would look as if it
// waited in the last one. Therefore a thread looks, too, but only while nothing in this process
// moves, so never beside a training that goes on. ProcessGroupNCCL's watchdog asks the same works
// from a thread of its own. Other ways: the agent cannot look itself, and no thread of this process
// listens to it; a callback in the GPU's stream would hold up that stream.
template <typename Base>
class RecordedGroup final : public Base {
 public:
  using WorkPtr = CollectiveRecord::WorkPtr;
  using Tensors = CollectiveRecord::Tensors;
  using Operation = ProgressOperation;

  template <typename... Arguments>
  explicit RecordedGroup(bool is_nccl, Arguments&&... arguments)
      : Base(std::forward<Arguments>(arguments)...), record_(is_nccl) {}

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    return record_.Record(Operation::kBroadcast, tensors,
                          [&] { return Base::broadcast(tensors, options); });
  }
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    return record_.Record(Operation::kAllReduce, tensors,
                          [&] { return Base::allreduce(tensors, options); });
  }
  WorkPtr allreduce_coalesced(Tensors& tensors,
                              const c10d::AllreduceCoalescedOptions& options) override {
    return record_.Record(Operation::kAllReduce, tensors,
                          [&] { return Base::allreduce_coalesced(tensors, options); });
  }
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override {
    return record_.Record(Operation::kReduce, tensors,
                          [&] { return Base::reduce(tensors, options); });
  }
  WorkPtr allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                    const c10d::AllgatherOptions& options) override {
    return record_.Record(Operation::kAllGather, inputs,
                          [&] { return Base::allgather(outputs, inputs, options); });
  }
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input,
                          const c10d::AllgatherOptions& options) override {
    return record_.Record(Operation::kAllGather, {input},
                          [&] { return Base::_allgather_base(output, input, options); });
  }
  WorkPtr allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                              const c10d::AllgatherOptions& options) override {
    return record_.Record(Operation::kAllGather, inputs,
                          [&] { return Base::allgather_coalesced(outputs, inputs, options); });
  }
  WorkPtr gather(std::vector<Tensors>& outputs, Tensors& inputs,
                 const c10d::GatherOptions& options) override {
    return record_.Record(Operation::kGather, inputs,
                          [&] { return Base::gather(outputs, inputs, options); });
  }
  WorkPtr scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                  const c10d::ScatterOptions& options) override {
    return record_.Record(Operation::kScatter, FirstOf(inputs),
                          [&] { return Base::scatter(outputs, inputs, options); });
  }
  WorkPtr reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                         const c10d::ReduceScatterOptions& options) override {
    return record_.Record(Operation::kReduceScatter, FirstOf(inputs),
                          [&] { return Base::reduce_scatter(outputs, inputs, options); });
  }
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override {
    return record_.Record(Operation::kReduceScatter, {input},
                          [&] { return Base::_reduce_scatter_base(output, input, options); });
  }
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<std::int64_t>& outputs,
                        std::vector<std::int64_t>& inputs,
                        const c10d::AllToAllOptions& options) override {
    return record_.Record(Operation::kAllToAll, {input}, [&] {
      return Base::alltoall_base(output, input, outputs, inputs, options);
    });
  }
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs,
                   const c10d::AllToAllOptions& options) override {
    return record_.Record(Operation::kAllToAll, inputs,
                          [&] { return Base::alltoall(outputs, inputs, options); });
  }
  WorkPtr barrier(const c10d::BarrierOptions& options) override {
    return record_.Record(Operation::kBarrier, {}, [&] { return Base::barrier(options); });
  }

  WorkPtr send(Tensors& tensors, int to, int tag) override {
    Progress::Process().Move();
    return Base::send(tensors, to, tag);
  }
  WorkPtr recv(Tensors& tensors, int from, int tag) override {
    Progress::Process().Move();
    return Base::recv(tensors, from, tag);
  }
  WorkPtr recvAnysource(Tensors& tensors, int tag) override {
    Progress::Process().Move();
    return Base::recvAnysource(tensors, tag);
  }

 private:
  static Tensors FirstOf(const std::vector<Tensors>& lists) {
    return lists.empty() ? Tensors() : lists.front();
  }

  CollectiveRecord record_;
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_GROUP_RECORDED_GROUP_H_

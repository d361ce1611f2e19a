// A process group that records the begin and the completion of its collectives in the progress page
// (worker/contract/progress_page.h). It records the collectives of this library, of the Reducer,
// and of the program.
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
#include "worker/src/group/failure.h"

namespace ddp::internal {

// The record of one process group. Any thread, except for the destructor.
class CollectiveRecord {
 public:
  using WorkPtr = decltype(std::declval<c10d::ProcessGroup>().barrier());
  using Tensors = std::vector<at::Tensor>;

  // `look_every` is how often the record polls works that do not report their completion, while
  // nothing moves.
  explicit CollectiveRecord(bool is_nccl,
                            std::chrono::milliseconds look_every = std::chrono::milliseconds(500))
      : is_nccl_(is_nccl), look_every_(look_every) {}

  // Begins a collective by calling `begin`. `input` is what this rank contributes. Throws
  // CollectiveError if the agent has sent LEAVE, because the other ranks leave too.
  template <typename Begin>
  WorkPtr Record(ProgressOperation operation, const Tensors& input, Begin begin) {
    ThrowIfLeaving();
    if (!Progress::Process().enabled()) return begin();
    Begun begun = Enter(operation, input);
    try {
      begun.work = begin();
    } catch (...) {
      Complete(begun);  // refused: this rank does not wait in it
      throw;
    }
    WorkPtr work = begun.work;
    CompleteLater(std::move(begun));
    return work;
  }

 private:
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
  // Removes completed works from pending_.
  void TakeCompleted();
  // The loop of looker_. Returns when `stop` is requested.
  void LookWhileNothingMoves(const std::stop_token& stop);

  const bool is_nccl_;
  const std::chrono::milliseconds look_every_;
  std::mutex mutex_;
  std::condition_variable_any ends_;
  // Guarded by mutex_.
  std::optional<std::size_t> group_;  // its number in Progress; set by the first collective
  std::deque<Begun> pending_;         // works whose future does not report completion

  std::jthread looker_;  // since the first such work; last member, so it ends first
};

// `Base` is the class whose collectives are recorded. In 1.13 it is Gloo's or NCCL's class: both
// are process groups, and c10d::Logger reads their name. In 2.x it is c10d::ProcessGroup, which has
// Gloo and NCCL as backends.
//
// Collectives are numbered in the order in which they begin, which is the same on all ranks. A
// message between two ranks has no number. It counts as a move.
//
// For Gloo, a callback of the collective's future reports the completion. It runs on a thread of
// ProcessGroupGloo as soon as the data has arrived, before wait() returns, even if nobody waits.
// NCCL's futures complete as soon as the work is queued on the GPU. So NCCL's works are polled when
// the next collective begins. If a rank begins no more collectives (for example in an endless
// loop), it would seem to wait in its last one. Therefore a thread polls too, but only when nothing
// in this process has moved for half a second. ProcessGroupNCCL's watchdog thread polls the same
// works. Two alternatives were rejected. The agent cannot request a poll, because only
// run_in_place() has a thread that listens to the agent. A callback in the GPU's stream would delay
// that stream.
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

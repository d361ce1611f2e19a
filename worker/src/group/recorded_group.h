// A process group that records its collectives in the progress page, when they begin and when they
// complete. These are the collectives of this library, of the Reducer, and of the program itself.
#ifndef DDPRUN_WORKER_SRC_GROUP_RECORDED_GROUP_H_
#define DDPRUN_WORKER_SRC_GROUP_RECORDED_GROUP_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <utility>
#include <vector>

#include "worker/src/agent/progress.h"

namespace ddp::internal {

// What one process group tells. Any thread.
class CollectiveRecord {
 public:
  using WorkPtr = decltype(std::declval<c10d::ProcessGroup>().barrier());
  using Tensors = std::vector<at::Tensor>;

  explicit CollectiveRecord(bool is_nccl) : is_nccl_(is_nccl) {}

  // Begins a collective by `begin`. `input` is what this rank gives.
  template <typename Begin>
  WorkPtr Record(ProgressOperation operation, const Tensors& input, Begin begin) {
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

  const bool is_nccl_;
  std::mutex mutex_;
  // Guarded by mutex_.
  std::optional<std::size_t> group_;  // Progress's number of it, since the first collective
  std::deque<Begun> pending_;         // works whose future does not tell when they complete
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
// looked at when the next one begins: `finished` may be behind while none does.
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

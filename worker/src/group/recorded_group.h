// A process group that tells the progress page which collectives it begins, and when they are over:
// this library's, the Reducer's, and those that the program makes itself.
#ifndef DDPRUN_WORKER_SRC_GROUP_RECORDED_GROUP_H_
#define DDPRUN_WORKER_SRC_GROUP_RECORDED_GROUP_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <utility>
#include <vector>

#include "worker/src/agent/progress.h"

namespace ddp::internal {

// A group with another one behind it. A batch of messages begins and ends in 1.13 with other
// arguments than in 2.x, where nothing is behind it. `Base` is c10d::ProcessGroup, a parameter so
// that what its version lacks need not compile.
template <typename Base>
class GroupBefore : public Base {
 public:
  template <typename... Arguments>
  explicit GroupBefore(c10::intrusive_ptr<Base> inner, Arguments&&... arguments)
      : Base(std::forward<Arguments>(arguments)...), inner_(std::move(inner)) {}

  using Base::endCoalescing;
  using Base::startCoalescing;
  void startCoalescing() {
    if constexpr (requires(Base& group) { group.startCoalescing(); }) inner_->startCoalescing();
  }
  void endCoalescing(std::vector<c10::intrusive_ptr<c10d::Work>>& works) {
    if constexpr (requires(Base& group) { group.endCoalescing(works); }) {
      inner_->endCoalescing(works);
    }
  }

 protected:
  const c10::intrusive_ptr<Base> inner_;
};

// 1.13: Gloo's and NCCL's classes are process groups, and this one has one of them behind it. 2.x:
// they are backends, and this is the group that has them.
//
// Collectives are numbered as they begin, which is the same on all ranks. Of messages between two
// ranks (send, recv) it is only told that something went on.
//
// That a collective of Gloo has completed is known by a callback of its future: it runs on Gloo's
// own thread as soon as the data is there, before wait() returns, and also where nobody waits yet.
// NCCL's futures are complete as soon as the GPU has been told what to do. So its collectives are
// looked at when the next one begins: `finished` may be behind while none does.
class RecordedGroup final : public GroupBefore<c10d::ProcessGroup> {
 public:
  using Inner = c10::intrusive_ptr<c10d::ProcessGroup>;
  using WorkPtr = decltype(std::declval<c10d::ProcessGroup>().barrier());
  using Tensors = std::vector<at::Tensor>;

  // `inner` is null in 2.x. `base`: what c10d::ProcessGroup is made of.
  template <typename... Base>
  RecordedGroup(Inner inner, bool is_nccl, Base&&... base)
      : GroupBefore(std::move(inner), std::forward<Base>(base)...), is_nccl_(is_nccl) {}

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_coalesced(Tensors& tensors,
                              const c10d::AllreduceCoalescedOptions& options) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  WorkPtr allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                    const c10d::AllgatherOptions& options) override;
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input,
                          const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                              const c10d::AllgatherOptions& options) override;
  WorkPtr gather(std::vector<Tensors>& outputs, Tensors& inputs,
                 const c10d::GatherOptions& options) override;
  WorkPtr scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                  const c10d::ScatterOptions& options) override;
  WorkPtr reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                         const c10d::ReduceScatterOptions& options) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override;
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<std::int64_t>& outputs,
                        std::vector<std::int64_t>& inputs,
                        const c10d::AllToAllOptions& options) override;
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs,
                   const c10d::AllToAllOptions& options) override;
  WorkPtr barrier(const c10d::BarrierOptions& options) override;

  WorkPtr send(Tensors& tensors, int to, int tag) override;
  WorkPtr recv(Tensors& tensors, int from, int tag) override;
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) override;

  const std::string getBackendName() const override;
  void setSequenceNumberForGroup() override;
  std::uint64_t getSequenceNumberForGroup() override;

 private:
  struct Begun {
    WorkPtr work;
    std::uint64_t number;
    ProgressOperation operation;
    std::uint64_t bytes;
  };

  // Begins it by `begin`, on what does the work. `input` is what this rank gives.
  template <typename Begin>
  WorkPtr Record(ProgressOperation operation, const Tensors& input, Begin begin);
  void CompleteLater(Begun begun, bool by_future);
  void CompletePending();

  const bool is_nccl_;
  std::mutex mutex_;
  // Guarded by mutex_.
  std::optional<std::size_t> number_;  // Progress's, since the first collective
  std::deque<Begun> pending_;          // of which no future tells
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_GROUP_RECORDED_GROUP_H_

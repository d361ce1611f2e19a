#include "worker/src/group/recorded_group.h"

#include <ATen/core/ivalue.h>

#include <exception>

namespace ddp::internal {
namespace {

using Base = c10d::ProcessGroup;
using Operation = ProgressOperation;

std::uint64_t BytesOf(const std::vector<at::Tensor>& tensors) {
  std::int64_t bytes = 0;
  for (const at::Tensor& tensor : tensors) {
    // A sparse tensor counts as a dense one: what it sends is known only when it does.
    if (tensor.defined()) {
      bytes += tensor.numel() * static_cast<std::int64_t>(tensor.dtype().itemsize());
    }
  }
  return static_cast<std::uint64_t>(bytes);
}

std::vector<at::Tensor> FirstOf(const std::vector<std::vector<at::Tensor>>& lists) {
  return lists.empty() ? std::vector<at::Tensor>() : lists.front();
}

}  // namespace

template <typename Begin>
RecordedGroup::WorkPtr RecordedGroup::Record(ProgressOperation operation, const Tensors& input,
                                             Begin begin) {
  Progress& progress = Progress::Process();
  if (!progress.enabled()) return begin();
  std::size_t group = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!number_) number_ = progress.NewGroup();
    group = *number_;
  }
  CompletePending();
  const std::uint64_t bytes = BytesOf(input);
  const std::uint64_t number = progress.Enter(group, operation, bytes);
  WorkPtr work;
  try {
    work = begin();
  } catch (...) {
    progress.Complete(group, number, operation, bytes);  // it was refused: nobody waits in it
    throw;
  }
  const bool on_cpu = !input.empty() && input.front().defined() && input.front().is_cpu();
  if (work.defined()) CompleteLater({work, number, operation, bytes}, !is_nccl_ || on_cpu);
  return work;
}

void RecordedGroup::CompleteLater(Begun begun, bool by_future) {
  c10::intrusive_ptr<c10::ivalue::Future> future;
  try {
    if (by_future) future = begun.work->getFuture();
  } catch (const std::exception&) {
    // This kind of work has none.
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!future.defined()) {
    pending_.push_back(std::move(begun));
    return;
  }
  future->addCallback([group = *number_, number = begun.number, operation = begun.operation,
                       bytes = begun.bytes](c10::ivalue::Future& done) {
    // What failed has not completed.
    if (!done.hasError()) Progress::Process().Complete(group, number, operation, bytes);
  });
}

void RecordedGroup::CompletePending() {
  const std::lock_guard<std::mutex> lock(mutex_);
  while (!pending_.empty() && pending_.front().work->isCompleted()) {
    const Begun& begun = pending_.front();
    if (begun.work->isSuccess()) {
      Progress::Process().Complete(*number_, begun.number, begun.operation, begun.bytes);
    }
    pending_.pop_front();
  }
}

RecordedGroup::WorkPtr RecordedGroup::broadcast(Tensors& tensors,
                                                const c10d::BroadcastOptions& options) {
  return Record(Operation::kBroadcast, tensors, [&] {
    return inner_ ? inner_->broadcast(tensors, options) : Base::broadcast(tensors, options);
  });
}

RecordedGroup::WorkPtr RecordedGroup::allreduce(Tensors& tensors,
                                                const c10d::AllreduceOptions& options) {
  return Record(Operation::kAllReduce, tensors, [&] {
    return inner_ ? inner_->allreduce(tensors, options) : Base::allreduce(tensors, options);
  });
}

RecordedGroup::WorkPtr RecordedGroup::allreduce_coalesced(
    Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  return Record(Operation::kAllReduce, tensors, [&] {
    return inner_ ? inner_->allreduce_coalesced(tensors, options)
                  : Base::allreduce_coalesced(tensors, options);
  });
}

RecordedGroup::WorkPtr RecordedGroup::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  return Record(Operation::kReduce, tensors, [&] {
    return inner_ ? inner_->reduce(tensors, options) : Base::reduce(tensors, options);
  });
}

RecordedGroup::WorkPtr RecordedGroup::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                                const c10d::AllgatherOptions& options) {
  return Record(Operation::kAllGather, inputs, [&] {
    return inner_ ? inner_->allgather(outputs, inputs, options)
                  : Base::allgather(outputs, inputs, options);
  });
}

RecordedGroup::WorkPtr RecordedGroup::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                      const c10d::AllgatherOptions& options) {
  return Record(Operation::kAllGather, {input}, [&] {
    return inner_ ? inner_->_allgather_base(output, input, options)
                  : Base::_allgather_base(output, input, options);
  });
}

RecordedGroup::WorkPtr RecordedGroup::allgather_coalesced(std::vector<Tensors>& outputs,
                                                          Tensors& inputs,
                                                          const c10d::AllgatherOptions& options) {
  return Record(Operation::kAllGather, inputs, [&] {
    return inner_ ? inner_->allgather_coalesced(outputs, inputs, options)
                  : Base::allgather_coalesced(outputs, inputs, options);
  });
}

RecordedGroup::WorkPtr RecordedGroup::gather(std::vector<Tensors>& outputs, Tensors& inputs,
                                             const c10d::GatherOptions& options) {
  return Record(Operation::kGather, inputs, [&] {
    return inner_ ? inner_->gather(outputs, inputs, options)
                  : Base::gather(outputs, inputs, options);
  });
}

RecordedGroup::WorkPtr RecordedGroup::scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                              const c10d::ScatterOptions& options) {
  return Record(Operation::kScatter, FirstOf(inputs), [&] {
    return inner_ ? inner_->scatter(outputs, inputs, options)
                  : Base::scatter(outputs, inputs, options);
  });
}

RecordedGroup::WorkPtr RecordedGroup::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                                     const c10d::ReduceScatterOptions& options) {
  return Record(Operation::kReduceScatter, FirstOf(inputs), [&] {
    return inner_ ? inner_->reduce_scatter(outputs, inputs, options)
                  : Base::reduce_scatter(outputs, inputs, options);
  });
}

RecordedGroup::WorkPtr RecordedGroup::_reduce_scatter_base(
    at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) {
  return Record(Operation::kReduceScatter, {input}, [&] {
    return inner_ ? inner_->_reduce_scatter_base(output, input, options)
                  : Base::_reduce_scatter_base(output, input, options);
  });
}

RecordedGroup::WorkPtr RecordedGroup::alltoall_base(at::Tensor& output, at::Tensor& input,
                                                    std::vector<std::int64_t>& outputs,
                                                    std::vector<std::int64_t>& inputs,
                                                    const c10d::AllToAllOptions& options) {
  return Record(Operation::kAllToAll, {input}, [&] {
    return inner_ ? inner_->alltoall_base(output, input, outputs, inputs, options)
                  : Base::alltoall_base(output, input, outputs, inputs, options);
  });
}

RecordedGroup::WorkPtr RecordedGroup::alltoall(Tensors& outputs, Tensors& inputs,
                                               const c10d::AllToAllOptions& options) {
  return Record(Operation::kAllToAll, inputs, [&] {
    return inner_ ? inner_->alltoall(outputs, inputs, options)
                  : Base::alltoall(outputs, inputs, options);
  });
}

RecordedGroup::WorkPtr RecordedGroup::barrier(const c10d::BarrierOptions& options) {
  return Record(Operation::kBarrier, {},
                [&] { return inner_ ? inner_->barrier(options) : Base::barrier(options); });
}

RecordedGroup::WorkPtr RecordedGroup::send(Tensors& tensors, int to, int tag) {
  Progress::Process().Move();
  return inner_ ? inner_->send(tensors, to, tag) : Base::send(tensors, to, tag);
}

RecordedGroup::WorkPtr RecordedGroup::recv(Tensors& tensors, int from, int tag) {
  Progress::Process().Move();
  return inner_ ? inner_->recv(tensors, from, tag) : Base::recv(tensors, from, tag);
}

RecordedGroup::WorkPtr RecordedGroup::recvAnysource(Tensors& tensors, int tag) {
  Progress::Process().Move();
  return inner_ ? inner_->recvAnysource(tensors, tag) : Base::recvAnysource(tensors, tag);
}

void RecordedGroup::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) {
  Progress::Process().Move();
  inner_ ? inner_->monitoredBarrier(options, wait_all_ranks)
         : Base::monitoredBarrier(options, wait_all_ranks);
}

const std::string RecordedGroup::getBackendName() const {
  return inner_ ? inner_->getBackendName() : Base::getBackendName();
}

void RecordedGroup::setSequenceNumberForGroup() {
  inner_ ? inner_->setSequenceNumberForGroup() : Base::setSequenceNumberForGroup();
}

std::uint64_t RecordedGroup::getSequenceNumberForGroup() {
  return inner_ ? inner_->getSequenceNumberForGroup() : Base::getSequenceNumberForGroup();
}

}  // namespace ddp::internal

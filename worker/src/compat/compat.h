// Hides the relevant differences between versions of libtorch. The code detects each difference
// from the installed headers, never from a version number. Tested versions: 1.13, 2.6, 2.11, 2.14.
#ifndef DDPRUN_WORKER_SRC_COMPAT_COMPAT_H_
#define DDPRUN_WORKER_SRC_COMPAT_COMPAT_H_

#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/optim/optimizer.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "worker/src/formats/dtype.h"

namespace ddp::compat {

// A 2.x libtorch built without libuv (like Debian's) throws unless libuv is switched off. 1.13 has
// no such field.
template <typename StoreOptions>
void UseBuiltinStoreServer(StoreOptions* options) {
  if constexpr (requires { options->useLibUV; }) options->useLibUV = false;
}

// False if Gloo may be unable to add float16. In a libtorch that has the header below, this depends
// on how Gloo was built; Debian's Gloo cannot.
#if __has_include(<torch/csrc/distributed/c10d/gloo/ProcessGroupGlooDetail.hpp>)
inline constexpr bool kGlooAddsHalf = false;
#else
inline constexpr bool kGlooAddsHalf = true;
#endif

// A process group and its backend. In 1.13 both are the same object.
template <typename Group, typename Backend>
struct MadeGroup {
  c10::intrusive_ptr<Group> group;
  c10::intrusive_ptr<Backend> backend;
};

// For 2.x: makes a group of class `Recorded<Group>` (recorded_group.h), in which `backend` carries
// tensors on `devices`. `Group` is c10d::ProcessGroup. It is a template parameter so that the
// branch that is not taken need not compile.
template <typename Group, template <typename> typename Recorded, typename Backend, typename Store>
c10::intrusive_ptr<Group> GroupOver(const c10::intrusive_ptr<Backend>& backend,
                                    const c10::intrusive_ptr<Store>& store,
                                    const std::set<c10::DeviceType>& devices, bool is_nccl) {
  const int rank = backend->getRank();
  const int size = backend->getSize();
  c10::intrusive_ptr<Group> group;
  if constexpr (std::is_constructible_v<Group, c10::intrusive_ptr<Store>, int, int>) {
    group = c10::make_intrusive<Recorded<Group>>(is_nccl, store, rank, size);
  } else {
    group = c10::make_intrusive<Recorded<Group>>(is_nccl, store, rank, size,
                                                 Group::Options::create(is_nccl ? "nccl" : "gloo"));
  }
  const auto type = is_nccl ? Group::BackendType::NCCL : Group::BackendType::GLOO;
  for (const c10::DeviceType device : devices) group->setBackend(device, type, backend);
  if constexpr (requires { group->setDefaultBackend(type); }) group->setDefaultBackend(type);
  return group;
}

// In 1.13 the classes of Gloo and NCCL are process groups. In 2.x they are backends in a group, and
// each carries the tensors on `devices`. The group's class is wrapped in `Recorded`.
template <typename Group, typename Backend, template <typename> typename Recorded, typename Store,
          typename Options>
MadeGroup<Group, Backend> MakeProcessGroup(const c10::intrusive_ptr<Store>& store, int rank,
                                           int size, const Options& options,
                                           const std::set<c10::DeviceType>& devices, bool is_nccl) {
  MadeGroup<Group, Backend> made;
  if constexpr (std::is_convertible_v<Backend*, Group*>) {
    made.backend = c10::make_intrusive<Recorded<Backend>>(is_nccl, store, rank, size, options);
    made.group = made.backend;
  } else {
    made.backend = c10::make_intrusive<Backend>(store, rank, size, options);
    made.group = GroupOver<Group, Recorded>(made.backend, store, devices, is_nccl);
  }
  return made;
}

// True if a group has one backend per kind of device. False in 1.13, where a group is of one kind.
template <typename Group>
inline constexpr bool kHasBackends = requires {
  Group::BackendType::GLOO;
};

// Makes `group` send tensors on `device` with the Gloo backend of `other`. Has an effect only with
// kHasBackends.
template <typename Group>
void CarryAs(Group& group, c10::DeviceType device, Group& other) {
  if constexpr (kHasBackends<Group>) {
    group.setBackend(device, Group::BackendType::GLOO, other.getBackend(device));
  }
}

// Returns a function that ends the running collectives of all threads. Null: this libtorch has no
// abort().
template <typename Nccl>
std::function<void()> AbortOf(const c10::intrusive_ptr<Nccl>& nccl) {
  if constexpr (requires { nccl->abort(); }) {
    return [nccl] { nccl->abort(); };
  } else {
    return nullptr;
  }
}

// True if a group reports the errors and timeouts that NCCL's watchdog thread has seen (since 2.7).
template <typename Nccl>
inline constexpr bool kTellsErrors = requires(Nccl& nccl) {
  nccl.getError();
};

// Returns a function that is true after such an error. Null: this libtorch does not report errors.
template <typename Nccl>
std::function<bool()> FailedOf(const c10::intrusive_ptr<Nccl>& nccl) {
  if constexpr (kTellsErrors<Nccl>) {
    return [nccl] { return static_cast<int>(nccl->getError()) != 0; };
  } else {
    return nullptr;
  }
}

// Ends the threads and communicators of the group. In 2.x the destructor warns if it must do this
// itself.
template <typename Nccl>
void Shutdown(const c10::intrusive_ptr<Nccl>& nccl) {
  if constexpr (requires { nccl->shutdown(); }) nccl->shutdown();
}

class Reducer : public c10d::Reducer {
 public:
  using c10d::Reducer::Reducer;

  // For a static graph: call it in the first averaging backward, before its first hook. 2.x also
  // counts earlier backwards (under no_sync(), or outside DistributedDataParallel), and would wait
  // for that many hooks in each step. Then gradients would silently not be averaged. 1.13 has not
  // counted anything at this time.
  void ForgetEarlierBackwards() { numGradHooksTriggeredMap_.clear(); }

  // True once, for the first averaging backward of a static graph.
  bool BeginStaticGraph() { return !static_graph_has_begun_.exchange(true); }
  bool StaticGraphHasBegun() const { return static_graph_has_begun_; }

  // True if the buckets are in the order in which the gradients of a first step became ready.
  bool HasRebuiltBuckets() const { return has_rebuilt_bucket_; }

  // True if the last prepared backward has reduced all gradients.
  bool HasReducedAll() const { return !expect_autograd_hooks_; }

  // Numbers of the parameters that are reduced first.
  const std::vector<size_t>& FirstBucket() const { return buckets_.front().variable_indices; }

  // Numbers of the parameters in each bucket, in the order of reduction.
  std::vector<std::vector<size_t>> Buckets() const {
    std::vector<std::vector<size_t>> result;
    for (const Bucket& bucket : buckets_) result.push_back(bucket.variable_indices);
    return result;
  }

  // The gradients of each bucket, in the order of reduction. For a sparse bucket: undefined, or the
  // gradients of the last step.
  std::vector<at::Tensor> BucketGradients() const {
    std::vector<at::Tensor> result;
    for (const Bucket& bucket : buckets_) result.push_back(bucket.gradients);
    return result;
  }

  // Uses these buckets as if a first step had produced them. Call it between steps.
  void UseRebuiltBuckets(std::vector<std::vector<size_t>> buckets) {
    initialize_buckets(std::move(buckets));
    rebuilt_params_.clear();
    rebuilt_param_indices_.clear();
    has_rebuilt_bucket_ = true;
  }

 private:
  std::atomic<bool> static_graph_has_begun_{false};  // autograd's threads read it
};

// From 2.6 on, Python's DistributedDataParallel differs from 1.13's: a given bucket_cap_mb also
// applies to the first bucket. Without broadcast_buffers the newer class never sends a buffer, not
// even at the beginning. The headers do not show this difference, so another feature of the newer
// headers identifies it.
template <typename Group>
constexpr bool HasDefaultBackend() {
  return requires(Group & group) { group.setDefaultBackend(Group::BackendType::GLOO); };
}
inline constexpr bool kNewerPythonClass = HasDefaultBackend<c10d::ProcessGroup>();

struct ReducerArguments {
  std::vector<at::Tensor> parameters;
  std::vector<std::vector<size_t>> buckets;
  std::vector<size_t> bucket_limits;
  std::vector<bool> sparse;  // for each parameter: its gradient is sparse
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  std::int64_t first_bucket_bytes;
  std::int64_t bucket_bytes;
  bool find_unused_parameters;
  bool gradient_as_bucket_view;
  std::unordered_map<size_t, std::string> names;
};

template <typename Reducer>
std::unique_ptr<Reducer> MakeReducer(ReducerArguments a) {
  using Buckets = std::vector<std::vector<size_t>>;
  using Group = c10::intrusive_ptr<c10d::ProcessGroup>;
  using Names = std::unordered_map<size_t, std::string>;
  using Tensors = std::vector<at::Tensor>;
  if constexpr (std::is_constructible_v<Reducer, Tensors, Buckets, std::vector<size_t>, Group,
                                        std::vector<bool>, std::int64_t, bool, bool, Names,
                                        std::int64_t>) {
    return std::make_unique<Reducer>(
        std::move(a.parameters), std::move(a.buckets), std::move(a.bucket_limits),
        std::move(a.group), std::move(a.sparse), a.bucket_bytes, a.find_unused_parameters,
        a.gradient_as_bucket_view, std::move(a.names), a.first_bucket_bytes);
  } else {
    // 2.14 takes no size limits. It takes three more arguments: skip_all_reduce_unused_params,
    // use_python_reducer, and a list of bucket caps.
    return std::make_unique<Reducer>(
        std::move(a.parameters), std::move(a.buckets), std::move(a.group), std::move(a.sparse),
        a.bucket_bytes, a.find_unused_parameters, a.gradient_as_bucket_view, std::move(a.names),
        a.first_bucket_bytes, false, false, std::vector<std::int64_t>());
  }
}

// The key of a parameter in Optimizer::state(): a string in 1.13, a pointer in 2.x.
template <typename StateMap>
typename StateMap::key_type OptimizerStateKey(const StateMap&, const at::Tensor& parameter) {
  if constexpr (std::is_same_v<typename StateMap::key_type, std::string>) {
    std::ostringstream address;
    address << parameter.unsafeGetTensorImpl();
    return address.str();
  } else {
    return parameter.unsafeGetTensorImpl();
  }
}

// A node of the autograd graph, for create_gradient_edge(). It is a shared_ptr in 1.13 and 2.6, and
// an intrusive_ptr in 2.14. `Base` is a template parameter so that the branch that is not taken
// need not compile.
template <typename Node, typename Base = torch::autograd::Node, typename... Arguments>
auto MakeNode(Arguments&&... arguments) {
  if constexpr (std::is_base_of_v<c10::intrusive_ptr_target, Base>) {
    return c10::intrusive_ptr<Base>(
        c10::make_intrusive<Node>(std::forward<Arguments>(arguments)...));
  } else {
    return std::shared_ptr<Base>(new Node(std::forward<Arguments>(arguments)...),
                                 [](Base* node) { deleteNode(node); });
  }
}

// libtorch has two ways to switch autocast. 1.13 has separate functions for each kind of
// device. 2.x deprecates them in favour of one function for every device. If that function is
// missing, the compiler finds the one below.
namespace missing_autocast {
struct Missing {};
template <typename... Arguments>
Missing set_autocast_enabled(Arguments...);
template <typename... Arguments>
Missing set_autocast_dtype(Arguments...);
}  // namespace missing_autocast
namespace any_autocast {
using namespace missing_autocast;  // NOLINT
using namespace at::autocast;      // NOLINT
}  // namespace any_autocast

// Switches autocast for this thread. `Device` is c10::DeviceType, `Flag` is bool and `Type` is
// at::ScalarType. They are template parameters so that the branch that is not taken need not
// compile.
template <typename Device = c10::DeviceType, typename Flag, typename Type>
void SetCudaAutocast(Flag enabled, Type dtype) {
  using Result = decltype(any_autocast::set_autocast_enabled(Device::CUDA, enabled));
  if constexpr (std::is_void_v<Result>) {
    any_autocast::set_autocast_dtype(Device::CUDA, dtype);
    any_autocast::set_autocast_enabled(Device::CUDA, enabled);
  } else {
    at::autocast::set_autocast_gpu_dtype(dtype);
    at::autocast::set_enabled(enabled);
  }
}

// The corresponding type of libtorch. nullopt: this libtorch does not have it. float8 came with
// 2.1, the wider unsigned integers with 2.3. `Type` is c10::ScalarType. It is a template parameter
// so that values that libtorch lacks need not compile.
template <typename Type = c10::ScalarType>
std::optional<Type> ScalarTypeOf(internal::Dtype dtype) {
  using internal::Dtype;
  switch (dtype) {
    case Dtype::kF64:
      return Type::Double;
    case Dtype::kF32:
      return Type::Float;
    case Dtype::kF16:
      return Type::Half;
    case Dtype::kBF16:
      return Type::BFloat16;
    case Dtype::kI64:
      return Type::Long;
    case Dtype::kI32:
      return Type::Int;
    case Dtype::kI16:
      return Type::Short;
    case Dtype::kI8:
      return Type::Char;
    case Dtype::kU8:
      return Type::Byte;
    case Dtype::kBool:
      return Type::Bool;
    case Dtype::kC64:
      return Type::ComplexFloat;
    case Dtype::kC128:
      return Type::ComplexDouble;
    case Dtype::kU16:
      if constexpr (requires { Type::UInt16; }) return Type::UInt16;
      break;
    case Dtype::kU32:
      if constexpr (requires { Type::UInt32; }) return Type::UInt32;
      break;
    case Dtype::kU64:
      if constexpr (requires { Type::UInt64; }) return Type::UInt64;
      break;
    case Dtype::kF8E4M3:
      if constexpr (requires { Type::Float8_e4m3fn; }) return Type::Float8_e4m3fn;
      break;
    case Dtype::kF8E5M2:
      if constexpr (requires { Type::Float8_e5m2; }) return Type::Float8_e5m2;
      break;
  }
  return std::nullopt;
}

}  // namespace ddp::compat

#endif  // DDPRUN_WORKER_SRC_COMPAT_COMPAT_H_

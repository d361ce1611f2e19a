// Finds the tensors in the result of a module's forward().
//
// DistributedDataParallel needs these tensors to search for parameters that a step does not use
// (find_unused_parameters, static_graph). It finds tensors in IValues, std::optional, pair, tuple,
// array, variant, smart pointers, and any container with begin() and end(), also if these are
// nested. In a map it searches the values. A std::map whose key is a struct of your own throws
// ConfigError, unless OutputTensors is specialized for the struct. PyTorch's _find_tensors
// (torch/nn/parallel/distributed.py) searches list, tuple and dict.
//
// For other types, specialize OutputTensors:
//
//   struct Output { torch::Tensor logits; std::vector<torch::Tensor> hidden; };
//
//   template <>
//   struct ddp::OutputTensors<Output> {
//     template <typename Visit>
//     static void for_each(Output& output, Visit&& visit) {
//       visit(output.logits);
//       visit(output.hidden);
//     }
//   };
#ifndef DDP_OUTPUT_TENSORS_H_
#define DDP_OUTPUT_TENSORS_H_

#include <ATen/core/ivalue.h>
#include <torch/types.h>

#include <functional>
#include <iterator>
#include <string>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <variant>

namespace ddp {

// A program may specialize this template: see above.
template <typename T, typename Enable = void>
struct OutputTensors;

namespace detail {

using TensorVisitor = std::function<void(torch::Tensor&)>;

// Calls `visit` for each tensor in `value`, and stores the changed tensor in `value`. It rebuilds
// lists, tuples and dicts, so other holders of them do not see the change. It throws ConfigError
// for futures and for objects of TorchScript classes, because it does not search them.
void VisitIValue(c10::IValue& value, const TensorVisitor& visit);

// Throws ConfigError, whose text says how to specialize OutputTensors for `type`.
[[noreturn]] void ThrowUnknownOutput(const std::type_info& type);

template <typename T, typename = void>
struct IsSpecialized : std::false_type {};
template <typename T>
struct IsSpecialized<T, std::void_t<decltype(sizeof(OutputTensors<T>))>> : std::true_type {};

template <typename T, typename = void>
struct IsRange : std::false_type {};
template <typename T>
struct IsRange<T, std::void_t<decltype(std::begin(std::declval<T&>())),
                              decltype(std::end(std::declval<T&>()))>> : std::true_type {};

// Items with key() and value(), such as those of a torch::OrderedDict.
template <typename T, typename = void>
struct HasKeyAndValue : std::false_type {};
template <typename T>
struct HasKeyAndValue<
    T, std::void_t<decltype(std::declval<T&>().key()), decltype(std::declval<T&>().value())>>
    : std::true_type {};

template <typename T, typename = void>
struct IsTupleLike : std::false_type {};
template <typename T>
struct IsTupleLike<T, std::void_t<decltype(std::tuple_size<T>::value)>> : std::true_type {};

// std::optional, c10::optional, std::unique_ptr, std::shared_ptr and plain pointers.
template <typename T, typename = void>
struct IsNullable : std::false_type {};
template <typename T>
struct IsNullable<
    T, std::void_t<decltype(static_cast<bool>(std::declval<T&>())), decltype(*std::declval<T&>())>>
    : std::true_type {};

template <typename T>
struct IsVariant : std::false_type {};
template <typename... Options>
struct IsVariant<std::variant<Options...>> : std::true_type {};

// Types that can hold no tensor.
template <typename T>
struct IsPlain
    : std::bool_constant<std::is_arithmetic_v<T> || std::is_enum_v<T> ||
                         std::is_same_v<T, std::monostate> || std::is_same_v<T, std::nullptr_t> ||
                         std::is_convertible_v<T, std::string>> {};

template <typename T>
void ForEachTensor(T& value, const TensorVisitor& visit);

template <typename T>
void ForEachTensorInRange(T& range, const TensorVisitor& visit) {
  using Iterator = decltype(std::begin(range));
  if constexpr (std::is_lvalue_reference_v<decltype(*std::declval<Iterator&>())>) {
    for (auto& item : range) ForEachTensor(item, visit);
  } else {  // std::vector<bool> and c10::List return proxies
    using Item = typename std::iterator_traits<Iterator>::value_type;
    if constexpr (!IsPlain<Item>::value) {
      for (auto&& item : range) {
        Item copy = item;
        ForEachTensor(copy, visit);
        std::move(item) = std::move(copy);
      }
    }
  }
}

template <typename T>
void ForEachTensor(T& value, const TensorVisitor& visit) {
  using Value = std::remove_const_t<T>;
  if constexpr (std::is_same_v<T, const torch::Tensor>) {
    ThrowUnknownOutput(typeid(T));  // the search replaces the tensors, so they must not be const
  } else if constexpr (std::is_same_v<Value, torch::Tensor>) {
    visit(value);
  } else if constexpr (IsSpecialized<Value>::value) {
    OutputTensors<Value>::for_each(value, [&](auto& part) { ForEachTensor(part, visit); });
  } else if constexpr (IsPlain<Value>::value) {
  } else if constexpr (std::is_same_v<Value, c10::IValue>) {
    VisitIValue(value, visit);
  } else if constexpr (IsVariant<Value>::value) {
    std::visit([&](auto& option) { ForEachTensor(option, visit); }, value);
  } else if constexpr (HasKeyAndValue<Value>::value) {
    ForEachTensor(value.value(), visit);
  } else if constexpr (IsRange<Value>::value) {
    ForEachTensorInRange(value, visit);
  } else if constexpr (IsTupleLike<Value>::value) {
    std::apply([&](auto&... parts) { (ForEachTensor(parts, visit), ...); }, value);
  } else if constexpr (IsNullable<Value>::value) {
    if (value) ForEachTensor(*value, visit);
  } else {
    ThrowUnknownOutput(typeid(Value));
  }
}

}  // namespace detail
}  // namespace ddp

#endif  // DDP_OUTPUT_TENSORS_H_

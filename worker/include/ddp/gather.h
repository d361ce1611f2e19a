// Collectives that gather or scatter values that differ between ranks. The rules at the top of
// collectives.h apply.
//
// Tensors must be dense, with at most 14 dimensions. They may have any dtype, and may be on the CPU
// or on Context::device(). Their lengths in the first dimension may differ between ranks, and may
// be 0. The dtype and all other dimensions must be equal on all ranks. Otherwise every rank throws
// the same ConfigError, which names the ranks. Results are new tensors without gradient, each with
// its own shape. Names and semantics are those of torch/distributed/distributed_c10d.py, where all
// shapes must be equal.
//
// A function with an argument `root` throws ConfigError if `root` is not a rank.
#ifndef DDP_GATHER_H_
#define DDP_GATHER_H_

#include <ATen/core/ivalue.h>
#include <ddp/context.h>
#include <torch/types.h>

#include <exception>
#include <string>
#include <utility>
#include <vector>

namespace ddp {

// Returns the tensors of all ranks, in the order of ranks, on the device of `tensor`.
std::vector<torch::Tensor> all_gather(const Context& ctx, const torch::Tensor& tensor);

// Like all_gather, but only rank `root` gets the result. On other ranks the result is empty.
std::vector<torch::Tensor> gather(const Context& ctx, const torch::Tensor& tensor, int root = 0);

// Returns on rank r the element r of rank `root`'s `tensors`. The `tensors` of other ranks are
// ignored. The result is on Context::device(). If rank `root` does not give one tensor for each
// rank, or its tensors break the rules above, every rank throws AgreedError.
torch::Tensor scatter(const Context& ctx, const std::vector<torch::Tensor>& tensors, int root = 0);

// Returns the values of all ranks, in the order of ranks. They may have any size. A text may
// contain any bytes.
std::vector<std::string> all_gather_object(const Context& ctx, const std::string& text);
std::vector<std::string> all_gather_object(const Context& ctx, const char* text);

// The same for any value that torch::pickle_save() can write: numbers, tensors, lists,
// dictionaries, tuples. A tensor arrives on the device that it had on its rank, with the same index
// (cuda:1). So give CPU tensors if the ranks have different devices. If a value cannot be written,
// every rank throws AgreedError. The function unpickles the data of the other ranks, and so trusts
// them.
std::vector<c10::IValue> all_gather_object(const Context& ctx, const c10::IValue& value);

// Returns the texts of all ranks on rank `root`. On other ranks the result is empty.
std::vector<std::string> gather_object(const Context& ctx, const std::string& text, int root = 0);

namespace detail {
// Throws AgreedError on every rank if `error` is not empty on some rank.
std::vector<std::string> all_gather_text(const Context& ctx, const std::string& text,
                                         const std::string& error);
}  // namespace detail

// The same for JSON values. `Json` is any type with `std::string dump() const` and `static Json
// parse(std::string)`, such as nlohmann::json. If a value cannot be dumped, every rank throws
// AgreedError.
template <typename Json, typename = decltype(std::string(std::declval<const Json&>().dump())),
          typename = decltype(Json::parse(std::string()))>
std::vector<Json> all_gather_object(const Context& ctx, const Json& value) {
  std::string text;
  std::string error;
  try {
    text = value.dump();
  } catch (const std::exception& e) {
    error = std::string("all_gather_object: ") + e.what();
  }
  std::vector<Json> values;
  for (const std::string& part : detail::all_gather_text(ctx, text, error)) {
    values.push_back(Json::parse(part));
  }
  return values;
}

}  // namespace ddp

#endif  // DDP_GATHER_H_

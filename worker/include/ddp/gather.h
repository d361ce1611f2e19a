// Collectives that gather or scatter values that differ between ranks. As in collectives.h: all
// ranks must call the same function, in the same order, one thread at a time; each blocks until it
// has its result, and throws CollectiveError if a peer is gone or the timeout ends.
//
// Tensors are dense, of any dtype, on the CPU or on Context::device(). Their lengths in the first
// dimension may differ (also 0); dtype and all other dimensions must be equal on all ranks,
// otherwise every rank throws the same ConfigError, which names the ranks. Results are new tensors
// without gradient, each with its own shape. Names and semantics are those of
// torch/distributed/distributed_c10d.py, which needs equal shapes.
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

// Like all_gather, on rank `root` only; on other ranks the result is empty.
std::vector<torch::Tensor> gather(const Context& ctx, const torch::Tensor& tensor, int root = 0);

// Rank r gets element r of rank `root`'s `tensors`; other ranks' arguments are ignored. The result
// is on Context::device(). Invalid tensors at `root` (not one per rank, or not alike) throw
// AgreedError on every rank.
torch::Tensor scatter(const Context& ctx, const std::vector<torch::Tensor>& tensors, int root = 0);

// Returns the values of all ranks, in the order of ranks; they may be of any size. Texts may
// contain any bytes:
std::vector<std::string> all_gather_object(const Context& ctx, const std::string& text);
std::vector<std::string> all_gather_object(const Context& ctx, const char* text);

// Any value that torch::pickle_save() can write: numbers, tensors, lists, dictionaries, tuples.
// Tensors arrive on the kind of device that they came from, so give CPU tensors if devices differ.
// A value that cannot be written throws AgreedError on every rank. Unpickling trusts the other
// ranks.
std::vector<c10::IValue> all_gather_object(const Context& ctx, const c10::IValue& value);

// Returns the texts of all ranks on rank `root`; on other ranks the result is empty.
std::vector<std::string> gather_object(const Context& ctx, const std::string& text, int root = 0);

namespace detail {
// Throws AgreedError on every rank if `error` is not empty on some rank.
std::vector<std::string> all_gather_text(const Context& ctx, const std::string& text,
                                         const std::string& error);
}  // namespace detail

// For JSON values: any type with `std::string dump() const` and `static Json parse(std::string)`,
// such as nlohmann::json. A value that cannot be dumped throws AgreedError on every rank.
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

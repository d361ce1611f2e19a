// Collectives that gather values which differ between ranks, or scatter them. As in collectives.h:
// all ranks must call the same function, in the same order; each blocks until its result is there,
// runs on one thread at a time, and throws CollectiveError if a peer is gone or the timeout is
// over.
//
// Tensors are dense, of any dtype, on the CPU or on Context::device(). They may have different
// lengths in their first dimension (0 too); dtype and all other dimensions must be the same on
// every rank. Otherwise every rank throws the same ConfigError, which names the ranks. Results are
// new tensors without gradient, each of its own shape. Names and meaning are those of
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

// The tensors of all ranks, in the order of the ranks, on the device of `tensor`.
std::vector<torch::Tensor> all_gather(const Context& ctx, const torch::Tensor& tensor);

// The same on rank `root`; elsewhere the result is empty.
std::vector<torch::Tensor> gather(const Context& ctx, const torch::Tensor& tensor, int root = 0);

// Rank r gets element r of rank `root`'s `tensors`; the argument of other ranks is ignored. The
// result is on Context::device(). Wrong tensors at `root` (not one for each rank, or not alike)
// throw AgreedError on every rank.
torch::Tensor scatter(const Context& ctx, const std::vector<torch::Tensor>& tensors, int root = 0);

// The values of all ranks, in the order of the ranks; they may be of any size. Texts, which may
// hold any bytes:
std::vector<std::string> all_gather_object(const Context& ctx, const std::string& text);
std::vector<std::string> all_gather_object(const Context& ctx, const char* text);

// Anything that torch::pickle_save() can write: numbers, tensors, lists, dictionaries, tuples.
// Tensors arrive on the device they were on, so give CPU tensors where devices differ. A value that
// cannot be written throws AgreedError on every rank. Unpickling trusts the peers of the job.
std::vector<c10::IValue> all_gather_object(const Context& ctx, const c10::IValue& value);

// The texts of all ranks on rank `root`; elsewhere the result is empty.
std::vector<std::string> gather_object(const Context& ctx, const std::string& text, int root = 0);

namespace detail {
// Throws AgreedError on every rank if `error` is not empty on one.
std::vector<std::string> all_gather_text(const Context& ctx, const std::string& text,
                                         const std::string& error);
}  // namespace detail

// JSON: any type with `std::string dump() const` and `static Json parse(std::string)`, such as
// nlohmann::json. A value that cannot be dumped throws AgreedError on every rank.
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

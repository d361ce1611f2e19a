#include <ddp/collectives.h>
#include <ddp/errors.h>
#include <ddp/gather.h>
#include <ddp/verify.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "worker/src/base/in_words.h"
#include "worker/src/base/xxh3.h"

namespace ddp {
namespace {

constexpr std::size_t kTensorsNamed = 8;

struct Hash {
  std::string name;
  std::int64_t value;  // the bits of an XXH3-64 hash
};

// The hash of name, dtype, shape and bytes.
Hash HashOf(const std::string& name, const torch::Tensor& tensor) {
  std::ostringstream form;
  form << name << " " << c10::toString(tensor.scalar_type()) << " " << tensor.sizes();
  const std::string text = form.str();
  const torch::Tensor bytes = tensor.detach().cpu().contiguous();
  const std::uint64_t hash =
      internal::Xxh3(bytes.data_ptr(), bytes.nbytes(), internal::Xxh3(text.data(), text.size()));
  return {name, static_cast<std::int64_t>(hash)};
}

std::vector<Hash> HashesOf(const torch::nn::Module& module, const VerifyOptions& options) {
  const torch::NoGradGuard no_grad;
  std::vector<Hash> hashes;
  const auto add = [&](const std::string& kind, const auto& tensors) {
    for (const auto& item : tensors) {
      if (item.value().defined()) {
        hashes.push_back(HashOf(kind + " '" + item.key() + "'", item.value()));
      }
    }
  };
  add("parameter", module.named_parameters());
  if (options.buffers) add("buffer", module.named_buffers());
  return hashes;
}

// Finds the ranks whose value differs from the value of more than half of the ranks. If there is no
// such majority, compares with rank 0's value.
ReplicaDifference Compare(const std::string& name, const std::vector<std::int64_t>& values) {
  std::map<std::int64_t, std::size_t> counts;
  for (const std::int64_t value : values) ++counts[value];
  ReplicaDifference difference;
  difference.name = name;
  std::int64_t right = values[0];
  for (const auto& [value, count] : counts) {
    if (2 * count <= values.size()) continue;
    right = value;
    difference.from_majority = true;
  }
  for (std::size_t rank = 0; rank < values.size(); ++rank) {
    if (values[rank] != right) difference.ranks.push_back(static_cast<int>(rank));
  }
  return difference;
}

}  // namespace

std::vector<ReplicaDifference> find_replica_differences(const Context& ctx,
                                                        const torch::nn::Module& module,
                                                        const VerifyOptions& options) {
  const std::vector<Hash> hashes = HashesOf(module, options);
  torch::Tensor here = torch::empty({static_cast<std::int64_t>(hashes.size())}, torch::kInt64);
  auto* const words = here.data_ptr<std::int64_t>();
  for (std::size_t i = 0; i < hashes.size(); ++i) words[i] = hashes[i].value;
  const std::vector<torch::Tensor> ranks = all_gather(ctx, here);

  for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
    if (ranks[rank].numel() == ranks[0].numel()) continue;
    const int failing = static_cast<int>(rank);
    throw AgreedError("rank " + std::to_string(rank) + ": the replicas differ: it has " +
                          std::to_string(ranks[rank].numel()) + " tensors, rank 0 has " +
                          std::to_string(ranks[0].numel()),
                      failing, failing == ctx.rank());
  }
  std::vector<ReplicaDifference> differences;
  std::vector<std::int64_t> values(ranks.size());
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      values[rank] = ranks[rank].data_ptr<std::int64_t>()[i];
    }
    const ReplicaDifference difference = Compare(hashes[i].name, values);
    if (!difference.ranks.empty()) differences.push_back(difference);
  }
  return differences;
}

void verify_replicas(const Context& ctx, const torch::nn::Module& module,
                     const VerifyOptions& options) {
  const std::vector<ReplicaDifference> differences = find_replica_differences(ctx, module, options);
  if (differences.empty()) return;
  std::string text = "the replicas differ: ";
  int failing = ctx.world_size();
  bool failed_here = false;
  for (std::size_t i = 0; i < differences.size(); ++i) {
    const ReplicaDifference& one = differences[i];
    failing = std::min(failing, one.ranks.front());
    failed_here = failed_here || std::count(one.ranks.begin(), one.ranks.end(), ctx.rank()) > 0;
    if (i >= kTensorsNamed) continue;
    text += (i == 0 ? "" : "; ") + one.name + " on " + internal::RankList(one.ranks) +
            (one.ranks.size() == 1 ? " differs from " : " differ from ") +
            (one.from_majority ? "the majority" : "rank 0");
  }
  if (differences.size() > kTensorsNamed) {
    text += "; and " + std::to_string(differences.size() - kTensorsNamed) + " more tensors";
  }
  throw AgreedError(text, failing, failed_here);
}

}  // namespace ddp

#include "worker/src/state_search.h"

#include <ddp/collectives.h>
#include <ddp/errors.h>
#include <ddp/gather.h>
#include <sys/stat.h>

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "worker/src/checkpoint_folder.h"
#include "worker/src/failure.h"

namespace ddp::internal {
namespace {

using nlohmann::json;

constexpr char kGood[] = "good";         // this rank's share has the right hashes
constexpr char kNotHere[] = "not here";  // this rank cannot read the file

// What tells a file from another one of the same name on another node.
json IdentityOf(const std::string& path) {
  struct stat status = {};
  if (stat(path.c_str(), &status) != 0) return nullptr;
  return {static_cast<std::uint64_t>(status.st_dev), static_cast<std::uint64_t>(status.st_ino),
          static_cast<std::int64_t>(status.st_size)};
}

std::string Summarize(const SafetensorsFile& file, const std::string& path) {
  json tensors = json::array();
  for (std::size_t i = 0; i < file.tensors().size(); ++i) {
    const TensorBytes& tensor = file.tensors()[i];
    tensors.push_back(
        {tensor.info.name, tensor.info.dtype, tensor.info.shape, file.hash(i), tensor.size});
  }
  return json{{"path", path},
              {"identity", IdentityOf(path)},
              {"metadata", file.metadata()},
              {"tensors", tensors}}
      .dump();
}

bool OnNodeOf(const Context& ctx, int source_node) {
  return ctx.rank() - ctx.local_rank() == source_node;
}

// The share of a state's tensors that one of `ranks` ranks checks: about as many bytes for each.
void VerifyShare(const SafetensorsFile& file, std::size_t rank, std::size_t ranks) {
  std::size_t total = 0;
  for (const TensorBytes& tensor : file.tensors()) total += tensor.size;
  std::size_t before = 0;
  for (std::size_t i = 0; i < file.tensors().size(); ++i) {
    const std::size_t size = file.tensors()[i].size;
    // By the tensor's middle; the last byte belongs to the last rank.
    const std::size_t owner = total == 0 ? 0 : (before + size / 2) * ranks / (total + 1);
    if (owner == rank) file.Verify(i);
    before += size;
  }
}

}  // namespace

std::optional<FoundState> FindState(const Context& ctx, const WhereToLook& where) {
  const int source = where.source;
  const bool leads = ctx.rank() == source;
  std::string problem;
  std::optional<CheckpointSearch> search;
  try {
    if (leads) search.emplace(source, where.folders, where.highest_step);
  } catch (const CheckpointError& e) {
    problem = e.what();
  }
  throw_if_any_failed(ctx, problem);
  const int source_node = static_cast<int>(
      all_reduce_sum(ctx, std::int64_t{leads ? ctx.rank() - ctx.local_rank() : 0}));

  for (;;) {
    std::string text;
    while (leads && text.empty() && search->Next()) {
      if (!where.allows(search->file().metadata())) continue;
      text = Summarize(search->file(), search->path());
    }
    text = broadcast(ctx, text, source);
    if (text.empty()) return std::nullopt;
    const json summary = json::parse(text);

    FoundState found;
    found.source = source;
    found.path = summary["path"];
    if (!leads && OnNodeOf(ctx, source_node) && IdentityOf(found.path) == summary["identity"]) {
      try {
        found.file = std::make_unique<SafetensorsFile>(
            SafetensorsFile::Open(found.path, SafetensorsFile::Check::kStructure));
      } catch (const FormatError&) {
        // Somebody else's rank then.
      }
    }
    const bool reads = leads || found.file != nullptr;
    const std::vector<torch::Tensor> readers =
        all_gather(ctx, torch::tensor({reads ? 1 : 0}, torch::kInt64));
    std::size_t number = 0;
    std::size_t count = 0;
    for (std::size_t rank = 0; rank < readers.size(); ++rank) {
      if (readers[rank].item<std::int64_t>() == 0) continue;
      if (rank < static_cast<std::size_t>(ctx.rank())) ++number;
      ++count;
    }
    std::string verdict = reads ? kGood : kNotHere;
    try {
      if (reads) VerifyShare(leads ? search->file() : *found.file, number, count);
    } catch (const DamagedError& e) {
      verdict = e.what();
    }
    std::string damage;
    for (const std::string& one : all_gather_object(ctx, verdict)) {
      if (damage.empty() && one != kGood && one != kNotHere) damage = one;
    }
    if (!damage.empty()) {
      if (leads) search->SetAside(damage);
      continue;
    }

    if (leads) found.file = search->Take();
    found.metadata = summary["metadata"].get<Metadata>();
    for (const json& entry : summary["tensors"]) {
      found.tensors.push_back({{entry[0], entry[1], entry[2]}, entry[3], entry[4]});
    }
    return found;
  }
}

}  // namespace ddp::internal

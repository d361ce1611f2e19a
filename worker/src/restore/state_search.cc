#include "worker/src/restore/state_search.h"

#include <ddp/collectives.h>
#include <ddp/errors.h>
#include <ddp/gather.h>
#include <sys/stat.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "worker/src/group/failure.h"
#include "worker/src/restore/state_sink.h"

namespace ddp::internal {
namespace {

using nlohmann::json;

// What tells a file from another one of the same name on another node; null if there is none.
json IdentityOf(const std::string& path) {
  struct stat status = {};
  if (stat(path.c_str(), &status) != 0) return nullptr;
  return {static_cast<std::uint64_t>(status.st_dev), static_cast<std::uint64_t>(status.st_ino),
          static_cast<std::int64_t>(status.st_size)};
}

}  // namespace

StateSearch::StateSearch(const Context& ctx, WhereToLook where)
    : ctx_(ctx), where_(std::move(where)) {
  std::string problem;
  try {
    if (Leads()) files_.emplace(ctx.rank(), where_.folders, where_.highest_step);
  } catch (const CheckpointError& e) {
    problem = e.what();
  }
  throw_if_any_failed(ctx, problem);
}

// What the other ranks must know of the source's next file, as text; empty: there is none.
std::string StateSearch::Propose() {
  for (bool usable = false; !usable;) {
    if (!files_->Next()) return "";
    if (!where_.allows(files_->file().metadata())) continue;
    try {
      mapped_ = MappedFile(files_->path());
      usable = true;
    } catch (const FormatError& e) {
      Warn(ctx_.rank(), "skipping checkpoint " + files_->path() + ": " + e.what() +
                            ". It is left as it is; looking for an older one");
    }
  }
  const SafetensorsFile& file = files_->file();
  std::size_t bytes = 0;
  json tensors = json::array();
  for (std::size_t i = 0; i < file.tensors().size(); ++i) {
    const TensorBytes& tensor = file.tensors()[i];
    bytes += tensor.size;
    tensors.push_back(
        {tensor.info.name, tensor.info.dtype, tensor.info.shape, file.hash(i), tensor.size});
  }
  const json identity = IdentityOf(files_->path());
  const std::int64_t size = identity.is_null() ? 0 : identity[2].get<std::int64_t>();
  return json{{"path", files_->path()},
              {"identity", identity},
              {"node", ctx_.rank() - ctx_.local_rank()},
              {"offset", static_cast<std::size_t>(size) - bytes},
              {"last", !files_->MayHaveMore()},
              {"metadata", file.metadata()},
              {"tensors", tensors}}
      .dump();
}

std::optional<FoundState> StateSearch::Next() {
  for (;;) {
    const std::string text = broadcast(ctx_, Leads() ? Propose() : "", where_.source);
    if (text.empty()) return std::nullopt;
    const json summary = json::parse(text);
    FoundState found;
    found.source = where_.source;
    found.path = summary["path"];
    found.offset = summary["offset"];
    found.metadata = summary["metadata"].get<Metadata>();
    for (const json& entry : summary["tensors"]) {
      found.tensors.push_back({{entry[0], entry[1], entry[2]}, entry[3], entry[4]});
    }
    if (Leads()) {
      found.file = std::move(mapped_);
    } else if (ctx_.rank() - ctx_.local_rank() == summary["node"] &&
               !summary["identity"].is_null() && IdentityOf(found.path) == summary["identity"]) {
      try {
        found.file = MappedFile(found.path);
      } catch (const FormatError&) {
        // Of another rank, then, as on another node.
      }
    }
    if (!summary["last"]) return found;
    const std::string damage = Check(found);
    if (damage.empty()) return found;
    SetAside(damage);
  }
}

void StateSearch::SetAside(const std::string& reason) {
  if (Leads()) files_->SetAside(reason);
}

// What is wrong with the bytes, or nothing; the same on all ranks.
std::string StateSearch::Check(const FoundState& found) const {
  const std::vector<torch::Tensor> reads =
      all_gather(ctx_, torch::tensor({std::int64_t{found.bytes() != nullptr ? 1 : 0}}));
  std::size_t number = 0;  // of this rank among those that read
  std::size_t readers = 0;
  std::size_t total = 0;
  for (std::size_t rank = 0; rank < reads.size(); ++rank) {
    if (reads[rank].item<std::int64_t>() == 0) continue;
    if (rank < static_cast<std::size_t>(ctx_.rank())) ++number;
    ++readers;
  }
  for (const FoundState::Tensor& tensor : found.tensors) total += tensor.bytes;
  std::string damage;
  if (Leads() && found.bytes() == nullptr) damage = "it cannot be read";
  std::size_t before = 0;
  for (const FoundState::Tensor& tensor : found.tensors) {
    // Each rank checks about as many bytes: a tensor is whose share has its middle.
    const std::size_t owner = (before + tensor.bytes / 2) * readers / (total + 1);
    if (found.bytes() != nullptr && owner == number && damage.empty()) {
      StateSink sink({{tensor.info.name, tensor.hash, tensor.bytes, torch::Tensor()}});
      sink.Take(found.bytes() + before, tensor.bytes);
      if (!sink.damaged().empty()) damage = "tensor " + sink.damaged() + " has a wrong hash";
    }
    before += tensor.bytes;
  }
  for (const std::string& one : all_gather_object(ctx_, damage)) {
    if (!one.empty()) return one;
  }
  return "";
}

}  // namespace ddp::internal

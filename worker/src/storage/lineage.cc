#include "worker/src/storage/lineage.h"

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <utility>

#include "worker/contract/checkpoint_file.h"
#include "worker/contract/environment.h"

namespace ddp::internal {
namespace {

namespace checkpoint_file = ddprun::checkpoint_file;

std::string ValueOf(const Metadata& metadata, const char* key) {
  const auto found = metadata.find(key);
  return found == metadata.end() ? "" : found->second;
}

}  // namespace

Lineage Lineage::OfProcess(const Getenv& getenv) {
  static const std::string drawn = [] {
    std::random_device random;
    return HashText(std::uint64_t{random()} << 32 | random());
  }();
  const char* const given = getenv(ddprun::env::kJobRunId);
  Lineage lineage;
  lineage.run_ = given == nullptr ? drawn : given;
  return lineage;
}

Lineage Lineage::Of(const Metadata& metadata) {
  Lineage lineage;
  lineage.run_ = ValueOf(metadata, checkpoint_file::kRun);
  const std::string list = ValueOf(metadata, checkpoint_file::kAncestors);
  std::string_view rest = list;
  while (!rest.empty() && lineage.ancestors_.size() < checkpoint_file::kMaxAncestors) {
    const std::string_view one = rest.substr(0, rest.find(','));
    rest.remove_prefix(one.size() < rest.size() ? one.size() + 1 : one.size());
    if (!one.empty()) lineage.ancestors_.emplace_back(one);
  }
  return lineage;
}

void Lineage::Loaded(const Metadata& metadata) {
  Lineage loaded = Of(metadata);
  ancestors_ = std::move(loaded.ancestors_);
  if (loaded.run_.empty() || loaded.run_ == run_) return;
  ancestors_.insert(ancestors_.begin(), std::move(loaded.run_));
  if (ancestors_.size() > checkpoint_file::kMaxAncestors)
    ancestors_.resize(checkpoint_file::kMaxAncestors);
}

void Lineage::AddTo(Metadata* metadata) const {
  (*metadata)[checkpoint_file::kRun] = run_;
  std::string list;
  for (const std::string& one : ancestors_) list += (list.empty() ? "" : ",") + one;
  if (!list.empty()) (*metadata)[checkpoint_file::kAncestors] = list;
}

bool Lineage::MayRemove(const Metadata& metadata) const {
  const std::string run = ValueOf(metadata, checkpoint_file::kRun);
  if (run.empty()) return false;
  return run == run_ || (!ancestors_.empty() && run == ancestors_.front());
}

}  // namespace ddp::internal

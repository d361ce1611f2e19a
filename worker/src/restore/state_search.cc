#include "worker/src/restore/state_search.h"

#include <ddp/collectives.h>
#include <ddp/errors.h>
#include <ddp/gather.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "worker/src/base/in_words.h"

namespace ddp::internal {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kFirstPause{100};
constexpr milliseconds kLongestPause{2000};  // far less than the timeout of a collective

// Keys of the messages to all ranks.
constexpr char kWait[] = "wait";
constexpr char kOver[] = "over";
constexpr char kNothing[] = "nothing";

// "" for null. The path need not be UTF-8.
std::string ToText(const json& value) {
  return value.is_null() ? "" : value.dump(-1, ' ', false, json::error_handler_t::replace);
}

json ToJson(const InputFile::Identity& identity) {
  return {identity.device, identity.inode, identity.size};
}

// Null: this rank cannot open the file, or the name means another file on this node.
std::shared_ptr<InputFile> OpenSame(const std::string& path, const json& identity) {
  try {
    auto file = std::make_shared<InputFile>(path);
    return ToJson(file->identity()) == identity ? file : nullptr;
  } catch (const FormatError&) {
    return nullptr;
  }
}

}  // namespace

StateSearch::StateSearch(const Context& ctx, WhereToLook where)
    : ctx_(ctx), where_(std::move(where)) {
  if (Leads()) {
    files_.emplace(ctx.rank(), where_.folders, where_.highest_step, where_.folder_errors,
                   where_.damaged, where_.lowest_step);
  }
  if (where_.folder_errors == CheckpointSearch::FolderErrors::kCount) ListFolders();
}

std::vector<json> StateSearch::AskNodes(const std::function<json()>& look) {
  for (;;) {
    const bool asked = ctx_.local_rank() == 0 || Leads();
    const std::vector<std::string> all =
        all_gather_object(ctx_, asked ? ToText(look()) : std::string());
    std::vector<json> said(all.size());
    bool again = false;
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      if (!all[rank].empty()) said[rank] = json::parse(all[rank]);
      if (said[rank].contains(kWait)) again = true;
      if (!said[rank].contains(kOver)) continue;
      const bool is_own = static_cast<int>(rank) == ctx_.rank();
      throw StateUnreadableError(said[rank][kOver].get<std::string>(), static_cast<int>(rank),
                                 is_own);
    }
    if (!again) return said;
  }
}

// The folder of any node may hold the newest state.
void StateSearch::ListFolders() {
  AskNodes([this] {
    json mine = nullptr;
    for (const std::string& folder : where_.folders) {
      const std::optional<Unavailable> why = WhyNotListed(folder);
      if (why && mine.is_null()) mine = Postpone(*why);
    }
    return mine;
  });
}

json StateSearch::LookForDamaged() {
  if (Leads()) return nullptr;  // the source has looked already
  CheckpointSearch files(ctx_.rank(), where_.folders, where_.highest_step, where_.folder_errors,
                         {/*rename=*/false});
  switch (files.Next()) {
    case CheckpointSearch::Result::kUnavailable:
      return Postpone(files.unavailable());
    case CheckpointSearch::Result::kFound:
      if (!where_.counts_whole_files) return nullptr;
      return json::array({"rank " + std::to_string(ctx_.rank()) + ": " + files.path() +
                          ": it is not in the folder of rank 0"});
    case CheckpointSearch::Result::kNone:
      break;
  }
  std::vector<std::string> damaged;
  for (const std::string& file : files.rejected()) {
    damaged.push_back("rank " + std::to_string(ctx_.rank()) + ": " + file);
  }
  return damaged;
}

json StateSearch::Postpone(const Unavailable& what) {
  const bool hopeless = what.error == EACCES || what.error == EPERM;
  const auto now = steady_clock::now();
  const bool first = !waits_since_;
  if (first) {
    waits_since_ = now;
    pause_ = kFirstPause;
  }
  const auto waited = std::chrono::duration_cast<milliseconds>(now - *waits_since_);
  const std::string text = "rank " + std::to_string(ctx_.rank()) + ": " + what.path + ": " +
                           what.reason + " (errno " + std::to_string(what.error) + ", user id " +
                           std::to_string(geteuid()) + ")";
  if (hopeless || waited >= where_.patience) {
    return {{kOver, text + (hopeless ? "" : ", for " + Seconds(waited)) +
                        ". It may hold the newest state, so training does not begin without it. "
                        "Make it readable for this user and start again; or start with "
                        "--start-anew, to begin at step 0. Nothing was changed"}};
  }
  if (first) {
    Warn(ctx_.rank(), text + ". It may hold the newest state: training waits for it, at most " +
                          Seconds(where_.patience) + " (--state-timeout)");
  }
  std::this_thread::sleep_for(std::min(pause_, where_.patience - waited));
  pause_ = std::min(2 * pause_, kLongestPause);
  if (files_) files_->Restart();
  return {{kWait, true}};
}

// Describes the source's next file for the other ranks.
json StateSearch::Propose() {
  CheckpointSearch& files = *files_;
  for (;;) {
    switch (files.Next()) {
      case CheckpointSearch::Result::kNone:
        return {{kNothing, files.rejected()}};
      case CheckpointSearch::Result::kUnavailable:
        return Postpone(files.unavailable());
      case CheckpointSearch::Result::kFound:
        break;
    }
    if (where_.allows(files.file().metadata())) break;
  }
  const SafetensorsFile& file = files.file();
  json tensors = json::array();
  for (const StoredTensor& tensor : file.tensors()) {
    tensors.push_back(
        {tensor.info.name, tensor.info.dtype, tensor.info.shape, tensor.hash, tensor.size});
  }
  return {{"path", files.path()},
          {"identity", ToJson(file.content()->identity())},
          {"node", ctx_.rank() - ctx_.local_rank()},
          {"offset", file.tensors().empty() ? 0 : file.tensors().front().offset},
          {"provisional", files.has_put_off()},
          {"metadata", file.metadata()},
          {"tensors", tensors}};
}

std::optional<FoundState> StateSearch::Next() {
  for (;;) {
    std::string text;
    if (Leads()) text = ToText(Propose());
    const json summary = json::parse(broadcast(ctx_, text, where_.source));
    if (summary.contains(kWait)) continue;
    if (summary.contains(kOver)) {
      throw StateUnreadableError(summary[kOver].get<std::string>(), where_.source, Leads());
    }
    if (summary.contains(kNothing)) {
      rejected_ = summary[kNothing].get<std::vector<std::string>>();
      if (!where_.looks_everywhere || !rejected_.empty()) return std::nullopt;
      for (const json& said : AskNodes([this] { return LookForDamaged(); })) {
        for (const json& file : said) rejected_.push_back(file.get<std::string>());
      }
      return std::nullopt;
    }
    FoundState found;
    found.source = where_.source;
    found.path = summary["path"];
    found.offset = summary["offset"];
    found.provisional = summary["provisional"];
    found.metadata = summary["metadata"].get<Metadata>();
    for (const json& entry : summary["tensors"]) {
      found.tensors.push_back({{entry[0], entry[1], entry[2]}, entry[3], entry[4]});
    }
    if (Leads()) {
      found.file = files_->file().content();
    } else if (ctx_.rank() - ctx_.local_rank() == summary["node"]) {
      found.file = OpenSame(found.path, summary["identity"]);
    }
    return found;
  }
}

void StateSearch::SetAside(const std::string& reason) {
  if (Leads()) files_->SetAside(reason);
}

void StateSearch::PutOff(const UnavailableError& error) {
  if (Leads()) files_->PutOff(error);
}

bool StateSearch::Accept() {
  const bool accepted = Leads() && files_->Accept();
  return broadcast(ctx_, accepted ? std::string("1") : std::string("0"), where_.source) == "1";
}

}  // namespace ddp::internal

#include "worker/src/storage/set_aside.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <system_error>
#include <tuple>
#include <vector>

#include "worker/contract/checkpoint_file.h"
#include "worker/src/base/file_errors.h"
#include "worker/src/formats/safetensors.h"
#include "worker/src/storage/checkpoint_folder.h"
#include "worker/src/storage/checkpoint_name.h"
#include "worker/src/storage/lineage.h"

namespace ddp::internal {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kCorruptSuffix = ".corrupt";
constexpr int kLastNumber = 9;

bool IsAlphanumeric(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return c < 0x80 && std::isalnum(c) != 0; });
}

// True if `run` can be part of a file name and is not one of the numbers there.
bool FitsInName(std::string_view run) { return run.size() > 1 && IsAlphanumeric(run); }

struct SetAsideName {
  std::int64_t step = 0;
  std::string_view run;  // empty: of another run, or unknown
  int number = 1;
};

std::optional<SetAsideName> Parse(std::string_view name) {
  if (!name.ends_with(kCorruptSuffix)) return std::nullopt;
  name.remove_suffix(kCorruptSuffix.size());
  constexpr std::string_view kSuffix = ddprun::checkpoint_file::kSuffix;
  const std::size_t end = name.find(kSuffix);
  if (end == name.npos) return std::nullopt;
  const auto step = StepOf(name.substr(0, end + kSuffix.size()));
  if (!step) return std::nullopt;
  SetAsideName parsed{*step, {}, 1};
  for (name.remove_prefix(end + kSuffix.size()); !name.empty();) {
    if (name.front() != '.') return std::nullopt;
    name.remove_prefix(1);
    const std::string_view word = name.substr(0, name.find('.'));
    name.remove_prefix(word.size());
    if (word.size() == 1 && word[0] >= '2' && word[0] <= '9') {
      parsed.number = word[0] - '0';
    } else if (FitsInName(word) && parsed.run.empty() && parsed.number == 1) {
      parsed.run = word;
    } else {
      return std::nullopt;
    }
  }
  return parsed;
}

// True if the file's header is undamaged and names `run` as the maker.
bool IsOf(const std::string& path, const std::string& run) {
  const std::optional<Metadata> metadata = MetadataOfHeader(path);
  return metadata && Lineage::Of(*metadata).run() == run;
}

}  // namespace

bool IsSetAside(std::string_view name) { return Parse(name).has_value(); }

std::string SetAsidePath(const std::string& path, const std::string& run) {
  const std::string front = FitsInName(run) && IsOf(path, run) ? path + "." + run : path;
  const std::string end(kCorruptSuffix);
  std::string aside = front + end;
  for (int i = 2; i <= kLastNumber && NameExists(aside); ++i) {
    aside = front + "." + std::to_string(i) + end;
  }
  return aside;
}

void RemoveOldSetAside(const std::string& folder, const std::string& run) {
  if (!FitsInName(run)) return;
  std::vector<std::tuple<std::int64_t, int, std::string>> own;  // step, number, path
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename();
    const auto parsed = Parse(name);
    if (!parsed || parsed->run != run) continue;
    own.emplace_back(parsed->step, parsed->number, folder + "/" + name);
  }
  std::sort(own.rbegin(), own.rend());
  for (std::size_t i = kSetAsideKept; i < own.size(); ++i) {
    const std::string& path = std::get<2>(own[i]);
    fs::remove(path, error);
    const std::string what =
        error ? "cannot remove " + path + " (" + error.message() + ")" : "removed " + path;
    Warn(0, what + ": of this run's damaged files the two newest are kept");
  }
}

}  // namespace ddp::internal

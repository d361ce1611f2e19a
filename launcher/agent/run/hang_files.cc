#include "launcher/agent/run/hang_files.h"

#include <filesystem>
#include <map>
#include <optional>
#include <system_error>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "launcher/os/file_util.h"
#include "launcher/text/hang_text.h"

namespace ddprun {
namespace {

constexpr char kName[] = "stacks";
constexpr char kText[] = "txt";
constexpr char kJson[] = "json";

std::string PathOf(const std::string& run_folder, Generation generation, const char* kind) {
  return absl::StrCat(run_folder, "/", kName, ".", generation.value, ".", kind);
}

// nullopt: not the name of a stack file.
std::optional<int> GenerationIn(const std::string& name) {
  const std::vector<std::string> parts = absl::StrSplit(name, '.');
  int generation = 0;
  if (parts.size() != 3 || parts[0] != kName || !absl::SimpleAtoi(parts[1], &generation) ||
      (parts[2] != kText && parts[2] != kJson)) {
    return std::nullopt;
  }
  return generation;
}

// A file that cannot be removed stays; no error is reported.
void RemoveOld(const std::string& run_folder) {
  std::map<int, std::vector<std::filesystem::path>> files;
  std::error_code error;
  for (std::filesystem::directory_iterator at(run_folder, error), end; !error && at != end;
       at.increment(error)) {
    if (const auto generation = GenerationIn(at->path().filename())) {
      files[*generation].push_back(at->path());
    }
  }
  for (; files.size() > kHangsKept; files.erase(files.begin())) {
    for (const auto& path : files.begin()->second) std::filesystem::remove(path, error);
  }
}

}  // namespace

std::string HangTextPath(const std::string& run_folder, Generation generation) {
  return PathOf(run_folder, generation, kText);
}

absl::Status WriteHangFiles(const std::string& run_folder, const HangStacks& stacks,
                            const std::string& job, Generation generation) {
  absl::Status written =
      WriteFileAtomic(PathOf(run_folder, generation, kText), HangFileText(stacks));
  written.Update(WriteFileAtomic(PathOf(run_folder, generation, kJson),
                                 HangFileJson(stacks, job, generation)));
  RemoveOld(run_folder);
  return written;
}

}  // namespace ddprun

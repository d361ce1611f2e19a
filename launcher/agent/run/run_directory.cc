#include "launcher/agent/run/run_directory.h"

#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "launcher/os/file_util.h"
#include "launcher/os/local_address.h"
#include "launcher/python/python_path.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

absl::Status FolderError(const std::string& path, const std::error_code& error) {
  return absl::UnavailableError(
      absl::StrCat("cannot make the folder ", path, ": ", error.message()));
}

// `prefix` and six random characters, mode 0700.
absl::StatusOr<std::string> MakeUnique(const std::string& prefix) {
  std::string path = absl::StrCat(prefix, "XXXXXX");
  if (mkdtemp(path.data()) == nullptr) {
    return FolderError(path, std::error_code(errno, std::generic_category()));
  }
  return path;
}

}  // namespace

absl::StatusOr<RunDirectory> RunDirectory::Create(const std::string& log_dir,
                                                  const std::string& job,
                                                  std::uint32_t requeue_number) {
  RunDirectory run;
  std::error_code error;
  fs::create_directories(log_dir, error);
  if (error) return FolderError(log_dir, error);
  auto path = MakeUnique(absl::StrCat(log_dir, "/", RunPrefix(job)));
  if (!path.ok()) return path.status();
  run.path_ = *std::move(path);
  fs::permissions(run.path_, fs::perms(0755), error);  // the whole team may read logs
  auto owner = MakeLockedFile(RunOwnerFile(run.path_),
                              absl::StrCat(HostName(), "\nagent ", ::getpid(), "\n"));
  if (owner.ok()) {
    run.owner_ = *std::move(owner);
  } else {
    run.why_not_owned_ = std::string(owner.status().message());
  }

  // A Unix socket's path has at most 107 bytes; TMPDIR may be longer, or not writable.
  constexpr std::size_t kMaxTemporaryBytes = 70;
  const fs::path temporary = fs::temp_directory_path(error);
  absl::StatusOr<std::string> sockets = absl::UnavailableError("");
  if (!error && temporary.native().size() <= kMaxTemporaryBytes) {
    sockets = MakeUnique((temporary / "ddprun-").string());
  }
  if (!sockets.ok()) sockets = MakeUnique("/tmp/ddprun-");
  if (!sockets.ok()) return sockets.status();
  run.sockets_ = *std::move(sockets);

  if (auto snapshots = SnapshotFolder::Create(job, requeue_number); snapshots.ok()) {
    run.snapshots_.emplace(*std::move(snapshots));
  } else {
    run.why_no_snapshots_ = std::string(snapshots.status().message());
  }
  return run;
}

std::string RunPrefix(const std::string& job) {
  return absl::StrCat(absl::StrReplaceAll(job, {{"/", "_"}}), "_");
}

std::string RunOwnerFile(const std::string& run) { return run + "/.owner"; }

RunDirectory::RunDirectory(RunDirectory&& other) noexcept
    : path_(std::move(other.path_)),
      sockets_(std::exchange(other.sockets_, {})),
      python_path_(std::move(other.python_path_)),
      snapshots_(std::move(other.snapshots_)),
      why_no_snapshots_(std::move(other.why_no_snapshots_)),
      owner_(std::move(other.owner_)),
      why_not_owned_(std::move(other.why_not_owned_)) {
  other.snapshots_.reset();  // so that `other` removes nothing
}

RunDirectory::~RunDirectory() { RemoveTemporary(); }

absl::Status RunDirectory::AddPythonFolder(PythonHooks hooks) {
  auto entry = MakePythonFolder(sockets_ + "/python", hooks);
  if (!entry.ok()) return entry.status();
  python_path_ = *std::move(entry);
  return absl::OkStatus();
}

void RunDirectory::RemoveTemporary() {
  std::error_code ignored;  // nothing more can be done about it
  if (!sockets_.empty()) fs::remove_all(sockets_, ignored);
  if (snapshots_) snapshots_->Remove();
}

std::string RunDirectory::WorkerFolder(Generation generation, LocalRank local_rank) const {
  return absl::StrCat(path_, "/attempt_", generation.value, "/", local_rank.value);
}

std::string RunDirectory::ErrorFile(Generation generation, LocalRank local_rank) const {
  return absl::StrCat(WorkerFolder(generation, local_rank), "/error.json");
}

std::string RunDirectory::StandbyFolder(int standby) const {
  return absl::StrCat(path_, "/standby/", standby);
}

std::string RunDirectory::ForkServerFolder() const { return path_ + "/fork_server"; }

MadeFolders MakeWorkerFolders(const std::string& path, Generation generation, Rank first_rank,
                              int workers) {
  const std::string attempt = absl::StrCat(path, "/attempt_", generation.value);
  const std::string links = absl::StrCat(attempt, "/by_rank");
  std::error_code error;
  for (int i = 0; i < workers; ++i) {
    const auto failed = [&](const std::string& made) {
      const bool full = error == std::errc::no_space_on_device || error.value() == EDQUOT;
      return MadeFolders{LocalRank{i}, std::string(FolderError(made, error).message()), full};
    };
    const std::string folder = absl::StrCat(attempt, "/", i);
    fs::create_directories(folder, error);
    if (error) return failed(folder);
    fs::create_directories(links, error);
    if (error) return failed(links);
    const std::string link = absl::StrCat(links, "/", first_rank.value + i);
    fs::create_symlink(absl::StrCat("../", i), link, error);
    if (error && error != std::errc::file_exists) return failed(link);
  }
  return {};
}

void LinkStandby(const std::string& worker_folder, const std::string& folder) {
  std::error_code ignored;  // only people use the link
  fs::create_symlink(fs::path(folder).lexically_relative(worker_folder), worker_folder + "/standby",
                     ignored);
}

}  // namespace ddprun

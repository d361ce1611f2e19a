#include "launcher/python/python_path.h"

#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "launcher/os/file_util.h"
#include "launcher/python/module_source.h"

namespace ddprun {
namespace {

constexpr absl::string_view kPythonPath = "PYTHONPATH=";

absl::Status MakePrivateFolder(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot make the folder ", path));
}

}  // namespace

absl::StatusOr<std::string> MakePythonFolder(const std::string& folder, PythonHooks hooks) {
  std::error_code error;
  // In the form of Python's sys.path entries.
  const std::string path = std::filesystem::absolute(folder, error).lexically_normal();
  if (error || absl::StrContains(path, ':')) {
    return absl::FailedPreconditionError(absl::StrCat("PYTHONPATH cannot name ", folder,
                                                      "; set TMPDIR to a folder without a colon"));
  }
  const std::string site = path + "/site";
  const std::string module = path + "/module";
  const std::string package = absl::StrCat(module, "/", kPythonPackageFolder);
  absl::Status status;
  for (const std::string& made : {path, site, module, package})
    status.Update(MakePrivateFolder(made));
  status.Update(WriteFileAtomic(site + "/sitecustomize.py", kPythonSitecustomize));
  status.Update(WriteFileAtomic(module + "/ddprun.py", kPythonModule));
  for (const PythonFile& file : PythonPackage()) {
    status.Update(WriteFileAtomic(absl::StrCat(package, "/", file.name), file.text));
  }
  const auto write = [&](const char* name, const char* text) {
    status.Update(WriteFileAtomic(absl::StrCat(module, "/", name), text));
  };
  if (hooks.auto_step) write("_ddprun_auto_step.py", kPythonAutoStep);
  if (hooks.agent_store) write("_ddprun_store.py", kPythonStore);
  if (hooks.auto_step || hooks.agent_store) write("_ddprun_after_import.py", kPythonAfterImport);
  if (!status.ok()) return status;
  return site;
}

void PutOnPythonPath(const std::string& entry, std::vector<std::string>* env) {
  if (entry.empty()) return;
  for (std::string& variable : *env) {
    if (!absl::StartsWith(variable, kPythonPath)) continue;
    const std::string old = variable.substr(kPythonPath.size());
    variable = absl::StrCat(kPythonPath, entry, ":", old.empty() ? entry : old);
    return;
  }
  env->push_back(absl::StrCat(kPythonPath, entry));
}

void TakeOffPythonPath(const std::string& entry, std::vector<std::string>* env) {
  if (entry.empty()) return;
  const std::string put = absl::StrCat(kPythonPath, entry);
  for (std::string& variable : *env) {
    if (variable == absl::StrCat(put, ":", entry)) {
      variable = std::string(kPythonPath);
    } else if (absl::StartsWith(variable, put + ":")) {
      variable.erase(kPythonPath.size(), entry.size() + 1);
    }
  }
  std::erase(*env, put);
}

}  // namespace ddprun

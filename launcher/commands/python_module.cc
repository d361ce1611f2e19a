#include <cerrno>
#include <cstdio>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "launcher/commands/commands.h"
#include "launcher/os/file_util.h"
#include "launcher/python/module_file.h"
#include "launcher/python/module_source.h"

namespace ddprun {
namespace {

// nullopt: no such file.
absl::StatusOr<std::optional<std::string>> Content(const std::string& path) {
  const auto failed = [&path] {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
  };
  std::FILE* const file = std::fopen(path.c_str(), "re");
  if (file == nullptr && errno == ENOENT) return std::nullopt;
  if (file == nullptr) return failed();
  std::string content;
  char buffer[4096];
  std::size_t size = 0;
  while ((size = std::fread(buffer, 1, sizeof(buffer), file)) > 0) content.append(buffer, size);
  const absl::Status status = std::ferror(file) != 0 ? failed() : absl::OkStatus();
  std::fclose(file);
  if (!status.ok()) return status;
  return content;
}

absl::Status Write(const std::string& path, absl::string_view text) {
  const std::string module = PythonModuleFile(text, DDPRUN_VERSION);
  const auto old = Content(path);
  if (!old.ok()) return old.status();
  if (!old->has_value()) return WriteNewFileAtomic(path, module);
  if (**old == module) return absl::OkStatus();
  if (const std::string why = WhyNotReplaced(**old, DDPRUN_VERSION); !why.empty()) {
    return absl::AlreadyExistsError(absl::StrCat(path, " is left as it is: ", why));
  }
  return WriteFileAtomic(path, module);
}

// Writes the module last, so that the files it needs are there before it.
absl::Status WriteAll(const std::string& folder, const std::string& module) {
  const std::string package = absl::StrCat(folder, "/", kPythonPackageFolder);
  for (const std::string& made : {folder, package}) {
    if (const absl::Status status = MakeDirs(made); !status.ok()) return status;
  }
  for (const PythonFile& file : PythonPackage()) {
    const absl::Status written = Write(absl::StrCat(package, "/", file.name), file.text);
    if (!written.ok()) return written;
  }
  return Write(module, kPythonModule);
}

}  // namespace

int WritePythonModule(const PythonModuleCommand& command) {
  const std::string path = command.folder + "/ddprun.py";
  if (const absl::Status written = WriteAll(command.folder, path); !written.ok()) {
    std::fprintf(stderr, "ddprun python-module: %s\n", std::string(written.message()).c_str());
    return 1;
  }
  std::printf("%s\n", path.c_str());
  return 0;
}

}  // namespace ddprun

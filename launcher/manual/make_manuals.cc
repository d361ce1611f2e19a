// Writes the manual pages of ddprun to a folder, for the build: not installed.
// usage: make_manuals FOLDER VERSION DATE
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "launcher/config/host.h"
#include "launcher/manual/manuals.h"

int main(int argc, char** argv) {
  using namespace ddprun;
  if (argc != 4) {
    std::fputs("make_manuals: expected a folder, a version and a date\n", stderr);
    return 64;
  }
  const manual::Edition edition{argv[3], argv[2]};
  std::vector<manual::Manual> manuals = manual::CommandManuals(edition, PosixHost());
  manuals.push_back(manual::JobFileManual(edition));
  manuals.push_back(manual::WorkerManual(edition));
  for (const auto& [name, text] : manuals) {
    const std::string path = absl::StrCat(argv[1], "/", name);
    std::ofstream file(path);
    if (!(file << text).flush()) {
      std::fprintf(stderr, "make_manuals: %s cannot be written\n", path.c_str());
      return 1;
    }
  }
  return 0;
}

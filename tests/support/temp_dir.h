// A temporary folder for one test. The destructor removes it with everything in it.
#ifndef DDPRUN_TESTS_SUPPORT_TEMP_DIR_H_
#define DDPRUN_TESTS_SUPPORT_TEMP_DIR_H_

#include <stdlib.h>

#include <filesystem>
#include <string>

namespace ddprun {

class TempDir {
 public:
  TempDir() : path_((std::filesystem::temp_directory_path() / "ddprun-test-XXXXXX").string()) {
    if (mkdtemp(path_.data()) == nullptr) abort();
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace ddprun

#endif  // DDPRUN_TESTS_SUPPORT_TEMP_DIR_H_

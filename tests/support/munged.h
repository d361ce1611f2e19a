// A munged, the daemon of MUNGE, for one test. Its key, socket and other files are in the test's
// folder. Any user may start it. Needs Debian's package munge.
#ifndef DDPRUN_TESTS_SUPPORT_MUNGED_H_
#define DDPRUN_TESTS_SUPPORT_MUNGED_H_

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "tests/support/program.h"

namespace ddprun {

class Munged {
 public:
  // `key`: equal in all munged processes that trust each other.
  explicit Munged(const std::string& folder, const std::string& key = std::string(64, 'k'))
      : socket_(folder + "/socket"),
        program_({"/usr/sbin/munged", "--foreground", "--force", "--socket", socket_, "--key-file",
                  KeyFile(folder, key), "--log-file", folder + "/log", "--pid-file",
                  folder + "/pid", "--seed-file", folder + "/seed"}) {
    WaitForChange(folder, [&] { return access(socket_.c_str(), F_OK) == 0; });
  }
  const std::string& socket() const { return socket_; }

 private:
  static std::string KeyFile(const std::string& folder, const std::string& key) {
    mkdir(folder.c_str(), 0711);
    chmod(folder.c_str(), 0711);
    const std::string path = folder + "/key";
    std::ofstream(path) << key;
    chmod(path.c_str(), 0600);
    return path;
  }

  const std::string socket_;
  Program program_;
};

}  // namespace ddprun

#endif  // DDPRUN_TESTS_SUPPORT_MUNGED_H_

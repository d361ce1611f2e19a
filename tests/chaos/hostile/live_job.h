// A daemon with a live job, which must not notice the attacks on the daemon.
#ifndef DDPRUN_TESTS_CHAOS_HOSTILE_LIVE_JOB_H_
#define DDPRUN_TESTS_CHAOS_HOSTILE_LIVE_JOB_H_

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/job.h"

namespace ddprun {

// The daemon closes a connection without a call after a minute at the latest.
inline constexpr std::chrono::seconds kPatience{75};

// The flags of a node that has ca.crt, node.crt and node.key in this folder.
std::vector<std::string> TlsFlags(const std::string& folder);

class LiveJob {
 public:
  // `folder` exists. Returns when two agents with two workers each run. Otherwise it throws, so
  // that the processes of all jobs end during unwinding.
  LiveJob(const std::string& folder, const std::vector<std::string>& daemon_flags,
          const std::vector<std::string>& agent_flags, const std::string& host = "127.0.0.1");

  void RestartDaemon();

  const std::string& folder() const { return folder_; }
  std::string endpoint() const { return daemon_.endpoint(); }
  int port() const { return daemon_.port(); }

  // Of the daemon: the number of its open descriptors, and its resident memory.
  int Descriptors() const;
  long RssKib() const;
  // Waits until the daemon has at most `expected` open descriptors, for at most kPatience. Returns
  // their number. Polls, because the kernel sends no event when another process closes a
  // descriptor.
  int DescriptorsAtRest(int expected) const;
  std::string Log() { return daemon_.program().err(); }
  std::string Out() { return daemon_.program().out(); }

  // Ends the job. True if no attack has affected it: every agent ends with code 0, and none has
  // logged a second generation.
  bool EndsWell();

 private:
  pid_t daemon_pid() const { return const_cast<Daemon&>(daemon_).program().pid(); }

  const std::string folder_;
  Daemon daemon_;
  Job job_;
};

// A job whose certificates expire while it runs.
class BriefJob {
 public:
  // `folder` exists. `start`: how long such a job took to start on this machine.
  BriefJob(const std::string& folder, std::chrono::seconds start);

  // Waits until the certificate has expired, replaces its files, and waits until the daemon shows
  // the new certificate without a restart. Then restarts the daemon. Now the agents connect again,
  // and must show the new certificate although nobody has told them of it. False: the daemon took
  // the expired certificate, or does not show the new one.
  bool RenewInMidJob();
  bool EndsWell() { return job_->EndsWell(); }

 private:
  // The certificate is valid for this long and four times `start`: long enough for the start of the
  // job, short enough to wait for.
  static constexpr std::chrono::seconds kShortest{12};

  std::chrono::system_clock::time_point Make(const std::string& node,
                                             std::chrono::seconds lifetime) const;
  // The exit code of `ddprun status` with the same certificates.
  int Status() const;

  const std::string certificates_;
  const std::chrono::seconds lifetime_;
  std::chrono::system_clock::time_point made_;
  std::optional<LiveJob> job_;
};

}  // namespace ddprun

#endif  // DDPRUN_TESTS_CHAOS_HOSTILE_LIVE_JOB_H_

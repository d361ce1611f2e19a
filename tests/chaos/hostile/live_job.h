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

// Whatever else fails to notice it, a connection without a call is closed after a minute.
inline constexpr std::chrono::seconds kPatience{75};

// Of a node that has ca.crt, node.crt and node.key in this folder.
std::vector<std::string> TlsFlags(const std::string& folder);

class LiveJob {
 public:
  // `folder` exists. Returns when two agents with two workers each run; else throws, so that the
  // processes of all jobs end during unwinding.
  LiveJob(const std::string& folder, const std::vector<std::string>& daemon_flags,
          const std::vector<std::string>& agent_flags, const std::string& host = "127.0.0.1");

  void RestartDaemon();

  const std::string& folder() const { return folder_; }
  std::string endpoint() const { return daemon_.endpoint(); }
  int port() const { return daemon_.port(); }

  // Of the daemon.
  int Descriptors() const;
  long RssKib() const;
  // Waits until the daemon's connections are closed. Polls, because the kernel sends no event when
  // another process closes a descriptor.
  int DescriptorsAtRest(int expected) const;
  std::string Log() { return daemon_.program().err(); }
  std::string Out() { return daemon_.program().out(); }

  // The job ends as if nobody had been there: exit code 0 is generation 0.
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

  // Waits until the certificate has expired, and renews it. The daemon shows the new one without a
  // restart. After the daemon's restart the agents also show their new ones, without a notice.
  bool RenewInMidJob();
  bool EndsWell() { return job_->EndsWell(); }

 private:
  // Of the certificate: until its job runs, and no longer than a person wants to wait.
  static constexpr std::chrono::seconds kShortest{12};

  std::chrono::system_clock::time_point Make(const std::string& node,
                                             std::chrono::seconds lifetime) const;
  // The answer to an operator with the same files.
  int Status() const;

  const std::string certificates_;
  const std::chrono::seconds lifetime_;
  std::chrono::system_clock::time_point made_;
  std::optional<LiveJob> job_;
};

}  // namespace ddprun

#endif  // DDPRUN_TESTS_CHAOS_HOSTILE_LIVE_JOB_H_

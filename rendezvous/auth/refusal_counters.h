// How often a rendezvous refused something, by reason, since its start.
//
// Thread-safe. Bounded: reasons are the program's own words, never a peer's.
#ifndef DDPRUN_RENDEZVOUS_AUTH_REFUSAL_COUNTERS_H_
#define DDPRUN_RENDEZVOUS_AUTH_REFUSAL_COUNTERS_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

namespace ddprun {

// The reasons. A new one needs a word in docs/security.md.
namespace refusal {
inline constexpr char kNoProof[] = "no_proof";        // nothing, or not what is asked for
inline constexpr char kWrongProof[] = "wrong_proof";  // a token or credential that is not ours
inline constexpr char kStaleProof[] = "stale_proof";  // a challenge used, expired or not ours
inline constexpr char kRelayed[] = "relayed";         // a proof for another connection than this
inline constexpr char kTlsHandshake[] = "tls_handshake";  // no TLS, or a certificate not ours
inline constexpr char kOtherOwner[] = "other_owner";      // a job that belongs to somebody else
inline constexpr char kNotInThisJob[] =
    "not_in_this_job";                             // other settings, a requeue number that is over
inline constexpr char kMalformed[] = "malformed";  // a field out of its bounds, no Join first
inline constexpr char kNoJoin[] = "no_join";       // a session without a Join for 10 s
inline constexpr char kTooManyStreams[] = "too_many_streams";  // of one address
inline constexpr char kTooManyAgents[] = "too_many_agents";    // of one job
inline constexpr char kTooManyJobs[] = "too_many_jobs";
inline constexpr char kTooManyJobsOfOwner[] = "too_many_jobs_of_owner";
inline constexpr char kTooManyWaiting[] = "too_many_waiting";      // calls, for MUNGE
inline constexpr char kTooManyFollowers[] = "too_many_followers";  // of the events
inline constexpr char kTooManyLogReaders[] = "too_many_log_readers";
inline constexpr char kNoDescriptors[] = "no_descriptors";  // this process has too few left
}  // namespace refusal

class RefusalCounters {
 public:
  using Log = std::function<void(const std::string& text)>;
  using Clock = std::chrono::steady_clock;

  // `log` hears of the first of each kind, and then of as many as a person can read: each time the
  // number has doubled, and once a minute while there are more. May be empty; must not call back.
  explicit RefusalCounters(Log log = {});

  // `detail`: who and why, for the log.
  void Count(std::string_view reason, std::string_view detail, Clock::time_point now);
  void Count(std::string_view reason, std::string_view detail) {
    Count(reason, detail, Clock::now());
  }

  std::map<std::string, std::uint64_t> Snapshot() const;

 private:
  struct Entry {
    std::uint64_t count = 0;
    Clock::time_point logged;
  };

  const Log log_;
  mutable std::mutex mutex_;
  std::map<std::string, Entry, std::less<>> entries_;  // guarded by mutex_
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_AUTH_REFUSAL_COUNTERS_H_

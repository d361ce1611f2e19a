// Clients that speak something else than gRPC.
#ifndef DDPRUN_TESTS_CHAOS_HOSTILE_RAW_CLIENT_H_
#define DDPRUN_TESTS_CHAOS_HOSTILE_RAW_CLIENT_H_

#include <random>
#include <string>

#include "tests/chaos/hostile/live_job.h"
#include "tests/chaos/hostile/verdicts.h"

namespace ddprun {

class RawClient {
 public:
  RawClient(int port, const std::string& bytes);
  ~RawClient();
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  // Reads what there is until the server closes.
  std::string Verdict() const;

 private:
  const int fd_;
};

// What they say.
std::string HalfAPreface();
std::string HttpWithoutACall();
// A call of a method that anybody may make, with the first bytes of its request, of a hundred.
std::string HalfACall();
std::string HalfAClientHello();

// Bytes that are no gRPC.
void Nonsense(const LiveJob& job, const std::string& kind, std::mt19937_64& random,
              Verdicts& verdicts);

}  // namespace ddprun

#endif  // DDPRUN_TESTS_CHAOS_HOSTILE_RAW_CLIENT_H_

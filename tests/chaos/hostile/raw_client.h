// Clients that do not speak gRPC.
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

  // Reads until the server closes the connection: "closed". "open": not within kPatience.
  std::string Verdict() const;

 private:
  const int fd_;
};

// The bytes that the clients send.
std::string HalfAPreface();
std::string HttpWithoutACall();
// A call of a method that needs no credentials. It announces a request of a hundred bytes, and
// sends four of them.
std::string HalfACall();
std::string HalfAClientHello();

// Sends bytes that are not gRPC.
void Nonsense(const LiveJob& job, const std::string& kind, std::mt19937_64& random,
              Verdicts& verdicts);

}  // namespace ddprun

#endif  // DDPRUN_TESTS_CHAOS_HOSTILE_RAW_CLIENT_H_

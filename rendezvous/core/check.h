// DDPRUN_CHECK: for invariants of ddprun itself. A failed check is a bug: it prints `message` and
// aborts the process.
#ifndef DDPRUN_RENDEZVOUS_CORE_CHECK_H_
#define DDPRUN_RENDEZVOUS_CORE_CHECK_H_

#include <cstdio>
#include <cstdlib>

#define DDPRUN_CHECK(condition, message)                                                     \
  do {                                                                                       \
    if (!(condition)) {                                                                      \
      std::fprintf(stderr, "%s:%d: bug in ddprun: %s: %s\n", __FILE__, __LINE__, #condition, \
                   message);                                                                 \
      std::abort();                                                                          \
    }                                                                                        \
  } while (false)

#endif  // DDPRUN_RENDEZVOUS_CORE_CHECK_H_

// For our own invariants: a broken one is a bug, and it ends the process loudly.
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

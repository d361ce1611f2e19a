// The expected verdict and the actual verdicts on each kind of client. A verdict is the way in
// which the server ended the client's try, as text.
#ifndef DDPRUN_TESTS_CHAOS_HOSTILE_VERDICTS_H_
#define DDPRUN_TESTS_CHAOS_HOSTILE_VERDICTS_H_

#include <map>
#include <string>

namespace ddprun {

struct Verdicts {
  std::map<std::string, std::map<std::string, int>> got;  // by kind and verdict
  std::map<std::string, std::string> expected;            // by kind

  void Add(const std::string& kind, const std::string& want, const std::string& verdict);
  void AddAll(const Verdicts& others);
  // Prints a table. Returns true if all verdicts are right.
  bool Print() const;
};

}  // namespace ddprun

#endif  // DDPRUN_TESTS_CHAOS_HOSTILE_VERDICTS_H_

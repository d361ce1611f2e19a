#include "tests/chaos/hostile/verdicts.h"

#include <cstdio>

namespace ddprun {

void Verdicts::Add(const std::string& kind, const std::string& want, const std::string& verdict) {
  expected[kind] = want;
  ++got[kind][verdict];
}

void Verdicts::AddAll(const Verdicts& others) {
  for (const auto& [kind, verdicts] : others.got) {
    expected[kind] = others.expected.at(kind);
    for (const auto& [verdict, count] : verdicts) got[kind][verdict] += count;
  }
}

bool Verdicts::Print() const {
  bool right = true;
  int total = 0;
  for (const auto& [kind, verdicts] : got) {
    for (const auto& [verdict, count] : verdicts) {
      const bool ok = verdict == expected.at(kind);
      right = right && ok;
      total += count;
      std::printf("%-44s %-20s %5d%s\n", kind.c_str(), verdict.c_str(), count,
                  ok ? "" : ("   WRONG, expected " + expected.at(kind)).c_str());
    }
  }
  std::printf("%-44s %-20s %5d\n", "total", "", total);
  return right;
}

}  // namespace ddprun

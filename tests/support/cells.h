// For tests of every cell of states × events. An event without a row of its own gets a row with its
// default values, so no event is forgotten.
#ifndef DDPRUN_TESTS_SUPPORT_CELLS_H_
#define DDPRUN_TESTS_SUPPORT_CELLS_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_split.h"

namespace ddprun {

// "StepReported"
template <class T>
std::string NameOfType() {
  const std::string name = testing::internal::GetTypeName<T>();
  return name.substr(name.rfind(':') + 1);
}

// Calls add(name, value) for each alternative of the variant that has no row. An alternative has a
// row if its name is a word in the name of one of `rows`. Alternatives in `sent_otherwise` have
// rows under other names.
template <class... Alternatives, class Rows, class Add>
void ForEachWithoutRow(const std::variant<Alternatives...>& /*of_type*/, const Rows& rows,
                       const std::vector<std::string>& sent_otherwise, Add add) {
  std::vector<std::string> named = sent_otherwise;
  for (const auto& row : rows) {
    for (const absl::string_view word : absl::StrSplit(row.name, absl::ByAnyChar(" ,"))) {
      named.emplace_back(word);
    }
  }
  const auto consider = [&](const auto& value, const std::string& name) {
    if (std::find(named.begin(), named.end(), name) == named.end()) add(name, value);
  };
  (consider(Alternatives{}, NameOfType<Alternatives>()), ...);
}

}  // namespace ddprun

#endif  // DDPRUN_TESTS_SUPPORT_CELLS_H_

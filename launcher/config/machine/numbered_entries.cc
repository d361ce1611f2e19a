#include "launcher/config/machine/numbered_entries.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"

namespace ddprun {

std::optional<int> NumberOf(absl::string_view text) {
  int number = 0;
  const bool is_number =
      !text.empty() && std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
  if (!is_number || !absl::SimpleAtoi(text, &number)) return std::nullopt;
  return number;
}

std::vector<int> Numbered(const std::string& folder, absl::string_view prefix) {
  std::vector<int> numbers;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    absl::string_view rest = name;
    if (!absl::ConsumePrefix(&rest, prefix)) continue;
    if (const auto number = NumberOf(rest)) numbers.push_back(*number);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

}  // namespace ddprun

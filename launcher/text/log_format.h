// Formats a worker's lines for the console: prefix, colour and carriage returns. Pure; any thread.
#ifndef DDPRUN_LAUNCHER_TEXT_LOG_FORMAT_H_
#define DDPRUN_LAUNCHER_TEXT_LOG_FORMAT_H_

#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

// What the console's file supports; a pipe or a regular file supports neither.
struct ConsoleStyle {
  bool terminal = false;  // obeys cursor movements, so progress bars can be drawn
  bool colour = false;
};

// `is_terminal`: from isatty(). `term`, `no_color`: the variables TERM and NO_COLOR; "": not set. A
// terminal without a name, or "dumb", counts as a pipe. Any value of NO_COLOR turns off only the
// colours.
ConsoleStyle StyleFor(bool is_terminal, std::string_view term, std::string_view no_color);

// {0, 1, 2, 5} → "0-2,5". `ranks` is sorted, without duplicates.
std::string FormatRanks(const std::vector<int>& ranks);

// The default template and the variable that replaces it, as in torchrun.
inline constexpr std::string_view kDefaultPrefixTemplate = "[${role_name}${rank}]:";
inline constexpr char kPrefixTemplateVariable[] = "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE";

struct PrefixValues {
  std::string role_name;
  std::string rank;        // one or a set: "3", "0-7"
  std::string local_rank;  // likewise
};

// Replaces ${role_name}, ${rank} and ${local_rank}, or $role_name and so on; $$ becomes $. Other
// names stay unchanged. These are the rules of Python's Template, which torchrun applies to this
// text.
std::string ExpandPrefix(std::string_view text, const PrefixValues& values);

// `prefix` in the colour of this rank. The palette has six colours without red.
std::string ColourPrefix(std::string_view prefix, int rank);

// A line with carriage returns as a terminal shows it: "\r 10%\r 20%\r" → " 20%". `line` has no
// newline.
std::string_view AfterCarriageReturn(std::string_view line);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_TEXT_LOG_FORMAT_H_

#include "launcher/text/log_lines.h"

#include "absl/strings/str_cat.h"

namespace ddprun {

std::string LogPrefix(const LogSource& source) {
  return absl::StrCat("[", source.rank.value,
                      source.stream == LogStream::kStderr ? " stderr]:" : "]:");
}

std::string LogLines::Add(const LogSource& source, std::string_view text) {
  if (!options_.prefixed && !options_.wanted) return std::string(text);
  std::string& line = unfinished_[source];
  std::string shown;
  for (;;) {
    const std::size_t newline = text.find('\n');
    const bool ends = newline != std::string_view::npos;
    line.append(text.substr(0, newline));
    if (!ends && line.size() < kMaxLineBytes) return shown;
    Show(source, line, &shown);
    line.clear();
    if (!ends) return shown;
    text.remove_prefix(newline + 1);
  }
}

std::string LogLines::End(const LogSource& source) {
  std::string shown;
  const auto line = unfinished_.extract(source);
  if (!line.empty() && !line.mapped().empty()) Show(source, line.mapped(), &shown);
  return shown;
}

void LogLines::Show(const LogSource& source, std::string_view line, std::string* shown) const {
  if (options_.wanted && !options_.wanted(line)) return;
  if (options_.prefixed) shown->append(LogPrefix(source));
  shown->append(line).append("\n");
}

}  // namespace ddprun

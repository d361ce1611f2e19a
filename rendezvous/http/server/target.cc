#include "rendezvous/http/server/target.h"

#include <charconv>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"

namespace ddprun::http {
namespace {

enum class Plus { kIsItself, kIsSpace };

std::optional<std::string> Decode(std::string_view text, Plus plus) {
  std::string decoded;
  for (std::size_t at = 0; at < text.size(); ++at) {
    char c = text[at];
    if (c == '%') {
      if (text.size() - at < 3) return std::nullopt;
      const char* const digits = text.data() + at + 1;
      unsigned char byte = 0;
      if (std::from_chars(digits, digits + 2, byte, 16).ptr != digits + 2) return std::nullopt;
      c = static_cast<char>(byte);
      at += 2;
    } else if (c == '+' && plus == Plus::kIsSpace) {
      c = ' ';
    }
    if (absl::ascii_iscntrl(c)) return std::nullopt;
    decoded += c;
  }
  return decoded;
}

bool LeavesItsFolder(const std::string& path) {
  const std::vector<std::string> parts = absl::StrSplit(path, '/');
  for (const std::string& part : parts) {
    if (part == "." || part == "..") return true;
  }
  return false;
}

}  // namespace

std::optional<Target> ParseTarget(std::string_view text) {
  if (text.empty() || text.front() != '/') return std::nullopt;
  const std::size_t fragment = text.find('#');
  if (fragment != std::string_view::npos) text = text.substr(0, fragment);
  const std::size_t question = text.find('?');
  auto path = Decode(text.substr(0, question), Plus::kIsItself);
  if (!path || LeavesItsFolder(*path)) return std::nullopt;
  Target target{*std::move(path)};
  if (question == std::string_view::npos) return target;
  std::string_view rest = text.substr(question + 1);
  while (!rest.empty()) {
    const std::string_view pair = rest.substr(0, rest.find('&'));
    rest.remove_prefix(pair.size() < rest.size() ? pair.size() + 1 : pair.size());
    if (pair.empty()) continue;
    const std::size_t equals = pair.find('=');
    const auto name = Decode(pair.substr(0, equals), Plus::kIsSpace);
    const auto value = equals == std::string_view::npos
                           ? std::string()
                           : Decode(pair.substr(equals + 1), Plus::kIsSpace);
    if (!name || !value) return std::nullopt;
    target.query[*name] = *value;
  }
  return target;
}

}  // namespace ddprun::http

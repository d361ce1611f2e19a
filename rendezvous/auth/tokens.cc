#include "rendezvous/auth/tokens.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "rendezvous/auth/secret_file.h"
#include "rendezvous/auth/transcript.h"

namespace ddprun::auth {
namespace {

constexpr std::size_t kLeastBytes = 16;
constexpr std::size_t kMostBytes = 1024;

bool IsName(absl::string_view text) {
  return !text.empty() && text.size() <= kMaxNameBytes &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return absl::ascii_isalnum(c) || c == '_' || c == '.' || c == '@' || c == '-';
         });
}

}  // namespace

absl::StatusOr<std::vector<Token>> ParseTokens(std::string_view text, const std::string& place) {
  std::vector<Token> tokens;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(absl::string_view(text.data(), text.size()), '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line.front() == '#') continue;
    const auto refused = [&](absl::string_view why) {
      return absl::InvalidArgumentError(absl::StrCat(place, ":", number, ": ", why));
    };
    Token token;
    if (const std::size_t colon = line.find(':'); colon != absl::string_view::npos) {
      const absl::string_view name = absl::StripAsciiWhitespace(line.substr(0, colon));
      if (!IsName(name)) {
        return refused("expected TOKEN or NAME:TOKEN, the name 1 to 64 letters, digits and _.@-");
      }
      token.name = std::string(name);
      line = absl::StripAsciiWhitespace(line.substr(colon + 1));
    }
    if (line.size() < kLeastBytes || line.size() > kMostBytes) {
      return refused(absl::StrCat("expected a token of ", kLeastBytes, " to ", kMostBytes,
                                  " bytes (found ", line.size(),
                                  "); openssl rand -hex 32 makes a good one"));
    }
    token.secret = std::string(line);
    for (const Token& other : tokens) {
      if (other.name == token.name) {
        return refused(absl::StrCat("a second token named ", token.name,
                                    "; write NAME:TOKEN with a name of its own"));
      }
    }
    tokens.push_back(std::move(token));
  }
  if (tokens.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        place, ": expected a token (found none); openssl rand -hex 32 makes a good one"));
  }
  return tokens;
}

absl::StatusOr<std::vector<Token>> LoadTokens(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadCredentialFile("token file", path, Readers::kOwner);
  if (!text.ok()) return text.status();
  return ParseTokens(*text, absl::StrCat("token file ", path));
}

}  // namespace ddprun::auth

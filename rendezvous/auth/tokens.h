// Token files: one secret a line, as `TOKEN` or `NAME:TOKEN`; empty lines and lines that begin with
// # are skipped. `openssl rand -hex 32` makes a token.
#ifndef DDPRUN_RENDEZVOUS_AUTH_TOKENS_H_
#define DDPRUN_RENDEZVOUS_AUTH_TOKENS_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace ddprun::auth {

struct Token {
  std::string name = "token";  // 1–64 letters, digits and _.@-
  std::string secret;          // 16–1024 bytes
};

// At least one token; all names differ. Errors name `place` (the file) and the line, not the
// secret.
absl::StatusOr<std::vector<Token>> ParseTokens(std::string_view text, const std::string& place);

// The same, from a file that others cannot read (secret_file.h).
absl::StatusOr<std::vector<Token>> LoadTokens(const std::string& path);

}  // namespace ddprun::auth

#endif  // DDPRUN_RENDEZVOUS_AUTH_TOKENS_H_

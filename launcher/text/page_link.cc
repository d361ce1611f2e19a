#include "launcher/text/page_link.h"

#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace ddprun {
namespace {

std::string Escaped(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.') {
      escaped += c;
    } else {
      absl::StrAppendFormat(&escaped, "%%%02X", static_cast<unsigned char>(c));
    }
  }
  return escaped;
}

}  // namespace

std::string PageUrl(bool tls, const std::string& endpoint, const std::string& code,
                    const std::string& job) {
  return absl::StrCat(tls ? "https://" : "http://", endpoint, "/#code=", Escaped(code),
                      job.empty() ? "" : absl::StrCat("&job=", Escaped(job)));
}

std::string Fingerprint(const std::string& hexadecimal) {
  std::string text;
  for (std::size_t at = 0; at < hexadecimal.size(); ++at) {
    if (at > 0 && at % 2 == 0) text += ':';
    text += absl::ascii_toupper(static_cast<unsigned char>(hexadecimal[at]));
  }
  return text;
}

}  // namespace ddprun

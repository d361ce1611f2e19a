#include "rendezvous/http/server/response_text.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace ddprun::http {
namespace {

struct StatusName {
  int status;
  const char* name;
};
constexpr StatusName kStatusNames[] = {
    {200, "OK"},
    {204, "No Content"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {413, "Content Too Large"},
    {415, "Unsupported Media Type"},
    {421, "Misdirected Request"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {503, "Service Unavailable"},
};

std::string_view NameOf(int status) {
  for (const StatusName& row : kStatusNames) {
    if (row.status == status) return row.name;
  }
  return "Other";
}

// Removes line breaks, so that a value cannot begin another header.
std::string OneLine(std::string value) {
  std::replace_if(value.begin(), value.end(), absl::ascii_iscntrl, ' ');
  return value;
}

// Headers of every answer. They keep browsers from showing it inside another site's page, from
// caching it, and from treating it as another type.
constexpr std::string_view kOfAll =
    "X-Content-Type-Options: nosniff\r\n"
    "X-Frame-Options: DENY\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "Cross-Origin-Resource-Policy: same-origin\r\n"
    "Cache-Control: no-store\r\n";

}  // namespace

std::string ResponseText(const Response& response, ResponseForm form, std::int64_t unix_seconds) {
  const std::string date = absl::FormatTime(
      "%a, %d %b %Y %H:%M:%S GMT", absl::FromUnixSeconds(unix_seconds), absl::UTCTimeZone());
  const bool keep_alive = form.keep_alive && form.end == BodyEnd::kLength;
  std::string text =
      absl::StrCat("HTTP/1.1 ", response.status, " ", std::string(NameOf(response.status)),
                   "\r\nDate: ", date, "\r\n", std::string(kOfAll));
  if (!response.content_type.empty()) {
    absl::StrAppend(&text, "Content-Type: ", OneLine(response.content_type), "\r\n");
  }
  if (form.end == BodyEnd::kLength) {
    absl::StrAppend(&text, "Content-Length: ", response.body.size(), "\r\n");
  }
  for (const auto& [name, value] : response.headers) {
    absl::StrAppend(&text, OneLine(name), ": ", OneLine(value), "\r\n");
  }
  absl::StrAppend(&text, "Connection: ", keep_alive ? "keep-alive" : "close", "\r\n\r\n");
  if (!form.without_body) text += response.body;
  return text;
}

}  // namespace ddprun::http

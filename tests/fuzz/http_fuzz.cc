// Any bytes on a connection are a request or are refused, however they are cut into pieces. An
// accepted request has a path without tricks ("..", encoded slashes), and stays within its bounds.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "rendezvous/http/server/request_reader.h"
#include "tests/fuzz/require.h"

namespace ddprun::http {
namespace {

constexpr RequestReader::Limits kLimits{1024, 512};
constexpr int kMostRequests = 64;

std::string Describe(const Request& request) {
  std::string text = request.method + " " + request.target_path + "\n";
  for (const auto& [name, value] : request.query) text += name + "=" + value + "\n";
  for (const auto& [name, value] : request.headers) text += name + ": " + value + "\n";
  return text + request.body;
}

void CheckBounds(const Request& request, const std::string& input) {
  Require(!request.target_path.empty() && request.target_path.front() == '/',
          "a path begins with a slash", input);
  const std::string path = request.target_path + "/";
  Require(path.find("/../") == std::string::npos && path.find("/./") == std::string::npos,
          "a path stays in its folder", input);
  for (const char c : request.target_path) {
    Require(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f, "a path is printable", input);
  }
  Require(request.body.size() <= kLimits.body, "a body stays within its bound", input);
  Require(request.headers.count("host") == 1, "a request has a Host", input);
}

// All requests of these bytes, read `piece` bytes at a time. The bytes after the requests are
// refused or wait for more bytes: Beast may refuse a wrong line before its end or after it.
std::string ReadAll(const std::string& input, std::size_t piece) {
  RequestReader reader(kLimits);
  std::string text;
  int requests = 0;
  for (std::size_t at = 0; at < input.size(); at += piece) {
    auto state = reader.Take(std::string_view(input).substr(at, piece));
    while (state == RequestReader::State::kDone) {
      bool keep_alive = false;
      const Request request = reader.Release(&keep_alive);
      CheckBounds(request, input);
      text += Describe(request) + (keep_alive ? "\nagain\n" : "\nlast\n");
      if (++requests == kMostRequests) return text;
      state = reader.Take("");
    }
    if (state == RequestReader::State::kBad) {
      Require(reader.bad_status() >= 400 && reader.bad_status() < 500, "a refusal has its status",
              input);
      Require(!reader.bad_text().empty(), "a refusal has its reason", input);
      return text + "rest\n";
    }
  }
  return text + "rest\n";
}

}  // namespace
}  // namespace ddprun::http

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string input(reinterpret_cast<const char*>(data), size);
  const std::string whole = ddprun::http::ReadAll(input, input.size() + 1);
  ddprun::Require(ddprun::http::ReadAll(input, 1) == whole, "pieces make no difference", input);
  return 0;
}

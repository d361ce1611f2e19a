// How the values of keys and flags are written: from text and back. Pure. Each Parse function takes
// the whole of `text` or returns nullopt; the caller knows the name of the key and writes the
// error.
#ifndef DDPRUN_LAUNCHER_CONFIG_VALUES_H_
#define DDPRUN_LAUNCHER_CONFIG_VALUES_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "launcher/config/job_config.h"

namespace ddprun {

// Decimal digits, nothing else: "3", not "+3", " 3" or "3.0".
std::optional<std::int64_t> ParseWholeNumber(absl::string_view text);

// true/false, yes/no, on/off, 1/0; case does not matter. For variables and `--switch=value`; a job
// file takes true and false only.
std::optional<bool> ParseSwitch(absl::string_view text);

// A whole number and its unit: 10s, 500ms, 5min, 2h; 0 needs none.
std::optional<std::chrono::milliseconds> ParseDuration(absl::string_view text);

// In the largest unit that loses nothing: 90s, 2h, 1500ms.
// Whole milliseconds of it.
std::string FormatDuration(std::chrono::nanoseconds duration);

// Bytes: a whole number and its unit, KiB, MiB, GiB or TiB; 0 needs none.
std::optional<std::int64_t> ParseSize(absl::string_view text);

// In the largest unit that loses nothing: 64MiB, 1536KiB. Of what ParseSize() returns.
std::string FormatSize(std::int64_t bytes);

// N, or MIN:MAX with MIN not above MAX. The range of each is the caller's to check.
std::optional<NodesConfig> ParseNodes(absl::string_view text);
std::string FormatNodes(const NodesConfig& nodes);

struct Endpoint {
  std::string host;  // without the brackets of an IPv6 address
  int port = 0;
};

// HOST:PORT, [IPV6]:PORT, or, where `default_port` is given, HOST alone. The port is from
// `min_port` to kMaxPort.
std::optional<Endpoint> ParseEndpoint(absl::string_view text, int min_port,
                                      std::optional<int> default_port);
std::string FormatEndpoint(const Endpoint& endpoint);

// So many rendezvous may stand for one another.
inline constexpr std::size_t kMaxEndpoints = 9;

// One or several of the above with commas, each once and with its port: "h1:29400,h2:29400".
std::optional<std::string> ParseEndpoints(absl::string_view text, int min_port,
                                          std::optional<int> default_port);
// What it is made of. A Unix socket is one.
std::vector<std::string> SplitEndpoints(absl::string_view endpoints);

// Splits as a shell would, without its expansions: white space separates words, '...' is literal,
// "..." takes \" and \\, a backslash elsewhere makes the next character literal. $, * and # mean
// nothing here. nullopt: a quote that is not closed, or a backslash at the end.
std::optional<std::vector<std::string>> SplitCommand(absl::string_view text);

// 1 to 128 letters, digits and _ . : @ + = -, starting with a letter, a digit or _. Names of jobs
// and roles are part of file names and of log lines.
bool IsName(absl::string_view text);

// Looks like a host name or an IP address (IPv6 without brackets); it is not resolved.
bool IsAddress(absl::string_view text);

// What a shell takes as the name of a variable.
bool IsVariableName(absl::string_view text);

// `text` in quotes for an error message, with control characters escaped, cut after 80 bytes.
std::string Quoted(absl::string_view text);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_VALUES_H_

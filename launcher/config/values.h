// Parses and formats the values of keys and flags. Pure. If a Parse function cannot use the whole
// `text`, it returns nullopt; the caller knows the key's name and writes the error.
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

// Only decimal digits: "3", not "+3", " 3" or "3.0".
std::optional<std::int64_t> ParseWholeNumber(absl::string_view text);

// true/false, yes/no, on/off, 1/0, in upper or lower case. For variables and `--switch=value`; a
// job file accepts only true and false.
std::optional<bool> ParseSwitch(absl::string_view text);

// A whole number and a unit: 10s, 500ms, 5min, 2h; 0 needs no unit.
std::optional<std::chrono::milliseconds> ParseDuration(absl::string_view text);

// In the largest exact unit: 90s, 2h, 1500ms. Parts of a millisecond are dropped.
std::string FormatDuration(std::chrono::nanoseconds duration);

// Bytes: a whole number and a unit, KiB, MiB, GiB or TiB; 0 needs no unit.
std::optional<std::int64_t> ParseSize(absl::string_view text);

// In the largest exact unit: 64MiB, 1536KiB. `bytes`: a result of ParseSize().
std::string FormatSize(std::int64_t bytes);

// N, or MIN:MAX with MIN ≤ MAX. The caller checks the range.
std::optional<NodesConfig> ParseNodes(absl::string_view text);
std::string FormatNodes(const NodesConfig& nodes);

struct Endpoint {
  std::string host;  // without the brackets of an IPv6 address
  int port = 0;
};

// HOST:PORT, [IPV6]:PORT or, if `default_port` is given, HOST alone. The port is from `min_port` to
// kMaxPort.
std::optional<Endpoint> ParseEndpoint(absl::string_view text, int min_port,
                                      std::optional<int> default_port);
std::string FormatEndpoint(const Endpoint& endpoint);

// How many rendezvous may share an etcd.
inline constexpr std::size_t kMaxEndpoints = 9;

// One endpoint, or several different ones with commas. The result has a port for each:
// "h1:29400,h2:29400".
std::optional<std::string> ParseEndpoints(absl::string_view text, int min_port,
                                          std::optional<int> default_port);
// The parts of an endpoint list. A Unix socket is one part.
std::vector<std::string> SplitEndpoints(absl::string_view endpoints);

// Splits like a shell, without expansions. White space separates words. '...' is literal, and "..."
// interprets \" and \\. Outside quotes a backslash makes the next character literal. $, * and #
// have no meaning. nullopt: an unclosed quote, or a backslash at the end.
std::optional<std::vector<std::string>> SplitCommand(absl::string_view text);

// 1 to 128 letters, digits and _ . : @ + = -, starting with a letter, a digit or _. Names of jobs
// and roles are used in file names and log lines.
bool IsName(absl::string_view text);

// Has the form of a host name or an IP address (IPv6 without brackets). Does not resolve it.
bool IsAddress(absl::string_view text);

// A valid name of a shell variable.
bool IsVariableName(absl::string_view text);

// `text` in quotes, for error messages: control characters escaped, cut after 80 bytes.
std::string Quoted(absl::string_view text);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_VALUES_H_

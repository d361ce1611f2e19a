// The table of all settings of a job. The loader of job files, the flags, the printed job and the
// JSON Schema use it. So a new key is one row: in job_keys.cc, or in kubernetes/kubernetes_keys.cc
// for the section `kubernetes`. After that, `DDPRUN_REWRITE=1 config_test` writes the schema. Pure.
#ifndef DDPRUN_LAUNCHER_CONFIG_JOB_KEYS_H_
#define DDPRUN_LAUNCHER_CONFIG_JOB_KEYS_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "launcher/config/job_draft.h"
#include "rendezvous/core/types.h"

namespace ddprun {

enum class KeyType {
  kBoolean,
  kInteger,      // min..max
  kName,         // see IsName()
  kAddress,      // a host name or an IP address; "": none
  kPath,         // relative to the current directory, as on the command line; "": none
  kDuration,     // min..max milliseconds
  kNumbers,      // whole numbers, each min..max: a list, or text with commas; "": none
  kEndpoint,     // host:port; "": none
  kEndpoints,    // one host:port, or several with commas; "": none
  kNodes,        // N or MIN:MAX, each min..max
  kProcesses,    // min..max, auto, gpu or cpu
  kStandbys,     // min..max, or auto
  kText,         // one line
  kOptions,      // options of another program: a list, or one string split like a shell does
  kModules,      // names of Python modules: a list, or text with commas; "": none
  kCommand,      // a list of arguments, or one string split like a shell does
  kEnvironment,  // names and values
  kStreams,      // see ParseStreamChoice()
  kLocalRanks,   // see ParseLocalRanks()
  kChoice,       // one of JobKey::choices
  kHangTimeout,  // auto, off, or a duration of min..max milliseconds
  kSignal,       // the name of a signal that ends a process
  kSize,         // min..max bytes; 0: none
};

// The member of a draft that a key sets. Most settings on which all agents must agree are members
// of JobConfig::spec. For a std::optional duration, the value 0 means not set.
using Field = std::variant<bool*, int*, std::int64_t*, std::string*, std::chrono::milliseconds*,
                           Duration*, std::optional<Duration>*, NodesConfig*, std::vector<int>*,
                           std::vector<std::string>*, std::map<std::string, std::string>*,
                           StreamChoice*, std::set<int>*>;

struct JobKey {
  absl::string_view section;  // the section's map; empty: the top level
  absl::string_view name;
  KeyType type;
  std::int64_t min;
  std::int64_t max;
  Field (*field)(JobDraft&);
  absl::string_view description;   // for the schema: a few sentences
  absl::string_view choices = "";  // kChoice: "agent|worker"

  std::string Path() const;  // "rendezvous.endpoint"
  std::vector<absl::string_view> Choices() const;
};

struct JobSection {
  absl::string_view name;
  absl::string_view description;
};

// In the order of the printed job; the keys of a section are neighbours.
absl::Span<const JobKey> JobKeys();
absl::Span<const JobSection> JobSections();

// The key with this path; nullptr: none. Points into the table.
const JobKey* FindJobKey(absl::string_view path);

// Why a job file must not set this variable for its workers; empty: it may set it.
std::string WhyVariableIsRefused(absl::string_view name);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_JOB_KEYS_H_

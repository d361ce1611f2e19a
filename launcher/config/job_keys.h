// The table of what can be set for a job. The loader of job files, the flags, the printed job and
// the JSON Schema all read it, so that a new key is one row: in job_keys.cc, or of the section
// `kubernetes` in kubernetes/kubernetes_keys.cc. Then `DDPRUN_REWRITE=1 config_test` writes the
// schema. Pure.
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
  kAddress,      // a host name or an IP address; "" is none
  kPath,         // relative to the current directory, as on the command line; "" is none
  kDuration,     // min..max milliseconds
  kNumbers,      // whole numbers, each min..max: a list, or text with commas; "" is none
  kEndpoint,     // host:port; "" is none
  kEndpoints,    // one or several with commas; "" is none
  kNodes,        // N or MIN:MAX, each min..max
  kProcesses,    // min..max, auto, gpu or cpu
  kStandbys,     // min..max, or auto
  kText,         // one line
  kOptions,      // options of another program: a list, or one string that is split as a shell would
  kModules,      // names of Python modules: a list, or text with commas; "" is none
  kCommand,      // a list of arguments, or one string that is split as a shell would
  kEnvironment,  // names and values
  kStreams,      // see ParseStreamChoice()
  kLocalRanks,   // see ParseLocalRanks()
  kChoice,       // one of JobKey::choices
  kHangTimeout,  // auto, off, or a duration of min..max milliseconds
  kSignal,       // the name of a signal that ends a process
  kSize,         // min..max bytes; 0 is none
};

// The member of a draft that a key sets. What all agents of a job must agree on is a member of
// JobConfig::spec. A duration that is std::optional is not set where the key says 0.
using Field = std::variant<bool*, int*, std::int64_t*, std::string*, std::chrono::milliseconds*,
                           Duration*, std::optional<Duration>*, NodesConfig*, std::vector<int>*,
                           std::vector<std::string>*, std::map<std::string, std::string>*,
                           StreamChoice*, std::set<int>*>;

struct JobKey {
  absl::string_view section;  // the map it is in; empty: the top level
  absl::string_view name;
  KeyType type;
  std::int64_t min;
  std::int64_t max;
  Field (*field)(JobDraft&);
  absl::string_view description;   // for the schema: one sentence or two, with the unit
  absl::string_view choices = "";  // kChoice: "agent|worker"

  std::string Path() const;  // "rendezvous.endpoint"
  std::vector<absl::string_view> Choices() const;
};

struct JobSection {
  absl::string_view name;
  absl::string_view description;
};

// In the order in which a job is printed; the keys of one section are neighbours.
absl::Span<const JobKey> JobKeys();
absl::Span<const JobSection> JobSections();

// The key with this path; nullptr when there is none. Points into the table.
const JobKey* FindJobKey(absl::string_view path);

// Why a job file may not set this variable for its workers; empty when it may.
std::string WhyVariableIsRefused(absl::string_view name);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_JOB_KEYS_H_

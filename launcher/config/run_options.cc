#include "launcher/config/run_options.h"

#include <cmath>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "launcher/config/job_draft.h"
#include "launcher/config/job_keys.h"
#include "launcher/config/suggestion.h"
#include "launcher/config/values.h"
#include "launcher/config/yaml_config.h"

namespace ddprun {
namespace {

// What torchrun calls a setting in --rdzv-conf, and the key it sets.
struct RendezvousSetting {
  absl::string_view name;
  absl::string_view key;
};
constexpr RendezvousSetting kRendezvousSettings[] = {
    {"join_timeout", "rendezvous.join_timeout"},
    {"last_call_timeout", "rendezvous.last_call"},
    {"timeout", "rendezvous.connect_timeout"},
    {"connect_timeout", "rendezvous.connect_timeout"},
};

// A duration of torchrun's, where a bare number is seconds.
std::string WithUnit(absl::string_view text) {
  return absl::StrCat(text, ParseWholeNumber(text).has_value() ? "s" : "");
}

class RunOptions {
 public:
  RunOptions(const FlagReading& reading, const Host& host) : reading_(reading), host_(host) {}

  Command Make() {
    const GivenFlag* const config = reading_.Find("config");
    if (config != nullptr) {
      const absl::Status status = LoadJobFileInto(config->value, &draft_);
      if (!status.ok()) return CommandLineError{kExitBadConfig, std::string(status.message())};
    }
    for (const GivenFlag& flag : reading_.given) Apply(flag);
    CheckOptions();
    if (!reading_.rest.empty()) TakeCommand();
    if (!errors_.empty()) return CommandLineError{kExitUsage, absl::StrJoin(errors_, "\n")};
    const Origin where = config == nullptr
                             ? Origin{Source::kFlag, "COMMAND"}
                             : Origin{Source::kFile, absl::StrCat(config->value, ":1:1: command")};
    return Finish(where);
  }

 private:
  void AddError(const Origin& origin, absl::string_view what) {
    errors_.push_back(absl::StrCat(origin.place, ": ", what));
  }

  void Apply(const GivenFlag& flag) {
    const FlagSpec& spec = *flag.spec;
    if (spec.effect == FlagEffect::kSetsKey) {
      const absl::string_view text = spec.value.empty() ? spec.fixed : flag.value;
      SetKey(spec.key, text, flag.origin);
    } else if (spec.effect == FlagEffect::kSetsSeconds) {
      SetKey(spec.key, WithUnit(flag.value), flag.origin);
    } else if (spec.name == "rdzv-conf") {
      ApplyRendezvousSettings(flag);
    }
  }

  void SetKey(absl::string_view path, absl::string_view text, const Origin& origin) {
    const auto [other, fresh] = draft_.origins.emplace(path, origin);
    if (!fresh && other->second.source == origin.source) {
      AddError(origin, absl::StrCat("conflicts with ", other->second.place,
                                    ", which sets the same; give one of them"));
      return;
    }
    other->second = origin;
    const absl::Status status = SetFromText(*FindJobKey(path), text, &draft_);
    if (!status.ok()) AddError(origin, status.message());
  }

  void ApplyRendezvousSettings(const GivenFlag& flag) {
    for (const absl::string_view entry : absl::StrSplit(flag.value, ',', absl::SkipWhitespace())) {
      const std::pair<absl::string_view, absl::string_view> pair =
          absl::StrSplit(entry, absl::MaxSplits('=', 1));
      const absl::string_view name = absl::StripAsciiWhitespace(pair.first);
      const absl::string_view value = absl::StripAsciiWhitespace(pair.second);
      std::vector<std::string> names;
      absl::string_view key;
      for (const RendezvousSetting& setting : kRendezvousSettings) {
        names.emplace_back(setting.name);
        if (setting.name == name) key = setting.key;
      }
      const Origin origin{flag.origin.source, absl::StrCat(flag.origin.place, ": ", name)};
      if (key.empty()) {
        AddError(origin, absl::StrCat("expected one of ", absl::StrJoin(names, ", "),
                                      " (found an unknown setting)", DidYouMean(name, names)));
      } else {
        SetKey(key, WithUnit(value), origin);
      }
    }
  }

  // The value of `name` must be one of `choices`; `why` follows in the error.
  void CheckChoice(absl::string_view name, const std::vector<std::string>& choices,
                   absl::string_view why) {
    const GivenFlag* const flag = reading_.Find(name);
    if (flag == nullptr) return;
    for (const std::string& choice : choices) {
      if (flag->value == choice) return;
    }
    AddError(flag->origin, absl::StrCat("expected ", absl::StrJoin(choices, " or "), why,
                                        " (found ", Quoted(flag->value), ")"));
  }

  void Note(absl::string_view name, absl::string_view why) {
    if (const GivenFlag* const flag = reading_.Find(name); flag != nullptr) {
      notes_.push_back(absl::StrCat(flag->origin.place, " has no effect: ", why));
    }
  }

  void CheckOptions() {
    CheckChoice("rdzv-backend", {"c10d", "ddprun"},
                ", both of which are ddprun's own rendezvous; it needs no etcd, and it gives "
                "the ranks to nodes");
    CheckChoice("start-method", {"spawn", "fork", "forkserver"}, "");
    if (const GivenFlag* const interval = reading_.Find("monitor-interval"); interval != nullptr) {
      double seconds = 0;
      const bool number = absl::SimpleAtod(interval->value, &seconds);
      if (!number || !std::isfinite(seconds) || seconds < 0) {
        AddError(interval->origin, absl::StrCat("expected a number of seconds, 0 or more (found ",
                                                Quoted(interval->value), ")"));
      }
    }
    const GivenFlag* const json = reading_.Find("json");
    if (json != nullptr && json->origin.source == Source::kFlag && !reading_.IsOn("dry-run")) {
      AddError(json->origin, "expected together with --dry-run");
    }
    if (const std::string conflict = VerbosityConflict(reading_); !conflict.empty()) {
      errors_.push_back(conflict);
    }
    Note("monitor-interval", "the end of a worker is noticed at once, without polling");
    Note("start-method", "every worker is a program of its own");
    Note("insecure", "an agent has no credentials to leave out yet");
    ApplyModule();
  }

  void ApplyModule() {
    const GivenFlag* const module = reading_.Find("module");
    if (module == nullptr) return;
    draft_.module = true;
    const auto as_is = draft_.origins.find("no_python");
    if (as_is != draft_.origins.end() && as_is->second.source < module->origin.source) {
      draft_.no_python = false;
    }
  }

  void TakeCommand() {
    const Origin origin{Source::kFlag, "COMMAND"};
    if (reading_.rest.front().empty()) {
      AddError(origin, "expected the program that a worker runs (found an empty string)");
    }
    draft_.config.command = reading_.rest;
    draft_.origins["command"] = origin;
  }

  Command Finish(const Origin& where) {
    auto result = FinishJob(draft_, where, host_);
    if (auto* problems = std::get_if<std::vector<JobProblem>>(&result)) {
      CommandLineError error{kExitBadConfig, ""};
      for (const JobProblem& problem : *problems) {
        if (problem.source != Source::kFile) error.exit_code = kExitUsage;
        absl::StrAppend(&error.message, error.message.empty() ? "" : "\n", problem.message);
      }
      return error;
    }
    RunCommand run;
    run.config = std::get<JobConfig>(std::move(result));
    run.config.verbosity = Verbosity(reading_);
    run.dry_run = reading_.IsOn("dry-run");
    run.json = reading_.IsOn("json");
    run.notes = std::move(notes_);
    return run;
  }

  const FlagReading& reading_;
  const Host& host_;
  JobDraft draft_;
  std::vector<std::string> errors_;
  std::vector<std::string> notes_;
};

}  // namespace

Command MakeRunCommand(const FlagReading& reading, const Host& host) {
  return RunOptions(reading, host).Make();
}

int Verbosity(const FlagReading& reading) {
  return (reading.IsOn("verbose") ? 1 : 0) - (reading.IsOn("quiet") ? 1 : 0);
}

std::string VerbosityConflict(const FlagReading& reading) {
  const GivenFlag* const verbose = reading.Find("verbose");
  const GivenFlag* const quiet = reading.Find("quiet");
  if (verbose == nullptr || quiet == nullptr) return "";
  return absl::StrCat(quiet->origin.place, ": conflicts with ", verbose->origin.place,
                      "; give one of them");
}

}  // namespace ddprun

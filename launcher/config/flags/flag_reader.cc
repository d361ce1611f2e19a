// ReadFlags(). Only this file uses CLI11, and catches its exceptions.
#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "launcher/config/flags/flags.h"
#include "launcher/config/flags/suggestion.h"
#include "launcher/config/values.h"

namespace ddprun {
namespace {

// A name as in the tables: with dashes only.
std::string WithDashes(absl::string_view name) { return absl::StrReplaceAll(name, {{"_", "-"}}); }

std::string WithUnderscores(absl::string_view name) {
  return absl::StrReplaceAll(name, {{"-", "_"}});
}

const FlagSpec* FindFlag(absl::Span<const FlagSpec> flags, absl::string_view name) {
  const std::string dashed = WithDashes(name);
  for (const FlagSpec& flag : flags) {
    if (flag.name == dashed) return &flag;
  }
  return nullptr;
}

// The flag that an argument such as "--role=x" names, or nullptr.
const FlagSpec* FlagInArgument(absl::Span<const FlagSpec> flags, absl::string_view argument) {
  if (!absl::ConsumePrefix(&argument, "--")) return nullptr;
  return FindFlag(flags, argument.substr(0, argument.find('=')));
}

// CLI11's name for a flag: "-c,--log-dir,--log_dir".
std::string CliName(const FlagSpec& flag) {
  std::string name = absl::StrCat("--", flag.name);
  const std::string other = WithUnderscores(flag.name);
  if (other != flag.name) absl::StrAppend(&name, ",--", other);
  if (flag.letter != 0) absl::StrAppend(&name, ",-", std::string(1, flag.letter));
  return name;
}

// CLI11 reads "--role=" like "--role" and takes the next argument as its value. So an empty value
// is replaced by a mark before parsing, and the mark is removed afterwards.
constexpr char kEmptyValue[] = "\x1f";

std::string Marked(const std::string& argument) {
  const bool empty_value =
      absl::StartsWith(argument, "--") && argument.find('=') == argument.size() - 1;
  return empty_value ? absl::StrCat(argument, kEmptyValue) : argument;
}

std::string Unmarked(absl::string_view argument) {
  const bool marked = argument == kEmptyValue || absl::EndsWith(argument, "=\x1f");
  if (marked) argument.remove_suffix(1);
  return std::string(argument);
}

class FlagReader {
 public:
  FlagReader(absl::Span<const FlagSpec> flags, Positionals positionals, const Host& host)
      : flags_(flags), positionals_(positionals), host_(host) {}

  FlagReading Read(const std::vector<std::string>& arguments) {
    CLI::App app;
    app.set_help_flag();  // --help is a row of the table
    app.allow_extras();
    app.prefix_command(positionals_ == Positionals::kEndOptions);
    std::map<const FlagSpec*, CLI::Option*> options;
    for (const FlagSpec* flag : NamedIn(arguments)) options[flag] = AddTo(&app, *flag);
    try {
      // CLI11 takes the arguments from the back.
      std::vector<std::string> reversed;
      std::transform(arguments.rbegin(), arguments.rend(), std::back_inserter(reversed), Marked);
      app.parse(std::move(reversed));
    } catch (const CLI::ArgumentMismatch&) {
      reading_.errors.push_back(MissingValue(arguments.back()));
      return std::move(reading_);
    } catch (const CLI::Error& error) {
      reading_.errors.push_back(error.what());
      return std::move(reading_);
    }
    std::vector<std::string> remaining = app.remaining();
    std::transform(remaining.begin(), remaining.end(), remaining.begin(), Unmarked);
    TakeRest(remaining);
    std::vector<GivenFlag> from_arguments;
    for (const FlagSpec& flag : flags_) {
      const auto named = options.find(&flag);
      if (named == options.end() || named->second->count() == 0) {
        if (flag.effect != FlagEffect::kImmediate) TakeFromEnvironment(flag);
        continue;
      }
      const CLI::Option& option = *named->second;
      const Origin origin{Source::kFlag, absl::StrCat("--", flag.name)};
      if (flag.effect == FlagEffect::kList) {
        for (const std::string& value : option.results()) {
          Take(flag, Unmarked(value), origin, &from_arguments);
        }
      } else {
        Take(flag, Unmarked(option.results().back()), origin, &from_arguments);
      }
    }
    std::move(from_arguments.begin(), from_arguments.end(), std::back_inserter(reading_.given));
    return std::move(reading_);
  }

 private:
  // The flags that `arguments` may give, in the order of the table: at least all that CLI11 would
  // find. Only these become options of CLI11, because it compares each new option with all earlier
  // ones. With the whole table this took a third of the instructions of `ddprun --dry-run`.
  std::vector<const FlagSpec*> NamedIn(const std::vector<std::string>& arguments) const {
    std::set<absl::string_view> names;
    std::string letters;
    for (const std::string& argument : arguments) {
      if (const FlagSpec* const flag = FlagInArgument(flags_, argument)) names.insert(flag->name);
      const bool has_letters = argument.size() > 1 && argument[0] == '-' && argument[1] != '-';
      if (has_letters) letters += argument.substr(1);  // "-vq", or "-cFILE" with its value
    }
    std::vector<const FlagSpec*> named;
    for (const FlagSpec& flag : flags_) {
      const bool by_letter = flag.letter != 0 && letters.find(flag.letter) != std::string::npos;
      if (by_letter || names.count(flag.name) != 0) named.push_back(&flag);
    }
    return named;
  }

  static CLI::Option* AddTo(CLI::App* app, const FlagSpec& flag) {
    CLI::Option* const option = flag.IsSwitch() ? app->add_flag(CliName(flag))
                                                : app->add_option(CliName(flag))->expected(1);
    if (flag.effect == FlagEffect::kList) {
      option->expected(1, CLI::detail::expected_max_vector_size)
          ->allow_extra_args(false);  // one value per flag
    } else {
      option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    }
    return option;
  }

  // CLI11 returns unknown arguments in their order: unknown flags, "--", arguments.
  void TakeRest(const std::vector<std::string>& remaining) {
    auto it = remaining.begin();
    for (; it != remaining.end() && *it != "--"; ++it) {
      const bool is_flag = it->size() > 1 && it->front() == '-';
      if (is_flag) {
        reading_.errors.push_back(UnknownFlag(*it));
      } else {
        if (positionals_ == Positionals::kEndOptions) break;
        reading_.rest.push_back(*it);
      }
    }
    if (it != remaining.end() && *it == "--") ++it;
    reading_.rest.insert(reading_.rest.end(), it, remaining.end());
  }

  // For a flag that needs a value and is the last argument.
  std::string MissingValue(absl::string_view argument) const {
    const FlagSpec* spec = FlagInArgument(flags_, argument);
    for (const FlagSpec& flag : flags_) {
      if (spec == nullptr && flag.letter != 0 && flag.letter == argument.back()) spec = &flag;
    }
    return absl::StrCat(argument, ": expected ", spec == nullptr ? "a value" : spec->value,
                        " (found nothing)");
  }

  std::string UnknownFlag(absl::string_view argument) const {
    const absl::string_view name = argument.substr(0, argument.find('='));
    std::vector<std::string> names;
    for (const FlagSpec& flag : flags_) names.push_back(absl::StrCat("--", flag.name));
    return absl::StrCat(name, ": unknown flag", DidYouMean(WithDashes(name), names));
  }

  void TakeFromEnvironment(const FlagSpec& flag) {
    const std::string suffix = absl::AsciiStrToUpper(WithUnderscores(flag.name));
    for (const absl::string_view prefix : {"DDPRUN_", "PET_"}) {
      const std::string name = absl::StrCat(prefix, suffix);
      const std::optional<std::string> value = host_.Environment(name);
      if (!value.has_value() || value->empty()) continue;
      Take(flag, *value, {Source::kEnvironment, name}, &reading_.given);
      return;
    }
  }

  void Take(const FlagSpec& flag, const std::string& value, const Origin& origin,
            std::vector<GivenFlag>* given) {
    const bool is_switch = flag.value.empty();
    const std::optional<bool> on = is_switch ? ParseSwitch(value) : std::nullopt;
    if (flag.effect == FlagEffect::kMaySetKey && (value.empty() || value == "true")) {
      given->push_back({&flag, std::string(flag.fixed), origin});
    } else if (is_switch && !on.has_value()) {
      AddError(origin, absl::StrCat("expected true or false (found ", Quoted(value), ")"));
    } else if (is_switch && !*on) {
      return;  // as if not given
    } else if (flag.effect == FlagEffect::kRefused) {
      AddError(origin, absl::StrCat("not supported yet by this version; ", flag.help));
    } else if (flag.name == "help") {
      reading_.immediate_help = true;
    } else if (flag.name == "version") {
      reading_.immediate_version = true;
    } else if (!is_switch && (value == "--" || FlagInArgument(flags_, value) != nullptr)) {
      AddError(origin, absl::StrCat("expected ", flag.value, " (found ", value, ")"));
    } else {
      given->push_back({&flag, value, origin});
    }
  }

  void AddError(const Origin& origin, const std::string& what) {
    reading_.errors.push_back(absl::StrCat(origin.place, ": ", what));
  }

  const absl::Span<const FlagSpec> flags_;
  const Positionals positionals_;
  const Host& host_;
  FlagReading reading_;
};

}  // namespace

const GivenFlag* FlagReading::Find(absl::string_view name) const {
  for (const GivenFlag& flag : given) {
    if (flag.spec->name == name) return &flag;
  }
  return nullptr;
}

std::vector<std::string> FlagReading::FindAll(absl::string_view name) const {
  std::vector<std::string> values;
  for (const GivenFlag& flag : given) {
    if (flag.spec->name == name) values.push_back(flag.value);
  }
  return values;
}

bool FlagReading::IsOn(absl::string_view name) const { return Find(name) != nullptr; }

FlagReading ReadFlags(absl::Span<const FlagSpec> flags, const std::vector<std::string>& arguments,
                      Positionals positionals, const Host& host) {
  return FlagReader(flags, positionals, host).Read(arguments);
}

}  // namespace ddprun

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "launcher/config/flags/cli.h"
#include "launcher/config/flags/completion.h"
#include "launcher/config/flags/flags.h"
#include "launcher/manual/command_exit_codes.h"
#include "launcher/manual/manuals.h"
#include "rendezvous/core/exit_codes.h"

namespace ddprun::manual {
namespace {

constexpr char kVolume[] = "User Commands";

// What --help says before the flags: paragraphs, and blocks of indented lines.
using Block = std::vector<std::string>;

// nullopt: the subcommand has no --help of its own.
std::optional<std::vector<Block>> UsageOf(absl::string_view subcommand,
                                          absl::Span<const FlagSpec> flags, const Host& host) {
  const std::string name(subcommand);
  const char* const arguments[] = {"ddprun", "help", name.c_str()};
  const Command command = ParseCommandLine(name.empty() ? 2 : 3, arguments, host);
  const auto* const help = std::get_if<HelpCommand>(&command);
  if (help == nullptr) return std::nullopt;
  absl::string_view text = help->text;
  text.remove_suffix(DescribeFlags(flags).size());
  std::vector<Block> blocks;
  for (const absl::string_view block : absl::StrSplit(text, "\n\n")) {
    Block lines = absl::StrSplit(block, '\n', absl::SkipEmpty());
    if (!lines.empty()) blocks.push_back(std::move(lines));
  }
  return blocks;
}

bool IsIndented(const Block& block) { return absl::StartsWith(block.front(), "  "); }
bool IsSynopsis(const Block& block) { return absl::StartsWith(block.front(), "  ddprun "); }

// How ddprun itself is called: its --help lists the subcommands too.
Block WithoutSubcommands(const Block& synopsis) {
  Block lines;
  for (const std::string& line : synopsis) {
    if (absl::StartsWith(line, "  ddprun [") || absl::StartsWith(line, "  ddprun -")) {
      lines.push_back(line);
    }
  }
  return lines;
}

void AddUsage(const std::vector<Block>& usage, bool of_ddprun, RoffPage* page) {
  page->Section("SYNOPSIS");
  for (const Block& block : usage) {
    if (!IsSynopsis(block)) continue;
    Block lines = of_ddprun ? WithoutSubcommands(block) : block;
    for (std::string& line : lines) line.erase(0, 2);
    page->Lines(lines);
  }
  page->Section("DESCRIPTION");
  for (const Block& block : usage) {
    if (IsSynopsis(block)) continue;
    if (IsIndented(block)) {
      page->Lines(block);
    } else {
      page->Paragraph(absl::StrJoin(block, " "));
    }
  }
}

void AddFlag(const FlagSpec& flag, RoffPage* page) {
  const std::string letter =
      flag.letter == 0 ? "" : absl::StrCat("-", std::string(1, flag.letter), ", ");
  std::string text = HelpOf(flag);
  if (flag.effect != FlagEffect::kRefused && !flag.key.empty()) {
    absl::StrAppend(&text, ". Key of job files: `", flag.key, "`");
  }
  page->Item(absl::StrCat(letter, "--", flag.name),
             absl::StrCat(flag.IsSwitch() ? "" : " ", flag.value), absl::StrCat(text, "."));
}

void AddFlags(absl::Span<const FlagSpec> flags, RoffPage* page) {
  if (flags.empty()) return;
  page->Section("OPTIONS");
  absl::string_view group;
  for (const FlagSpec& flag : flags) {
    if (flag.effect == FlagEffect::kRefused) continue;
    if (flag.group != group) page->Subsection(flag.group);
    group = flag.group;
    AddFlag(flag, page);
  }
  const auto is_refused = [](const FlagSpec& flag) { return flag.effect == FlagEffect::kRefused; };
  if (std::none_of(flags.begin(), flags.end(), is_refused)) return;
  page->Subsection("Not supported yet");
  for (const FlagSpec& flag : flags) {
    if (is_refused(flag)) AddFlag(flag, page);
  }
}

// The variables from which the flags are read. Leaves out flags without a variable.
void AddEnvironment(absl::Span<const FlagSpec> flags, RoffPage* page) {
  std::vector<std::string> variables;
  for (const FlagSpec& flag : flags) {
    if (flag.effect == FlagEffect::kRefused || flag.effect == FlagEffect::kImmediate) continue;
    variables.push_back(absl::StrCat(
        "`DDPRUN_", absl::AsciiStrToUpper(absl::StrReplaceAll(flag.name, {{"-", "_"}})), "`"));
  }
  if (variables.empty()) return;
  page->Section("ENVIRONMENT");
  page->Paragraph(absl::StrCat(
      "If an option is not given, ddprun reads the variable of its name, if that is not empty: ",
      absl::StrJoin(variables, ", "),
      ". Then it tries torchrun's name, with `PET_` instead of `DDPRUN_`."));
}

void AddExitStatus(RoffPage* page) {
  page->Section("EXIT STATUS");
  for (const ExitCode& row : kExitCodes) page->Item(row.code, "", absl::StrCat(row.what, "."));
}

void AddExitStatusOf(absl::string_view subcommand, RoffPage* page) {
  page->Section("EXIT STATUS");
  for (const CommandExitCode& row : kCommandExitCodes) {
    const std::vector<absl::string_view> commands =
        absl::StrSplit(row.commands, ' ', absl::SkipEmpty());
    if (!commands.empty() && !absl::c_linear_search(commands, subcommand)) continue;
    page->Item(row.code, "", absl::StrCat(row.what, "."));
  }
}

std::string PageOf(absl::string_view subcommand) { return absl::StrCat("ddprun-", subcommand); }

Manual SubcommandManual(const CompletedSubcommand& subcommand, const std::vector<Block>& usage,
                        const Edition& edition) {
  const std::string name = PageOf(subcommand.name);
  RoffPage page({name, 1, std::string(subcommand.help), kVolume}, edition);
  AddUsage(usage, false, &page);
  AddFlags(subcommand.flags, &page);
  AddEnvironment(subcommand.flags, &page);
  AddExitStatusOf(subcommand.name, &page);
  page.SeeAlso({"ddprun(1)", "ddprun.yaml(5)", "ddprun-worker(7)"});
  page.Paragraph("Files named `docs/` lie in the folder of ddprun's documentation.");
  return {absl::StrCat(name, ".1"), page.text()};
}

}  // namespace

std::vector<Manual> CommandManuals(const Edition& edition, const Host& host) {
  std::vector<Manual> manuals;
  RoffPage page(
      {"ddprun", 1, "start a data-parallel training job on this node and keep it running", kVolume},
      edition);
  if (const auto usage = UsageOf("", RunFlags(), host)) AddUsage(*usage, true, &page);
  page.Section("SUBCOMMANDS");
  std::vector<std::string> others;
  for (const CompletedSubcommand& subcommand : CompletedSubcommands()) {
    const auto usage = UsageOf(subcommand.name, subcommand.flags, host);
    if (usage.has_value()) {
      manuals.push_back(SubcommandManual(subcommand, *usage, edition));
      others.push_back(absl::StrCat(PageOf(subcommand.name), "(1)"));
    }
    page.Item(subcommand.name, "", absl::StrCat(subcommand.help, "."));
  }
  others.insert(others.end(), {"ddprun.yaml(5)", "ddprun-worker(7)"});
  AddFlags(RunFlags(), &page);
  AddEnvironment(RunFlags(), &page);
  AddExitStatus(&page);
  page.SeeAlso(others);
  page.Paragraph("Files named `docs/` lie in the folder of ddprun's documentation.");
  manuals.push_back({"ddprun.1", page.text()});
  return manuals;
}

}  // namespace ddprun::manual

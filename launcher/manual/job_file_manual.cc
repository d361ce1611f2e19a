#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "launcher/config/flags/flags.h"
#include "launcher/config/job_draft.h"
#include "launcher/config/job_keys.h"
#include "launcher/config/job_values.h"
#include "launcher/manual/manuals.h"

namespace ddprun::manual {
namespace {

// The flags that set this key: "--nnodes, --x".
std::string FlagsOf(const std::string& path) {
  std::vector<std::string> names;
  for (const FlagSpec& flag : RunFlags()) {
    if (flag.key == path) names.push_back(absl::StrCat("`--", flag.name, "`"));
  }
  return absl::StrJoin(names, ", ");
}

void AddKey(const JobKey& key, RoffPage* page) {
  std::string text = absl::StrCat(key.description, " Value: ", Expected(key), ".");
  if (key.type != KeyType::kCommand) {
    const std::string value = FormatValue(key, JobDraft());
    absl::StrAppend(&text, " Default: ", value.empty() ? "none" : absl::StrCat("`", value, "`"),
                    ".");
  }
  if (const std::string flags = FlagsOf(key.Path()); !flags.empty()) {
    absl::StrAppend(&text, " Flag: ", flags, ".");
  }
  page->Item(key.Path(), "", text);
}

void AddKeys(absl::string_view section, RoffPage* page) {
  for (const JobKey& key : JobKeys()) {
    if (key.section == section) AddKey(key, page);
  }
}

}  // namespace

Manual JobFileManual(const Edition& edition) {
  RoffPage page({"ddprun.yaml", 5, "job files of ddprun", "File Formats"}, edition);
  page.Section("SYNOPSIS");
  page.Lines({"ddprun -c job.yaml [OPTIONS] [-- COMMAND...]"});
  page.Section("DESCRIPTION");
  page.Paragraph(
      "A job file is a map in YAML. A key with a period is a key in a map: `rendezvous.endpoint` "
      "is the key `endpoint` in the map `rendezvous`. Every key is optional. Flags and environment "
      "variables win over the file. `ddprun validate FILE` prints the job with every default, or "
      "each error and its place. Editors can check the file with the schema `ddprun.schema.json`, "
      "which is in the folder of the examples.");
  page.Section("KEYS");
  AddKeys("", &page);
  for (const JobSection& section : JobSections()) {
    page.Subsection(section.name);
    page.Paragraph(section.description);
    AddKeys(section.name, &page);
  }
  page.SeeAlso({"ddprun(1)", "ddprun-validate(1)", "ddprun-worker(7)"});
  return {"ddprun.yaml.5", page.text()};
}

}  // namespace ddprun::manual

// Writes one manual page in the macros of man(7). The input is plain text. Words in `backticks`
// become bold, and characters that troff would interpret are escaped. Pure.
#ifndef DDPRUN_LAUNCHER_MANUAL_ROFF_PAGE_H_
#define DDPRUN_LAUNCHER_MANUAL_ROFF_PAGE_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace ddprun::manual {

// The data at the foot of every page.
struct Edition {
  std::string date;     // 2026-01-31
  std::string version;  // ddprun's
};

struct PageTitle {
  std::string name;    // "ddprun-slurm"
  int section = 1;     // of the manual
  std::string what;    // a few words, lower case
  std::string volume;  // the section's title, for the head of the page
};

class RoffPage {
 public:
  RoffPage(const PageTitle& title, const Edition& edition);

  void Section(absl::string_view title);
  void Subsection(absl::string_view title);
  void Paragraph(absl::string_view text);
  // Lines that are printed as they are.
  void Lines(const std::vector<std::string>& lines);
  // An entry of a list: the name in bold, then the placeholder of its value in italics.
  void Item(absl::string_view name, absl::string_view value, absl::string_view text);
  // Names of pages, such as "ddprun.yaml(5)".
  void SeeAlso(const std::vector<std::string>& pages);

  const std::string& text() const { return text_; }

 private:
  void Heading(absl::string_view macro, absl::string_view title);

  std::string text_;
  bool after_heading_ = false;  // a paragraph macro here is useless, and mandoc warns about it
};

}  // namespace ddprun::manual

#endif  // DDPRUN_LAUNCHER_MANUAL_ROFF_PAGE_H_

#include "launcher/manual/roff_page.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace ddprun::manual {
namespace {

constexpr std::size_t kWidth = 78;  // of a line of the source

// The characters that troff would show as others, or take for escapes.
std::string Escaped(absl::string_view text) {
  return absl::StrReplaceAll(text, {{"\\", "\\e"},
                                    {"-", "\\-"},
                                    {"'", "\\(aq"},
                                    {"`", "\\(ga"},
                                    {"\"", "\\(dq"},
                                    {"^", "\\(ha"},
                                    {"~", "\\(ti"}});
}

std::string Bold(absl::string_view text) { return absl::StrCat("\\fB", Escaped(text), "\\fR"); }

// With `this` in bold.
std::string Marked(absl::string_view text) {
  std::string marked;
  bool bold = false;
  for (const absl::string_view part : absl::StrSplit(text, '`')) {
    absl::StrAppend(&marked, bold ? Bold(part) : Escaped(part));
    bold = !bold;
  }
  return marked;
}

// A line that begins with a period is a request.
std::string AsText(absl::string_view line) {
  return absl::StrCat(absl::StartsWith(line, ".") ? "\\&" : "", line, "\n");
}

std::string Filled(absl::string_view text) {
  std::string filled;
  std::string line;
  for (const absl::string_view word : absl::StrSplit(text, absl::ByAnyChar(" \n"))) {
    if (word.empty()) continue;
    if (!line.empty() && line.size() + 1 + word.size() > kWidth) {
      absl::StrAppend(&filled, AsText(line));
      line.clear();
    }
    absl::StrAppend(&line, line.empty() ? "" : " ", word);
  }
  return absl::StrCat(filled, AsText(line));
}

}  // namespace

RoffPage::RoffPage(const PageTitle& title, const Edition& edition)
    : text_(absl::StrCat(".\\\" Made by make_manuals from the tables of ddprun.\n.TH ",
                         absl::AsciiStrToUpper(title.name), " ", title.section, " ", edition.date,
                         " \"ddprun ", edition.version, "\" \"", title.volume, "\"\n",
                         ".nh\n.ad l\n")) {  // names of keys are not to be hyphenated
  Section("NAME");
  absl::StrAppend(&text_, Escaped(title.name), " \\- ", Escaped(title.what), "\n");
}

void RoffPage::Heading(absl::string_view macro, absl::string_view title) {
  absl::StrAppend(&text_, macro, " \"", Escaped(title), "\"\n");
  after_heading_ = true;
}

void RoffPage::Section(absl::string_view title) { Heading(".SH", title); }
void RoffPage::Subsection(absl::string_view title) { Heading(".SS", title); }

void RoffPage::Paragraph(absl::string_view text) {
  absl::StrAppend(&text_, after_heading_ ? "" : ".PP\n", Filled(Marked(text)));
  after_heading_ = false;
}

void RoffPage::Lines(const std::vector<std::string>& lines) {
  absl::StrAppend(&text_, after_heading_ ? "" : ".PP\n", ".nf\n");
  for (const std::string& line : lines) absl::StrAppend(&text_, AsText(Escaped(line)));
  absl::StrAppend(&text_, ".fi\n");
  after_heading_ = false;
}

void RoffPage::Item(absl::string_view name, absl::string_view value, absl::string_view text) {
  absl::StrAppend(&text_, ".TP\n", Bold(name));
  if (!value.empty()) absl::StrAppend(&text_, "\\fI", Escaped(value), "\\fR");
  absl::StrAppend(&text_, "\n", Filled(Marked(text)));
  after_heading_ = false;
}

void RoffPage::SeeAlso(const std::vector<std::string>& pages) {
  Section("SEE ALSO");
  std::vector<std::string> names;
  for (const std::string& page : pages) {
    const std::size_t bracket = page.find('(');
    names.push_back(absl::StrCat(Bold(page.substr(0, bracket)), page.substr(bracket)));
  }
  absl::StrAppend(&text_, Filled(absl::StrJoin(names, ", ")));
  after_heading_ = false;
}

}  // namespace ddprun::manual

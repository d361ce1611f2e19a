// Words and blocks of text for YAML that is written line by line, with comments. Pure.
#ifndef DDPRUN_LAUNCHER_CONFIG_YAML_TEXT_H_
#define DDPRUN_LAUNCHER_CONFIG_YAML_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"

namespace ddprun {

// A string for YAML 1.1 and 1.2, in quotes where it could be taken for something else.
std::string YamlWord(absl::string_view text);

// The value of a key that is indented by `indent`, with the line break at its end: a literal block,
// or in quotes where a block cannot have it.
std::string YamlBlock(absl::string_view text, int indent);

// Every line of `text`, which has no block in it, `indent` further to the right.
std::string Indented(absl::string_view text, int indent);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_YAML_TEXT_H_

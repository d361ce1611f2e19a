// Writes strings and text blocks for YAML that is generated line by line, with comments. Pure.
#ifndef DDPRUN_LAUNCHER_CONFIG_YAML_TEXT_H_
#define DDPRUN_LAUNCHER_CONFIG_YAML_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"

namespace ddprun {

// A string for YAML 1.1 and 1.2; in quotes if it could be read as another type.
std::string YamlWord(absl::string_view text);

// `text` as the value of a key that is indented by `indent`. It is a literal block, or in quotes if
// a block cannot represent it. Ends with a line break.
std::string YamlBlock(absl::string_view text, int indent);

// Indents every line of `text` by `indent`. `text` must not contain a block.
std::string Indented(absl::string_view text, int indent);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_YAML_TEXT_H_

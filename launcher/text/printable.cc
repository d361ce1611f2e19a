#include "launcher/text/printable.h"

#include <string_view>

#include "worker/contract/without_controls.h"

namespace ddprun {

std::string Printable(absl::string_view text) {
  return WithoutControls(std::string_view(text.data(), text.size()));
}

std::string PrintableLines(absl::string_view text) {
  return WithoutControls(std::string_view(text.data(), text.size()), "\n\t");
}

}  // namespace ddprun

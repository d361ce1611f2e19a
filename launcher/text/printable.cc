#include "launcher/text/printable.h"

#include <string_view>

#include "worker/contract/printable_text.h"

namespace ddprun {

std::string Printable(absl::string_view text) {
  return PrintableText(std::string_view(text.data(), text.size()));
}

}  // namespace ddprun

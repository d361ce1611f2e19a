#include "launcher/stacks/memory_map.h"

#include <algorithm>
#include <charconv>
#include <system_error>

namespace ddprun::stacks {
namespace {

// Takes a number and the character after it; false: one of them is missing.
template <typename Number>
bool TakeNumber(std::string_view* text, int base, char behind, Number* number) {
  const char* const end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, *number, base);
  if (error != std::errc() || stop == end || *stop != behind) return false;
  text->remove_prefix(static_cast<std::size_t>(stop - text->data()) + 1);
  return true;
}

bool ParseLine(std::string_view line, Mapping* mapping) {
  constexpr std::size_t kPermissions = 5;  // "r-xp "
  if (!TakeNumber(&line, 16, '-', &mapping->start) || !TakeNumber(&line, 16, ' ', &mapping->end) ||
      line.size() < kPermissions || mapping->start >= mapping->end) {
    return false;
  }
  mapping->readable = line[0] == 'r';
  mapping->writable = line[1] == 'w';
  mapping->executable = line[2] == 'x';
  line.remove_prefix(kPermissions);
  if (!TakeNumber(&line, 16, ' ', &mapping->offset) ||
      !TakeNumber(&line, 16, ':', &mapping->device_major) ||
      !TakeNumber(&line, 16, ' ', &mapping->device_minor) ||
      !TakeNumber(&line, 10, ' ', &mapping->inode)) {
    return false;
  }
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  mapping->path = line;
  return true;
}

}  // namespace

std::vector<Mapping> ParseMaps(std::string_view text) {
  std::vector<Mapping> maps;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    Mapping mapping;
    if (ParseLine(text.substr(0, end), &mapping) &&
        (maps.empty() || mapping.start >= maps.back().end)) {
      maps.push_back(std::move(mapping));
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return maps;
}

const Mapping* MappingAt(const std::vector<Mapping>& maps, std::uint64_t address) {
  const auto after =
      std::upper_bound(maps.begin(), maps.end(), address,
                       [](std::uint64_t a, const Mapping& mapping) { return a < mapping.start; });
  if (after == maps.begin()) return nullptr;
  const Mapping& found = *(after - 1);
  return address < found.end ? &found : nullptr;
}

}  // namespace ddprun::stacks

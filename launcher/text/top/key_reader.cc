#include "launcher/text/top/key_reader.h"

#include <utility>

namespace ddprun::top {
namespace {

constexpr char kEsc = '\x1b';
constexpr std::size_t kLongestSequence = 16;  // no keyboard sends a longer one

struct Sequence {
  std::string_view bytes;  // after ESC
  Key::Name name;
};
constexpr Sequence kSequences[] = {
    {"[A", Key::Name::kUp},   {"[B", Key::Name::kDown},    {"OA", Key::Name::kUp},
    {"OB", Key::Name::kDown}, {"[5~", Key::Name::kPageUp}, {"[6~", Key::Name::kPageDown},
    {"[H", Key::Name::kHome}, {"[F", Key::Name::kEnd},     {"OH", Key::Name::kHome},
    {"OF", Key::Name::kEnd},  {"[1~", Key::Name::kHome},   {"[4~", Key::Name::kEnd},
};

// ESC [ PARAMETERS FINAL, or ESC O FINAL.
bool IsComplete(std::string_view sequence) {
  if (sequence.size() < 3) return false;
  const char last = sequence.back();
  return sequence[1] == 'O' || (last >= '@' && last <= '~');
}

}  // namespace

std::vector<Key> KeyReader::Take(std::string_view bytes) {
  std::vector<Key> keys;
  for (const char byte : bytes) TakeByte(byte, &keys);
  return keys;
}

std::vector<Key> KeyReader::Pause() {
  std::vector<Key> keys;
  if (sequence_ == std::string(1, kEsc)) keys.push_back({Key::Name::kEscape});
  sequence_.clear();
  return keys;
}

void KeyReader::TakeByte(char byte, std::vector<Key>* keys) {
  if (!sequence_.empty()) {
    const bool introduces = sequence_.size() == 1 && (byte == '[' || byte == 'O');
    if (sequence_.size() > 1 || introduces) {
      sequence_ += byte;
      TakeSequence(keys);
      return;
    }
    keys->push_back({Key::Name::kEscape});
    sequence_.clear();
  }
  if (byte == kEsc) {
    sequence_ = kEsc;
  } else if (byte == '\r' || byte == '\n') {
    keys->push_back({Key::Name::kEnter});
  } else if (byte == '\x7f' || byte == '\b') {
    keys->push_back({Key::Name::kErase});
  } else if (static_cast<unsigned char>(byte) >= 0x20) {
    keys->push_back({Key::Name::kText, byte});
  }
}

void KeyReader::TakeSequence(std::vector<Key>* keys) {
  if (!IsComplete(sequence_) && sequence_.size() < kLongestSequence) return;
  const std::string sequence = std::exchange(sequence_, std::string());
  for (const Sequence& known : kSequences) {
    if (sequence.substr(1) == known.bytes) keys->push_back({known.name});
  }
}

}  // namespace ddprun::top

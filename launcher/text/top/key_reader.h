// Keys typed on a terminal. Pure.
#ifndef DDPRUN_LAUNCHER_TEXT_TOP_KEY_READER_H_
#define DDPRUN_LAUNCHER_TEXT_TOP_KEY_READER_H_

#include <string>
#include <string_view>
#include <vector>

namespace ddprun::top {

struct Key {
  enum class Name { kText, kUp, kDown, kPageUp, kPageDown, kHome, kEnd, kEnter, kEscape, kErase };
  Name name = Name::kText;
  char text = 0;  // for kText: one byte, 0x20 to 0x7E, or a byte of UTF-8

  bool operator==(const Key&) const = default;
};

// Special keys, such as arrows, are several bytes that begin with ESC, and may come in pieces.
// Owned by one thread.
class KeyReader {
 public:
  // The keys completed by these bytes. Skips unknown sequences.
  std::vector<Key> Take(std::string_view bytes);

  // Call it when no byte has come for a moment: then a pending ESC was the key ESC.
  std::vector<Key> Pause();

  // True: Pause() may return a key.
  bool waiting() const { return !sequence_.empty(); }

 private:
  void TakeByte(char byte, std::vector<Key>* keys);
  void TakeSequence(std::vector<Key>* keys);

  std::string sequence_;  // begins with ESC; empty: none
};

}  // namespace ddprun::top

#endif  // DDPRUN_LAUNCHER_TEXT_TOP_KEY_READER_H_

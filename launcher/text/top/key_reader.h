// What is typed on a terminal, as keys. Pure.
#ifndef DDPRUN_LAUNCHER_TEXT_TOP_KEY_READER_H_
#define DDPRUN_LAUNCHER_TEXT_TOP_KEY_READER_H_

#include <string>
#include <string_view>
#include <vector>

namespace ddprun::top {

struct Key {
  enum class Name { kText, kUp, kDown, kPageUp, kPageDown, kHome, kEnd, kEnter, kEscape, kErase };
  Name name = Name::kText;
  char text = 0;  // of kText: one byte, 0x20 to 0x7E, or of UTF-8

  bool operator==(const Key&) const = default;
};

// Arrows and such come as several bytes that begin with ESC, and may come in pieces. Owned by
// one thread.
class KeyReader {
 public:
  // The keys that are complete with these bytes. Unknown sequences are no keys.
  std::vector<Key> Take(std::string_view bytes);

  // Nothing has come for a moment: an ESC that waits for more was the key ESC.
  std::vector<Key> Pause();

  // Whether Pause would have something to say.
  bool waiting() const { return !sequence_.empty(); }

 private:
  void TakeByte(char byte, std::vector<Key>* keys);
  void TakeSequence(std::vector<Key>* keys);

  std::string sequence_;  // begins with ESC; empty: none has begun
};

}  // namespace ddprun::top

#endif  // DDPRUN_LAUNCHER_TEXT_TOP_KEY_READER_H_

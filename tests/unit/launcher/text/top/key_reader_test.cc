#include "launcher/text/top/key_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddprun::top {
namespace key_reader_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Name = Key::Name;

TEST(KeyReaderTest, LettersEnterAndErase) {
  KeyReader reader;
  EXPECT_THAT(reader.Take("q\r\x7f"),
              ElementsAre(Key{Name::kText, 'q'}, Key{Name::kEnter}, Key{Name::kErase}));
}

TEST(KeyReaderTest, AnArrowMayComeInPieces) {
  KeyReader reader;
  EXPECT_THAT(reader.Take("\x1b"), IsEmpty());
  EXPECT_THAT(reader.Take("["), IsEmpty());
  EXPECT_THAT(reader.Take("A\x1bOB\x1b[6~"),
              ElementsAre(Key{Name::kUp}, Key{Name::kDown}, Key{Name::kPageDown}));
  EXPECT_FALSE(reader.waiting());
}

TEST(KeyReaderTest, EscAloneIsAKeyOnceNothingFollows) {
  KeyReader reader;
  EXPECT_THAT(reader.Take("\x1b"), IsEmpty());
  EXPECT_TRUE(reader.waiting());
  EXPECT_THAT(reader.Pause(), ElementsAre(Key{Name::kEscape}));
  EXPECT_THAT(reader.Pause(), IsEmpty());
  EXPECT_THAT(reader.Take("\x1bq"), ElementsAre(Key{Name::kEscape}, Key{Name::kText, 'q'}));
}

TEST(KeyReaderTest, UnknownSequencesAreNoKeys) {
  KeyReader reader;
  EXPECT_THAT(reader.Take("\x1b[15~\x1b[1;5Cx"), ElementsAre(Key{Name::kText, 'x'}));
  EXPECT_THAT(reader.Take("\x1b[" + std::string(100, '1')), testing::Each(Key{Name::kText, '1'}))
      << "a sequence without an end is given up";
}

}  // namespace key_reader_test
}  // namespace ddprun::top

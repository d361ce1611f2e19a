#include "worker/src/base/peer_crypto.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

namespace ddp::internal {
namespace peer_crypto_test {

constexpr char kSecret[] = "0123456789abcdef0123456789abcdef";

std::vector<std::byte> Sealed(Seal* seal, const std::string& text) {
  std::vector<std::byte> piece(text.size() + Seal::kTagBytes);
  seal->Close(reinterpret_cast<const std::byte*>(text.data()), text.size(), piece.data());
  return piece;
}

// "refused" if the piece does not open.
std::string Opened(Seal* seal, const std::vector<std::byte>& piece) {
  std::string text(piece.size() - Seal::kTagBytes, '\0');
  return seal->Open(piece.data(), text.size(), reinterpret_cast<std::byte*>(text.data()))
             ? text
             : "refused";
}

TEST(SealTest, OpensWhatWasSealedAndHidesIt) {
  Seal seals(kSecret, "a to b", Seal::Side::kSeals);
  Seal opens(kSecret, "a to b", Seal::Side::kOpens);
  for (const std::string text : {"the first piece", "the second", "the second"}) {
    const auto piece = Sealed(&seals, text);
    EXPECT_NE(std::memcmp(piece.data(), text.data(), text.size()), 0);
    EXPECT_EQ(Opened(&opens, piece), text);
  }
}

TEST(SealTest, RefusesAChangeInEachByte) {
  const std::string text = "weights";
  for (std::size_t at = 0; at < text.size() + Seal::kTagBytes; ++at) {
    Seal seals(kSecret, "a to b", Seal::Side::kSeals);
    Seal opens(kSecret, "a to b", Seal::Side::kOpens);
    auto piece = Sealed(&seals, text);
    piece[at] ^= std::byte{1};
    EXPECT_EQ(Opened(&opens, piece), "refused") << at;
  }
}

TEST(SealTest, RefusesAPieceThatIsRepeatedOrComesTooEarly) {
  Seal seals(kSecret, "a to b", Seal::Side::kSeals);
  const auto first = Sealed(&seals, "first");
  const auto second = Sealed(&seals, "other");
  Seal repeated(kSecret, "a to b", Seal::Side::kOpens);
  EXPECT_EQ(Opened(&repeated, first), "first");
  EXPECT_EQ(Opened(&repeated, first), "refused");
  Seal early(kSecret, "a to b", Seal::Side::kOpens);
  EXPECT_EQ(Opened(&early, second), "refused");
}

TEST(SealTest, RefusesAnotherSecretAndAnotherConnection) {
  Seal seals(kSecret, "a to b", Seal::Side::kSeals);
  const auto piece = Sealed(&seals, "first");
  Seal other_secret("another secret", "a to b", Seal::Side::kOpens);
  EXPECT_EQ(Opened(&other_secret, piece), "refused");
  Seal other_connection(kSecret, "a to c", Seal::Side::kOpens);
  EXPECT_EQ(Opened(&other_connection, piece), "refused");
}

TEST(ProofTest, IsOfTheSecretAndOfTheText) {
  // RFC 4231, test case 2.
  EXPECT_EQ(Proof("Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_TRUE(IsEqualProof(Proof("a", "b"), Proof("a", "b")));
  EXPECT_FALSE(IsEqualProof(Proof("a", "b"), Proof("c", "b")));
  EXPECT_FALSE(IsEqualProof(Proof("a", "b"), ""));
}

}  // namespace peer_crypto_test
}  // namespace ddp::internal

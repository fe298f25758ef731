// SHA-256 against the published vectors (FIPS 180-4 examples, NIST CAVP).
#include "sha256.h"

#include <gtest/gtest.h>

namespace encore {
namespace {

TEST(Sha256Test, PublishedVectors) {
  EXPECT_EQ(sha256_of_text(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_of_text("abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_of_text("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_of_text("\xbd"),
            "68325720aabd7c82f30f554b313d0570c95accbb7dc4b5aae11204c08ffe732b");
  EXPECT_EQ(sha256_of_text(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

// The padding has its own case for each length near a chunk's end.
TEST(Sha256Test, LengthsRoundAChunk) {
  EXPECT_EQ(sha256_of_text(std::string(55, 'a')),
            "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318");
  EXPECT_EQ(sha256_of_text(std::string(56, 'a')),
            "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a");
  EXPECT_EQ(sha256_of_text(std::string(63, 'a')),
            "7d3e74a05d7db15bce4ad9ec0658ea98e3f06eeecf16b4c6fff2da457ddc2f34");
  EXPECT_EQ(sha256_of_text(std::string(64, 'a')),
            "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb");
}

TEST(Sha256Test, PiecesMakeTheWhole) {
  const std::string text(1000, 'b');
  for (const size_t piece : {1U, 7U, 64U, 65U, 999U}) {
    Sha256 sha;
    for (size_t at = 0; at < text.size(); at += piece) {
      sha.update(std::string_view(text).substr(at, piece));
    }
    EXPECT_EQ(sha.hex_digest(), sha256_of_text(text)) << piece;
  }
}

TEST(Sha256Test, MissingFileIsAnError) {
  EXPECT_EQ(sha256_of_file("/no/such/file").status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace encore

#include "rendezvous/http/server/response_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddprun::http {
namespace response_text_test {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(ResponseTextTest, AWholeAnswerHasItsLength) {
  const std::string text = ResponseText({.body = "ok\n"}, {}, 0);
  EXPECT_THAT(text, StartsWith("HTTP/1.1 200 OK\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\n"));
  EXPECT_THAT(text, HasSubstr("Content-Length: 3\r\n"));
  EXPECT_THAT(text, HasSubstr("X-Content-Type-Options: nosniff\r\n"));
  EXPECT_THAT(text, EndsWith("Connection: keep-alive\r\n\r\nok\n"));
}

TEST(ResponseTextTest, HeadHasTheLengthAndNoBody) {
  const std::string text = ResponseText({.body = "ok\n"}, {.without_body = true}, 0);
  EXPECT_THAT(text, HasSubstr("Content-Length: 3\r\n"));
  EXPECT_THAT(text, EndsWith("\r\n\r\n"));
}

TEST(ResponseTextTest, AStreamEndsWithItsConnection) {
  const std::string text = ResponseText({}, {.keep_alive = true, .end = BodyEnd::kClose}, 0);
  EXPECT_THAT(text, Not(HasSubstr("Content-Length")));
  EXPECT_THAT(text, HasSubstr("Connection: close\r\n"));
}

TEST(ResponseTextTest, AValueCannotBeginAnotherHeader) {
  const std::string text = ResponseText({.headers = {{"X-A", "1\r\nSet-Cookie: evil"}}}, {}, 0);
  EXPECT_THAT(text, HasSubstr("X-A: 1  Set-Cookie: evil\r\n"));
}

}  // namespace response_text_test
}  // namespace ddprun::http

#include "rendezvous/http/server/request_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace ddprun::http {
namespace request_reader_test {

using ::testing::HasSubstr;
using State = RequestReader::State;

constexpr RequestReader::Limits kLimits{1024, 100};
const std::string kGet = "GET /api/job?job=a%20b HTTP/1.1\r\nHost: head\r\nX-Odd: 1\r\n\r\n";

TEST(RequestReaderTest, ARequestComesInOnePieceOrByteByByte) {
  for (const bool whole : {true, false}) {
    RequestReader reader(kLimits);
    State state = State::kMore;
    if (whole) {
      state = reader.Take(kGet);
    } else {
      for (const char& byte : kGet) {
        ASSERT_EQ(state, State::kMore);
        state = reader.Take(std::string_view(&byte, 1));
      }
    }
    ASSERT_EQ(state, State::kDone);
    bool keep_alive = false;
    const Request request = reader.Release(&keep_alive);
    EXPECT_EQ(request.method, "GET");
    EXPECT_EQ(request.target_path, "/api/job");
    EXPECT_EQ(request.Query("job"), "a b");
    EXPECT_EQ(request.Header("x-odd"), "1");
    EXPECT_TRUE(keep_alive);
    EXPECT_FALSE(reader.begun());
  }
}

TEST(RequestReaderTest, WhatFollowsIsTheNextRequest) {
  RequestReader reader(kLimits);
  const std::string post = "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc";
  ASSERT_EQ(reader.Take(post + kGet), State::kDone);
  bool keep_alive = false;
  EXPECT_EQ(reader.Release(&keep_alive).body, "abc");
  EXPECT_TRUE(reader.begun());
  ASSERT_EQ(reader.Take(""), State::kDone);
  EXPECT_EQ(reader.Release(&keep_alive).target_path, "/api/job");
}

TEST(RequestReaderTest, AChunkedBodyIsPutTogether) {
  RequestReader reader(kLimits);
  ASSERT_EQ(reader.Take("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
                        "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"),
            State::kDone);
  bool keep_alive = false;
  EXPECT_EQ(reader.Release(&keep_alive).body, "abcde");
}

int StatusOf(const std::string& bytes) {
  RequestReader reader(kLimits);
  return reader.Take(bytes) == State::kBad ? reader.bad_status() : 0;
}

TEST(RequestReaderTest, WhatIsTooLargeIsRefusedBeforeItHasCome) {
  EXPECT_EQ(StatusOf("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 101\r\n\r\n"), 413);
  EXPECT_EQ(StatusOf("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n65\r\n" +
                     std::string(101, 'x')),
            413);
  EXPECT_EQ(StatusOf(absl::StrCat("GET / HTTP/1.1\r\nHost: h\r\nX: ", std::string(1100, 'x'))),
            431);
  EXPECT_EQ(StatusOf("GET /" + std::string(1100, 'x')), 431);
}

TEST(RequestReaderTest, WhatIsNoRequestIsRefused) {
  const std::string host = "\r\nHost: h\r\n\r\n";
  EXPECT_EQ(StatusOf("\x16\x03\x01"), 400);  // TLS
  EXPECT_EQ(StatusOf("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("GET / HTTP/9.9" + host), 400);
  EXPECT_EQ(StatusOf("GET /../x HTTP/1.1" + host), 400);
  EXPECT_EQ(StatusOf("GET http://evil/ HTTP/1.1" + host), 400);
  EXPECT_EQ(StatusOf("GET / HTTP/1.1\r\n\r\n"), 400);  // no Host
  EXPECT_EQ(StatusOf("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"), 400);
  // Two lengths: a proxy before us might take the other one.
  EXPECT_EQ(StatusOf("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n"
                     "Transfer-Encoding: chunked\r\n\r\n"),
            400);
}

TEST(RequestReaderTest, WhatComesMeanwhileIsBounded) {
  RequestReader reader(kLimits);
  EXPECT_TRUE(reader.Keep(std::string(1124, 'x')));
  EXPECT_FALSE(reader.Keep("x"));
}

}  // namespace request_reader_test
}  // namespace ddprun::http

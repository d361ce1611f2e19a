// The HTTP server with real connections.
#include "rendezvous/http/server/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "rendezvous/auth/certificates.h"
#include "tests/support/http_client.h"
#include "tests/support/temp_dir.h"

namespace ddprun::http {
namespace http_server_test {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class HttpServerTest : public testing::Test {
 protected:
  void Start(ServerOptions options, Handler handler) {
    if (options.listen.empty()) options.listen = "127.0.0.1:0";
    refused_.clear();
    options.refused = [this](std::string_view reason, const std::string& detail) {
      EXPECT_THAT(detail, StartsWith("http: "));
      refused_.emplace_back(reason);
    };
    auto server = HttpServer::Start(std::move(options), std::move(handler));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  void Echo(ServerOptions options = {}) {
    Start(std::move(options), [](const Request& request, std::shared_ptr<Responder> responder) {
      responder->Send({.body = absl::StrCat(request.method, " ", request.target_path, " ",
                                            request.body, request.loopback ? " here" : "")});
    });
  }

  // Ends the server, and returns the reasons of all refusals.
  std::vector<std::string> Refused() {
    server_->Shutdown();
    return refused_;
  }

  std::vector<std::string> refused_;  // used by the server's thread
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, AConnectionHasOneRequestAfterTheOther) {
  Echo();
  HttpClient client(server_->port());
  client.Say(Get("/a"));
  EXPECT_TRUE(client.HearUntil("GET /a  here"));
  client.Say(Post("/b", "body") + Get("/c"));  // both at once
  EXPECT_TRUE(client.HearUntil("POST /b body here"));
  EXPECT_TRUE(client.HearUntil("GET /c  here"));
  EXPECT_THAT(client.heard(), StartsWith("HTTP/1.1 200 OK\r\n"));
}

TEST_F(HttpServerTest, AClientThatEndedItsInputGetsTheAnswer) {
  std::promise<std::shared_ptr<Responder>> asked;
  Start({}, [&](const Request& request, std::shared_ptr<Responder> responder) {
    if (request.target_path == "/later") return asked.set_value(std::move(responder));
    responder->Send({.body = "now"});
  });
  HttpClient client(server_->port());
  client.Say(Get("/later"));
  client.SayNoMore();
  const std::shared_ptr<Responder> responder = asked.get_future().get();
  Ask(server_->port(), Get("/"));  // then the server has seen the client's end
  responder->Send({.body = "at last"});
  EXPECT_THAT(client.HearAll(), EndsWith("at last"));
}

TEST_F(HttpServerTest, HeadHasNoBody) {
  Echo();
  EXPECT_THAT(Ask(server_->port(), "HEAD /a HTTP/1.1\r\nHost: localhost\r\n\r\n"),
              EndsWith("Connection: close\r\n\r\n"));
}

TEST_F(HttpServerTest, AForeignHostIsRefused) {
  Echo({.hosts = {"page.example"}});
  const auto asked = [&](const std::string& host) {
    return Ask(server_->port(), "GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n");
  };
  EXPECT_THAT(asked("evil.example"), StartsWith("HTTP/1.1 421 "));
  EXPECT_THAT(asked("page.example:1234"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(asked("127.0.0.1"), StartsWith("HTTP/1.1 200 "));
}

TEST_F(HttpServerTest, CountsWhatItRefusesItself) {
  Echo();
  const std::string large(70'000, 'x');
  Ask(server_->port(), "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n");
  Ask(server_->port(), "HELO there\r\n\r\n");
  Ask(server_->port(), "GET /../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n");
  Ask(server_->port(), Get("/", absl::StrCat("X: ", large, "\r\n")));
  Ask(server_->port(), Post("/", large));
  Ask(server_->port(), Get("/"));
  EXPECT_THAT(Refused(), ElementsAre("http_foreign_host", "http_malformed", "http_malformed",
                                     "http_too_large", "http_too_large"));
}

TEST_F(HttpServerTest, WhatIsTooLargeIsToldSoAlthoughItGoesOn) {
  Echo();
  HttpClient client(server_->port());
  client.Say("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 70000\r\n\r\n" +
             std::string(70'000, 'x'));
  EXPECT_THAT(client.HearAll(), StartsWith("HTTP/1.1 413 "));
}

TEST_F(HttpServerTest, ARequestThatDoesNotComeInTimeIsToldSo) {
  Echo({.header_timeout = 100ms});
  HttpClient slow(server_->port());
  slow.Say("GET / HTTP/1.1\r\nHost: loc");
  HttpClient silent(server_->port());
  EXPECT_THAT(slow.HearAll(), StartsWith("HTTP/1.1 408 "));
  EXPECT_EQ(silent.HearAll(), "");
  EXPECT_THAT(Refused(), ElementsAre("http_too_slow"));
}

TEST_F(HttpServerTest, AConnectionThatIsNotUsedIsClosed) {
  Echo({.idle_timeout = 100ms});
  HttpClient client(server_->port());
  client.Say(Get("/a"));
  EXPECT_THAT(client.HearAll(), EndsWith("GET /a  here"));
}

TEST_F(HttpServerTest, WhereAllAreTakenTheOneThatWaitedLongestMakesRoom) {
  std::shared_ptr<Responder> later;
  std::promise<void> asked;
  Start({.max_connections = 16}, [&](const Request& request, std::shared_ptr<Responder> responder) {
    if (request.target_path != "/later") return responder->Send({.body = "now"});
    later = std::move(responder);
    asked.set_value();
  });
  HttpClient busy(server_->port());  // the oldest connection, but its request is being answered
  busy.Say(Get("/later", "Connection: close\r\n"));
  asked.get_future().wait();
  std::vector<std::unique_ptr<HttpClient>> waiting;
  for (int i = 0; i < 15; ++i) {
    waiting.push_back(std::make_unique<HttpClient>(server_->port()));
    waiting.back()->Say(Get("/"));
    ASSERT_TRUE(waiting.back()->HearUntil("now"));
  }
  EXPECT_THAT(Ask(server_->port(), Get("/")), EndsWith("now"));
  EXPECT_THAT(waiting.front()->HearAll(), EndsWith("now"));  // closed
  later->Send({.body = "at last"});
  EXPECT_THAT(busy.HearAll(), EndsWith("at last"));
  EXPECT_THAT(Refused(), ElementsAre("http_too_many_connections"));
}

TEST_F(HttpServerTest, AnAnswerMayComeLaterFromAnotherThreadAndOnlyOnce) {
  std::promise<std::shared_ptr<Responder>> asked;
  Start({}, [&](const Request&, std::shared_ptr<Responder> responder) {
    asked.set_value(std::move(responder));
  });
  HttpClient client(server_->port());
  client.Say(Get("/", "Connection: close\r\n"));
  const std::shared_ptr<Responder> responder = asked.get_future().get();
  responder->Send({.body = "first"});
  responder->Send({.body = "second"});
  EXPECT_THAT(client.HearAll(), EndsWith("first"));
}

TEST_F(HttpServerTest, ASecondAnswerIsNoneToTheNextRequest) {
  std::promise<std::shared_ptr<Responder>> asked[2];
  Start({}, [&](const Request& request, std::shared_ptr<Responder> responder) {
    asked[request.target_path == "/next" ? 1 : 0].set_value(std::move(responder));
  });
  HttpClient client(server_->port());
  client.Say(Get("/"));
  const std::shared_ptr<Responder> first = asked[0].get_future().get();
  first->Send({.body = "first"});
  EXPECT_TRUE(client.HearUntil("first"));
  client.Forget();
  client.Say(Get("/next", "Connection: close\r\n"));
  const std::shared_ptr<Responder> next = asked[1].get_future().get();
  first->Send({.body = "once more"});
  next->Send({.body = "next"});
  EXPECT_THAT(client.HearAll(), AllOf(EndsWith("next"), Not(HasSubstr("once more"))));
}

TEST_F(HttpServerTest, ARequestThatNobodyAnswersIsAnError) {
  Start({}, [](const Request&, const std::shared_ptr<Responder>&) {});
  EXPECT_THAT(Ask(server_->port(), Get("/")), StartsWith("HTTP/1.1 500 "));
}

TEST_F(HttpServerTest, AStreamGoesOnUntilItIsClosed) {
  std::promise<std::shared_ptr<Stream>> opened;
  Start({}, [&](const Request&, std::shared_ptr<Responder> responder) {
    opened.set_value(responder->Open({.content_type = "text/event-stream"}));
  });
  HttpClient client(server_->port());
  client.Say(Get("/"));
  const std::shared_ptr<Stream> stream = opened.get_future().get();
  std::promise<void> closed;
  stream->OnClose([&] { closed.set_value(); });
  EXPECT_TRUE(stream->Write(std::string("one")));
  EXPECT_TRUE(client.HearUntil("one"));
  EXPECT_TRUE(stream->Write(std::string("two")));
  stream->Close();
  EXPECT_FALSE(stream->Write(std::string("three")));
  EXPECT_THAT(client.HearAll(), EndsWith("onetwo"));
  closed.get_future().wait();
}

TEST_F(HttpServerTest, AStreamHearsThatItsClientHasGone) {
  std::promise<void> closed;
  std::shared_ptr<Stream> stream;
  Start({}, [&](const Request&, std::shared_ptr<Responder> responder) {
    stream = responder->Open({});
    stream->OnClose([&] { closed.set_value(); });
    stream->Write(std::string("here"));
  });
  {
    HttpClient client(server_->port());
    client.Say(Get("/"));
    ASSERT_TRUE(client.HearUntil("here"));
  }
  closed.get_future().wait();
  EXPECT_FALSE(stream->Write(std::string("too late")));
}

TEST_F(HttpServerTest, WhoReadsTooSlowlyIsCutOff) {
  std::promise<std::shared_ptr<Stream>> opened;
  Start({.max_unsent = 1 << 20}, [&](const Request&, std::shared_ptr<Responder> responder) {
    opened.set_value(responder->Open({}));
  });
  HttpClient client(server_->port());
  client.Say(Get("/"));
  const std::shared_ptr<Stream> stream = opened.get_future().get();
  std::promise<void> closed;
  stream->OnClose([&] { closed.set_value(); });
  const auto piece = std::make_shared<const std::string>(512 << 10, 'x');
  int taken = 0;
  while (stream->Write(piece)) ASSERT_LT(++taken, 1000) << "nothing bounds what is unsent";
  closed.get_future().wait();
  EXPECT_THAT(Refused(), ElementsAre("http_slow_reader"));
}

TEST_F(HttpServerTest, AClientThatReadsNothingIsCutOffAfterAWhile) {
  std::promise<std::shared_ptr<Stream>> opened;
  Start({.write_timeout = 100ms}, [&](const Request&, std::shared_ptr<Responder> responder) {
    opened.set_value(responder->Open({}));
  });
  HttpClient client(server_->port());
  client.Say(Get("/"));
  const std::shared_ptr<Stream> stream = opened.get_future().get();
  std::promise<void> closed;
  stream->OnClose([&] { closed.set_value(); });
  stream->Write(std::string(64 << 20, 'x'));  // more than the kernel takes
  closed.get_future().wait();
  EXPECT_THAT(Refused(), ElementsAre("http_slow_reader"));
}

TEST_F(HttpServerTest, ItsEndLetsStreamsFinishAndCallsNobodyAfterwards) {
  std::promise<std::shared_ptr<Stream>> opened;
  Start({}, [&](const Request&, std::shared_ptr<Responder> responder) {
    opened.set_value(responder->Open({}));
  });
  HttpClient client(server_->port());
  client.Say(Get("/"));
  const std::shared_ptr<Stream> stream = opened.get_future().get();
  stream->Write(std::string("bye"));
  stream->Close();
  server_->Shutdown();
  EXPECT_THAT(client.HearAll(), EndsWith("bye"));
  EXPECT_FALSE(HttpClient(server_->port()).connected());
  server_.reset();
  EXPECT_FALSE(stream->Write(std::string("x")));
}

TEST_F(HttpServerTest, AnAddressThatIsTakenIsAnErrorWithItsName) {
  Echo();
  const std::string taken = absl::StrCat("127.0.0.1:", server_->port());
  const auto second = HttpServer::Start({.listen = taken}, [](auto&&...) {});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(taken));
}

TEST_F(HttpServerTest, OffLoopbackItSpeaksTlsUnlessItIsToldNotTo) {
  Echo({.listen = "0.0.0.0:0"});
  EXPECT_TRUE(server_->tls());
  EXPECT_EQ(server_->certificate_sha256().size(), 64u);
  EXPECT_THAT(Ask(server_->port(), Get("/")), Not(HasSubstr("200 OK")));
  EXPECT_THAT(Refused(), ElementsAre("http_tls_handshake"));
  Echo({.listen = "0.0.0.0:0", .self_made_certificate = false});
  EXPECT_FALSE(server_->tls());
  EXPECT_THAT(Ask(server_->port(), Get("/")), HasSubstr("200 OK"));
}

// Over TLS: the answer, and the SHA-256 of the certificate that the server has shown.
std::pair<std::string, std::string> AskByTls(int port, const std::string& request) {
  const HttpClient client(port);
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_client_method()),
                                                                  &SSL_CTX_free);
  const std::unique_ptr<SSL, decltype(&SSL_free)> ssl(SSL_new(context.get()), &SSL_free);
  SSL_set_fd(ssl.get(), client.fd());
  if (SSL_connect(ssl.get()) != 1) return {};
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(
      SSL_get1_peer_certificate(ssl.get()), &X509_free);
  unsigned char hash[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  X509_digest(certificate.get(), EVP_sha256(), hash, &size);
  const std::string sha256 =
      absl::BytesToHexString(std::string(reinterpret_cast<const char*>(hash), size));
  SSL_write(ssl.get(), request.data(), static_cast<int>(request.size()));
  std::string answer;
  char buffer[4096];
  int count = 0;
  while ((count = SSL_read(ssl.get(), buffer, sizeof buffer)) > 0) {
    answer.append(buffer, static_cast<std::size_t>(count));
  }
  // Whether the server ended TLS properly, and did not only close the connection.
  const bool ended = SSL_get_error(ssl.get(), count) == SSL_ERROR_ZERO_RETURN;
  return {ended ? answer : "cut off: " + answer, sha256};
}

TEST_F(HttpServerTest, OverTlsItShowsTheCertificateThatItNames) {
  Echo({.listen = "0.0.0.0:0"});
  const auto [answer, sha256] = AskByTls(server_->port(), Get("/a", "Connection: close\r\n"));
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(answer, EndsWith("GET /a  here"));
  EXPECT_EQ(sha256, server_->certificate_sha256());
}

TEST_F(HttpServerTest, ACertificateOfFilesIsUsedOnLoopbackToo) {
  const TempDir folder;
  ASSERT_TRUE(auth::MakeCertificates({folder / "certs", "ann", {{"node"}}}).ok());
  Echo({.certificate_file = folder / "certs/node.crt", .key_file = folder / "certs/node.key"});
  const auto [answer, sha256] = AskByTls(server_->port(), Get("/a", "Connection: close\r\n"));
  EXPECT_THAT(answer, EndsWith("GET /a  here"));
  EXPECT_EQ(sha256, server_->certificate_sha256());
}

TEST_F(HttpServerTest, FilesThatAreNoneAreAnErrorWithTheirName) {
  const auto server = HttpServer::Start(
      {.listen = "127.0.0.1:0", .certificate_file = "/none.crt", .key_file = "/none.key"},
      [](auto&&...) {});
  EXPECT_THAT(std::string(server.status().message()), HasSubstr("/none.crt"));
}

}  // namespace http_server_test
}  // namespace ddprun::http

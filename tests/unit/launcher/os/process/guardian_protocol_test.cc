#include "launcher/os/process/guardian_protocol.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <utility>

#include "tests/unit/launcher/os/test_support.h"

namespace ddprun::guardian {
namespace guardian_protocol_test {

using std::chrono::milliseconds;

struct Sockets {
  UniqueFd a;
  UniqueFd b;
  Sockets() {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    a.reset(ends[0]);
    b.reset(ends[1]);
  }
};

TEST(GuardianProtocolTest, ARequestLargerThanAnySocketBufferArrivesWhole) {
  const Sockets sockets;
  Request request{};
  request.type = Request::Type::kSpawn;
  request.spawn.argv = {"program", "", std::string(1, '\n')};
  for (int i = 0; i < 100; ++i) {
    request.spawn.env.push_back("V" + std::to_string(i) + "=" + std::string(100'000, 'x'));
  }
  request.spawn.cwd = "/somewhere";
  request.spawn.cpus = {0, 3, 2047};
  std::thread sender([&] { EXPECT_TRUE(Send(sockets.a.get(), request).ok()); });
  const auto received = ReceiveRequest(sockets.b.get());
  sender.join();
  ASSERT_TRUE(received.ok()) << received.status();
  EXPECT_EQ(received->type, Request::Type::kSpawn);
  EXPECT_EQ(received->spawn.argv, request.spawn.argv);
  EXPECT_EQ(received->spawn.env, request.spawn.env);
  EXPECT_EQ(received->spawn.cwd, "/somewhere");
  EXPECT_EQ(received->spawn.cpus, request.spawn.cpus);
}

TEST(GuardianProtocolTest, AReplyBringsStatusNumbersAndDescriptors) {
  const Sockets sockets;
  test::PipeEnds pipe = test::MakePipe();
  Reply reply;
  reply.status = absl::NotFoundError("./trian: no such file");
  reply.process.pid = 42;
  reply.process.pidfd.reset(::dup(0));
  reply.process.stdout_pipe = std::move(pipe.read_end);
  reply.process.stderr_pipe.reset(::dup(0));
  test::PipeEnds outcome = test::MakePipe();
  reply.process.outcome_pipe = std::move(outcome.read_end);
  reply.exit = {0, SIGSEGV, true};
  reply.left = {7, 8};
  ASSERT_TRUE(Send(sockets.a.get(), reply).ok());
  const auto received = ReceiveReply(sockets.b.get(), milliseconds(60'000));
  ASSERT_TRUE(received.ok()) << received.status();
  EXPECT_EQ(received->status, reply.status);
  EXPECT_EQ(received->process.pid, 42);
  EXPECT_EQ(received->exit, reply.exit);
  EXPECT_EQ(received->left, reply.left);
  ASSERT_EQ(::write(pipe.write_end.get(), "x", 1), 1);
  std::string text;
  test::ReadAvailable(received->process.stdout_pipe.get(), &text);
  EXPECT_EQ(text, "x") << "it is the same pipe";
  EXPECT_EQ(::fcntl(received->process.stdout_pipe.get(), F_GETFD), FD_CLOEXEC);
  EXPECT_EQ(SpawnOutcome(received->process.outcome_pipe.get()), std::nullopt);
  outcome.write_end.reset();
  EXPECT_EQ(SpawnOutcome(received->process.outcome_pipe.get()), absl::OkStatus());
}

TEST(GuardianProtocolTest, AProcessThatWasAdoptedComesWithItsPidfdAlone) {
  const Sockets sockets;
  Request request{};
  request.type = Request::Type::kAdopt;
  request.pid = 43;
  ASSERT_TRUE(Send(sockets.a.get(), request).ok());
  EXPECT_EQ(ReceiveRequest(sockets.b.get())->pid, 43);
  Reply reply;
  reply.process.pid = 43;
  reply.process.pidfd.reset(::dup(0));
  ASSERT_TRUE(Send(sockets.b.get(), reply).ok());
  const auto received = ReceiveReply(sockets.a.get(), milliseconds(60'000));
  ASSERT_TRUE(received.ok()) << received.status();
  EXPECT_TRUE(received->process.pidfd.valid());
  EXPECT_FALSE(received->process.stdout_pipe.valid());
  EXPECT_FALSE(received->process.outcome_pipe.valid());
}

TEST(GuardianProtocolTest, AnEndThatIsGoneIsUnavailable) {
  Sockets sockets;
  ASSERT_EQ(::write(sockets.a.get(), "abc", 3), 3);  // a part of a message
  sockets.a.reset();
  EXPECT_EQ(ReceiveRequest(sockets.b.get()).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Send(sockets.b.get(), Request{}).code(), absl::StatusCode::kUnavailable);
}

TEST(GuardianProtocolTest, WhatIsNoMessageIsRefused) {
  const Sockets sockets;
  const std::int64_t sizes[] = {-1, 8};
  ASSERT_EQ(::write(sockets.a.get(), &sizes[0], 8), 8);
  EXPECT_EQ(ReceiveRequest(sockets.b.get()).status().code(), absl::StatusCode::kInvalidArgument);
  ASSERT_EQ(::write(sockets.a.get(), &sizes[1], 8), 8);
  ASSERT_EQ(::write(sockets.a.get(), "12345678", 8), 8);  // only a type
  EXPECT_EQ(ReceiveRequest(sockets.b.get()).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(GuardianProtocolTest, NoReplyInTimeIsSaid) {
  const Sockets sockets;
  EXPECT_EQ(ReceiveReply(sockets.b.get(), milliseconds(1)).status().code(),
            absl::StatusCode::kDeadlineExceeded);
}

}  // namespace guardian_protocol_test
}  // namespace ddprun::guardian

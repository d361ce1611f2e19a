#include "launcher/os/process/guardian_protocol.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ddprun::guardian {
namespace {

constexpr int kDescriptors = 4;  // pidfd, stdout, stderr, outcome
constexpr std::int64_t kMaxBytes = std::int64_t{1} << 30;

// Fields, one after the other. Numbers are 8 bytes in this machine's order.
class Writer {
 public:
  void Number(std::int64_t value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void Text(std::string_view text) {
    Number(static_cast<std::int64_t>(text.size()));
    bytes_.append(text);
  }
  void Texts(const std::vector<std::string>& texts) {
    Number(static_cast<std::int64_t>(texts.size()));
    for (const std::string& text : texts) Text(text);
  }
  void Numbers(const std::vector<int>& numbers) {
    Number(static_cast<std::int64_t>(numbers.size()));
    for (const int number : numbers) Number(number);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// Reads the fields back. A missing field reads as 0 or empty, and complete() is then false.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  std::int64_t Number() {
    std::int64_t value = 0;
    const std::string_view raw = Take(sizeof(value));
    if (raw.size() == sizeof(value)) std::memcpy(&value, raw.data(), sizeof(value));
    return value;
  }
  std::string Text() { return std::string(Take(static_cast<std::size_t>(Number()))); }
  std::vector<std::string> Texts() {
    std::vector<std::string> texts;
    for (std::int64_t left = Number(); left > 0 && ok_; --left) texts.push_back(Text());
    return texts;
  }
  std::vector<int> Numbers() {
    std::vector<int> numbers;
    for (std::int64_t left = Number(); left > 0 && ok_; --left) {
      numbers.push_back(static_cast<int>(Number()));
    }
    return numbers;
  }
  bool complete() const { return ok_ && bytes_.empty(); }

 private:
  std::string_view Take(std::size_t size) {
    if (size > bytes_.size()) {
      ok_ = false;
      size = 0;
    }
    const std::string_view taken = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return taken;
  }

  std::string_view bytes_;
  bool ok_ = true;
};

absl::Status Gone(int error) {
  return absl::UnavailableError(error == 0 ? "the other end is closed"
                                           : absl::StrCat("the other end: ", strerror(error)));
}

absl::Status SendMessage(int socket, const std::string& fields,
                         const std::vector<int>& descriptors) {
  std::int64_t size = static_cast<std::int64_t>(fields.size());
  iovec parts[2] = {{&size, sizeof(size)}, {const_cast<char*>(fields.data()), fields.size()}};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kDescriptors)] = {};
  msghdr header{};
  header.msg_iov = parts;
  header.msg_iovlen = 2;
  if (!descriptors.empty()) {
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(sizeof(int) * descriptors.size());
    cmsghdr* const rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int) * descriptors.size());
    std::memcpy(CMSG_DATA(rights), descriptors.data(), sizeof(int) * descriptors.size());
  }
  while (parts[0].iov_len + parts[1].iov_len > 0) {
    const ssize_t sent = ::sendmsg(socket, &header, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return Gone(errno);
    header.msg_control = nullptr;
    header.msg_controllen = 0;
    std::size_t left = static_cast<std::size_t>(sent);
    for (iovec& part : parts) {
      const std::size_t taken = std::min(left, part.iov_len);
      part.iov_base = static_cast<char*>(part.iov_base) + taken;
      part.iov_len -= taken;
      left -= taken;
    }
  }
  return absl::OkStatus();
}

// Reads `size` bytes, and appends the descriptors that come with them to `descriptors`.
absl::Status ReceiveBytes(int socket, char* bytes, std::size_t size,
                          std::vector<UniqueFd>* descriptors) {
  while (size > 0) {
    iovec part{bytes, size};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kDescriptors)];
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof(control);
    const ssize_t received = ::recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
    if (received < 0 && errno == EINTR) continue;
    if (received <= 0) return Gone(received == 0 ? 0 : errno);
    for (cmsghdr* part_of = CMSG_FIRSTHDR(&header); part_of != nullptr;
         part_of = CMSG_NXTHDR(&header, part_of)) {
      if (part_of->cmsg_level != SOL_SOCKET || part_of->cmsg_type != SCM_RIGHTS) continue;
      const std::size_t count = (part_of->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (std::size_t i = 0; i < count; ++i) {
        int fd;
        std::memcpy(&fd, CMSG_DATA(part_of) + i * sizeof(int), sizeof(fd));
        descriptors->emplace_back(fd);
      }
    }
    bytes += received;
    size -= static_cast<std::size_t>(received);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReceiveMessage(int socket, std::vector<UniqueFd>* descriptors) {
  std::int64_t size = 0;
  absl::Status status =
      ReceiveBytes(socket, reinterpret_cast<char*>(&size), sizeof(size), descriptors);
  if (!status.ok()) return status;
  if (size < 0 || size > kMaxBytes) return absl::InvalidArgumentError("a message without bounds");
  std::string fields(static_cast<std::size_t>(size), '\0');
  status = ReceiveBytes(socket, fields.data(), fields.size(), descriptors);
  if (!status.ok()) return status;
  return fields;
}

}  // namespace

absl::Status Send(int socket, const Request& request) {
  Writer fields;
  fields.Number(static_cast<std::int64_t>(request.type));
  fields.Texts(request.spawn.argv);
  fields.Texts(request.spawn.env);
  fields.Text(request.spawn.cwd);
  fields.Numbers(request.spawn.cpus);
  fields.Number(request.pid);
  fields.Number(request.limit.count());
  return SendMessage(socket, fields.bytes(), {});
}

absl::StatusOr<Request> ReceiveRequest(int socket) {
  std::vector<UniqueFd> none;
  const absl::StatusOr<std::string> bytes = ReceiveMessage(socket, &none);
  if (!bytes.ok()) return bytes.status();
  Reader fields(*bytes);
  Request request;
  request.type = static_cast<Request::Type>(fields.Number());
  request.spawn.argv = fields.Texts();
  request.spawn.env = fields.Texts();
  request.spawn.cwd = fields.Text();
  request.spawn.cpus = fields.Numbers();
  request.pid = static_cast<pid_t>(fields.Number());
  request.limit = std::chrono::microseconds(fields.Number());
  if (!fields.complete()) return absl::InvalidArgumentError("not a guardian's request");
  return request;
}

absl::Status Send(int socket, const Reply& reply) {
  Writer fields;
  fields.Number(reply.status.raw_code());
  fields.Text(std::string(reply.status.message()));
  fields.Number(reply.process.pid);
  fields.Number(reply.exit.code);
  fields.Number(reply.exit.signal);
  fields.Number(reply.exit.core_dumped ? 1 : 0);
  fields.Numbers(reply.left);
  std::vector<int> descriptors;  // all four, or only the pidfd of an adopted process
  for (const UniqueFd* const fd : {&reply.process.pidfd, &reply.process.stdout_pipe,
                                   &reply.process.stderr_pipe, &reply.process.outcome_pipe}) {
    if (fd->valid()) descriptors.push_back(fd->get());
  }
  fields.Number(static_cast<std::int64_t>(descriptors.size()));
  return SendMessage(socket, fields.bytes(), descriptors);
}

absl::StatusOr<Reply> ReceiveReply(int socket, std::chrono::milliseconds limit) {
  pollfd readable{socket, POLLIN, 0};
  int ready;
  do {
    ready = ::poll(&readable, 1, static_cast<int>(limit.count()));
  } while (ready < 0 && errno == EINTR);
  if (ready == 0) return absl::DeadlineExceededError("no answer");
  std::vector<UniqueFd> descriptors;
  const absl::StatusOr<std::string> bytes = ReceiveMessage(socket, &descriptors);
  if (!bytes.ok()) return bytes.status();
  Reader fields(*bytes);
  Reply reply;
  const auto code = static_cast<absl::StatusCode>(fields.Number());
  reply.status = absl::Status(code, fields.Text());
  reply.process.pid = static_cast<pid_t>(fields.Number());
  reply.exit.code = static_cast<int>(fields.Number());
  reply.exit.signal = static_cast<int>(fields.Number());
  reply.exit.core_dumped = fields.Number() != 0;
  reply.left = fields.Numbers();
  const std::int64_t sent = fields.Number();
  if (!fields.complete()) return absl::InvalidArgumentError("not a guardian's reply");
  if (sent != static_cast<std::int64_t>(descriptors.size())) return reply;
  if (sent > 0) reply.process.pidfd = std::move(descriptors[0]);
  if (sent == kDescriptors) {
    reply.process.stdout_pipe = std::move(descriptors[1]);
    reply.process.stderr_pipe = std::move(descriptors[2]);
    reply.process.outcome_pipe = std::move(descriptors[3]);
  }
  return reply;
}

}  // namespace ddprun::guardian

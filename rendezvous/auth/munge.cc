#include "rendezvous/auth/munge.h"

#include <dlfcn.h>
#include <munge.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "worker/contract/unique_fd.h"

namespace ddprun::auth {

// The functions of libmunge that are used. The library is never unloaded.
struct Munge::Library {
  decltype(&munge_encode) encode = nullptr;
  decltype(&munge_decode) decode = nullptr;
  decltype(&munge_strerror) error_text = nullptr;
  decltype(&munge_ctx_create) make_context = nullptr;
  decltype(&munge_ctx_destroy) free_context = nullptr;
  decltype(&munge_ctx_set) set = nullptr;
  decltype(&munge_ctx_get) get = nullptr;
};

namespace {

template <class Function>
bool Find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

struct FreeMemory {
  void operator()(void* memory) const { std::free(memory); }
};

// One context for each call: libmunge's contexts are not thread-safe.
template <class Library>
class Context {
 public:
  Context(const Library& library, const std::string& socket)
      : library_(library), context_(library.make_context()) {
    if (!socket.empty()) library_.set(context_, MUNGE_OPT_SOCKET, socket.c_str());
  }
  ~Context() { library_.free_context(context_); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  munge_ctx_t get() const { return context_; }

 private:
  const Library& library_;
  const munge_ctx_t context_;
};

// True: munged examined the credential and rejects it. False: munged could not examine it.
bool IsVerdict(munge_err_t error) {
  switch (error) {
    case EMUNGE_BAD_CRED:
    case EMUNGE_BAD_VERSION:
    case EMUNGE_BAD_CIPHER:
    case EMUNGE_BAD_MAC:
    case EMUNGE_BAD_ZIP:
    case EMUNGE_BAD_REALM:
    case EMUNGE_CRED_INVALID:
    case EMUNGE_CRED_EXPIRED:
    case EMUNGE_CRED_REWOUND:
    case EMUNGE_CRED_REPLAYED:
    case EMUNGE_CRED_UNAUTHORIZED:
      return true;
    default:
      return false;
  }
}

}  // namespace

Munge::Munge(std::unique_ptr<const Library> library, std::string socket)
    : library_(std::move(library)), socket_(std::move(socket)) {}

Munge::~Munge() = default;

absl::StatusOr<std::shared_ptr<const Munge>> Munge::Load(const std::string& socket) {
  void* const handle = dlopen("libmunge.so.2", RTLD_NOW | RTLD_LOCAL);
  auto library = std::make_unique<Library>();
  const bool complete = handle != nullptr && Find(handle, "munge_encode", &library->encode) &&
                        Find(handle, "munge_decode", &library->decode) &&
                        Find(handle, "munge_strerror", &library->error_text) &&
                        Find(handle, "munge_ctx_create", &library->make_context) &&
                        Find(handle, "munge_ctx_destroy", &library->free_context) &&
                        Find(handle, "munge_ctx_set", &library->set) &&
                        Find(handle, "munge_ctx_get", &library->get);
  if (!complete) {
    const char* const why = dlerror();
    return absl::FailedPreconditionError(
        absl::StrCat("--munge: cannot load libmunge.so.2 (Debian's package libmunge2): ",
                     why == nullptr ? "" : why));
  }
  return std::shared_ptr<const Munge>(new Munge(std::move(library), socket));
}

absl::StatusOr<std::string> Munge::Encode(const std::string& payload, uid_t reader) const {
  if (const absl::Status reached = StillAway(); !reached.ok()) return reached;
  const Context context(*library_, socket_);
  // Without the restriction, anybody who obtains the credential could decode it.
  if (const munge_err_t error =
          library_->set(context.get(), MUNGE_OPT_UID_RESTRICTION, static_cast<int>(reader));
      error != EMUNGE_SUCCESS) {
    return absl::UnavailableError(absl::StrCat("munge cannot restrict a credential to a user: ",
                                               library_->error_text(error)));
  }
  char* text = nullptr;
  const munge_err_t error =
      library_->encode(&text, context.get(), payload.data(), static_cast<int>(payload.size()));
  const std::unique_ptr<char, FreeMemory> owner(text);
  if (error == EMUNGE_SUCCESS) return std::string(text);
  return Unanswered(library_->error_text(error));
}

absl::StatusOr<Munge::Decoded> Munge::Decode(const std::string& credential) const {
  if (const absl::Status reached = StillAway(); !reached.ok()) return reached;
  const Context context(*library_, socket_);
  void* data = nullptr;
  int size = 0;
  uid_t uid = 0;
  gid_t gid = 0;
  const munge_err_t error =
      library_->decode(credential.c_str(), context.get(), &data, &size, &uid, &gid);
  const std::unique_ptr<void, FreeMemory> owner(data);
  if (error == EMUNGE_SUCCESS) {
    return Decoded{std::string(static_cast<const char*>(data), static_cast<std::size_t>(size)),
                   uid};
  }
  const std::string why = library_->error_text(error);
  return IsVerdict(error) ? absl::UnauthenticatedError(absl::StrCat("munge: ", why))
                          : Unanswered(why);
}

std::string Munge::SocketPath() const {
  const Context context(*library_, socket_);
  const char* path = nullptr;  // owned by the context
  library_->get(context.get(), MUNGE_OPT_SOCKET, &path);
  return path == nullptr ? "" : path;
}

absl::Status Munge::Reach() const {
  const std::string path = SocketPath();
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  path.copy(name.sun_path, sizeof name.sun_path - 1);
  const UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const bool reached =
      connect(fd.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0;
  const int error = reached ? 0 : errno;
  // EAGAIN: munged is busy, not away.
  away_ = error != 0 && error != EAGAIN && error != EINTR;
  if (!away_) return absl::OkStatus();
  char host[256] = "this host";
  gethostname(host, sizeof host - 1);
  return absl::FailedPreconditionError(absl::StrCat(
      "munged does not run on ", host, ", or its socket is not ", path, " (", strerror(error),
      "); --munge-socket, or AuthInfo in slurm.conf, names another one"));
}

absl::Status Munge::Unanswered(const std::string& why) const {
  const absl::Status reached = Reach();
  if (!reached.ok()) return reached;
  char host[256] = "this host";
  gethostname(host, sizeof host - 1);
  return absl::UnavailableError(absl::StrCat("munge on ", host, ": ", why));
}

}  // namespace ddprun::auth

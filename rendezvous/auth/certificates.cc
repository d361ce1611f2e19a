#include "rendezvous/auth/certificates.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rendezvous/auth/crypto.h"
#include "rendezvous/auth/openssl_types.h"
#include "rendezvous/auth/tls_files.h"
#include "rendezvous/core/check.h"
#include "worker/contract/unique_fd.h"

namespace ddprun::auth {
namespace {

constexpr long kDay = 24 * 3600;
constexpr long kClockSkew = 3600;  // so that nodes whose clocks are behind accept a new certificate
constexpr std::chrono::seconds kAuthorityLifetime = std::chrono::hours(24 * 3650);
constexpr mode_t kPublic = 0644;
constexpr mode_t kPrivate = 0600;

struct Identity {
  CertificatePtr certificate;
  KeyPtr key;
};

struct File {
  std::string path;
  std::string content;
  mode_t mode = kPublic;
};

bool IsAddress(const std::string& text) {
  unsigned char bytes[sizeof(in6_addr)];
  return inet_pton(AF_INET, text.c_str(), bytes) == 1 ||
         inet_pton(AF_INET6, text.c_str(), bytes) == 1;
}

bool IsHostName(const std::string& text) {
  return !text.empty() && text.size() <= 253 && text.front() != '.' && text.front() != '-' &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return absl::ascii_isalnum(c) || c == '-' || c == '.' || c == '_';
         });
}

void AddExtension(X509* certificate, X509* issuer, int id, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, &context, id, value.c_str());
  DDPRUN_CHECK(extension != nullptr, value.c_str());
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

// A certificate for a new key, not signed yet.
Identity NewIdentity(const std::string& name, const std::string& unit,
                     std::chrono::seconds lifetime) {
  Identity identity{CertificatePtr(X509_new()), KeyPtr(EVP_EC_gen("P-256"))};
  DDPRUN_CHECK(identity.key != nullptr, "no EC key");
  X509* const certificate = identity.certificate.get();
  X509_set_version(certificate, X509_VERSION_3);
  std::string serial = RandomBytes(16);
  serial[0] = static_cast<char>((serial[0] & 0x3f) | 0x40);  // positive, and of full length
  BIGNUM* const number =
      BN_bin2bn(reinterpret_cast<const unsigned char*>(serial.data()), 16, nullptr);
  BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate));
  BN_free(number);
  const long end = lifetime.count();
  X509_gmtime_adj(X509_getm_notBefore(certificate), std::min(0L, end - kDay) - kClockSkew);
  X509_gmtime_adj(X509_getm_notAfter(certificate), end);
  X509_set_pubkey(certificate, identity.key.get());
  X509_NAME* const subject = X509_get_subject_name(certificate);
  const auto add = [&](const char* field, const std::string& text) {
    X509_NAME_add_entry_by_txt(subject, field, MBSTRING_UTF8,
                               reinterpret_cast<const unsigned char*>(text.c_str()), -1, -1, 0);
  };
  add("O", "ddprun");
  if (!unit.empty()) add("OU", unit);
  add("CN", name);
  return identity;
}

void Sign(Identity& identity, const Identity& authority) {
  X509* const certificate = identity.certificate.get();
  X509_set_issuer_name(certificate, X509_get_subject_name(authority.certificate.get()));
  AddExtension(certificate, authority.certificate.get(), NID_authority_key_identifier, "keyid");
  DDPRUN_CHECK(X509_sign(certificate, authority.key.get(), EVP_sha256()) != 0, "cannot sign");
}

Identity NewAuthority(const std::string& name, std::chrono::seconds lifetime) {
  // Each authority has a name of its own, so that people can tell authorities apart.
  std::string unit;
  for (const unsigned char byte : RandomBytes(4))
    absl::StrAppend(&unit, absl::Hex(byte, absl::kZeroPad2));
  Identity authority = NewIdentity(absl::StrCat(name, " job CA"), unit, lifetime);
  X509* const certificate = authority.certificate.get();
  AddExtension(certificate, certificate, NID_basic_constraints, "critical,CA:TRUE,pathlen:0");
  AddExtension(certificate, certificate, NID_key_usage, "critical,keyCertSign,cRLSign");
  AddExtension(certificate, certificate, NID_subject_key_identifier, "hash");
  Sign(authority, authority);
  return authority;
}

// `names` and the names of the local host, in the syntax of the extension subjectAltName.
std::string AlternativeNames(std::vector<std::string> names) {
  for (const char* local : {"localhost", "127.0.0.1", "::1"}) {
    if (std::find(names.begin(), names.end(), local) == names.end()) names.emplace_back(local);
  }
  for (std::string& host : names) host = absl::StrCat(IsAddress(host) ? "IP:" : "DNS:", host);
  return absl::StrJoin(names, ",");
}

Identity NewNode(const std::string& name, const std::vector<std::string>& hosts,
                 std::chrono::seconds lifetime, const Identity& authority) {
  Identity node = NewIdentity(name, "", lifetime);
  X509* const certificate = node.certificate.get();
  X509* const issuer = authority.certificate.get();
  AddExtension(certificate, issuer, NID_basic_constraints, "critical,CA:FALSE");
  AddExtension(certificate, issuer, NID_key_usage, "critical,digitalSignature");
  AddExtension(certificate, issuer, NID_ext_key_usage, "serverAuth,clientAuth");
  AddExtension(certificate, issuer, NID_subject_key_identifier, "hash");
  AddExtension(certificate, issuer, NID_subject_alt_name, AlternativeNames(hosts));
  Sign(node, authority);
  return node;
}

std::string TextOf(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return std::string(data, static_cast<std::size_t>(size));
}

std::string PemOf(X509* certificate) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  DDPRUN_CHECK(PEM_write_bio_X509(bio.get(), certificate) == 1, "cannot write a certificate");
  return TextOf(bio.get());
}

std::string PemOf(EVP_PKEY* key) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  DDPRUN_CHECK(
      PEM_write_bio_PKCS8PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr) == 1,
      "cannot write a key");
  return TextOf(bio.get());
}

void AddFiles(const std::string& base, const Identity& identity, std::vector<File>* files) {
  files->push_back({base + ".crt", PemOf(identity.certificate.get()), kPublic});
  files->push_back({base + ".key", PemOf(identity.key.get()), kPrivate});
}

// Reads the authority in the folder. NewAuthority or a user has made its files.
absl::StatusOr<Identity> ReadAuthority(const std::string& base) {
  const auto pem =
      LoadTlsFiles({"", base + ".crt", base + ".key"}, std::chrono::system_clock::now());
  if (!pem.ok()) return pem.status();
  const BioPtr certificate(BIO_new_mem_buf(pem->cert.data(), static_cast<int>(pem->cert.size())));
  const BioPtr key(BIO_new_mem_buf(pem->key.data(), static_cast<int>(pem->key.size())));
  Identity authority{
      CertificatePtr(PEM_read_bio_X509(certificate.get(), nullptr, nullptr, nullptr)),
      KeyPtr(PEM_read_bio_PrivateKey(key.get(), nullptr, nullptr, nullptr))};
  if (X509_check_ca(authority.certificate.get()) != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(base, ".crt is not the certificate of an authority"));
  }
  return authority;
}

absl::Status WriteNew(const File& file) {
  const auto failed = [&] { return absl::ErrnoToStatus(errno, file.path); };
  const UniqueFd fd(open(file.path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, file.mode));
  if (!fd.valid()) return failed();
  std::size_t written = 0;
  while (written < file.content.size()) {
    const ssize_t count =
        write(fd.get(), file.content.data() + written, file.content.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) break;
    written += static_cast<std::size_t>(count);
  }
  if (written < file.content.size() || fsync(fd.get()) != 0) return failed();
  return absl::OkStatus();
}

bool Exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

absl::Status CheckNames(const CertificatesToMake& what) {
  if (what.name.empty() || what.name.size() > 55 ||
      std::any_of(what.name.begin(), what.name.end(),
                  [](unsigned char c) { return absl::ascii_iscntrl(c); })) {
    return absl::InvalidArgumentError("--name: expected 1 to 55 bytes without control characters");
  }
  std::set<std::string> files;
  for (const std::vector<std::string>& hosts : what.nodes) {
    for (const std::string& host : hosts) {
      if (IsHostName(host) || IsAddress(host)) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("--host: expected a host name or an address (found \"", host, "\")"));
    }
    if (hosts.empty() || hosts.front() == "ca") {
      return absl::InvalidArgumentError("--host: expected a host name other than ca");
    }
    if (!files.insert(hosts.front()).second) {
      return absl::InvalidArgumentError(absl::StrCat("--host: ", hosts.front(), " comes twice"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

TlsPem MakeSelfSigned(const std::string& name, const std::vector<std::string>& hosts) {
  Identity identity = NewIdentity(name, "", kAuthorityLifetime);
  X509* const certificate = identity.certificate.get();
  AddExtension(certificate, certificate, NID_basic_constraints, "critical,CA:FALSE");
  AddExtension(certificate, certificate, NID_key_usage, "critical,digitalSignature");
  AddExtension(certificate, certificate, NID_ext_key_usage, "serverAuth");
  AddExtension(certificate, certificate, NID_subject_key_identifier, "hash");
  std::vector<std::string> good = hosts;
  good.erase(
      std::remove_if(good.begin(), good.end(),
                     [](const std::string& host) { return !IsHostName(host) && !IsAddress(host); }),
      good.end());
  if (!good.empty()) {
    AddExtension(certificate, certificate, NID_subject_alt_name, AlternativeNames(good));
  }
  Sign(identity, identity);
  TlsPem pem;
  pem.cert = PemOf(certificate);
  pem.key = PemOf(identity.key.get());
  return pem;
}

absl::StatusOr<std::vector<std::string>> MakeCertificates(const CertificatesToMake& what) {
  if (const absl::Status status = CheckNames(what); !status.ok()) return status;
  const std::string authority_base = absl::StrCat(what.folder, "/ca");
  const bool has_authority = Exists(authority_base + ".crt") || Exists(authority_base + ".key");
  std::vector<File> files;
  Identity authority;
  if (has_authority) {
    auto read = ReadAuthority(authority_base);
    if (!read.ok()) return read.status();
    authority = *std::move(read);
  } else {
    authority = NewAuthority(what.name, std::max(what.lifetime, kAuthorityLifetime));
    AddFiles(authority_base, authority, &files);
  }
  for (const std::vector<std::string>& hosts : what.nodes) {
    AddFiles(absl::StrCat(what.folder, "/", hosts.front()),
             NewNode(what.name, hosts, what.lifetime, authority), &files);
  }
  for (const File& file : files) {
    if (!Exists(file.path)) continue;
    return absl::AlreadyExistsError(
        absl::StrCat(file.path, " is there already; remove it, or give another folder"));
  }
  if (mkdir(what.folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return absl::ErrnoToStatus(errno, what.folder);
  }
  std::vector<std::string> paths;
  for (const File& file : files) {
    if (const absl::Status status = WriteNew(file); !status.ok()) return status;
    paths.push_back(file.path);
  }
  return paths;
}

}  // namespace ddprun::auth

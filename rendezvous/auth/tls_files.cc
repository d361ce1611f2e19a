#include "rendezvous/auth/tls_files.h"

#include <openssl/pem.h>

#include <ctime>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "rendezvous/auth/openssl_types.h"
#include "rendezvous/auth/secret_file.h"

namespace ddprun::auth {
namespace {

constexpr std::time_t kWarnBefore = 14 * 24 * 3600;

BioPtr MemoryOf(const std::string& text) {
  return BioPtr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

std::string DateOf(const ASN1_TIME* time) {
  std::tm parts{};
  char text[32] = "?";
  if (ASN1_TIME_to_tm(time, &parts) == 1) {
    std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &parts);
  }
  return text;
}

// Keeps OpenSSL from asking the terminal for the password of an encrypted key.
int NoPassword(char*, int, int, void*) { return 0; }

absl::StatusOr<std::vector<CertificatePtr>> ParseCertificates(const std::string& what,
                                                              const std::string& path,
                                                              const std::string& pem) {
  std::vector<CertificatePtr> certificates;
  const BioPtr bio = MemoryOf(pem);
  while (X509* const next = PEM_read_bio_X509(bio.get(), nullptr, NoPassword, nullptr)) {
    certificates.emplace_back(next);
  }
  const unsigned long error = ERR_peek_last_error();
  const bool end =
      ERR_GET_LIB(error) == ERR_LIB_PEM && ERR_GET_REASON(error) == PEM_R_NO_START_LINE;
  const std::string why = TakeOpensslError();
  if (certificates.empty() || !end) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " ", path, ": expected certificates in PEM form (", why, ")"));
  }
  return certificates;
}

absl::Status CheckDates(const std::string& what, const std::string& path, const X509* certificate,
                        std::chrono::system_clock::time_point now, std::string* warning) {
  std::time_t time = std::chrono::system_clock::to_time_t(now);
  const ASN1_TIME* const first = X509_get0_notBefore(certificate);
  const ASN1_TIME* const last = X509_get0_notAfter(certificate);
  if (X509_cmp_time(first, &time) > 0) {
    return absl::InvalidArgumentError(absl::StrCat(what, " ", path, " is not valid before ",
                                                   DateOf(first),
                                                   "; is the clock of this host right?"));
  }
  if (X509_cmp_time(last, &time) < 0) {
    return absl::InvalidArgumentError(absl::StrCat(what, " ", path, " expired on ", DateOf(last)));
  }
  time += kWarnBefore;
  if (X509_cmp_time(last, &time) < 0) {
    *warning = absl::StrCat(what, " ", path, " expires on ", DateOf(last));
  }
  return absl::OkStatus();
}

absl::Status CheckCertificates(const std::string& what, const std::string& path,
                               const std::string& pem, std::chrono::system_clock::time_point now,
                               std::string* warning, CertificatePtr* first) {
  auto certificates = ParseCertificates(what, path, pem);
  if (!certificates.ok()) return certificates.status();
  for (const CertificatePtr& certificate : *certificates) {
    const absl::Status status = CheckDates(what, path, certificate.get(), now, warning);
    if (!status.ok()) return status;
  }
  *first = std::move(certificates->front());
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TlsPem> LoadTlsFiles(const TlsPaths& paths,
                                    std::chrono::system_clock::time_point now) {
  const auto& [ca, cert, key, flags] = paths;
  TlsPem pem;
  const auto read = [](const std::string& what, const std::string& path, Readers readers,
                       std::string* text) -> absl::Status {
    if (path.empty()) return absl::OkStatus();
    auto content = ReadCredentialFile(what, path, readers);
    if (!content.ok()) return content.status();
    *text = *std::move(content);
    return absl::OkStatus();
  };
  const std::string ca_flag = absl::StrCat(flags, "-ca");
  const std::string cert_flag = absl::StrCat(flags, "-cert");
  const std::string key_flag = absl::StrCat(flags, "-key");
  absl::Status status = read(ca_flag, ca, Readers::kAnybody, &pem.ca);
  status.Update(read(cert_flag, cert, Readers::kAnybody, &pem.cert));
  status.Update(read(key_flag, key, Readers::kOwner, &pem.key));
  CertificatePtr own;
  CertificatePtr authority;
  if (status.ok() && !ca.empty()) {
    status = CheckCertificates(ca_flag, ca, pem.ca, now, &pem.warning, &authority);
  }
  if (status.ok() && !cert.empty()) {
    status = CheckCertificates(cert_flag, cert, pem.cert, now, &pem.warning, &own);
  }
  if (!status.ok()) return status;
  if (own != nullptr) pem.until = DateOf(X509_get0_notAfter(own.get()));
  if (key.empty()) return pem;
  const BioPtr bio = MemoryOf(pem.key);
  const KeyPtr parsed(PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassword, nullptr));
  if (parsed == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(key_flag, " ", key,
                                                   ": expected a private key in PEM form, without "
                                                   "a password (",
                                                   TakeOpensslError(), ")"));
  }
  if (own != nullptr && X509_check_private_key(own.get(), parsed.get()) != 1) {
    ERR_clear_error();
    return absl::InvalidArgumentError(
        absl::StrCat(key_flag, " ", key, " does not belong to the certificate ", cert));
  }
  return pem;
}

std::optional<std::int64_t> ExpiryOf(const std::string& path) {
  const auto pem = ReadCredentialFile("certificate", path, Readers::kAnybody);
  if (!pem.ok()) return std::nullopt;
  const BioPtr bio = MemoryOf(*pem);
  const CertificatePtr certificate(PEM_read_bio_X509(bio.get(), nullptr, NoPassword, nullptr));
  std::tm parts{};
  if (certificate == nullptr ||
      ASN1_TIME_to_tm(X509_get0_notAfter(certificate.get()), &parts) != 1) {
    ERR_clear_error();
    return std::nullopt;
  }
  return timegm(&parts);
}

}  // namespace ddprun::auth

#include "cli/location_store.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/unique_fd.h"
#include "storage/s3_signer.h"
#include "storage/shared_credentials.h"

namespace csidelta::cli {
namespace {

using Kind = storage::Location::Kind;

bool HasCloudFile(const datamover::RepositoryAccess& access) {
  return access.secret_data.contains(datamover::kCloudFile);
}

// The path of a file without a name, in memory.
absl::StatusOr<std::string> KeepInMemory(const Secret& text) {
  UniqueFd file(memfd_create("credentials", MFD_CLOEXEC));
  const std::string& bytes = text.Reveal();
  errno = file.valid() ? ENOSPC : errno;  // A write that is short does not set it.
  if (!file.valid() ||
      write(file.get(), bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) {
    return absl::ErrnoToStatus(errno, "keep the location's credentials in memory");
  }
  return absl::StrCat("/proc/self/fd/", file.Release());
}

// Of a Secret for S3; nothing if it has none for the location's profile.
absl::StatusOr<std::optional<storage::Credentials>> CredentialsOf(
    const datamover::RepositoryAccess& access) {
  if (!HasCloudFile(access)) {
    return std::nullopt;
  }
  const auto profile = access.env.find("AWS_PROFILE");
  ASSIGN_OR_RETURN(
      storage::SharedProfile found,
      storage::ParseSharedCredentials(access.secret_data.at(datamover::kCloudFile).Reveal(),
                                      profile == access.env.end() ? "default" : profile->second));
  if (found.credentials.has_value()) {
    found.credentials->source = absl::StrCat("BackupStorageLocation ", access.location);
  }
  return std::move(found.credentials);
}

}  // namespace

GlobalOptions OptionsOf(const objects::JobRepository& repository) {
  const auto secret = [](bool is_there, const char* file) {
    return is_there ? absl::StrCat(datamover::kSecretsFolder, "/", file) : "";
  };
  GlobalOptions options;
  options.choice.repository = repository.address;
  options.choice.keyring_file = secret(repository.has_keyring, datamover::kKeyringFile);
  options.added_ca_file = secret(repository.has_certificates, datamover::kCaFile);
  options.no_lock = repository.is_read_only;
  options.insecure_tls = repository.insecure_tls;
  for (const auto& [name, value] : {std::pair("s3.region", &repository.region),
                                    std::pair("s3.bucket-lookup", &repository.bucket_lookup),
                                    std::pair("s3.sse", &repository.encryption),
                                    std::pair("s3.sse-kms-key-id", &repository.kms_key_id),
                                    std::pair("s3.tagging", &repository.tagging)}) {
    if (!value->empty()) {
      options.store_options.push_back(absl::StrCat(name, "=", *value));
    }
  }
  options.store_options.insert(options.store_options.end(), repository.options.begin(),
                               repository.options.end());
  if (repository.object_lock.has_value()) {
    options.store_options.push_back(
        absl::StrCat("s3.object-lock-mode=", repository.object_lock->mode));
    options.store_options.push_back(
        absl::StrCat("s3.object-lock-days=", repository.object_lock->days));
  }
  return options;
}

absl::StatusOr<absl::string_view> CloudOfCaller(const datamover::RepositoryAccess& access) {
  ASSIGN_OR_RETURN(const auto location, storage::ParseLocation(access.repository.address));
  if (location.kind == Kind::kS3) {
    ASSIGN_OR_RETURN(const auto credentials, CredentialsOf(access));
    return credentials.has_value() ? "" : "AWS";
  }
  return HasCloudFile(access) ? "" : location.kind == Kind::kAzure ? "Azure" : "Google";
}

absl::StatusOr<GetVariable> VariablesOf(const datamover::RepositoryAccess& access,
                                        const GetVariable& get) {
  ASSIGN_OR_RETURN(const auto location, storage::ParseLocation(access.repository.address));
  if (location.kind != Kind::kAzure && location.kind != Kind::kGoogle) {
    return get;
  }
  std::map<std::string, std::string> variables = access.env;
  if (HasCloudFile(access)) {
    ASSIGN_OR_RETURN(variables[datamover::CredentialsVariable(location.kind)],
                     KeepInMemory(access.secret_data.at(datamover::kCloudFile)));
  }
  const char* const own = location.kind == Kind::kAzure ? "AZURE_" : "GOOGLE_";
  return [variables = std::move(variables), hidden = HasCloudFile(access) ? own : nullptr,
          get](const char* name) -> const char* {
    const auto found = variables.find(name);
    if (found != variables.end()) {
      return found->second.c_str();
    }
    return hidden != nullptr && absl::StartsWith(name, hidden) ? nullptr : get(name);
  };
}

absl::StatusOr<engine::RepositoryTarget> TargetOf(const datamover::RepositoryAccess& access,
                                                  const GlobalOptions& given,
                                                  const GetVariable& get) {
  GlobalOptions options = given;
  options.insecure_tls |= access.repository.insecure_tls;
  options.store_options = OptionsOf(access.repository).store_options;
  options.store_options.insert(options.store_options.end(), given.store_options.begin(),
                               given.store_options.end());
  ASSIGN_OR_RETURN(storage::Location location, storage::ParseLocation(access.repository.address));
  ASSIGN_OR_RETURN(const GetVariable variables, VariablesOf(access, get));
  ASSIGN_OR_RETURN(storage::StoreSettings settings,
                   MakeStoreSettings(options, variables, location.kind));
  const auto& lock = access.repository.object_lock;
  if (lock.has_value() &&
      (settings.s3.object_lock_duration < absl::Hours(24) * lock->days ||
       (lock->mode == "COMPLIANCE" && settings.s3.object_lock_mode != lock->mode))) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the data mover locks objects here for ", lock->days, " days, with mode ", lock->mode,
        ": -o s3.object-lock-days and -o s3.object-lock-mode may only make that stronger"));
  }
  if (const auto pem = access.secret_data.find(datamover::kCaFile);
      pem != access.secret_data.end()) {
    RETURN_IF_ERROR(TrustBesides(pem->second.Reveal(), "the location's caCert", settings));
  }
  if (location.kind == Kind::kS3) {
    ASSIGN_OR_RETURN(const auto credentials, CredentialsOf(access));
    if (credentials.has_value()) {
      settings.environment = {};
      settings.environment.keys = *credentials;
    }
  }
  return engine::RepositoryTarget{.location = std::move(location), .settings = std::move(settings)};
}

absl::StatusOr<std::unique_ptr<storage::OpenedStore>> OpenLocationStore(
    const ProgramEnvironment& environment, const datamover::RepositoryAccess& access) {
  ASSIGN_OR_RETURN(const engine::RepositoryTarget target, TargetOf(access, {}, environment.get));
  return environment.open_store(target.location, target.settings, *environment.random);
}

}  // namespace csidelta::cli

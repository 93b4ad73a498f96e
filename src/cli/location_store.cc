#include "cli/location_store.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "storage/shared_credentials.h"

namespace csidelta::cli {

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
  if (repository.object_lock.has_value()) {
    options.store_options.push_back(
        absl::StrCat("s3.object-lock-mode=", repository.object_lock->mode));
    options.store_options.push_back(
        absl::StrCat("s3.object-lock-days=", repository.object_lock->days));
  }
  return options;
}

absl::StatusOr<engine::RepositoryTarget> TargetOf(const datamover::RepositoryAccess& access,
                                                  const GlobalOptions& given,
                                                  const GetVariable& get) {
  GlobalOptions options = given;
  options.insecure_tls |= access.repository.insecure_tls;
  options.store_options = OptionsOf(access.repository).store_options;
  options.store_options.insert(options.store_options.end(), given.store_options.begin(),
                               given.store_options.end());
  ASSIGN_OR_RETURN(storage::StoreSettings settings, MakeStoreSettings(options, get));
  if (const auto pem = access.secret_data.find(datamover::kCaFile);
      pem != access.secret_data.end()) {
    RETURN_IF_ERROR(TrustBesides(pem->second.Reveal(), "the location's caCert", settings));
  }
  if (const auto cloud = access.secret_data.find(datamover::kCloudFile);
      cloud != access.secret_data.end()) {
    const auto profile = access.env.find("AWS_PROFILE");
    ASSIGN_OR_RETURN(
        const storage::SharedProfile found,
        storage::ParseSharedCredentials(cloud->second.Reveal(),
                                        profile == access.env.end() ? "default" : profile->second));
    if (found.credentials.has_value()) {
      settings.environment = {};
      settings.environment.keys = *found.credentials;
    }
  }
  ASSIGN_OR_RETURN(storage::Location location, storage::ParseLocation(access.repository.address));
  return engine::RepositoryTarget{.location = std::move(location), .settings = std::move(settings)};
}

absl::StatusOr<std::unique_ptr<storage::OpenedStore>> OpenLocationStore(
    const ProgramEnvironment& environment, const datamover::RepositoryAccess& access) {
  ASSIGN_OR_RETURN(const engine::RepositoryTarget target, TargetOf(access, {}, environment.get));
  return environment.open_store(target.location, target.settings, *environment.random);
}

}  // namespace csidelta::cli

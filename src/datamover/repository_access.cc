#include "datamover/repository_access.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "datamover/keyring.h"
#include "datamover/location_settings.h"
#include "net/url.h"
#include "objects/client.h"
#include "objects/patch.h"
#include "storage/credentials_file.h"
#include "velero/data_reference.h"

namespace csidelta::datamover {
namespace {

using objects::BackupStorageLocation;
using StoreKind = storage::Location::Kind;

// Velero's own, from its installer.
constexpr char kDefaultCredentialSecret[] = "cloud-credentials";
constexpr char kDefaultCredentialKey[] = "cloud";
constexpr char kDefaultProfile[] = "default";

absl::Status Refuse(absl::string_view what) { return absl::FailedPreconditionError(what); }

// The value of one key of a Secret. NOT_FOUND when there is no such Secret.
absl::StatusOr<Secret> ReadSecretKey(const CallContext& ctx, k8s::ApiClient& api,
                                     const std::string& namespace_name,
                                     const objects::SecretKeyName& wanted) {
  ASSIGN_OR_RETURN(const auto object,
                   objects::Get<objects::Secret>(ctx, api, namespace_name, wanted.name));
  const std::map<std::string, std::string> data = object.encoded_data();
  const auto found = data.find(wanted.key);
  std::string value;
  if (found == data.end() || !absl::Base64Unescape(found->second, &value)) {
    return Refuse(absl::StrCat("Secret ", namespace_name, "/", wanted.name, " has no key ",
                               wanted.key, "; put it there, or name another one"));
  }
  return Secret(std::move(value));
}

// A Secret that the location names must be there.
absl::StatusOr<Secret> ReadNamedSecret(const CallContext& ctx, k8s::ApiClient& api,
                                       const std::string& namespace_name,
                                       const objects::SecretKeyName& wanted) {
  absl::StatusOr<Secret> value = ReadSecretKey(ctx, api, namespace_name, wanted);
  if (absl::IsNotFound(value.status())) {
    return Refuse(absl::StrCat("Secret ", namespace_name, "/", wanted.name,
                               " is not there; make it, or name another one"));
  }
  return value;
}

// Velero asks hosts of its own by virtual host, unless told otherwise; but an address has none, and
// no certificate names a bucket with dots.
std::string BucketLookup(const BackupStorageLocation& location) {
  if (location.ConfigFlag("s3ForcePathStyle")) {
    return "path";
  }
  const absl::StatusOr<net::Url> url = net::ParseUrl(location.Config("s3Url"));
  const bool has_letters = url.ok() && std::any_of(url->host.begin(), url->host.end(),
                                                   [](char c) { return absl::ascii_isalpha(c); });
  const bool is_name = has_letters && !absl::StrContains(url->host, ":");
  return is_name && !absl::StrContains(location.bucket(), ".") ? "dns" : "auto";
}

// "s3:https://HOST/BUCKET/", "azure:CONTAINER:/", "gs:BUCKET:/".
absl::StatusOr<std::string> BucketAddress(const BackupStorageLocation& location) {
  ASSIGN_OR_RETURN(const StoreKind kind, StoreKindOf(location));
  if (kind != StoreKind::kS3) {
    return absl::StrCat(kind == StoreKind::kAzure ? "azure:" : "gs:", location.bucket(), ":/");
  }
  std::string endpoint = location.Config("s3Url");
  if (endpoint.empty()) {
    const std::string region = location.Config("region");
    endpoint =
        absl::StrCat("https://s3.", region, region.empty() ? "" : ".", storage::AwsDomain(region));
  }
  if (!absl::StrContains(endpoint, "://")) {
    return Refuse(absl::StrCat("config.s3Url \"", absl::CHexEscape(endpoint),
                               "\" does not begin with https:// or http://"));
  }
  const absl::StatusOr<net::Url> url = net::ParseUrl(endpoint);
  if (!url.ok() || (url->target != "/" && !url->target.empty())) {
    return Refuse(absl::StrCat("config.s3Url is not the URL of a host without a path",
                               url.ok() ? "" : ": ", url.ok() ? "" : url.status().message()));
  }
  return absl::StrCat("s3:", absl::StripSuffix(endpoint, "/"), "/", location.bucket(), "/");
}

absl::StatusOr<objects::JobRepository> RepositoryIn(const BackupStorageLocation& location,
                                                    const RepositoryAccessRequest& request) {
  ASSIGN_OR_RETURN(std::string address, RepositoryAddress(location, request.repository_path));
  objects::JobRepository repository = {.address = std::move(address),
                                       .options = StoreOptions(location),
                                       .is_read_only = location.is_read_only()};
  ASSIGN_OR_RETURN(const StoreKind kind, StoreKindOf(location));
  if (kind != StoreKind::kS3) {
    return repository;
  }
  const std::string kms_key = location.Config("kmsKeyId");
  repository.region = location.Config("region");
  repository.bucket_lookup = BucketLookup(location);
  repository.encryption = kms_key.empty() ? location.Config("serverSideEncryption") : "aws:kms";
  repository.kms_key_id = kms_key;
  repository.tagging = location.Config("tagging");
  repository.object_lock = request.object_lock;
  repository.insecure_tls = location.ConfigFlag("insecureSkipTLSVerify");
  return repository;
}

absl::Status AddCertificates(const CallContext& ctx, k8s::ApiClient& api,
                             const BackupStorageLocation& location, RepositoryAccess& access) {
  Secret pem(location.ca_cert_pem());
  if (!location.ca_cert_ref().name.empty()) {
    if (!pem.empty()) {
      return Refuse("has both caCert and caCertRef; leave one of them out");
    }
    ASSIGN_OR_RETURN(pem,
                     ReadNamedSecret(ctx, api, location.namespace_name(), location.ca_cert_ref()));
  }
  if (pem.empty()) {
    pem = Secret(location.Config("caCert"));
  }
  if (!pem.empty()) {
    access.secret_data[kCaFile] = std::move(pem);
    access.repository.has_certificates = true;
  }
  return absl::OkStatus();
}

// The key of the Secret with the credentials. NOT_FOUND if the worker is to use its own identity.
absl::StatusOr<Secret> ReadCredentials(const CallContext& ctx, k8s::ApiClient& api,
                                       const BackupStorageLocation& location, StoreKind kind,
                                       const objects::SecretKeyName& other) {
  objects::SecretKeyName name = other.name.empty() ? location.credential() : other;
  absl::StatusOr<Secret> cloud = Secret();
  if (name.name.empty()) {
    name = {.name = kDefaultCredentialSecret, .key = kDefaultCredentialKey};
    cloud = ReadSecretKey(ctx, api, location.namespace_name(), name);
  } else {
    cloud = ReadNamedSecret(ctx, api, location.namespace_name(), name);
  }
  RETURN_IF_ERROR(cloud.status());
  // What of the file counts: a section, or the line with the key.
  std::string part =
      location.Config(kind == StoreKind::kS3 ? "profile" : "storageAccountKeyEnvVar");
  if (part.empty() && kind == StoreKind::kS3) {
    part = kDefaultProfile;
  }
  const absl::Status readable = storage::CheckCredentialsFile(kind, cloud->Reveal(), part);
  if (!readable.ok()) {
    return Refuse(absl::StrCat("Secret ", location.namespace_name(), "/", name.name, ", key ",
                               name.key, ": ", readable.message()));
  }
  return cloud;
}

absl::Status AddCredentials(const CallContext& ctx, k8s::ApiClient& api,
                            const BackupStorageLocation& location,
                            const objects::SecretKeyName& other, RepositoryAccess& access) {
  ASSIGN_OR_RETURN(const StoreKind kind, StoreKindOf(location));
  for (const auto& [variable, setting] :
       {std::pair("AWS_PROFILE", "profile"),
        std::pair("AZURE_AUTHORITY_HOST", "activeDirectoryAuthorityURI")}) {
    if (std::string value = location.Config(setting); !value.empty()) {
      access.env[variable] = std::move(value);
    }
  }
  access.has_other_credential = !other.name.empty();
  absl::StatusOr<Secret> cloud = ReadCredentials(ctx, api, location, kind, other);
  if (absl::IsNotFound(cloud.status())) {
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(cloud.status());
  access.secret_data[kCloudFile] = *std::move(cloud);
  access.env[CredentialsVariable(kind)] = absl::StrCat(kSecretsFolder, "/", kCloudFile);
  return absl::OkStatus();
}

absl::Status AddKeys(const CallContext& ctx, k8s::ApiClient& api,
                     const RepositoryAccessRequest& request, SecureRandom& random,
                     RepositoryAccess& access) {
  const KeyringOwner owner = {.velero_namespace = request.velero_namespace,
                              .location = request.location};
  const bool make = request.for_writing && request.written_with_key.empty();
  ASSIGN_OR_RETURN(const repository::Keyring keyring,
                   OpenKeyring(ctx, api, request.mover_namespace, owner, make, random));
  // Only a hint: after a change of keys a newer one opens the repository, and the old one is gone.
  if (!request.written_with_key.empty() && !keyring.Has(request.written_with_key)) {
    access.missing_key = absl::StrCat("the data was written with key ", request.written_with_key,
                                      ", which is not among those of ", "the location (Secret ",
                                      request.mover_namespace, "/", KeyringSecretName(owner),
                                      "); bring it: ", ImportCommand(owner));
  }
  access.secret_data[kKeyringFile] = Secret(repository::FormatKeyringFile(keyring));
  access.repository.has_keyring = true;
  access.key_fingerprint = keyring.newest().fingerprint;
  access.key_confirmed = keyring.newest_confirmed();
  return absl::OkStatus();
}

absl::StatusOr<RepositoryAccess> WithoutKeys(const CallContext& ctx, k8s::ApiClient& api,
                                             const BackupStorageLocation& location,
                                             const RepositoryAccessRequest& request) {
  RETURN_IF_ERROR(CheckLocationSettings(location));
  if (request.object_lock.has_value() && request.for_writing && !request.for_deleting) {
    RETURN_IF_ERROR(CheckObjectLocks(location));
  }
  if (!location.Config("credentialsFile").empty() && location.credential().name.empty()) {
    CSIDELTA_LOG(kWarn,
                 "a location's config.credentialsFile is ignored: name its Secret in "
                 "spec.credential",
                 {"location", location.name()});
  }
  if (request.for_writing && location.is_read_only()) {
    return Refuse(
        "its access mode is ReadOnly, so nothing is written there; set it to ReadWrite, or use "
        "another location");
  }
  RepositoryAccess access;
  ASSIGN_OR_RETURN(access.repository, RepositoryIn(location, request));
  RETURN_IF_ERROR(AddCertificates(ctx, api, location, access));
  RETURN_IF_ERROR(AddCredentials(ctx, api, location, request.credential, access));
  return access;
}

absl::StatusOr<BackupStorageLocation> ReadLocation(const CallContext& ctx, k8s::ApiClient& api,
                                                   const std::string& velero_namespace,
                                                   const std::string& name) {
  ASSIGN_OR_RETURN(auto location,
                   objects::Get<BackupStorageLocation>(ctx, api, velero_namespace, name));
  if (const absl::Status status = location.Validate(); !status.ok()) {
    return Refuse(status.message());
  }
  return location;
}

// What a Secret of a worker's lacks of what it is to hold now; its keys stay as they are.
std::map<std::string, std::string> ChangedFiles(const objects::Secret& secret,
                                                const std::map<std::string, Secret>& data) {
  std::map<std::string, std::string> changed;
  for (const char* file : {kCloudFile, kCaFile}) {
    const auto now = data.find(file);
    if (now == data.end()) {
      continue;
    }
    std::string text = absl::Base64Escape(now->second.Reveal());
    if (text != secret.EncodedValue(file)) {
      changed[file] = std::move(text);
    }
  }
  return changed;
}

absl::StatusOr<std::map<std::string, Secret>> ReadWithoutKeys(
    const CallContext& ctx, k8s::ApiClient& api, const RepositoryAccessRequest& request) {
  ASSIGN_OR_RETURN(const BackupStorageLocation location,
                   ReadLocation(ctx, api, request.velero_namespace, request.location));
  ASSIGN_OR_RETURN(RepositoryAccess access, WithoutKeys(ctx, api, location, request));
  return std::move(access.secret_data);
}

absl::Status Renew(const CallContext& ctx, k8s::ApiClient& api,
                   const RepositoryAccessRequest& request, const std::string& name,
                   const std::map<std::string, Secret>& data) {
  const k8s::ObjectKey key = objects::Secret::Key(request.mover_namespace, name);
  ASSIGN_OR_RETURN(const auto secret, objects::Get<objects::Secret>(ctx, api, key));
  const std::map<std::string, std::string> changed = ChangedFiles(secret, data);
  if (changed.empty()) {
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(objects::Apply(ctx, api, key, objects::Patch().SetEncodedData(changed)));
  CSIDELTA_LOG(kInfo, "the location has new credentials; its worker gets them", {"name", name},
               {"location", request.location});
  return absl::OkStatus();
}

// Two Veleros with one bucket and prefix would have one repository for a PVC that both back up, and
// each keys of its own.
absl::Status CheckNotShared(const CallContext& ctx, k8s::ApiClient& api,
                            const RepositoryAccessRequest& request) {
  if (request.velero_namespaces.size() < 2 || !request.for_writing ||
      !request.written_with_key.empty()) {
    return absl::OkStatus();
  }
  std::vector<BackupStorageLocation> all;
  for (const std::string& velero_namespace : request.velero_namespaces) {
    ASSIGN_OR_RETURN(std::vector<BackupStorageLocation> locations,
                     objects::List<BackupStorageLocation>(ctx, api, velero_namespace));
    std::move(locations.begin(), locations.end(), std::back_inserter(all));
  }
  const std::string own = absl::StrCat(request.velero_namespace, "/", request.location);
  for (const SharedAddress& shared : FindSharedAddresses(all)) {
    if (shared.location == own) {
      return Refuse(absl::StrCat("its bucket and prefix are those of the older location ",
                                 shared.oldest,
                                 ", whose repositories have other keys; give it another prefix"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<RepositoryAccess> WithKeys(const CallContext& ctx, k8s::ApiClient& api,
                                          const BackupStorageLocation& location,
                                          const RepositoryAccessRequest& request,
                                          SecureRandom& random) {
  ASSIGN_OR_RETURN(RepositoryAccess access, WithoutKeys(ctx, api, location, request));
  RETURN_IF_ERROR(CheckNotShared(ctx, api, request));
  RETURN_IF_ERROR(AddKeys(ctx, api, request, random, access));
  return access;
}

}  // namespace

const char* CredentialsVariable(StoreKind kind) {
  switch (kind) {
    case StoreKind::kAzure:
      return "AZURE_CREDENTIALS_FILE";
    case StoreKind::kGoogle:
      return "GOOGLE_APPLICATION_CREDENTIALS";
    default:
      return "AWS_SHARED_CREDENTIALS_FILE";
  }
}

absl::StatusOr<std::string> RepositoryAddress(const BackupStorageLocation& location,
                                              absl::string_view repository_path) {
  ASSIGN_OR_RETURN(const std::string bucket, BucketAddress(location));
  const std::string address = absl::StrCat(bucket, location.prefix(),
                                           location.prefix().empty() ? "" : "/", repository_path);
  const absl::StatusOr<storage::Location> parsed = storage::ParseLocation(address);
  if (!parsed.ok()) {
    return Refuse(parsed.status().message());
  }
  if (parsed->bucket != location.bucket()) {
    return Refuse(absl::StrCat("bucket \"", absl::CHexEscape(location.bucket()),
                               "\" is not the name of a bucket"));
  }
  return address;
}

std::vector<SharedAddress> FindSharedAddresses(
    const std::vector<BackupStorageLocation>& locations) {
  using Age = std::tuple<absl::Time, std::string>;  // and "namespace/name"
  std::map<std::string, std::set<Age>> by_address;
  for (const BackupStorageLocation& location : locations) {
    if (!location.Validate().ok() || location.is_read_only()) {
      continue;
    }
    const absl::StatusOr<std::string> address =
        RepositoryAddress(location, velero::kRepositoryRoot);
    if (address.ok()) {
      // Two accounts of Azure may each have a container of this name.
      by_address[absl::StrCat(location.Config("storageAccount"), " ", *address)].emplace(
          location.created_at().value_or(absl::InfiniteFuture()),
          absl::StrCat(location.namespace_name(), "/", location.name()));
    }
  }
  std::map<std::string, std::string> oldest;
  for (const auto& [address, ages] : by_address) {
    for (auto age = std::next(ages.begin()); age != ages.end(); ++age) {
      oldest[std::get<std::string>(*age)] = std::get<std::string>(*ages.begin());
    }
  }
  std::vector<SharedAddress> shared;
  shared.reserve(oldest.size());
  for (const auto& [location, other] : oldest) {
    shared.push_back({.location = location, .oldest = other});
  }
  return shared;
}

absl::StatusOr<RepositoryAccess> OpenRepositoryAccess(const CallContext& ctx, k8s::ApiClient& api,
                                                      const RepositoryAccessRequest& request,
                                                      SecureRandom& random) {
  ASSIGN_OR_RETURN(const BackupStorageLocation location,
                   ReadLocation(ctx, api, request.velero_namespace, request.location));
  const std::string name = absl::StrCat(request.velero_namespace, "/", request.location);
  ASSIGN_OR_RETURN(RepositoryAccess access, Annotate(WithKeys(ctx, api, location, request, random),
                                                     absl::StrCat("BackupStorageLocation ", name)));
  access.location = name;
  return access;
}

std::string WithMissingKey(const objects::VolumeTaskStatus& failed,
                           const absl::StatusOr<RepositoryAccess>& access) {
  const bool names_key = CauseOf(failed) == objects::OutcomeCause::kNoKey && access.ok() &&
                         !access->missing_key.empty();
  return names_key ? absl::StrCat(MessageOf(failed), "; ", access->missing_key) : MessageOf(failed);
}

absl::StatusOr<RepositoryAccess> OpenLocationAccess(const CallContext& ctx, k8s::ApiClient& api,
                                                    const BackupStorageLocation& location,
                                                    const objects::SecretKeyName& credential) {
  return Annotate(
      WithoutKeys(ctx, api, location,
                  {.velero_namespace = location.namespace_name(),
                   .location = location.name(),
                   .repository_path = velero::kRepositoryRoot,
                   .credential = credential}),
      absl::StrCat("BackupStorageLocation ", location.namespace_name(), "/", location.name()));
}

absl::Time AccessKeeper::Keep(const CallContext& ctx, k8s::ApiClient& api,
                              const RepositoryAccessRequest& request, const std::string& name) {
  const absl::Time now = ctx.clock->Now();
  const std::string location = absl::StrCat(request.velero_namespace, "/", request.location);
  const auto warn = [&](const absl::Status& error) {
    if (!absl::IsNotFound(error)) {
      CSIDELTA_LOG(kWarn, "a worker keeps its credentials, as no newer ones can be read",
                   {"name", name}, {"location", request.location},
                   {"error", std::string(error.message())});
    }
  };
  if (IsDue(location, now)) {
    absl::StatusOr<std::map<std::string, Secret>> data = ReadWithoutKeys(ctx, api, request);
    if (data.ok()) {
      StoreData(location, *std::move(data));
    } else {
      warn(data.status());
    }
  }
  if (const std::optional<LocationData> wanted = DataFor(location, name, now); wanted.has_value()) {
    const absl::Status renewed = Renew(ctx, api, request, name, wanted->data);
    if (!renewed.ok()) {
      warn(renewed);
    }
    const MutexLock lock(mutex_);
    kept_[name] = {.at = now, .version = renewed.ok() ? wanted->version : 0};
  }
  const MutexLock lock(mutex_);
  return locations_[location].read_at + kAccessKeptEvery;
}

void AccessKeeper::RecordMade(const RepositoryAccess& access, const std::string& name,
                              absl::Time now) {
  if (access.has_other_credential) {
    return;
  }
  std::map<std::string, Secret> data = access.secret_data;
  data.erase(kKeyringFile);
  StoreData(access.location, std::move(data));
  const MutexLock lock(mutex_);
  LocationData& known = locations_[access.location];
  known.read_at = now;
  kept_[name] = {.at = now, .version = known.version};
}

bool AccessKeeper::IsKeyWarningDue(const std::string& location, absl::Time now) {
  const MutexLock lock(mutex_);
  absl::Time& warned_at = locations_[location].key_warned_at;
  if (now - warned_at < kKeyWarnedEvery) {
    return false;
  }
  warned_at = now;
  return true;
}

bool AccessKeeper::IsDue(const std::string& location, absl::Time now) {
  const MutexLock lock(mutex_);
  absl::Time& read_at = locations_[location].read_at;
  if (now - read_at < kAccessKeptEvery) {
    return false;
  }
  read_at = now;
  return true;
}

void AccessKeeper::StoreData(const std::string& location, std::map<std::string, Secret> data) {
  const MutexLock lock(mutex_);
  LocationData& known = locations_[location];
  if (known.version == 0 || known.data != data) {
    known.data = std::move(data);
    ++known.version;
  }
}

std::optional<AccessKeeper::LocationData> AccessKeeper::DataFor(const std::string& location,
                                                                const std::string& name,
                                                                absl::Time now) {
  const MutexLock lock(mutex_);
  std::erase_if(kept_,
                [now](const auto& kept) { return now - kept.second.at >= kAccessComparedEvery; });
  const LocationData& known = locations_[location];
  const auto kept = kept_.find(name);
  const bool has_it = kept != kept_.end() &&
                      (kept->second.version == known.version ||
                       (kept->second.version == 0 && now - kept->second.at < kAccessKeptEvery));
  return known.version == 0 || has_it ? std::nullopt : std::optional(known);
}

objects::Secret MakeAccessSecret(absl::string_view mover_namespace, absl::string_view name,
                                 const std::map<std::string, std::string>& labels,
                                 const objects::OwnerReference& owner,
                                 const RepositoryAccess& access) {
  std::map<std::string, std::string> data;
  for (const auto& [file, content] : access.secret_data) {
    data[file] = absl::Base64Escape(content.Reveal());
  }
  auto secret = objects::Secret::Make(mover_namespace, name);
  secret.SetType("Opaque");
  secret.SetLabels(labels);
  secret.SetOwners({owner});
  secret.SetEncodedData(data);
  return secret;
}

}  // namespace csidelta::datamover

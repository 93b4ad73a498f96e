#include "datamover/location_settings.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "net/url.h"

namespace csidelta::datamover {
namespace {

using StoreKind = storage::Location::Kind;
using Use = LocationSetting::Use;

constexpr std::pair<absl::string_view, StoreKind> kProviders[] = {
    {"aws", StoreKind::kS3}, {"azure", StoreKind::kAzure}, {"gcp", StoreKind::kGoogle}};

// As Go reads them.
constexpr absl::string_view kBooleans[] = {"1", "t", "T", "true",  "TRUE",  "True",
                                           "0", "f", "F", "false", "FALSE", "False"};
constexpr absl::string_view kChecksums[] = {"CRC32", "CRC32C", "SHA1", "SHA256", "CRC64NVME"};
constexpr std::size_t kTagsMax = 10;
constexpr char kHttps[] = "https://";
constexpr char kEndpointOption[] = "gs.endpoint";
constexpr char kBlockOption[] = "azure.block-size";
constexpr int64_t kBlockBytesMin = 1'048'576;    // of csi-delta
constexpr int64_t kBlockBytesMax = 104'857'600;  // of Velero's plugin for Azure

absl::string_view FlagFault(absl::string_view value) {
  return absl::c_linear_search(kBooleans, value) ? "" : "is neither true nor false; correct it";
}

absl::string_view ChecksumFault(absl::string_view value) {
  return absl::c_linear_search(kChecksums, value) ? "" : "is not an algorithm of S3; correct it";
}

bool IsTag(absl::string_view tag) {
  const std::vector<absl::string_view> parts = absl::StrSplit(tag, '=');
  return parts.size() == 2 && !parts.front().empty() && absl::c_all_of(tag, absl::ascii_isgraph);
}

absl::string_view TaggingFault(absl::string_view value) {
  const std::vector<absl::string_view> tags = absl::StrSplit(value, '&');
  return tags.size() <= kTagsMax && absl::c_all_of(tags, IsTag)
             ? ""
             : "is not up to ten of KEY=VALUE, percent-encoded, with & between; correct it";
}

// Learn Azure, "Naming rules and restrictions for Azure resources": Microsoft.Storage.
absl::string_view AccountFault(absl::string_view value) {
  const bool is_name = value.size() >= 3 && value.size() <= 24 && absl::c_all_of(value, [](char c) {
                         return absl::ascii_islower(c) || absl::ascii_isdigit(c);
                       });
  return is_name ? "" : "is not 3 to 24 small letters and digits; correct it";
}

absl::string_view UrlFault(absl::string_view value) {
  const absl::StatusOr<net::Url> url = net::ParseUrl(value);
  return url.ok() && absl::StrContains(value, "://") && url->user_info.empty() &&
                 !absl::StrContains(value, "?")
             ? ""
             : "is not a URL without a user and a query; correct it";
}

absl::string_view EndpointFault(absl::string_view value) {
  const absl::string_view host = absl::StripPrefix(value, kHttps);
  return absl::StrContains(host, "://") ? "is not a URL of HTTPS; correct it"
                                        : UrlFault(absl::StrCat(kHttps, host));
}

absl::string_view VariableFault(absl::string_view value) {
  const bool is_name = !absl::ascii_isdigit(value.front()) && absl::c_all_of(value, [](char c) {
    return absl::ascii_isalnum(c) || c == '_';
  });
  return is_name ? "" : "is not the name of a line NAME=VALUE of the credentials; correct it";
}

absl::string_view WordFault(absl::string_view value) {
  return absl::c_none_of(value, absl::ascii_isspace) && absl::c_none_of(value, absl::ascii_iscntrl)
             ? ""
             : "has a blank in it; correct it";
}

absl::string_view BlockBytesFault(absl::string_view value) {
  int64_t bytes = 0;
  return absl::SimpleAtoi(value, &bytes) && bytes > 0 && bytes <= kBlockBytesMax
             ? ""
             : "is not a number of bytes from 1 to 104857600; correct it";
}

absl::string_view UniverseFault(absl::string_view value) {
  return value == "googleapis.com" ? ""
                                   : "is not supported, but for googleapis.com; remove it, or use "
                                     "a location without it";
}

constexpr LocationSetting kOfS3[] = {
    {"region", Use::kSupported,
     "Without it the URL's own, else `us-east-1`. A bucket that is elsewhere costs one more "
     "request in each run, or fails, naming its region."},
    {"s3Url", Use::kSupported, "Without it AWS of the region."},
    {"s3ForcePathStyle", Use::kSupported,
     "When not set, a host name becomes `BUCKET.HOST`, an address gets the bucket in its path.",
     FlagFault},
    {"profile", Use::kSupported, "The section of the credentials."},
    {"serverSideEncryption", Use::kSupported, "Requested for every object."},
    {"kmsKeyId", Use::kSupported, "Requested for every object; means `aws:kms`."},
    {"tagging", Use::kSupported, "On every object, locks included; the credentials must allow it.",
     TaggingFault},
    {"checksumAlgorithm", Use::kSupported,
     "Any algorithm of S3: SHA-256 is sent, unless the store refuses its header. Empty: that "
     "header is never sent.",
     ChecksumFault},
    {"insecureSkipTLSVerify", Use::kSupported, "The server's certificate is not verified.",
     FlagFault},
    {"publicUrl", Use::kIgnored, "For links that Velero hands out."},
    {"signatureVersion", Use::kIgnored, "For links that Velero hands out."},
    {"enableSharedConfig", Use::kIgnored,
     "Credentials may always be written as a file of settings: `[profile NAME]`."},
    {"customerKeyEncryptionFile", Use::kRejected,
     "Data is encrypted already, with a key of yours: use a location without it."},
    {"customerKeyEncryptionSecret", Use::kRejected,
     "Data is encrypted already, with a key of yours: use a location without it."},
};

// velero-plugin-for-microsoft-azure, backupstoragelocation.md and object_store.go; Velero,
// pkg/util/azure/storage.go.
constexpr LocationSetting kOfAzure[] = {
    {"storageAccount", Use::kSupported, "Required: the account that has the container.",
     AccountFault, "azure.account-name"},
    {"storageAccountURI", Use::kSupported,
     "The URL of the account's blobs. Without it that of the account in the cloud that "
     "`AZURE_CLOUD_NAME` of the credentials names.",
     UrlFault, "azure.storage-account-uri"},
    {"storageAccountKeyEnvVar", Use::kSupported,
     "The line of the credentials that has the account's key. It counts before other ways to sign "
     "in.",
     VariableFault, "azure.account-key-variable"},
    {"useAAD", Use::kSupported,
     "`true`: the identity itself reads and writes blobs. Else, without "
     "`storageAccountKeyEnvVar`, it requests the account's key from Azure.",
     FlagFault},
    {"resourceGroup", Use::kSupported, "Of the account; needed to request its key.", WordFault,
     "azure.resource-group"},
    {"subscriptionId", Use::kSupported, "Of the account; needed to request its key.", WordFault,
     "azure.subscription-id"},
    {"activeDirectoryAuthorityURI", Use::kSupported,
     "Where the identity signs in. Without it where its cloud does.", UrlFault},
    {"blockSizeInBytes", Use::kSupported,
     "Larger objects are put in such blocks; less than 1048576 counts as that.", BlockBytesFault,
     kBlockOption},
};

// velero-plugin-for-gcp, backupstoragelocation.md and object_store.go.
constexpr LocationSetting kOfGoogle[] = {
    {"kmsKeyName", Use::kSupported, "Requested for every object.", WordFault, "gs.kms-key-name"},
    {"storeEndpoint", Use::kSupported,
     "The host or the URL of a private endpoint, by HTTPS. Without it `storage.googleapis.com`.",
     EndpointFault, kEndpointOption},
    {"universeDomain", Use::kSupported, "`googleapis.com` alone.", UniverseFault},
    {"serviceAccount", Use::kIgnored,
     "As this account Velero signs links that it hands out. A worker has its own identity."},
};

// Of every provider.
constexpr LocationSetting kOfAll[] = {
    {"caCert", Use::kSupported,
     "As `spec.objectStorage.caCert`, which comes first: trusted in addition to the "
     "bundle of the image."},
    {"bucket", Use::kIgnored, "Velero's own: `spec.objectStorage` counts."},
    {"prefix", Use::kIgnored, "Velero's own: `spec.objectStorage` counts."},
    {"credentialsFile", Use::kIgnored,
     "A file in Velero's Pod, which workers cannot read: the Secret of `spec.credential` counts, "
     "else Velero's own."},
};

absl::Status Refuse(absl::string_view key, absl::string_view why) {
  return absl::FailedPreconditionError(
      absl::StrCat("config.", absl::CHexEscape(key.substr(0, 100)), " ", why));
}

// Null if it is not known.
const LocationSetting* FindSetting(StoreKind kind, absl::string_view key) {
  for (const StoreKind part : {kind, StoreKind::kDirectory}) {
    for (const LocationSetting& setting : LocationSettings(part)) {
      if (setting.key == key) {
        return &setting;
      }
    }
  }
  return nullptr;
}

absl::Status CheckSetting(StoreKind kind, absl::string_view key, absl::string_view value) {
  const LocationSetting* const known = FindSetting(kind, key);
  if (known == nullptr) {
    return Refuse(key, "is not known to csi-delta; remove it, or use a location without it");
  }
  if (known->use == Use::kRejected && !value.empty()) {
    return Refuse(key, absl::StrCat("is not supported. ", known->how));
  }
  const absl::string_view fault =
      known->fault == nullptr || value.empty() ? "" : known->fault(value);
  return fault.empty() ? absl::OkStatus() : Refuse(key, fault);
}

// What the option takes for a value that has no fault.
std::string OptionValue(absl::string_view option, const std::string& value) {
  if (option == kEndpointOption && !absl::StartsWith(value, kHttps)) {
    return absl::StrCat(kHttps, value);
  }
  int64_t bytes = 0;
  return option == kBlockOption && absl::SimpleAtoi(value, &bytes)
             ? absl::StrCat(std::max(bytes, kBlockBytesMin))
             : value;
}

}  // namespace

absl::StatusOr<StoreKind> StoreKindOf(const objects::BackupStorageLocation& location) {
  const std::string provider = location.provider();
  for (const auto& [name, kind] : kProviders) {
    if (provider == name || provider == absl::StrCat("velero.io/", name)) {
      return kind;
    }
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "provider \"", absl::CHexEscape(provider),
      "\" is not supported: csi-delta writes to S3 (aws, velero.io/aws), Azure (azure, "
      "velero.io/azure) and Google Cloud Storage (gcp, velero.io/gcp); back up to such a location, "
      "or use another data mover"));
}

absl::Span<const LocationSetting> LocationSettings(StoreKind kind) {
  switch (kind) {
    case StoreKind::kS3:
      return kOfS3;
    case StoreKind::kAzure:
      return kOfAzure;
    case StoreKind::kGoogle:
      return kOfGoogle;
    case StoreKind::kDirectory:
      break;
  }
  return kOfAll;
}

absl::Status CheckLocationSettings(const objects::BackupStorageLocation& location) {
  ASSIGN_OR_RETURN(const StoreKind kind, StoreKindOf(location));
  for (const auto& [key, value] : location.config()) {
    RETURN_IF_ERROR(CheckSetting(kind, key, value));
  }
  return kind == StoreKind::kAzure && location.Config("storageAccount").empty()
             ? Refuse("storageAccount", "is missing; name the account of the container there")
             : absl::OkStatus();
}

absl::Status CheckObjectLocks(const objects::BackupStorageLocation& location) {
  ASSIGN_OR_RETURN(const StoreKind kind, StoreKindOf(location));
  return kind == StoreKind::kS3
             ? absl::OkStatus()
             : absl::FailedPreconditionError(absl::StrCat(
                   "immutability is set, but objects are locked in buckets of S3 alone; remove "
                   "backupStorageLocations.",
                   location.name(), ".immutability, or back up to such a bucket"));
}

std::vector<std::string> StoreOptions(const objects::BackupStorageLocation& location) {
  const absl::StatusOr<StoreKind> kind = StoreKindOf(location);
  std::vector<std::string> options;
  for (const LocationSetting& setting : LocationSettings(kind.value_or(StoreKind::kDirectory))) {
    const std::string value = location.Config(setting.key);
    if (!setting.option.empty() && !value.empty()) {
      options.push_back(absl::StrCat(setting.option, "=", OptionValue(setting.option, value)));
    }
  }
  if (kind.ok() && *kind == StoreKind::kAzure &&
      location.Config("storageAccountKeyEnvVar").empty()) {
    // Velero's default is not that of the program.
    options.push_back(
        absl::StrCat("azure.use-aad=", location.ConfigFlag("useAAD") ? "true" : "false"));
  }
  if (kind.ok() && *kind == StoreKind::kS3 && location.config().contains("checksumAlgorithm") &&
      location.Config("checksumAlgorithm").empty()) {
    options.emplace_back("s3.checksum=none");
  }
  return options;
}

}  // namespace csidelta::datamover

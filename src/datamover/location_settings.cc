#include "datamover/location_settings.h"

#include <iterator>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"

namespace csidelta::datamover {
namespace {

using Use = LocationSetting::Use;

constexpr char kChecksum[] = "checksumAlgorithm";
constexpr char kTagging[] = "tagging";
constexpr absl::string_view kFlags[] = {"s3ForcePathStyle", "insecureSkipTLSVerify"};

constexpr LocationSetting kSettings[] = {
    {"region", Use::kSupported,
     "Without it the URL's own, else `us-east-1`. A bucket that is elsewhere fails, naming its "
     "region."},
    {"s3Url", Use::kSupported, "Without it AWS of the region."},
    {"s3ForcePathStyle", Use::kSupported,
     "When not set, a host name becomes `BUCKET.HOST`, an address gets the bucket in its path."},
    {"profile", Use::kSupported, "The section of the credentials."},
    {"serverSideEncryption", Use::kSupported, "Requested for every object."},
    {"kmsKeyId", Use::kSupported, "Requested for every object; means `aws:kms`."},
    {"tagging", Use::kSupported, "On every object, locks included; the credentials must allow it."},
    {"checksumAlgorithm", Use::kSupported,
     "Any algorithm of S3, or none. SHA-256 is sent, unless the store refuses its header: object "
     "lock requires a checksum."},
    {"insecureSkipTLSVerify", Use::kSupported, "The server's certificate is not verified."},
    {"caCert", Use::kSupported,
     "As `spec.objectStorage.caCert`, which comes first: trusted in addition to the "
     "bundle of the image."},
    {"publicUrl", Use::kIgnored, "For links that Velero hands out."},
    {"signatureVersion", Use::kIgnored, "For links that Velero hands out."},
    {"enableSharedConfig", Use::kIgnored,
     "Credentials may always be written as a file of settings: `[profile NAME]`."},
    {"bucket", Use::kIgnored, "Velero's own: `spec.objectStorage` counts."},
    {"prefix", Use::kIgnored, "Velero's own: `spec.objectStorage` counts."},
    {"credentialsFile", Use::kIgnored,
     "A file in Velero's Pod, which workers cannot read: the Secret of `spec.credential` counts, "
     "else Velero's own."},
    {"customerKeyEncryptionFile", Use::kRejected,
     "Data is encrypted already, with a key of yours: use a location without it."},
    {"customerKeyEncryptionSecret", Use::kRejected,
     "Data is encrypted already, with a key of yours: use a location without it."},
};

// As Go reads them.
constexpr absl::string_view kBooleans[] = {"1", "t", "T", "true",  "TRUE",  "True",
                                           "0", "f", "F", "false", "FALSE", "False"};
constexpr absl::string_view kChecksums[] = {"", "CRC32", "CRC32C", "SHA1", "SHA256", "CRC64NVME"};
constexpr std::size_t kTagsMax = 10;

absl::Status Refuse(absl::string_view key, absl::string_view why) {
  return absl::FailedPreconditionError(
      absl::StrCat("config.", absl::CHexEscape(key.substr(0, 100)), " ", why));
}

bool IsTag(absl::string_view tag) {
  const std::vector<absl::string_view> parts = absl::StrSplit(tag, '=');
  return parts.size() == 2 && !parts.front().empty() && absl::c_all_of(tag, [](char c) {
           return absl::ascii_isgraph(static_cast<unsigned char>(c));
         });
}

absl::Status CheckValue(absl::string_view key, absl::string_view value) {
  if (absl::c_linear_search(kFlags, key) && !value.empty() &&
      !absl::c_linear_search(kBooleans, value)) {
    return Refuse(key, "is neither true nor false; correct it");
  }
  if (key == kChecksum && !absl::c_linear_search(kChecksums, value)) {
    return Refuse(key, "is not an algorithm of S3; correct it");
  }
  const std::vector<absl::string_view> tags = absl::StrSplit(value, '&');
  if (key == kTagging && !value.empty() &&
      (tags.size() > kTagsMax || !absl::c_all_of(tags, IsTag))) {
    return Refuse(key,
                  "is not up to ten of KEY=VALUE, percent-encoded, with & between; correct it");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Span<const LocationSetting> LocationSettings() { return kSettings; }

absl::Status CheckLocationSettings(const objects::BackupStorageLocation& location) {
  for (const auto& [key, value] : location.config()) {
    const auto known = absl::c_find_if(
        kSettings, [&key = key](const LocationSetting& setting) { return setting.key == key; });
    if (known == std::end(kSettings)) {
      return Refuse(key, "is not known to csi-delta; remove it, or use a location without it");
    }
    if (known->use == Use::kRejected && !value.empty()) {
      return Refuse(key, absl::StrCat("is not supported. ", known->how));
    }
    RETURN_IF_ERROR(CheckValue(key, value));
  }
  return absl::OkStatus();
}

}  // namespace csidelta::datamover

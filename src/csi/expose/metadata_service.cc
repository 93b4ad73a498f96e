#include "csi/expose/metadata_service.h"

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "objects/client.h"
#include "objects/keys.h"
#include "objects/storage_class.h"

namespace csidelta::csi {
namespace {

using objects::SnapshotMetadataService;

constexpr char kPemBegin[] = "-----BEGIN CERTIFICATE-----";

// The schema wants base64 of PEM; some write the PEM itself.
std::string PemOf(const std::string& text) {
  if (absl::StrContains(text, kPemBegin)) {
    return text;
  }
  std::string pem;
  return absl::Base64Unescape(text, &pem) && absl::StrContains(pem, kPemBegin) ? pem : "";
}

absl::StatusOr<MetadataService> ParseService(const k8s::ObjectKey& key,
                                             const SnapshotMetadataService& object) {
  MetadataService service{.driver = key.name,
                          .api_version = key.type.version,
                          .uid = object.uid(),
                          .address = object.address(),
                          .audience = object.audience(),
                          .ca_pem = PemOf(object.ca_cert()),
                          .server_name = object.Annotation(objects::kMetadataServerNameAnnotation)};
  absl::string_view fault;
  if (service.address.empty()) {
    fault = "spec.address is missing";
  } else if (service.audience.empty()) {
    fault = "spec.audience is missing: without it a token would be good for anybody";
  } else if (service.ca_pem.empty()) {
    fault = "spec.caCert holds no PEM certificate";
  }
  if (!fault.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(ToString(key), ": ", fault, "; ask who installed the driver"));
  }
  return service;
}

}  // namespace

absl::StatusOr<MetadataService> FindMetadataService(const CallContext& ctx, k8s::ApiClient& api,
                                                    absl::string_view driver) {
  for (const absl::string_view version : SnapshotMetadataService::kVersions) {
    const k8s::ObjectKey key = SnapshotMetadataService::Key(version, driver);
    const auto object = objects::Get<SnapshotMetadataService>(ctx, api, key);
    if (object.ok()) {
      return ParseService(key, *object);
    }
    if (!absl::IsNotFound(object.status())) {
      return object.status();
    }
  }
  return absl::NotFoundError(
      absl::StrCat("driver ", driver, " has no SnapshotMetadataService in this cluster"));
}

}  // namespace csidelta::csi

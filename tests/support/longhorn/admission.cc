#include "tests/support/longhorn/admission.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "k8s/object.h"
#include "tests/support/longhorn/kinds.h"

namespace csidelta::longhorn_stand_in {
namespace {

constexpr std::size_t kLabelValueBytesMax = 63;

// A refusal, as it is found in the answer.
struct Refusal {
  int code = 0;
  const char* reason = "";
  std::string message = {};
};

Refusal Invalid(const std::string& message) { return {422, "Invalid", message}; }

struct Request {
  std::string operation = {};
  std::string resource = {};
  std::string name = {};
  Json object = {};      // null for DELETE
  Json old_object = {};  // null for CREATE
};

Json MemberOf(const Json& value, absl::string_view name) {
  const Json* const member = FindJson(value, {name});
  return member == nullptr ? Json() : *member;
}

Request ReadRequest(const Json& request) {
  Request read{.operation = GetString(request, {"operation"}),
               .resource = GetString(request, {"resource", "resource"}),
               .name = GetString(request, {"name"}),
               .object = MemberOf(request, "object"),
               .old_object = MemberOf(request, "oldObject")};
  if (GetString(request, {"resource", "group"}) != kGroup) {
    read.resource.clear();
  }
  return read;
}

void AddOperation(Json& patch, const char* path, Json value) {
  patch.push_back({{"op", "add"}, {"path", path}, {"value", std::move(value)}});
}

void AddFinalizer(const Json& object, Json& patch) {
  const Json* const found = FindJson(object, {"metadata", "finalizers"});
  Json finalizers = found == nullptr || !found->is_array() ? Json::array() : *found;
  if (std::find(finalizers.begin(), finalizers.end(), kFinalizer) == finalizers.end()) {
    finalizers.push_back(kFinalizer);
    AddOperation(patch, "/metadata/finalizers", std::move(finalizers));
  }
}

bool IsEmptyList(const Json* list) { return list == nullptr || !list->is_array() || list->empty(); }

std::optional<Refusal> MutateCreate(const Json& object, const VolumeLookup& volumes, Json& patch) {
  const std::string name = GetString(object, {"spec", "volume"});
  const std::optional<Json> volume = volumes.FindVolume(name);
  if (!volume.has_value()) {
    return Invalid(absl::StrCat("failed to get volume ", name, ": volume.longhorn.io \"", name,
                                "\" not found"));
  }
  std::map<std::string, std::string> labels = GetStringMap(object, {"metadata", "labels"});
  labels[kVolumeLabel] = name;
  AddOperation(patch, "/metadata/labels", labels);
  AddFinalizer(object, patch);
  if (IsEmptyList(FindJson(object, {"metadata", "ownerReferences"}))) {
    AddOperation(patch, "/metadata/ownerReferences",
                 Json::array({{{"apiVersion", kApiVersion},
                               {"kind", "Volume"},
                               {"name", name},
                               {"uid", k8s::Uid(*volume)}}}));
  }
  return std::nullopt;
}

std::optional<Refusal> Mutate(const Request& request, const VolumeLookup& volumes, Json& patch) {
  if (request.operation == "CREATE") {
    return MutateCreate(request.object, volumes, patch);
  }
  if (request.operation == "UPDATE" && !k8s::BeingDeleted(request.object)) {
    AddFinalizer(request.object, patch);
  }
  return std::nullopt;
}

std::optional<Refusal> ValidateCreate(const Json& object, const VolumeLookup& volumes) {
  for (const auto& [key, value] : GetStringMap(object, {"metadata", "labels"})) {
    if (absl::StrContains(key, "=") || absl::StrContains(value, "=")) {
      return Invalid(absl::StrCat("label key or value cannot contain \"=\": ", key, "=", value));
    }
  }
  const std::string name = GetString(object, {"spec", "volume"});
  if (name.empty()) {
    return Invalid("spec.volume is required");
  }
  const std::optional<Json> volume = volumes.FindVolume(name);
  if (volume.has_value() && k8s::Label(*volume, kLegacyLinkedCloneLabel) == "true") {
    return Invalid(absl::StrCat("volume ", name, " is a legacy linked clone: no snapshot of it"));
  }
  return std::nullopt;
}

std::optional<Refusal> ValidateUpdate(const Json& object, const Json& old_object,
                                      const AdmissionRules& rules) {
  if (GetString(object, {"spec", "volume"}) != GetString(old_object, {"spec", "volume"})) {
    return Invalid("spec.volume field is immutable");
  }
  const Json* const old_owners = FindJson(old_object, {"metadata", "ownerReferences"});
  const Json* const owners = FindJson(object, {"metadata", "ownerReferences"});
  if (!IsEmptyList(old_owners) && (owners == nullptr || *owners != *old_owners)) {
    return Invalid("snapshot OwnerReferences field is immutable");
  }
  const std::string old_label = k8s::Label(old_object, kVolumeLabel);
  if (!old_label.empty() && k8s::Label(object, kVolumeLabel) != old_label) {
    return Invalid(absl::StrCat("label ", kVolumeLabel, " is immutable"));
  }
  if (rules.as_proposed && MemberOf(object, "spec") != MemberOf(old_object, "spec")) {
    return Invalid("spec is immutable");
  }
  if (rules.as_proposed && GetStringMap(object, {"metadata", "labels"}) !=
                               GetStringMap(old_object, {"metadata", "labels"})) {
    return Invalid("labels are immutable");
  }
  return std::nullopt;
}

// Since 1.6; longhorn-manager counts what its monitor saw last.
std::optional<Refusal> ValidateVolumeUpdate(const Request& request, const VolumeLookup& volumes) {
  const int64_t wanted = GetInt(request.object, {"spec", "snapshotMaxCount"});
  const bool is_lower = wanted != GetInt(request.old_object, {"spec", "snapshotMaxCount"}) &&
                        wanted < volumes.ShownSnapshots(request.name);
  return is_lower ? std::optional(Invalid(
                        "can't make snapshotMaxCount or snapshotMaxSize be smaller than current "
                        "usage, please remove snapshots first"))
                  : std::nullopt;
}

// Looks for linked clones with a selector of a label that has the name as its value, which a longer
// name than a value may have cannot be parsed into.
std::optional<Refusal> ValidateDelete(const std::string& name, const VolumeLookup& volumes) {
  if (name.size() > kLabelValueBytesMax) {
    return Refusal{500, "InternalError",
                   absl::StrCat("failed to check if snapshot ", name,
                                " is a linked-clone entrypoint: unable to parse requirement: "
                                "values[0][",
                                kLinkedCloneLabel, "]: Invalid value: \"", name,
                                "\": must be no more than 63 bytes")};
  }
  const std::string clone = volumes.VolumeWithLabel(kLinkedCloneLabel, name);
  if (!clone.empty()) {
    return Refusal{403, "Forbidden",
                   absl::StrCat("cannot delete snapshot ", name,
                                ": it is a linked-clone entrypoint of volume ", clone)};
  }
  return std::nullopt;
}

std::optional<Refusal> Validate(const Request& request, const VolumeLookup& volumes,
                                const AdmissionRules& rules) {
  if (request.operation == "CREATE") {
    return ValidateCreate(request.object, volumes);
  }
  if (request.operation == "UPDATE") {
    return ValidateUpdate(request.object, request.old_object, rules);
  }
  if (request.operation == "DELETE") {
    return ValidateDelete(request.name, volumes);
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<Json> AnswerReview(Webhook webhook, const Json& review, const VolumeLookup& volumes,
                                  const AdmissionRules& rules) {
  const Json* const asked = FindJson(review, {"request"});
  if (asked == nullptr || GetString(*asked, {"uid"}).empty()) {
    return absl::InvalidArgumentError("no AdmissionReview: request.uid is missing");
  }
  const Request request = ReadRequest(*asked);
  Json patch = Json::array();
  std::optional<Refusal> refusal;
  if (request.resource == "snapshots") {
    refusal = webhook == Webhook::kMutator ? Mutate(request, volumes, patch)
                                           : Validate(request, volumes, rules);
  } else if (request.resource == "volumes" && request.operation == "UPDATE" &&
             webhook == Webhook::kValidator) {
    refusal = ValidateVolumeUpdate(request, volumes);
  }
  Json response = {{"uid", GetString(*asked, {"uid"})}, {"allowed", !refusal.has_value()}};
  if (refusal.has_value()) {
    response["status"] = {{"status", "Failure"},
                          {"code", refusal->code},
                          {"reason", refusal->reason},
                          {"message", refusal->message}};
  } else if (!patch.empty()) {
    response["patchType"] = "JSONPatch";
    response["patch"] = absl::Base64Escape(DumpJson(patch));
  }
  return Json{{"apiVersion", "admission.k8s.io/v1"},
              {"kind", "AdmissionReview"},
              {"response", std::move(response)}};
}

absl::StatusOr<Json> ApplyAnswer(Webhook webhook, const Json& answer, Json object) {
  if (!GetBool(answer, {"response", "allowed"})) {
    const std::string message = absl::StrCat(
        "admission webhook \"", NameOf(webhook),
        "\" denied the request: ", GetString(answer, {"response", "status", "message"}));
    switch (GetInt(answer, {"response", "status", "code"})) {
      case 422:
        return absl::InvalidArgumentError(message);
      case 403:
        return absl::PermissionDeniedError(message);
      default:
        return absl::FailedPreconditionError(message);
    }
  }
  const std::string encoded = GetString(answer, {"response", "patch"});
  if (encoded.empty()) {
    return object;
  }
  std::string text;
  if (!absl::Base64Unescape(encoded, &text)) {
    return absl::UnavailableError("the patch of a webhook is not base64");
  }
  ASSIGN_OR_RETURN(const Json patch, ParseJson(text));
  try {
    return object.patch(patch);
  } catch (const Json::exception& error) {
    return absl::UnavailableError(absl::StrCat("the patch of a webhook: ", error.what()));
  }
}

absl::Status UnreachableError(Webhook webhook) {
  return absl::UnavailableError(absl::StrCat(
      "Internal error occurred: failed calling webhook \"", NameOf(webhook),
      "\": failed to call webhook: Post \"https://127.0.0.1/\": dial tcp 127.0.0.1:443: connect: "
      "connection refused"));
}

}  // namespace csidelta::longhorn_stand_in

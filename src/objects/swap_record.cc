#include "objects/swap_record.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/enum_names.h"
#include "base/json_fields.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "objects/keys.h"

namespace csidelta::objects {
namespace {

constexpr char kBindingPrefix[] = "pv.kubernetes.io/";

// Of a domain of Kubernetes, or of none, as foregroundDeletion.
bool IsOfKubernetes(absl::string_view finalizer) {
  const std::size_t slash = finalizer.find('/');
  const absl::string_view domain = finalizer.substr(0, slash);
  return slash == absl::string_view::npos || domain == "kubernetes.io" || domain == "k8s.io" ||
         absl::EndsWith(domain, ".kubernetes.io") || absl::EndsWith(domain, ".k8s.io");
}

constexpr EnumNames<SwapSide, 2> kSides = {{
    {SwapSide::kOriginal, "original"},
    {SwapSide::kRestored, "restored"},
}};

constexpr auto kSwapFields = [](auto& fields, auto& record) {
  fields("side", record.side, kSides);
  fields("namespace", record.namespace_name);
  fields("pvc", record.pvc);
  fields("snapshot", record.snapshot);
  fields("snapshotUid", record.snapshot_uid);
  fields("policy", record.policy);
  fields("peer", record.peer);
};

constexpr auto kTemporaryFields = [](auto& fields, auto& record) {
  fields("pvcUid", record.pvc_uid);
  fields("snapshot", record.snapshot);
  fields("snapshotUid", record.snapshot_uid);
};

bool IsPolicy(absl::string_view text) {
  return text == "Delete" || text == "Retain" || text == "Recycle";
}

absl::Status Unreadable(const PersistentVolume& volume, absl::string_view what) {
  return absl::FailedPreconditionError(absl::StrCat(
      "PersistentVolume ", volume.name(), " has no complete record of an in-place restore (", what,
      "): it is left as it is; look at its annotation ", kInPlaceRecordAnnotation));
}

absl::Status ReadOriginal(const Json& json, const PersistentVolume& volume, SwapRecord& record) {
  const std::optional<SwapSide> goal = EnumValue(kSides, GetString(json, {"goal"}));
  const Json* const claim = FindJson(json, {"claim"});
  record.pvc_uid = GetString(json, {"pvcUid"});
  record.safety = GetString(json, {"safety"});
  record.at = ParseRfc3339(GetString(json, {"at"}));
  if (!goal.has_value() || claim == nullptr || record.pvc_uid.empty()) {
    return Unreadable(volume, "goal, claim or pvcUid is missing");
  }
  record.goal = *goal;
  ASSIGN_OR_RETURN(record.claim, PersistentVolumeClaim::Of(*claim));
  if (record.claim->name() != record.pvc ||
      record.claim->namespace_name() != record.namespace_name ||
      FindJson(*claim, {"spec"}) == nullptr) {
    return Unreadable(volume, "claim is not that PVC");
  }
  return absl::OkStatus();
}

}  // namespace

std::string ToString(SwapSide side) { return EnumName(kSides, side); }

std::string FormatSwapRecord(const SwapRecord& record) {
  Json json = WriteFields(kSwapFields, record);
  if (record.side == SwapSide::kOriginal) {
    json["goal"] = ToString(record.goal);
    json["at"] = record.at.has_value() ? FormatRfc3339(*record.at) : "";
    json["pvcUid"] = record.pvc_uid;
    json["safety"] = record.safety;
    json["claim"] = record.claim.has_value() ? record.claim->json() : Json();
  }
  return DumpJson(json);
}

bool HasSwapRecord(const PersistentVolume& volume) {
  return !volume.Annotation(kInPlaceRecordAnnotation).empty();
}

absl::StatusOr<SwapRecord> ParseSwapRecord(const PersistentVolume& volume) {
  const absl::StatusOr<Json> json = ParseJsonObject(volume.Annotation(kInPlaceRecordAnnotation));
  if (!json.ok()) {
    return Unreadable(volume, json.status().message());
  }
  auto record = ReadFields<SwapRecord>(kSwapFields, &*json);
  if (!EnumValue(kSides, GetString(*json, {"side"})).has_value() || record.namespace_name.empty() ||
      record.pvc.empty() || record.snapshot.empty() || !IsPolicy(record.policy) ||
      record.peer.empty()) {
    return Unreadable(volume, "a field is missing");
  }
  if (record.side == SwapSide::kOriginal) {
    RETURN_IF_ERROR(ReadOriginal(*json, volume, record));
  }
  return record;
}

std::string FormatTemporaryRecord(const TemporaryRecord& record) {
  return DumpJson(WriteFields(kTemporaryFields, record));
}

TemporaryRecord ParseTemporaryRecord(const PersistentVolumeClaim& pvc) {
  const absl::StatusOr<Json> json = ParseJsonObject(pvc.Annotation(kInPlaceRecordAnnotation));
  return ReadFields<TemporaryRecord>(kTemporaryFields, json.ok() ? &*json : nullptr);
}

std::vector<std::string> ForeignFinalizers(const PersistentVolumeClaim& pvc) {
  std::vector<std::string> foreign = pvc.finalizers();
  std::erase_if(foreign, IsOfKubernetes);
  return foreign;
}

PersistentVolumeClaim ClaimToMake(const PersistentVolumeClaim& pvc, const std::string& volume) {
  Json made = {{"apiVersion", "v1"},
               {"kind", "PersistentVolumeClaim"},
               {"metadata", {{"name", pvc.name()}, {"namespace", pvc.namespace_name()}}}};
  for (const char* field : {"labels", "ownerReferences"}) {
    if (const Json* found = FindJson(pvc.json(), {"metadata", field}); found != nullptr) {
      made["metadata"][field] = *found;
    }
  }
  if (const std::vector<std::string> finalizers = ForeignFinalizers(pvc); !finalizers.empty()) {
    made["metadata"]["finalizers"] = finalizers;
  }
  for (const auto& [key, value] : pvc.annotations()) {
    if (!absl::StartsWith(key, kBindingPrefix) && key != kSelectedNodeAnnotation &&
        key != kInPlaceRecordAnnotation && key != kCopyRecordAnnotation &&
        key != kMayWriteAnnotation) {
      made["metadata"]["annotations"][key] = value;
    }
  }
  if (const Json* spec = FindJson(pvc.json(), {"spec"}); spec != nullptr) {
    made["spec"] = *spec;
  }
  EraseJson(made, {"spec", "volumeName"});
  if (!volume.empty()) {
    SetJson(made, {"spec", "volumeName"}, volume);
  }
  return *PersistentVolumeClaim::Of(std::move(made));
}

}  // namespace csidelta::objects

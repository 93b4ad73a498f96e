#include "objects/copy_record.h"

#include "base/enum_names.h"
#include "base/json_fields.h"
#include "objects/keys.h"

namespace csidelta::objects {
namespace {

using Method = CopyRecord::Method;

constexpr EnumNames<Method, 3> kMethods = {{
    {Method::kSnapshot, "snapshot"},
    {Method::kRepository, "repository"},
    {Method::kMover, "mover"},
}};

constexpr auto kCopyRecordFields = [](auto& fields, auto& record) {
  fields("method", record.method, kMethods);
  fields("from", record.from);
  fields.IfSet("id", record.id);
  fields.IfSet("upload", record.upload);
  fields.IfSet("at", record.at);
  fields.IfSet("begun", record.has_begun);
  fields.IfSet("ended", record.has_ended);
  fields.IfSet("writes", record.has_written);
};

}  // namespace

std::string FormatCopyRecord(const CopyRecord& record) {
  return DumpJson(WriteFields(kCopyRecordFields, record));
}

std::optional<CopyRecord> ParseCopyRecord(const PersistentVolumeClaim& pvc) {
  const std::string text = pvc.Annotation(kCopyRecordAnnotation);
  if (text.empty()) {
    return std::nullopt;
  }
  const absl::StatusOr<Json> json = ParseJsonObject(text);
  return ReadFields<CopyRecord>(kCopyRecordFields, json.ok() ? &*json : nullptr);
}

Patch CopyRecordPatch(const PersistentVolumeClaim& pvc, const CopyRecord* record) {
  Patch patch = Patch().IfUid(pvc.uid()).IfVersion(pvc.resource_version());
  return record == nullptr ? patch.RemoveAnnotation(kCopyRecordAnnotation)
                           : patch.SetAnnotation(kCopyRecordAnnotation, FormatCopyRecord(*record));
}

}  // namespace csidelta::objects

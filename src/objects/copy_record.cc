#include "objects/copy_record.h"

#include <utility>

#include "absl/strings/string_view.h"
#include "base/enum_names.h"
#include "base/json.h"
#include "base/rfc3339.h"
#include "objects/keys.h"

namespace csidelta::objects {
namespace {

using Method = CopyRecord::Method;

constexpr EnumNames<Method, 3> kMethods = {{
    {Method::kSnapshot, "snapshot"},
    {Method::kRepository, "repository"},
    {Method::kMover, "mover"},
}};

}  // namespace

std::string FormatCopyRecord(const CopyRecord& record) {
  Json json = {{"method", EnumName(kMethods, record.method)}, {"from", record.from}};
  for (const auto& [field, value] :
       {std::pair("id", &record.id), std::pair("upload", &record.upload)}) {
    if (!value->empty()) {
      json[field] = *value;
    }
  }
  if (record.at.has_value()) {
    json["at"] = FormatRfc3339(*record.at);
  }
  for (const auto& [field, is_so] :
       {std::pair("begun", record.has_begun), std::pair("ended", record.has_ended),
        std::pair("writes", record.has_written)}) {
    if (is_so) {
      json[field] = true;
    }
  }
  return DumpJson(json);
}

std::optional<CopyRecord> ParseCopyRecord(const PersistentVolumeClaim& pvc) {
  const std::string text = pvc.Annotation(kCopyRecordAnnotation);
  if (text.empty()) {
    return std::nullopt;
  }
  CopyRecord record;
  const absl::StatusOr<Json> json = ParseJsonObject(text);
  if (!json.ok()) {
    return record;
  }
  record.method = EnumValue(kMethods, GetString(*json, {"method"})).value_or(Method::kUnknown);
  record.from = GetString(*json, {"from"});
  record.id = GetString(*json, {"id"});
  record.upload = GetString(*json, {"upload"});
  record.at = ParseRfc3339(GetString(*json, {"at"}));
  record.has_begun = GetBool(*json, {"begun"});
  record.has_ended = GetBool(*json, {"ended"});
  record.has_written = GetBool(*json, {"writes"});
  return record;
}

Patch CopyRecordPatch(const PersistentVolumeClaim& pvc, const CopyRecord* record) {
  Patch patch = Patch().IfUid(pvc.uid()).IfVersion(pvc.resource_version());
  return record == nullptr ? patch.RemoveAnnotation(kCopyRecordAnnotation)
                           : patch.SetAnnotation(kCopyRecordAnnotation, FormatCopyRecord(*record));
}

}  // namespace csidelta::objects

#include "objects/copy_record.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/json_fields.h"
#include "objects/keys.h"

namespace csidelta::objects {
namespace {

constexpr std::size_t kPlainNameBytesMax = 253;  // Of an object's name.

constexpr auto kCopyRecordFields = [](auto& fields, auto& record) {
  fields("from", record.from);
  fields.IfSet("id", record.id);
  fields.IfSet("upload", record.upload);
  fields.IfSet("at", record.at);
  fields.IfSet("begun", record.has_begun);
  fields.IfSet("ended", record.has_ended);
  fields.IfSet("writes", record.has_written);
};

bool IsPlainName(absl::string_view name) {
  return !name.empty() && name.size() <= kPlainNameBytesMax && absl::ascii_isalnum(name.front()) &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.';
         });
}

std::string RecordedPvc(const PersistentVolumeClaim& pvc) {
  return absl::StrCat(pvc.namespace_name(), "/", pvc.name());
}

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

RecordedDownload DownloadOf(const CopyRecord& record) {
  const std::vector<std::string> parts = absl::StrSplit(record.from, '/');
  return parts.size() == 2 && IsPlainName(parts[0]) && IsPlainName(parts[1])
             ? RecordedDownload{.namespace_name = parts[0], .name = parts[1]}
             : RecordedDownload{};
}

bool IsWrittenByMover(const CopyRecord& record, absl::string_view own_uid) {
  return !record.id.empty() && !record.has_ended && record.id != own_uid;
}

std::string WrittenByMoverText(const CopyRecord& record, const PersistentVolumeClaim& pvc) {
  const bool is_named = !DownloadOf(record).name.empty();
  return absl::StrCat("the data mover writes into PVC ", RecordedPvc(pvc), " for ",
                      is_named ? absl::StrCat("DataDownload ", record.from) : "a DataDownload",
                      "; wait until that is over; where it does not exist: kubectl annotate pvc ",
                      pvc.name(), " -n ", pvc.namespace_name(), " ", kCopyRecordAnnotation, "-");
}

std::string CopyCommand(const CopyRecord& record, const PersistentVolumeClaim& pvc) {
  return absl::StrCat("csi-delta restore --upload ",
                      IsPlainName(record.upload) ? record.upload : "DATAUPLOAD", " --into ",
                      RecordedPvc(pvc));
}

std::string NextStepOf(absl::string_view command) {
  const bool is_upload = absl::StartsWith(command, "csi-delta restore --upload ");
  return absl::StrCat(
      is_upload ? "with restore.intoExistingVolumes switched on in the mover's settings, and " : "",
      absl::StartsWith(command, "csi-delta ") ? "without a Pod that uses the PVC: " : "", command);
}

}  // namespace csidelta::objects

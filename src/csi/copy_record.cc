#include "csi/copy_record.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "objects/keys.h"

namespace csidelta::csi {
namespace {

using objects::PersistentVolumeClaim;
using Method = CopyRecord::Method;

constexpr std::size_t kPlainNameBytesMax = 253;  // Of an object's name.

bool IsPlainName(absl::string_view word) {
  return !word.empty() && word.size() <= kPlainNameBytesMax && absl::ascii_isalnum(word.front()) &&
         std::all_of(word.begin(), word.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.';
         });
}

std::string PlainOr(const std::string& word, absl::string_view open) {
  return IsPlainName(word) ? word : std::string(open);
}

// "velero/restore-1", or what stands for it.
std::string DownloadText(const CopyRecord& record) {
  return DownloadOf(record).name.empty() ? "a DataDownload"
                                         : absl::StrCat("DataDownload ", record.from);
}

std::string RecordedPvc(const PersistentVolumeClaim& pvc) {
  return absl::StrCat(pvc.namespace_name(), "/", pvc.name());
}

std::string WithoutRecordCommand(const PersistentVolumeClaim& pvc) {
  return absl::StrCat("kubectl annotate pvc ", pvc.name(), " -n ", pvc.namespace_name(), " ",
                      objects::kCopyRecordAnnotation, "-");
}

}  // namespace

bool IsWrittenByPod(const CopyRecord& record) {
  return record.method != Method::kMover && !record.has_ended;
}

std::string WrittenByPodText(const CopyRecord& record, const PersistentVolumeClaim& pvc) {
  return absl::StrCat("a restore into PVC ", RecordedPvc(pvc), " has not ended; ",
                      record.method == Method::kUnknown
                          ? "its record cannot be read"
                          : absl::StrCat(CopyCommand(record, pvc), " finishes it"),
                      "; where no Pod of it is left: ", WithoutRecordCommand(pvc));
}

RecordedDownload DownloadOf(const CopyRecord& record) {
  const std::vector<std::string> parts = absl::StrSplit(record.from, '/');
  return parts.size() == 2 && IsPlainName(parts[0]) && IsPlainName(parts[1])
             ? RecordedDownload{.namespace_name = parts[0], .name = parts[1]}
             : RecordedDownload{};
}

bool IsWrittenByMover(const CopyRecord& record, absl::string_view own_uid) {
  return record.method == Method::kMover && !record.has_ended &&
         (own_uid.empty() || record.id != own_uid);
}

std::string WrittenByMoverText(const CopyRecord& record, const PersistentVolumeClaim& pvc) {
  return absl::StrCat(
      "the data mover writes into PVC ", RecordedPvc(pvc), " for ", DownloadText(record),
      "; wait until that is over; where it does not exist: ", WithoutRecordCommand(pvc));
}

std::string CopyCommand(const CopyRecord& record, const PersistentVolumeClaim& pvc) {
  switch (record.method) {
    case Method::kSnapshot:
      return absl::StrCat("csi-delta snapshot restore ", PlainOr(record.from, "NAME"), " --into ",
                          pvc.name(), " -n ", pvc.namespace_name(), " --method copy --image IMAGE");
    case Method::kRepository:
      return absl::StrCat("csi-delta restore ", PlainOr(record.id, "ID"), " --into ",
                          RecordedPvc(pvc), " --repository-secret ", PlainOr(record.from, "SECRET"),
                          " --image IMAGE");
    case Method::kMover:
    case Method::kUnknown:
      break;
  }
  return absl::StrCat("csi-delta restore --upload ", PlainOr(record.upload, "DATAUPLOAD"),
                      " --into ", RecordedPvc(pvc));
}

}  // namespace csidelta::csi

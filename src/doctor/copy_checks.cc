#include <optional>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "doctor/checks.h"
#include "objects/backup.h"
#include "objects/copy_record.h"
#include "objects/data_transfer.h"
#include "objects/keys.h"
#include "objects/persistent_volume.h"

namespace csidelta::doctor {
namespace {

using objects::CopyCommand;
using objects::CopyRecord;
using objects::ParseCopyRecord;
using objects::PersistentVolumeClaim;

// A restore that runs for longer has lost its worker, or its driver makes no progress.
constexpr absl::Duration kCopyTimeMax = absl::Hours(6);

bool HasDownload(CheckContext& context, const std::string& uid) {
  const auto downloads = context.cache().List<objects::DataDownload>();
  return !downloads.ok() || absl::c_any_of(*downloads, [&](const objects::DataDownload& download) {
    return download.uid() == uid && !download.is_over();
  });
}

void InspectRecord(CheckContext& context, const PersistentVolumeClaim& pvc,
                   const CopyRecord& record) {
  const bool is_under_way = !record.has_ended && HasDownload(context, record.id);
  if (is_under_way && !context.IsPast(record.at, kCopyTimeMax)) {
    return;
  }
  context.Warn(SubjectOf("PVC", pvc),
               absl::StrCat(is_under_way ? "a restore writes into its volume for over 6 hours"
                                         : "a restore into its volume did not finish",
                            "; until it does, the volume may be partly old, and is marked so"),
               absl::StrCat(CopyCommand(record, pvc), " finishes it"));
}

// A program that was killed leaves it, if the data mover had not taken notice.
void InspectConsent(CheckContext& context, const PersistentVolumeClaim& pvc) {
  const std::string uid = pvc.Annotation(objects::kMayWriteAnnotation);
  if (!uid.empty() && !HasDownload(context, uid)) {
    context.Note(SubjectOf("PVC", pvc),
                 absl::StrCat("its annotation ", objects::kMayWriteAnnotation,
                              " is left over from a restore --upload whose DataDownload has ended, "
                              "and has no effect any more"),
                 absl::StrCat("kubectl annotate pvc ", pvc.name(), " -n ", pvc.namespace_name(),
                              " ", objects::kMayWriteAnnotation, "-"));
  }
}

}  // namespace

void CheckCopiesIntoVolumes(CheckContext& context) {
  for (const PersistentVolumeClaim& pvc : context.List<PersistentVolumeClaim>()) {
    if (const std::optional<CopyRecord> record = ParseCopyRecord(pvc); record.has_value()) {
      InspectRecord(context, pvc, *record);
    }
    InspectConsent(context, pvc);
  }
}

void CheckRestoresWithoutData(CheckContext& context) {
  const std::string& wanted = context.options().restore;
  const auto pvcs = context.List<PersistentVolumeClaim>();
  bool is_found = wanted.empty();
  for (const objects::Restore& restore : context.ListInVeleros<objects::Restore>()) {
    if (!wanted.empty() && restore.name() != wanted) {
      continue;
    }
    is_found = true;
    const std::string reason =
        absl::StrCat("no data of backup ", restore.backup_name(), " in what existed before");
    std::vector<std::string> names;
    for (const objects::PvcWithoutData& left : restore.pvcs_without_data()) {
      const auto pvc = absl::c_find_if(pvcs, [&](const PersistentVolumeClaim& one) {
        return restore.IsStillWithoutData(left, one);
      });
      if (pvc != pvcs.end() && !wanted.empty()) {
        context.Warn(SubjectOf("PVC", *pvc), reason, objects::NextStepOf(left.command));
      }
      if (pvc != pvcs.end()) {
        names.push_back(absl::StrCat(pvc->namespace_name(), "/", pvc->name()));
      }
    }
    if (!names.empty()) {
      context.Warn(SubjectOf("Restore", restore),
                   absl::StrCat(reason, ", PVCs: ", names.size(), " (", Listed(names), ")"),
                   wanted.empty() ? absl::StrCat("csi-delta doctor --restore ", restore.name(),
                                                 " names the command for each")
                                  : "run the command of each PVC above");
    }
  }
  if (!is_found) {
    context.Fault(absl::StrCat("Restore ", wanted), "it was not found",
                  "velero restore get lists those of Velero's namespace; --velero-namespace");
  }
}

}  // namespace csidelta::doctor

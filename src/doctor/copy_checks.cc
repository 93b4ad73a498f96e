#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "csi/copy_record.h"
#include "doctor/checks.h"
#include "objects/client.h"
#include "objects/data_download.h"
#include "objects/keys.h"
#include "objects/persistent_volume_claim.h"
#include "objects/workload.h"
#include "velero/data_upload.h"

namespace csidelta::doctor {
namespace {

using csi::CopyRecord;
using objects::PersistentVolumeClaim;
using objects::Pod;

// One that runs for longer has lost who began it, or a driver that does not get on.
constexpr absl::Duration kCopyTimeMax = absl::Hours(6);
constexpr absl::Duration kCopyListTimeMax = absl::Seconds(10);

// The Pods that copy, or did, of all namespaces: the API server picks them out of very many.
std::vector<Pod> CopyPods(CheckContext& context) {
  absl::StatusOr<std::vector<Pod>> list = objects::List<Pod>(
      context.ctx().WithTimeout(kCopyListTimeMax), context.cache().api(), "",
      {.label_selector = objects::kCopiesIntoLabel, .field_selector = "", .may_be_old = true});
  if (!list.ok()) {
    context.Unknown("pods", list.status());
    return {};
  }
  return *std::move(list);
}

class CopyCheckContext {
 public:
  explicit CopyCheckContext(CheckContext& context) : visit_(context), pods_(CopyPods(context)) {
    for (PersistentVolumeClaim& pvc : context.Look<PersistentVolumeClaim>()) {
      std::string uid = pvc.uid();
      pvcs_.emplace(std::move(uid), std::move(pvc));
    }
  }

  void Run() {
    for (const auto& [uid, pvc] : pvcs_) {
      if (const std::optional<CopyRecord> record = csi::ParseCopyRecord(pvc); record.has_value()) {
        LookAtRecord(pvc, *record);
      }
      LookAtConsent(pvc);
      if (!pvc.Label(objects::kCopiesIntoLabel).empty()) {
        LookAtMade("PVC", pvc, false);
      }
    }
    for (const Pod& pod : pods_) {
      LookAtMade("Pod", pod, !pod.is_active());
    }
  }

 private:
  static std::string NameOf(absl::string_view kind, const objects::Object& object) {
    return absl::StrCat(kind, " ", object.namespace_name(), "/", object.name());
  }

  // Whether something is writing into the PVC now, as far as that can be seen.
  bool IsUnderWay(const PersistentVolumeClaim& pvc, const CopyRecord& record) {
    if (record.method == CopyRecord::Method::kMover) {
      return !record.has_ended && HasDownload(record.id);
    }
    return absl::c_any_of(pods_, [&](const Pod& pod) {
      return pod.is_active() && pod.Label(objects::kCopiesIntoLabel) == pvc.uid();
    });
  }

  bool HasDownload(const std::string& uid) {
    const auto downloads = visit_.cache().List<objects::DataDownload>();
    return !downloads.ok() ||
           absl::c_any_of(*downloads, [&](const objects::DataDownload& download) {
             return download.uid() == uid &&
                    !velero::IsTerminal(velero::ParseDataPhase(download.phase()));
           });
  }

  void LookAtRecord(const PersistentVolumeClaim& pvc, const CopyRecord& record) {
    if (IsUnderWay(pvc, record) && !visit_.IsPast(record.at, kCopyTimeMax)) {
      return;
    }
    visit_.Warn(
        NameOf("PVC", pvc),
        absl::StrCat(IsUnderWay(pvc, record) ? "a restore writes into its volume for over 6 hours"
                                             : "a restore into its volume did not finish",
                     "; as long as that is so it may be partly old, which its beginning "
                     "then says"),
        absl::StrCat(csi::CopyCommand(record, pvc), " finishes it"));
  }

  // Of a program that was killed, before the data mover took notice.
  void LookAtConsent(const PersistentVolumeClaim& pvc) {
    const std::string uid = pvc.Annotation(objects::kMayWriteAnnotation);
    if (!uid.empty() && !HasDownload(uid)) {
      visit_.Note(NameOf("PVC", pvc),
                  absl::StrCat("its annotation ", objects::kMayWriteAnnotation,
                               " is left of a restore --upload whose DataDownload is over or gone, "
                               "and allows nothing any more"),
                  absl::StrCat("kubectl annotate pvc ", pvc.name(), " -n ", pvc.namespace_name(),
                               " ", objects::kMayWriteAnnotation, "-"));
    }
  }

  // A Pod or a temporary PVC, which goes with the copy.
  void LookAtMade(absl::string_view kind, const objects::Object& made, bool has_ended) {
    if (!visit_.IsPast(made.created_at(), kCopyTimeMax)) {
      return;
    }
    const auto target = pvcs_.find(made.Label(objects::kCopiesIntoLabel));
    const std::optional<CopyRecord> record =
        target == pvcs_.end() ? std::nullopt : csi::ParseCopyRecord(target->second);
    visit_.Warn(
        NameOf(kind, made),
        absl::StrCat("made over 6 hours ago for a restore into ",
                     target == pvcs_.end() ? "a PVC that is gone" : NameOf("PVC", target->second),
                     has_ended ? ", and has ended" : ""),
        record.has_value() ? absl::StrCat(csi::CopyCommand(*record, target->second),
                                          " goes on with it, and removes it")
                           : absl::StrCat("kubectl delete ", kind == "Pod" ? "pod " : "pvc ",
                                          made.name(), " -n ", made.namespace_name()));
  }

  CheckContext& visit_;
  const std::vector<Pod> pods_;
  std::map<std::string, PersistentVolumeClaim> pvcs_;  // by uid
};

}  // namespace

void CheckCopiesIntoVolumes(CheckContext& context) { CopyCheckContext(context).Run(); }

}  // namespace csidelta::doctor

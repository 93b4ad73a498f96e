#include "snapshots/promotion_check.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/quantity.h"
#include "csi/expose/claim_provisioning.h"
#include "k8s/object.h"
#include "objects/client.h"
#include "objects/keys.h"

namespace csidelta::snapshots {
namespace {

using objects::StorageClass;
using objects::VolumeMode;
using objects::VolumeSnapshot;
using objects::VolumeSnapshotContent;

constexpr int64_t kMebibyte = int64_t{1} << 20;
constexpr char kReadWriteOnce[] = "ReadWriteOnce";
constexpr char kReadWriteOncePod[] = "ReadWriteOncePod";
constexpr std::array<absl::string_view, 4> kAccessModes = {kReadWriteOnce, "ReadOnlyMany",
                                                           "ReadWriteMany", kReadWriteOncePod};

const VolumeSnapshotContent* ContentIn(const PromotionSurroundings& around) {
  return around.content.kind == csi::ContentReading::Kind::kPresent ? around.content.content
                                                                    : nullptr;
}

// "" where it is not known.
std::string DriverOf(const PromotionSurroundings& around) {
  const VolumeSnapshotContent* const content = ContentIn(around);
  return content == nullptr ? "" : content->driver();
}

// The larger of what both objects say; 0 where neither does.
int64_t RestoreSize(const VolumeSnapshot& snapshot, const PromotionSurroundings& around) {
  const VolumeSnapshotContent* const content = ContentIn(around);
  const int64_t of_content = content == nullptr ? 0 : content->restore_size_bytes().value_or(0);
  return std::max(snapshot.restore_size_bytes().value_or(0), of_content);
}

int64_t RoundedUpToMebibyte(int64_t bytes) {
  const int64_t missing = (kMebibyte - bytes % kMebibyte) % kMebibyte;
  return bytes > std::numeric_limits<int64_t>::max() - missing ? bytes : bytes + missing;
}

std::vector<std::string> ClassesOfDriver(const std::vector<StorageClass>& classes,
                                         const std::string& driver) {
  std::vector<std::string> names;
  for (const StorageClass& one : classes) {
    if (csi::IsProvisionerOf(one.provisioner(), driver)) {
      names.push_back(one.name());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string ChooseClass(const PromotionSurroundings& around) {
  if (around.source_pvc != nullptr && !around.source_pvc->storage_class().value_or("").empty()) {
    return *around.source_pvc->storage_class();
  }
  const std::string driver = DriverOf(around);
  if (around.storage_classes == nullptr || driver.empty()) {
    return "";
  }
  const std::vector<std::string> names = ClassesOfDriver(*around.storage_classes, driver);
  for (const std::string& name : names) {
    if (objects::OfName(*around.storage_classes, name)->is_default()) {
      return name;
    }
  }
  return names.size() == 1 ? names.front() : "";
}

int64_t ChooseSize(const VolumeSnapshot& snapshot, const PromotionSurroundings& around) {
  const int64_t requested =
      around.source_pvc == nullptr ? 0 : around.source_pvc->requested_bytes().value_or(0);
  return std::max(RoundedUpToMebibyte(RestoreSize(snapshot, around)), requested);
}

VolumeMode ChooseMode(const PromotionSurroundings& around) {
  const VolumeSnapshotContent* const content = ContentIn(around);
  if (content != nullptr && content->source_mode().has_value()) {
    return *content->source_mode();
  }
  return around.source_pvc == nullptr ? VolumeMode::kFilesystem : around.source_pvc->mode();
}

std::vector<std::string> ChooseAccessModes(const PromotionSurroundings& around) {
  std::vector<std::string> modes;
  if (around.source_pvc != nullptr) {
    modes = around.source_pvc->access_modes();
  }
  return modes.empty() ? std::vector<std::string>{kReadWriteOnce} : modes;
}

using MaybeFinding = std::optional<Finding>;

MaybeFinding CheckState(const VolumeSnapshot& snapshot, const PromotionSurroundings& around) {
  const csi::Usability found = csi::UsabilityOf(snapshot, around.content);
  switch (found.kind) {
    case csi::Usability::Kind::kUsable:
      break;
    case csi::Usability::Kind::kNotYet:
      return Finding{"NotReady",
                     absl::StrCat(found.why, "; with --wait this waits until it is Ready")};
    case csi::Usability::Kind::kNever:
      return Finding{"Unusable", found.why};
  }
  return std::nullopt;
}

MaybeFinding CheckBinding(const VolumeSnapshot& snapshot, const PromotionSurroundings& around) {
  const VolumeSnapshotContent* const content = ContentIn(around);
  if (!around.must_prove_binding && (content == nullptr || content->Names(snapshot))) {
    return std::nullopt;
  }
  return content == nullptr
             ? Finding{"NotMutual", absl::StrCat(NameText(snapshot.key()),
                                                 " has no VolumeSnapshotContent that names it")}
             : CheckMutual(snapshot, *content);
}

MaybeFinding CheckName(const VolumeSnapshot& snapshot, const PlannedPvc& pvc,
                       const PromotionSurroundings& around) {
  if (!k8s::IsObjectName(pvc.name)) {
    return Finding{"BadName",
                   absl::StrCat("\"", pvc.name,
                                "\" is not a name for a PVC; use lower-case letters, digits, '-' "
                                "and '.', at most 253")};
  }
  if (around.taken_by == nullptr) {
    return std::nullopt;
  }
  const bool is_of_it = around.taken_by->source_snapshot() == snapshot.name() &&
                        around.taken_by->namespace_name() == snapshot.namespace_name();
  return Finding{kNameTakenCode,
                 absl::StrCat("PVC ", pvc.namespace_name, "/", pvc.name, " exists already",
                              is_of_it ? ", and is one of this VolumeSnapshot" : "",
                              "; give another name, or delete it first")};
}

// Which StorageClasses would do.
std::string ChoicesText(const std::string& driver, const PromotionSurroundings& around) {
  if (around.storage_classes == nullptr || driver.empty()) {
    return "which ones fit may not be read";
  }
  const std::vector<std::string> names = ClassesOfDriver(*around.storage_classes, driver);
  return absl::StrCat("StorageClasses of driver ", driver, ": ",
                      names.empty() ? "none" : absl::StrJoin(names, ", "));
}

MaybeFinding CheckClass(const PlannedPvc& pvc, const PromotionSurroundings& around) {
  const std::string driver = DriverOf(around);
  const std::string choices = ChoicesText(driver, around);
  if (pvc.storage_class.empty()) {
    return Finding{
        "NoStorageClass",
        absl::StrCat("no StorageClass can be chosen; name one with --storage-class; ", choices)};
  }
  if (around.storage_classes == nullptr) {
    return std::nullopt;
  }
  const StorageClass* const found = objects::OfName(*around.storage_classes, pvc.storage_class);
  if (found == nullptr) {
    return Finding{"NoSuchClass",
                   absl::StrCat("StorageClass ", pvc.storage_class, " does not exist; ", choices)};
  }
  if (csi::IsProvisionerOf(found->provisioner(), driver)) {
    return std::nullopt;
  }
  return Finding{"OtherDriver", absl::StrCat("StorageClass ", pvc.storage_class, " is of driver ",
                                             found->provisioner(), ", the VolumeSnapshot of ",
                                             driver, "; ", choices)};
}

MaybeFinding CheckSize(const VolumeSnapshot& snapshot, const PlannedPvc& pvc,
                       const PromotionSurroundings& around) {
  const int64_t least = RestoreSize(snapshot, around);
  if (pvc.size_bytes <= 0) {
    return Finding{"NoSize",
                   "the driver does not say how large the VolumeSnapshot is; give --size"};
  }
  if (pvc.size_bytes >= least) {
    return std::nullopt;
  }
  return Finding{kTooSmallCode,
                 absl::StrCat(FormatBinaryQuantity(pvc.size_bytes), " is less than the ",
                              FormatBinaryQuantity(least), " that ", NameText(snapshot.key()),
                              " needs; give --size ",
                              FormatBinaryQuantity(RoundedUpToMebibyte(least)), " or more")};
}

MaybeFinding CheckMode(const PlannedPvc& pvc, const PromotionSurroundings& around) {
  const VolumeSnapshotContent* const content = ContentIn(around);
  if (content == nullptr || content->source_mode().value_or(pvc.mode) == pvc.mode ||
      content->allows_mode_change()) {
    return std::nullopt;
  }
  return Finding{"OtherMode",
                 absl::StrCat("the source volume is in mode ", ToString(*content->source_mode()),
                              ", the PVC would be in mode ", ToString(pvc.mode),
                              "; an administrator may allow it by the annotation ",
                              objects::kModeChangeAnnotation,
                              ": \"true\" on "
                              "VolumeSnapshotContent ",
                              content->name())};
}

MaybeFinding CheckAccessModes(const PlannedPvc& pvc) {
  for (const std::string& mode : pvc.access_modes) {
    if (std::find(kAccessModes.begin(), kAccessModes.end(), mode) == kAccessModes.end()) {
      return Finding{"BadAccessMode", absl::StrCat("\"", mode, "\" is not an access mode; use ",
                                                   absl::StrJoin(kAccessModes, ", "))};
    }
  }
  const std::set<std::string> different(pvc.access_modes.begin(), pvc.access_modes.end());
  if (different.size() > 1 && different.contains(kReadWriteOncePod)) {
    return Finding{"BadAccessMode",
                   "ReadWriteOncePod goes with no other access mode; leave one of them out"};
  }
  return std::nullopt;
}

// --- Its name

// "data-db-2" is "data-db" and 2.
struct NumberedName {
  std::string prefix;
  int64_t number = 0;
};

std::optional<NumberedName> SplitNumber(absl::string_view name) {
  const std::size_t dash = name.rfind('-');
  NumberedName split;
  if (dash == absl::string_view::npos ||
      name.substr(dash + 1).find_first_not_of("0123456789") != absl::string_view::npos ||
      !absl::SimpleAtoi(name.substr(dash + 1), &split.number)) {
    return std::nullopt;
  }
  split.prefix = std::string(name.substr(0, dash));
  return split;
}

// The StatefulSet that it was taken of, as recorded: of itself, or of one of its Pods. "" where
// that is not recorded.
std::string SourceStatefulSet(const VolumeSnapshot& snapshot) {
  const std::string workload = snapshot.Annotation(objects::kSnapshotWorkloadAnnotation);
  absl::string_view name = workload;
  if (absl::ConsumePrefix(&name, "StatefulSet/")) {
    return std::string(name);
  }
  if (absl::ConsumePrefix(&name, "Pod/")) {
    const std::optional<NumberedName> pod = SplitNumber(name);
    return pod.has_value() ? pod->prefix : "";
  }
  return "";
}

absl::StatusOr<std::string> ReplicaName(const VolumeSnapshot& snapshot, const PvcNaming& naming) {
  const std::string recorded = SourceStatefulSet(snapshot);
  const std::string source = snapshot.source_pvc();
  const std::optional<NumberedName> split = SplitNumber(source);
  if (split.has_value()) {
    absl::string_view prefix = split->prefix;
    if (absl::ConsumeSuffix(&prefix,
                            absl::StrCat("-", recorded.empty() ? naming.replica_of : recorded)) &&
        !prefix.empty()) {
      return absl::StrCat(prefix, "-", naming.replica_of, "-",
                          naming.ordinal.value_or(split->number));
    }
  }
  return absl::FailedPreconditionError(absl::StrCat(
      NameText(snapshot.key()), " is of PVC ", source,
      ", which is not known to be one of a StatefulSet; name its PVC, or use --pvc-prefix"));
}

}  // namespace

PlannedPvc PlanPvc(const VolumeSnapshot& snapshot, const PvcOptions& options,
                   const PromotionSurroundings& around) {
  PlannedPvc pvc = {.namespace_name = options.namespace_name,
                    .name = options.name,
                    .storage_class = options.storage_class.has_value() ? *options.storage_class
                                                                       : ChooseClass(around),
                    .size_bytes = options.size_bytes.has_value() ? *options.size_bytes
                                                                 : ChooseSize(snapshot, around),
                    .mode = options.mode.has_value() ? *options.mode : ChooseMode(around),
                    .access_modes = options.access_modes.empty() ? ChooseAccessModes(around)
                                                                 : options.access_modes};
  return pvc;
}

MaybeFinding CheckMutual(const VolumeSnapshot& snapshot, const VolumeSnapshotContent& content) {
  const std::string uid = content.snapshot_uid();
  if (content.Names(snapshot) && !uid.empty() && uid == snapshot.uid()) {
    return std::nullopt;
  }
  return Finding{"NotMutual",
                 absl::StrCat(NameText(snapshot.key()), " names VolumeSnapshotContent ",
                              content.name(), ", which belongs to ", content.snapshot_namespace(),
                              "/", content.snapshot_name(),
                              uid.empty() ? " without its uid" : absl::StrCat(" (uid ", uid, ")"),
                              ": it is not used")};
}

std::vector<Finding> CheckPromotion(const VolumeSnapshot& snapshot, const PlannedPvc& pvc,
                                    const PromotionSurroundings& around) {
  std::vector<Finding> refusals;
  for (MaybeFinding& refusal : std::array<MaybeFinding, 7>{
           CheckState(snapshot, around), CheckBinding(snapshot, around),
           CheckName(snapshot, pvc, around), CheckClass(pvc, around),
           CheckSize(snapshot, pvc, around), CheckMode(pvc, around), CheckAccessModes(pvc)}) {
    if (refusal.has_value()) {
      refusals.push_back(*std::move(refusal));
    }
  }
  return refusals;
}

absl::StatusOr<std::string> PvcNameFor(const VolumeSnapshot& snapshot, const PvcNaming& naming) {
  const bool needs_source =
      !naming.replica_of.empty() || !naming.prefix.empty() || !naming.suffix.empty();
  if (needs_source && snapshot.source_pvc().empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        NameText(snapshot.key()), " was taken of no PVC of this cluster; name the new PVC itself"));
  }
  if (!naming.replica_of.empty()) {
    return ReplicaName(snapshot, naming);
  }
  return needs_source ? absl::StrCat(naming.prefix, snapshot.source_pvc(), naming.suffix)
                      : snapshot.name();
}

}  // namespace csidelta::snapshots

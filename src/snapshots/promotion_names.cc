#include "snapshots/promotion_names.h"

#include <cstddef>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "objects/keys.h"

namespace csidelta::snapshots {
namespace {

using objects::VolumeSnapshot;

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
      "VolumeSnapshot ", snapshot.namespace_name(), "/", snapshot.name(), " is of PVC ", source,
      ", which is not known to be one of a StatefulSet; name its PVC, or use --pvc-prefix"));
}

}  // namespace

absl::StatusOr<std::string> PvcNameFor(const VolumeSnapshot& snapshot, const PvcNaming& naming) {
  const bool needs_source =
      !naming.replica_of.empty() || !naming.prefix.empty() || !naming.suffix.empty();
  if (needs_source && snapshot.source_pvc().empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("VolumeSnapshot ", snapshot.namespace_name(), "/", snapshot.name(),
                     " was taken of no PVC of this cluster; name the new PVC itself"));
  }
  if (!naming.replica_of.empty()) {
    return ReplicaName(snapshot, naming);
  }
  return needs_source ? absl::StrCat(naming.prefix, snapshot.source_pvc(), naming.suffix)
                      : snapshot.name();
}

}  // namespace csidelta::snapshots

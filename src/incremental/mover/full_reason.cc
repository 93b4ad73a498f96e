#include "incremental/mover/full_reason.h"

#include <cstddef>

#include "absl/strings/str_cat.h"

namespace csidelta::incremental {
namespace {

constexpr FullReasonText kReasons[] = {
    {FullReason::kForcedByUser, "forced-by-user", "forced", false, "A full backup was asked for.",
     "Nothing; leave out --force to get an incremental backup again."},
    {FullReason::kRequested, "requested", "on request", false,
     "The DataUpload asks for a full backup: backup type Full, or the parent none.",
     "Nothing; a backup of type Incremental is incremental again."},
    {FullReason::kNoParent, "no-parent", "first backup", false,
     "There is no earlier backup of this volume to build on.",
     "Nothing the first time. Later: is it the same repository, host and path, or did a policy "
     "forget all earlier backups?"},
    {FullReason::kChunkSizeChanged, "chunk-size-changed", "chunk size", false,
     "The parent is cut into chunks of another size, and a new chain was asked for.",
     "Nothing; the next backup builds on this one."},
    {FullReason::kParentDamaged, "parent-damaged", "damaged base", true,
     "The earlier backup cannot be read well enough to build on it, or a pack that it needs is "
     "gone or was found damaged, or the parent's snapshot file is unreadable. Missing data was "
     "stored again.",
     "Run csi-delta check: it says what helps, and which snapshots cannot be restored; this backup "
     "does not depend on the damage."},
    {FullReason::kNoChangedBlockList, "no-changed-block-list", "no list", false,
     "There was no list of changed blocks. The volume (its allocated part, if known) was read and "
     "compared; unchanged data was not stored again.",
     "Give a list with --extents, or a --volume-snapshot each time."},
    {FullReason::kBaseSnapshotGone, "base-snapshot-gone", "base gone", true,
     "The driver no longer has the volume snapshot of the earlier backup, or does not compare it "
     "with this one; what is allocated was read.",
     "Keep the newest volume snapshot of each volume until the next backup has been made."},
    {FullReason::kDriverHasNoMetadataService, "driver-has-no-metadata-service", "no service", true,
     "The volume's CSI driver serves neither snapshot metadata nor DifferentialSnapshots in this "
     "cluster, or has it switched off.",
     "Ask its vendor for the sidecar external-snapshot-metadata, or run csi-delta diffsnap "
     "alongside it."},
    {FullReason::kMetadataUnavailable, "metadata-unavailable", "no answer", true,
     "The service that lists changed blocks gave no usable answer, however often it was asked.",
     "Look at the service that the driver's SnapshotMetadataService names, or at the controller of "
     "DifferentialSnapshots alongside it; the detail has its last error."},
    {FullReason::kMetadataVersion, "metadata-version", "old service", true,
     "The service of snapshot metadata is of an old version, and failed on the base: it may expect "
     "a name instead of a handle.",
     "Upgrade the driver's sidecar external-snapshot-metadata to 1.0 or later."},
    {FullReason::kListRefused, "list-refused", "list refused", true,
     "The list of changed blocks contradicts itself or the volume, or its source gave up in the "
     "middle; none of it was used.",
     "Look at the program that made the list; the detail names the first wrong extent."},
    {FullReason::kListBaseMismatch, "list-base-mismatch", "other base", true,
     "The list names changes since another backup than the one that this one builds on, so it "
     "could not be used; everything was read.",
     "Make the list since the newest backup of this host and path, or name its base with "
     "--parent."},
    {FullReason::kAuditMismatch, "audit-mismatch", "audit failed", true,
     "A block that the list called unchanged had changed, so everything was read.",
     "Report it to the producer of the list: every earlier backup that used it may lack "
     "changes. This one is good."},
    {FullReason::kResumedChanged, "resumed-changed", "other source", true,
     "A block that an interrupted run had read has changed since, so everything was read.",
     "Use --immutable only for a source that is not written to, and give another --immutable-id to "
     "each content. This backup is good."},
    {FullReason::kVolumeResized, "volume-resized", "resized", true,
     "The volume has another size than at the last backup, after which drivers have been known to "
     "lose changes; what is allocated was read.",
     "Nothing; the next backup is incremental."},
    {FullReason::kGroupBaseReleased, "group-base-released", "base released", true,
     "The earlier backup belonged to a volume group. Its group snapshot was released after a newer "
     "one had been moved without this volume; what is allocated was read.",
     "Find out why this volume failed in the last backups of its group; the next backup is "
     "incremental."},
    {FullReason::kRestored, "restored", "after restore", false,
     "The PVC was restored from a backup, so its volume is another one: all of it was read, and "
     "what the repository has already was not stored again.",
     "Nothing; the next backup is incremental."},
};

}  // namespace

absl::Span<const FullReasonText> FullReasons() { return kReasons; }

const FullReasonText& TextOf(FullReason reason) {
  return kReasons[static_cast<std::size_t>(reason)];
}

std::string NameOf(const std::optional<WhyFull>& why) {
  return why.has_value() ? std::string(TextOf(why->reason).name) : "";
}

const FullReasonText* FindReason(absl::string_view name) {
  for (const FullReasonText& text : kReasons) {
    if (text.name == name) {
      return &text;
    }
  }
  return nullptr;
}

std::string LabelOf(absl::string_view name) {
  const FullReasonText* const text = FindReason(name);
  return std::string(text == nullptr ? name : text->label);
}

std::string ToString(const WhyFull& why) {
  const absl::string_view name = TextOf(why.reason).name;
  return why.detail.empty() ? std::string(name) : absl::StrCat(name, ": ", why.detail);
}

std::string Explain(const WhyFull& why) {
  const FullReasonText& text = TextOf(why.reason);
  const std::string detail = why.detail.empty() ? "" : absl::StrCat(" (", why.detail, ")");
  return absl::StrCat("a full backup, reason ", text.name, ". ", text.sentence, detail, " ",
                      text.next_step);
}

}  // namespace csidelta::incremental

#pragma once

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace csidelta::incremental {

// Why a backup is not an increment. Names, sentences and next steps are what users meet in results,
// logs and docs/full-backups.md.
enum class FullReason {
  kForcedByUser,
  kRequested,
  kNoParent,
  kChunkSizeChanged,
  kParentDamaged,
  kNoChangedBlockList,
  kBaseSnapshotGone,
  kDriverHasNoMetadataService,
  kMetadataUnavailable,
  kMetadataVersion,
  kListRefused,
  kListBaseMismatch,
  kAuditMismatch,
  kResumedChanged,
  kVolumeResized,
  kGroupBaseReleased,
  kRestored,
};

struct FullReasonText {
  FullReason reason;
  absl::string_view name;       // "no-parent"; stable, for programs
  absl::string_view label;      // "first backup": see LabelOf()
  bool is_fallback;             // an increment was to be had, and something was wrong
  absl::string_view sentence;   // what happened
  absl::string_view next_step;  // what to do about it, if anything
};

// All of them, in the order of the enumerators.
absl::Span<const FullReasonText> FullReasons();

const FullReasonText& TextOf(FullReason reason);

// A reason and what is particular to this time.
struct WhyFull {
  FullReason reason;
  std::string detail;  // may be ""
};

// The name, "" for an increment.
std::string NameOf(const std::optional<WhyFull>& why);

// Null for a name that is not known, such as "" or one of a later version.
const FullReasonText* FindReason(absl::string_view name);

// What tables and sentences for people call the reason with this name: "first backup" for
// "no-parent", at most 13 characters; the name itself where it is unknown.
std::string LabelOf(absl::string_view name);

// "parent-damaged: pack 6e0ca2f1 is gone", or the name alone.
std::string ToString(const WhyFull& why);

// The name, the sentence, the detail and the next step, for people.
std::string Explain(const WhyFull& why);

}  // namespace csidelta::incremental

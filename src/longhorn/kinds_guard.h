#pragma once

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/json.h"
#include "longhorn/types.h"

// Which of Longhorn's objects may a restore make? Pure.
//
// A restored object has no status, and Longhorn acts on one that appears as on a new request: it
// takes snapshots, uploads, deletes what is not listed. Most kinds describe what runs, or what lies
// on disks, and a restored one describes what is not there. (The controllers and webhooks of
// longhorn-manager 1.12 and 1.13; the hazards of Snapshot and Engine were seen on a running one.)
//
//   The first line that applies decides             guard on   guard off
//   not of longhorn.io                              restored   restored
//   longhorn.io/v1beta1, any kind                   left out   left out
//   its target namespace is not Longhorn's          left out   left out
//   a kind that is never restored                   left out   left out
//   a kind that is left out                         left out   restored
//   a BackingImage with spec.sourceType download    restored   restored
//   any other BackingImage                          left out   restored
//   a kind that is restored                         restored   restored
//   a kind that is not in KnownKinds()              left out   restored
namespace csidelta::longhorn {

enum class KindRule {
  kNeverRestored,  // guard or not: it destroys data, or makes what looks like a backup and is none
  kLeftOut,
  kRestoredIfDownloaded,
  kRestored,
};

struct KnownKind {
  absl::string_view kind;    // "Snapshot"
  absl::string_view plural;  // "snapshots"
  KindRule rule;
  // Why, as a part of a sentence that goes on from "is left out: " or "is restored: ".
  absl::string_view reason;
};

// The kinds of Longhorn up to 1.13, in the order of the documentation.
absl::Span<const KnownKind> KnownKinds();

// Null for a kind that this version does not know.
const KnownKind* FindKind(absl::string_view kind);

struct GuardSettings {
  std::string namespace_name = kDefaultNamespace;  // Longhorn's
  bool is_on = true;
};

// An object that is left out of a restore.
struct LeftOut {
  std::string resource;  // "snapshots.longhorn.io"; for an unknown kind the kind, quoted
  std::string reason;    // goes on from "is left out: "
};

// Nothing where the object is restored. `target_namespace` is the one that the object would be
// restored into, which the restore may have mapped.
std::optional<LeftOut> WhyLeftOut(const Json& object, absl::string_view target_namespace,
                                  const GuardSettings& settings);
inline std::optional<LeftOut> WhyLeftOut(const objects::Object& object,
                                         absl::string_view target_namespace,
                                         const GuardSettings& settings) {
  return WhyLeftOut(object.json(), target_namespace, settings);
}

}  // namespace csidelta::longhorn

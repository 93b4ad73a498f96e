#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/json.h"
#include "base/mutex.h"
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
std::optional<LeftOut> WhyLeftOut(const objects::Object& object, absl::string_view target_namespace,
                                  const GuardSettings& settings);

// Says in the log of a backup or restore which objects were left out of it: of each resource and
// reason the first one, with the reason, then how many they are at 10, 100, 1,000 and so on. An
// action never learns which of its calls was the last. Thread-safe.
class LeftOutLog {
 public:
  // How many pairs of a resource and a reason are counted, over all backups and restores that are
  // under way; beyond that all counts restart.
  static constexpr std::size_t kCountsMax = 256;

  // `run_uid` is that of the Backup or Restore; `resource` as "snapshots.longhorn.io"; `object` as
  // "namespace/name"; `reason` goes on from "is left out: ".
  void Note(absl::string_view run_uid, absl::string_view resource, absl::string_view object,
            absl::string_view reason);

 private:
  int64_t Count(absl::string_view run_uid, absl::string_view resource, absl::string_view reason);

  Mutex mutex_;
  std::map<std::string, int64_t> counts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace csidelta::longhorn

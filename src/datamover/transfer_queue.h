#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "datamover/daily_window.h"
#include "datamover/settings.h"

namespace csidelta::datamover {

enum class TransferKind { kUpload, kRestore };

// A transfer that is queued or admitted, as its object describes it. A value.
struct QueuedTransfer {
  std::string uid;
  std::string task;  // its VolumeTask; what is enqueued once it is admitted
  std::string name;  // "DataUpload velero/nightly-x7k2p", for messages
  TransferKind kind = TransferKind::kUpload;
  std::string volume;            // a volume at a location: one transfer of it at a time
  std::string volume_namespace;  // of the PVC
  std::string storage_class;     // of the PVC; "" if it is not known
  std::string location;          // name of the BackupStorageLocation
  absl::Time created_at;
  std::optional<absl::Time> admitted_at;
  std::optional<absl::Time> given_back_at;  // the time of an admission that it gave back
  // The API server refuses what its Pod needs, and did so at its last admission.
  bool is_refused = false;
  // It cannot be admitted now: it is not accepted yet, waits for something else, or is being ended.
  bool is_held_back = false;

  bool operator==(const QueuedTransfer&) const = default;
};

// The reason why a transfer is not admitted yet.
enum class WaitReason {
  kNext,          // for nothing: it is admitted next
  kTotal,         // limits.total
  kRestores,      // the share of uploads
  kNamespace,     // the limit of its namespace
  kStorageClass,  // likewise
  kLocation,      // likewise
  kVolume,        // another transfer of its volume
  kUploadWindow,  // no window is open
  kPaused,        // the settings
  kPrerequisite,  // what its Pod needs, or a node for it; of a restore that is complete, its PVC
  kRefused,       // the API server refuses that
  kOther,         // it is not accepted yet, or is being ended
};
inline constexpr int kWaitReasons = 12;
// "storage-class".
std::string ToString(WaitReason reason);

// The bounds of admissions: how many transfers run at once, and when.
struct TransferLimits {
  bool is_paused = false;                        // none is admitted
  std::vector<DailyWindow> upload_windows = {};  // in which uploads are admitted; empty: always
  int total = 0;
  std::optional<int> per_namespace;
  std::map<std::string, int> per_storage_class;  // those that are not named have no limit
  std::map<std::string, int> per_location;       // likewise
};
TransferLimits LimitsOf(const MoverSettings& settings);

// The share of `total` for restores while uploads are queued: all but a quarter, which is at least
// one. If `total` is one, restores have it.
int RestoresMaxBesideUploads(int total);

// All transfers of the data mover, and which of them is admitted next:
//
// - One transfer of a volume at a time, in the order of creation: the next upload's base is the
//   snapshot that the previous upload leaves.
// - Nothing while the settings pause it, and uploads in their windows only.
// - Never more than the limits. A transfer that waits for a limit, or for its volume, delays no
//   other.
// - Restores before uploads. While uploads could be admitted, restores leave a quarter to them.
// - Then by namespace: the one with the fewest admitted transfers; of equals the one with the
//   oldest last admission. A namespace of a thousand volumes delays no other.
// - Inside a namespace the volume with the oldest last good backup; volumes without any are first.
//   Of equals, and of restores, the transfer that was created first.
//
// A transfer that was admitted here is so until its object says otherwise, even while the informer
// still delivers older versions of it. An object has seen the admission if it has this very time,
// as that of an admission which it has or gave back.
//
// Each call takes O(limited classes * limited locations * log(transfers)). One backup time for each
// volume is kept while the process lives. Not thread-safe.
class TransferQueue {
 public:
  explicit TransferQueue(TransferLimits limits);
  TransferQueue(const TransferQueue&) = delete;
  TransferQueue& operator=(const TransferQueue&) = delete;

  // Adds or replaces the transfer. An admission that its object names takes the volume from
  // transfers that were admitted here and whose objects do not show that yet.
  void Put(QueuedTransfer transfer);
  void Remove(absl::string_view uid);

  // `volume` has a good backup, whose snapshot was taken then.
  void RecordBackup(const std::string& volume, absl::Time taken_at);

  // Admits one transfer, and returns it; null if none can be admitted. `now`: the time of its
  // admission.
  const QueuedTransfer* AdmitNext(absl::Time now);

  // Admits a transfer that runs already, whatever the limits are. Does nothing if it is not known.
  void AdmitRunning(absl::string_view uid, absl::Time now);

  // Revokes an admission that no object shows.
  void Revoke(absl::string_view uid);

  // Null if it is not known.
  const QueuedTransfer* Find(absl::string_view uid) const;
  // Nothing if it is not known, or not admitted.
  std::optional<absl::Time> AdmittedAt(absl::string_view uid) const;
  // The text for what a transfer waits for, if it is not admitted. REQUIRES that it is known. It
  // changes only when the reason does.
  std::string ReasonOf(absl::string_view uid, absl::Time now) const;
  // The same as a value.
  WaitReason WhyWaits(absl::string_view uid, absl::Time now) const;
  // The number that waits, by reason; no reason has 0. Visits every transfer.
  std::map<WaitReason, int> CountWaiting(absl::Time now) const;
  const TransferLimits& limits() const { return limits_; }

  int admitted() const { return admitted_; }
  int waiting() const { return static_cast<int>(transfers_.size()) - admitted_; }
  int refused() const { return refused_; }
  int admitted_restores() const { return restores_; }
  // The number of transfers, lanes and namespaces that all calls so far have visited.
  int64_t steps() const { return steps_; }

 private:
  // The transfers whose admission is bound by the same limits, apart from that of their namespace.
  // "" if a class or location has no limit.
  struct LaneKey {
    TransferKind kind;
    std::string storage_class, location;
    auto operator<=>(const LaneKey&) const = default;
  };
  // The order of the transfers of one namespace.
  struct Rank {
    absl::Time last_backup, created_at;
    std::string name, uid;
    std::strong_ordering operator<=>(const Rank&) const = default;
  };
  // The first transfer of a namespace in a lane.
  struct Head {
    int admitted = 0;
    int64_t served = 0;
    Rank first;
    std::string volume_namespace;
    std::strong_ordering operator<=>(const Head&) const = default;
  };
  struct Lane {
    std::map<std::string, std::set<Rank>> queued;  // by namespace; none is empty
    std::set<Head> heads;                          // one of each
  };
  struct Namespace {
    int admitted = 0;
    int64_t served = 0;  // counts admissions; 0: none yet
    int transfers = 0;
    std::set<LaneKey> lanes;  // that have some queued
  };
  struct Volume {
    std::set<Rank> line;             // by creation: their last_backup is equal
    std::set<std::string> admitted;  // uids
    std::string queued;              // the uid that is in a lane; ""
    absl::Time last_backup = absl::InfinitePast();
  };
  struct Entry {
    QueuedTransfer transfer;
    std::optional<absl::Time> granted_at;  // admitted here, which its object does not show yet
    bool is_admitted() const { return granted_at.has_value() || transfer.admitted_at.has_value(); }
  };

  static Rank AgeOf(const QueuedTransfer& transfer);
  Rank RankOf(const QueuedTransfer& transfer) const;
  LaneKey LaneOf(const QueuedTransfer& transfer) const;
  struct Attaching {
    bool is_new_admission;  // it was not admitted before
  };
  void Attach(const Entry& entry, Attaching how);
  void Detach(const Entry& entry);
  void Grant(Entry& entry, absl::Time now);
  void EraseUnused(const QueuedTransfer& transfer);
  void Count(const QueuedTransfer& transfer, int change, bool is_new_admission);
  void Settle(const std::string& volume);
  void Enqueue(const QueuedTransfer& transfer);
  void Dequeue(const QueuedTransfer& transfer);
  void EraseHead(const LaneKey& key, const std::string& volume_namespace);
  void InsertHead(const LaneKey& key, const std::string& volume_namespace);
  void RevokeAll(const std::string& volume);
  // The first transfer of a kind that no limit stops; null if there is none.
  const Head* FirstOf(TransferKind kind);
  // The transfer of the same volume that precedes this one; null if there is none.
  const QueuedTransfer* BeforeItOf(const QueuedTransfer& transfer) const;
  bool NamespaceIsFull(int admitted) const;
  bool ClassIsFull(const std::string& storage_class) const;
  bool LocationIsFull(const std::string& location) const;

  const TransferLimits limits_;
  std::map<std::string, Entry, std::less<>> transfers_;  // by uid
  std::map<std::string, Volume> volumes_;
  std::map<std::string, Namespace> namespaces_;
  std::map<LaneKey, Lane> lanes_;  // none is empty
  std::map<std::string, int> by_class_;
  std::map<std::string, int> by_location_;
  int admitted_ = 0;
  int restores_ = 0;  // of these
  int refused_ = 0;   // admitted or not
  int64_t served_ = 0;
  int64_t steps_ = 0;
};

}  // namespace csidelta::datamover

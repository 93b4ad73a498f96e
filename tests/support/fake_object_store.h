#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "storage/object_store.h"

namespace csidelta::support {

enum class StoreOperation { kPut, kGet, kGetRange, kStat, kList, kDelete };
const char* StoreOperationName(StoreOperation operation);

// A call as the store saw it.
struct StoreCall {
  StoreOperation operation = StoreOperation::kPut;
  std::string key;  // or the prefix of a listing

  bool operator==(const StoreCall&) const = default;
};

// What goes wrong with the bytes of an answer that is otherwise good.
enum class WrongBytes {
  kNone,
  kShort,    // the last byte is missing
  kFlipped,  // one bit of the middle byte is another
  kOther,    // as many bytes, all of them others
};

// Something that goes wrong at the calls numbered first_call … last_call, counted from 1 over those
// that match `operation` and `key_prefix`, since the fault was added.
struct StoreFault {
  std::optional<StoreOperation> operation = {};  // absent: any
  std::string key_prefix = {};
  int64_t first_call = 1;
  int64_t last_call = 1;
  // The answer, instead of the true one; with OK the call succeeds, with `wrong_bytes`.
  absl::Status status = {};
  // Whether the call has its effect before it fails; a listing then fails after its first object.
  bool after_effect = false;
  WrongBytes wrong_bytes = WrongBytes::kNone;
};

// The moment at which a process dies, relative to one call.
enum class CutMoment { kBefore, kAfter };

// Objects in memory, with faults. Stricter than some stores: a Put() whose bytes are not those of
// its `sha256_hex` is DATA_LOSS and stores nothing. Thread-safe; a listing sees the objects as they
// were at its beginning.
//
// A crash is played as follows: CutAt(n, moment) lets the process "die" at its n-th call. The call
// takes effect (kAfter) or not (kBefore), it and every later one answer CANCELLED and change
// nothing, as the dead do. Restart() is the next process: it finds what the store then held.
class FakeObjectStore : public storage::ObjectStore {
 public:
  FakeObjectStore() = default;

  absl::Status Put(const CallContext& ctx, const std::string& key, absl::string_view bytes,
                   const storage::PutOptions& options) override;
  absl::StatusOr<std::string> Get(const CallContext& ctx, const std::string& key,
                                  int64_t size_bytes_max) override;
  absl::StatusOr<std::string> GetRange(const CallContext& ctx, const std::string& key,
                                       storage::ByteRange range) override;
  absl::StatusOr<storage::ObjectInfo> Stat(const CallContext& ctx, const std::string& key) override;
  absl::Status List(const CallContext& ctx, const std::string& prefix,
                    storage::ObjectSink sink) override;
  absl::Status ListFolder(const CallContext& ctx, const std::string& prefix,
                          storage::ObjectSink sink) override;
  absl::Status Delete(const CallContext& ctx, const std::string& key) override;
  // Each key is a call of Delete().
  absl::StatusOr<std::vector<absl::Status>> DeleteBatch(
      const CallContext& ctx, absl::Span<const std::string> keys) override;
  storage::DeletionLimits deletion_limits() const override { return deletion_limits_; }
  std::string Describe() const override { return "fake"; }

  // From now on it takes batches of so many keys. Not while others delete.
  void TakeBatches(std::size_t keys, std::size_t in_flight = 8) {
    deletion_limits_ = {.keys_per_request_max = keys, .requests_in_flight_max = in_flight};
  }

  // Faults and the cut.
  void AddFault(StoreFault fault);
  void ClearFaults();
  void CutAt(int64_t call, CutMoment moment);
  bool is_cut() const;
  // Takes back the cut and every fault, and counts calls from 1 again.
  void Restart();

  // What has been asked for since the beginning, or the last Restart().
  int64_t call_count() const;
  std::vector<StoreCall> calls() const;

  // The objects, past all faults.
  std::map<std::string, std::string> objects() const;
  void SetObjects(std::map<std::string, std::string> objects);
  void SetObject(const std::string& key, std::string bytes);
  void RemoveObject(const std::string& key);

 private:
  struct Armed {
    StoreFault fault;
    int64_t seen = 0;  // matching calls so far
  };
  // What the faults and the cut make of one call.
  struct Verdict {
    absl::Status status;
    bool takes_effect = true;
    WrongBytes wrong_bytes = WrongBytes::kNone;
  };

  absl::Status Show(const CallContext& ctx, const std::string& prefix, bool is_deep,
                    storage::ObjectSink sink);
  Verdict Enter(const CallContext& ctx, StoreOperation operation, const std::string& key);
  Verdict Judge(StoreOperation operation, const std::string& key);
  static std::string Spoil(std::string bytes, WrongBytes how);

  storage::DeletionLimits deletion_limits_;
  mutable std::mutex mutex_;  // Guards all that follows.
  std::map<std::string, std::string> objects_;
  std::vector<Armed> faults_;
  std::vector<StoreCall> calls_;
  std::optional<int64_t> cut_call_;
  CutMoment cut_moment_ = CutMoment::kBefore;
  bool is_cut_ = false;
};

}  // namespace csidelta::support

#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/json.h"

namespace csidelta::csi_driver {

// What is untrue in an answer.
enum class Lie {
  // In volume snapshots.
  kNotReady,  // ready_to_use is false.
  kHalfSize,  // Of the volume.
  kTopology,  // One that is not announced.

  // In the extents of a list of blocks.
  kOmit,            // Left out.
  kShift,           // A block too high.
  kOverlap,         // Once more, half an extent higher.
  kUnordered,       // After its successor.
  kZeroLength,      // No bytes.
  kNegativeLength,  // Fewer.
  kNegativeOffset,  // Before the volume.
  kOverflow,        // An end that is no int64.
  kBeyondCapacity,  // One more past the end of the volume, at the end of the list.
  kEverything,      // The whole volume, whatever was written.
  kOwnWritesOnly,   // Not what the volume had from the volume snapshot that it was made of.

  // In the messages of a list of blocks.
  kEnd,              // The list ends here, as if it were whole.
  kCapacityChanges,  // Another capacity from here on.
  kTypeChanges,      // Another type from here on.
  kEmptyMessage,     // One without extents.
  kHugeMessage,      // One that is larger than gRPC takes by default.
  kSameCursor,       // The next page begins where this one did.
  kExpired,          // The result is not kept any more.
};

// The first lie about blocks, which is told within a stream.
inline constexpr Lie kFirstBlockLie = Lie::kOmit;

// What happens within one stream of messages. A unary call is a stream of one.
struct StreamFault {
  int64_t after_messages = 0;  // It happens when so many messages were sent...
  bool per_message = false;    // ...and again before each later one.
  int64_t extent = 0;          // The first extent of the stream that lies concern...
  int64_t extents = 1;         // ...and how many.
  absl::Duration delay;
  bool hold = false;
  absl::Status error;
  std::set<Lie> lies;
  int64_t clears = 0;  // How often rules had been cleared when the stream began.

  // Whether it happens once `sent` messages were sent.
  bool HappensAt(int64_t sent) const {
    return per_message ? sent >= after_messages : sent == after_messages;
  }
};

// One rule of a test: which calls it concerns, and what happens to them.
struct FaultRule {
  // Which.
  std::string method = "*";  // A method's name, or "*".
  std::string match;         // A text that the request contains: a name, an id.
  std::map<std::string, std::string> unless_secret;  // Calls that carry all of these pass.
  int64_t skip = 0;                                  // Calls that pass before the first one is hit.
  int64_t every = 1;                                 // Of the rest, each `every`th one is hit...
  int64_t percent = 100;                             // ...with this chance...
  std::optional<int64_t> times;                      // ...until it was so often.

  // What.
  absl::Duration delay;
  bool hold = false;  // Until released.
  absl::Status error;
  bool after = false;  // The error comes when the work is done: an answer that is lost.
  std::set<Lie> lies;
  std::optional<StreamFault> stream;  // Where in a stream all this happens; none: before it.

  // How far it is.
  int64_t seen = 0;
  int64_t hits = 0;
  std::mt19937_64 chance;
};

// INVALID_ARGUMENT names the member that is unknown or wrong.
absl::StatusOr<FaultRule> ParseFaultRule(const Json& json);

// A call as rules see it.
struct CallInfo {
  std::string method;
  std::string request;  // Its bytes on the wire.
  std::map<std::string, std::string> secrets;
};

// What rules made of one call, once its delays are over.
struct Verdict {
  absl::Status before;  // Not OK: answer this, do nothing.
  absl::Status after;   // Not OK: do the work, then answer this.
  std::set<Lie> lies;
  std::vector<StreamFault> stream;

  // Whether some rule tells this lie about blocks, wherever in the stream.
  bool Tells(Lie lie) const;
};

struct CallCount {
  int64_t started = 0;   // Came in.
  int64_t held = 0;      // Are being held now.
  int64_t finished = 0;  // Were answered.
  int64_t failed = 0;    // Of those, with an error.
};

// The faults that a test asked for, and a count of calls by method. Thread-safe; calls wait in
// Enter() without a lock.
class Faults {
 public:
  // Must come first in every call. Blocks for delays and holds; `cancelled` is asked every
  // kCancelPoll meanwhile, and makes it return CANCELLED.
  Verdict Enter(const CallInfo& call, const std::function<bool()>& cancelled);

  // Waits in the middle of a stream as `fault` says, unless rules were cleared since it began.
  // FALSE when the caller went away.
  bool Pause(const std::string& method, const StreamFault& fault,
             const std::function<bool()>& cancelled);

  // Must come last in every call that Enter() returned from.
  void Leave(const std::string& method, const absl::Status& status);

  void Add(std::vector<FaultRule> rules);

  // Forgets all rules and lets every call go that is held or delayed. Counts stay.
  void Clear();

  // Lets calls go that are held now, of one method ("*": of all).
  void Release(const std::string& method);

  std::map<std::string, CallCount> Counts() const;

  // Waits until `method` has at least these counts, or for `timeout`. Whether it has.
  bool WaitFor(const std::string& method, const CallCount& at_least, absl::Duration timeout) const;

 private:
  struct Plan {
    Verdict verdict;
    absl::Duration delay;
    bool hold = false;
  };

  // How many times held calls of one method were released, by Release() and by Clear().
  int64_t Releases(const std::string& method) const;
  Plan MakePlan(const CallInfo& call);
  bool Wait(std::unique_lock<std::mutex>& lock, const std::string& method, absl::Duration delay,
            bool hold, const std::function<bool()>& cancelled);

  mutable std::mutex mutex_;  // Guards everything below.
  mutable std::condition_variable changed_;
  std::vector<FaultRule> rules_;
  std::map<std::string, CallCount> counts_;
  std::map<std::string, int64_t> releases_;
  int64_t clears_ = 0;
};

}  // namespace csidelta::csi_driver

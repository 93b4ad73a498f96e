#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace csidelta::datamover {

// Somebody who wants to move a volume, or does so.
struct Mover {
  std::string uid;
  std::string name;              // "namespace/name" of the object, for messages
  std::string volume;            // what only one may work at: a volume at a location
  std::string source_namespace;  // whose volume it is
  std::string storage_class;
  absl::Time since;    // older ones come first
  bool moves = false;  // has its turn already
};

struct TurnLimits {
  int moves_max = 0;                               // in all
  std::map<std::string, int> moves_per_class_max;  // by storage class; those without have none
};

// Whether the mover `uid` of `movers` may begin: "" when it may, or does already; else for whom or
// what it waits.
//
// - One mover at a time per volume, in the order of age.
// - Not more than the limits allow, in all and per storage class.
// - Fair between namespaces: those that may begin now are taken in rounds, one of each namespace,
// so
//   that one with a thousand volumes keeps nobody waiting. What already moves counts as rounds of
//   its namespace. Who waits for a storage class that is full, or for its own volume, keeps nobody
//   waiting either.
//
// Pure. REQUIRES that `uid` is one of them.
std::string WaitsFor(const std::vector<Mover>& movers, absl::string_view uid,
                     const TurnLimits& limits);

// All movers of this process. What was given a turn has it until it is removed: whoever follows the
// objects may hear late of what we wrote. Thread-safe.
class TurnTable {
 public:
  explicit TurnTable(TurnLimits limits);

  // Adds it, or what is new of it.
  void Put(Mover mover);
  void Remove(absl::string_view uid);

  // As WaitsFor(); when it may begin it has its turn. One that the table does not know waits.
  std::string TakeTurn(absl::string_view uid);

  struct Counts {
    int moving = 0;
    int waiting = 0;
  };
  Counts counts() const;

 private:
  const TurnLimits limits_;
  mutable std::mutex mutex_;
  std::map<std::string, Mover, std::less<>> movers_;  // Guarded by mutex_; by uid.
};

}  // namespace csidelta::datamover

#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "storage/object_store.h"
#include "tests/reliability/shared_store.h"

namespace csidelta::reliability {

enum class FaultKind {
  kRefused,     // the call fails and has no effect
  kLostAnswer,  // it has its effect, and fails
  kWrongBytes,  // a read has a bit that is another
  kCrashBefore,
  kCrashAfter,  // the process dies; its lock stays
  kFreeze,      // it stands still for 40 minutes before the call
  kSuspend,     // the same, and its monotonic clock stands still, too
  kClockStep,   // its wall clock jumps
  kLoss,        // the store loses an object
  kDamage,      // a bit of an object is another from now on
};
inline constexpr std::array<absl::string_view, 10> kFaultNames = {
    "call refused", "answer lost",       "wrong bytes", "crash before a call", "crash after a call",
    "freeze",       "suspended machine", "clock step",  "object lost",         "object damaged"};

// How likely each kind is, in a million calls.
using FaultRates = std::array<int64_t, kFaultNames.size()>;

// Something that the store did to an object by itself.
struct SpoiltObject {
  int64_t sequence = 0;  // counted over all of a simulation
  SharedStore* store = nullptr;
  std::string key;
  SharedObject before;
  bool is_lost = false;  // else damaged
};

class Simulation;

// One machine on which one program runs at a time: its clocks, and its way to stores.
class Machine {
 public:
  Machine(Simulation& simulation, int number);

  const Clock& clock() const { return *clock_; }
  int number() const { return number_; }
  int64_t pid() const;  // of the program that runs now
  // A way to `store` that faults befall. Lives as long as this.
  storage::ObjectStore& Reach(SharedStore& store);

  // A program starts, as another process: waits for its turn.
  void Start();
  // No program runs for so long.
  void Idle(absl::Duration duration);

 private:
  friend class Simulation;
  friend class MachineClock;
  struct Sleeper {
    absl::Duration wake_at;
    bool is_main = false;
    bool released = false;
  };

  Simulation& simulation_;
  const int number_;
  std::unique_ptr<Clock> clock_;
  std::vector<std::unique_ptr<storage::ObjectStore>> ways_;
  std::atomic<int64_t> wall_offset_ns_ = 0;
  std::atomic<int64_t> monotonic_lag_ns_ = 0;
  // Under the simulation's mutex:
  std::thread::id main_;
  int64_t run_ = 0;
  bool dead_ = false;
  bool unwinding_ = false;  // dead, and its threads have not ended yet
  bool done_ = false;
  absl::Duration frozen_until_;
  int waiting_ = 0;  // threads at a call
  bool main_asleep_ = false;
  int awake_ = 0;  // threads besides the main one that slept, and do not now
  std::set<std::thread::id> slept_;
  std::vector<Sleeper*> sleepers_;
  std::map<std::string, int64_t> calls_;    // how often each was made in this run, by folder
  std::map<std::string, int> wrong_reads_;  // in this run, of each: at most kWrongReadsMax
};

// Machines that take turns: one runs until a call of its to a store at which the seed says that
// another goes on, or until it sleeps. The clock goes on with each call, and to the next moment
// when all sleep. What happens at a call follows from the seed, the machine, the call and how often
// it was made, so that it is the same whichever of a program's threads makes it first. Threads of
// one program are not told apart by the seed: where two of them call at a time, a replay may differ
// in their order, and so in what follows. Then run the seed some times.
class Simulation {
 public:
  Simulation(uint64_t seed, const FaultRates& rates, int switches_percent);

  // Runs each script on its own machine, and waits for all to end.
  using Script = std::function<void(Machine&)>;
  void Run(const std::vector<Script>& scripts);

  // Whether the program with this pid runs.
  bool Lives(int64_t pid);
  // How many objects were spoilt so far, and which.
  int64_t sequence();
  std::vector<SpoiltObject> spoilt();
  const std::array<std::atomic<int64_t>, kFaultNames.size()>& faults() const { return faults_; }
  // What was removed of what counts, for people.
  std::vector<std::string> deletions();
  int64_t calls() const { return calls_; }
  absl::Time now() const { return absl::FromUnixNanos(kBegin + now_ns_); }

 private:
  friend class Machine;
  friend class GatedStore;
  friend class MachineClock;
  static constexpr int64_t kBegin = 1'700'000'000'000'000'000;

  struct Decision {
    bool switches = false;
    absl::Duration latency;
    std::vector<FaultKind> faults;
    uint64_t draw = 0;

    bool Has(FaultKind kind) const;
  };
  absl::Duration elapsed() const { return absl::Nanoseconds(now_ns_.load()); }
  static bool IsWrong(Machine& machine, const std::string& read, bool befalls, uint64_t draw);
  Decision Decide(Machine& machine, absl::string_view operation, const std::string& key);
  // Waits for the machine's turn, and makes happen what happens before the call.
  absl::Status Enter(const CallContext& ctx, Machine& machine, Decision& decision,
                     absl::string_view operation, const std::string& key);
  absl::Status Leave(Machine& machine, const Decision& decision);
  bool Sleep(Machine& machine, absl::Duration duration, std::stop_token stop);
  void Spoil(SharedStore& store, const Decision& decision);
  void NoteDeletion(const Machine& machine, const std::string& key);
  void AwaitTurn(std::unique_lock<std::mutex>& lock, Machine& machine, std::stop_token stop);
  void Revive(Machine& machine);
  void Kill(Machine& machine);
  bool IsReady(const Machine& machine) const;
  void PickNext();
  void Grant(Machine& machine);

  const uint64_t seed_;
  const FaultRates rates_;
  const int switches_percent_;
  std::atomic<int64_t> now_ns_ = 0;
  std::array<std::atomic<int64_t>, kFaultNames.size()> faults_ = {};
  std::atomic<int64_t> calls_ = 0;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::mt19937_64 turns_;
  std::vector<std::unique_ptr<Machine>> machines_;
  Machine* holder_ = nullptr;
  int64_t sequence_ = 0;
  std::vector<SpoiltObject> spoilt_;
  std::vector<std::string> deletions_;
};

}  // namespace csidelta::reliability

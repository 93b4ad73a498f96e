#include "tests/reliability/simulation.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace csidelta::reliability {
namespace {

constexpr absl::Duration kFreezeLength = absl::Minutes(40);
constexpr int kWrongReadsMax = 2;
constexpr std::chrono::minutes kStuckAfter(2);  // of the real clock: a fault of the simulation

// FNV-1a: the same in each process, which absl::Hash is not.
uint64_t StableHash(absl::string_view text) {
  uint64_t hash = 14695981039346656037U;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  }
  return hash;
}

}  // namespace

class MachineClock : public Clock {
 public:
  explicit MachineClock(Simulation& simulation, Machine& machine)
      : simulation_(simulation), machine_(machine) {}

  absl::Time Now() const override {
    return simulation_.now() + absl::Nanoseconds(machine_.wall_offset_ns_.load());
  }
  absl::Duration Uptime() const override {
    return absl::Hours(1000) + simulation_.elapsed() -
           absl::Nanoseconds(machine_.monotonic_lag_ns_.load());
  }
  bool SleepUntil(absl::Time wake_at, std::stop_token stop) const override {
    return simulation_.Sleep(machine_, wake_at - Now(), std::move(stop));
  }
  bool SleepFor(absl::Duration duration, std::stop_token stop) const override {
    return simulation_.Sleep(machine_, duration, std::move(stop));
  }

 private:
  Simulation& simulation_;
  Machine& machine_;
};

// A machine's way to a store.
class GatedStore : public storage::ObjectStore {
 public:
  GatedStore(Simulation& simulation, Machine& machine, SharedStore& store)
      : simulation_(simulation), machine_(machine), store_(store) {}

  absl::Status Put(const CallContext& ctx, const std::string& key, absl::string_view bytes,
                   const storage::PutOptions& options) override {
    return Pass(ctx, "put", key, [&] { return store_.Put(ctx, key, bytes, options); });
  }
  absl::Status Delete(const CallContext& ctx, const std::string& key) override {
    return Pass(ctx, "delete", key, [&] {
      simulation_.NoteDeletion(machine_, key);
      return store_.Delete(ctx, key);
    });
  }
  absl::StatusOr<std::string> Get(const CallContext& ctx, const std::string& key,
                                  int64_t size_bytes_max) override {
    return Read(ctx, "get", key, [&] { return store_.Get(ctx, key, size_bytes_max); });
  }
  absl::StatusOr<std::string> GetRange(const CallContext& ctx, const std::string& key,
                                       storage::ByteRange range) override {
    return Read(ctx, "range", absl::StrCat(key, " ", range.offset_bytes),
                [&] { return store_.GetRange(ctx, key, range); });
  }
  absl::StatusOr<storage::ObjectInfo> Stat(const CallContext& ctx,
                                           const std::string& key) override {
    absl::StatusOr<storage::ObjectInfo> info;
    RETURN_IF_ERROR(Pass(ctx, "stat", key, [&] {
      info = store_.Stat(ctx, key);
      return info.status();
    }));
    return info;
  }
  absl::Status List(const CallContext& ctx, const std::string& prefix,
                    storage::ObjectSink sink) override {
    return Show(ctx, "list", prefix, sink,
                [&](storage::ObjectSink take) { return store_.List(ctx, prefix, take); });
  }
  absl::Status ListFolder(const CallContext& ctx, const std::string& prefix,
                          storage::ObjectSink sink) override {
    return Show(ctx, "folder", prefix, sink,
                [&](storage::ObjectSink take) { return store_.ListFolder(ctx, prefix, take); });
  }
  std::string Describe() const override { return "the simulated store"; }

 private:
  template <typename Call>
  absl::Status Pass(const CallContext& ctx, absl::string_view operation, const std::string& key,
                    Call call, Simulation::Decision* told = nullptr) {
    Simulation::Decision own;
    Simulation::Decision& decision = told == nullptr ? own : *told;
    RETURN_IF_ERROR(simulation_.Enter(ctx, machine_, decision, operation, key));
    simulation_.Spoil(store_, decision);
    if (decision.Has(FaultKind::kRefused)) {
      return absl::UnavailableError("refused by the storm");
    }
    const absl::Status status = call();
    RETURN_IF_ERROR(simulation_.Leave(machine_, decision));
    return decision.Has(FaultKind::kLostAnswer) ? absl::UnavailableError("lost by the storm")
                                                : status;
  }

  template <typename Call>
  absl::StatusOr<std::string> Read(const CallContext& ctx, absl::string_view operation,
                                   const std::string& key, Call call) {
    absl::StatusOr<std::string> bytes;
    Simulation::Decision decision;
    RETURN_IF_ERROR(Pass(
        ctx, operation, key,
        [&] {
          bytes = call();
          return bytes.status();
        },
        &decision));
    if (decision.Has(FaultKind::kWrongBytes) && !bytes->empty()) {
      char& byte = (*bytes)[decision.draw % bytes->size()];
      byte = static_cast<char>(byte ^ 1);
    }
    return bytes;
  }

  // A listing is of one moment; an error leaves its first object.
  template <typename Call>
  absl::Status Show(const CallContext& ctx, absl::string_view operation, const std::string& prefix,
                    storage::ObjectSink sink, Call call) {
    std::vector<storage::ObjectInfo> found;
    const absl::Status status = Pass(ctx, operation, prefix, [&] {
      return call([&](const storage::ObjectInfo& object) {
        found.push_back(object);
        return absl::OkStatus();
      });
    });
    for (const storage::ObjectInfo& object : found) {
      RETURN_IF_ERROR(sink(object));
      RETURN_IF_ERROR(status);
    }
    return status;
  }

  Simulation& simulation_;
  Machine& machine_;
  SharedStore& store_;
};

Machine::Machine(Simulation& simulation, int number)
    : simulation_(simulation),
      number_(number),
      clock_(std::make_unique<MachineClock>(simulation, *this)) {}

int64_t Machine::pid() const { return (number_ + 1) * 1000 + run_; }

storage::ObjectStore& Machine::Reach(SharedStore& store) {
  ways_.push_back(std::make_unique<GatedStore>(simulation_, *this, store));
  return *ways_.back();
}

void Machine::Start() {
  std::unique_lock lock(simulation_.mutex_);
  simulation_.Revive(*this);
  ++run_;
  calls_.clear();
  wrong_reads_.clear();
  if (simulation_.holder_ != this) {
    simulation_.AwaitTurn(lock, *this, {});
  }
}

void Machine::Idle(absl::Duration duration) {
  {
    std::unique_lock lock(simulation_.mutex_);
    simulation_.Revive(*this);
    ++run_;
  }
  simulation_.Sleep(*this, duration, {});
}

Simulation::Simulation(uint64_t seed, const FaultRates& rates, int switches_percent)
    : seed_(seed), rates_(rates), switches_percent_(switches_percent), turns_(seed) {}

bool Simulation::Decision::Has(FaultKind kind) const {
  return std::find(faults.begin(), faults.end(), kind) != faults.end();
}

// What was read wrong once is read wrong again more often than what was not, but a third time
// never.
bool Simulation::IsWrong(Machine& machine, const std::string& read, bool befalls, uint64_t draw) {
  const auto before = machine.wrong_reads_.find(read);
  if (before == machine.wrong_reads_.end()) {
    return befalls && machine.wrong_reads_.emplace(read, 1).second;
  }
  const bool is_wrong = before->second < kWrongReadsMax && draw % 3 == 0;
  before->second = is_wrong ? before->second + 1 : kWrongReadsMax;
  return is_wrong;
}

Simulation::Decision Simulation::Decide(Machine& machine, absl::string_view operation,
                                        const std::string& key) {
  // Names of objects follow from chance; folders do not.
  const std::string call = absl::StrCat(operation, " ", key.substr(0, key.find('/')));
  const int64_t before = machine.calls_[call]++;
  std::mt19937_64 draws(
      StableHash(absl::StrCat(seed_, " ", machine.number_, " ", machine.run_, " ", before, call)));
  Decision decision;
  decision.switches = static_cast<int>(draws() % 100) < switches_percent_;
  decision.latency = absl::Milliseconds(5 + static_cast<int64_t>(draws() % 100));
  for (std::size_t kind = 0; kind < rates_.size(); ++kind) {
    bool befalls = static_cast<int64_t>(draws() % 1'000'000) < rates_[kind];
    if (static_cast<FaultKind>(kind) == FaultKind::kWrongBytes) {
      befalls = IsWrong(machine, absl::StrCat(operation, key), befalls, draws());
    }
    if (befalls) {
      decision.faults.push_back(static_cast<FaultKind>(kind));
    }
  }
  decision.draw = draws();
  return decision;
}

absl::Status Simulation::Enter(const CallContext& ctx, Machine& machine, Decision& decision,
                               absl::string_view operation, const std::string& key) {
  RETURN_IF_ERROR(ctx.Check());
  {
    std::unique_lock lock(mutex_);
    if (machine.dead_) {
      return absl::CancelledError("the process is dead");
    }
    ++calls_;
    decision = Decide(machine, operation, key);
    const bool is_suspended = decision.Has(FaultKind::kSuspend);
    if (is_suspended || decision.Has(FaultKind::kFreeze)) {
      machine.frozen_until_ = elapsed() + kFreezeLength;
      machine.monotonic_lag_ns_ += is_suspended ? absl::ToInt64Nanoseconds(kFreezeLength) : 0;
    }
    if (decision.Has(FaultKind::kClockStep)) {
      const absl::Duration step = decision.draw % 2 == 0 ? absl::Minutes(17) : -absl::Hours(1);
      machine.wall_offset_ns_ += absl::ToInt64Nanoseconds(step);
    }
    for (const FaultKind kind : decision.faults) {
      ++faults_[static_cast<std::size_t>(kind)];
    }
    const bool is_frozen = machine.frozen_until_ > elapsed();
    if (holder_ == &machine && (decision.switches || is_frozen)) {
      PickNext();
    }
    if (holder_ != &machine) {
      AwaitTurn(lock, machine, ctx.stop);
    }
    now_ns_ += absl::ToInt64Nanoseconds(decision.latency);
    if (machine.dead_) {
      return absl::CancelledError("the process is dead");
    }
    if (decision.Has(FaultKind::kCrashBefore)) {
      Kill(machine);
      return absl::CancelledError("the process dies here");
    }
  }
  return ctx.Check();
}

absl::Status Simulation::Leave(Machine& machine, const Decision& decision) {
  std::unique_lock lock(mutex_);
  if (decision.Has(FaultKind::kCrashAfter) && !machine.dead_) {
    Kill(machine);
  }
  return machine.dead_ ? absl::CancelledError("the process is dead") : absl::OkStatus();
}

void Simulation::Spoil(SharedStore& store, const Decision& decision) {
  const bool is_lost = decision.Has(FaultKind::kLoss);
  if (!is_lost && !decision.Has(FaultKind::kDamage)) {
    return;
  }
  std::vector<std::string> keys;
  for (const auto& [key, object] : store.objects()) {
    // Without these nothing opens: that is no silent loss.
    if (!absl::StartsWith(key, "keys/") && key != "config" && !absl::StartsWith(key, "locks/")) {
      keys.push_back(key);
    }
  }
  if (keys.empty()) {
    return;
  }
  const std::string& key = keys[decision.draw % keys.size()];
  SharedObject before = store.Remove(key);
  if (before.bytes == nullptr) {
    return;
  }
  if (!is_lost && !before.bytes->empty()) {
    std::string bytes = *before.bytes;
    char& byte = bytes[(decision.draw / 7) % bytes.size()];
    byte = static_cast<char>(byte ^ 4);
    store.SetObject(key, {.bytes = std::make_shared<const std::string>(std::move(bytes)),
                          .modified_at = before.modified_at});
  }
  std::unique_lock lock(mutex_);
  spoilt_.push_back({.sequence = ++sequence_,
                     .store = &store,
                     .key = key,
                     .before = std::move(before),
                     .is_lost = is_lost});
}

void Simulation::NoteDeletion(const Machine& machine, const std::string& key) {
  if (!absl::StartsWith(key, "locks/") && !absl::StartsWith(key, "aux/")) {
    std::unique_lock lock(mutex_);
    deletions_.push_back(absl::StrCat(absl::FormatDuration(elapsed()), " machine ", machine.number_,
                                      " deletes ", key.substr(0, 24)));
  }
}

std::vector<std::string> Simulation::deletions() {
  std::unique_lock lock(mutex_);
  return deletions_;
}

// REQUIRES the mutex for all that follows, where it is not taken.
void Simulation::AwaitTurn(std::unique_lock<std::mutex>& lock, Machine& machine,
                           std::stop_token stop) {
  ++machine.waiting_;
  if (holder_ == nullptr) {
    PickNext();
  }
  const auto may_go = [&] { return machine.dead_ || holder_ == &machine; };
  changed_.wait(lock, std::move(stop), may_go);
  --machine.waiting_;
}

void Simulation::Revive(Machine& machine) {
  machine.main_ = std::this_thread::get_id();
  machine.dead_ = false;
  machine.unwinding_ = false;
  machine.frozen_until_ = absl::ZeroDuration();
  machine.awake_ = 0;
  machine.slept_.clear();
}

void Simulation::Kill(Machine& machine) {
  machine.dead_ = true;
  machine.unwinding_ = true;
  if (holder_ == &machine) {
    holder_ = nullptr;
  }
  changed_.notify_all();
}

bool Simulation::Sleep(Machine& machine, absl::Duration duration, std::stop_token stop) {
  std::unique_lock lock(mutex_);
  const std::thread::id self = std::this_thread::get_id();
  const bool is_main = self == machine.main_;
  if (machine.dead_ && !is_main && duration > absl::ZeroDuration()) {
    changed_.wait(lock, stop, [] { return false; });
  }
  if (machine.dead_ || stop.stop_requested() || duration <= absl::ZeroDuration()) {
    return !stop.stop_requested();
  }
  // Whole nanoseconds, as the time of this simulation has.
  Machine::Sleeper sleeper = {.wake_at = elapsed() + absl::Ceil(duration, absl::Nanoseconds(1)),
                              .is_main = is_main};
  if (is_main) {
    machine.main_asleep_ = true;
  } else if (!machine.slept_.insert(self).second) {
    machine.awake_ = std::max(0, machine.awake_ - 1);
  }
  machine.sleepers_.push_back(&sleeper);
  const bool ends_turn = holder_ == &machine && machine.main_asleep_ && machine.awake_ == 0;
  if (ends_turn || holder_ == nullptr) {
    PickNext();
  }
  changed_.wait(lock, stop, [&] { return sleeper.released || machine.dead_; });
  std::erase(machine.sleepers_, &sleeper);
  if (is_main) {
    machine.main_asleep_ = false;
  }
  return !stop.stop_requested();
}

bool Simulation::IsReady(const Machine& machine) const {
  if (machine.done_ || machine.frozen_until_ > elapsed()) {
    return false;
  }
  return !machine.main_asleep_ || machine.waiting_ > 0 ||
         std::any_of(machine.sleepers_.begin(), machine.sleepers_.end(),
                     [this](const Machine::Sleeper* one) { return one->wake_at <= elapsed(); });
}

// Gives the turn to a machine that is ready; where none is, time goes on until one is.
void Simulation::PickNext() {
  holder_ = nullptr;
  while (true) {
    std::vector<Machine*> ready;
    absl::Duration next = absl::InfiniteDuration();
    for (const std::unique_ptr<Machine>& machine : machines_) {
      if (machine->unwinding_) {
        return;  // Until it has ended: then it asks.
      }
      if (IsReady(*machine)) {
        ready.push_back(machine.get());
      }
      if (machine->done_) {
        continue;
      }
      if (machine->frozen_until_ > elapsed()) {
        next = std::min(next, machine->frozen_until_);
        continue;
      }
      for (const Machine::Sleeper* sleeper : machine->sleepers_) {
        next = std::min(next, sleeper->wake_at);
      }
    }
    if (!ready.empty()) {
      Grant(*ready[turns_() % ready.size()]);
      return;
    }
    if (next == absl::InfiniteDuration()) {
      return;
    }
    now_ns_ = absl::ToInt64Nanoseconds(next);
  }
}

void Simulation::Grant(Machine& machine) {
  holder_ = &machine;
  for (Machine::Sleeper* sleeper : machine.sleepers_) {
    if (sleeper->wake_at > elapsed() || std::exchange(sleeper->released, true)) {
      continue;
    }
    if (sleeper->is_main) {
      machine.main_asleep_ = false;
    } else {
      ++machine.awake_;
    }
  }
  changed_.notify_all();
}

void Simulation::Run(const std::vector<Script>& scripts) {
  for (std::size_t i = 0; i < scripts.size(); ++i) {
    machines_.push_back(std::make_unique<Machine>(*this, static_cast<int>(i)));
  }
  std::vector<std::jthread> threads;
  std::atomic<std::size_t> ended = 0;
  for (std::size_t i = 0; i < scripts.size(); ++i) {
    threads.emplace_back([this, &script = scripts[i], machine = machines_[i].get(), &ended] {
      machine->Start();
      script(*machine);
      std::unique_lock lock(mutex_);
      Revive(*machine);
      machine->done_ = true;
      if (holder_ == machine || holder_ == nullptr) {
        PickNext();
      }
      ++ended;
      changed_.notify_all();
    });
  }
  std::unique_lock lock(mutex_);
  int64_t seen = -1;
  while (ended < scripts.size()) {
    changed_.wait_for(lock, kStuckAfter, [&] { return ended == scripts.size(); });
    if (ended < scripts.size() && std::exchange(seen, calls_.load()) == calls_.load()) {
      std::cerr << "the storm of seed " << seed_ << " stands still\n";
      std::abort();
    }
  }
}

bool Simulation::Lives(int64_t pid) {
  std::unique_lock lock(mutex_);
  const auto machine = static_cast<std::size_t>(pid / 1000 - 1);
  return machine < machines_.size() && machines_[machine]->pid() == pid &&
         !machines_[machine]->dead_;
}

int64_t Simulation::sequence() {
  std::unique_lock lock(mutex_);
  return sequence_;
}

std::vector<SpoiltObject> Simulation::spoilt() {
  std::unique_lock lock(mutex_);
  return spoilt_;
}

}  // namespace csidelta::reliability

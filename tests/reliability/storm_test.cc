// A storm: clients of one repository, of whose calls any may fail, hang or be the last, on stores
// that lose and damage objects. What was reported as saved is restored in the end.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "storage/retrying_object_store.h"
#include "tests/reliability/client.h"
#include "tests/reliability/shared_store.h"
#include "tests/reliability/simulation.h"
#include "tests/reliability/volume_model.h"
#include "tests/repository/test_volume.h"
#include "tests/support/fake_clock.h"
#include "tests/support/sweep_sample.h"

namespace csidelta::reliability::storm_test {
namespace {

using repository::Id;
using support::SweepSample;

constexpr int64_t kSeedsWhole = 24'000;
constexpr int64_t kSeedsOfTheDay = 8;

// A snapshot that a verb reported as saved.
struct Saved {
  SharedStore* store = nullptr;
  Id id;
  VolumeState state;
  int64_t since = 0;         // objects that were spoilt before the verb began
  bool is_given_up = false;  // asked to be removed
  bool is_plain = false;     // written by a client that takes the word of the index
};

// What was spoilt so that a snapshot may be lost.
bool MayExcuse(const Saved& saved, const SpoiltObject& spoilt) {
  return spoilt.store == saved.store &&
         (!spoilt.is_lost || saved.is_plain || spoilt.sequence > saved.since);
}

// What verbs said, beside the clients. Thread-safe.
class Model {
 public:
  void Save(Saved saved) {
    std::scoped_lock lock(mutex_);
    saved_.push_back(std::move(saved));
  }
  void GiveUp(const Id& id) {
    std::scoped_lock lock(mutex_);
    for (Saved& one : saved_) {
      one.is_given_up = one.is_given_up || one.id == id;
    }
  }
  // The last report of a copy counts as well.
  std::optional<VolumeState> StateOf(const Id& id) {
    std::scoped_lock lock(mutex_);
    for (const Saved& one : saved_) {
      if (one.id == id) {
        return one.state;
      }
    }
    return std::nullopt;
  }
  void Know(const std::string& handle, const VolumeState& state) {
    std::scoped_lock lock(mutex_);
    known_[handle] = state;
    started_.push_back(state);
  }
  KnownVolumes known() {
    std::scoped_lock lock(mutex_);
    return known_;
  }
  void Removed() { repairs_removed_ = true; }
  bool repairs_removed() const { return repairs_removed_; }
  std::vector<Saved> saved() {
    std::scoped_lock lock(mutex_);
    return saved_;
  }
  void Log(const std::string& line) {
    std::scoped_lock lock(mutex_);
    log_.push_back(line);
  }
  std::string log() {
    std::scoped_lock lock(mutex_);
    std::string text;
    for (const std::string& line : log_) {
      absl::StrAppend(&text, line, "\n");
    }
    return text;
  }

 private:
  std::mutex mutex_;
  std::vector<Saved> saved_;
  KnownVolumes known_;
  std::vector<VolumeState> started_;
  std::vector<std::string> log_;
  std::atomic<bool> repairs_removed_ = false;
};

// One seed.
class Storm {
 public:
  explicit Storm(uint64_t seed);

  void Run();
  // What was lost without a word; "" for nothing.
  std::string Judge();
  int64_t saved();
  const Simulation& simulation() const { return simulation_; }
  std::string log() { return model_.log(); }

 private:
  using Draws = std::mt19937_64;
  static FaultRates RatesOf(uint64_t seed);
  Client Open(Machine& machine, SharedStore& store, Draws& draws, bool is_plain = false);
  // Calls are repeated, as those of every program are.
  storage::ObjectStore& Way(Machine& machine, SharedStore& store);
  void BackUpVolume(Machine& machine, const std::string& volume, Draws& draws);
  void Maintain(Machine& machine, SharedStore& store, Draws& draws, int runs);
  std::string MaintainOnce(Client& client, SharedStore& store, Draws& draws);
  void Copy(Machine& machine, Draws& draws);
  void CopyOnce(Client& client, storage::ObjectStore& from, SharedStore& to);
  void BePlain(Machine& machine, Draws& draws);
  std::string JudgeOne(const Saved& saved, bool& is_whole);
  absl::Status RestoresOf(SharedStore& store, const Saved& saved);
  void Note(Machine& machine, const std::string& line) {
    model_.Log(absl::StrCat(absl::FormatDuration(simulation_.now() - begun_), " machine ",
                            machine.number(), ": ", line));
  }

  const uint64_t seed_;
  SharedStore main_{Client::FreshRepository(0)};
  SharedStore second_{Client::FreshRepository(1)};
  Simulation simulation_;
  const absl::Time begun_ = simulation_.now();
  Model model_;
  std::vector<std::unique_ptr<storage::ObjectStore>> ways_;
  storage::StoreMeter meter_;
  std::vector<std::unique_ptr<DrawnNumbers>> delays_;
  std::mutex ways_mutex_;
};

// Seeds differ in what befalls them, so that each kind of fault meets runs that come far.
FaultRates Storm::RatesOf(uint64_t seed) {
  std::mt19937_64 draws(seed * 31 + 7);
  const auto one_of = [&](std::initializer_list<int64_t> rates) {
    return std::data(rates)[draws() % rates.size()];
  };
  FaultRates rates = {};
  const auto set = [&](FaultKind kind, int64_t rate) {
    rates[static_cast<std::size_t>(kind)] = rate;
  };
  set(FaultKind::kRefused, one_of({20'000, 40'000, 80'000}));
  set(FaultKind::kLostAnswer, one_of({20'000, 40'000, 80'000}));
  set(FaultKind::kWrongBytes, one_of({0, 4'000, 20'000}));
  set(FaultKind::kCrashBefore, one_of({0, 2'000, 8'000}));
  set(FaultKind::kCrashAfter, one_of({0, 2'000, 8'000}));
  set(FaultKind::kFreeze, one_of({0, 3'000, 15'000}));
  set(FaultKind::kSuspend, one_of({0, 3'000, 15'000}));
  set(FaultKind::kClockStep, one_of({0, 3'000, 15'000}));
  set(FaultKind::kLoss, one_of({0, 0, 2'000, 8'000}));
  set(FaultKind::kDamage, one_of({0, 0, 0, 3'000}));
  return rates;
}

Storm::Storm(uint64_t seed)
    : seed_(seed),
      simulation_(seed, RatesOf(seed), static_cast<int>(std::mt19937_64(seed)() % 60)) {}

storage::ObjectStore& Storm::Way(Machine& machine, SharedStore& store) {
  // Without delays: it is the order of calls that counts here.
  const storage::RetryOptions options = {.backoff = {.delay_first = absl::ZeroDuration(),
                                                     .delay_max = absl::ZeroDuration(),
                                                     .attempts_max = 4,
                                                     .jitter = 0}};
  std::scoped_lock lock(ways_mutex_);
  delays_.push_back(std::make_unique<DrawnNumbers>(1));
  ways_.push_back(std::make_unique<storage::RetryingObjectStore>(machine.Reach(store), options,
                                                                 *delays_.back(), meter_));
  return *ways_.back();
}

Client Storm::Open(Machine& machine, SharedStore& store, Draws& draws, bool is_plain) {
  machine.Start();
  ClientOptions options;
  options.clock = &machine.clock();
  options.seed = draws();
  options.refresh_by_thread = true;
  options.wait_max = draws() % 8 == 0 ? absl::ZeroDuration() : repository::kLockWaitForStale;
  if (!is_plain) {
    // Machines 0 and 2 are one node.
    options.liveness_probes.self = {
        .boot_id = machine.number() % 2 == 0 ? std::string(32, 'a')
                                             : absl::StrCat(std::string(31, 'b'), machine.number()),
        .pid_namespace = 1,
        .pid = machine.pid(),
        .start_ticks = static_cast<uint64_t>(machine.pid())};
    options.liveness_probes.start_ticks_of = [this](int64_t pid) -> std::optional<uint64_t> {
      return simulation_.Lives(pid) ? static_cast<uint64_t>(pid) : uint64_t{0};
    };
  }
  return Client(Way(machine, store), options);
}

void Storm::BackUpVolume(Machine& machine, const std::string& volume, Draws& draws) {
  VolumeState state;
  // Of one leaf, of two, of three: each full backup reads all of it.
  const uint64_t size = draws() % 64;
  const int64_t spread = size == 0 ? 74 : size < 5 ? 37 : 1;
  state.size_bytes = (8 * spread + (size == 0 ? 8 : 0)) * kModelChunkBytes - 512;
  const auto change = [&] {
    const int count = 1 + static_cast<int>(draws() % 3);
    for (int i = 0; i < count; ++i) {
      const auto chunk = static_cast<int64_t>(draws() % 8) * spread;
      if (draws() % 5 == 0) {
        state.chunks.erase(chunk);
      } else {
        state.chunks[chunk] = LightFilling(draws());
      }
    }
  };
  for (int i = 0; i < 2; ++i) {
    change();
  }
  std::string handle;
  bool is_same = false;  // as in the run before, which did not end well
  for (int run = 0; run < 3; ++run) {
    if (!is_same) {
      change();
      if (draws() % 6 == 0) {
        state.size_bytes += kModelChunkBytes;
      }
      handle = absl::StrCat(volume, "-", machine.number(), "-", run);
      model_.Know(handle, state);
    }
    BackupChoice choice;
    choice.incremental = draws() % 6 != 0;
    choice.immutable_id = draws() % 2 == 0 ? handle : "";
    const int64_t since = simulation_.sequence();
    const auto result =
        Open(machine, main_, draws).Backup(volume, state, model_.known(), handle, choice);
    Note(machine, absl::StrCat("backup of ", handle, ": ",
                               result.ok() ? absl::StrCat(result->mode_done, " ",
                                                          result->snapshot.ShortHex())
                                           : result.status().ToString()));
    is_same = !result.ok() && draws() % 2 == 0;
    if (result.ok()) {
      model_.Save({.store = &main_, .id = result->snapshot, .state = state, .since = since});
    }
    machine.Idle(absl::Minutes(static_cast<int64_t>(draws() % 90)));
  }
}

std::string Storm::MaintainOnce(Client& client, SharedStore& store, Draws& draws) {
  switch (draws() % 8) {
    case 0:
    case 1:
    case 2: {
      std::vector<Id> ids;
      std::string text = "forget";
      for (const Saved& one : model_.saved()) {
        if (one.store == &store && !one.is_given_up && draws() % 3 == 0) {
          ids.push_back(one.id);
          absl::StrAppend(&text, " ", one.id.ShortHex());
        }
      }
      for (const Id& id : ids) {
        model_.GiveUp(id);
      }
      return absl::StrCat(text, ": ", client.Forget(ids).ToString());
    }
    case 3:
    case 4:
      return absl::StrCat("prune: ", client.Prune().ToString());
    case 5:
      return absl::StrCat("check: ", client.Check(draws() % 2 == 0).status().ToString());
    case 6:
      return draws() % 2 == 0
                 ? absl::StrCat("repair index: ",
                                client.RepairIndex(draws() % 2 == 0, /*assume_ended=*/false)
                                    .status()
                                    .ToString())
                 : absl::StrCat("repair packs: ", client.RepairPacks().status().ToString());
    default: {
      model_.Removed();
      const auto removed = client.RepairSnapshots();
      std::string text =
          absl::StrCat("repair snapshots: ", removed.status().ToString(), client.findings());
      for (const Id& id : removed.ok() ? *removed : std::vector<Id>()) {
        absl::StrAppend(&text, " ", id.ShortHex());
      }
      return text;
    }
  }
}

void Storm::Maintain(Machine& machine, SharedStore& store, Draws& draws, int runs) {
  for (int run = 0; run < runs; ++run) {
    machine.Idle(absl::Minutes(static_cast<int64_t>(draws() % 90)));
    Client client = Open(machine, store, draws);
    Note(machine, MaintainOnce(client, store, draws));
  }
}

void Storm::CopyOnce(Client& client, storage::ObjectStore& from, SharedStore& to) {
  const int64_t since = simulation_.sequence();
  const auto copied = client.CopyFrom(from);
  model_.Log(absl::StrCat("copy: ", copied.status().ToString()));
  if (!copied.ok()) {
    return;
  }
  for (const repository::CopiedSnapshot& one : *copied) {
    model_.Log(absl::StrCat("  ", one.source.ShortHex(), one.was_there ? " there as " : " to ",
                            one.copy.ShortHex(), " ", one.not_mended.ToString()));
    if (!one.not_mended.ok()) {
      continue;  // It says that it cannot be restored.
    }
    if (const std::optional<VolumeState> state = model_.StateOf(one.source); state.has_value()) {
      model_.Save({.store = &to, .id = one.copy, .state = *state, .since = since});
    }
  }
}

void Storm::Copy(Machine& machine, Draws& draws) {
  for (int run = 0; run < 2; ++run) {
    machine.Idle(absl::Minutes(60 + static_cast<int64_t>(draws() % 90)));
    Client client = Open(machine, second_, draws);
    CopyOnce(client, Way(machine, main_), second_);
    Note(machine, "copied");
  }
  Maintain(machine, second_, draws, 1);
}

// A stock restic: backs up what it has, removes snapshots, removes locks by their age.
void Storm::BePlain(Machine& machine, Draws& draws) {
  for (int run = 0; run < 2; ++run) {
    machine.Idle(absl::Minutes(static_cast<int64_t>(draws() % 120)));
    VolumeState state{.size_bytes = 4 * kModelChunkBytes};
    std::string image;
    for (int64_t chunk = 0; chunk < 4; ++chunk) {
      state.chunks[chunk] = LightFilling(draws());
      image += FillingOf(state.chunks[chunk]);
    }
    const int64_t since = simulation_.sequence();
    Client client = Open(machine, main_, draws, /*is_plain=*/true);
    const uint64_t verb = draws() % 3;
    Note(machine, absl::StrCat("restic ", verb));
    if (verb == 0) {
      client.PlainUnlock().IgnoreError();
      continue;
    }
    const auto saved = client.PlainBackup(image);
    if (saved.ok()) {
      model_.Save(
          {.store = &main_, .id = *saved, .state = state, .since = since, .is_plain = true});
    }
  }
}

void Storm::Run() {
  std::mt19937_64 draws(seed_);
  std::vector<uint64_t> seeds;
  for (int i = 0; i < 6; ++i) {
    seeds.push_back(draws());
  }
  const bool one_volume = draws() % 4 == 0;
  std::vector<Simulation::Script> scripts = {
      [&](Machine& machine) {
        Draws own(seeds[0]);
        BackUpVolume(machine, "/shop/a", own);
      },
      [&](Machine& machine) {
        Draws own(seeds[1]);
        BackUpVolume(machine, one_volume ? "/shop/a" : "/shop/b", own);
      },
      [&](Machine& machine) {
        Draws own(seeds[2]);
        Maintain(machine, main_, own, 4);
      },
      [&](Machine& machine) {
        Draws own(seeds[3]);
        Copy(machine, own);
      }};
  if (draws() % 3 == 0) {
    scripts.push_back([&](Machine& machine) {
      Draws own(seeds[4]);
      BePlain(machine, own);
    });
  }
  simulation_.Run(scripts);
}

absl::Status Storm::RestoresOf(SharedStore& store, const Saved& saved) {
  support::FakeClock clock;
  clock.SetAutoAdvance(true);
  ClientOptions options;
  options.clock = &clock;
  return Client(store, options).Restores(saved.id, saved.state);
}

std::string Storm::JudgeOne(const Saved& saved, bool& is_whole) {
  const absl::Status restored = RestoresOf(*saved.store, saved);
  is_whole = restored.ok();
  if (is_whole) {
    return "";
  }
  SharedStore mended(saved.store->objects());
  bool is_excused = false;
  std::vector<SpoiltObject> spoilt = simulation_.spoilt();
  std::reverse(spoilt.begin(), spoilt.end());  // What was damaged twice was whole before the first.
  for (const SpoiltObject& one : spoilt) {
    if (MayExcuse(saved, one)) {
      mended.SetObject(one.key, one.before);
      is_excused = true;
    }
  }
  if (is_excused) {
    support::FakeClock clock;
    clock.SetAutoAdvance(true);
    ClientOptions options;
    options.clock = &clock;
    Client client(mended, options);
    // Others may have written down meanwhile that what was lost is gone.
    client.RepairIndex(/*read_all_packs=*/true).IgnoreError();
    const std::string key = repository::FileKey(repository::FileKind::kSnapshot, saved.id);
    const bool was_there = saved.store->objects().contains(key);
    const bool is_gone = !was_there;
    // A prune cannot know what a snapshot needed whose own file is gone.
    const bool is_own = mended.objects().contains(key) && !was_there;
    if (is_own || RestoresOf(mended, saved).ok() || (is_gone && model_.repairs_removed())) {
      return "";
    }
  }
  for (const SpoiltObject& one : simulation_.spoilt()) {
    model_.Log(absl::StrCat(one.is_lost ? "lost " : "damaged ",
                            one.store == &main_ ? "" : "in the second store ", one.key, ", as ",
                            one.sequence, MayExcuse(saved, one) ? ", an excuse" : ""));
  }
  for (const std::string& line : simulation_.deletions()) {
    model_.Log(line);
  }
  return absl::StrCat(saved.store == &main_ ? "" : "the copy ", saved.id.ShortHex(),
                      " was reported as saved: ", restored.ToString());
}

std::string Storm::Judge() {
  std::string text;
  std::set<std::pair<SharedStore*, Id>> restored;  // A copy is reported by each run that sees it.
  for (const Saved& saved : model_.saved()) {
    if (saved.is_given_up || restored.contains({saved.store, saved.id})) {
      continue;
    }
    bool is_whole = false;
    if (const std::string lost = JudgeOne(saved, is_whole); !lost.empty()) {
      absl::StrAppend(&text, lost, "\n");
    }
    if (is_whole) {
      restored.emplace(saved.store, saved.id);
    }
  }
  return text;
}

int64_t Storm::saved() { return std::ssize(model_.saved()); }

// Which of the seeds this process takes: all, or with CSI_DELTA_STORM_PART=2/5 the second fifth.
std::pair<int64_t, int64_t> PartOf(int64_t seeds) {
  const char* text = std::getenv("CSI_DELTA_STORM_PART");
  const std::vector<std::string> words = absl::StrSplit(text == nullptr ? "1/1" : text, '/');
  int64_t part = 0;
  int64_t parts = 0;
  EXPECT_TRUE(words.size() == 2 && absl::SimpleAtoi(words[0], &part) &&
              absl::SimpleAtoi(words[1], &parts) && part >= 1 && part <= parts)
      << text;
  return {seeds * (part - 1) / parts, seeds * part / parts};
}

// What many seeds came to. Thread-safe.
class Results {
 public:
  void Add(uint64_t seed, Storm& storm) {
    const std::string lost = storm.Judge();
    std::scoped_lock lock(mutex_);
    if (++tried_ % 1000 == 0) {
      std::cout << tried_ << " seeds" << std::endl;
    }
    EXPECT_EQ(lost, "") << "again: CSI_DELTA_SWEEP=" << seed << ", its first storm\n"
                        << storm.log();
    if (storm.saved() == 0) {
      return;
    }
    ++seeds_;
    snapshots_ += storm.saved();
    calls_ += storm.simulation().calls();
    for (std::size_t kind = 0; kind < faults_.size(); ++kind) {
      faults_[kind] += storm.simulation().faults()[kind];
      all_ += storm.simulation().faults()[kind];
    }
  }
  // As properties of the test, for the ledger of ./dev sweep storm.
  void Record() {
    const auto record = [](absl::string_view name, int64_t value) {
      testing::Test::RecordProperty(absl::StrCat("storm: ", name), std::to_string(value));
      std::cout << "storm: " << name << " " << value << "\n";
    };
    record("seeds with a saved snapshot", seeds_);
    record("snapshots saved", snapshots_);
    record("calls to stores", calls_);
    record("processor seconds", std::clock() / CLOCKS_PER_SEC);
    record("faults", all_);
    for (std::size_t kind = 0; kind < faults_.size(); ++kind) {
      record(absl::StrCat("faults: ", kFaultNames[kind]), faults_[kind]);
    }
    testing::Test::RecordProperty("points", static_cast<int>(seeds_));
    EXPECT_GT(seeds_, 0);
  }

 private:
  std::mutex mutex_;
  int64_t tried_ = 0;
  int64_t seeds_ = 0;
  int64_t snapshots_ = 0;
  int64_t calls_ = 0;
  int64_t all_ = 0;
  std::array<int64_t, kFaultNames.size()> faults_ = {};
};

TEST(StormTest, ReportedBackupsAreRestored) {
  const SweepSample sample;
  ::mallopt(M_MMAP_THRESHOLD, 64 << 20);  // Fresh pages would take a fifth of the time.
  ::mallopt(M_TRIM_THRESHOLD, 256 << 20);
  SetLogLevel(LogLevel::kError);
  const int64_t seeds = sample.is_everything() ? kSeedsWhole : kSeedsOfTheDay;
  const uint64_t first = sample.is_everything() ? 0 : sample.seed();
  Results results;
  const auto [begin, end] = PartOf(seeds);
  std::atomic<int64_t> next = begin;
  const auto run = [&, end = end] {
    for (int64_t i = next++; i < end; i = next++) {
      const uint64_t seed = first + static_cast<uint64_t>(i);
      Storm storm(seed);
      storm.Run();
      results.Add(seed, storm);
    }
  };
  {
    const std::jthread beside(run);
    run();
  }
  results.Record();
}

}  // namespace
}  // namespace csidelta::reliability::storm_test

// Each object of a repository is lost in turn, then other verbs run: what says OK restores.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "storage/forwarding_object_store.h"
#include "tests/reliability/client.h"
#include "tests/reliability/shared_store.h"
#include "tests/reliability/volume_model.h"
#include "tests/support/fake_clock.h"
#include "tests/support/status_matchers.h"
#include "tests/support/sweep_sample.h"

namespace csidelta::reliability::lost_object_test {
namespace {

using incremental::BackupResult;
using repository::Id;
using support::SweepSample;

constexpr char kVolume[] = "/shop/db";
constexpr int64_t kLeaf = repository::kLeafChunks;

// Stands around a store and ends each call from the `last`-th on, as the dead do.
class MortalStore : public storage::ForwardingObjectStore {
 public:
  MortalStore(storage::ObjectStore& inner, int64_t last)
      : ForwardingObjectStore(inner), calls_left_(last) {}

  absl::Status Put(const CallContext& ctx, const std::string& key, absl::string_view bytes,
                   const storage::PutOptions& options) override {
    return --calls_left_ < 0 ? absl::CancelledError("dead") : inner().Put(ctx, key, bytes, options);
  }
  absl::Status Delete(const CallContext& ctx, const std::string& key) override {
    return calls_left_ < 0 ? absl::CancelledError("dead") : inner().Delete(ctx, key);
  }

 private:
  std::atomic<int64_t> calls_left_;
};

// Two repositories, a volume and what its driver knows, with verbs that may be run on them. A copy
// goes on from the same state.
class World {
 public:
  World(VolumeState volume, bool has_many_packs)
      : volume_(std::move(volume)), has_many_packs_(has_many_packs) {}

  Objects objects = Client::FreshRepository(0);
  Objects other = Client::FreshRepository(1);

  // Runs a verb. Returns what was found wrong with what it said; "" for nothing.
  std::string Do(char verb);
  // The verbs that ran and ended well, for the count of what was compared.
  int ended_well() const { return ended_well_; }

 private:
  std::optional<std::string> BackUpAs(char verb, SharedStore& store);
  std::string Maintain(char verb, SharedStore& store);
  std::string Judge(SharedStore& store, const absl::StatusOr<Id>& saved);
  std::string JudgeAll(SharedStore& store, absl::string_view verb);
  absl::StatusOr<BackupResult> Back(storage::ObjectStore& store, const BackupChoice& choice);
  absl::StatusOr<Id> BackUp(storage::ObjectStore& store, const BackupChoice& choice = {});
  absl::Status ForgetOldest(SharedStore& store);
  std::string CopyIn(SharedStore& store);
  std::string CopyOut(SharedStore& store);
  std::string RepairPacks(SharedStore& store);
  ClientOptions Options();
  void Change(int chunks);

  VolumeState volume_;
  bool has_many_packs_;
  KnownVolumes known_;
  std::map<Id, VolumeState> saved_;  // in either repository
  absl::Time now_ = absl::FromUnixSeconds(1'700'000'000);
  std::shared_ptr<support::FakeClock> clock_;
  uint64_t runs_ = 0;
  int ended_well_ = 0;
};

ClientOptions World::Options() {
  now_ += absl::Hours(has_many_packs_ ? 25 : 1);
  clock_ = std::make_shared<support::FakeClock>(now_);
  clock_->SetAutoAdvance(true);
  ClientOptions options;
  options.clock = clock_.get();
  options.seed = ++runs_;
  options.limits.packs_listed_at_once = has_many_packs_ ? 1 : options.limits.packs_listed_at_once;
  return options;
}

void World::Change(int chunks) {
  // Each change is of other chunks; of what there is as well as of what was zero.
  for (int i = 0; i < chunks; ++i) {
    const auto step = static_cast<int64_t>(runs_ * 7 + static_cast<uint64_t>(i) * 3);
    auto at = volume_.chunks.begin();
    std::advance(at, step % std::ssize(volume_.chunks));
    at->second = (at->second + 41) % kFillings;
  }
}

absl::StatusOr<BackupResult> World::Back(storage::ObjectStore& store, const BackupChoice& choice) {
  const std::string handle = absl::StrCat("handle-", known_.size());
  Client client(store, Options());
  absl::StatusOr<BackupResult> result = client.Backup(kVolume, volume_, known_, handle, choice);
  if (result.ok()) {
    known_[handle] = volume_;
    saved_[result->snapshot] = volume_;
  }
  return result;
}

absl::StatusOr<Id> World::BackUp(storage::ObjectStore& store, const BackupChoice& choice) {
  ASSIGN_OR_RETURN(const BackupResult result, Back(store, choice));
  return result.snapshot;
}

std::string World::Judge(SharedStore& store, const absl::StatusOr<Id>& saved) {
  if (!saved.ok()) {
    return "";
  }
  ++ended_well_;
  const absl::Status restored = Client(store, Options()).Restores(*saved, saved_.at(*saved));
  return restored.ok() ? "" : absl::StrCat(saved->ShortHex(), " was saved: ", restored.ToString());
}

std::string World::JudgeAll(SharedStore& store, absl::string_view verb) {
  const auto snapshots = Client(store, Options()).Snapshots();
  if (!snapshots.ok()) {
    return absl::StrCat(verb, " ended well: ", snapshots.status().ToString());
  }
  for (const repository::StoredSnapshot& one : *snapshots) {
    const Id id = saved_.contains(one.id) ? one.id : one.snapshot.original.value_or(one.id);
    if (const auto state = saved_.find(id); state != saved_.end()) {
      const absl::Status restored = Client(store, Options()).Restores(one.id, state->second);
      if (!restored.ok()) {
        return absl::StrCat(verb, " ended well: ", restored.ToString());
      }
    }
  }
  ++ended_well_;
  return "";
}

absl::Status World::ForgetOldest(SharedStore& store) {
  ASSIGN_OR_RETURN(const auto snapshots, Client(store, Options()).Snapshots());
  return snapshots.size() < 2 ? absl::OkStatus()
                              : Client(store, Options()).Forget({snapshots.front().id});
}

std::string World::CopyIn(SharedStore& store) {
  SharedStore source(other);
  const auto copied = Client(store, Options()).CopyFrom(source);
  if (!copied.ok()) {
    return "";
  }
  for (const repository::CopiedSnapshot& one : *copied) {
    if (!one.not_mended.ok()) {
      continue;  // It says that it cannot be restored.
    }
    saved_[one.copy] = saved_.at(one.source);
    if (std::string wrong = Judge(store, one.copy); !wrong.empty()) {
      return absl::StrCat(one.was_there ? "copy, was there: " : "copy: ", wrong);
    }
  }
  return "";
}

std::string World::CopyOut(SharedStore& store) {
  SharedStore target(Client::FreshRepository(1));
  const auto copied = Client(target, Options()).CopyFrom(store);
  return copied.ok() ? JudgeAll(target, "copy out") : "";
}

std::string World::RepairPacks(SharedStore& store) {
  const auto repaired = Client(store, Options()).RepairPacks(&volume_);
  const bool is_whole = repaired.ok() && repaired->lost() == 0 && repaired->trees_unreadable == 0;
  return is_whole ? JudgeAll(store, "repair packs") : "";
}

// A backup of some kind; nothing where the verb is none.
std::optional<std::string> World::BackUpAs(char verb, SharedStore& store) {
  switch (verb) {
    case 'I':  // an increment
      Change(2);
      return Judge(store, BackUp(store));
    case 'N':  // an increment of nothing
      return Judge(store, BackUp(store));
    case 'F':  // a full backup that was asked for
      Change(1);
      return Judge(store, BackUp(store, {.incremental = false}));
    case 'O': {  // a backup into the other repository
      Change(2);
      SharedStore second(other);
      const std::string wrong = Judge(second, BackUp(second));
      other = second.objects();
      return wrong;
    }
    case 'D': {  // a backup of an immutable source that dies, before another one with its journal
      Change(3);
      MortalStore mortal(store, 5);
      BackUp(mortal, {.immutable_id = "one"}).IgnoreError();
      return "";
    }
    case 'R':
      return Judge(store, BackUp(store, {.immutable_id = "one"}));
    default:
      return std::nullopt;
  }
}

std::string World::Maintain(char verb, SharedStore& store) {
  switch (verb) {
    case 'P': {
      const absl::Status pruned = Client(store, Options()).Prune();
      return pruned.ok() ? JudgeAll(store, "prune") : "";
    }
    case 'G':
      ForgetOldest(store).IgnoreError();
      break;
    case 'C': {
      const auto report = Client(store, Options()).Check();
      return report.ok() && report->ok() && report->complete ? JudgeAll(store, "check") : "";
    }
    case 'X':
      Client(store, Options()).RepairIndex().IgnoreError();
      break;
    case 'K':
      return RepairPacks(store);
    case 'S': {
      const auto removed = Client(store, Options()).RepairSnapshots();
      return removed.ok() ? JudgeAll(store, "repair snapshots") : "";
    }
    case 'Y':
      return CopyIn(store);
    case 'Z':
      return CopyOut(store);
    case 'A':  // what no other restic writes or copies
      for (const auto& [key, object] : store.objects()) {
        if (absl::StartsWith(key, "aux/")) {
          store.Remove(key);
        }
      }
      break;
    default:
      ADD_FAILURE() << "no verb " << verb;
  }
  return "";
}

std::string World::Do(char verb) {
  SharedStore store(objects);
  const std::optional<std::string> backup = BackUpAs(verb, store);
  const std::string wrong = backup.has_value() ? *backup : Maintain(verb, store);
  objects = store.objects();
  return wrong.empty() ? "" : absl::StrCat(std::string(1, verb), ": ", wrong);
}

// What happened before the loss, and what happens after it: a verb a letter.
constexpr std::array kBefore = {"F",   "FI",   "FIII",  "FIIGGP", "OOYI", "OIYOY", "FIDR",
                                "FID", "FIFI", "FIAII", "FIXI",   "OYIO", "FIPI",  "FIKI"};
constexpr std::array kAfter = {"I",  "II",  "NI", "NNI", "F",   "FI",  "R",   "DR",  "P",   "GPI",
                               "C",  "XI",  "KI", "SI",  "XKI", "XSI", "Y",   "YI",  "Z",   "IZ",
                               "IP", "NGP", "IC", "AI",  "AII", "XFI", "KFI", "CIC", "OYI", "IIII"};

enum class Loss { kGone, kJunk, kHalf };

struct Point {
  std::string before;
  std::string key;
  std::string after;
  Loss loss = Loss::kGone;

  std::string ToString() const {
    return absl::StrCat(before, " | ", key.substr(0, 16), loss == Loss::kGone ? "" : " (spoilt)",
                        " | ", after);
  }
};

// What the promise is about: an object that is gone. Objects that no restic knows may be spoilt,
// too: then they say nothing.
std::vector<Point> PointsOf(const std::string& before, const Objects& objects) {
  std::vector<Point> points;
  for (const auto& [key, object] : objects) {
    for (const char* after : kAfter) {
      points.push_back({.before = before, .key = key, .after = after});
      if (absl::StartsWith(key, "aux/")) {
        points.push_back({.before = before, .key = key, .after = after, .loss = Loss::kJunk});
        points.push_back({.before = before, .key = key, .after = after, .loss = Loss::kHalf});
      }
    }
  }
  return points;
}

void Lose(const Point& point, Objects& objects) {
  SharedObject& object = objects.at(point.key);
  switch (point.loss) {
    case Loss::kGone:
      objects.erase(point.key);
      break;
    case Loss::kJunk:
      object.bytes = std::make_shared<const std::string>(FillingOf(1).substr(0, 100));
      break;
    case Loss::kHalf:
      object.bytes =
          std::make_shared<const std::string>(object.bytes->substr(0, object.bytes->size() / 2));
      break;
  }
}

// Sets apart how much of the volume each shape has in which of its leaves.
struct Shape {
  const char* name;
  int64_t leaves;
  std::vector<std::pair<int64_t, int>> runs;  // the first chunk, and how many follow
  // Of a large volume each fallback reads all: so many points of each history, and none of a day.
  std::size_t points_max = 0;   // 0: all
  bool has_many_packs = false;  // more than are listed at each backup; a day passes between verbs
};

void PrintTo(const Shape& shape, std::ostream* out) { *out << shape.name; }

VolumeState VolumeOf(const Shape& shape) {
  VolumeState volume;
  volume.size_bytes = shape.leaves * kLeaf * kModelChunkBytes - kModelChunkBytes + 1024;
  uint64_t filling = 1;
  for (const auto& [first, count] : shape.runs) {
    for (int i = 0; i < count; ++i) {
      volume.chunks[first + i] = filling++;
    }
  }
  return volume;
}

class LostObjectTest : public testing::TestWithParam<Shape> {};

// How many points a sample of the day has of each shape.
constexpr std::size_t kSample = 8;

// What points came to. Thread-safe.
class Results {
 public:
  void Add(const Point& point, const std::string& wrong, int ended_well) {
    std::scoped_lock lock(mutex_);
    ++points_;
    ended_well_ += ended_well;
    if (!wrong.empty()) {
      ++kinds_[absl::StrCat(point.before, " | ", point.key.substr(0, 5), " | ", point.after)];
      if (wrong_.size() < 20) {
        wrong_.push_back(absl::StrCat(point.ToString(), ": ", wrong));
      }
    }
  }
  void Record() {
    testing::Test::RecordProperty("points", static_cast<int>(points_));
    testing::Test::RecordProperty("ended_well", static_cast<int>(ended_well_));
    EXPECT_GT(ended_well_, 0);
    EXPECT_THAT(kinds_, testing::IsEmpty());
    for (const std::string& one : wrong_) {
      ADD_FAILURE() << one;
    }
  }

 private:
  std::mutex mutex_;
  int64_t points_ = 0;
  int64_t ended_well_ = 0;  // verbs whose word was compared with a restore
  std::map<std::string, int> kinds_;
  std::vector<std::string> wrong_;
};

void RunPoint(const World& before, const Point& point, Results& results) {
  World world = before;
  Lose(point, world.objects);
  std::string wrong;
  for (const char verb : point.after) {
    wrong = world.Do(verb);
    if (!wrong.empty()) {
      break;
    }
  }
  results.Add(point, wrong, world.ended_well() - before.ended_well());
}

TEST_P(LostObjectTest, AnExitOfZeroRestores) {
  const SweepSample sample;
  SetLogLevel(LogLevel::kError);
  if (GetParam().points_max > 0 && !sample.is_everything()) {
    RecordProperty("points", 0);
    return;
  }
  std::vector<std::string> histories(kBefore.begin(), kBefore.end());
  histories = sample.Of(histories, 1);
  Results results;
  for (std::string before : histories) {
    if (GetParam().points_max > 0) {
      std::replace(before.begin(), before.end(), 'F', 'I');  // reads what is allocated
    }
    World world(VolumeOf(GetParam()), GetParam().has_many_packs);
    for (const char verb : before) {
      ASSERT_EQ(world.Do(verb), "") << before;
    }
    std::vector<Point> points = PointsOf(before, world.objects);
    if (GetParam().points_max > 0) {
      std::shuffle(points.begin(), points.end(), std::mt19937_64(sample.seed()));
      points.resize(GetParam().points_max);
    }
    points = sample.Of(points, kSample);
    std::atomic<std::size_t> next = 0;
    const auto run = [&] {
      for (std::size_t i = next++; i < points.size(); i = next++) {
        RunPoint(world, points[i], results);
      }
    };
    const std::jthread beside(run);
    run();
  }
  results.Record();
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, LostObjectTest,
    testing::Values(Shape{"OneLeaf", 1, {{0, 20}, {40, 3}}},
                    Shape{"ThreeLeaves", 3, {{0, 8}, {250, 12}, {600, 4}}},
                    Shape{"ManyPacks", 1, {{0, 20}, {100, 3}}, 0, true},
                    Shape{"ManyPacksInTwoLeaves", 2, {{0, 14}, {256, 9}}, 0, true},
                    Shape{"TwoLevels", 257, {{0, 6}, {10'000, 6}, {65'600, 8}}, 4},
                    Shape{"Leaves4097", 4097, {{0, 6}, {500'000, 10}, {1'040'000, 4}}, 1}),
    [](const testing::TestParamInfo<Shape>& shape) { return std::string(shape.param.name); });

}  // namespace
}  // namespace csidelta::reliability::lost_object_test

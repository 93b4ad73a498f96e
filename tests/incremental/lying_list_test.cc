// Wrong lists: the audit finds them as often as it promises, or they do no harm. The lists are
// drawn with the seed of the day; with CSI_DELTA_SWEEP=all many more of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "incremental/mover/audit_plan.h"
#include "repository/volume_layout.h"
#include "tests/incremental/volume_fixture.h"
#include "tests/support/sweep_sample.h"

namespace csidelta::incremental::lying_list_test {
namespace {

using repository::kLeafChunks;
using support::FakeBlockDevice;
using support::IsOk;
using support::StatusIs;
using testing::HasSubstr;

constexpr int64_t kChunk = VolumeFixture::kChunk;
constexpr int64_t kDataEvery = 8;  // chunks of the parent; the others are zero

// The probability that an audit which keeps its promise fails this test, by too few findings or by
// too many.
constexpr double kFalseAlarm = 1e-6;
// The probability that one passes which reads half of what it says.
constexpr double kMissedAlarm = 0.05;

// The distribution of how many runs find a wrong list, each run with a probability of its own.
class MetCount {
 public:
  void Add(double probability) {
    chances_.push_back(0);
    for (std::size_t met = chances_.size() - 1; met > 0; --met) {
      chances_[met] = chances_[met] * (1 - probability) + chances_[met - 1] * probability;
    }
    chances_[0] *= 1 - probability;
  }

  // Of `low` runs to `high`.
  double Between(int low, int high) const {
    return std::accumulate(chances_.begin() + low, chances_.begin() + high + 1, 0.0);
  }

  // Fewer than AtLeast() have a probability of at most half of kFalseAlarm; so do more than
  // AtMost().
  int AtLeast() const { return Outside(chances_.begin(), chances_.end()); }
  int AtMost() const {
    return static_cast<int>(chances_.size()) - 1 - Outside(chances_.rbegin(), chances_.rend());
  }

 private:
  template <typename Iterator>
  static int Outside(Iterator begin, Iterator end) {
    double chance = 0;
    int count = 0;
    for (Iterator at = begin; at != end && chance + *at <= kFalseAlarm / 2; ++at, ++count) {
      chance += *at;
    }
    return count;
  }

  std::vector<double> chances_ = {1};  // of 0, 1, 2… runs
};

ListedExtent Data(int64_t chunk) { return {.extent = {chunk * kChunk + 100, 8}}; }
ListedExtent Zero(int64_t chunk) {
  return {.extent = {chunk * kChunk, kChunk}, .kind = ExtentKind::kZero};
}

std::vector<ListedExtent> Listed(const std::vector<int64_t>& chunks,
                                 ListedExtent (*entry)(int64_t)) {
  std::vector<ListedExtent> list;
  std::transform(chunks.begin(), chunks.end(), std::back_inserter(list), entry);
  return list;
}

// `count` different numbers below `bound`, ascending; each, or each `step`th, may be among them.
std::vector<int64_t> Pick(Random& random, int64_t bound, int64_t count, int64_t step = 1) {
  std::set<int64_t> numbers;
  while (static_cast<int64_t>(numbers.size()) < count) {
    numbers.insert(static_cast<int64_t>(random.Below(static_cast<uint64_t>(bound / step))) * step);
  }
  return {numbers.begin(), numbers.end()};
}

// `count` of them.
std::vector<int64_t> Some(Random& random, std::vector<int64_t> all, std::size_t count) {
  while (all.size() > count) {
    all.erase(all.begin() + static_cast<std::ptrdiff_t>(random.Below(all.size())));
  }
  return all;
}

// What happened to a volume, and what a list says of it.
struct Tale {
  std::vector<int64_t> changed = {};
  std::vector<int64_t> discarded = {};
  std::vector<ListedExtent> list = {};
};

// How many lies there are in a tale of `chunks` chunks, of which the audit reads an eighth: so many
// that half of an audit is told from a whole one by few runs, and that a run soon meets one.
constexpr int64_t kLies = 20;
constexpr int64_t kTruths = 4;  // Each costs more than the audit of several lies.
constexpr int64_t kLyingLeaves = 2;
constexpr int64_t kZeros = 40;
constexpr std::size_t kLyingZeros = 6;

// Of chunks that have data in the parent.
Tale Omit(Random& random, int64_t chunks) {
  Tale tale{.changed = Pick(random, chunks, kLies + kTruths, kDataEvery)};
  tale.list = Listed(Some(random, tale.changed, kTruths), Data);
  return tale;
}

Tale OmitLeaves(Random& random, int64_t chunks) {
  Tale tale;
  for (const int64_t leaf : Pick(random, chunks / kLeafChunks, kLyingLeaves)) {
    for (int64_t slot = 0; slot < kLeafChunks; ++slot) {
      tale.changed.push_back(leaf * kLeafChunks + slot);
    }
  }
  return tale;
}

Tale Shift(Random& random, int64_t chunks) {
  Tale tale{.changed = Pick(random, chunks, kLies)};
  for (const int64_t chunk : tale.changed) {
    if (chunk + 1 < chunks) {
      tale.list.push_back(Data(chunk + 1));
    }
  }
  return tale;
}

Tale Truncate(Random& random, int64_t chunks) {
  Tale tale{.changed = Pick(random, chunks, kLies + kTruths)};
  tale.list = Listed({tale.changed.begin(), tale.changed.begin() + kTruths}, Data);
  return tale;
}

Tale AnotherVolume(Random& random, int64_t chunks) {
  return {.changed = Pick(random, chunks, kLies),
          .list = Listed(Pick(random, chunks, kTruths), Data)};
}

Tale SayZero(Random& random, int64_t chunks) {
  const std::vector<int64_t> zeros = Pick(random, chunks, kZeros);
  Tale tale{.list = Listed(zeros, Zero)};
  std::vector<int64_t>& lies = tale.changed;
  for (const int64_t at : Pick(random, kZeros, kLyingZeros)) {
    lies.push_back(zeros[static_cast<std::size_t>(at)]);
  }
  std::set_difference(zeros.begin(), zeros.end(), lies.begin(), lies.end(),
                      std::back_inserter(tale.discarded));
  return tale;
}

struct LieCase {
  const char* name;
  Tale (*tell)(Random& random, int64_t chunks);
  int64_t leaves;  // of the volume
  int runs;
  bool has_parent = true;
  bool fills_leaves = false;

  int64_t chunks() const { return leaves * kLeafChunks; }
};

const LieCase kCases[] = {
    {"Omits", Omit, 4, 130},
    {"OmitsLeaves", OmitLeaves, 24, 70, true, true},
    {"Shifts", Shift, 4, 130},
    {"IsTruncated", Truncate, 4, 130},
    {"BelongsToAnotherVolume", AnotherVolume, 4, 130},
    {"CallsDataZero", SayZero, 1, 110},
    {"CallsDataUnallocatedOnAFirstFull", Omit, 4, 130, false},
    {"CallsDataZeroOnAFirstFull", SayZero, 1, 110, false},
};

// A repository with a backup of a volume that has data here and there.
struct Base {
  explicit Base(int64_t chunks) : device(chunks * kChunk) {
    std::vector<ListedExtent> list;
    for (int64_t chunk = 0; chunk < chunks; chunk += kDataEvery) {
      device.Store(chunk * kChunk + 100, RandomBytes(8, static_cast<uint64_t>(chunk)));
      list.push_back(Data(chunk));
    }
    ExtentListSource source = AllocatedList(list);
    const auto full = volume.Backup(device, source, VolumeFixture::Options());
    EXPECT_THAT(full, IsOk());
    parent = volume.Stored(full->snapshot);
    objects = volume.store().objects();
  }

  VolumeFixture volume;
  FakeBlockDevice device;
  repository::StoredSnapshot parent;
  std::map<std::string, std::string> objects;
};

Base& SharedBase(int64_t chunks) {
  static std::map<int64_t, std::unique_ptr<Base>> bases;
  std::unique_ptr<Base>& base = bases[chunks];
  if (base == nullptr) {
    base = std::make_unique<Base>(chunks);
  }
  return *base;
}

class LyingListTest : public testing::TestWithParam<LieCase> {
 protected:
  // The volume of a tale.
  static FakeBlockDevice DeviceOf(const Tale& tale, uint64_t seed) {
    const int64_t chunks = GetParam().chunks();
    FakeBlockDevice device = GetParam().has_parent ? FakeBlockDevice(SharedBase(chunks).device)
                                                   : FakeBlockDevice(chunks * kChunk);
    for (const int64_t chunk : tale.discarded) {
      EXPECT_THAT(device.MakeZero({}, {chunk * kChunk, kChunk}), IsOk());
    }
    for (const int64_t chunk : tale.changed) {
      device.Store(chunk * kChunk + 100,
                   RandomBytes(8, seed * static_cast<uint64_t>(chunks + chunk)));
    }
    return device;
  }

  // `seed`: of what the audit draws.
  static absl::StatusOr<BackupResult> Backup(FakeBlockDevice& device, const Tale& tale,
                                             uint64_t seed) {
    Base& base = SharedBase(GetParam().chunks());
    base.volume.store().SetObjects(base.objects);
    base.volume.DrawAgain(seed);
    ExtentListSource source(
        {.base = GetParam().has_parent ? base.parent.id.Hex() : "", .extents = tale.list});
    UploadOptions options = VolumeFixture::Options();
    options.fail_on_fallback = true;  // A rescan has its own tests.
    options.audit_first_chunks = 0;   // The rule of all backups but the first.
    if (GetParam().has_parent) {
      options.parent = base.parent;
    }
    return base.volume.Backup(device, source, options);
  }

  // What the audit promises against the lies of `tale`, by the numbers that it shows; or one that
  // reads `part` of them.
  static double Promised(const AuditKindResult& audit, const Tale& tale, double part = 1) {
    const auto read = [part](int64_t shown) {
      return static_cast<int64_t>(part * static_cast<double>(shown));
    };
    if (GetParam().fills_leaves) {
      return DetectionProbability(GetParam().leaves, read(audit.leaves), kLyingLeaves);
    }
    std::set<int64_t> lies(tale.changed.begin(), tale.changed.end());
    for (const ListedExtent& listed : tale.list) {
      if (listed.kind == ExtentKind::kData) {
        lies.erase(listed.extent.offset_bytes / kChunk);
      }
    }
    return DetectionProbability(audit.candidates, read(audit.chunks),
                                static_cast<int64_t>(lies.size()));
  }

  // The audit's own numbers of a run in which nothing lies.
  static AuditKindResult HonestAudit() {
    SeededRandom random(999);
    Tale tale = GetParam().tell(random, GetParam().chunks());
    tale.changed.clear();
    FakeBlockDevice device = DeviceOf(tale, 0);
    for (const ListedExtent& listed : tale.list) {
      if (listed.kind == ExtentKind::kZero) {
        EXPECT_THAT(device.MakeZero({}, listed.extent), IsOk());
      }
    }
    const auto honest = Backup(device, tale, 999);
    EXPECT_THAT(honest, IsOk());
    if (!honest.ok()) {
      return {};
    }
    const bool zeroed = !tale.list.empty() && tale.list[0].kind == ExtentKind::kZero;
    const auto kind = std::find_if(
        honest->audit.begin(), honest->audit.end(),
        [&](const AuditKindResult& audit) { return (audit.kind == "zeroed") == zeroed; });
    EXPECT_NE(kind, honest->audit.end());
    return *kind;
  }
};

TEST_P(LyingListTest, IsDetectedAsOftenAsPromised) {
  const support::SweepSample sample;
  const AuditKindResult audit = HonestAudit();
  const int runs = sample.is_everything() ? 500 : GetParam().runs;
  MetCount expected;
  MetCount of_half;
  int met = 0;
  for (int run = 1; run <= runs; ++run) {
    SeededRandom random(sample.seed() * 1000 + static_cast<uint64_t>(run));
    const Tale tale = GetParam().tell(random, GetParam().chunks());
    FakeBlockDevice device = DeviceOf(tale, static_cast<uint64_t>(run));
    const auto backup = Backup(device, tale, random.Below(uint64_t{1} << 62));
    if (!backup.ok()) {
      ASSERT_THAT(backup,
                  StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("audit-mismatch")));
      ++met;
    }
    expected.Add(Promised(audit, tale));
    of_half.Add(Promised(audit, tale, 0.5));
  }
  RecordProperty("met", met);
  const int low = expected.AtLeast();
  const int high = expected.AtMost();
  EXPECT_GE(expected.Between(low, high), 1 - kFalseAlarm);
  EXPECT_LT(of_half.Between(low, high), kMissedAlarm)
      << "too few runs: an audit that reads half of what it says would pass";
  EXPECT_GE(met, low) << "of " << runs;
  EXPECT_LE(met, high) << "of " << runs;
}

INSTANTIATE_TEST_SUITE_P(Kinds, LyingListTest, testing::ValuesIn(kCases),
                         [](const auto& test) { return std::string(test.param.name); });

// --- Lists that break the contract do no harm: everything is read ---

constexpr int64_t kSmall = 260 * kChunk + 777;

struct BrokenCase {
  const char* name;
  std::vector<ListedExtent> list;
};

class BrokenListTest : public testing::TestWithParam<BrokenCase> {};

TEST_P(BrokenListTest, DoesNoHarm) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    VolumeFixture volume(seed);
    FakeBlockDevice device(kSmall);
    device.Store(17, RandomBytes(1000, seed));
    const auto first = volume.FullBackup(device);
    ASSERT_THAT(first, IsOk());
    device.Store(static_cast<int64_t>(seed) * 80 * kChunk, RandomBytes(2000, seed + 10));
    const auto second = volume.IncrementalBackup(device, first->snapshot, GetParam().list);
    ASSERT_THAT(second, IsOk());
    EXPECT_EQ(second->mode_done, "full");
    EXPECT_EQ(second->why->reason, FullReason::kListRefused);
    EXPECT_EQ(second->read_bytes, kSmall);
    volume.ExpectRestores(second->snapshot, device);
  }
}

const BrokenCase kBroken[] = {
    {"Duplicates", {{.extent = {0, 4096}}, {.extent = {0, 4096}}}},
    {"Overlaps", {{.extent = {0, 4096}}, {.extent = {4095, 4096}}}},
    {"OverlapsAsZero", {{.extent = {0, 4096}}, {.extent = {0, kChunk}, .kind = ExtentKind::kZero}}},
    {"GoesBackwards", {{.extent = {kChunk, 4096}}, {.extent = {0, 4096}}}},
    {"EndsPastTheVolume", {{.extent = {kSmall - 1, 2}}}},
    {"BeginsPastTheVolume", {{.extent = {kSmall + kChunk, 1}}}}};

INSTANTIATE_TEST_SUITE_P(Kinds, BrokenListTest, testing::ValuesIn(kBroken),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace csidelta::incremental::lying_list_test

// An attacker who can write the bucket, and has no key, moves, swaps, replays, truncates and
// deletes objects of two volumes and of two times. No backup may differ from its source because of
// it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "repository/blob_writer.h"
#include "repository/chain.h"
#include "repository/compression.h"
#include "tests/incremental/volume_fixture.h"
#include "tests/support/sweep_sample.h"

namespace csidelta::incremental::moved_objects_test {
namespace {

using repository::Id;
using support::FakeBlockDevice;
using support::IsOk;

using Objects = std::map<std::string, std::string>;

constexpr int64_t kChunk = VolumeFixture::kChunk;
constexpr int64_t kSize = 20 * kChunk;
constexpr char kPassword[] = "password";

// A volume whose every chunk has a few bytes of its own.
FakeBlockDevice MakeDevice(uint64_t seed) {
  FakeBlockDevice device(kSize);
  for (int64_t at = 0; at < kSize; at += kChunk) {
    device.Store(at, RandomBytes(16, seed + static_cast<uint64_t>(at)));
  }
  return device;
}

UploadOptions OptionsOf(const std::string& claim, const std::string& identity) {
  UploadOptions options = VolumeFixture::Options();
  options.snapshot.paths = {absl::StrCat("/shop/", claim)};
  options.immutable_identity = identity;
  options.journal = {.entries_per_file = 6, .step_bytes = kChunk};
  // The audit finds by chance what must not be there to find.
  options.audit_one_in = kSize / kChunk;
  options.audit_first_chunks = 0;
  return options;
}

absl::Status Adopt(VolumeFixture& volume) {
  RETURN_IF_ERROR(volume.repository().LoadIndex(volume.ctx()));
  return repository::AdoptOrphanPacks(volume.ctx(), volume.repository(), nullptr).status();
}

// A run of the whole volume that dies before its end, and leaves its journal.
void RunAndKill(VolumeFixture& volume, FakeBlockDevice& device, UploadOptions options) {
  options.fence = [&](const CallContext&) {
    volume.store().CutAt(volume.store().call_count() + 1, support::CutMoment::kBefore);
    return absl::OkStatus();
  };
  FullScanSource source;
  EXPECT_FALSE(volume.Backup(device, source, options).ok());
  volume.store().Restart();
  volume.Reopen();
}

Objects Below(const Objects& objects, const std::string& prefix) {
  Objects below;
  for (const auto& [key, bytes] : objects) {
    if (absl::StartsWith(key, prefix)) {
      below.emplace(key, bytes);
    }
  }
  return below;
}

// The journal of one run, put where the next run of another source looks for its own.
TEST(MovedObjectsTest, AJournalOfAnotherSourceIsNotUsed) {
  VolumeFixture volume;
  FakeBlockDevice device = MakeDevice(1);
  RunAndKill(volume, device, OptionsOf("claim", "one"));
  const Objects journal = Below(volume.store().objects(), "aux/v1/run-");
  ASSERT_FALSE(journal.empty());
  device.Store(7 * kChunk, "changed");
  const std::string other = absl::StrCat("aux/v1/run-", Id::Of("two").Hex());
  for (const auto& [key, bytes] : journal) {
    volume.store().SetObject(absl::StrCat(other, key.substr(key.rfind('/'))), bytes);
  }
  ASSERT_THAT(Adopt(volume), IsOk());
  FullScanSource source;
  UploadOptions options = OptionsOf("claim", "two");
  options.known = &volume.repository().index();
  const auto backup = volume.Backup(device, source, options);
  ASSERT_THAT(backup, IsOk());
  EXPECT_EQ(backup->resumed_bytes, 0);
  EXPECT_FALSE(backup->audit_mismatch);
  volume.ExpectRestores(backup->snapshot, device);
}

// A blob is sealed with the same master key, and its plaintext is whatever the volume's owner
// wrote.
TEST(MovedObjectsTest, ABlobIsNoSidecar) {
  VolumeFixture volume;
  const JournalFile lie = {.read_at = absl::Now(),
                           .entries = {{.chunk = 0, .id = Id::Of("a chunk of another volume")}}};
  const std::string text = EncodeJournal(*repository::VolumeLayout::Make(kSize, kChunk), lie);
  const std::string blob = volume.repository().MakeCodec()->sealer().Seal(
      absl::StrCat("\2", repository::Compressor(1).Compress(text)));
  const std::string key = absl::StrCat("aux/v1/run-", Id::Of("two").Hex(), "/", Id::Of(blob).Hex());
  volume.store().SetObject(key, blob);
  EXPECT_THAT(volume.repository().LoadSidecar(volume.ctx(), key),
              support::StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_TRUE(ChunkJournal::Blobs(volume.ctx(), volume.repository(), "two", 1 << 20).empty());
}

// What is found under its hash, and opens with no key.
TEST(MovedObjectsTest, JunkInTheIndexStopsNeitherRestoreNorIncrementalBackup) {
  VolumeFixture volume;
  FakeBlockDevice device = MakeDevice(1);
  const auto full = volume.FullBackup(device);
  ASSERT_THAT(full, IsOk());
  const std::string junk = RandomBytes(100, 7);
  volume.store().SetObject(repository::FileKey(repository::FileKind::kIndex, Id::Of(junk)), junk);
  volume.ExpectRestores(full->snapshot, device);
  volume.store().RemoveObject(repository::SidecarKey(full->snapshot));  // The index is needed.
  device.Store(0, "changed");
  volume.Reopen();
  const auto increment = volume.IncrementalBackup(device, full->snapshot, {{.extent = {0, 512}}});
  ASSERT_THAT(increment, IsOk());
  EXPECT_EQ(increment->mode_done, "incremental") << Why(*increment);
  volume.ExpectRestores(increment->snapshot, device);
  const auto forced = volume.FullBackup(device);
  ASSERT_THAT(forced, IsOk());
  volume.ExpectRestores(forced->snapshot, device);
  // What deletes needs all of the index.
  volume.Reopen();
  EXPECT_THAT(
      volume.repository().LoadIndex(volume.ctx()),
      support::StatusIs(absl::StatusCode::kDataLoss, testing::HasSubstr(Id::Of(junk).ShortHex())));
}

TEST(MovedObjectsTest, AMissingBlobIsNamedWithTheUnreadableIndexFile) {
  VolumeFixture volume;
  FakeBlockDevice device = MakeDevice(1);
  const auto full = volume.FullBackup(device);
  ASSERT_THAT(full, IsOk());
  for (const auto& [key, bytes] : Below(volume.store().objects(), "index/")) {
    volume.store().SetObject(key, bytes.substr(1));
  }
  FakeBlockDevice target(kSize);
  EXPECT_THAT(volume.Restore(full->snapshot, target).status().message(),
              testing::AllOf(testing::HasSubstr("is in no index"), testing::HasSubstr("index/"),
                             testing::HasSubstr("repair index")));
}

// The two volumes of one repository at two times: after the first backups of both; and after an
// incremental one of both, and a run of both that was killed.
struct History {
  Objects first;
  Objects second;
};

void Increment(VolumeFixture& volume, FakeBlockDevice& device, const std::string& claim,
               int64_t chunk, const std::string& bytes) {
  const UploadOptions base = OptionsOf(claim, "");
  const auto end =
      repository::FindChainEnd(volume.ctx(), volume.repository(),
                               repository::ChainOf(base.snapshot.hostname, base.snapshot.paths));
  ASSERT_THAT(end, IsOk());
  device.Store(chunk * kChunk, bytes);
  UploadOptions options = base;
  options.parent = **end;
  ExtentListSource source(
      {.base = (*end)->id.Hex(), .extents = {{.extent = {chunk * kChunk, kChunk}}}});
  ASSERT_THAT(volume.Backup(device, source, options), IsOk());
}

const History& TheHistory() {
  static const History history = [] {
    History made;
    VolumeFixture volume;
    FakeBlockDevice a = MakeDevice(1);
    FakeBlockDevice b = MakeDevice(1'000'000);
    FullScanSource source;
    EXPECT_THAT(volume.Backup(a, source, OptionsOf("a", "")), IsOk());
    EXPECT_THAT(volume.Backup(b, source, OptionsOf("b", "")), IsOk());
    volume.Reopen();
    EXPECT_THAT(volume.repository().SaveFile(volume.ctx(), repository::FileKind::kLock, "{}"),
                IsOk());
    made.first = volume.store().objects();
    Increment(volume, a, "a", 3, "a of day two");
    Increment(volume, b, "b", 3, "b of day two");
    a.Store(5 * kChunk, "a of the run that was killed");
    b.Store(5 * kChunk, "b of the run that was killed");
    RunAndKill(volume, a, OptionsOf("a", "a-3"));
    RunAndKill(volume, b, OptionsOf("b", "b-3"));
    made.second = volume.store().objects();
    return made;
  }();
  return history;
}

std::string KindOf(const std::string& key) {
  const std::string kind = key.substr(0, key.find('/'));
  return kind != "aux" ? kind
                       : key.substr(0, absl::StartsWith(key, "aux/v1/run-")
                                           ? std::string("aux/v1/run-").size()
                                           : key.rfind('/'));
}

struct Attack {
  std::string what;
  std::function<void(Objects&)> apply;
};

// All that is done to each object, alone and with each other one of its kind and with one of each
// other kind.
std::vector<Attack> AllAttacks() {
  const History& history = TheHistory();
  Objects all = history.first;
  all.insert(history.second.begin(), history.second.end());
  std::vector<Attack> attacks;
  for (const auto& [key, bytes] : all) {
    for (const std::size_t length : {std::size_t{0}, bytes.size() / 2, bytes.size() - 1}) {
      attacks.push_back({absl::StrCat("cut ", key, " to ", length),
                         [key = key, cut = bytes.substr(0, length)](Objects& o) { o[key] = cut; }});
    }
    attacks.push_back({absl::StrCat("delete ", key), [key = key](Objects& o) { o.erase(key); }});
    const auto old = history.first.find(key);
    if (old != history.first.end()) {
      attacks.push_back({absl::StrCat("replay ", key),
                         [key = key, was = old->second](Objects& o) { o[key] = was; }});
    }
    std::string seen;  // kinds
    for (const auto& [other, other_bytes] : all) {
      const std::string kind = KindOf(other);
      const bool is_first = !absl::StrContains(seen, absl::StrCat("<", kind, ">"));
      absl::StrAppend(&seen, "<", kind, ">");
      if (other == key || (kind != KindOf(key) && !is_first)) {
        continue;
      }
      attacks.push_back({absl::StrCat("copy ", other, " over ", key),
                         [key = key, b = other_bytes](Objects& o) { o[key] = b; }});
      attacks.push_back({absl::StrCat("swap ", other, " with ", key),
                         [key = key, bytes = bytes, other = other, b = other_bytes](Objects& o) {
                           o[key] = b;
                           o[other] = bytes;
                         }});
      // Under a name of its own, in the other's folder.
      const std::string name = absl::StrCat(key.substr(0, key.rfind('/') + 1), Id::Of(other).Hex());
      attacks.push_back({absl::StrCat("add ", other, " as ", name),
                         [name, b = other_bytes](Objects& o) { o[name] = b; }});
    }
  }
  for (const char* kind : {"aux/", "index/", "snapshots/", "data/", "keys/", "locks/"}) {
    attacks.push_back(
        {absl::StrCat("put back all of ", kind), [kind](Objects& o) {
           std::erase_if(o, [&](const auto& entry) { return absl::StartsWith(entry.first, kind); });
           o.merge(Below(TheHistory().first, kind));
         }});
  }
  // Each folder of a run under the name of each other.
  for (const char* from : {"a-3", "b-3"}) {
    for (const char* to : {"a-3", "b-3", "a-4"}) {
      attacks.push_back(
          {absl::StrCat("run ", from, " as ", to), [from, to](Objects& o) {
             const std::string folder = absl::StrCat("aux/v1/run-", Id::Of(from).Hex());
             for (const auto& [key, bytes] : Below(o, folder)) {
               o[absl::StrCat("aux/v1/run-", Id::Of(to).Hex(), key.substr(folder.size()))] = bytes;
             }
           }});
    }
  }
  return attacks;
}

enum class Verb { kIncremental, kFull, kResume };

// A backup of volume a as the next day has it. An error is no backup; what is saved is the source,
// byte for byte, or does not restore and says of what.
void BackUpAndCompare(const Objects& objects, Verb verb) {
  VolumeFixture volume;
  volume.store().SetObjects(objects);
  repository::Environment environment;
  if (!repository::Repository::Open(volume.ctx(), volume.store(), kPassword, environment).ok()) {
    return;
  }
  volume.Reopen();
  FakeBlockDevice device = MakeDevice(1);
  device.Store(3 * kChunk, "a of day two");
  device.Store(5 * kChunk, "a of the run that was killed");
  if (verb != Verb::kResume) {
    device.Store(9 * kChunk, "a of the next day");
  }
  UploadOptions options = OptionsOf("a", verb == Verb::kResume ? "a-3"
                                         : verb == Verb::kFull ? "a-4"
                                                               : "");
  const auto end = repository::FindChainEnd(
      volume.ctx(), volume.repository(),
      repository::ChainOf(options.snapshot.hostname, options.snapshot.paths));
  if (end.ok()) {
    options.parent = *end;
  }
  absl::StatusOr<BackupResult> backup;
  if (verb == Verb::kIncremental && options.parent.has_value()) {
    // What changed since day one, so that either parent is right.
    ExtentListSource source(
        {.base = options.parent->id.Hex(), .extents = {{.extent = {3 * kChunk, 7 * kChunk}}}});
    backup = volume.Backup(device, source, options);
  } else {
    if (Adopt(volume).ok()) {
      options.known = &volume.repository().index();
    }
    options.incremental_asked = false;
    FullScanSource source;
    backup = volume.Backup(device, source, options);
  }
  if (!backup.ok()) {
    EXPECT_FALSE(backup.status().message().empty());
    return;
  }
  FakeBlockDevice target(kSize, 512, 0xA5);
  const absl::Status restored = volume.Restore(backup->snapshot, target).status();
  if (restored.ok()) {
    EXPECT_TRUE(target.Equals(device, kSize)) << "the backup is not its source";
  } else {
    EXPECT_FALSE(restored.message().empty());
  }
}

TEST(MovedObjectsTest, NoBackupDiffersFromItsSource) {
  const std::vector<Attack> attacks = AllAttacks();
  const support::SweepSample sample;
  const std::vector<int64_t> points = sample.Below(std::ssize(attacks) * 3, 60);
  RecordProperty("points", static_cast<int>(points.size()));
  for (const int64_t point : points) {
    const Attack& attack = attacks[static_cast<std::size_t>(point / 3)];
    const auto verb = static_cast<Verb>(point % 3);
    SCOPED_TRACE(absl::StrCat(attack.what, ", verb ", point % 3));
    Objects objects = TheHistory().second;
    attack.apply(objects);
    BackUpAndCompare(objects, verb);
  }
}

}  // namespace
}  // namespace csidelta::incremental::moved_objects_test

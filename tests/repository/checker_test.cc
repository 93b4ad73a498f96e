#include "repository/checker.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "repository/repairer.h"
#include "repository/stored_packs.h"
#include "repository/tree.h"
#include "repository/verified_packs.h"
#include "storage/forwarding_object_store.h"
#include "tests/repository/maintenance_fixture.h"
#include "tests/support/await.h"
#include "tests/support/unproven.h"

namespace csidelta::repository::checker_test {
namespace {

using support::IsOk;
using support::Noise;
using support::StatusIs;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// --- Which packs to read ---

TEST(DataSubsetTest, Reads) {
  const absl::StatusOr<DataSubset> part = ParseDataSubset("2/7");
  ASSERT_THAT(part, IsOk());
  EXPECT_EQ(std::get<ReadPart>(*part).part, 2);
  EXPECT_EQ(std::get<ReadPart>(*part).parts, 7);
  EXPECT_EQ(std::get<ReadShare>(*ParseDataSubset("2.5%")).percent, 2.5);
  EXPECT_EQ(std::get<ReadBytes>(*ParseDataSubset("500M")).bytes, int64_t{500} << 20);
  for (const char* text : {"", "0/7", "8/7", "1/0", "a/b", "1/", "/1", "-1/2", "0%", "101%", "-5%",
                           "5%%", "0", "M", "5Q", "99999999T"}) {
    EXPECT_THAT(ParseDataSubset(text), StatusIs(absl::StatusCode::kInvalidArgument)) << text;
  }
}

std::vector<FileInfo> SomePacks(int count) {
  std::vector<FileInfo> packs;
  for (int i = 0; i < count; ++i) {
    packs.push_back({.id = Id::Of(absl::StrCat(i)), .size_bytes = 1000});
  }
  return packs;
}

std::set<Id> IdsOf(const std::vector<FileInfo>& packs) {
  std::set<Id> ids;
  for (const FileInfo& pack : packs) {
    ids.insert(pack.id);
  }
  return ids;
}

TEST(DataSubsetTest, PartsTogetherAreEverythingOnce) {
  std::set<Id> seen;
  for (int64_t part = 1; part <= 7; ++part) {
    for (const Id& id : IdsOf(ChooseSubset(SomePacks(500), ReadPart{part, 7}, 0))) {
      EXPECT_TRUE(seen.insert(id).second);
    }
  }
  EXPECT_EQ(seen.size(), 500);
}

TEST(DataSubsetTest, DrawsBySeedWhateverTheOrder) {
  std::vector<FileInfo> reversed = SomePacks(500);
  std::reverse(reversed.begin(), reversed.end());
  const std::set<Id> drawn = IdsOf(ChooseSubset(SomePacks(500), ReadShare{10}, 7));
  EXPECT_EQ(drawn.size(), 50);
  EXPECT_EQ(drawn, IdsOf(ChooseSubset(reversed, ReadShare{10}, 7)));
  EXPECT_NE(drawn, IdsOf(ChooseSubset(SomePacks(500), ReadShare{10}, 8)));
}

TEST(DataSubsetTest, ReadsAtLeastOne) {
  EXPECT_THAT(ChooseSubset(SomePacks(500), ReadShare{0.001}, 0), SizeIs(1));
  EXPECT_THAT(ChooseSubset(SomePacks(500), ReadBytes{1}, 0), SizeIs(1));
  EXPECT_THAT(ChooseSubset(SomePacks(500), ReadBytes{1001}, 0), SizeIs(2));
  EXPECT_THAT(ChooseSubset(SomePacks(5), ReadBytes{int64_t{1} << 50}, 0), SizeIs(5));
  EXPECT_THAT(ChooseSubset(SomePacks(5), ReadEverything{}, 0), SizeIs(5));
  EXPECT_THAT(ChooseSubset(SomePacks(5), ReadNothing{}, 0), IsEmpty());
  EXPECT_THAT(ChooseSubset({}, ReadShare{50}, 0), IsEmpty());
}

TEST(DataSubsetTest, NewPacksComeFirstAndOfOthersOnlyThePart) {
  std::vector<FileInfo> packs = SomePacks(100);
  const absl::Time checked_at = absl::FromUnixSeconds(1'000'000);
  packs[7].modified_at = checked_at + absl::Seconds(1);
  packs[42].modified_at = checked_at + absl::Hours(1);
  packs[50].modified_at = checked_at;
  const ReadPart part{.part = 2, .parts = 7};
  const std::vector<FileInfo> chosen = ChoosePacks(packs, part, checked_at, 0);
  ASSERT_GE(chosen.size(), 2);
  EXPECT_EQ(IdsOf({chosen[0], chosen[1]}), (std::set<Id>{packs[7].id, packs[42].id}));
  std::set<Id> expected = IdsOf(ChooseSubset(packs, part, 0));
  expected.insert({packs[7].id, packs[42].id});
  EXPECT_EQ(IdsOf(chosen), expected);
  EXPECT_EQ(chosen.size(), expected.size()) << "none is read twice";
  EXPECT_THAT(ChoosePacks(packs, ReadNothing{}, absl::InfiniteFuture(), 0), IsEmpty());
}

// --- Findings ---

class CheckerTest : public MaintenanceFixture {
 protected:
  CheckerTest() : image_(Image({1, 2, 3})), id_(BackUp(image_)) {}

  // The kinds of errors, not of notes.
  std::set<std::string> Errors(bool read_data) {
    std::set<std::string> kinds;
    const CheckReport report = Check(read_data);
    for (const Finding& finding : report.findings) {
      EXPECT_FALSE(finding.thing.empty() || finding.detail.empty() || finding.next_step.empty());
      if (finding.is_error) {
        kinds.insert(std::string(NameOf(finding.kind)));
      }
    }
    EXPECT_EQ(report.ok(), kinds.empty());
    return kinds;
  }

  void RepairTheIndex() {
    std::unique_ptr<Repository> repository = Open();
    const absl::StatusOr<std::unique_ptr<Lock>> lock = TakeLock(*repository);
    ASSERT_THAT(lock, IsOk());
    EXPECT_THAT(RepairIndex(ctx_, *repository, **lock, {}), IsOk());
  }

  static Node File(const std::string& name, uint64_t size_bytes, std::vector<BlobId> content) {
    Node node;
    node.name = name;
    node.type = NodeType::kFile;
    node.size_bytes = size_bytes;
    node.content = std::move(content);
    return node;
  }

  std::string image_;
  Id id_;
};

TEST_F(CheckerTest, AWholeRepositoryHasNoFindings) {
  const CheckReport report = Check();
  EXPECT_TRUE(report.ok() && report.complete);
  EXPECT_THAT(report.findings, IsEmpty()) << Describe(report);
  EXPECT_EQ(report.snapshots, 1);
  EXPECT_EQ(report.trees, 4);
  EXPECT_EQ(report.blobs, 4 + 1 + 4);
  EXPECT_EQ(report.packs_read, report.packs);
  EXPECT_GT(report.bytes_read, 3 * kTestChunkBytes);
  EXPECT_EQ(Check(/*read_data=*/false).packs_read, 0);
}

TEST_F(CheckerTest, NamesEveryIndexThatDoesNotRead) {
  BackUp(Image({4}));
  for (const std::string& key : KeysBelow("index/")) {
    Flip(key, 50);
  }
  const CheckReport report = Check();
  EXPECT_FALSE(report.complete);
  EXPECT_EQ(report.errors, 2);
  EXPECT_THAT(KindsOf(report), ElementsAre("index-unreadable"));
}

// Whatever is wrong with a pack, no new backup is to rely on it.
TEST_F(CheckerTest, NamesThePacksThatAreDamagedCutShortOrGone) {
  EXPECT_THAT(Check().damaged_packs, IsEmpty());
  const PackId pack = PackOf(Noise(kTestChunkBytes, 2));
  const std::string bytes = store_.objects().at(PackKey(pack));
  const auto expect_named = [&](bool read_data, const char* kind) {
    EXPECT_THAT(Errors(read_data), ElementsAre(kind));
    const CheckReport report = Check(read_data);
    EXPECT_THAT(report.damaged_packs, ElementsAre(pack));
    EXPECT_EQ(report.damaged_packs_found, 1);
    EXPECT_EQ(report.damaged_until, absl::InfinitePast()) << "the fake store has no times";
  };
  Flip(PackKey(pack), 1000);
  EXPECT_THAT(Errors(false), IsEmpty()) << "it is found by reading";
  expect_named(true, "pack-damaged");
  store_.SetObject(PackKey(pack), bytes.substr(1));
  expect_named(false, "pack-wrong-size");
  store_.RemoveObject(PackKey(pack));
  expect_named(false, "pack-missing");
  // What no index lists is relied on by nothing.
  store_.SetObject(PackKey(pack), bytes);
  store_.SetObject(PackKey(Id::Of("x")), "x");
  EXPECT_THAT(Check().damaged_packs, IsEmpty());
}

// Its blobs and its header are those that the index lists, as another run sealed them.
TEST_F(CheckerTest, APackUnderTheNameOfAnotherIsFound) {
  const std::string key = PackKey(PackOf(Noise(kTestChunkBytes, 2)));
  const std::map<std::string, std::string> before = store_.objects();
  BackUp(image_, /*skip_known=*/false);
  std::string twin;
  for (const std::string& other : KeysBelow("data/")) {
    if (!before.contains(other) && store_.objects().at(other).size() == before.at(key).size()) {
      twin = store_.objects().at(other);
    }
  }
  store_.SetObjects(before);
  store_.SetObject(key, twin);
  const CheckReport report = Check();
  EXPECT_THAT(KindsOf(report), ElementsAre("pack-damaged")) << Describe(report);
  EXPECT_THAT(Describe(report), HasSubstr("does not hash to its name"));
}

// Counts how often each object was read. The second reads of `awaited` wait for each other.
class SecondReads : public storage::ForwardingObjectStore {
 public:
  using ForwardingObjectStore::ForwardingObjectStore;
  absl::StatusOr<std::string> GetRange(const CallContext& ctx, const std::string& key,
                                       storage::ByteRange range) override {
    const bool waits = CountRead(key) == 2 && awaited.contains(key);
    second_ += waits ? 1 : 0;
    support::Await("the other pack",
                   [&] { return !waits || second_ == static_cast<int>(awaited.size()); });
    return inner().GetRange(ctx, key, range);
  }

  std::set<std::string> awaited;

 private:
  int CountRead(const std::string& key) {
    const std::scoped_lock lock(mutex_);
    return ++reads_[key];
  }

  std::mutex mutex_;
  std::map<std::string, int> reads_;
  std::atomic<int> second_ = 0;
};

// Far away, one after the other would take hours where many packs are damaged.
TEST_F(CheckerTest, DamagedPacksAreReadAgainSeveralAtATime) {
  SecondReads store(store_);
  for (const uint64_t seed : {1, 3}) {
    const std::string key = PackKey(PackOf(Noise(kTestChunkBytes, seed)));
    std::string bytes = store_.objects().at(key);
    bytes.front() = static_cast<char>(bytes.front() ^ 1);
    store_.SetObject(key, bytes);
    store.awaited.insert(key);
  }
  ASSERT_THAT(store.awaited, SizeIs(2));
  const auto repository = Repository::Open(ctx_, store, kTestPassword, environment_);
  ASSERT_THAT(repository, IsOk());
  const absl::StatusOr<CheckReport> report =
      CheckRepository(ctx_, **repository, {.read_data = ReadEverything{}});
  ASSERT_THAT(report, IsOk());
  EXPECT_THAT(KindsOf(*report), ElementsAre("pack-damaged"));
  EXPECT_THAT(report->damaged_packs, SizeIs(2));
}

TEST_F(CheckerTest, EveryFlippedByteOfAPackIsFound) {
  const std::string key = PackKey(TreePackOf(id_));
  const std::size_t size = store_.objects().at(key).size();
  for (std::size_t i = 0; i < size; i += size / 40 + 1) {
    Flip(key, i);
    EXPECT_THAT(Errors(true), Contains("pack-damaged")) << i;
    Flip(key, i);
  }
}

TEST_F(CheckerTest, AnOrphanIsANote) {
  store_.SetObject(PackKey(Id::Of("x")), "x");
  const CheckReport report = Check();
  EXPECT_TRUE(report.ok());
  EXPECT_EQ(report.notes, 1);
  EXPECT_THAT(KindsOf(report), ElementsAre("pack-unindexed"));
}

TEST_F(CheckerTest, FindsSnapshotsAndTreesThatDoNotRead) {
  Flip(KeysBelow("snapshots/").front(), 40);
  EXPECT_THAT(Errors(false), ElementsAre("snapshot-unreadable"));
  Flip(KeysBelow("snapshots/").front(), 40);
  const std::string key = PackKey(TreePackOf(id_));
  for (std::size_t i = 0; i < store_.objects().at(key).size(); i += 20) {
    Flip(key, i);
  }
  EXPECT_THAT(Errors(false), ElementsAre("tree-unreadable"));
}

TEST_F(CheckerTest, FindsWhatNoIndexLists) {
  SaveRoot({File("a", 3, {Id::Of("abc")}), File("b", 5, {Id::Of("nowhere")})}, {"abc"});
  EXPECT_THAT(Errors(true), ElementsAre("blob-missing"));
}

TEST_F(CheckerTest, SizesMustAddUp) {
  SaveRoot({File("a", 3, {Id::Of("abc")}), File("b", 5, {Id::Of("abc"), Id::Of("abc")})}, {"abc"});
  EXPECT_THAT(Errors(true), ElementsAre("file-wrong-size"));
}

TEST_F(CheckerTest, VolumesAreWhatTheirManifestSays) {
  // A valid root whose image is another volume's, of another size.
  std::unique_ptr<Repository> repository = Open();
  ASSERT_THAT(repository->LoadIndex(ctx_), IsOk());
  RepoSnapshot snapshot = *repository->LoadSnapshot(ctx_, id_);
  const RootTree root =
      *DecodeRootTree(*repository->LoadBlob(ctx_, {BlobType::kTree, snapshot.tree}));
  const std::string json = *repository->LoadBlob(ctx_, {BlobType::kData, root.manifest_blob});
  VolumeManifest manifest = *DecodeManifest(json);
  manifest.size_bytes += 1;
  const std::string longer = EncodeManifest(manifest);
  const std::string text =
      EncodeRootTree(root.image_tree, Id::Of(longer), static_cast<int64_t>(longer.size()));
  BlobWriter writer(ctx_, *repository, {});
  ASSERT_THAT(writer.AddBlob(BlobType::kData, Id::Of(longer), longer), IsOk());
  ASSERT_THAT(writer.AddBlob(BlobType::kTree, Id::Of(text), text), IsOk());
  ASSERT_THAT(writer.Flush(), IsOk());
  snapshot.tree = Id::Of(text);
  ASSERT_THAT(repository->SaveSnapshot(ctx_, snapshot, support::Unproven()), IsOk());
  EXPECT_THAT(Errors(true), ElementsAre("volume-malformed"));
}

TEST_F(CheckerTest, NamesTheSnapshotsThatCannotBeRestored) {
  const std::string other = Image({4, 5});
  const Id second = BackUp(other);
  const Id third = BackUp(image_);  // Of the same trees and chunks as the first.
  EXPECT_THAT(Check().unrestorable, IsEmpty());
  const std::map<std::string, std::string> base = store_.objects();
  const std::string first_data = PackKey(PackOf(Noise(kTestChunkBytes, 2)));
  const auto unrestorable = [&](bool read_data) {
    const CheckReport report = Check(read_data);
    EXPECT_TRUE(report.complete);
    return report.unrestorable;
  };
  store_.RemoveObject(first_data);
  EXPECT_THAT(unrestorable(false), ElementsAre(id_, third));
  store_.SetObjects(base);
  store_.RemoveObject(PackKey(PackOf(Noise(kTestChunkBytes, 4))));
  EXPECT_THAT(unrestorable(false), ElementsAre(second));
  store_.SetObjects(base);
  Flip(first_data, 1000);
  EXPECT_THAT(unrestorable(false), IsEmpty());
  EXPECT_THAT(unrestorable(true), ElementsAre(id_, third));
  store_.SetObjects(base);
  store_.RemoveObject(PackKey(TreePackOf(second)));
  EXPECT_THAT(unrestorable(false), ElementsAre(second));
  store_.SetObjects(base);
  Flip(FileKey(FileKind::kSnapshot, second), 40);
  EXPECT_THAT(unrestorable(false), ElementsAre(second));
}

// A check with a shared lock: its index may be older than what another writes meanwhile.
TEST_F(CheckerTest, ABackupThatEndsDuringTheCheckIsNoFinding) {
  std::unique_ptr<Repository> repository = Open();
  std::string image;
  CheckOptions options{.read_data = ReadEverything{}};
  int64_t left_bytes = -1;
  options.progress = [&](absl::string_view stage, int64_t done, int64_t total) {
    left_bytes = stage == kReadingPacks ? total - done : left_bytes;
    if (stage == kReadingPacks && image.empty()) {
      image = Image({7, 8, 9});
      BackUp(image);
    }
  };
  const absl::StatusOr<CheckReport> report = CheckRepository(ctx_, *repository, options);
  ASSERT_THAT(report, IsOk());
  EXPECT_FALSE(image.empty());
  EXPECT_EQ(left_bytes, 0);
  EXPECT_TRUE(report->ok()) << Describe(*report);
  EXPECT_EQ(report->snapshots, 1);
}

TEST_F(CheckerTest, ALostPackThatNoSnapshotNeedsConcernsNone) {
  const Id second = BackUp(Image({4, 5}));
  ASSERT_THAT(Forget(second), IsOk());
  store_.RemoveObject(PackKey(PackOf(Noise(kTestChunkBytes, 4))));
  const CheckReport report = Check(/*read_data=*/false);
  ASSERT_EQ(report.errors, 1);
  EXPECT_THAT(report.unrestorable, IsEmpty());
  EXPECT_EQ(report.next_step, "csi-delta repair");
}

// What is in no index is in a pack that is in none, or a backup of the volume can help, or nothing.
TEST_F(CheckerTest, RecommendsOnlyWhatCanHelp) {
  const PackId pack = PackOf(Noise(kTestChunkBytes, 2));
  const std::string bytes = store_.objects().at(PackKey(pack));
  store_.RemoveObject(PackKey(pack));
  const auto next_step = [this] { return Check(/*read_data=*/false).next_step; };
  const std::string backup = absl::StrCat(
      "csi-delta backup --force VOLUME (with host and path of snapshot ", id_.ShortHex(), ")");
  EXPECT_EQ(next_step(), backup);
  RepairTheIndex();
  EXPECT_EQ(next_step(), backup);
  store_.SetObject(PackKey(pack), bytes);
  EXPECT_EQ(next_step(), "csi-delta repair");
  store_.RemoveObject(PackKey(pack));
  BackUp(Image({7, 8, 9}));
  EXPECT_EQ(next_step(), "csi-delta repair --forget");
  EXPECT_TRUE(Check(/*read_data=*/false).lacks_chunks);
}

TEST_F(CheckerTest, SnapshotsOfVeleroAndOfFilesAreLeftToTheirPrograms) {
  const auto lose = [this](std::vector<std::string> tags) {
    std::unique_ptr<Repository> repository = Open();
    RepoSnapshot snapshot = *repository->LoadSnapshot(ctx_, id_);
    snapshot.tags = std::move(tags);
    EXPECT_THAT(Forget(id_), IsOk());
    id_ = *repository->SaveSnapshot(ctx_, snapshot, support::Unproven());
    store_.RemoveObject(PackKey(PackOf(Noise(kTestChunkBytes, 2))));
    return Check(/*read_data=*/false);
  };
  CheckReport report = lose({"mode=block", "velero-backup=velero/nightly"});
  EXPECT_THAT(report.lost_volumes, ElementsAre(id_));
  EXPECT_THAT(report.next_step, HasSubstr("velero backup create NAME (that moves the PVC of"));
  report = lose({});
  EXPECT_THAT(report.unrestorable, ElementsAre(id_));
  EXPECT_THAT(report.lost_volumes, IsEmpty());
  EXPECT_EQ(report.next_step, "csi-delta repair --forget");
  RepairTheIndex();
  EXPECT_EQ(Check(/*read_data=*/false).next_step, "restic repair snapshots --forget");
}

TEST_F(CheckerTest, NotesDamagedPacksUntilAllIsReadOrTheyAreGone) {
  const PackId pack = PackOf(Noise(kTestChunkBytes, 2));
  const std::string sound = store_.objects().at(PackKey(pack));
  const auto noted_after = [this](bool read_data) {
    Check(read_data);
    return ReadDamaged(ctx_, *Open())->packs;
  };
  EXPECT_THAT(noted_after(true), IsEmpty());
  EXPECT_FALSE(store_.objects().contains(kDamagedKey));
  Flip(PackKey(pack), 100);
  EXPECT_THAT(noted_after(true), ElementsAre(pack));
  EXPECT_THAT(noted_after(false), ElementsAre(pack));
  store_.SetObject(PackKey(pack), sound);
  EXPECT_THAT(noted_after(true), IsEmpty());
  Flip(PackKey(pack), 100);
  EXPECT_THAT(noted_after(true), ElementsAre(pack));
  store_.RemoveObject(PackKey(pack));
  RepairTheIndex();
  EXPECT_THAT(noted_after(false), IsEmpty()) << "no index lists it";
}

TEST_F(CheckerTest, AStoreThatDoesNotAnswerIsNoFinding) {
  std::unique_ptr<Repository> repository = Open();
  for (int64_t call = 1;; ++call) {
    std::unique_ptr<Repository> fresh = Open();
    store_.AddFault(
        {.first_call = call, .last_call = call, .status = absl::UnavailableError("away")});
    const int64_t before = store_.call_count();
    const absl::StatusOr<CheckReport> report =
        CheckRepository(ctx_, *fresh, {.read_data = ReadEverything{}, .progress = nullptr});
    const bool reached = store_.call_count() - before >= call;
    store_.ClearFaults();
    if (!reached) {
      ASSERT_THAT(report, IsOk());
      EXPECT_TRUE(report->ok());
      EXPECT_GT(call, 8);
      return;
    }
    if (report.ok()) {  // All was looked at, and then not recorded.
      EXPECT_THAT(store_.calls()[static_cast<std::size_t>(before + call - 1)].key,
                  testing::StartsWith(kVerifiedFolder));
      continue;
    }
    EXPECT_THAT(report, StatusIs(absl::StatusCode::kUnavailable)) << call;
  }
}

}  // namespace
}  // namespace csidelta::repository::checker_test

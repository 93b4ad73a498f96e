#include "repository/repository.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/status_macros.h"
#include "repository/blob_writer.h"
#include "repository/lock.h"
#include "tests/repository/repository_fixture.h"
#include "tests/support/cheap_scrypt.h"
#include "tests/support/unproven.h"
#include "tests/support/watched_store.h"

namespace csidelta::repository::repository_test {
namespace {

using support::IsOk;
using support::IsOkAndHolds;
using support::Prose;
using support::StatusIs;
using support::StoreOperation;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

using RepositoryTest = RepositoryFixture;

RepoSnapshot SnapshotAt(int64_t seconds) {
  RepoSnapshot snapshot;
  snapshot.time = absl::FromUnixSeconds(seconds);
  snapshot.tree = Id::Of(std::to_string(seconds));
  return snapshot;
}

TEST_F(RepositoryTest, AnInitializedRepositoryOpens) {
  const Config config = Init()->config();
  EXPECT_EQ(Open()->config().id, config.id);
  EXPECT_THAT(store_.objects(), SizeIs(2));
}

TEST_F(RepositoryTest, TheConfigIsWrittenLast) {
  Init();
  const std::vector<support::StoreCall> calls = store_.calls();
  const auto last_put = std::find_if(calls.rbegin(), calls.rend(), [](const auto& call) {
    return call.operation == StoreOperation::kPut;
  });
  ASSERT_NE(last_put, calls.rend());
  EXPECT_EQ(last_put->key, "config");
}

TEST_F(RepositoryTest, InitRefusesWhatIsThere) {
  Init();
  EXPECT_THAT(Repository::Init(ctx_, store_, kTestPassword, environment_),
              StatusIs(absl::StatusCode::kAlreadyExists));
  store_.RemoveObject("config");
  EXPECT_THAT(Repository::Init(ctx_, store_, "other", environment_),
              StatusIs(absl::StatusCode::kAlreadyExists));
}

TEST_F(RepositoryTest, InitGoesOnWhereItWasCutOff) {
  Init();
  const int64_t calls = store_.call_count();
  for (int64_t call = 1; call <= calls; ++call) {
    for (const support::CutMoment moment :
         {support::CutMoment::kBefore, support::CutMoment::kAfter}) {
      store_.SetObjects({});
      store_.Restart();
      store_.CutAt(call, moment);
      EXPECT_FALSE(Repository::Init(ctx_, store_, kTestPassword, environment_).ok());
      store_.Restart();
      if (!store_.objects().contains("config")) {
        Init();
      }
      Open();
    }
  }
}

TEST_F(RepositoryTest, AStoreWithoutConditionalPutsWillDo) {
  store_.AddFault({.operation = StoreOperation::kPut,
                   .key_prefix = "config",
                   .status = absl::UnimplementedError("no If-None-Match")});
  Init();
  Open();
}

// Two runs that both found no repository, and both have put their config before either looks again.
TEST_F(RepositoryTest, TwoInitsAtTheSameTimeLeaveOneRepositoryThatOpens) {
  for (const char* kind : {"conditional", "refuses conditions", "ignores conditions"}) {
    SCOPED_TRACE(kind);
    store_.SetObjects({});
    store_.Restart();
    store_.AddFault({.operation = StoreOperation::kPut,
                     .key_prefix = "config",
                     .last_call = kind == std::string("refuses conditions") ? 2 : 0,
                     .status = absl::UnimplementedError("no If-None-Match")});
    std::barrier together(2);
    std::vector<absl::Status> made(2);
    {
      std::vector<std::jthread> runs;
      for (int i = 0; i < 2; ++i) {
        runs.emplace_back([&, i] {
          support::FakeSecureRandom random(100 + i);
          Environment environment = environment_;
          environment.random = &random;
          support::WatchedStore store(store_);
          store.ignores_conditions = kind == std::string("ignores conditions");
          store.before_put = [&](const std::string&) { together.arrive_and_wait(); };
          store.after_put = store.before_put;
          made[i] = Repository::Init(ctx_, store, kTestPassword, environment).status();
          together.arrive_and_drop();
        });
      }
    }
    EXPECT_EQ(made[0].ok() + made[1].ok(), 1) << made[0] << ", " << made[1];
    EXPECT_EQ(absl::IsAlreadyExists(made[0]) + absl::IsAlreadyExists(made[1]), 1);
    EXPECT_THAT(KeysBelow("keys/"), SizeIs(1)) << "what stock restic opens as well";
    Open();
  }
}

TEST_F(RepositoryTest, AKeyThatAnOvertakenInitLeftSpoilsNothing) {
  Init();
  const std::map<std::string, std::string> own = store_.objects();
  for (const uint64_t seed : {7, 8, 9, 10}) {  // Before and behind ours in the listing.
    support::FakeObjectStore other;
    support::FakeSecureRandom random(seed);
    Environment environment = environment_;
    environment.random = &random;
    ASSERT_THAT(Repository::Init(ctx_, other, kTestPassword, environment), IsOk());
    for (const auto& [key, bytes] : other.objects()) {
      if (key != "config") {
        store_.SetObject(key, bytes);
      }
    }
  }
  EXPECT_THAT(KeysBelow("keys/"), SizeIs(5));
  Open();
  // Without its own key the config is not damaged by a word about it.
  for (const auto& [key, bytes] : own) {
    if (key != "config") {
      store_.RemoveObject(key);
    }
  }
  EXPECT_THAT(Repository::Open(ctx_, store_, kTestPassword, environment_),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("config, under each key")));
}

TEST_F(RepositoryTest, AnInitWhoseConfigWasStoredBeforeItWasRefusedIsDone) {
  store_.AddFault({.operation = StoreOperation::kPut,
                   .key_prefix = "config",
                   .status = absl::AlreadyExistsError("412, to a put that was sent twice"),
                   .after_effect = true});
  Init();
  Open();
}

TEST_F(RepositoryTest, AConfigThatReadsBackWrongOnceCostsNoKey) {
  store_.AddFault({.operation = StoreOperation::kGet,
                   .key_prefix = "config",
                   .wrong_bytes = support::WrongBytes::kOther});
  EXPECT_THAT(Repository::Init(ctx_, store_, kTestPassword, environment_), IsOk());
  store_.AddFault({.operation = StoreOperation::kGet,
                   .key_prefix = "config",
                   .wrong_bytes = support::WrongBytes::kOther});
  Open();
}

TEST_F(RepositoryTest, OpenSaysWhatIsWrong) {
  const auto none = Repository::Open(ctx_, store_, kTestPassword, environment_);
  EXPECT_TRUE(IsNoRepository(none.status())) << none.status();
  Init();
  const auto wrong = Repository::Open(ctx_, store_, "other", environment_);
  EXPECT_TRUE(IsWrongPassword(wrong.status())) << wrong.status();
  EXPECT_FALSE(IsNoRepository(wrong.status()));
  store_.SetObject("config", "garbage that is long enough to be an envelope");
  EXPECT_THAT(Repository::Open(ctx_, store_, kTestPassword, environment_),
              StatusIs(absl::StatusCode::kDataLoss));
}

TEST_F(RepositoryTest, ForeignFilesAmongKeysAreLeftAlone) {
  Init();
  store_.SetObject("keys/README", "hello");
  store_.SetObject("keys/" + std::string(64, '0'), "{}");
  Open();
}

TEST_F(RepositoryTest, KeysComeAndGo) {
  std::unique_ptr<Repository> repository = Init();
  ASSERT_THAT(repository->AddKey(ctx_, "second"), IsOk());
  const absl::StatusOr<std::vector<KeyInfo>> keys = repository->ListKeys(ctx_);
  ASSERT_THAT(keys, IsOkAndHolds(SizeIs(2)));
  const auto second = Repository::Open(ctx_, store_, "second", environment_);
  ASSERT_THAT(second, IsOk());
  const auto lock =
      Lock::Acquire(ctx_, *repository, {.exclusive = true, .refresh_by_thread = false});
  ASSERT_THAT(lock, IsOk());
  for (const KeyInfo& key : *keys) {
    EXPECT_THAT(
        key.current ? repository->RemoveKey(ctx_, **lock, key.id) : absl::OkStatus(),
        StatusIs(key.current ? absl::StatusCode::kFailedPrecondition : absl::StatusCode::kOk));
    if (key.current) {
      EXPECT_THAT((*second)->RemoveKey(ctx_, **lock, key.id), IsOk());
    }
  }
  EXPECT_FALSE(Repository::Open(ctx_, store_, kTestPassword, environment_).ok());
  EXPECT_THAT((*second)->ChangePassword(ctx_, **lock, "third"), IsOk());
  EXPECT_FALSE(Repository::Open(ctx_, store_, "second", environment_).ok());
  EXPECT_THAT(Repository::Open(ctx_, store_, "third", environment_), IsOk());
}

TEST_F(RepositoryTest, FilesComeBack) {
  std::unique_ptr<Repository> repository = Init();
  int64_t stored_bytes = 0;
  const absl::StatusOr<Id> id =
      repository->SaveFile(ctx_, FileKind::kIndex, "{\"packs\":[]}", &stored_bytes);
  ASSERT_THAT(id, IsOk());
  const std::string stored = store_.objects().at("index/" + id->Hex());
  EXPECT_EQ(static_cast<int64_t>(stored.size()), stored_bytes);
  EXPECT_EQ(Id::Of(stored), *id);
  EXPECT_THAT(repository->LoadFile(ctx_, FileKind::kIndex, *id), IsOkAndHolds("{\"packs\":[]}"));
  for (std::size_t i = 0; i < stored.size(); ++i) {
    std::string flipped = stored;
    flipped[i] ^= 1;
    store_.SetObject("index/" + id->Hex(), flipped);
    EXPECT_THAT(repository->LoadFile(ctx_, FileKind::kIndex, *id),
                StatusIs(absl::StatusCode::kDataLoss));
  }
}

TEST_F(RepositoryTest, FilesInOtherFormsAreJudged) {
  std::unique_ptr<Repository> repository = Init();
  Sealer sealer(repository->master_key(), random_);
  const auto load = [&](absl::string_view content) {
    const std::string sealed = sealer.Seal(content);
    store_.SetObject(FileKey(FileKind::kLock, Id::Of(sealed)), sealed);
    return repository->LoadFile(ctx_, FileKind::kLock, Id::Of(sealed));
  };
  EXPECT_THAT(load("{\"a\":1}"), IsOkAndHolds("{\"a\":1}"));
  EXPECT_THAT(load("[]"), IsOkAndHolds("[]"));
  for (const char* content : {"", "x", "\x01{}", "\x02", "\x02 no frame"}) {
    EXPECT_THAT(load(content), StatusIs(absl::StatusCode::kDataLoss)) << content;
  }
}

TEST_F(RepositoryTest, SnapshotsAreListedByTimeAndFoundByPrefix) {
  std::unique_ptr<Repository> repository = Init();
  std::vector<Id> ids;
  for (const int64_t seconds : {300, 100, 200}) {
    ids.push_back(*repository->SaveSnapshot(ctx_, SnapshotAt(seconds), support::Unproven()));
  }
  const absl::StatusOr<std::vector<StoredSnapshot>> all = repository->ListSnapshots(ctx_);
  ASSERT_THAT(all, IsOkAndHolds(SizeIs(3)));
  EXPECT_EQ((*all)[0].id, ids[1]);
  EXPECT_EQ((*all)[2].id, ids[0]);
  EXPECT_EQ(repository->FindSnapshot(ctx_, ids[2].Hex())->id, ids[2]);
  EXPECT_EQ(repository->FindSnapshot(ctx_, ids[2].ShortHex())->id, ids[2]);
  EXPECT_THAT(repository->FindSnapshot(ctx_, ""), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(repository->FindSnapshot(ctx_, "zz"), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(RepositoryTest, ASnapshotThatIsListedIsNotPassedOver) {
  std::unique_ptr<Repository> repository = Init();
  ASSERT_THAT(repository->SaveSnapshot(ctx_, SnapshotAt(1), support::Unproven()), IsOk());
  store_.AddFault({.operation = StoreOperation::kGet,
                   .key_prefix = "snapshots/",
                   .status = absl::NotFoundError("404")});
  EXPECT_THAT(repository->ListSnapshots(ctx_), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(repository->ListSnapshots(ctx_), IsOkAndHolds(SizeIs(1)));
}

TEST_F(RepositoryTest, ADamagedSnapshotDoesNotHideTheOthers) {
  std::unique_ptr<Repository> repository = Init();
  const Id good = *repository->SaveSnapshot(ctx_, SnapshotAt(1), support::Unproven());
  const Id bad = *repository->SaveSnapshot(ctx_, SnapshotAt(2), support::Unproven());
  store_.SetObject(FileKey(FileKind::kSnapshot, bad), "x");
  std::vector<Id> damaged;
  const auto all = repository->ListSnapshots(
      ctx_, [&](const Id& id, const absl::Status&) { damaged.push_back(id); });
  ASSERT_THAT(all, IsOkAndHolds(SizeIs(1)));
  EXPECT_EQ((*all)[0].id, good);
  EXPECT_THAT(damaged, ElementsAre(bad));
}

TEST_F(RepositoryTest, WithoutASinkADamagedSnapshotEndsTheList) {
  std::unique_ptr<Repository> repository = Init();
  const Id bad = *repository->SaveSnapshot(ctx_, SnapshotAt(2), support::Unproven());
  store_.SetObject(FileKey(FileKind::kSnapshot, bad), "x");
  const auto names_it =
      StatusIs(absl::StatusCode::kDataLoss, testing::HasSubstr("snapshot " + bad.ShortHex()));
  const Id good = *repository->SaveSnapshot(ctx_, SnapshotAt(1), support::Unproven());
  EXPECT_THAT(repository->ListSnapshots(ctx_), names_it);
  EXPECT_EQ(repository->FindSnapshot(ctx_, good.Hex())->id, good);
}

// A gateway answered once, and the store the second time.
TEST_F(RepositoryTest, AnObjectThatReadsWrongOnceIsReadAgain) {
  std::unique_ptr<Repository> repository = Init();
  ASSERT_THAT(repository->SaveSnapshot(ctx_, SnapshotAt(1), support::Unproven()), IsOk());
  const std::string blob = support::Noise(5000, 1);
  BlobWriter writer(ctx_, *repository, {});
  ASSERT_THAT(writer.AddBlob(BlobType::kData, Id::Of(blob), blob), IsOk());
  ASSERT_THAT(writer.Flush(), IsOk());
  const auto use = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const auto opened,
                     Repository::Open(ctx_, store_, kTestPassword, environment_));
    RETURN_IF_ERROR(opened->ListSnapshots(ctx_).status());
    RETURN_IF_ERROR(opened->LoadIndex(ctx_));
    ASSIGN_OR_RETURN(const std::string read,
                     opened->LoadBlob(ctx_, {BlobType::kData, Id::Of(blob)}));
    EXPECT_EQ(read, blob);
    return absl::OkStatus();
  };
  for (const char* prefix : {"config", "keys/", "snapshots/", "index/", "data/"}) {
    for (const support::WrongBytes wrong :
         {support::WrongBytes::kShort, support::WrongBytes::kFlipped,
          support::WrongBytes::kOther}) {
      const bool is_range = std::string(prefix) == "data/";
      store_.AddFault({.operation = is_range ? StoreOperation::kGetRange : StoreOperation::kGet,
                       .key_prefix = prefix,
                       .wrong_bytes = wrong});
      EXPECT_THAT(use(), IsOk()) << prefix;
      store_.ClearFaults();
      store_.AddFault({.operation = is_range ? StoreOperation::kGetRange : StoreOperation::kGet,
                       .key_prefix = prefix,
                       .last_call = 100,
                       .wrong_bytes = wrong});
      EXPECT_FALSE(use().ok()) << prefix;
      store_.ClearFaults();
    }
  }
}

// Writes one blob into a pack of its own.
Id WriteBlob(const CallContext& ctx, Repository& repository, BlobType type,
             const std::string& blob) {
  BlobWriter writer(ctx, repository, {});
  EXPECT_THAT(writer.AddBlob(type, Id::Of(blob), blob), IsOkAndHolds(true));
  EXPECT_THAT(writer.Flush(), IsOk());
  return Id::Of(blob);
}

TEST_F(RepositoryTest, ABlobIsReadFromTheCopyThatIsWell) {
  std::unique_ptr<Repository> repository = Init();
  const std::string blob = Prose(1000, 1);
  const Id id = WriteBlob(ctx_, *repository, BlobType::kData, blob);
  WriteBlob(ctx_, *repository, BlobType::kData, blob);
  const std::vector<std::string> packs = KeysBelow("data/");
  ASSERT_THAT(packs, SizeIs(2));
  ASSERT_THAT(repository->LoadIndex(ctx_), IsOk());
  const BlobHandle handle = {.type = BlobType::kData, .id = id};
  EXPECT_THAT(repository->index().Lookup(handle), support::IsOkAndHolds(SizeIs(2)));

  std::string damaged = store_.objects().at(packs[0]);
  damaged[20] ^= 1;
  store_.SetObject(packs[0], damaged);
  EXPECT_THAT(repository->LoadBlob(ctx_, handle), IsOkAndHolds(blob));
  store_.RemoveObject(packs[1]);
  EXPECT_THAT(repository->LoadBlob(ctx_, handle), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(repository->LoadBlob(ctx_, {BlobType::kTree, id}),
              StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(RepositoryTest, TheLocatorSavesTheIndexAndMayBeWrong) {
  std::unique_ptr<Repository> repository = Init();
  const std::string blob = Prose(1000, 1);
  const Id id = WriteBlob(ctx_, *repository, BlobType::kTree, blob);
  ASSERT_THAT(repository->LoadIndex(ctx_), IsOk());
  const TreeLocator locator{.root = repository->index().Lookup({BlobType::kTree, id})->at(0)};
  const Id snapshot = Id::Of("snapshot");
  ASSERT_THAT(repository->SaveLocator(ctx_, snapshot, locator), IsOk());

  std::unique_ptr<Repository> reader = Open();
  const absl::StatusOr<TreeLocator> loaded = reader->LoadLocator(ctx_, snapshot);
  ASSERT_THAT(loaded, IsOk());
  store_.Restart();
  EXPECT_THAT(reader->LoadTree(ctx_, id, loaded->root), IsOkAndHolds(blob));
  EXPECT_EQ(store_.call_count(), 1);

  const BlobLocation stale = {.pack = Id::Of("gone"), .span = {.sealed_bytes = 100}};
  EXPECT_THAT(reader->LoadTree(ctx_, id, stale), IsOkAndHolds(blob));
  EXPECT_THAT(reader->LoadTree(ctx_, id, std::nullopt), IsOkAndHolds(blob));
  ASSERT_THAT(store_.Delete(ctx_, SidecarKey(snapshot)), IsOk());
  EXPECT_THAT(reader->LoadLocator(ctx_, snapshot), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(RepositoryTest, ADamagedIndexIsNamed) {
  std::unique_ptr<Repository> repository = Init();
  const Id id = *repository->SaveFile(ctx_, FileKind::kIndex, "{\"packs\":[{}]}");
  EXPECT_THAT(repository->LoadIndex(ctx_),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr(id.ShortHex())));
}

TEST_F(RepositoryTest, AnErrorOfTheStoreIsNotDamage) {
  std::unique_ptr<Repository> repository = Init();
  const Id id = WriteBlob(ctx_, *repository, BlobType::kData, "blob");
  ASSERT_THAT(repository->LoadIndex(ctx_), IsOk());
  store_.AddFault({.operation = StoreOperation::kGetRange, .status = absl::UnavailableError("x")});
  EXPECT_THAT(repository->LoadBlob(ctx_, {BlobType::kData, id}),
              StatusIs(absl::StatusCode::kUnavailable));
}

}  // namespace
}  // namespace csidelta::repository::repository_test

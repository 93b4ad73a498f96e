// Ten thousand objects that a stranger put into each folder, of the right name and of no sense:
// what reads goes on and names one of them, what deletes packs refuses, and neither takes more
// than a few requests for each.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "repository/chain.h"
#include "repository/repairer.h"
#include "storage/forwarding_object_store.h"
#include "tests/repository/maintenance_fixture.h"

namespace csidelta::repository::junk_objects_test {
namespace {

using support::IsOk;
using support::IsOkAndHolds;
using support::StatusIs;
using testing::AllOf;
using testing::HasSubstr;
using testing::SizeIs;

constexpr int kJunk = 10'000;
constexpr int64_t kMiB = int64_t{1} << 20;

// A store with a clock of its own.
class DatedStore : public storage::ForwardingObjectStore {
 public:
  DatedStore(storage::ObjectStore& inner, const Clock& clock)
      : ForwardingObjectStore(inner), clock_(clock) {}

  absl::Status Put(const CallContext& ctx, const std::string& key, absl::string_view bytes,
                   const storage::PutOptions& options) override {
    added_at[key] = clock_.Now() + ahead;
    return ForwardingObjectStore::Put(ctx, key, bytes, options);
  }
  absl::Status List(const CallContext& ctx, const std::string& prefix,
                    storage::ObjectSink sink) override {
    return ForwardingObjectStore::List(ctx, prefix, [&](const storage::ObjectInfo& object) {
      storage::ObjectInfo dated = object;
      const auto found = added_at.find(object.key);
      dated.modified_at = found == added_at.end() ? absl::UnixEpoch() : found->second;
      dated.size_bytes = object.key == huge ? int64_t{1} << 40 : object.size_bytes;
      return sink(dated);
    });
  }

  std::map<std::string, absl::Time> added_at;
  absl::Duration ahead;
  std::string huge;  // says that it is so long

 private:
  const Clock& clock_;
};

class JunkObjectsTest : public MaintenanceFixture {
 protected:
  JunkObjectsTest() {
    good_ = BackUp(image_);
    environment_.memory = &budget_;
    clock_.Advance(absl::Hours(1));
  }

  // Returns the key of the last one.
  std::string AddJunk(const std::string& folder, int count) {
    std::string key;
    for (int i = 0; i < count; ++i) {
      const std::string bytes = absl::StrCat(folder, i, std::string(100, 'j'));
      key = absl::StrCat(folder, "/", Id::Of(bytes).Hex());
      dated_.added_at[key] = clock_.Now() + dated_.ahead;
      store_.SetObject(key, bytes);
    }
    return key;
  }

  std::unique_ptr<Repository> OpenDated() {
    auto repository = Repository::Open(ctx_, dated_, kTestPassword, environment_);
    EXPECT_THAT(repository, IsOk());
    return *std::move(repository);
  }

  // At most so many requests for each piece of junk.
  template <typename Verb>
  void ExpectBounded(int per_object, Verb verb) {
    const int64_t before = store_.call_count();
    verb();
    EXPECT_LE(store_.call_count() - before, per_object * kJunk + 700);
  }

  const std::string image_ = support::Noise(3000, 1);
  Id good_;
  MemoryBudget budget_{224 * kMiB};
  DatedStore dated_{store_, clock_};
};

TEST_F(JunkObjectsTest, VerbsThatReadGoOn) {
  for (const char* folder : {"keys", "snapshots", "locks"}) {
    AddJunk(folder, kJunk);
  }
  dated_.huge = AddJunk("index", kJunk);
  clock_.Advance(kLockStaleAfter);
  std::unique_ptr<Repository> repository;
  ExpectBounded(0, [&] { repository = OpenDated(); });
  ExpectBounded(2, [&] { EXPECT_THAT(TakeLockNow(*repository, /*exclusive=*/false), IsOk()); });
  ExpectBounded(2, [&] { EXPECT_THAT(repository->LoadReadableIndex(ctx_), IsOk()); });
  EXPECT_THAT(repository->UnreadableIndexNote(), HasSubstr("10000 index files cannot be read"));
  ExpectBounded(2, [&] {
    int damaged = 0;
    EXPECT_THAT(repository->ListSnapshots(ctx_, [&](const Id&, const auto&) { ++damaged; }),
                IsOkAndHolds(SizeIs(1)));
    EXPECT_EQ(damaged, kJunk);
  });
  ExpectBounded(0,
                [&] { EXPECT_THAT(RestoreImage(ctx_, *repository, good_), IsOkAndHolds(image_)); });
  // A backup reads them once: then they are noted down.
  ExpectBounded(2, [&] { EXPECT_THAT(FindChainEnd(ctx_, *repository, Id::Of("a")), IsOk()); });
  ExpectBounded(0, [&] { EXPECT_THAT(FindChainEnd(ctx_, *repository, Id::Of("a")), IsOk()); });
}

TEST_F(JunkObjectsTest, VerbsThatDeletePacksRefuseAndNameTheRemedy) {
  const std::string snapshot = AddJunk("snapshots", kJunk);
  const std::string index = AddJunk("index", kJunk);
  const auto before = store_.objects();
  const auto prune = [&] { return PlanPrune(ctx_, *OpenDated(), {}).status(); };
  EXPECT_THAT(prune(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                AllOf(HasSubstr("index "), HasSubstr("repair index"))));
  const std::unique_ptr<Repository> repository = OpenDated();
  const auto lock = TakeLockNow(*repository, /*exclusive=*/true);
  ASSERT_THAT(lock, IsOk());
  ExpectBounded(5, [&] { EXPECT_THAT(RepairIndex(ctx_, *repository, **lock, {}), IsOk()); });
  EXPECT_FALSE(store_.objects().contains(index));
  ExpectBounded(3, [&] {
    EXPECT_THAT(prune(),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         AllOf(HasSubstr("nor do 9999 others"), HasSubstr("csi-delta check names"),
                               HasSubstr("csi-delta forget "))));
  });
  EXPECT_TRUE(store_.objects().contains(snapshot));
  ExpectRestores(good_, image_);
}

// It may be that of a client at work, damaged: half an hour by the store's clock says that it is
// not.
TEST_F(JunkObjectsTest, AYoungLockThatDoesNotReadCountsAndAnOldOneDoesNot) {
  const std::unique_ptr<Repository> repository = OpenDated();
  for (const absl::Duration ahead : {absl::ZeroDuration(), absl::Hours(-3), absl::Hours(3)}) {
    SCOPED_TRACE(absl::FormatDuration(ahead));
    dated_.ahead = ahead;
    const std::string junk = AddJunk("locks", 1);
    const absl::Status refused = TakeLockNow(*repository, /*exclusive=*/false).status();
    EXPECT_TRUE(IsLocked(refused)) << refused;
    EXPECT_THAT(refused.message(), AllOf(HasSubstr(junk.substr(6, 8)), HasSubstr("be read")));
    EXPECT_THAT(KeysBelow("locks/"), SizeIs(1));
    clock_.Advance(kLockStaleAfter);
    if (ahead <= absl::ZeroDuration()) {
      EXPECT_THAT(TakeLockNow(*repository, /*exclusive=*/true), IsOk());
    } else {  // A clock that is behind the store's takes longer.
      EXPECT_THAT(TakeLock(*repository), IsOk());
    }
    EXPECT_THAT(KeysBelow("locks/"), SizeIs(0));
    EXPECT_TRUE(store_.objects().contains(kMayStillDeleteKey));
  }
}

TEST_F(JunkObjectsTest, OldLocksOfAStrangerStopNoClientThatMayNotDelete) {
  AddJunk("locks", 200);
  clock_.Advance(kLockStaleAfter);
  const std::unique_ptr<Repository> repository = OpenDated();
  const int64_t before = store_.call_count();
  store_.AddFault({.operation = support::StoreOperation::kDelete,
                   .last_call = 1000,
                   .status = absl::PermissionDeniedError("403")});
  EXPECT_THAT(TakeLockNow(*repository, /*exclusive=*/false), IsOk());
  EXPECT_LE(store_.call_count() - before, 2 * 200 + 30);
  EXPECT_TRUE(store_.objects().contains(kMayStillDeleteKey));
  store_.ClearFaults();
  // Who may delete removes some at a time.
  EXPECT_THAT(TakeLockNow(*repository, /*exclusive=*/false), IsOk());
  EXPECT_THAT(KeysBelow("locks/"), SizeIs(testing::Lt(200)));
}

}  // namespace
}  // namespace csidelta::repository::junk_objects_test

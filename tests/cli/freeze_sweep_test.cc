#include <utility>

#include "tests/cli/sweep_fixture.h"

namespace csidelta::cli::freeze_sweep_test {
namespace {

constexpr absl::Duration kFreeze = absl::Minutes(40);

// Another store, whose client is frozen at one of its calls, with all its threads: what they call
// meanwhile waits. Borrows the store.
class FreezingStore : public storage::ForwardingObjectStore {
 public:
  using ForwardingObjectStore::ForwardingObjectStore;

  enum class Moment {
    kBefore,
    kAfter,
    kOnItsWay,  // A deletion was sent, and reaches the store when the process goes on.
  };

  // At the `call`-th call from now on; 0: never.
  void FreezeAt(int64_t call, Moment moment, std::function<void()> meanwhile) {
    std::scoped_lock lock(mutex_);
    calls_ = 0;
    deletions_.clear();
    frozen_at_ = call;
    moment_ = moment;
    meanwhile_ = std::move(meanwhile);
  }
  int64_t calls() const {
    std::scoped_lock lock(mutex_);
    return calls_;
  }
  // Which of these calls deleted packs or index files.
  std::vector<int64_t> deletions() const {
    std::scoped_lock lock(mutex_);
    return deletions_;
  }

  absl::Status Put(const CallContext& ctx, const std::string& key, absl::string_view bytes,
                   const storage::PutOptions& options) override {
    return Pass([&] { return inner().Put(ctx, key, bytes, options); });
  }
  absl::StatusOr<std::string> Get(const CallContext& ctx, const std::string& key,
                                  int64_t size_bytes_max) override {
    return Pass([&] { return inner().Get(ctx, key, size_bytes_max); });
  }
  absl::StatusOr<std::string> GetRange(const CallContext& ctx, const std::string& key,
                                       storage::ByteRange range) override {
    return Pass([&] { return inner().GetRange(ctx, key, range); });
  }
  absl::StatusOr<storage::ObjectInfo> Stat(const CallContext& ctx,
                                           const std::string& key) override {
    return Pass([&] { return inner().Stat(ctx, key); });
  }
  absl::Status List(const CallContext& ctx, const std::string& prefix,
                    storage::ObjectSink sink) override {
    return Pass([&] { return inner().List(ctx, prefix, sink); });
  }
  absl::Status ListFolder(const CallContext& ctx, const std::string& prefix,
                          storage::ObjectSink sink) override {
    return Pass([&] { return inner().ListFolder(ctx, prefix, sink); });
  }
  absl::Status Delete(const CallContext& ctx, const std::string& key) override {
    CallContext sent = ctx;
    return Pass([&] { return inner().Delete(sent, key); },
                key.starts_with("data/") || key.starts_with("index/") ? &sent : nullptr);
  }

 private:
  // Takes the limits from the context of a `deletion` when it is on its way.
  template <typename Call>
  auto Pass(const Call& call, CallContext* deletion = nullptr) -> decltype(call()) {
    bool is_meant = false;
    {
      std::unique_lock lock(mutex_);
      thawed_.wait(lock, [this] { return !is_frozen_; });
      is_meant = ++calls_ == frozen_at_;
      if (deletion != nullptr) {
        deletions_.push_back(calls_);
      }
      if (is_meant && deletion != nullptr && moment_ == Moment::kOnItsWay) {
        deletion->deadline = absl::InfiniteDuration();
        deletion->not_after = absl::InfiniteFuture();
      }
      FreezeIf(is_meant && moment_ != Moment::kAfter, lock);
    }
    auto answer = call();
    std::unique_lock lock(mutex_);
    FreezeIf(is_meant && moment_ == Moment::kAfter, lock);
    thawed_.wait(lock, [this] { return !is_frozen_; });
    return answer;
  }

  void FreezeIf(bool now, std::unique_lock<std::mutex>& lock) {
    if (now) {
      is_frozen_ = true;
      lock.unlock();
      meanwhile_();
      lock.lock();
      is_frozen_ = false;
      thawed_.notify_all();
    }
  }

  mutable std::mutex mutex_;
  std::condition_variable thawed_;
  int64_t calls_ = 0;
  std::vector<int64_t> deletions_;
  int64_t frozen_at_ = 0;
  Moment moment_ = Moment::kBefore;
  bool is_frozen_ = false;
  std::function<void()> meanwhile_;
};

// A process that is frozen for 40 minutes at one of its calls to the store and then goes on, while
// a client on another machine is at work: it finds the lock unchanged for half an hour, and takes
// it for that of a dead process. Nothing that either reported as saved may be lost.
class FreezeSweepTest : public SweepFixture {
 protected:
  static constexpr std::size_t kSample = 4;
  using Moment = FreezingStore::Moment;

  // Which clocks go on meanwhile: all of a process that is stopped; not the uptime of a virtual
  // machine that is paused; not the time of day, when that is set back.
  struct Freeze {
    const char* name;
    absl::Duration uptime;
    absl::Duration time_of_day;
  };
  static constexpr Freeze kFreezes[] = {{"both clocks", kFreeze, kFreeze},
                                        {"the time of day", absl::ZeroDuration(), kFreeze},
                                        {"the uptime", kFreeze, absl::ZeroDuration()}};
  using Verbs = std::vector<std::vector<std::string>>;

  // Three generations, of which the first is the image once more.
  FreezeSweepTest() {
    old_ = {Backup()};
    WriteImage({1, 12, 3, 14, 5, 6});
    old_.push_back(Backup());
    WriteImage({1, 12, 23, 14, 5, 26});
    kept_ = Backup();
    kept_image_ = image_;
    WriteImage({1, 2, 3, 4, 5, 6});
  }

  const std::vector<std::string> kRepairIndex = {"repair", "index"};

  absl::StatusOr<std::unique_ptr<storage::OpenedStore>> OpenStore(
      const storage::Location& location, const storage::StoreSettings& settings) override {
    if (other_is_at_work_ || location.directory == "/source") {
      return SweepFixture::OpenStore(location, settings);
    }
    return std::make_unique<RetriedStore>(freezing_);
  }

  // The verbs of the other client, which all end well.
  virtual void DoMeanwhile(const Verbs& verbs, const Freeze& freeze) {
    other_is_at_work_ = true;
    const Process other = {.elsewhere = true, .clock_off_by = {}, .clock = &other_clock_};
    for (const std::vector<std::string>& words : verbs) {
      const bool may_be_refused = words == kRepairIndex;
      const Outcome outcome = may_be_refused ? Run(words, other) : MustRun(words, other);
      if (outcome.code != ExitCode::kOk) {
        EXPECT_THAT(outcome.error, testing::HasSubstr(kAssumeEnded));
      }
      if (words.front() == "backup") {
        saved_.push_back(GetString(outcome.Result(), {"snapshot_id"}));
      }
    }
    clock_.Pass(freeze.uptime, freeze.time_of_day);
    other_is_at_work_ = false;
  }

  // Freezes `words` at each call, while the other client does each of `others`. A repair that was
  // ended so is run again.
  void Sweep(const std::vector<std::string>& words, const std::vector<Verbs>& others) {
    const std::map<std::string, std::string> base = store_.objects();
    freezing_.FreezeAt(0, Moment::kBefore, nullptr);
    MustRun(words);
    const int64_t kinds = std::ssize(kFreezes) * std::ssize(others);
    const int64_t calls = freezing_.calls();
    const std::vector<int64_t> deletions = freezing_.deletions();
    for (const int64_t point :
         sample_.Below((2 * calls + std::ssize(deletions)) * kinds, kSample)) {
      const Freeze& freeze = kFreezes[point % std::ssize(kFreezes)];
      const auto other = static_cast<std::size_t>(point / std::ssize(kFreezes)) % others.size();
      const int64_t place = point / kinds;
      const auto moment = static_cast<Moment>(std::min<int64_t>(place / calls, 2));
      const int64_t call = moment == Moment::kOnItsWay
                               ? deletions[static_cast<std::size_t>(place - 2 * calls)]
                               : place % calls + 1;
      SCOPED_TRACE(absl::StrCat("frozen at moment ", place / calls, " of call ", call, " by ",
                                freeze.name, ", other client ", other));
      store_.SetObjects(base);
      saved_.clear();
      freezing_.FreezeAt(call, moment, [&] { DoMeanwhile(others[other], freeze); });
      Run(words);
      freezing_.FreezeAt(0, Moment::kBefore, nullptr);
      if (words.front() == "repair") {
        RunAgain(words);
      }
      ExpectNothingLost();
      if (HasFailure()) {
        return;
      }
    }
  }

  virtual void ExpectNothingLost() {
    for (const std::string& id : saved_) {
      ExpectRestores(id, image_, {});
    }
    ExpectGood({});
  }

  // The same volume is backed up, before or behind a prune.
  std::vector<Verbs> OthersAtWork() const {
    const std::vector<std::string> backup = BackupArguments();
    const std::vector<std::string> prune = {"prune", "--max-unused", "0"};
    return {{backup}, {prune, backup}, {backup, prune}};
  }

  FreezingStore freezing_{store_};
  SweepClock other_clock_;
  std::vector<std::string> old_;    // snapshots that may go
  std::vector<std::string> saved_;  // by the other client, of the image

 private:
  bool other_is_at_work_ = false;
};

TEST_F(FreezeSweepTest, Prune) {
  MustRun({"forget", "--keep-last", "1"});
  std::vector<Verbs> others = OthersAtWork();
  // What the prune has taken out of the index and not deleted yet is listed again.
  others.push_back({kRepairIndex, BackupArguments()});
  Sweep({"prune", "--max-unused", "0"}, others);
}

// A virtual machine that is paused has sent a deletion, which arrives when it goes on.
TEST_F(FreezeSweepTest, PruneWithADeletionOnItsWay) {
  MustRun({"forget", "--keep-last", "1"});
  const std::map<std::string, std::string> base = store_.objects();
  const std::vector<std::string> prune = {"prune", "--max-unused", "0"};
  freezing_.FreezeAt(0, Moment::kBefore, nullptr);
  MustRun(prune);
  const std::vector<int64_t> deletions = freezing_.deletions();
  ASSERT_FALSE(deletions.empty());
  for (const int64_t point : sample_.Below(std::ssize(deletions), 2)) {
    SCOPED_TRACE(absl::StrCat("deletion ", point));
    store_.SetObjects(base);
    saved_.clear();
    freezing_.FreezeAt(deletions[static_cast<std::size_t>(point)], Moment::kOnItsWay, [&] {
      DoMeanwhile({kRepairIndex, BackupArguments()}, kFreezes[0]);
    });
    Run(prune);
    freezing_.FreezeAt(0, Moment::kBefore, nullptr);
    ExpectNothingLost();
  }
}

TEST_F(FreezeSweepTest, Forget) { Sweep({"forget", old_[0], old_[1], "--prune"}, OthersAtWork()); }

TEST_F(FreezeSweepTest, RepairIndex) {
  MustRun({"forget", "--keep-last", "1"});
  RemoveOneIndexFile();
  Sweep(kRepairIndex, {{BackupArguments()}});
}

TEST_F(FreezeSweepTest, RepairPacks) {
  const std::vector<std::string> repair = {"repair", "packs", DamagePacks(5 * kChunkBytes),
                                           "--from", Path("image")};
  Sweep(repair, {{repair, BackupArguments()}});
}

TEST_F(FreezeSweepTest, Copy) {
  MakeSourceOfCopy();
  Sweep({"copy"}, OthersAtWork());
}

// What a run that died has stored is in no index, and the next backup lists it.
TEST_F(FreezeSweepTest, BackupThatAdoptsPacks) {
  const std::map<std::string, std::string> before = store_.objects();
  WriteImage({31, 32, 33, 34, 35, 36});
  Backup();
  for (const auto& [key, bytes] : store_.objects()) {
    if (!before.contains(key) && !key.starts_with("data/")) {
      store_.RemoveObject(key);
    }
  }
  store_.SetObject("aux/v1/unfinished", "1");
  Sweep(BackupArguments(), OthersAtWork());
}

// A node whose clock is set, by an hour in either direction, at any call.
TEST_F(FreezeSweepTest, AStepOfTheTimeOfDayEndsNoBackup) {
  const std::map<std::string, std::string> base = store_.objects();
  freezing_.FreezeAt(0, Moment::kBefore, nullptr);
  MustRun(BackupArguments());
  for (const int64_t point : sample_.Below(4 * freezing_.calls(), kSample)) {
    const absl::Duration step = point % 2 == 0 ? absl::Hours(1) : -absl::Hours(1);
    SCOPED_TRACE(absl::StrCat("at call ", point / 4 + 1, " by ", absl::FormatDuration(step)));
    store_.SetObjects(base);
    freezing_.FreezeAt(point / 4 + 1, point % 4 >= 2 ? Moment::kAfter : Moment::kBefore,
                       [&] { clock_.Pass(absl::ZeroDuration(), step); });
    MustRun(BackupArguments());
    freezing_.FreezeAt(0, Moment::kBefore, nullptr);
    if (HasFailure()) {
      return;
    }
  }
}

class KeyFreezeSweepTest : public FreezeSweepTest {
 protected:
  KeyFreezeSweepTest() {
    WriteFile("second", "second secret");
    first_ = OnlyKey();
    second_ =
        GetString(MustRun({"key", "add", "--new-password-file", Path("second")}).Result(), {"id"});
  }

  std::string OnlyKey() const {
    for (const auto& [key, bytes] : store_.objects()) {
      if (key.starts_with("keys/")) {
        return key.substr(key.rfind('/') + 1);
      }
    }
    return "";
  }

  // With the other key.
  void DoMeanwhile(const Verbs& verbs, const Freeze& freeze) override {
    const std::string before = std::exchange(variables_["RESTIC_PASSWORD"], "second secret");
    opens_second_ = OpensSecond();
    FreezeSweepTest::DoMeanwhile(opens_second_ ? verbs : Verbs(), freeze);
    variables_["RESTIC_PASSWORD"] = before;
  }

  bool OpensSecond() const { return store_.objects().contains("keys/" + second_); }

  // The other client removed the first key, so that the second one must open.
  void ExpectNothingLost() override {
    if (opens_second_) {
      EXPECT_TRUE(OpensSecond());
    }
    EXPECT_NE(OnlyKey(), "");
  }

  std::string first_;
  std::string second_;
  bool opens_second_ = false;
};

TEST_F(KeyFreezeSweepTest, Remove) {
  Sweep({"key", "remove", second_}, {{{"key", "remove", first_}}});
}

// Credentials that may add and read, but not delete.
class AppendOnlyTest : public SweepFixture {};

TEST_F(AppendOnlyTest, BackupsEndWellAndWhoMayDeleteRemovesTheirLocks) {
  RefuseDeletions();
  std::vector<std::string> words = BackupArguments();
  words.insert(words.end(), {"--immutable-id", "one"});
  MustRun(words);
  WriteImage({1, 12, 3, 4, 5, 6});
  words.back() = "two";
  MustRun(words, {.elsewhere = true});
  MustRun({"snapshots"});
  store_.ClearFaults();
  MustRun({"prune"}, {.elsewhere = true});
  ExpectGood({});
}

// A store that refuses some deletions.
class RefusedDeletionTest : public SweepFixture {
 protected:
  // What `words` deletes below `prefix`.
  std::vector<std::string> DeletedBy(const std::vector<std::string>& words,
                                     const std::string& prefix) {
    const std::map<std::string, std::string> before = store_.objects();
    MustRun(words);
    std::vector<std::string> deleted;
    for (const auto& [key, bytes] : before) {
      if (key.starts_with(prefix) && !store_.objects().contains(key)) {
        deleted.push_back(key);
      }
    }
    store_.SetObjects(before);
    return deleted;
  }
};

TEST_F(RefusedDeletionTest, PruneGoesOnNamesThemAndTheNextOneDeletesThem) {
  const std::string old = Backup();
  WriteImage({11, 12, 13, 14, 15, 16});
  Backup();
  MustRun({"forget", old});
  const std::vector<std::string> prune = {"prune", "--max-unused", "0"};
  const std::vector<std::string> packs = DeletedBy(prune, "data/");
  ASSERT_GE(packs.size(), 2u);
  RefuseDeletions(packs[0]);
  const Outcome outcome = Run(prune);
  EXPECT_EQ(outcome.code, ExitCode::kIncomplete) << outcome.error;
  EXPECT_THAT(outcome.error,
              testing::AllOf(testing::HasSubstr("refuses to delete 1 object: " + packs[0]),
                             testing::HasSubstr("AccessDenied")));
  EXPECT_EQ(GetInt(outcome.Result(), {"not_deleted"}), 1);
  EXPECT_EQ(GetInt(outcome.Result(), {"packs_deleted"}), std::ssize(packs) - 1);
  EXPECT_TRUE(store_.objects().contains(packs[0]));
  for (std::size_t i = 1; i < packs.size(); ++i) {
    EXPECT_FALSE(store_.objects().contains(packs[i]));
  }
  store_.ClearFaults();
  ExpectGood({});
  MustRun(prune);
  EXPECT_FALSE(store_.objects().contains(packs[0]));
}

// Its index would list packs that are gone.
TEST_F(RefusedDeletionTest, PruneDeletesNoPackWhoseIndexFileStays) {
  const std::string old = Backup();
  WriteImage({11, 12, 13, 14, 15, 16});
  Backup();
  MustRun({"forget", old});
  const std::vector<std::string> packs = DeletedBy({"prune", "--max-unused", "0"}, "data/");
  RefuseDeletions("index/");
  EXPECT_EQ(Run({"prune", "--max-unused", "0"}).code, ExitCode::kFailed);
  for (const std::string& pack : packs) {
    EXPECT_TRUE(store_.objects().contains(pack));
  }
  store_.ClearFaults();
  ExpectGood({});
}

TEST_F(RefusedDeletionTest, ForgetGoesOnAndASnapshotThatStaysKeepsItsSidecar) {
  const std::vector<std::string> ids = {Backup(), Backup(), Backup()};
  RefuseDeletions("snapshots/" + ids[0]);
  RefuseDeletions("aux/v1/" + ids[1]);
  const Outcome outcome = Run({"forget", ids[0], ids[1]});
  EXPECT_EQ(outcome.code, ExitCode::kIncomplete) << outcome.error;
  EXPECT_THAT(outcome.error, testing::HasSubstr("refuses to delete 1 object: snapshots/" + ids[0]));
  EXPECT_EQ(GetInt(outcome.Result(), {"removed"}), 1);
  EXPECT_TRUE(store_.objects().contains("snapshots/" + ids[0]));
  EXPECT_TRUE(store_.objects().contains("aux/v1/" + ids[0]));
  EXPECT_FALSE(store_.objects().contains("snapshots/" + ids[1]));
  store_.ClearFaults();
  MustRun({"forget", ids[0], "--prune"});
  EXPECT_FALSE(store_.objects().contains("aux/v1/" + ids[1]));
  ExpectGood({});
}

// A bucket with object locks refuses them to a client that may not hide what is locked.
TEST_F(RefusedDeletionTest, RepairCountsTheSnapshotsThatWentAndNamesThoseThatStay) {
  const std::vector<std::string> ids = {Backup(), Backup()};
  const std::map<std::string, std::string> before = store_.objects();
  for (const auto& [key, bytes] : before) {
    if (key.starts_with("data/")) {
      store_.RemoveObject(key);
    }
  }
  RefuseDeletions("snapshots/" + ids[0]);
  Outcome outcome = Run({"repair", "--forget"});
  EXPECT_EQ(outcome.code, ExitCode::kIncomplete) << outcome.error;
  EXPECT_THAT(outcome.error, testing::HasSubstr("refuses to delete 1 object: snapshots/" + ids[0]));
  EXPECT_EQ(GetInt(outcome.Result(), {"removed"}), 1);
  EXPECT_TRUE(store_.objects().contains("snapshots/" + ids[0]));
  EXPECT_FALSE(store_.objects().contains("snapshots/" + ids[1]));
  store_.ClearFaults();
  outcome = Run({"repair", "--forget"});
  EXPECT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  EXPECT_EQ(GetInt(outcome.Result(), {"removed"}), 1);
  EXPECT_FALSE(store_.objects().contains("snapshots/" + ids[0]));
}

// Credentials that may delete nothing are found out soon.
TEST_F(RefusedDeletionTest, PruneEndsWhenAHundredInARowWereRefused) {
  Backup();
  for (uint64_t i = 0; i < 300; ++i) {
    const std::string bytes = support::Noise(100, i);
    const repository::Id id = repository::Id::Of(bytes);
    store_.SetObject(repository::PackKey(id), bytes);
  }
  RefuseDeletions();
  const std::size_t calls = store_.calls().size();
  EXPECT_EQ(Run({"prune"}).code, ExitCode::kFailed);
  EXPECT_LT(store_.calls().size() - calls, 250u);
}

}  // namespace
}  // namespace csidelta::cli::freeze_sweep_test

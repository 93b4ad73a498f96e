#include "repository/verified_packs.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "repository/checker.h"
#include "tests/repository/maintenance_fixture.h"

namespace csidelta::repository::verified_packs_test {
namespace {

using support::IsOk;
using support::Noise;
using support::StatusIs;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;
using testing::UnorderedElementsAre;

const absl::Time kDay = absl::UnixEpoch() + absl::Hours(24);

TEST(VerdictTest, OfTwoTheLaterCountsAndOfOneMinuteTheDamage) {
  EXPECT_EQ(GoodAt(VerdictAt(kDay + absl::Seconds(59), true)), kDay);
  EXPECT_EQ(GoodAt(VerdictAt(kDay, false)), std::nullopt);
  EXPECT_EQ(GoodAt(0), std::nullopt);
  EXPECT_EQ(VerdictAt(absl::UnixEpoch() - absl::Hours(1), true), 0);
  EXPECT_GT(VerdictAt(kDay, false), VerdictAt(kDay + absl::Seconds(59), true));
  EXPECT_GT(VerdictAt(kDay + absl::Minutes(1), true), VerdictAt(kDay, false));
}

TEST(VerdictFileTest, IsTheTextOfItsDocument) {
  const VerdictFile file{
      .inputs = {VerdictRow::Of(Id::Of("a"), 1)},
      .rows = {VerdictRow::Of(Id::Of("b"), VerdictAt(kDay, true)), VerdictRow::Of(Id::Of("c"), 0)}};
  const std::string text = file.Encode();
  EXPECT_EQ(absl::BytesToHexString(text),
            "43534456"  // CSDV
            "01000000"
            "01000000"
            "ca978112ca1bbdcafac231b3"
            "01000000"
            "3e23e8160039594a33894f65"
            "400b0000"
            "2e7d2c03a9507ae265ecf5b5"
            "00000000");
  const absl::StatusOr<VerdictFile> read = VerdictFile::Decode(text);
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(read->inputs, file.inputs);
  EXPECT_EQ(read->rows, file.rows);
}

TEST(VerdictFileTest, RefusesWhatIsMalformed) {
  const std::string good = VerdictFile{.inputs = {}, .rows = {VerdictRow()}}.Encode();
  std::vector<std::string> bad = {
      "", "CSDV", good.substr(0, 11), good.substr(1), good + "x", std::string(28, '\0')};
  for (const std::size_t at : {std::size_t{0}, std::size_t{4}, std::size_t{8}, std::size_t{11}}) {
    bad.push_back(good);
    bad.back()[at] = '\x7f';  // The magic, the version, more inputs than there are.
  }
  for (const std::string& text : bad) {
    EXPECT_THAT(VerdictFile::Decode(text), StatusIs(absl::StatusCode::kInvalidArgument))
        << absl::BytesToHexString(text);
  }
}

class VerifiedPacksTest : public MaintenanceFixture {
 protected:
  VerifiedPacksTest() : id_(BackUp(Image({1, 2, 3}))) {}

  CheckReport Check(const CheckOptions& options) {
    std::unique_ptr<Repository> repository = Open();
    const absl::StatusOr<CheckReport> report = CheckRepository(ctx_, *repository, options);
    EXPECT_THAT(report, IsOk());
    return report.value_or(CheckReport());
  }
  CheckReport ReadAll() { return Check({.read_data = ReadEverything{}}); }
  CheckReport ReadOlderThan(absl::Duration age) {
    return Check({.read_data = ReadEverything{}, .read_older_than = clock_.Now() - age});
  }

  std::vector<std::string> PackFiles() const { return KeysBelow("aux/v1/verified/packs-"); }

  // Of each pack of the index.
  std::map<PackId, std::optional<absl::Time>> Recorded() {
    std::unique_ptr<Repository> repository = Open();
    EXPECT_THAT(repository->LoadIndex(ctx_), IsOk());
    VerifiedPacks verified(*repository);
    EXPECT_THAT(verified.Load(ctx_), IsOk());
    std::map<PackId, std::optional<absl::Time>> all;
    for (uint32_t pack = 0; pack < repository->index().pack_count(); ++pack) {
      all[repository->index().PackAt(pack)] = GoodAt(verified.Of(pack));
    }
    return all;
  }
  int64_t CountRecorded() {
    int64_t count = 0;
    for (const auto& [pack, at] : Recorded()) {
      count += at.has_value() ? 1 : 0;
    }
    return count;
  }

  std::map<Id, absl::Time> Snapshots() {
    std::unique_ptr<Repository> repository = Open();
    const auto all = repository->ListSnapshots(ctx_);
    EXPECT_THAT(all, IsOk());
    const auto verified = ReadVerifiedSnapshots(ctx_, *repository, *all);
    EXPECT_THAT(verified, IsOk());
    return verified.value_or(std::map<Id, absl::Time>());
  }

  absl::Time Minute() const { return *GoodAt(VerdictAt(clock_.Now(), true)); }

  const Id id_;
};

TEST_F(VerifiedPacksTest, ACheckThatReadsNothingRecordsNothing) {
  Check({});
  EXPECT_THAT(KeysBelow("aux/v1/verified/"), IsEmpty());
  EXPECT_THAT(Snapshots(), IsEmpty());
}

TEST_F(VerifiedPacksTest, ASnapshotIsVerifiedAsOfItsOldestPack) {
  const absl::Time first = Minute();
  const CheckReport report = ReadAll();
  EXPECT_EQ(report.not_recorded, "");
  EXPECT_THAT(PackFiles(), SizeIs(1));
  EXPECT_EQ(CountRecorded(), report.packs);
  EXPECT_THAT(Snapshots(), ElementsAre(Pair(id_, first)));

  const Id second = BackUp(Image({1, 2, 4}));
  EXPECT_THAT(Snapshots(), ElementsAre(Pair(id_, first))) << "a backup takes nothing away";
  const CheckReport recent = ReadOlderThan(absl::Hours(48));
  EXPECT_EQ(recent.packs_recent, report.packs);
  EXPECT_EQ(recent.packs_read, recent.packs - report.packs);
  EXPECT_GT(recent.bytes_recent, recent.packs_recent);
  EXPECT_EQ(recent.packs_unchosen, 0);
  EXPECT_THAT(Snapshots(), UnorderedElementsAre(Pair(id_, first), Pair(second, first)));

  clock_.Advance(absl::Hours(24));
  EXPECT_EQ(ReadOlderThan(absl::Hours(36)).packs_read, report.packs);
  EXPECT_THAT(Snapshots(),
              UnorderedElementsAre(Pair(id_, Minute()), Pair(second, Minute() - absl::Hours(24))));
  EXPECT_THAT(PackFiles(), SizeIs(1));
  const std::map<std::string, std::string> before = store_.objects();
  Check({});
  EXPECT_TRUE(before == store_.objects()) << "nothing is new";
}

TEST_F(VerifiedPacksTest, ASubsetIsDrawnFromWhatIsOld) {
  ReadAll();
  clock_.Advance(absl::Hours(48));
  const Id second = BackUp(Image({1, 2, 4}));
  const CheckReport report = Check(
      {.read_data = ReadShare{.percent = 1}, .read_older_than = clock_.Now() - absl::Hours(96)});
  EXPECT_EQ(report.packs_read, 1);
  EXPECT_GT(report.packs_recent, 1);
  EXPECT_EQ(report.packs_read + report.packs_recent + report.packs_unchosen, report.packs);
  EXPECT_GT(report.bytes_unchosen, report.packs_unchosen);
  EXPECT_FALSE(Snapshots().contains(second)) << "not all of it was read";
}

TEST_F(VerifiedPacksTest, DamageTakesAPackOut) {
  ReadAll();
  const Id second = BackUp(Image({1, 2, 4}));
  ReadAll();
  const PackId pack = PackOf(Noise(kTestChunkBytes, 4));
  const std::string sound = store_.objects().at(PackKey(pack));
  Flip(PackKey(pack), 100);
  EXPECT_EQ(ReadAll().errors, 1);
  EXPECT_EQ(Recorded().at(pack), std::nullopt);
  EXPECT_THAT(Snapshots(), AllOf(SizeIs(1), testing::Contains(testing::Key(id_))));
  store_.SetObject(PackKey(pack), sound);
  Check({});
  EXPECT_EQ(Recorded().at(pack), std::nullopt) << "nothing has read it since";
  clock_.Advance(absl::Minutes(1));
  ReadAll();
  EXPECT_EQ(Recorded().at(pack), Minute());
  store_.RemoveObject(PackKey(pack));
  Check({});
  EXPECT_EQ(Recorded().at(pack), std::nullopt) << "a missing one, without reading any";
  EXPECT_FALSE(Snapshots().contains(second));
}

// One began first, and ends last, with its view of the record as of when it began.
TEST_F(VerifiedPacksTest, ChecksSideBySideLoseNothing) {
  ReadAll();
  const PackId pack = PackOf(Noise(kTestChunkBytes, 1));
  std::unique_ptr<Repository> repository = Open();
  ASSERT_THAT(repository->LoadIndex(ctx_), IsOk());
  VerifiedPacks early(*repository);
  ASSERT_THAT(early.Load(ctx_), IsOk());
  clock_.Advance(absl::Hours(1));
  BackUp(Image({1, 2, 4}));
  Flip(PackKey(pack), 100);
  EXPECT_EQ(ReadAll().errors, 1);
  const absl::Time read_at = Minute();
  const uint32_t other = *repository->index().FindPack(PackOf(Noise(kTestChunkBytes, 3)));
  clock_.Advance(absl::Minutes(1));
  early.Note(other, true, clock_.Now());
  ASSERT_THAT(early.Save(ctx_, std::nullopt), IsOk());
  EXPECT_THAT(PackFiles(), SizeIs(2));
  EXPECT_EQ(Recorded().at(pack), std::nullopt);
  EXPECT_EQ(Recorded().at(PackOf(Noise(kTestChunkBytes, 4))), read_at);
  EXPECT_EQ(Recorded().at(repository->index().PackAt(other)), Minute());
  EXPECT_THAT(Snapshots(), IsEmpty()) << "the files are not those that the check computed it from";
  ReadAll();
  EXPECT_THAT(PackFiles(), SizeIs(1));
}

TEST_F(VerifiedPacksTest, AKilledCheckLosesNothing) {
  ReadAll();
  const std::map<std::string, std::string> base = store_.objects();
  const int64_t recorded = CountRecorded();
  for (int64_t call = 1;; ++call) {
    store_.SetObjects(base);
    store_.Restart();
    std::unique_ptr<Repository> repository = Open();
    store_.Restart();
    store_.CutAt(call, support::CutMoment::kAfter);
    CheckRepository(ctx_, *repository, {.read_data = ReadEverything{}}).IgnoreError();
    const bool reached = store_.is_cut();
    store_.Restart();
    EXPECT_EQ(CountRecorded(), recorded) << call;
    if (!reached) {
      EXPECT_GT(call, 10);
      break;
    }
  }
}

TEST_F(VerifiedPacksTest, AStoppedCheckKeepsWhatItHasRead) {
  std::unique_ptr<Repository> repository = Open();
  store_.AddFault({.operation = support::StoreOperation::kGetRange,
                   .key_prefix = "data/",
                   .first_call = 3,
                   .last_call = 1000,
                   .status = absl::UnavailableError("away")});
  EXPECT_THAT(CheckRepository(ctx_, *repository, {.read_data = ReadEverything{}}),
              StatusIs(absl::StatusCode::kUnavailable));
  store_.ClearFaults();
  EXPECT_GT(CountRecorded(), 0);
  EXPECT_THAT(Snapshots(), IsEmpty());
}

TEST_F(VerifiedPacksTest, PacksThatAreGoneLeaveWithTheNextCheck) {
  const Id second = BackUp(Image({4, 5, 6}));
  ReadAll();
  EXPECT_THAT(Snapshots(), SizeIs(2));
  ASSERT_THAT(Forget(second), IsOk());
  ASSERT_THAT(Prune(Thorough()), IsOk());
  EXPECT_THAT(PackFiles(), SizeIs(1)) << "prune lets it be";
  EXPECT_THAT(Snapshots(), IsEmpty()) << "what was repacked lies where nothing has read it";
  ReadAll();
  const auto text = Open()->LoadSidecar(ctx_, PackFiles().front());
  ASSERT_THAT(text, IsOk());
  EXPECT_THAT(VerdictFile::Decode(*text)->rows, SizeIs(Recorded().size()));
  EXPECT_THAT(Snapshots(), SizeIs(1));
}

TEST_F(VerifiedPacksTest, WhatDoesNotOpenSaysNothingAndIsRemoved) {
  ReadAll();
  const std::string key = PackFiles().front();
  const std::string bytes = store_.objects().at(key);
  const std::string alien_key = absl::StrCat("aux/v1/verified/packs-", Id::Of("x").Hex());
  const std::map<std::string, std::string> base = store_.objects();
  for (const std::string& wrong : {bytes.substr(1), std::string(), Noise(100'000, 1)}) {
    store_.SetObjects(base);
    store_.SetObject(key, wrong);
    EXPECT_EQ(CountRecorded(), 0);
    EXPECT_EQ(ReadAll().errors, 0);
    EXPECT_FALSE(store_.objects().contains(key));
  }
  // A record of this repository under another name, and one that is too long to be looked at.
  store_.SetObjects(base);
  store_.RemoveObject(key);
  store_.SetObject(alien_key, bytes);
  EXPECT_EQ(CountRecorded(), 0);
  EXPECT_THAT(Snapshots(), IsEmpty());
  Check({});
  EXPECT_FALSE(store_.objects().contains(alien_key));
  store_.SetObjects(base);
  store_.SetObject(alien_key, std::string((4 << 20) + 1, 'x'));
  EXPECT_THAT(Snapshots(), SizeIs(1));
  for (const std::string& wrong : {bytes, std::string("x"), std::string()}) {
    store_.SetObject(kVerifiedSnapshotsKey, wrong);
    EXPECT_THAT(Snapshots(), IsEmpty());
    Check({});
    EXPECT_THAT(Snapshots(), SizeIs(1));
  }
}

TEST_F(VerifiedPacksTest, ARecordOfAnotherRepositoryDoesNotOpen) {
  ReadAll();
  std::map<std::string, std::string> record;
  for (const std::string& key : KeysBelow("aux/v1/verified/")) {
    record[key] = store_.objects().at(key);
  }
  store_.SetObjects({});
  Init();
  BackUp(Image({1, 2, 3}));
  for (const auto& [key, bytes] : record) {
    store_.SetObject(key, bytes);
  }
  EXPECT_EQ(CountRecorded(), 0);
  EXPECT_THAT(Snapshots(), IsEmpty());
  EXPECT_EQ(Check({}).errors, 0);
}

TEST_F(VerifiedPacksTest, ATimeThatIsYetToComeIsNotKnown) {
  clock_.Advance(absl::Hours(24));
  ReadAll();
  EXPECT_GT(CountRecorded(), 0);
  clock_.Advance(-absl::Hours(24));
  EXPECT_EQ(CountRecorded(), 0);
  EXPECT_THAT(Snapshots(), IsEmpty());
  EXPECT_EQ(ReadOlderThan(absl::Hours(1)).packs_recent, 0);
  EXPECT_THAT(Snapshots(), ElementsAre(Pair(id_, Minute())));
}

TEST_F(VerifiedPacksTest, WhereMemoryIsShortItSaysSoAndTheCheckRuns) {
  MemoryBudget budget(MemoryBudget::kProgramBytes + (int64_t{56} << 20));
  environment_.memory = &budget;
  std::unique_ptr<Repository> repository = Open();
  ASSERT_THAT(repository->LoadIndex(ctx_), IsOk());
  {
    const auto all = budget.Take(budget.free_bytes() - 8, "a test");
    ASSERT_THAT(all, IsOk());
    VerifiedPacks verified(*repository);
    ASSERT_THAT(verified.Load(ctx_), IsOk());
    verified.Note(0, true, clock_.Now());
    EXPECT_EQ(verified.Of(0), 0);
    EXPECT_THAT(verified.Save(ctx_, std::nullopt),
                StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("memory")));
  }
  EXPECT_EQ(ReadAll().not_recorded, "");
}

TEST_F(VerifiedPacksTest, AStoreThatTakesNoWritesIsNamed) {
  store_.AddFault({.operation = support::StoreOperation::kPut,
                   .key_prefix = "aux/v1/verified/",
                   .last_call = 1000,
                   .status = absl::PermissionDeniedError("read only")});
  const CheckReport report = ReadAll();
  EXPECT_TRUE(report.ok());
  EXPECT_THAT(report.not_recorded, HasSubstr("read only"));
}

}  // namespace
}  // namespace csidelta::repository::verified_packs_test

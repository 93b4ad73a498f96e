#include "repository/chain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/repository/repository_fixture.h"
#include "tests/support/unproven.h"

namespace csidelta::repository::chain_test {
namespace {

using support::IsOk;
using support::IsOkAndHolds;
using support::StatusIs;
using support::StoreCall;
using support::StoreOperation;

class ChainTest : public RepositoryFixture {
 protected:
  ChainTest() : repository_(Init()) {}

  // A snapshot of /`path`.
  Id Add(const std::string& path, std::optional<Id> parent, int64_t seconds,
         const std::string& tag = "mode=block") {
    RepoSnapshot snapshot;
    snapshot.time = absl::FromUnixSeconds(seconds);
    snapshot.tree = Id::Of(path);
    snapshot.hostname = "host";
    snapshot.paths = {"/" + path};
    snapshot.parent = parent;
    snapshot.tags = {tag};
    const auto id = repository_->SaveSnapshot(ctx_, snapshot, support::Unproven());
    EXPECT_THAT(id, IsOk());
    return *id;
  }

  // As many generations, the clock going backwards; returns the last one's id.
  Id AddChain(const std::string& path, int64_t generations) {
    std::optional<Id> last;
    for (int64_t generation = 0; generation < generations; ++generation) {
      last = Add(path, last, 10'000 - generation);
    }
    return *last;
  }

  std::optional<Id> End(const std::string& path = "a") {
    const auto end = FindChainEnd(ctx_, *repository_, ChainOf("host", {"/" + path}));
    EXPECT_THAT(end, IsOk());
    return end.ok() && end->has_value() ? std::optional<Id>((*end)->id) : std::nullopt;
  }

  // How many snapshots a search reads.
  int64_t ReadBy(const std::function<void()>& search) {
    store_.Restart();
    search();
    int64_t count = 0;
    for (const StoreCall& call : store_.calls()) {
      count += call.operation == StoreOperation::kGet && call.key.starts_with("snapshots/") ? 1 : 0;
    }
    return count;
  }

  std::vector<ChainNote> Notes() {
    const auto bytes = repository_->LoadSidecar(ctx_, kChainNotesKey);
    EXPECT_THAT(bytes, IsOk());
    auto notes = DecodeChainNotes(*bytes);
    EXPECT_THAT(notes, IsOk());
    return *std::move(notes);
  }

  std::unique_ptr<Repository> repository_;
};

TEST_F(ChainTest, TheEndIsTheSnapshotWithoutChildren) {
  EXPECT_EQ(End(), std::nullopt);
  const Id first = Add("a", std::nullopt, 100);
  const Id second = Add("a", first, 50);
  Add("b", second, 200);
  Add("a", std::nullopt, 300, "mode=file");
  EXPECT_EQ(End(), second);
  EXPECT_NE(End("b"), second);
  EXPECT_EQ(End("c"), std::nullopt);
  const Id other = Add("a", first, 60);
  EXPECT_EQ(End(), other);
}

TEST_F(ChainTest, HostAndPathsKeepApart) {
  EXPECT_NE(ChainOf("host", {"/a", "/b"}), ChainOf("host", {"/a2:/b"}));
  EXPECT_NE(ChainOf("host", {"/a"}), ChainOf("hos", {"t/a"}));
  EXPECT_NE(ChainOf("host", {}), ChainOf("host", {""}));
}

TEST_F(ChainTest, EachSnapshotIsReadOnce) {
  Id last = AddChain("a", 40);
  AddChain("b", 20);
  EXPECT_EQ(ReadBy([&] { EXPECT_EQ(End(), last); }), 60);
  EXPECT_EQ(ReadBy([&] { EXPECT_EQ(End(), last); }), 1);
  for (int64_t generation = 0; generation < 12; ++generation) {
    last = Add("a", last, generation);
    EXPECT_LE(ReadBy([&] { EXPECT_EQ(End(), last); }), 2) << generation;
  }
  EXPECT_LE(ReadBy([&] { EXPECT_EQ(End("c"), std::nullopt); }), 1);
}

TEST_F(ChainTest, ADeletedSnapshotLeavesTheNotes) {
  const Id last = AddChain("a", 10);
  EXPECT_EQ(End(), last);
  ASSERT_THAT(repository_->RemoveFile(ctx_, FileKind::kSnapshot, last), IsOk());
  AddChain("b", 5);
  EXPECT_NE(End(), last);
  ASSERT_FALSE(Notes().empty());
  for (const ChainNote& note : Notes()) {
    EXPECT_NE(note.id, last);
  }
}

TEST_F(ChainTest, NotesThatAreMissingOldOrBrokenCostTimeOnly) {
  AddChain("a", 8);
  End();
  const std::string old = store_.objects().at(kChainNotesKey);
  Id last = AddChain("b", 8);
  Add("a", std::nullopt, 20'000);
  End();
  const std::string present = store_.objects().at(kChainNotesKey);
  std::string flipped = present;
  flipped[flipped.size() / 2] = static_cast<char>(flipped[flipped.size() / 2] ^ 1);
  ASSERT_THAT(repository_->SaveSidecarAs(ctx_, kChainNotesKey, "CSDC of a stranger"), IsOk());
  const std::string strange = store_.objects().at(kChainNotesKey);
  const std::string snapshot = store_.objects().at(FileKey(FileKind::kSnapshot, last));
  for (const std::string& bytes : {old, flipped, strange, snapshot, std::string()}) {
    store_.SetObject(kChainNotesKey, bytes);
    EXPECT_EQ(End("b"), last);
    EXPECT_EQ(store_.objects().at(kChainNotesKey).size() / 64, present.size() / 64);
  }
  store_.RemoveObject(kChainNotesKey);
  EXPECT_EQ(End("b"), last);
  EXPECT_EQ(ReadBy([&] { EXPECT_EQ(End("b"), last); }), 1);
}

TEST_F(ChainTest, ANoteThatItsSnapshotDoesNotBearOutSpoilsThemAll) {
  const Id last = AddChain("a", 8);
  End();
  const Id stranger = Add("b", std::nullopt, 30'000);
  std::vector<ChainNote> notes = Notes();
  notes.push_back({.id = stranger,
                   .chain = ChainOf("host", {"/a"}),
                   .parent = std::nullopt,
                   .time = absl::FromUnixSeconds(30'000)});
  ASSERT_THAT(repository_->SaveSidecarAs(ctx_, kChainNotesKey, EncodeChainNotes(notes)), IsOk());
  EXPECT_EQ(End(), last);
  EXPECT_EQ(ReadBy([&] { EXPECT_EQ(End(), last); }), 1);
}

TEST_F(ChainTest, AnUnreadableSnapshotIsSkippedAndReportedOnce) {
  const Id before = AddChain("a", 7);
  const Id last = Add("a", before, 9000);
  const Id other = AddChain("b", 8);
  EXPECT_EQ(End(), last);
  store_.SetObject(FileKey(FileKind::kSnapshot, last), "x");
  std::vector<Id> told;
  const auto end = [&](const std::string& path) -> std::optional<Id> {
    const auto found = FindChainEnd(ctx_, *repository_, ChainOf("host", {path}),
                                    [&](const Id& id, const absl::Status&) { told.push_back(id); });
    EXPECT_THAT(found, IsOk());
    return found.ok() && found->has_value() ? std::optional<Id>((*found)->id) : std::nullopt;
  };
  EXPECT_EQ(end("/b"), other);
  EXPECT_THAT(told, testing::IsEmpty());  // Its note says that it is none of this volume's.
  EXPECT_EQ(end("/a"), before);
  EXPECT_THAT(told, testing::ElementsAre(last));
  EXPECT_EQ(ReadBy([&] { EXPECT_EQ(end("/a"), before); }), 1);
  EXPECT_THAT(told, testing::ElementsAre(last));
}

TEST_F(ChainTest, ASnapshotOfTheFutureIsNotTheEndBesideAnother) {
  const Id last = Add("a", std::nullopt, 1000);
  Add("a", std::nullopt, 4'000'000'000);
  EXPECT_EQ(End(), last);
}

TEST_F(ChainTest, AnEndThatIsNotFoundIsNotTakenAsForgotten) {
  const Id last = AddChain("a", 8);
  EXPECT_EQ(End(), last);
  store_.AddFault({.operation = StoreOperation::kGet,
                   .key_prefix = FileKey(FileKind::kSnapshot, last),
                   .status = absl::NotFoundError("404")});
  EXPECT_THAT(FindChainEnd(ctx_, *repository_, ChainOf("host", {"/a"})),
              StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_EQ(End(), last);
}

TEST_F(ChainTest, NotesReadBackAsTheyWereWritten) {
  const std::vector<ChainNote> notes = {
      {.id = Id::Of("1"),
       .chain = Id::Of("2"),
       .parent = Id::Of("3"),
       .time = absl::FromUnixNanos(-1)},
      {.id = Id::Of("4"), .chain = Id(), .parent = std::nullopt, .time = absl::FromUnixSeconds(7)}};
  const std::string bytes = EncodeChainNotes(notes);
  EXPECT_THAT(DecodeChainNotes(bytes), IsOkAndHolds(notes));
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THAT(DecodeChainNotes(bytes.substr(0, size)),
                StatusIs(absl::StatusCode::kInvalidArgument));
  }
}

}  // namespace
}  // namespace csidelta::repository::chain_test

// A repository from an attacker: a client with a key can encrypt anything. Each thing
// that is wrong is an error that names it, or harmless; what is good beside it stays readable, and
// nothing that could be needed is removed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "repository/compression.h"
#include "repository/copier.h"
#include "repository/pack_reader.h"
#include "tests/repository/maintenance_fixture.h"
#include "tests/support/unproven.h"

namespace csidelta::repository::hostile_repository_test {
namespace {

using support::IsOk;
using support::IsOkAndHolds;
using support::StatusIs;
using testing::HasSubstr;
using testing::SizeIs;

using Objects = std::map<std::string, std::string>;

class HostileRepositoryTest : public MaintenanceFixture {
 protected:
  HostileRepositoryTest() { good_ = BackUp(image_); }

  // Seals `text` as a file of the repository.
  Id Seal(FileKind kind, const std::string& text) {
    const absl::StatusOr<Id> id = SnapshotProofForTest::Put(*Open(), ctx_, kind, text);
    EXPECT_THAT(id, IsOk());
    return id.value_or(Id());
  }

  // Puts bytes under the name that they hash to.
  Id PutRaw(FileKind kind, const std::string& bytes) {
    const Id id = Id::Of(bytes);
    store_.SetObject(FileKey(kind, id), bytes);
    return id;
  }

  // A file that is `count` bytes of text and a few KiB in the store.
  Id SealBomb(FileKind kind, const std::string& head, std::size_t count) {
    const std::unique_ptr<Repository> repository = Open();
    const std::string frame = Compressor(1).Compress(head + std::string(count, ' '));
    return PutRaw(kind, Sealer(repository->master_key(), random_).Seal("\x02" + frame));
  }

  // A snapshot of trees that no honest client writes. `texts`: the root last.
  Id SealTrees(const std::vector<std::string>& texts) {
    const std::unique_ptr<Repository> repository = Open();
    BlobWriter writer(ctx_, *repository, writer_options_);
    for (const std::string& text : texts) {
      EXPECT_THAT(writer.AddBlob(BlobType::kTree, Id::Of(text), text), IsOk());
    }
    EXPECT_THAT(writer.Flush(), IsOk());
    RepoSnapshot snapshot;
    snapshot.time = ctx_.clock->Now();
    snapshot.tree = Id::Of(texts.back());
    const absl::StatusOr<Id> id = repository->SaveSnapshot(ctx_, snapshot, support::Unproven());
    EXPECT_THAT(id, IsOk());
    return id.value_or(Id());
  }

  absl::Status LoadIndex() { return Open()->LoadIndex(ctx_); }

  void ExpectGoodIsReadable() { ExpectRestores(good_, image_); }

  const std::string image_ = support::Noise(3000, 1);
  Id good_;
};

std::string Tree(const std::string& nodes) { return absl::StrCat("{\"nodes\":[", nodes, "]}\n"); }

std::string Directory(const std::string& name, const BlobId& subtree) {
  return absl::StrCat("{\"name\":\"", name, "\",\"type\":\"dir\",\"subtree\":\"", subtree.Hex(),
                      "\"}");
}

std::string Entry(const BlobId& id, absl::string_view type, absl::string_view numbers) {
  return absl::StrCat("{\"id\":\"", id.Hex(), "\",\"type\":\"", type, "\",", numbers, "}");
}

std::string Index(const PackId& pack, const std::string& entries) {
  return absl::StrCat("{\"packs\":[{\"id\":\"", pack.Hex(), "\",\"blobs\":[", entries, "]}]}");
}

TEST_F(HostileRepositoryTest, AKeyFileIsRefusedByNameAndSpoilsNoOther) {
  const std::string key = KeysBelow("keys/").front();
  const std::string text = store_.objects().at(key);
  const auto with = [&](absl::string_view from, absl::string_view to) {
    return absl::StrReplaceAll(text, {{from, to}});
  };
  const std::vector<std::string> bad = {"",
                                        "{}",
                                        "null",
                                        std::string(100'000, '['),
                                        std::string(100, '\0'),
                                        with("\"N\":2,", "\"N\":1073741824,"),  // 1 TiB
                                        with("\"N\":2,", "\"N\":4194304,"),     // 4 GiB
                                        with("\"r\":8", "\"r\":2147483647"),
                                        with("\"r\":8", "\"r\":-1"),
                                        with("\"r\":8", "\"r\":18446744073709551617"),
                                        with("\"p\":1", "\"p\":2147483647"),  // Some days.
                                        with("\"p\":1", "\"p\":1e400"),
                                        with("scrypt", "argon2"),
                                        with("\"data\":\"", "\"data\":\"AA")};
  // Behind the bad ones and before them, by name.
  for (const std::string& file : bad) {
    for (const std::string& name :
         {Id::Of(file).Hex(), std::string(64, '0'), std::string(64, 'f')}) {
      const std::string bad_key = absl::StrCat("keys/", name);
      store_.SetObject(bad_key, file);
      EXPECT_THAT(Repository::Open(ctx_, store_, kTestPassword, environment_), IsOk()) << file;
      const absl::Status wrong = Repository::Open(ctx_, store_, "another", environment_).status();
      EXPECT_TRUE(IsWrongPassword(wrong)) << wrong << file.substr(0, 200);
      EXPECT_THAT(Open()->ListKeys(ctx_), IsOkAndHolds(SizeIs(2)));
      store_.RemoveObject(key);
      const absl::Status alone =
          Repository::Open(ctx_, store_, kTestPassword, environment_).status();
      EXPECT_TRUE(IsWrongPassword(alone) ||
                  absl::StrContains(alone.message(), absl::string_view(name).substr(0, 8)))
          << alone;
      store_.SetObject(key, text);
      store_.RemoveObject(bad_key);
    }
  }
}

TEST_F(HostileRepositoryTest, AConfigThatIsNotOneIsAnErrorThatSaysSo) {
  const std::unique_ptr<Repository> repository = Open();
  const std::string good = EncodeConfig(repository->config());
  const auto with = [&](absl::string_view from, absl::string_view to) {
    return absl::StrReplaceAll(good, {{from, to}});
  };
  for (const std::string& text :
       {std::string(), std::string("{}"), std::string("[]"), std::string(60'000, '['),
        with("\"version\":2", "\"version\":3"), with("\"version\":2", "\"version\":-2"),
        with("\"version\":2", "\"version\":4294967298"),
        with("\"chunker_polynomial\":\"", "\"chunker_polynomial\":\"f"),
        with("\"id\":\"", "\"id\":\"g")}) {
    store_.SetObject(kConfigKey, Sealer(repository->master_key(), random_).Seal(text));
    const absl::Status status =
        Repository::Open(ctx_, store_, kTestPassword, environment_).status();
    EXPECT_THAT(status.message(), HasSubstr("config")) << text.substr(0, 100);
  }
  for (const std::string& bytes :
       {std::string(), std::string(31, 'x'), std::string(100'000, 'x')}) {
    store_.SetObject(kConfigKey, bytes);
    EXPECT_THAT(Repository::Open(ctx_, store_, kTestPassword, environment_).status(),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr("config")));
  }
}

TEST_F(HostileRepositoryTest, ALockThatDoesNotReadRunsOutLikeAnyOther) {
  PutRaw(FileKind::kLock, "");
  const std::unique_ptr<Repository> first = Open();
  EXPECT_THAT(TakeLock(*first), IsOk());  // What a writer never finished locks no client out.
  for (int kind = 0; kind < 6; ++kind) {
    const Id id = kind == 0   ? PutRaw(FileKind::kLock, "garbage")
                  : kind == 1 ? PutRaw(FileKind::kLock, std::string(1 << 20, 'x'))
                  : kind == 2 ? SealBomb(FileKind::kLock, "{", 1 << 20)
                  : kind == 3 ? Seal(FileKind::kLock, "[1e999]")
                  : kind == 4 ? Seal(FileKind::kLock, "{\"pid\":-9223372036854775808}")
                              : Seal(FileKind::kLock, std::string(5000, '['));
    const std::unique_ptr<Repository> repository = Open();
    const absl::Status refused = TakeLockNow(*repository, /*exclusive=*/true).status();
    EXPECT_TRUE(IsLocked(refused)) << kind << refused;
    EXPECT_THAT(refused.message(), HasSubstr(id.ShortHex()));
    EXPECT_THAT(TakeLock(*repository), IsOk()) << kind;
  }
}

TEST_F(HostileRepositoryTest, ASnapshotThatDoesNotReadIsNamedAndTheOthersAreListed) {
  const std::string good = EncodeSnapshot(*Open()->LoadSnapshot(ctx_, good_));
  const auto with = [&](absl::string_view from, absl::string_view to) {
    return absl::StrReplaceAll(good, {{from, to}});
  };
  std::string values = "[0";
  for (int64_t i = 0; i <= kSnapshotValuesMax; ++i) {
    values += ",0";
  }
  const std::string tree =
      absl::StrCat("\"tree\":\"", Open()->LoadSnapshot(ctx_, good_)->tree.Hex());
  const std::vector<Id> bad = {
      PutRaw(FileKind::kSnapshot, ""),
      PutRaw(FileKind::kSnapshot,
             "garbage that is longer than an envelope, but encrypted by no key"),
      Seal(FileKind::kSnapshot, "{}"),
      Seal(FileKind::kSnapshot, std::string(1000, '[')),
      Seal(FileKind::kSnapshot, with(tree, absl::StrCat("\"tree\":\"", Id().Hex()))),
      Seal(FileKind::kSnapshot, with(tree, "\"tree\":\"")),
      Seal(FileKind::kSnapshot, with(tree + "\"", "\"tree\":null")),
      Seal(FileKind::kSnapshot, with("\"time\":\"2", "\"time\":\"-2")),
      Seal(FileKind::kSnapshot,
           with("\"paths\":[", absl::StrCat("\"more\":", values, "],\"paths\":["))),
      SealBomb(FileKind::kSnapshot, good, std::size_t{17} << 20)};
  std::map<Id, std::string> damaged;
  const auto listed = Open()->ListSnapshots(ctx_, [&](const Id& id, const absl::Status& status) {
    damaged[id] = std::string(status.message());
  });
  ASSERT_THAT(listed, IsOkAndHolds(SizeIs(1)));
  EXPECT_EQ(listed->front().id, good_);
  for (const Id& id : bad) {
    EXPECT_THAT(damaged[id], HasSubstr(id.ShortHex()));
  }
  const CheckReport report = Check();
  EXPECT_EQ(report.errors, static_cast<int64_t>(bad.size())) << Describe(report);
  EXPECT_THAT(KindsOf(report), testing::ElementsAre("snapshot-unreadable"));
  ExpectGoodIsReadable();
  // A prune does not know what these snapshots need.
  const Objects before = store_.objects();
  EXPECT_THAT(Prune(Thorough()), testing::Not(IsOk()));
  EXPECT_TRUE(store_.objects() == before);
}

TEST_F(HostileRepositoryTest, AnIndexOfImpossibleNumbersIsDamageThatNamesTheFile) {
  const BlobId id = Id::Of("some blob");
  for (const char* numbers :
       {"\"offset\":0,\"length\":31", "\"offset\":-1,\"length\":100",
        "\"offset\":0,\"length\":9223372036854775808", "\"offset\":4294967295,\"length\":100",
        "\"offset\":4294967296,\"length\":100", "\"offset\":0,\"length\":1e2",
        "\"offset\":0,\"length\":NaN",
        "\"offset\":0,\"length\":100,\"uncompressed_length\":4294967296",
        "\"offset\":0,\"length\":18446744073709551616"}) {
    const Id file = Seal(FileKind::kIndex, Index(Id::Of("pack"), Entry(id, "data", numbers)));
    EXPECT_THAT(LoadIndex(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr(file.ShortHex())))
        << numbers;
    EXPECT_THAT(KindsOf(Check()), testing::ElementsAre("index-unreadable"));
    store_.RemoveObject(FileKey(FileKind::kIndex, file));
  }
  for (const std::string& text :
       {std::string("{}x"), std::string("{\"packs\":[{}]}"), std::string(100'000, '['),
        Index(Id(), ""), Index(Id::Of("pack"), Entry(id, "snapshot", "\"length\":100")),
        Index(Id::Of("pack"), Entry(Id(), "data", "\"length\":100"))}) {
    const Id file = Seal(FileKind::kIndex, text);
    EXPECT_THAT(LoadIndex(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr(file.ShortHex())));
    store_.RemoveObject(FileKey(FileKind::kIndex, file));
  }
  ExpectGoodIsReadable();
}

// Entries that are possible, and lie: beyond the end of the pack, over each other, as another type,
// with lengths that would take gigabytes.
TEST_F(HostileRepositoryTest, AWrongIndexIsDamageOrHarmless) {
  const BlobId id = Id::Of(image_);
  const PackId pack = PackOf(image_);
  for (const char* numbers :
       {"\"offset\":4294900000,\"length\":60000", "\"offset\":0,\"length\":4294967295",
        "\"offset\":1,\"length\":64", "\"offset\":0,\"length\":536870900",
        "\"offset\":0,\"length\":64,\"uncompressed_length\":4294967295",
        "\"offset\":0,\"length\":64,\"uncompressed_length\":536870912",
        "\"offset\":0,\"length\":64,\"uncompressed_length\":67108864",
        "\"offset\":0,\"length\":32"}) {
    const Objects before = store_.objects();
    for (const std::string& key : KeysBelow("index/")) {
      store_.RemoveObject(key);
    }
    const std::string lies =
        absl::StrCat(Entry(id, "data", numbers), ",", Entry(id, "tree", numbers));
    Seal(FileKind::kIndex, Index(pack, lies));
    const std::unique_ptr<Repository> lied_to = Open();
    ASSERT_THAT(lied_to->LoadIndex(ctx_), IsOk());
    for (const BlobType type : {BlobType::kData, BlobType::kTree}) {
      EXPECT_THAT(lied_to->LoadBlob(ctx_, {type, id}),
                  StatusIs(absl::StatusCode::kDataLoss, HasSubstr(id.ShortHex())))
          << numbers;
    }
    EXPECT_GT(Check().errors, 0);
    store_.SetObjects(before);
    // Beside the truth a lie costs a request.
    Seal(FileKind::kIndex, Index(pack, lies));
    const std::unique_ptr<Repository> both = Open();
    ASSERT_THAT(both->LoadIndex(ctx_), IsOk());
    EXPECT_THAT(both->LoadBlob(ctx_, {BlobType::kData, id}), IsOkAndHolds(image_)) << numbers;
    ExpectGoodIsReadable();
    store_.SetObjects(before);
  }
}

TEST_F(HostileRepositoryTest, APackOfAnotherLengthIsFound) {
  const std::string key = PackKey(PackOf(image_));
  const std::string bytes = store_.objects().at(key);
  const std::string head(bytes.substr(0, bytes.size() - 4));
  struct Other {
    const char* name;
    std::string bytes;
    bool blob_reads;  // the blob's own bytes are intact
  };
  for (const Other& other :
       {Other{"empty", "", false}, Other{"its first byte", bytes.substr(0, 1), false},
        Other{"without its last byte", bytes.substr(0, bytes.size() - 1), true},
        Other{"without its first byte", bytes.substr(1), false},
        Other{"one byte longer", bytes + "x", true}, Other{"twice", bytes + bytes, true},
        Other{"a header beyond its begin", head + std::string(4, '\xff'), true},
        Other{"no header", head + std::string(4, '\0'), true},
        Other{"a header of 16 MiB", head + std::string("\0\0\0\x01", 4), true},
        Other{"zeros", std::string(bytes.size(), '\0'), false}}) {
    SCOPED_TRACE(other.name);
    store_.SetObject(key, other.bytes);
    EXPECT_GT(Check().errors, 0);
    const std::unique_ptr<Repository> repository = Open();
    ASSERT_THAT(repository->LoadIndex(ctx_), IsOk());
    const absl::StatusOr<std::string> blob =
        repository->LoadBlob(ctx_, {BlobType::kData, Id::Of(image_)});
    if (other.blob_reads) {
      EXPECT_THAT(blob, IsOkAndHolds(image_));
    } else {
      EXPECT_THAT(blob, StatusIs(absl::StatusCode::kDataLoss));
    }
    EXPECT_THAT(
        ReadPackHeader(ctx_, store_, PackOf(image_), static_cast<int64_t>(other.bytes.size()),
                       repository->MakeCodec()->sealer()),
        StatusIs(absl::StatusCode::kDataLoss));
  }
}

TEST_F(HostileRepositoryTest, ATreeThatIsNoneIsFoundAndNothingIsPrunedOrCopiedBesideIt) {
  const BlobId known = Open()->LoadSnapshot(ctx_, good_)->tree;
  const std::vector<std::string> bad = {
      "{\"nodes\":",
      Tree("{}"),
      Tree(Directory("", known)),
      Tree(Directory(".", known)),
      Tree(Directory("..", known)),
      Tree(Directory("a/b", known)),
      Tree(Directory("/etc", known)),
      Tree(Directory("a\\u0000", known)),
      Tree(Directory("a\\\\x00", known)),
      Tree(Directory(std::string(4097, 'a'), known)),
      Tree(absl::StrCat(Directory("b", known), ",", Directory("a", known))),
      Tree(absl::StrCat(Directory("a", known), ",", Directory("a", known))),
      Tree(Directory("a", Id())),
      Tree("{\"name\":\"a\",\"type\":\"dir\"}"),
      Tree("{\"name\":\"a\",\"type\":\"file\"}"),
      Tree("{\"name\":\"a\",\"type\":\"file\",\"size\":-1,\"content\":[]}"),
      Tree("{\"name\":\"a\",\"type\":\"file\",\"size\":18446744073709551616,\"content\":[]}"),
      Tree("{\"name\":\"a\",\"type\":\"file\",\"size\":9223372036854775808,\"content\":[]}"),
      Tree("{\"name\":\"a\",\"type\":\"file\",\"size\":1,\"content\":[\"../../etc/passwd\"]}"),
      Tree(std::string(2000, '['))};
  support::FakeObjectStore other;
  const auto target = Repository::Init(ctx_, other, kTestPassword, environment_);
  ASSERT_THAT(target, IsOk());
  for (const std::string& text : bad) {
    const Objects before = store_.objects();
    const Id snapshot = SealTrees({text});
    EXPECT_GT(Check(/*read_data=*/false).errors, 0) << text.substr(0, 200);
    ExpectGoodIsReadable();
    if (KindsOf(Check(false)).contains("tree-unreadable")) {
      const Objects sealed = store_.objects();
      EXPECT_THAT(Prune(Thorough()), testing::Not(IsOk())) << text.substr(0, 200);
      EXPECT_TRUE(store_.objects() == sealed);
      const std::unique_ptr<Repository> from = Open();
      const auto lock = TakeLock(**target, /*exclusive=*/false);
      ASSERT_THAT(lock, IsOk());
      EXPECT_THAT(CopySnapshots(ctx_, *from, **target, **lock, {snapshot}, {}).status(),
                  testing::Not(IsOk()));
    }
    store_.SetObjects(before);
  }
}

// Hashes rule out cycles; what is left is as deep or wide as an attacker cares to write.
TEST_F(HostileRepositoryTest, DeepAndWideTreesAreWalkedInBoundedMemory) {
  std::vector<std::string> chain = {Tree("")};
  for (int depth = 0; depth < 3000; ++depth) {
    chain.push_back(Tree(Directory("d", Id::Of(chain.back()))));
  }
  SealTrees(chain);
  std::string wide;
  for (int i = 0; i < 100'000; ++i) {
    absl::StrAppend(&wide, i == 0 ? "" : ",", "{\"name\":\"", absl::Dec(i, absl::kZeroPad6), "\"}");
  }
  SealTrees({Tree(wide)});
  // The same tree in 2^40 places.
  std::vector<std::string> doubling = {Tree("")};
  for (int depth = 0; depth < 40; ++depth) {
    const BlobId below = Id::Of(doubling.back());
    doubling.push_back(Tree(absl::StrCat(Directory("a", below), ",", Directory("b", below))));
  }
  SealTrees(doubling);
  ExpectClean(/*read_data=*/false);
  EXPECT_THAT(Prune(Thorough()), IsOk());
  ExpectClean();
  const std::unique_ptr<Repository> pruned = Open();
  ASSERT_THAT(pruned->LoadIndex(ctx_), IsOk());
  EXPECT_THAT(pruned->LoadBlob(ctx_, {BlobType::kTree, Id::Of(chain[1])}), IsOkAndHolds(chain[1]));
}

}  // namespace
}  // namespace csidelta::repository::hostile_repository_test

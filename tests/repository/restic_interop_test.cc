// What stock restic and we make of each other's repositories. Each test works in a directory of its
// own.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "repository/lock.h"
#include "repository/pack_reader.h"
#include "repository/tree.h"
#include "tests/repository/restic_fixture.h"
#include "tests/repository/test_volume.h"
#include "tests/repository/verify_pack.h"
#include "tests/support/fake_secure_random.h"
#include "tests/support/status_matchers.h"

namespace csidelta::repository::restic_interop_test {
namespace {

using support::IsOk;
using support::IsOkAndHolds;
using support::Noise;
using support::Prose;
using testing::HasSubstr;
using testing::SizeIs;

// Zeros, what compresses and what does not, in uneven pieces, over more than one leaf.
std::string TestImage() {
  std::string image = Noise(3'000'000, 1);
  image += std::string(5'000'000, '\0');
  image += Prose(2'000'000, 2);
  image += std::string(60 << 20, '\0');
  image += Noise(1'234'567, 3);
  return image;
}

class ResticInteropTest : public ResticFixture {};

INSTANTIATE_TEST_SUITE_P(Releases, ResticInteropTest, EveryRestic(), NameOfRelease);

TEST_P(ResticInteropTest, ResticReadsOurs) {
  const std::string image = TestImage();
  std::unique_ptr<Repository> repository = Init();
  const absl::StatusOr<Id> id = BackUpImage(ctx_, *repository, image, kInteropChunkBytes);
  ASSERT_THAT(id, IsOk());
  ExpectResticFindsNothingWrong();
  EXPECT_THAT(RunRestic("snapshots --json").output, HasSubstr(id->Hex()));
  EXPECT_THAT(RunRestic("dump " + id->ShortHex() + " /volume.json").output,
              HasSubstr(absl::StrCat("\"size_bytes\":", image.size())));
  ExpectRestic(absl::StrCat("dump ", id->ShortHex(), " /image 2>/dev/null | tar -xOf - > ",
                            folder_.path(), "/image"));
  EXPECT_TRUE(ReadFile(Path("image")) == image);
  ExpectRestic("restore " + id->ShortHex() + " --target " + folder_.path() + "/restored");
  ExpectRestic("stats");
}

TEST_P(ResticInteropTest, WeReadOursAfterResticHasWorkedOnIt) {
  std::string image = TestImage();
  std::unique_ptr<Repository> repository = Init();
  ASSERT_THAT(BackUpImage(ctx_, *repository, image, kInteropChunkBytes), IsOk());
  image.replace(1'000'000, 5, "other");
  image.replace(40'000'000, 5, "other");
  ASSERT_THAT(repository->LoadIndex(ctx_), IsOk());
  BlobWriterOptions options;
  options.known = KnownIn(*repository);
  ASSERT_THAT(BackUpImage(ctx_, *repository, image, kInteropChunkBytes, options), IsOk());
  ExpectRestic("tag --add seen latest");
  ExpectRestic("forget --keep-last 1 --prune --max-unused 0");
  ExpectRestic("rebuild-index");
  ExpectRestic("check --read-data");

  std::unique_ptr<Repository> reader = Open();
  const absl::StatusOr<std::vector<StoredSnapshot>> snapshots = reader->ListSnapshots(ctx_);
  ASSERT_THAT(snapshots, IsOkAndHolds(SizeIs(1)));
  EXPECT_THAT(snapshots->front().snapshot.tags, testing::Contains("seen"));
  const absl::StatusOr<std::string> restored = RestoreImage(ctx_, *reader, snapshots->front().id);
  ASSERT_THAT(restored, IsOk());
  EXPECT_TRUE(*restored == image);
  ASSERT_THAT(BackUpImage(ctx_, *reader, image, kInteropChunkBytes), IsOk());
  ExpectRestic("check --read-data");
}

TEST_P(ResticInteropTest, WeReadWhatResticWrote) {
  ExpectRestic("init --repository-version 2");
  const std::filesystem::path source = Path("source");
  std::filesystem::create_directories(source / "sub <dir> & \xC3\xA4");
  const std::string big = Noise(9'000'000, 7);
  std::ofstream(source / "big", std::ios::binary) << big;
  std::ofstream(source / "odd\n\"name\"\\\xFF") << "odd";
  std::ofstream(source / "sub <dir> & \xC3\xA4" / "empty") << "";
  std::filesystem::create_symlink("big", source / "link");
  ExpectRestic("backup --tag t " + source.string());

  std::unique_ptr<Repository> reader = Open();
  const absl::StatusOr<std::vector<StoredSnapshot>> all = reader->ListSnapshots(ctx_);
  ASSERT_THAT(all, IsOkAndHolds(SizeIs(1)));
  EXPECT_THAT(all->front().snapshot.tags, testing::ElementsAre("t"));
  BlobId tree = all->front().snapshot.tree;
  std::vector<Node> nodes;
  do {  // Down to the directory that was backed up.
    const absl::StatusOr<std::string> text = reader->LoadBlob(ctx_, {BlobType::kTree, tree});
    ASSERT_THAT(text, IsOk());
    nodes = *DecodeTree(*text);
    tree = nodes.front().subtree.value_or(BlobId());
  } while (nodes.size() == 1);
  ASSERT_THAT(nodes, SizeIs(4));
  EXPECT_EQ(nodes[0].name, "big");
  EXPECT_EQ(nodes[1].name, "link");
  EXPECT_EQ(nodes[1].link_target, "big");
  EXPECT_EQ(nodes[2].name, "odd\n\"name\"\\\xFF");
  EXPECT_EQ(nodes[3].name, "sub <dir> & \xC3\xA4");
  std::string content;
  for (const BlobId& id : *nodes[0].content) {
    content += *reader->LoadBlob(ctx_, {BlobType::kData, id});
  }
  EXPECT_TRUE(content == big);
}

TEST_P(ResticInteropTest, EveryPackOfResticProvesItself) {
  ExpectRestic("init --repository-version 2");
  const std::filesystem::path source = Path("file");
  std::ofstream(source, std::ios::binary) << Noise(17'000'000, 7) << Prose(3'000'000, 8);
  ExpectRestic("backup " + source.string());
  std::unique_ptr<Repository> reader = Open();
  std::unique_ptr<BlobCodec> codec = reader->MakeCodec();
  int packs = 0;
  EXPECT_THAT(reader->ListPacks(ctx_,
                                [&](const FileInfo& file) {
                                  ++packs;
                                  const absl::StatusOr<std::string> bytes =
                                      store_->Get(ctx_, PackKey(file.id), file.size_bytes);
                                  return VerifyPack(file.id, *bytes, *codec,
                                                    [](const PackEntry&, const absl::Status&) {})
                                      .status();
                                }),
              IsOk());
  EXPECT_GE(packs, 2);
}

TEST_P(ResticInteropTest, KeysOfEitherOpenForBoth) {
  Init();
  std::ofstream(Path("password")) << "another";
  ExpectRestic("key add --new-password-file " + Path("password"));
  std::unique_ptr<Repository> repository = Open("another");
  ASSERT_THAT(repository->AddKey(ctx_, "third"), IsOk());
  EXPECT_EQ(RunRestic("snapshots", "repo", "third").exit_code, 0);
  EXPECT_THAT(repository->ListKeys(ctx_), IsOkAndHolds(SizeIs(3)));
}

TEST_P(ResticInteropTest, LocksOfEitherHoldForBoth) {
  std::unique_ptr<Repository> repository = Init();
  LockOptions options;
  options.owner.process = OwnProcess();
  {
    const auto lock = Lock::Acquire(ctx_, *repository, options);
    ASSERT_THAT(lock, IsOk());
    ExpectRestic("snapshots");
    const Outcome check = RunRestic("check");
    EXPECT_NE(check.exit_code, 0);
    EXPECT_THAT(check.output, HasSubstr("locked"));
    ExpectRestic("unlock");  // Removes stale ones only.
    EXPECT_THAT((*lock)->Fence(ctx_), IsOk());
    options.exclusive = true;
    EXPECT_TRUE(IsLocked(Lock::Acquire(ctx_, *repository, options).status()));
  }
  ExpectRestic("check");
  {
    const auto lock = Lock::Acquire(ctx_, *repository, options);
    ASSERT_THAT(lock, IsOk());
    EXPECT_NE(RunRestic("snapshots").exit_code, 0);
  }
  ExpectRestic("snapshots");
}

}  // namespace
}  // namespace csidelta::repository::restic_interop_test

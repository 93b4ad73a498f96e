// What we make of the repositories of stock restic; tests/interop has the stories of both programs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "repository/pack_reader.h"
#include "repository/tree.h"
#include "tests/repository/restic_fixture.h"
#include "tests/repository/verify_pack.h"
#include "tests/support/fake_secure_random.h"
#include "tests/support/status_matchers.h"

namespace csidelta::repository::restic_interop_test {
namespace {

using support::IsOk;
using support::IsOkAndHolds;
using support::Noise;
using support::Prose;
using testing::SizeIs;

class ResticInteropTest : public ResticFixture {};

INSTANTIATE_TEST_SUITE_P(Releases, ResticInteropTest, EveryRestic(), NameOfRelease);

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

}  // namespace
}  // namespace csidelta::repository::restic_interop_test

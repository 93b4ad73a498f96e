#include "repository/stored_packs.h"

#include <array>
#include <map>

#include "tests/repository/repository_fixture.h"

namespace csidelta::repository::stored_packs_test {
namespace {

using support::IsOk;
using support::StatusIs;
using support::StoreOperation;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using testing::SizeIs;

class StoredPacksTest : public RepositoryFixture {
 protected:
  StoredPacksTest() : repository_(Init()) {}

  void SetPacks(int folders, int count) {
    store_.SetObjects({});
    for (int i = 1; i <= count; ++i) {
      std::array<uint8_t, PackId::kBytes> bytes{};
      bytes[0] = static_cast<uint8_t>((i - 1) * folders / count);
      bytes[1] = static_cast<uint8_t>(i >> 8);
      bytes[2] = static_cast<uint8_t>(i);
      store_.SetObject(PackKey(PackId(bytes)), "x");
    }
  }

  // How often each pack was taken.
  std::map<PackId, int> List() {
    std::map<PackId, int> taken;
    store_.Restart();
    EXPECT_THAT(ListPacksFast(ctx_, *repository_,
                              [&](const FileInfo& pack) {
                                ++taken[pack.id];
                                return absl::OkStatus();
                              }),
                IsOk());
    return taken;
  }

  std::unique_ptr<Repository> repository_;
};

TEST_F(StoredPacksTest, FewPacksCostNoMoreRequestsThanTheirPages) {
  for (const int count : {0, 999, 3000}) {
    SetPacks(256, count);
    const std::map<PackId, int> taken = List();
    EXPECT_THAT(taken, SizeIs(count));
    EXPECT_THAT(taken, Each(Pair(testing::_, 1)));
    EXPECT_THAT(store_.calls(), ElementsAre(support::StoreCall{StoreOperation::kList, "data/"}));
  }
}

TEST_F(StoredPacksTest, ManyPacksAreListedByTheirFoldersEachOnce) {
  SetPacks(16, 3000);  // The first page ends in folder 05.
  const std::map<PackId, int> taken = List();
  EXPECT_THAT(taken, SizeIs(3000));
  EXPECT_THAT(taken, Each(Pair(testing::_, 1)));
  EXPECT_THAT(store_.calls(), SizeIs(1 + 256 - 5));
  store_.AddFault({.operation = StoreOperation::kList,
                   .key_prefix = "data/0a/",
                   .status = absl::UnavailableError("list data/0a/: away")});
  EXPECT_THAT(ListPacksFast(ctx_, *repository_, [](const FileInfo&) { return absl::OkStatus(); }),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("data/0a/")));
  int64_t seen = 0;
  EXPECT_THAT(ListPacksFast(ctx_, *repository_,
                            [&](const FileInfo&) {
                              return ++seen > 2000 ? absl::AbortedError("enough")
                                                   : absl::OkStatus();
                            }),
              StatusIs(absl::StatusCode::kAborted, "enough"));
}

}  // namespace
}  // namespace csidelta::repository::stored_packs_test

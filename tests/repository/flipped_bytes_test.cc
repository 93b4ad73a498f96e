// One bit of every byte of a whole repository, one after the other, is not what was written: what
// is read is right or an error, never wrong.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "absl/strings/match.h"
#include "tests/repository/maintenance_fixture.h"
#include "tests/support/index_lookup.h"

namespace csidelta::repository::flipped_bytes_test {
namespace {

using support::IsOk;
using support::IsOkAndHolds;

class FlippedBytesTest : public MaintenanceFixture {
 protected:
  FlippedBytesTest() {
    good_ = BackUp(image_);
    const std::unique_ptr<Repository> repository = Open();
    EXPECT_THAT(repository->LoadIndex(ctx_), IsOk());
    const BlobHandle root = {BlobType::kTree, repository->LoadSnapshot(ctx_, good_)->tree};
    BlobLocation place;
    EXPECT_THAT(support::FindAny(repository->index(), root, place), IsOkAndHolds(true));
    const TreeLocator locator = {.root = place};
    EXPECT_THAT(repository->SaveLocator(ctx_, good_, locator), IsOk());
    const auto lock = TakeLockNow(*repository, /*exclusive=*/false);
    EXPECT_THAT(lock, IsOk());
    objects_ = store_.objects();  // With the lock.
  }

  // Opens, locks, lists, and reads everything; trees by the locator where there is one.
  absl::StatusOr<std::string> ReadAll() {
    ASSIGN_OR_RETURN(const std::unique_ptr<Repository> repository,
                     Repository::Open(ctx_, store_, kTestPassword, environment_));
    ASSIGN_OR_RETURN(const std::unique_ptr<Lock> lock,
                     TakeLockNow(*repository, /*exclusive=*/false));
    ASSIGN_OR_RETURN(const std::vector<StoredSnapshot> all, repository->ListSnapshots(ctx_));
    const StoredSnapshot& stored = all.back();
    const absl::StatusOr<TreeLocator> locator = repository->LoadLocator(ctx_, stored.id);
    ASSIGN_OR_RETURN(const std::string root_text,
                     repository->LoadTree(ctx_, stored.snapshot.tree,
                                          locator.ok() ? locator->root : std::nullopt));
    RETURN_IF_ERROR(DecodeRootTree(root_text).status());
    RETURN_IF_ERROR(repository->LoadIndex(ctx_));
    return RestoreImage(ctx_, *repository, stored.id);
  }

  bool CheckFindsIt() {
    const auto repository = Repository::Open(ctx_, store_, kTestPassword, environment_);
    if (!repository.ok()) {
      return true;
    }
    const auto report = CheckRepository(ctx_, **repository, {.read_data = ReadEverything{}});
    return !report.ok() || report->errors > 0;
  }

  const std::string image_ = support::Noise(700, 1);
  Id good_;
  std::map<std::string, std::string> objects_;
};

TEST_F(FlippedBytesTest, NoneIsTakenForTheTruth) {
  store_.SetObjects(objects_);
  ASSERT_EQ(ReadAll().value_or(""), image_);
  std::set<std::string> kinds;
  int64_t harmless = 0;
  for (const auto& [key, bytes] : objects_) {
    kinds.insert(key.substr(0, key.find('/')));
    const bool checked = absl::StartsWith(key, "data/") || absl::StartsWith(key, "index/") ||
                         absl::StartsWith(key, "snapshots/");
    for (std::size_t at = 0; at < bytes.size(); ++at) {
      std::string spoiled = bytes;
      spoiled[at] = static_cast<char>(spoiled[at] ^ 1 << at % 8);
      store_.SetObject(key, spoiled);
      const absl::StatusOr<std::string> read = ReadAll();
      ASSERT_TRUE(!read.ok() || *read == image_) << key << " at " << at;
      harmless += read.ok() ? 1 : 0;
      ASSERT_TRUE(!checked || CheckFindsIt()) << key << " at " << at;
    }
    store_.SetObject(key, bytes);
  }
  EXPECT_EQ(kinds, (std::set<std::string>{"aux", "config", "data", "index", "keys", "locks",
                                          "snapshots"}));
  EXPECT_GT(harmless, 0);  // A locator, a lock, a pack's header: a restore does not need them.
}

}  // namespace
}  // namespace csidelta::repository::flipped_bytes_test

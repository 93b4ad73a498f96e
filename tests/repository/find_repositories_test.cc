#include "repository/find_repositories.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stop_token>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/fake_object_store.h"
#include "tests/support/status_matchers.h"

namespace csidelta::repository::find_repositories_test {
namespace {

using support::IsOkAndHolds;
using support::StatusIs;
using support::StoreOperation;
using testing::ElementsAre;
using testing::IsEmpty;

class FindRepositoriesTest : public testing::Test {
 protected:
  void Add(const std::string& folder) {
    for (const char* key : {"config", "keys/1", "index/1", "snapshots/1", "locks/1"}) {
      store_.SetObject(absl::StrCat(folder, key), "x");
    }
    for (int i = 0; i < 50; ++i) {
      store_.SetObject(absl::StrCat(folder, "data/", 10 + i, "/", i), "x");
    }
  }

  absl::StatusOr<std::vector<std::string>> Find(int depth_max = 3) {
    return FindRepositories(
        ctx_, store_, depth_max,
        [&](const std::string& folder, const absl::Status&) { unseen_.push_back(folder); });
  }

  CallContext ctx_;
  support::FakeObjectStore store_;
  std::vector<std::string> unseen_;
};

TEST_F(FindRepositoriesTest, WhereverTheFolderIsAboveThem) {
  Add("cluster/shop/1/");
  Add("cluster/shop/2/");
  Add("cluster/web/3/");
  Add("other/shop/4/");
  EXPECT_THAT(Find(), IsOkAndHolds(ElementsAre("cluster/shop/1/", "cluster/shop/2/",
                                               "cluster/web/3/", "other/shop/4/")));
  EXPECT_THAT(Find(2), IsOkAndHolds(IsEmpty()));
  EXPECT_THAT(unseen_, IsEmpty());
}

TEST_F(FindRepositoriesTest, ThePlaceItselfMayBeOne) {
  Add("");
  Add("shop/1/");
  EXPECT_THAT(Find(), IsOkAndHolds(ElementsAre("")));
}

TEST_F(FindRepositoriesTest, TheCostDoesNotGrowWithWhatTheyHold) {
  Add("cluster/shop/1/");
  Add("cluster/shop/2/");
  ASSERT_THAT(Find(), IsOkAndHolds(testing::SizeIs(2)));
  EXPECT_EQ(store_.call_count(), 5) << "the place, cluster, shop, and each repository";
}

TEST_F(FindRepositoriesTest, NamesOfPartsMakeNoRepository) {
  Add("cluster/keys/1/");
  Add("cluster/snapshots/2/");
  EXPECT_THAT(Find(), IsOkAndHolds(ElementsAre("cluster/keys/1/", "cluster/snapshots/2/")));
}

TEST_F(FindRepositoriesTest, ARepositoryWithoutItsConfigIsFound) {
  Add("cluster/shop/1/");
  store_.RemoveObject("cluster/shop/1/config");
  EXPECT_THAT(Find(), IsOkAndHolds(ElementsAre("cluster/shop/1/")));
}

TEST_F(FindRepositoriesTest, AFolderThatCannotBeListedIsNamedAndTheRestIsFound) {
  Add("cluster/shop/1/");
  Add("cluster/web/2/");
  store_.AddFault({.operation = StoreOperation::kList,
                   .key_prefix = "cluster/shop/",
                   .status = absl::PermissionDeniedError("no")});
  EXPECT_THAT(Find(), IsOkAndHolds(ElementsAre("cluster/web/2/")));
  EXPECT_THAT(unseen_, ElementsAre("cluster/shop/"));
}

TEST_F(FindRepositoriesTest, APlaceThatCannotBeListedIsAnError) {
  store_.AddFault(
      {.operation = StoreOperation::kList, .status = absl::PermissionDeniedError("no")});
  EXPECT_THAT(Find(), StatusIs(absl::StatusCode::kPermissionDenied));
}

TEST_F(FindRepositoriesTest, AStoppedSearchIsCancelled) {
  Add("cluster/shop/1/");
  std::stop_source stop;
  ctx_.stop = stop.get_token();
  stop.request_stop();
  EXPECT_THAT(Find(), StatusIs(absl::StatusCode::kCancelled));
}

}  // namespace
}  // namespace csidelta::repository::find_repositories_test

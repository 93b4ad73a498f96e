#include "diffsnap/resolver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/snapshot_objects.h"
#include "tests/support/status_matchers.h"

namespace csidelta::diffsnap::content_index_test {
namespace {

using support::StatusIs;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Of the volume "volume-1", in the namespace "app".
Json Content(const std::string& name, const std::string& handle,
             const std::string& driver = support::kDriver) {
  Json content = support::MakeContentObject(name, "app", name, handle);
  SetJson(content, {"spec", "driver"}, driver);
  SetJson(content, {"spec", "source"}, Json{{"volumeHandle", "volume-1"}});
  return content;
}

class ContentIndexTest : public testing::Test {
 protected:
  std::vector<std::string> Volumes(const std::string& handle) {
    const auto found = index_.FindByHandle(handle);
    EXPECT_THAT(found, support::IsOk());
    std::vector<std::string> volumes;
    for (const IndexedContent& one : found.value_or(std::vector<IndexedContent>())) {
      volumes.push_back(absl::StrCat(one.namespace_name, "/", one.volume_handle));
    }
    return volumes;
  }

  ContentIndex index_{support::kDriver, 3};
  k8s::Informer informer_{ContentIndex::Watched(), {&index_}};
};

TEST_F(ContentIndexTest, FindsWhatTheInformerReports) {
  EXPECT_THAT(index_.FindByHandle("h1"), StatusIs(absl::StatusCode::kAborted));
  informer_.OnPage({Content("one", "h1")}, true);
  EXPECT_THAT(index_.FindByHandle("h1"), StatusIs(absl::StatusCode::kAborted))
      << "the list goes on";
  informer_.OnPage({Content("copy", "h1"), Content("other", "h1", "other.csi.k8s.io")}, false);
  informer_.OnListed();
  EXPECT_THAT(Volumes("h1"), ElementsAre("app/volume-1", "app/volume-1"));
  EXPECT_THAT(Volumes("h2"), IsEmpty());
  informer_.OnEvent({.kind = k8s::WatchEvent::Kind::kModified, .object = Content("one", "h2")});
  EXPECT_THAT(Volumes("h2"), ElementsAre("app/volume-1"));
  informer_.OnEvent({.kind = k8s::WatchEvent::Kind::kDeleted, .object = Content("copy", "h1")});
  EXPECT_THAT(Volumes("h1"), IsEmpty());
}

TEST_F(ContentIndexTest, FindsByTheHandleOfTheSource) {
  Json imported = Content("imported", "");
  SetJson(imported, {"spec", "source"}, Json{{"snapshotHandle", "h1"}});
  informer_.OnAll({imported});
  EXPECT_THAT(Volumes("h1"), ElementsAre("app/"));
}

TEST_F(ContentIndexTest, TooManyContentsAreAnErrorUntilThereAreFewer) {
  std::vector<Json> all;
  for (int i = 0; i < 4; ++i) {
    all.push_back(Content(absl::StrCat("c", i), absl::StrCat("h", i)));
  }
  informer_.OnAll(all);
  EXPECT_THAT(index_.FindByHandle("h0"),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("delete old ones")));
  all.pop_back();
  informer_.OnAll(all);
  EXPECT_THAT(Volumes("h0"), ElementsAre("app/volume-1"));
}

TEST_F(ContentIndexTest, AHandleThatNoRequestCanNameIsNotKept) {
  informer_.OnAll({Content("long", std::string(ContentIndex::kHandleBytesMax + 1, 'x'))});
  EXPECT_THAT(Volumes(std::string(ContentIndex::kHandleBytesMax + 1, 'x')), IsEmpty());
}

}  // namespace
}  // namespace csidelta::diffsnap::content_index_test

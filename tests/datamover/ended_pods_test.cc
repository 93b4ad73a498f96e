#include "datamover/ended_pods.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "objects/keys.h"
#include "tests/support/typed.h"

namespace csidelta::datamover::ended_pods_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr char kRepository[] = "s3:http://s3/b/one";

objects::Pod As(const Json& pod) { return support::As<objects::Pod>(pod); }

// A Pod whose container is as `state` says.
Json PodWith(const std::string& uid, const Json& state,
             const std::string& repository = kRepository) {
  Json pod = {{"metadata",
               {{"uid", uid}, {"annotations", {{objects::kRepositoryAnnotation, repository}}}}}};
  pod["status"] = {{"phase", "Failed"}, {"containerStatuses", Json::array({{{"state", state}}})}};
  return pod;
}
Json Terminated(const std::string& reason = "Error") {
  return {
      {"terminated", {{"exitCode", 137}, {"reason", reason}, {"containerID", "containerd://1"}}}};
}

TEST(EndedPodsTest, OnlyTheKubeletsStatusCounts) {
  EndedPods ended;
  ended.Record(As(PodWith("running", {{"running", Json::object()}})));
  ended.Record(
      As(PodWith("never-seen", {{"terminated", {{"exitCode", 137}, {"containerID", ""}}}})));
  ended.Record(As(PodWith("not-found", Terminated("ContainerStatusUnknown"))));
  Json failed = PodWith("lost-with-its-node", Json());
  failed["status"].erase("containerStatuses");
  ended.Record(As(failed));
  failed["status"]["containerStatuses"] = "none";
  ended.Record(As(failed));
  Json two = PodWith("half", Terminated());
  two["status"]["containerStatuses"].push_back({{"state", {{"running", Json::object()}}}});
  ended.Record(As(two));
  ended.Record(objects::Pod());
  EXPECT_THAT(ended.Of(kRepository), IsEmpty());
  ended.Record(As(PodWith("dead", Terminated())));
  ended.Record(As(PodWith("dead", Terminated())));
  EXPECT_THAT(ended.Of(kRepository), ElementsAre("dead"));
  EXPECT_TRUE(ended.Has("dead"));
  EXPECT_FALSE(ended.Has("half"));
}

TEST(EndedPodsTest, TheNewestOfEachRepositoryAreKept) {
  EndedPods ended;
  for (std::size_t i = 0; i < EndedPods::kAllMax + 10; ++i) {
    ended.Record(As(PodWith(absl::StrCat("p", i), Terminated(), i % 2 == 0 ? "even" : "odd")));
  }
  EXPECT_THAT(ended.Of("even"), SizeIs(EndedPods::kOfOneRepositoryMax));
  EXPECT_EQ(ended.Of("even").front(), absl::StrCat("p", EndedPods::kAllMax + 8));
  EXPECT_FALSE(ended.Has("p9"));
  EXPECT_TRUE(ended.Has("p10"));
}

}  // namespace
}  // namespace csidelta::datamover::ended_pods_test

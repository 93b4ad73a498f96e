#include "tests/support/fake_api_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "k8s/object.h"
#include "tests/support/status_matchers.h"

// Its admission hook and its memory; all else is in tests/contract/api_client_contract.
namespace csidelta::k8s::fake_api_client_test {
namespace {

using support::FakeApiClient;
using support::IsOk;
using support::StatusIs;
using testing::ElementsAre;
using testing::IsEmpty;

const ResourceType kClaims{"", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", true};
const ObjectKey kData{kClaims, "ns", "data"};

class FakeAdmissionTest : public testing::Test {
 protected:
  FakeAdmissionTest() {
    api_.SetAdmission([this](const FakeApiClient::AdmissionRequest& request) {
      operations_.push_back(request.operation);
      return Decide(request);
    });
  }
  absl::StatusOr<Json> Decide(const FakeApiClient::AdmissionRequest& request) {
    if (!answer_.ok()) {
      return answer_;
    }
    Json object = request.object;
    if (!object.is_null()) {
      SetJson(object, {"metadata", "labels", "admitted"}, request.operation);
    }
    return object;
  }
  static Json Claim() {
    return {
        {"apiVersion", "v1"}, {"kind", "PersistentVolumeClaim"}, {"metadata", {{"name", "data"}}}};
  }
  absl::StatusOr<Json> Annotate(const std::string& value) {
    return api_.Patch({}, kData, PatchKind::kMerge,
                      {{"metadata", {{"annotations", {{"a", value}}}}}}, "");
  }

  FakeApiClient api_;
  std::vector<std::string> operations_;
  absl::Status answer_;
};

TEST_F(FakeAdmissionTest, StoresWhatAdmissionMakesOfAnObject) {
  const absl::StatusOr<Json> made = api_.Create({}, kClaims, "ns", Claim());
  ASSERT_THAT(made, IsOk());
  EXPECT_EQ(Label(*made, "admitted"), "CREATE");
  const absl::StatusOr<Json> patched = Annotate("1");
  ASSERT_THAT(patched, IsOk());
  EXPECT_EQ(Label(*patched, "admitted"), "UPDATE");
  EXPECT_EQ(Annotation(*patched, "a"), "1");
}

TEST_F(FakeAdmissionTest, ARefusedWriteIsNotDone) {
  ASSERT_THAT(api_.Create({}, kClaims, "ns", Claim()), IsOk());
  answer_ = absl::PermissionDeniedError("no");
  const auto is_refused = StatusIs(absl::StatusCode::kPermissionDenied);
  Json other = Claim();
  SetJson(other, {"metadata", "name"}, "other");
  EXPECT_THAT(api_.Create({}, kClaims, "ns", other), is_refused);
  EXPECT_THAT(api_.DryRunCreate({}, kClaims, "ns", other), is_refused);
  EXPECT_THAT(Annotate("1"), is_refused);
  EXPECT_THAT(api_.Delete({}, kData, {}), is_refused);
  EXPECT_EQ(api_.All(kClaims).size(), 1);
  EXPECT_EQ(Annotation(api_.Find(kData).value_or(Json()), "a"), "");
}

TEST_F(FakeAdmissionTest, IsAskedOfEachWriteButThoseOfAStatus) {
  ASSERT_THAT(api_.Create({}, kClaims, "ns", Claim()), IsOk());
  ASSERT_THAT(
      api_.Patch({}, kData, PatchKind::kMerge, {{"status", {{"phase", "Bound"}}}}, "status"),
      IsOk());
  ASSERT_THAT(api_.Delete({}, kData, {}), IsOk());
  EXPECT_THAT(operations_, ElementsAre("CREATE", "DELETE"));
  EXPECT_THAT(api_.All(kClaims), IsEmpty());
}

TEST_F(FakeAdmissionTest, APatchIsMadeAgainOfWhatChangedMeanwhile) {
  ASSERT_THAT(api_.Create({}, kClaims, "ns", Claim()), IsOk());
  bool is_first = true;
  api_.SetAdmission([&](const FakeApiClient::AdmissionRequest& request) {
    if (is_first) {
      is_first = false;
      api_.SetField(kData, {"metadata", "labels", "b"}, "2");
    }
    return absl::StatusOr<Json>(request.object);
  });
  const absl::StatusOr<Json> patched = Annotate("1");
  ASSERT_THAT(patched, IsOk());
  EXPECT_EQ(Annotation(*patched, "a"), "1");
  EXPECT_EQ(Label(*patched, "b"), "2");
}

// Three changes, of which the last two are remembered.
class FakeHistoryTest : public testing::Test {
 protected:
  FakeHistoryTest() {
    api_.LimitHistory(2);
    for (const char* name : {"a", "b", "c"}) {
      const Json claim = {{"metadata", {{"name", name}, {"namespace", "ns"}}}};
      versions_.push_back(ResourceVersion(api_.Seed(kClaims, claim)));
    }
  }
  // What a watch from there sees first, or why it sees nothing.
  absl::StatusOr<std::string> FirstAfter(const std::string& version) {
    std::string first;
    const absl::Status seen =
        api_.Watch({}, kClaims, "ns",
                   {.label_selector = "", .field_selector = "", .resource_version = version},
                   [&](const WatchEvent& event) {
                     first = Name(event.object);
                     return false;
                   });
    return seen.ok() ? absl::StatusOr<std::string>(first) : seen;
  }

  FakeApiClient api_;
  std::vector<std::string> versions_;
};

TEST_F(FakeHistoryTest, WatchesGoOnFromWhatIsRemembered) {
  EXPECT_EQ(*FirstAfter(versions_[0]), "b");
  EXPECT_EQ(*FirstAfter(versions_[1]), "c");
}

TEST_F(FakeHistoryTest, WatchesFromBeforeAreTooOld) {
  api_.Remove({kClaims, "ns", "a"});
  EXPECT_THAT(FirstAfter(versions_[0]), StatusIs(absl::StatusCode::kOutOfRange));
  EXPECT_EQ(*FirstAfter(versions_[1]), "c");
}

TEST_F(FakeHistoryTest, AWatchThatIsTooSlowEnds) {
  int events = 0;
  const absl::Status seen = api_.Watch(
      {}, kClaims, "ns",
      {.label_selector = "", .field_selector = "", .resource_version = versions_[1]},
      [&](const WatchEvent&) {
        for (int i = 0; events == 0 && i < 3; ++i) {
          api_.SetField({kClaims, "ns", "a"}, {"metadata", "labels", "n"}, std::to_string(i));
        }
        ++events;
        return true;
      });
  EXPECT_THAT(seen, StatusIs(absl::StatusCode::kOutOfRange));
  EXPECT_EQ(events, 1);
}

}  // namespace
}  // namespace csidelta::k8s::fake_api_client_test

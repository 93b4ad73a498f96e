#include "tests/support/longhorn/admission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>

#include "k8s/object.h"
#include "tests/support/longhorn/kinds.h"
#include "tests/support/status_matchers.h"

namespace csidelta::longhorn_stand_in::admission_test {
namespace {

using support::IsOk;
using support::StatusIs;
using testing::HasSubstr;

class FakeVolumes : public VolumeLookup {
 public:
  std::optional<Json> FindVolume(const std::string& name) const override {
    const auto found = volumes.find(name);
    return found == volumes.end() ? std::nullopt : std::optional(found->second);
  }
  std::string VolumeWithLabel(const std::string& key, const std::string& value) const override {
    for (const auto& [name, volume] : volumes) {
      if (k8s::Label(volume, key) == value) {
        return name;
      }
    }
    return "";
  }

  int ShownSnapshots(const std::string&) const override { return 0; }

  std::map<std::string, Json> volumes = {
      {"pvc-1", {{"metadata", {{"name", "pvc-1"}, {"uid", "u-1"}}}}}};
};

class AdmissionTest : public testing::Test {
 protected:
  static Json Snapshot() {
    return {{"apiVersion", kApiVersion},
            {"kind", "Snapshot"},
            {"metadata", {{"name", "one"}, {"namespace", "elsewhere"}}},
            {"spec", {{"volume", "pvc-1"}, {"createSnapshot", true}}}};
  }
  static Json ReviewOf(const std::string& operation, const Json& object,
                       const std::string& plural = "snapshots") {
    return {{"apiVersion", "admission.k8s.io/v1"},
            {"kind", "AdmissionReview"},
            {"request",
             {{"uid", "r-1"},
              {"operation", operation},
              {"resource", {{"group", kGroup}, {"version", kVersion}, {"resource", plural}}},
              {"name", k8s::Name(object)},
              {"object", object},
              {"oldObject", Json()}}}};
  }
  absl::StatusOr<Json> ValidateCreate(const Json& object) const {
    absl::StatusOr<Json> answer =
        AnswerReview(Webhook::kValidator, ReviewOf("CREATE", object), volumes_, rules_);
    if (!answer.ok()) {
      return answer;
    }
    EXPECT_EQ(GetString(*answer, {"response", "uid"}), "r-1");
    return ApplyAnswer(Webhook::kValidator, *answer, object);
  }

  FakeVolumes volumes_;
  AdmissionRules rules_;
};

TEST_F(AdmissionTest, ARefusalHasCodeAndReason) {
  Json snapshot = Snapshot();
  snapshot["spec"]["volume"] = "pvc-2";
  const absl::StatusOr<Json> answer =
      AnswerReview(Webhook::kMutator, ReviewOf("CREATE", snapshot), volumes_, rules_);
  ASSERT_THAT(answer, IsOk());
  EXPECT_EQ(GetInt(*answer, {"response", "status", "code"}), 422);
  EXPECT_EQ(GetString(*answer, {"response", "status", "reason"}), "Invalid");
}

TEST_F(AdmissionTest, TheValidatorRefusesBadLabelsNoVolumeAndLegacyLinkedClones) {
  Json snapshot = Snapshot();
  SetJson(snapshot, {"metadata", "labels", "a"}, "b=c");
  EXPECT_THAT(ValidateCreate(snapshot),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("a=b=c")));
  snapshot = Snapshot();
  snapshot["spec"].erase("volume");
  EXPECT_THAT(ValidateCreate(snapshot),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("spec.volume is required")));
  EXPECT_THAT(ValidateCreate(Snapshot()), IsOk());
  SetJson(volumes_.volumes["pvc-1"], {"metadata", "labels", kLegacyLinkedCloneLabel}, "true");
  EXPECT_THAT(ValidateCreate(Snapshot()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("legacy linked clone")));
}

TEST_F(AdmissionTest, LabelsOfTheSpecAreNotValidated) {
  Json snapshot = Snapshot();
  SetJson(snapshot, {"spec", "labels"}, Json{{"a=b", "c\nd"}});
  EXPECT_THAT(ValidateCreate(snapshot), IsOk());
}

TEST_F(AdmissionTest, OtherKindsAreAllowed) {
  for (const Webhook webhook : {Webhook::kMutator, Webhook::kValidator}) {
    const absl::StatusOr<Json> answer = AnswerReview(
        webhook, ReviewOf("UPDATE", Json::object(), "persistentvolumeclaims"), volumes_, rules_);
    ASSERT_THAT(answer, IsOk());
    EXPECT_TRUE(GetBool(*answer, {"response", "allowed"}));
    EXPECT_EQ(FindJson(*answer, {"response", "patch"}), nullptr);
  }
}

TEST_F(AdmissionTest, AnObjectThatIsNoReviewIsAnError) {
  EXPECT_THAT(AnswerReview(Webhook::kMutator, Json::object(), volumes_, rules_),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace csidelta::longhorn_stand_in::admission_test

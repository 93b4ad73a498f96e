#include "tests/support/longhorn/admission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>

#include "absl/strings/escaping.h"
#include "k8s/object.h"
#include "tests/support/longhorn/kinds.h"
#include "tests/support/status_matchers.h"

namespace csidelta::longhorn_stand_in::admission_test {
namespace {

using support::IsOk;
using support::StatusIs;
using testing::AllOf;
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

  std::map<std::string, Json> volumes = {
      {"pvc-1", {{"metadata", {{"name", "pvc-1"}, {"uid", "u-1"}}}}}};
};

class AdmissionTest : public testing::Test {
 protected:
  static Json Snapshot(const std::string& name = "one") {
    return {{"apiVersion", kApiVersion},
            {"kind", "Snapshot"},
            {"metadata", {{"name", name}, {"namespace", "elsewhere"}}},
            {"spec", {{"volume", "pvc-1"}, {"createSnapshot", true}}}};
  }
  // One that was let in.
  Json Stored(const std::string& name = "one") const {
    return Create(Snapshot(name)).value_or(Json());
  }
  static Json ReviewOf(const std::string& operation, const Json& object, const Json& old_object,
                       const std::string& plural = "snapshots") {
    const Json& named = object.is_null() ? old_object : object;
    return {{"apiVersion", "admission.k8s.io/v1"},
            {"kind", "AdmissionReview"},
            {"request",
             {{"uid", "r-1"},
              {"operation", operation},
              {"resource", {{"group", kGroup}, {"version", kVersion}, {"resource", plural}}},
              {"name", k8s::Name(named)},
              {"object", object},
              {"oldObject", old_object}}}};
  }
  absl::StatusOr<Json> Ask(Webhook webhook, const std::string& operation, const Json& object,
                           const Json& old_object) const {
    absl::StatusOr<Json> answer =
        AnswerReview(webhook, ReviewOf(operation, object, old_object), volumes_, rules_);
    if (!answer.ok()) {
      return answer;
    }
    EXPECT_EQ(GetString(*answer, {"response", "uid"}), "r-1");
    return ApplyAnswer(webhook, *answer, object);
  }
  absl::StatusOr<Json> Create(const Json& object) const {
    return Ask(Webhook::kMutator, "CREATE", object, Json());
  }
  absl::StatusOr<Json> ValidateUpdate(const Json& object) const {
    return Ask(Webhook::kValidator, "UPDATE", object, Stored());
  }
  absl::StatusOr<Json> Delete(const std::string& name) const {
    return Ask(Webhook::kValidator, "DELETE", Json(), Stored(name));
  }

  FakeVolumes volumes_;
  AdmissionRules rules_;
};

TEST_F(AdmissionTest, CreateAddsLabelFinalizerAndOwner) {
  Json snapshot = Snapshot();
  SetJson(snapshot, {"metadata", "labels", "team"}, "a");
  SetJson(snapshot, {"metadata", "finalizers"}, Json::array({"x.io/mine"}));
  const absl::StatusOr<Json> made = Create(snapshot);
  ASSERT_THAT(made, IsOk());
  EXPECT_EQ(k8s::Label(*made, kVolumeLabel), "pvc-1");
  EXPECT_EQ(k8s::Label(*made, "team"), "a");
  EXPECT_EQ((*made)["metadata"]["finalizers"], Json::array({"x.io/mine", "longhorn.io"}));
  EXPECT_EQ(
      (*made)["metadata"]["ownerReferences"],
      Json::array(
          {{{"apiVersion", kApiVersion}, {"kind", "Volume"}, {"name", "pvc-1"}, {"uid", "u-1"}}}));
}

TEST_F(AdmissionTest, AnOwnerThatTheClientSetStays) {
  Json snapshot = Snapshot();
  const Json owners = Json::array({{{"kind", "Volume"}, {"name", "other"}, {"uid", "u-9"}}});
  SetJson(snapshot, {"metadata", "ownerReferences"}, owners);
  const absl::StatusOr<Json> made = Create(snapshot);
  ASSERT_THAT(made, IsOk());
  EXPECT_EQ((*made)["metadata"]["ownerReferences"], owners);
}

TEST_F(AdmissionTest, CreateWithoutItsVolumeIsInvalid) {
  Json snapshot = Snapshot();
  snapshot["spec"]["volume"] = "pvc-2";
  EXPECT_THAT(Create(snapshot),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "admission webhook \"mutator.longhorn.io\" denied the request: failed to "
                       "get volume pvc-2: volume.longhorn.io \"pvc-2\" not found"));
}

TEST_F(AdmissionTest, ARefusalHasCodeAndReason) {
  Json snapshot = Snapshot();
  snapshot["spec"]["volume"] = "pvc-2";
  const absl::StatusOr<Json> answer =
      AnswerReview(Webhook::kMutator, ReviewOf("CREATE", snapshot, Json()), volumes_, rules_);
  ASSERT_THAT(answer, IsOk());
  EXPECT_EQ(GetInt(*answer, {"response", "status", "code"}), 422);
  EXPECT_EQ(GetString(*answer, {"response", "status", "reason"}), "Invalid");
}

TEST_F(AdmissionTest, TheValidatorRefusesBadLabelsNoVolumeAndLegacyLinkedClones) {
  Json snapshot = Snapshot();
  SetJson(snapshot, {"metadata", "labels", "a"}, "b=c");
  EXPECT_THAT(Ask(Webhook::kValidator, "CREATE", snapshot, Json()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("a=b=c")));
  snapshot = Snapshot();
  snapshot["spec"].erase("volume");
  EXPECT_THAT(Ask(Webhook::kValidator, "CREATE", snapshot, Json()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("spec.volume is required")));
  EXPECT_THAT(Ask(Webhook::kValidator, "CREATE", Snapshot(), Json()), IsOk());
  SetJson(volumes_.volumes["pvc-1"], {"metadata", "labels", kLegacyLinkedCloneLabel}, "true");
  EXPECT_THAT(Ask(Webhook::kValidator, "CREATE", Snapshot(), Json()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("legacy linked clone")));
}

TEST_F(AdmissionTest, LabelsOfTheSpecAreNotValidated) {
  Json snapshot = Snapshot();
  SetJson(snapshot, {"spec", "labels"}, Json{{"a=b", "c\nd"}});
  EXPECT_THAT(Ask(Webhook::kValidator, "CREATE", snapshot, Json()), IsOk());
}

TEST_F(AdmissionTest, AFinalizerThatIsRemovedComesBack) {
  Json changed = Stored();
  EraseJson(changed, {"metadata", "finalizers"});
  const absl::StatusOr<Json> updated = Ask(Webhook::kMutator, "UPDATE", changed, Stored());
  ASSERT_THAT(updated, IsOk());
  EXPECT_EQ((*updated)["metadata"]["finalizers"], Json::array({"longhorn.io"}));
}

TEST_F(AdmissionTest, AFinalizerOfOneBeingDeletedCanBeRemoved) {
  Json changed = Stored();
  EraseJson(changed, {"metadata", "finalizers"});
  SetJson(changed, {"metadata", "deletionTimestamp"}, "2026-01-01T00:00:00Z");
  const absl::StatusOr<Json> updated = Ask(Webhook::kMutator, "UPDATE", changed, Stored());
  ASSERT_THAT(updated, IsOk());
  EXPECT_EQ(FindJson(*updated, {"metadata", "finalizers"}), nullptr);
}

TEST_F(AdmissionTest, VolumeOwnerAndVolumeLabelAreImmutable) {
  Json changed = Stored();
  changed["spec"]["volume"] = "pvc-2";
  EXPECT_THAT(ValidateUpdate(changed),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "admission webhook \"validator.longhorn.io\" denied the request: "
                       "spec.volume field is immutable"));
  changed = Stored();
  EraseJson(changed, {"metadata", "ownerReferences"});
  EXPECT_THAT(ValidateUpdate(changed), StatusIs(absl::StatusCode::kInvalidArgument,
                                                HasSubstr("OwnerReferences field is immutable")));
  changed = Stored();
  EraseJson(changed, {"metadata", "labels", kVolumeLabel});
  EXPECT_THAT(ValidateUpdate(changed), StatusIs(absl::StatusCode::kInvalidArgument,
                                                HasSubstr("label longhornvolume is immutable")));
}

Json WithOtherSpecAndLabels(Json snapshot) {
  snapshot["spec"]["createSnapshot"] = false;
  SetJson(snapshot, {"spec", "labels", "a"}, "b");
  SetJson(snapshot, {"metadata", "labels", "team"}, "b");
  return snapshot;
}

TEST_F(AdmissionTest, TheRestOfSpecAndLabelsIsMutable) {
  EXPECT_THAT(ValidateUpdate(WithOtherSpecAndLabels(Stored())), IsOk());
}

TEST_F(AdmissionTest, AsProposedSpecAndLabelsAreImmutable) {
  rules_.as_proposed = true;
  EXPECT_THAT(ValidateUpdate(Stored()), IsOk());
  EXPECT_THAT(ValidateUpdate(WithOtherSpecAndLabels(Stored())),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("spec is immutable")));
  Json relabelled = Stored();
  SetJson(relabelled, {"metadata", "labels", "team"}, "b");
  EXPECT_THAT(ValidateUpdate(relabelled),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("labels are immutable")));
}

TEST_F(AdmissionTest, OneThatALinkedCloneStandsOnCannotBeDeleted) {
  EXPECT_THAT(Delete("one"), IsOk());
  SetJson(volumes_.volumes["pvc-1"], {"metadata", "labels", kLinkedCloneLabel}, "one");
  EXPECT_THAT(Delete("one"), StatusIs(absl::StatusCode::kPermissionDenied,
                                      HasSubstr("admission webhook \"validator.longhorn.io\" "
                                                "denied the request: ")));
  EXPECT_THAT(Delete("two"), IsOk());
}

TEST_F(AdmissionTest, OneWithALongNameCanNeverBeDeleted) {
  EXPECT_THAT(Delete(std::string(63, 'n')), IsOk());
  EXPECT_THAT(Delete(std::string(64, 'n')),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("denied the request: failed to check if snapshot nnn"),
                             HasSubstr("is a linked-clone entrypoint"),
                             HasSubstr("must be no more than 63 bytes"))));
}

TEST_F(AdmissionTest, OtherKindsAreAllowed) {
  for (const Webhook webhook : {Webhook::kMutator, Webhook::kValidator}) {
    const absl::StatusOr<Json> answer = AnswerReview(
        webhook, ReviewOf("UPDATE", Json::object(), Json::object(), "persistentvolumeclaims"),
        volumes_, rules_);
    ASSERT_THAT(answer, IsOk());
    EXPECT_TRUE(GetBool(*answer, {"response", "allowed"}));
    EXPECT_EQ(FindJson(*answer, {"response", "patch"}), nullptr);
  }
}

TEST_F(AdmissionTest, WhatIsNoReviewIsAnError) {
  EXPECT_THAT(AnswerReview(Webhook::kMutator, Json::object(), volumes_, rules_),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(AdmissionTest, AnUnreachableWebhookIsTold) {
  EXPECT_THAT(UnreachableError(Webhook::kMutator),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr("failed calling webhook \"mutator.longhorn.io\"")));
}

}  // namespace
}  // namespace csidelta::longhorn_stand_in::admission_test

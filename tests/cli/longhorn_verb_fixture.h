#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/json.h"
#include "k8s/object.h"
#include "longhorn/types.h"
#include "tests/cli/program_runner.h"
#include "tests/support/api_test_server.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/kind_names.h"
#include "tests/support/longhorn/fake_longhorn.h"
#include "tests/support/longhorn_objects.h"
#include "tests/support/snapshot_objects.h"
#include "tests/support/status_matchers.h"

namespace csidelta::cli {

// `csi-delta longhorn VERB` against the stand-in of Longhorn, with the volume pvc-1 of PVC
// shop/data, attached.
class LonghornVerbTest : public testing::Test {
 protected:
  explicit LonghornVerbTest(std::string verb)
      : verb_(std::move(verb)),
        api_server_(api_,
                    {longhorn::Snapshot::Type(), longhorn::Volume::Type(),
                     longhorn::RecurringJob::Type(), longhorn::Backup::Type(),
                     VolumeSnapshotContentType(), PersistentVolumeClaimType(), BackupType()}) {
    program_.Write("kubeconfig", api_server_.Kubeconfig());
    Volume("pvc-1", "data");
    longhorn_.Attach("pvc-1");
    longhorn_.Pass(absl::Seconds(10));
  }

  static k8s::ObjectKey Key(const k8s::ResourceType& type, const std::string& name) {
    return {type, longhorn::kDefaultNamespace, name};
  }
  // A detached one.
  void Volume(const std::string& name, const std::string& pvc) {
    longhorn_.AddVolume(name);
    Change(longhorn::Volume::Type(), name, {"status", "kubernetesStatus"},
           Json{{"namespace", "shop"}, {"pvcName", pvc}});
  }
  // One that Longhorn took, of a RecurringJob if one is named.
  void Take(const std::string& name, const std::string& job = "",
            const std::string& volume = "pvc-1") {
    Json object = support::MakeLonghornObject("Snapshot", name);
    EraseJson(object, {"metadata", "uid"});
    object["spec"] = {{"volume", volume}, {"createSnapshot", true}};
    if (!job.empty()) {
      SetJson(object, {"spec", "labels", "RecurringJob"}, job);
    }
    ASSERT_THAT(api_.Create({}, longhorn::Snapshot::Type(), longhorn::kDefaultNamespace, object),
                support::IsOk());
    longhorn_.Pass(absl::Seconds(10));
  }
  // A VolumeSnapshot of namespace shop stands for it.
  void Need(const std::string& name, const std::string& volume_snapshot) {
    api_.Seed(VolumeSnapshotContentType(),
              support::MakeContentObject(absl::StrCat("content-of-", name), "shop", volume_snapshot,
                                         absl::StrCat("snap://pvc-1/", name)));
  }
  void Change(const k8s::ResourceType& type, const std::string& name, JsonPath path,
              const Json& value) {
    ASSERT_TRUE(api_.Mutate(Key(type, name), [&](Json& object) { SetJson(object, path, value); }));
  }
  bool IsGoing(const std::string& name) const {
    const std::optional<Json> object = api_.Find(Key(longhorn::Snapshot::Type(), name));
    return !object.has_value() || k8s::BeingDeleted(*object);
  }

  Outcome Run(std::vector<std::string> words, std::stop_token stop = {}) const {
    words.insert(words.begin(), {"--kubeconfig", program_.Path("kubeconfig"), "longhorn", verb_});
    return program_.Run(words, std::move(stop));
  }
  Json RunJson(std::vector<std::string> words, ExitCode code = ExitCode::kOk) const {
    words.insert(words.end(), {"-o", "json"});
    const Outcome outcome = Run(words);
    EXPECT_EQ(outcome.code, code) << outcome.error;
    const absl::StatusOr<Json> json = ParseJson(outcome.out);
    EXPECT_THAT(json, support::IsOk()) << outcome.out;
    return json.value_or(Json());
  }

  const std::string verb_;
  ProgramRunner program_;
  longhorn_stand_in::FakeLonghorn longhorn_;
  support::FakeApiClient& api_ = longhorn_.api();
  support::ApiTestServer api_server_;
};

// What others may have written into texts that are shown.
inline std::string HostileLonghornText() { return "red \x1b[31m\x07 line\n next \u202e turned"; }

}  // namespace csidelta::cli

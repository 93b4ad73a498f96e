#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/json.h"
#include "csi/snapshot_types.h"
#include "objects/keys.h"
#include "tests/cli/program_runner.h"
#include "tests/support/api_test_server.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/snapshot_objects.h"

namespace csidelta::cli {

// `csi-delta snapshot VERB` against an API server that holds VolumeSnapshots of PVCs.
class SnapshotVerbTest : public testing::Test {
 protected:
  explicit SnapshotVerbTest(const std::string& verb)
      : verb_(verb),
        api_server_(api_, {csi::VolumeSnapshotType(), csi::VolumeSnapshotContentType(),
                           csi::PersistentVolumeClaimType(), csi::EventType(), csi::BackupType()}) {
    program_.Write("kubeconfig", api_server_.Kubeconfig());
  }

  // A Ready VolumeSnapshot of PVC "data" that the verbs made, old enough to be pruned, with the
  // content content-of-NAME and the handle handle-of-NAME.
  void Ready(const std::string& name, const std::string& taken, const std::string& space = "shop") {
    Json snapshot = support::MakeSnapshotObject(space, name, "content-of-" + name,
                                                {{objects::kMadeByLabel, "csi-delta"}});
    SetJson(snapshot, {"metadata", "creationTimestamp"}, taken);
    SetJson(snapshot, {"status", "readyToUse"}, true);
    SetJson(snapshot, {"status", "creationTime"}, taken);
    SetJson(snapshot, {"status", "restoreSize"}, "1Gi");
    api_.Seed(csi::VolumeSnapshotType(), snapshot);
    api_.Seed(csi::VolumeSnapshotContentType(),
              support::MakeContentObject("content-of-" + name, space, name, "handle-of-" + name));
  }
  void Change(const std::string& name, JsonPath path, const Json& value) {
    ASSERT_TRUE(api_.Mutate(csi::VolumeSnapshotKey("shop", name),
                            [&](Json& snapshot) { SetJson(snapshot, path, value); }));
  }
  void ChangeContent(const std::string& name, JsonPath path, const Json& value) {
    ASSERT_TRUE(api_.Mutate(csi::VolumeSnapshotContentKey("content-of-" + name),
                            [&](Json& content) { SetJson(content, path, value); }));
  }
  void Label(const std::string& name, const char* key, const std::string& value) {
    Change(name, {"metadata", "labels", key}, value);
  }
  // A PVC of the namespace that is to be filled from it, and is not bound.
  void FillFrom(const std::string& name, const std::string& pvc) {
    Json claim = support::MakeObject("v1", "PersistentVolumeClaim", "shop", pvc);
    SetJson(claim, {"spec", "dataSource"}, Json{{"kind", "VolumeSnapshot"}, {"name", name}});
    api_.Seed(csi::PersistentVolumeClaimType(), claim);
  }
  bool IsThere(const std::string& name) const {
    return api_.Find(csi::VolumeSnapshotKey("shop", name)).has_value();
  }
  bool IsContentThere(const std::string& name) const {
    return api_.Find(csi::VolumeSnapshotContentKey("content-of-" + name)).has_value();
  }

  Outcome Run(const std::vector<std::string>& more) const {
    std::vector<std::string> words = {"--kubeconfig", program_.Path("kubeconfig"), "snapshot",
                                      verb_};
    words.insert(words.end(), more.begin(), more.end());
    return program_.Run(words);
  }
  // What -o json prints in namespace shop.
  Json RunJson(std::vector<std::string> more, ExitCode code = ExitCode::kOk) const {
    more.insert(more.end(), {"-n", "shop", "-o", "json"});
    const Outcome outcome = Run(more);
    EXPECT_EQ(outcome.code, code) << outcome.error;
    return ParseJson(outcome.out).value_or(Json());
  }

  // What a driver, a user or an attacker may have written.
  static std::string HostileText() {
    return "red \x1b[31m\x07 back \b line\n next \u202e turned \u2028 " +
           std::string(64 << 10, 'x');
  }
  // Nothing in `text` makes a terminal do anything but show it, or begins a line of its own.
  static void ExpectHarmless(const std::string& text) {
    for (const char* const control : {"\x1b", "\x07", "\b", "\u202e", "\u2028"}) {
      EXPECT_EQ(text.find(control), std::string::npos);
    }
    EXPECT_EQ(text.find("\n next"), std::string::npos);
  }

  const std::string verb_;
  ProgramRunner program_;
  support::FakeApiClient api_;
  support::ApiTestServer api_server_;
};

}  // namespace csidelta::cli

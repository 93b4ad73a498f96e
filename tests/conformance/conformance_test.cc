// The kit for driver authors against the test driver, whose volumes are files: an honest driver
// passes, and each lie is found by the name of the rule that it breaks.
#include "conformance/conformance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "conformance/volume_file.h"
#include "tests/csi_driver/driver_fixture.h"
#include "tests/support/status_matchers.h"

namespace csidelta::conformance::conformance_test {
namespace {

namespace pb = ::csi::v1;
using support::IsOk;
using support::StatusIs;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::IsSupersetOf;

// Puts a volume's file where the device is wanted: without root there are no loop devices. Refuses
// what is out of order.
class LinkingNode final : public pb::Node::Service {
 public:
  // Devices lack `header_bytes` of their volumes, as those of LUKS do.
  LinkingNode(const csi_driver::Store& store, bool stages, std::size_t header_bytes)
      : store_(store), stages_(stages), header_bytes_(header_bytes) {}

  // Volumes that are staged, and those that are published.
  std::size_t MountCount() const {
    const std::lock_guard lock(mutex_);
    return staged_.size() + published_.size();
  }

  grpc::Status NodeStageVolume(grpc::ServerContext*, const pb::NodeStageVolumeRequest* request,
                               pb::NodeStageVolumeResponse*) override {
    const std::lock_guard lock(mutex_);
    const Place place = {request->volume_id(), request->staging_target_path()};
    return Unless(stages_ && request->volume_capability().has_block() && !place.second.empty() &&
                  staged_.insert(place).second);
  }
  grpc::Status NodePublishVolume(grpc::ServerContext*, const pb::NodePublishVolumeRequest* request,
                                 pb::NodePublishVolumeResponse*) override {
    const std::lock_guard lock(mutex_);
    const bool staged = staged_.contains({request->volume_id(), request->staging_target_path()});
    if (staged != stages_ || !request->volume_capability().has_block()) {
      return Unless(false);
    }
    const std::string volume = store_.VolumePath(request->volume_id());
    if (header_bytes_ > 0) {
      std::filesystem::resize_file(volume, std::filesystem::file_size(volume) - header_bytes_);
    }
    std::filesystem::create_symlink(volume, request->target_path());
    published_.insert({request->volume_id(), request->target_path()});
    return grpc::Status::OK;
  }
  grpc::Status NodeUnpublishVolume(grpc::ServerContext*,
                                   const pb::NodeUnpublishVolumeRequest* request,
                                   pb::NodeUnpublishVolumeResponse*) override {
    const std::lock_guard lock(mutex_);
    published_.erase({request->volume_id(), request->target_path()});
    std::filesystem::remove(request->target_path());
    return grpc::Status::OK;
  }
  grpc::Status NodeUnstageVolume(grpc::ServerContext*, const pb::NodeUnstageVolumeRequest* request,
                                 pb::NodeUnstageVolumeResponse*) override {
    const std::lock_guard lock(mutex_);
    const bool published =
        std::any_of(published_.begin(), published_.end(),
                    [&](const Place& place) { return place.first == request->volume_id(); });
    staged_.erase({request->volume_id(), request->staging_target_path()});
    return Unless(stages_ && !published);
  }
  grpc::Status NodeGetCapabilities(grpc::ServerContext*, const pb::NodeGetCapabilitiesRequest*,
                                   pb::NodeGetCapabilitiesResponse* response) override {
    if (stages_) {
      response->add_capabilities()->mutable_rpc()->set_type(
          pb::NodeServiceCapability::RPC::STAGE_UNSTAGE_VOLUME);
    }
    return grpc::Status::OK;
  }

 private:
  using Place = std::pair<std::string, std::string>;  // a volume's id, and a path

  static grpc::Status Unless(bool in_order) {
    return in_order ? grpc::Status::OK
                    : grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "out of order");
  }

  const csi_driver::Store& store_;
  const bool stages_;
  const std::size_t header_bytes_;
  mutable std::mutex mutex_;
  std::set<Place> staged_;
  std::set<Place> published_;
};

class ConformanceTest : public csi_driver::DriverFixture {
 protected:
  ConformanceTest() : DriverFixture("/dev/shm") {}  // There is no flush to wait for.

  std::unique_ptr<pb::Node::Service> MakeNodeService() override {
    auto node = std::make_unique<LinkingNode>(*store_, stages_, header_bytes_);
    linking_node_ = node.get();
    return node;
  }

  // What was said of the driver that is served.
  std::vector<CheckResult> JudgeIt() {
    results_.clear();
    std::filesystem::create_directories(WorkFolder());
    ended_ = RunConformanceTest(ctx_,
                                {.link = {.address = Address(), .call_time_max = absl::Seconds(30)},
                                 .work_folder = WorkFolder(),
                                 .volume_bytes = 1 << 20},
                                Random::Real(), [this](const CheckResult& result) {
                                  results_.push_back(result);
                                  if (on_result_) {
                                    on_result_(result);
                                  }
                                });
    return results_;
  }

  // The names of the rules that it breaks.
  std::vector<std::string> BrokenRules() {
    std::vector<std::string> broken;
    for (const CheckResult& result : JudgeIt()) {
      if (result.verdict == Verdict::kFail) {
        broken.push_back(result.rule);
        said_.append(absl::StrCat(result.subject, ": ", result.rule, ": ", result.detail, "\n"));
      }
    }
    return broken;
  }

  void ServePages(bool opaque_cursors) {
    StopServing();
    options_.snapshot_metadata = false;
    options_.differential_snapshot = true;
    options_.opaque_cursors = opaque_cursors;
    Serve();
  }

  std::string WorkFolder() const { return folder_.path() + "/work"; }

  std::size_t SnapshotCount() const { return store_->ListSnapshots({}, {})->records.size(); }

  // What the driver still has.
  std::size_t LeftBehind() const {
    return store_->ListVolumes({})->records.size() + SnapshotCount() + linking_node_->MountCount();
  }

  // The image of this name that the kit has now.
  std::string Image(const std::string& name) const {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(WorkFolder())) {
      if (entry.path().filename() == name + ".image") {
        return entry.path();
      }
    }
    return "";
  }

  CallContext ctx_ = CallContext().WithTimeout(absl::Seconds(100));
  absl::Status ended_;
  std::vector<CheckResult> results_;
  std::function<void(const CheckResult&)> on_result_;
  std::string said_;
  bool stages_ = false;  // whether the node does
  std::size_t header_bytes_ = 0;
  LinkingNode* linking_node_ = nullptr;
};

TEST_F(ConformanceTest, AnHonestDriverPasses) {
  EXPECT_THAT(BrokenRules(), IsEmpty()) << said_;
  EXPECT_THAT(ended_, IsOk());
  EXPECT_GT(results_.size(), 100U);
  EXPECT_EQ(LeftBehind(), 0U);
  EXPECT_TRUE(std::filesystem::is_empty(WorkFolder()));
}

TEST_F(ConformanceTest, RunsOfBlocksPassToo) {
  StopServing();
  options_.blocks = {.bytes = 16384, .fixed = false};
  options_.keep_change_data = true;
  Serve();
  EXPECT_THAT(BrokenRules(), IsEmpty()) << said_;
}

TEST_F(ConformanceTest, PagesPassWithEitherKindOfCursor) {
  for (const bool opaque : {false, true}) {
    ServePages(opaque);
    EXPECT_THAT(BrokenRules(), IsEmpty()) << said_;
    EXPECT_THAT(ended_, IsOk());
  }
}

TEST_F(ConformanceTest, ANodeThatStagesPassesAndKeepsNothing) {
  StopServing();
  stages_ = true;
  Serve();
  EXPECT_THAT(BrokenRules(), IsEmpty()) << said_;
  EXPECT_THAT(ended_, IsOk());
  EXPECT_EQ(LeftBehind(), 0U);
}

TEST_F(ConformanceTest, ADeviceThatLacksItsHeaderIsFound) {
  StopServing();
  header_bytes_ = 4096;
  Serve();
  EXPECT_THAT(BrokenRules(), testing::Contains("block-size"));
  EXPECT_THAT(said_, HasSubstr("the volume: block-size: its device has 1044480 of 1048576 bytes"));
}

TEST_F(ConformanceTest, NoSpaceForASnapshotIsResourceExhausted) {
  AddRule(R"({"method":"CreateSnapshot","code":"INTERNAL","message":"no space left in the pool"})");
  EXPECT_THAT(BrokenRules(), testing::ElementsAre("no-space"));
  EXPECT_THAT(ended_, StatusIs(absl::StatusCode::kInternal));
}

TEST_F(ConformanceTest, ANamespaceIsNoSpace) {
  AddRule(R"({"method":"CreateSnapshot","code":"INTERNAL","message":"the namespace is gone"})");
  EXPECT_THAT(BrokenRules(), testing::IsEmpty());
}

TEST_F(ConformanceTest, ABaseIsDeletedBeforeItsRuleIsChecked) {
  std::size_t before = 0;
  std::size_t after = 0;
  on_result_ = [&](const CheckResult& result) {
    if (result.rule == "reversed-pair") {
      before = SnapshotCount();
    } else if (result.rule == "deleted-base") {
      after = SnapshotCount();
    }
  };
  JudgeIt();
  EXPECT_GT(before, 0U);
  EXPECT_EQ(after + 1, before);
}

// Else a driver could list the source's blocks for the clone.
TEST_F(ConformanceTest, TheCloneIsWrittenOnceBeforeItsSnapshot) {
  std::vector<Extent> written;
  on_result_ = [&](const CheckResult& result) {
    if (result.subject == "SnapshotMetadata allocated clone-of-2" && written.empty()) {
      written = *DifferingExtents(ctx_, Image("restored-2"), Image("clone"));
    }
  };
  JudgeIt();
  EXPECT_THAT(written, testing::ElementsAre(Extent{1 << 19, kStepBytes}));
}

TEST_F(ConformanceTest, WhoAnnouncesNothingIsToldSo) {
  StopServing();
  options_.snapshot_metadata = false;
  Serve();
  EXPECT_THAT(BrokenRules(), testing::ElementsAre("announced"));
}

struct LieCase {
  const char* lie;                  // members of a rule of the driver
  std::vector<std::string> broken;  // the rules that must be found
  const char* method = "GetMetadataDelta";
};

void PrintTo(const LieCase& lie_case, std::ostream* out) { *out << lie_case.lie; }

class ConformanceLieTest : public ConformanceTest, public testing::WithParamInterface<LieCase> {};

TEST_P(ConformanceLieTest, IsFoundByName) {
  const LieCase& lie = GetParam();
  if (absl::string_view(lie.method) == "GetDifferentialSnapshot") {
    ServePages(/*opaque_cursors=*/false);
  }
  AddRule(absl::StrCat(R"({"method":")", lie.method, R"(",)", lie.lie, "}"));
  EXPECT_THAT(BrokenRules(), IsSupersetOf(lie.broken)) << said_;
}

constexpr char kAllocated[] = "GetMetadataAllocated";
constexpr char kPages[] = "GetDifferentialSnapshot";

INSTANTIATE_TEST_SUITE_P(
    Table, ConformanceLieTest,
    testing::Values(LieCase{R"("lie":"omit","extent":3)", {"complete", "resume"}},
                    LieCase{R"("lie":"shift")", {"complete"}},
                    LieCase{R"("lie":"end","after_messages":1,"skip":4)", {"complete"}},
                    LieCase{R"("lie":"overlap")", {"overlap"}},
                    LieCase{R"("lie":"unordered")", {"order"}},
                    LieCase{R"("lie":"zero_length")", {"size"}},
                    LieCase{R"("lie":"negative_length")", {"size"}},
                    LieCase{R"("lie":"negative_offset")", {"size"}},
                    LieCase{R"("lie":"overflow")", {"size", "bounds"}},
                    LieCase{R"("lie":"beyond_capacity")", {"bounds", "same-snapshot"}},
                    LieCase{R"("lie":"everything")", {"same-snapshot"}},
                    LieCase{R"("lie":"capacity_changes","after_messages":1)", {"capacity"}},
                    LieCase{R"("lie":"type_changes","after_messages":1)", {"type"}},
                    LieCase{R"("lie":"huge_message")", {"max-results"}},
                    LieCase{R"("after_messages":1,"code":"INTERNAL","times":1,"skip":1)",
                            {"ends-well"}},
                    LieCase{R"("code":"INTERNAL")",
                            {"foreign-pair", "unknown-handle", "no-argument", "out-of-range",
                             "at-the-end", "same-snapshot", "reversed-pair", "deleted-base"}},
                    LieCase{R"("lie":"own_writes_only")", {"complete"}, kAllocated},
                    LieCase{R"("lie":"omit")", {"complete"}, kAllocated},
                    LieCase{R"("lie":"same_cursor","skip":12)", {"cursor"}, kPages},
                    LieCase{R"("lie":"expired")", {"expiry"}, kPages},
                    LieCase{R"("lie":"omit","extent":3)", {"complete"}, kPages},
                    LieCase{R"("lie":"overlap")", {"overlap"}, kPages},
                    LieCase{R"("lie":"end")", {"complete"}, kPages},
                    LieCase{R"("lie":"capacity_changes","skip":3,"every":2)", {"capacity"}, kPages},
                    LieCase{R"("code":"INTERNAL")", {"mode", "forged-cursor", "volume"}, kPages},
                    LieCase{R"("lie":"half_size")", {"snapshot-size"}, "CreateSnapshot"},
                    LieCase{R"("lie":"topology")", {"snapshot-topology"}, "CreateSnapshot"},
                    LieCase{R"("code":"FAILED_PRECONDITION")", {"clean-up"}, "DeleteVolume"}),
    [](const auto& test) { return absl::StrCat("Case", test.index); });

TEST_F(ConformanceTest, AStopCleansUp) {
  std::stop_source stop;
  ctx_.stop = stop.get_token();
  on_result_ = [&stop](const CheckResult& result) {
    if (result.subject == "snapshot 2") {
      stop.request_stop();
    }
  };
  JudgeIt();
  EXPECT_THAT(ended_, StatusIs(absl::StatusCode::kCancelled));
  EXPECT_EQ(LeftBehind(), 0U);
}

TEST_F(ConformanceTest, WhatALostAnswerHidesIsFoundAndDeleted) {
  AddRule(R"({"method":"CreateSnapshot","after":true,"code":"UNAVAILABLE","skip":2,"times":1})");
  JudgeIt();
  EXPECT_THAT(ended_, StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(ended_.message(), HasSubstr("CreateSnapshot"));
  EXPECT_EQ(LeftBehind(), 0U);
}

TEST_F(ConformanceTest, WhatGrewAndCannotBeRestoredIsSaidAndTheRestJudged) {
  AddRule(R"({"method":"CreateVolume","skip":7,"times":1,"code":"INTERNAL"})");
  EXPECT_THAT(BrokenRules(), testing::ElementsAre("content")) << said_;
  EXPECT_THAT(said_, HasSubstr("snapshot 4"));
  EXPECT_THAT(ended_, IsOk());
  EXPECT_GT(results_.size(), 100U);
}

TEST_F(ConformanceTest, ADriverThatHangsIsLeftInTime) {
  AddRule(R"({"method":"GetMetadataDelta","hold":true})");
  ctx_ = CallContext().WithTimeout(absl::Seconds(2));
  JudgeIt();
  EXPECT_THAT(ended_, StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_EQ(LeftBehind(), 0U);
}

}  // namespace
}  // namespace csidelta::conformance::conformance_test

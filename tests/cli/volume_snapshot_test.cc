// csi-delta backup --volume-snapshot: the whole program in this process, an API server over TLS,
// and a driver's service of snapshot metadata.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "objects/differential_snapshot.h"
#include "storage/forwarding_object_store.h"
#include "storage/location.h"
#include "tests/cli/program_runner.h"
#include "tests/diffsnap/differential_cluster.h"
#include "tests/diffsnap/fake_driver.h"
#include "tests/support/api_test_server.h"
#include "tests/support/fake_metadata_server.h"
#include "tests/support/metadata_cluster.h"

namespace csidelta::cli::volume_snapshot_test {
namespace {

using support::FakeMetadataServer;
using support::ServedQuery;
using support::ServedStream;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int64_t kChunk = 256 << 10;
constexpr int64_t kImageBytes = 40 * kChunk;

// A repository to which everything is written but the snapshot: as if the run had been killed just
// before its end.
class Unfinished : public storage::OpenedStore, public storage::ForwardingObjectStore {
 public:
  explicit Unfinished(std::unique_ptr<storage::OpenedStore> opened)
      : ForwardingObjectStore(opened->store()), opened_(std::move(opened)) {}

  storage::ObjectStore& store() override { return *this; }
  const storage::StoreMeter& meter() const override { return opened_->meter(); }

  absl::Status Put(const CallContext& ctx, const std::string& key, absl::string_view bytes,
                   const storage::PutOptions& options) override {
    return key.starts_with("snapshots/") ? absl::FailedPreconditionError("killed")
                                         : inner().Put(ctx, key, bytes, options);
  }
  std::string Describe() const override { return "unfinished"; }

 private:
  const std::unique_ptr<storage::OpenedStore> opened_;
};

class VolumeSnapshotTest : public testing::Test {
 protected:
  VolumeSnapshotTest()
      : api_server_(
            cluster_.api,
            {VolumeSnapshotType(),
             VolumeSnapshotContentType(),
             support::MetadataServiceType(),
             objects::DifferentialSnapshot::Type(),
             {"", "v1", "serviceaccounts", "ServiceAccount", true},
             {"authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", false}},
            {.tls = true}),
        service_(authority_.IssueServer("IP:127.0.0.1"),
                 [this](const ServedQuery& query, ServedStream& stream) -> absl::Status {
                   if (query.is_delta && base_gone_) {
                     return absl::NotFoundError("no such snapshot");
                   }
                   return ServeTuples(query, stream, kImageBytes,
                                      query.is_delta ? changed_ : allocated_);
                 }) {
    program_.variables = {{"RESTIC_PASSWORD", "secret"}, {"RESTIC_REPOSITORY", Path("repo")}};
    program_.Write("kubeconfig", api_server_.Kubeconfig("{token: abc}"));
    program_.Write("image", "");
    std::filesystem::resize_file(Path("image"), kImageBytes);
    cluster_.Advertise(service_.address(), authority_.ca_pem());
    program_.Init();
  }

  std::string Path(const std::string& name) const { return program_.Path(name); }
  Outcome Run(const std::vector<std::string>& words) const { return program_.Run(words); }

  Outcome Backup(const std::string& snapshot, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {
        "backup",           "--json",      "--chunk-size",      "256KiB", "--kubeconfig",
        Path("kubeconfig"), Path("image"), "--volume-snapshot", snapshot};
    words.insert(words.end(), more.begin(), more.end());
    return Run(words);
  }

  void WriteAt(int64_t offset_bytes, const std::string& bytes) const {
    std::fstream file(Path("image"), std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(offset_bytes);
    file << bytes;
  }

  // Two backups, of which the second reads what `source` says has changed; the volume comes back.
  void ExpectAnIncrementFrom(const std::string& source) {
    WriteAt(5 * kChunk, std::string(4096, 'a'));
    allocated_ = {{5 * kChunk, 4096}};
    const Outcome first = Backup("app/old");
    ASSERT_EQ(first.code, ExitCode::kOk) << first.error;
    EXPECT_EQ(GetString(first.Result(), {"source"}), source);
    EXPECT_EQ(GetInt(first.Result(), {"read_bytes"}), kChunk);
    WriteAt(9 * kChunk + 100, std::string(4096, 'b'));
    changed_ = {{9 * kChunk, 8192}};
    const Outcome second = Backup("app/new");
    ASSERT_EQ(second.code, ExitCode::kOk) << second.error;
    EXPECT_EQ(GetString(second.Result(), {"mode_done"}), "incremental");
    EXPECT_EQ(GetInt(second.Result(), {"read_bytes"}), kChunk);
    ASSERT_EQ(Run({"restore", "latest", "--target", Path("target")}).code, ExitCode::kOk);
    EXPECT_EQ(program_.Read("target"), program_.Read("image"));
  }

  // From now on no service lists snapshot metadata, and a DifferentialSnapshot says what changed.
  void ServeDifferentials() {
    cluster_.api.Remove({support::MetadataServiceType(), "", support::kDriver});
    differential_.volume_size_bytes = kImageBytes;
    differential_.on_page = [this](const CallContext&) {
      differential_.blocks.clear();
      for (const Extent& extent : changed_.empty() ? allocated_ : changed_) {
        differential_.blocks.push_back({.extent = extent, .context = context_});
      }
    };
  }

  ProgramRunner program_{testing::TempDir()};
  diffsnap::FakeDriver differential_;
  diffsnap::DifferentialCluster cluster_{differential_};
  support::TestAuthority authority_;
  std::vector<Extent> allocated_;
  std::vector<Extent> changed_;
  std::string context_;  // of each block of a DifferentialSnapshot
  bool base_gone_ = false;
  support::ApiTestServer api_server_;
  FakeMetadataServer service_;
};

TEST_F(VolumeSnapshotTest, TheSecondBackupReadsWhatTheDriverSays) {
  ASSERT_NO_FATAL_FAILURE(ExpectAnIncrementFrom("csi-metadata"));
  EXPECT_EQ(service_.queries().back().base, "handle-old") << "from the repository";
}

// A Pod on another node sees the snapshot under another device number.
TEST_F(VolumeSnapshotTest, AnotherNodeGoesOnWhereTheFirstWas) {
  for (int64_t chunk = 0; chunk < 40; ++chunk) {
    WriteAt(chunk * kChunk, absl::StrCat("chunk ", chunk));
  }
  std::filesystem::copy_file(Path("image"), Path("elsewhere"));
  allocated_ = {{0, kImageBytes}};
  const auto backup = [&](const std::string& device, const std::string& snapshot) {
    return Run({"backup", "--json", "--chunk-size", "256KiB", "--kubeconfig", Path("kubeconfig"),
                "--path", "/app/data", "--immutable", "--volume-snapshot", snapshot, Path(device)});
  };
  program_.open_store =
      [](const storage::Location& location, const storage::StoreSettings& settings,
         Random& random) -> absl::StatusOr<std::unique_ptr<storage::OpenedStore>> {
    absl::StatusOr<std::unique_ptr<storage::OpenedStore>> opened =
        storage::OpenStore(location, settings, random);
    if (!opened.ok()) {
      return opened.status();
    }
    return std::make_unique<Unfinished>(*std::move(opened));
  };
  ASSERT_EQ(backup("image", "app/old").code, ExitCode::kFailed);
  program_.open_store = storage::OpenStore;
  const Outcome other = backup("elsewhere", "app/new");
  ASSERT_EQ(other.code, ExitCode::kOk) << other.error;
  EXPECT_EQ(GetInt(other.Result(), {"resumed_bytes"}), 0) << "of another volume snapshot";
  ASSERT_EQ(Run({"forget", "latest"}).code, ExitCode::kOk);
  const Outcome resumed = backup("elsewhere", "app/old");
  ASSERT_EQ(resumed.code, ExitCode::kOk) << resumed.error;
  EXPECT_EQ(GetInt(resumed.Result(), {"resumed_bytes"}), kImageBytes);
  EXPECT_EQ(GetInt(resumed.Result(), {"read_bytes"}), 0);
}

TEST_F(VolumeSnapshotTest, ABaseThatIsGoneMakesAFullAndSaysSo) {
  ASSERT_EQ(Backup("app/old").code, ExitCode::kOk);
  base_gone_ = true;
  WriteAt(0, "news");
  allocated_ = {{0, 4096}};
  const Outcome full = Backup("app/new");
  ASSERT_EQ(full.code, ExitCode::kOk) << full.error;
  EXPECT_EQ(GetString(full.Result(), {"mode_done"}), "full");
  EXPECT_THAT(GetString(full.Result(), {"reason"}), HasSubstr("base-snapshot-gone"));
  EXPECT_THAT(full.error, HasSubstr("base-snapshot-gone"));
  EXPECT_EQ(Backup("app/new", {"--on-fallback", "fail"}).code, ExitCode::kFallbackRefused);
}

TEST_F(VolumeSnapshotTest, AParentThatNamesNoVolumeSnapshotCostsTheReadingOfWhatIsAllocated) {
  ASSERT_EQ(Run({"backup", "--chunk-size", "256KiB", Path("image")}).code, ExitCode::kOk);
  allocated_ = {{5 * kChunk, 4096}};
  WriteAt(5 * kChunk, "news");
  const Outcome unknown = Backup("app/new", {"--parent", "latest"});
  ASSERT_EQ(unknown.code, ExitCode::kOk) << unknown.error;
  EXPECT_THAT(unknown.error, HasSubstr("--base-handle"));
  EXPECT_EQ(GetString(unknown.Result(), {"reason"}), "no-changed-block-list");
  EXPECT_EQ(GetInt(unknown.Result(), {"read_bytes"}), kChunk);
  EXPECT_EQ(service_.queries().back().base, "");
  ASSERT_EQ(Run({"restore", "latest", "--target", Path("target")}).code, ExitCode::kOk);
  EXPECT_EQ(program_.Read("target"), program_.Read("image"));
}

TEST_F(VolumeSnapshotTest, TheBaseMayBeGiven) {
  ASSERT_EQ(Run({"backup", "--chunk-size", "256KiB", Path("image")}).code, ExitCode::kOk);
  const Outcome given = Backup("app/new", {"--base-handle", "handle-old"});
  ASSERT_EQ(given.code, ExitCode::kOk) << given.error;
  EXPECT_EQ(GetString(given.Result(), {"mode_done"}), "incremental");
  EXPECT_EQ(service_.queries().back().base, "handle-old");
}

TEST_F(VolumeSnapshotTest, AParentThatIsDamagedCostsTheReadingOfWhatIsAllocated) {
  allocated_ = {{0, 4096}, {5 * kChunk, 4096}};
  ASSERT_EQ(Backup("app/old").code, ExitCode::kOk);
  for (const auto& pack : std::filesystem::recursive_directory_iterator(Path("repo/data"))) {
    if (pack.is_regular_file()) {
      std::filesystem::remove(pack.path());
    }
  }
  const Outcome full = Backup("app/new");
  ASSERT_EQ(full.code, ExitCode::kOk) << full.error;
  EXPECT_EQ(GetString(full.Result(), {"reason"}), "parent-damaged");
  EXPECT_EQ(GetString(full.Result(), {"source"}), "csi-metadata");
  EXPECT_EQ(GetInt(full.Result(), {"read_bytes"}), 2 * kChunk);
  EXPECT_EQ(service_.queries().back().base, "");
}

TEST_F(VolumeSnapshotTest, WithoutAServiceADifferentialSnapshotSaysWhatChanged) {
  ServeDifferentials();
  ASSERT_NO_FATAL_FAILURE(ExpectAnIncrementFrom("differential-snapshot"));
  EXPECT_EQ(differential_.requests().back().base_handle, "handle-old") << "from the repository";
  EXPECT_THAT(cluster_.api.All(objects::DifferentialSnapshot::Type()), IsEmpty());
}

TEST_F(VolumeSnapshotTest, TheServiceToAskMayBeChosen) {
  ASSERT_EQ(Backup("app/old").code, ExitCode::kOk);
  const auto source = [this](const std::string& choice) {
    const Outcome outcome = Backup("app/new", {"--changed-blocks", choice, "--parent", "latest"});
    EXPECT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
    return GetString(outcome.Result(), {"source"});
  };
  EXPECT_EQ(source("auto"), "csi-metadata");
  EXPECT_EQ(source("csi-metadata"), "csi-metadata");
  EXPECT_EQ(source("none"), "full-scan");
  ServeDifferentials();
  EXPECT_EQ(source("auto"), "differential-snapshot");
  cluster_.Advertise(service_.address(), authority_.ca_pem());
  EXPECT_EQ(source("auto"), "csi-metadata") << "before the other";
  EXPECT_EQ(source("differential-snapshot"), "differential-snapshot");
}

TEST_F(VolumeSnapshotTest, WithoutASourceEverythingIsReadAndReported) {
  ASSERT_EQ(Backup("app/old").code, ExitCode::kOk);
  WriteAt(0, std::string(kImageBytes, 'x'));  // Holes of an image are not read.
  cluster_.api.Remove({support::MetadataServiceType(), "", support::kDriver});
  const auto expect_full = [this] {
    const Outcome full = Backup("app/new");
    ASSERT_EQ(full.code, ExitCode::kOk) << full.error;
    EXPECT_EQ(GetString(full.Result(), {"reason"}), "driver-has-no-metadata-service");
    EXPECT_EQ(GetInt(full.Result(), {"read_bytes"}), kImageBytes);
  };
  cluster_.api.Forbid("create", "differentialsnapshots");
  expect_full();
  cluster_.api.ClearFaults();
  cluster_.api.RemoveType("differentialsnapshots");
  expect_full();
}

TEST_F(VolumeSnapshotTest, DiffSaysWhatChangedAndWhere) {
  changed_ = {{0, 4096}, {kImageBytes / 64, kImageBytes / 64}, {kImageBytes - 8192, 8192}};
  const std::vector<std::string> words = {"diff", "--kubeconfig", Path("kubeconfig"),
                                          "--volume-snapshot", "app/new"};
  const auto diff = [&](std::vector<std::string> more) {
    more.insert(more.begin(), words.begin(), words.end());
    return Run(more);
  };
  // The driver knows a larger volume than it lists of.
  const Outcome outcome = diff({"--base", "old", "--json"});
  ASSERT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  EXPECT_EQ(service_.queries().back().base, "handle-old");
  const Json said = outcome.Result();
  EXPECT_EQ(GetString(said, {"source"}), "csi-metadata");
  EXPECT_EQ(GetInt(said, {"extents"}), 4) << said;
  EXPECT_EQ(GetString(said, {"picture"}).size(), 64);
  EXPECT_EQ(said["sizes"][0], (Json{{"from_bytes", 4096}, {"extents", 1}, {"bytes", 4096}}));
  EXPECT_THAT(diff({"--base-handle", "handle-old"}).out,
              HasSubstr("changed since handle-old, in 4 extents, by csi-metadata"));
  EXPECT_THAT(diff({"--base", "old", "--extents"}).out,
              HasSubstr("{\"offset\":0,\"length\":4096}\n"));
  allocated_ = {{0, 8192}};
  EXPECT_THAT(diff({}).out, HasSubstr("allocated, in 2 extents"));
  EXPECT_EQ(service_.queries().back().base, "");
  ServeDifferentials();
  EXPECT_THAT(diff({"--base", "old"}).out, HasSubstr("by differential-snapshot"));
  context_ = "where";
  const std::string listed = diff({"--base", "old", "--extents", "--json"}).out;
  EXPECT_THAT(listed, HasSubstr("{\"offset\":0,\"length\":4096,\"context\":\"d2hlcmU=\"}\n"));
}

TEST_F(VolumeSnapshotTest, StatisticsOfADriverAreKeptAndSummedUp) {
  allocated_ = {{0, 8192}, {kChunk, 4096}};
  changed_ = {{8192, 8192}};
  ASSERT_EQ(Backup("app/old").code, ExitCode::kOk);
  ASSERT_EQ(Backup("app/new").code, ExitCode::kOk);
  base_gone_ = true;
  ASSERT_EQ(Backup("app/new").code, ExitCode::kOk);
  ASSERT_EQ(Run({"backup", "--path", "/elsewhere", Path("image")}).code, ExitCode::kOk);
  const Json said = Run({"stats", "--drivers", "--json"}).Result();
  ASSERT_EQ(said["drivers"].size(), 1) << said;
  Json driver = said["drivers"][0];
  EXPECT_GE(GetInt(driver, {"listing", "waited_ms"}, -1), 0);
  driver["listing"].erase("waited_ms");
  EXPECT_EQ(driver, (Json{{"driver", support::kDriver},
                          {"backups", 3},
                          {"increments", 1},
                          {"changed_bytes", kChunk},
                          {"listing", {{"extents", 5}, {"grain_bytes", 4096}}},
                          {"sources", {{"csi-metadata", 3}}},
                          {"reasons", {{"base-snapshot-gone", 1}, {"no-parent", 1}}}}));
  EXPECT_THAT(Run({"stats", "--drivers"}).out,
              testing::ContainsRegex("hostpath.csi.k8s.io +3 +1 +1 +0 +0 +4.0 KiB +5 "));
}

TEST_F(VolumeSnapshotTest, DiffOfTheClusterTakesOneTargetAndOneBase) {
  const std::vector<std::vector<std::string>> wrong = {
      {},
      {"0123abcd"},
      {"--base", "old"},
      {"0123abcd", "89abcdef", "--volume-snapshot", "app/new"},
      {"--volume-snapshot", "app/new", "--base", "old", "--base-handle", "handle-old"},
      {"--volume-snapshot", "app/new", "--base", "old", "--change-id-annotation", "not/there"},
      {"--volume-snapshot", "app/new", "--base", "gone"}};
  for (std::vector<std::string> words : wrong) {
    words.insert(words.begin(), {"diff", "--kubeconfig", Path("kubeconfig")});
    EXPECT_EQ(Run(words).code, ExitCode::kFailed) << testing::PrintToString(words);
  }
  EXPECT_THAT(service_.queries(), IsEmpty());
}

TEST_F(VolumeSnapshotTest, AChangeIdIsTheBaseWhereTheDriverHasOne) {
  for (const char* name : {"old", "new"}) {
    cluster_.api.Mutate(VolumeSnapshotKey("app", name), [&](Json& snapshot) {
      SetJson(snapshot, {"metadata", "annotations", "csi.example/change-id"},
              absl::StrCat("change-", name));
    });
  }
  const std::vector<std::string> annotation = {"--change-id-annotation", "csi.example/change-id"};
  ASSERT_EQ(Backup("app/old", annotation).code, ExitCode::kOk);
  ASSERT_EQ(Backup("app/new", annotation).code, ExitCode::kOk);
  EXPECT_EQ(service_.queries().back().base, "change-old");
}

TEST_F(VolumeSnapshotTest, AnotherVolumesSnapshotIsNotCompared) {
  ASSERT_EQ(Backup("app/old").code, ExitCode::kOk);
  cluster_.api.Mutate(VolumeSnapshotContentKey("content-new"), [](Json& content) {
    SetJson(content, {"spec", "source", "volumeHandle"}, "volume-2");
  });
  const Outcome full = Backup("app/new");
  ASSERT_EQ(full.code, ExitCode::kOk) << full.error;
  EXPECT_EQ(GetString(full.Result(), {"reason"}), "base-snapshot-gone");
  EXPECT_THAT(GetString(full.Result(), {"reason_detail"}), HasSubstr("volume-2"));
}

TEST_F(VolumeSnapshotTest, ErrorsThatOnlyTheUserCanFixAreNoFallback) {
  EXPECT_THAT(Backup("app/gone").error, HasSubstr("app/gone"));
  EXPECT_EQ(Backup("app/gone").code, ExitCode::kFailed);
  EXPECT_EQ(Backup("new").code, ExitCode::kFailed);
  EXPECT_EQ(Backup("app/new", {"--extents", "-"}).code, ExitCode::kFailed);
  cluster_.api.Forbid("create", "serviceaccounts");
  const Outcome forbidden = Backup("app/new");
  EXPECT_EQ(forbidden.code, ExitCode::kFailed);
  EXPECT_THAT(forbidden.error, HasSubstr("serviceaccounts"));
}

}  // namespace
}  // namespace csidelta::cli::volume_snapshot_test

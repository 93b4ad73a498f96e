// csi-delta adopt: the whole program in this process, an API server, and a folder as the bucket.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "datamover/records/restored_pvcs.h"
#include "tests/cli/program_runner.h"
#include "tests/datamover/mover_bed.h"
#include "tests/support/api_test_server.h"
#include "tests/support/fake_object_store.h"
#include "tests/support/kind_names.h"
#include "tests/support/lent_store.h"
#include "tests/support/status_matchers.h"

namespace csidelta::cli::adopt_test {
namespace {

using datamover::MoverBed;
using testing::AllOf;
using testing::HasSubstr;

const k8s::ResourceType kNamespaces = {"", "v1", "namespaces", "Namespace", false};
const k8s::ResourceType kReviews = {"authentication.k8s.io", "v1", "selfsubjectreviews",
                                    "SelfSubjectReview", false};
constexpr char kGone[] = "c2000000-0000-4000-8000-000000000002";

// A cluster with a PVC that was restored from a backup of another one, which is backed up nightly.
class AdoptTest : public testing::Test {
 protected:
  AdoptTest()
      : server_(bed_.api, {kNamespaces, SecretType(), kReviews, ConfigMapType(),
                           objects::BackupStorageLocation::Type()}) {
    bed_.api.Seed(kNamespaces,
                  {{"metadata", {{"name", "kube-system"}, {"uid", bed_.env.cluster}}}});
    bed_.api.SetUsername("ann");
    EXPECT_THAT(datamover::RecordRestored(bed_.ctx, bed_.env, {"velero", "default", "shop", "data"},
                                          {.pvc_uid = "b",
                                           .source = {.cluster = kGone,
                                                      .namespace_name = "shop",
                                                      .claim_uid = "a",
                                                      .snapshot_id = std::string(64, 'd'),
                                                      .key = std::string(16, 'e')},
                                           .data_bytes = int64_t{3} << 30}),
                support::IsOk());
    program_.Write("kubeconfig", server_.Kubeconfig());
    program_.open_store = [this](const storage::Location&, const storage::StoreSettings& settings,
                                 Random& random) {
      return storage::OpenStore({.directory = program_.Path("bucket")}, settings, random);
    };
    Written("a/snapshots/s1", 73);
    Written("a/snapshots/s2", 49);
    Written("a/snapshots/s3", 25);
  }

  // Into a repository of the other cluster.
  void Written(const std::string& name, int hours_ago) const {
    const std::string path = absl::StrCat("bucket/", kGone, "/shop/", name);
    std::filesystem::create_directories(std::filesystem::path(program_.Path(path)).parent_path());
    program_.Write(path, "x");
    std::filesystem::last_write_time(
        program_.Path(path),
        std::filesystem::file_time_type::clock::now() - std::chrono::hours(hours_ago));
  }
  Outcome Adopt(const std::vector<std::string>& more = {},
                const std::string& cluster = kGone) const {
    std::vector<std::string> words = {
        "adopt",       "--from-cluster", cluster, "--kubeconfig", program_.Path("kubeconfig"),
        "--namespace", MoverBed::kMover};
    words.insert(words.end(), more.begin(), more.end());
    return program_.Run(words);
  }
  bool IsAdopted() {
    return datamover::FindAdoption(bed_.ctx, bed_.api,
                                   {MoverBed::kMover, "velero", "default", kGone})
        ->has_value();
  }

  MoverBed bed_;
  support::ApiTestServer server_;
  ProgramRunner program_;
};

TEST_F(AdoptTest, WithoutYesItSaysWhatWouldGoOnWhereAndChangesNothing) {
  const Outcome outcome = Adopt();
  EXPECT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  EXPECT_THAT(outcome.error, AllOf(HasSubstr(absl::StrCat("PVC shop/data: 3.0 GiB of plugins/"
                                                          "csi-delta/",
                                                          kGone, "/shop/a")),
                                   HasSubstr("wrote last")));
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("1 PVC with 3.0 GiB would go on"), HasSubstr("--yes")));
  EXPECT_FALSE(IsAdopted());
}

TEST_F(AdoptTest, WhoDidItAndWhenIsRecordedAndItCanBeUndone) {
  const Json done = Adopt({"--yes", "--json"}).Result();
  EXPECT_THAT(GetString(done, {"adopted_by"}), HasSubstr("ann at 20"));
  EXPECT_EQ(GetInt(done, {"data_bytes"}), int64_t{3} << 30);
  EXPECT_EQ(GetString(done["pvcs"][0], {"pvc"}), "shop/data");
  Written("a/snapshots/s4", 0);  // By the one that adopted it.
  EXPECT_THAT(Adopt().out, HasSubstr("adopted by ann at 20"));
  const Outcome undone = Adopt({"--undo"});
  EXPECT_EQ(undone.code, ExitCode::kOk) << undone.error;
  EXPECT_THAT(undone.out, HasSubstr("begin repositories of their own"));
  EXPECT_FALSE(IsAdopted());
  EXPECT_EQ(Adopt({"--undo"}).code, ExitCode::kOk) << "once more";
}

TEST_F(AdoptTest, ItRefusesWhileTheClusterMayWrite) {
  struct Case {
    const char* written;
    int hours_ago;
    bool is_refused;
  };
  for (const Case& one : {Case{"a/snapshots/hand", 24, false}, Case{"a/locks/l", 23, true},
                          Case{"a/snapshots/s4", 1, true}, Case{"u/snapshots/first", 20, true},
                          Case{"u/snapshots/first", 26, false}}) {
    SCOPED_TRACE(absl::StrCat(one.written, " ", one.hours_ago));
    Written(one.written, one.hours_ago);
    const Outcome outcome = Adopt({"--yes"});
    EXPECT_EQ(outcome.code, one.is_refused ? ExitCode::kFailed : ExitCode::kOk) << outcome.error;
    EXPECT_EQ(IsAdopted(), !one.is_refused);
    if (one.is_refused) {
      EXPECT_THAT(outcome.error, AllOf(HasSubstr(one.written), HasSubstr("the next is due until"),
                                       HasSubstr("run this again then")));
    }
    std::filesystem::remove(program_.Path(absl::StrCat("bucket/", kGone, "/shop/", one.written)));
    Adopt({"--undo"});
  }
}

TEST_F(AdoptTest, TwoBackupsByHandDoNotHideTheNextOfTheSchedule) {
  Written("a/snapshots/hand-1", 24);
  Written("a/snapshots/hand-2", 23);
  EXPECT_THAT(Adopt({"--yes"}).error, HasSubstr("the next is due until"));
}

TEST_F(AdoptTest, WithoutTheDatesOfAllNothingIsAdopted) {
  support::FakeObjectStore store;
  store.SetObject(absl::StrCat(kGone, "/shop/a/snapshots/s1"), "x");
  program_.open_store = [&store](const storage::Location&, const storage::StoreSettings&,
                                 Random&) -> absl::StatusOr<std::unique_ptr<storage::OpenedStore>> {
    return std::make_unique<support::LentStore>(store);
  };
  EXPECT_THAT(Adopt({"--yes"}).error, HasSubstr("the store does not say when"));
  store.AddFault({.operation = support::StoreOperation::kList,
                  .key_prefix = absl::StrCat(kGone, "/shop/a/"),
                  .status = absl::PermissionDeniedError("no listing")});
  EXPECT_THAT(Adopt({"--yes"}).error, HasSubstr("no listing"));
  EXPECT_FALSE(IsAdopted());
}

TEST_F(AdoptTest, WhatIsNotWrittenIsNotReportedAsDone) {
  bed_.api.Forbid("create", "secrets");
  EXPECT_EQ(Adopt({"--yes"}).code, ExitCode::kFailed);
  bed_.api.ClearFaults();
  EXPECT_EQ(Adopt({"--yes"}).code, ExitCode::kOk);
  bed_.api.Forbid("delete", "secrets");
  EXPECT_EQ(Adopt({"--undo"}).code, ExitCode::kFailed);
  EXPECT_TRUE(IsAdopted());
}

TEST_F(AdoptTest, ABackupThatIsDueOnceAWeekIsAwaitedAndOneOfEachYearIsNot) {
  Written("w/snapshots/s1", 30 + 7 * 24);
  Written("w/snapshots/s2", 30);
  EXPECT_THAT(Adopt({"--yes"}).error, HasSubstr("the next is due until"));
  std::filesystem::remove_all(program_.Path(absl::StrCat("bucket/", kGone, "/shop/w")));
  Written("y/snapshots/s1", (365 + 10) * 24);
  Written("y/snapshots/s2", 10 * 24);
  EXPECT_EQ(Adopt({"--yes"}).code, ExitCode::kOk);
}

TEST_F(AdoptTest, AClusterThatIsNotThereOrIsThisOneIsRefused) {
  EXPECT_THAT(Adopt({"--yes"}, "c3").error, HasSubstr("has no backups of cluster c3"));
  EXPECT_THAT(Adopt({"--yes", "--location", "other"}).error, HasSubstr("other"));
  for (const std::string& cluster : {bed_.env.cluster, std::string("../x"), std::string()}) {
    EXPECT_THAT(Adopt({"--yes"}, cluster).error, HasSubstr("give --from-cluster")) << cluster;
  }
}

}  // namespace
}  // namespace csidelta::cli::adopt_test

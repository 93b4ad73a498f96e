#include "objects/volume_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/status_matchers.h"
#include "tests/support/volume_jobs.h"

namespace csidelta::objects::volume_job_test {
namespace {

using support::IsOkAndHolds;
using support::StatusIs;
using testing::HasSubstr;

// With a value of its own in each field.
VolumeJob JobOf(VolumeWork work) {
  return {.repository = {.address = "s3:https://h/b",
                         .region = "r",
                         .bucket_lookup = "dns",
                         .encryption = "aws:kms",
                         .kms_key_id = "k",
                         .tagging = "a=b",
                         .options = {"gs.x=a=b"},
                         .insecure_tls = true,
                         .is_read_only = true,
                         .has_certificates = true,
                         .has_keyring = true},
          .limits = {.memory_bytes = int64_t{1} << 40, .rates = {.upload = 1, .download = 2}},
          .lock_wait = absl::Seconds(10),
          .ended_pods = {"a", "b"},
          .work = std::move(work)};
}

const VolumeWork& Upload() {
  static const auto& work = *new VolumeWork(UploadWork{.device = "/dev/volume",
                                                       .host = "cluster",
                                                       .path = "/shop/data",
                                                       .volume_snapshot = "mover/du-1",
                                                       .tags = {"du-1", "x"},
                                                       .on_fallback = OnFallback::kFail,
                                                       .driver_parameters = {"p=a=b"}});
  return work;
}
const VolumeWork& Download() {
  static const auto& work =
      *new VolumeWork(DownloadWork{.device = "/dev/volume",
                                   .snapshot_id = "abc",
                                   .only_differing = true,
                                   .start_before = absl::FromUnixSeconds(1'700'000'000)});
  return work;
}

const std::string kPack = std::string(60, '0') + "09af";

const VolumeWork& Damaged() {
  static const auto& work = *new VolumeWork(UploadWork{
      .device = "d",
      .damage = RepositoryDamage{
          .packs = {kPack, std::string(64, 'b')},
          .packs_found = 70,
          .written_until = absl::FromUnixSeconds(1'700'000'000) + absl::Nanoseconds(1)}});
  return work;
}

TEST(VolumeJob, WhatIsToldIsUnderstood) {
  for (const VolumeWork& work :
       {Upload(), Download(), VolumeWork(ForgetWork{.items = {{.snapshot_id = "abc"}}}),
        VolumeWork(ForgetWork{.items = {{.tag = "du-1"}}}),
        VolumeWork(ForgetWork{.items = {{.tag = "du-1"}},
        .damage = RepositoryDamage{.packs = {kPack}, .packs_found = 1}}),
        VolumeWork(ForgetWork{.items = {{.snapshot_id = "abc"}, {.tag = "du-1"}}}),
        VolumeWork(CheckWork{.part = 3, .parts = 34}),
        VolumeWork(CheckWork{.read_newer_than = absl::FromUnixSeconds(1'700'000'000)}),
        VolumeWork(CheckWork{.host = "cluster",
        .known_tags = {"du-1", "du-2"},
        .orphans_before = absl::FromUnixSeconds(1'700'000'000)}),
        VolumeWork(UploadWork{.device = "d", .on_fallback = OnFallback::kProceed}),
        VolumeWork(UploadWork{.device = "d", .is_full = true, .parent = "abc"}),
        VolumeWork(UploadWork{
            .device = "d", .pvc_uid = "u", .restored_snapshot = "abc", .why_no_parent = "so"}),
        VolumeWork(UploadWork{.device = "d", .damage = RepositoryDamage()}), Damaged(),
        VolumeWork(DownloadWork{.device = "d", .snapshot_id = "a"})}) {
    EXPECT_THAT(ReadJob(support::StoredJob(JobOf(work))), IsOkAndHolds(JobOf(work)));
    const VolumeJob plain{.repository = {.address = "/r"}, .work = work};
    EXPECT_THAT(ReadJob(support::StoredJob(plain)), IsOkAndHolds(plain));
  }
}

TEST(VolumeJob, DamageIsOmittedWhereNoCheckFoundAny) {
  EXPECT_FALSE(support::StoredJob(JobOf(Upload()))["upload"].contains("damage"));
  EXPECT_FALSE(
      support::StoredJob(JobOf(ForgetWork{.items = {{.tag = "a"}}}))["forget"].contains("damage"));
  Json merged = support::StoredJob(JobOf(Damaged()));
  EXPECT_TRUE(merged["upload"].contains("damage"));
  merged.merge_patch(ToJson(JobOf(Upload())));
  EXPECT_THAT(ReadJob(merged), IsOkAndHolds(JobOf(Upload()))) << "after a repair";
}

// What a job without a limit would have: more than the schema takes.
TEST(VolumeJob, OfDamagedPacksAsManyAsAllowedAreTold) {
  UploadWork work{.device = "d",
                  .damage = RepositoryDamage{.packs = std::vector<std::string>(100, kPack)}};
  const Json stored = support::StoredJob(JobOf(work));
  EXPECT_EQ(stored["upload"]["damage"]["packs"].size(), kDamagedPacksMax);
  EXPECT_THAT(ReadJob(stored), support::IsOk());
}

// A task has another job after a Pod was lost, say without a time until which it may begin.
TEST(VolumeJob, NothingOfTheJobBeforeStays) {
  Json merged = support::StoredJob(JobOf(Download()));
  const VolumeJob next{.repository = {.address = "/r"},
                       .work = ForgetWork{.items = {{.tag = "x"}}}};
  merged.merge_patch(ToJson(next));
  EXPECT_THAT(ReadJob(merged), IsOkAndHolds(next));
}

struct WrongCase {
  const char* at;  // a JSON pointer
  Json value;
  const char* words;
};

// Each alone makes that job one that does not read.
void ExpectRefused(const VolumeJob& job, const std::vector<WrongCase>& cases) {
  for (const WrongCase& wrong : cases) {
    Json json = support::StoredJob(job);
    json[Json::json_pointer(wrong.at)] = wrong.value;
    EXPECT_THAT(ReadJob(json),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(wrong.words)));
  }
}

TEST(VolumeJob, DamageThatMakesNoSenseIsRefused) {
  const std::vector<WrongCase> cases = {
      {"/upload/damage", "all", "spec.job.upload.damage: "},
      {"/upload/damage", {{"trees", 1}}, "spec.job.upload.damage.trees is not known here"},
      {"/upload/damage", {{"packs", kPack}}, "is not a list of at most 64 ids of packs"},
      {"/upload/damage",
       {{"packs", std::vector<std::string>(65, kPack)}},
       "is not a list of at most 64 ids of packs"},
      {"/upload/damage", {{"packs", {7}}}, "spec.job.upload.damage.packs: 7 is not"},
      {"/upload/damage", {{"packs", {kPack, "../../config"}}}, "spec.job.upload.damage.packs: "},
      {"/upload/damage", {{"packs", {std::string(64, 'A')}}}, "spec.job.upload.damage.packs: "},
      {"/upload/damage", {{"packs", {std::string(64, 'g')}}}, "spec.job.upload.damage.packs: "},
      {"/upload/damage", {{"packsFound", -1}}, "spec.job.upload.damage.packsFound: "},
      {"/upload/damage", {{"writtenUntil", "now"}}, "is not a time as RFC 3339 has it"}};
  ExpectRefused(JobOf(Upload()), cases);
  Json forget = support::StoredJob(JobOf(ForgetWork{.items = {{.tag = "a"}}}));
  forget["forget"]["damage"] = {{"packs", {"all"}}};
  EXPECT_THAT(ReadJob(forget), StatusIs(absl::StatusCode::kInvalidArgument,
                                        HasSubstr("spec.job.forget.damage.packs: ")));
}

TEST(VolumeJob, WhatIsNotWhollyUnderstoodIsRefusedByItsName) {
  const std::vector<WrongCase> of_uploads = {
      {"/repository", nullptr, "spec.job.repository: null is not an object"},
      {"/repository", "s3:h", "is not an object"},
      {"/repository/address", "", "spec.job.repository.address is missing"},
      {"/repository/address", 5, "spec.job.repository.address: 5 is not a text"},
      {"/repository/readOnly", "true", "spec.job.repository.readOnly: "},
      {"/repository/proxy", "x", "spec.job.repository.proxy is not known here"},
      {"/limits/memoryBytes", -1, "spec.job.limits.memoryBytes: "},
      {"/limits/memoryBytes", "1", "spec.job.limits.memoryBytes: "},
      {"/limits/memoryBytes", 1.5, "spec.job.limits.memoryBytes: "},
      {"/limits/disk", 1, "spec.job.limits.disk is not known here"},
      {"/lockWaitSeconds", "10s", "spec.job.lockWaitSeconds: "},
      {"/endedPods", "a", "is not a list of texts"},
      {"/endedPods", Json::array({"a", 1}), "is not a list of texts"},
      {"/upload", nullptr, "spec.job.upload: null is not an object"},
      {"/nothing", Json::object(), "spec.job.nothing is not known here"},
      {"/download",
       {{"device", "d"}, {"snapshotID", "a"}},
       "spec.job has not one of upload, download, forget and check"},
      {"/upload/device", "", "spec.job.upload.device is missing"},
      {"/upload/onFallback", "never", "is not proceed, warn or fail"},
      {"/upload/onFallback", nullptr, "is not proceed, warn or fail"},
      {"/upload/tags", {{"a", "b"}}, "spec.job.upload.tags: "},
      {"/verify", true, "spec.job.verify is not known here"}};
  ExpectRefused(JobOf(Upload()), of_uploads);
  // What is left out of a restore into a volume in use would be written over it at any time.
  ExpectRefused(JobOf(Download()),
                {{"/download/startBefore", "soon", "is not a time as RFC 3339 has it"},
                 {"/download/startBefore", 5, "is not a time as RFC 3339 has it"},
                 {"/download/onlyDiffering", 1, "spec.job.download.onlyDiffering: "},
                 {"/download/snapshotID", "", "spec.job.download.snapshotID is missing"}});
  EXPECT_THAT(
      ReadJob(support::StoredJob(JobOf(ForgetWork{.items = {{.snapshot_id = "a", .tag = "b"}}}))),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("spec.job.forget.items[0] has not one of snapshotID and tag")));
  Json many = support::StoredJob(JobOf(ForgetWork{.items = {{.tag = "a"}}}));
  many["forget"]["items"] = Json::array();
  EXPECT_THAT(ReadJob(many), StatusIs(absl::StatusCode::kInvalidArgument,
                                      HasSubstr("is not a list of 1 to 500 objects")));
  many["forget"]["items"] = Json::array({{{"tag", "a"}}, {{"tags", "b"}}});
  EXPECT_THAT(ReadJob(many),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("spec.job.forget.items[1]")));
  ExpectRefused(JobOf(CheckWork{.part = 7, .parts = 7}),
                {{"/check/part", 0, "spec.job.check.part: "},
                 {"/check/part", 8, "spec.job.check.part: "},
                 {"/check/parts", 10'001, "spec.job.check.parts: "},
                 {"/check/readNewerThan", "new", "is not a time"}});
  for (const Json& json : {Json(), Json("job"), Json::array({1})}) {
    EXPECT_THAT(ReadJob(json),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("spec.job: ")));
  }
}

}  // namespace
}  // namespace csidelta::objects::volume_job_test

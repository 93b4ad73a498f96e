// --pvc and --upload: the whole program in this process, an API server, and a folder as the bucket.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/location_store.h"
#include "datamover/keyring.h"
#include "objects/protected_volume.h"
#include "tests/cli/program_runner.h"
#include "tests/datamover/mover_bed.h"
#include "tests/support/api_test_server.h"
#include "tests/support/fake_secure_random.h"
#include "tests/support/kind_names.h"
#include "tests/support/status_matchers.h"
#include "velero/data_reference.h"

namespace csidelta::cli::cluster_repository_test {
namespace {

using datamover::MoverBed;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr std::size_t kImageBytes = std::size_t{2} << 20;
constexpr char kCluster[] = "c1000000-0000-4000-8000-000000000001";
constexpr char kOtherUid[] = "b0000000-0000-4000-8000-000000000009";
constexpr char kCloud[] = "[default]\naws_access_key_id=own\naws_secret_access_key=shh\n";

// PVC shop/data with Backups nightly-2 and nightly-3, whose DataUploads are up-2 and up-3.
class ClusterRepositoryTest : public testing::Test {
 protected:
  ClusterRepositoryTest()
      : server_(bed_.api, {SecretType(), ConfigMapType(), DataUploadType(),
                           BackupStorageLocationType(), objects::ProtectedVolume::Type()}) {
    program_.Write("kubeconfig", server_.Kubeconfig());
    program_.open_store = [this](const storage::Location& location,
                                 const storage::StoreSettings& settings, Random& random) {
      opened_ = location;
      settings_ = settings;
      return storage::OpenStore(
          {.directory = location.kind == storage::Location::Kind::kDirectory
                            ? location.directory
                            : program_.Path(absl::StrCat("bucket/", location.prefix))},
          settings, random);
    };
    keyring_ = *datamover::OpenKeyring(bed_.ctx, bed_.api, MoverBed::kMover, {"velero", "default"},
                                       /*make=*/true, bed_.secure_random);
    MakeRepository(uid_);
    for (const char* night : {"2", "3"}) {
      image_ = support::Noise(kImageBytes, *night);
      Json upload = bed_.AddUpload(absl::StrCat("up-", night));
      upload["status"] = {
          {"phase", "Completed"},
          {"snapshotID", Reference(Backup(uid_, absl::StrCat("velero/nightly-", night)), uid_)}};
      bed_.api.Seed(DataUploadType(), upload);
      Record("data", upload["status"]["snapshotID"], "2026-11-03T02:00:00Z");
    }
  }

  std::string Folder(const std::string& uid) const {
    return program_.Path(absl::StrCat("bucket/p/plugins/csi-delta/", kCluster, "/shop/", uid, "/"));
  }
  Outcome WithKeys(std::vector<std::string> words, const std::string& uid) const {
    program_.Write("keys", repository::FormatKeyringFile(keyring_));
    words.insert(words.end(), {"--repo", Folder(uid), "--keyring-file", program_.Path("keys")});
    Outcome outcome = program_.Run(words);
    EXPECT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
    std::filesystem::remove(program_.Path("keys"));
    return outcome;
  }
  void MakeRepository(const std::string& uid) const {
    std::filesystem::create_directories(Folder(uid));
    WithKeys({"init"}, uid);
  }
  // The id of the new snapshot of the image.
  std::string Backup(const std::string& uid, const std::string& backup) const {
    program_.Write("image", image_);
    return GetString(WithKeys({"backup", "--json", program_.Path("image"), "--path", "/shop/data",
                               "--host", kCluster, "--tag", "velero-backup=" + backup},
                              uid)
                         .Result(),
                     {"snapshot_id"});
  }
  std::string Reference(const std::string& snapshot, const std::string& uid) const {
    return velero::FormatDataReference({.cluster = kCluster,
                                        .namespace_name = "shop",
                                        .claim_uid = uid,
                                        .snapshot_id = snapshot,
                                        .key = keyring_.newest().fingerprint});
  }
  void Record(const std::string& name, const Json& reference, const std::string& taken_at) {
    bed_.api.Seed(
        objects::ProtectedVolume::Type(),
        {{"metadata", {{"name", name}, {"namespace", "velero"}}},
         {"spec", {{"namespace", "shop"}, {"pvc", "data"}, {"backupStorageLocation", "default"}}},
         {"status", {{"lastGoodBackup", {{"snapshotID", reference}, {"takenAt", taken_at}}}}}});
  }
  Outcome Run(std::vector<std::string> words) const {
    words.insert(words.end(), {"--kubeconfig", program_.Path("kubeconfig"), "--mover-namespace",
                               MoverBed::kMover});
    return program_.Run(words);
  }
  Outcome OfPvc(std::vector<std::string> words) const {
    words.insert(words.end(), {"--pvc", "shop/data"});
    return Run(std::move(words));
  }
  // The tag of the snapshot that these words choose.
  std::string Chosen(std::vector<std::string> words) const {
    words.insert(words.begin(), {"show", "--json"});
    const Outcome outcome = Run(std::move(words));
    EXPECT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
    return DumpJson(outcome.Result()["snapshot"]["tags"]);
  }
  void SetLocation(JsonPath path, Json value) {
    bed_.api.SetField({BackupStorageLocationType(), "velero", "default"}, path, std::move(value));
  }

  static const k8s::ResourceType& BackupStorageLocationType() {
    return objects::BackupStorageLocation::Type();
  }

  const std::string uid_ = MoverBed::ClaimUid("shop", "data");
  MoverBed bed_;
  support::ApiTestServer server_;
  ProgramRunner program_;
  repository::Keyring keyring_;
  std::string image_;
  std::optional<storage::Location> opened_;
  storage::StoreSettings settings_;
};

TEST_F(ClusterRepositoryTest, EachVerbOnARepositoryFindsThatOfAPvc) {
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"snapshots"},
                                             {"show", "latest"},
                                             {"ls", "latest"},
                                             {"map", "nightly-2", "nightly-3"},
                                             {"diff", "nightly-2", "nightly-3"},
                                             {"stats"},
                                             {"check", "--read-data"},
                                             {"repair", "config"},
                                             {"repair", "index"},
                                             {"repair", "packs", "--from", program_.Path("image")},
                                             {"repair", "--forget"},
                                             {"forget", "latest", "--dry-run"},
                                             {"prune"},
                                             {"key", "list"}}) {
    const Outcome outcome = OfPvc(words);
    EXPECT_EQ(outcome.code, words[1 % words.size()] == "config" ? ExitCode::kFailed : ExitCode::kOk)
        << absl::StrJoin(words, " ") << ": " << outcome.error;
    ASSERT_TRUE(opened_.has_value()) << words.front();
    EXPECT_EQ(opened_->bucket, "b");
    EXPECT_EQ(opened_->prefix, absl::StrCat("p/plugins/csi-delta/", kCluster, "/shop/", uid_, "/"));
    opened_.reset();
  }
  for (const auto& file : std::filesystem::recursive_directory_iterator(program_.Path("."))) {
    if (!file.is_regular_file()) {
      continue;
    }
    const std::string path = std::filesystem::relative(file.path(), program_.Path("."));
    EXPECT_THAT(program_.Read(path), Not(HasSubstr(keyring_.newest().password.Reveal())))
        << "the key is in " << file.path();
  }
}

TEST_F(ClusterRepositoryTest, DoctorTriesTheBucketOfAPvcAndOfALocation) {
  const std::string folder = "p/plugins/csi-delta/";
  for (const auto& [words, prefix] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--pvc", "shop/data"}, absl::StrCat(folder, kCluster, "/shop/", uid_, "/")},
           {{"--location", "default"}, folder}}) {
    std::vector<std::string> line = {"doctor", "--bucket", "--all"};
    line.insert(line.end(), words.begin(), words.end());
    const Outcome outcome = Run(line);
    EXPECT_EQ(outcome.code, ExitCode::kOk) << outcome.out << outcome.error;
    EXPECT_THAT(outcome.out, HasSubstr("access key id of the location's Secret"));
    ASSERT_TRUE(opened_.has_value());
    EXPECT_EQ(opened_->prefix, prefix);
  }
  SetLocation({"spec", "accessMode"}, "ReadOnly");
  EXPECT_THAT(Run({"doctor", "--bucket", "--location", "default"}).out,
              HasSubstr("it is opened for reading only"));
}

TEST_F(ClusterRepositoryTest, ASnapshotIsChosenByBackupByTimeOrByDataUpload) {
  for (const auto& [words, night] : std::vector<std::pair<std::vector<std::string>, const char*>>{
           {{"--pvc", "shop/data", "--backup", "nightly-2"}, "2"},
           {{"--pvc", "shop/data", "--backup", "velero/nightly-3"}, "3"},
           {{"--pvc", "shop/data", "--until", "2099-01-01 00:00:00"}, "3"},
           {{"--upload", "up-2"}, "2"},
           {{"--upload", "up-2", "--backup", "nightly-3"}, "3"}}) {
    EXPECT_THAT(Chosen(words), HasSubstr(absl::StrCat("velero-backup=velero/nightly-", night)))
        << absl::StrJoin(words, " ");
  }
  EXPECT_EQ(OfPvc({"restore", "--backup", "nightly-2", "--target", program_.Path("target")}).code,
            ExitCode::kOk);
  EXPECT_TRUE(program_.Read("target") == support::Noise(kImageBytes, '2'));
  EXPECT_THAT(OfPvc({"show", "--backup", "nightly-4"}).error,
              HasSubstr("no snapshot matches Backup nightly-4; csi-delta snapshots lists"));
  EXPECT_THAT(OfPvc({"show", "--until", "2020-01-01 00:00:00"}).error,
              HasSubstr("no snapshot matches"));
  EXPECT_THAT(OfPvc({"show", "--until", "yesterday"}).error, HasSubstr("is not a time such as"));
  EXPECT_THAT(OfPvc({"show"}).error, HasSubstr("name a snapshot by its id"));
  EXPECT_THAT(OfPvc({"map", "nightly-2", "nightly-4"}).error, HasSubstr("Backup nightly-4"));
  EXPECT_THAT(OfPvc({"snapshots", "--backup", "nightly-2"}).out, HasSubstr("1 snapshot"));
}

TEST_F(ClusterRepositoryTest, VerbsThatMakeARepositoryABackupOrAKeyDoNotTakeThem) {
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"init"}, {"backup", program_.Path("image")}, {"key", "add"}, {"key", "passwd"}}) {
    EXPECT_THAT(program_
                    .Run([&] {
                      std::vector<std::string> all = words;
                      all.insert(all.end(), {"--pvc", "shop/data"});
                      return all;
                    }())
                    .error,
                HasSubstr("unexpected argument: --pvc"));
  }
}

TEST_F(ClusterRepositoryTest, CredentialsAreTheLocationsOrElseThoseOfTheCaller) {
  program_.variables = {{"AWS_ACCESS_KEY_ID", "mine"}, {"AWS_SECRET_ACCESS_KEY", "hush"}};
  struct Case {
    const char* name;
    const char* secret;  // in Velero's namespace; "": none
    const char* text;
    const char* key_id;
  };
  for (const Case& one : {Case{"of the location", "creds", kCloud, "own"},
                          Case{"of Velero", "cloud-credentials", kCloud, "own"},
                          Case{"of a profile that is not there", "creds", "[other]\n", "mine"},
                          Case{"of a node or service account", "", "", "mine"}}) {
    SCOPED_TRACE(one.name);
    const std::string secret = one.secret;
    SetLocation({"spec", "credential"},
                secret == "creds" ? Json{{"name", secret}, {"key", "cloud"}} : Json());
    if (!secret.empty()) {
      bed_.api.Seed(SecretType(), {{"metadata", {{"name", secret}, {"namespace", "velero"}}},
                                   {"data", {{"cloud", absl::Base64Escape(one.text)}}}});
    }
    const Outcome outcome = OfPvc({"snapshots"});
    EXPECT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
    EXPECT_EQ(settings_.environment.keys.access_key_id, one.key_id);
    const auto says = HasSubstr(
        "BackupStorageLocation velero/default has no credentials of its own: its workers use those "
        "of their node or service account, and this program those of its own AWS environment");
    EXPECT_EQ(testing::Value(outcome.error, says), std::string("mine") == one.key_id);
    bed_.api.Remove({SecretType(), "velero", "cloud-credentials"});
  }
}

TEST_F(ClusterRepositoryTest, ABucketOfGoogleIsOpenedWithItsSecretElseAsTheCaller) {
  SetLocation({"spec", "provider"}, "velero.io/gcp");
  SetLocation({"spec", "config"}, Json::object());
  SetLocation({"spec", "credential"}, {{"name", "creds"}, {"key", "cloud"}});
  bed_.api.Seed(SecretType(),
                {{"metadata", {{"name", "creds"}, {"namespace", "velero"}}},
                 {"data", {{"cloud", absl::Base64Escape(R"({"type": "service_account"})")}}}});
  const auto says = HasSubstr("this program those of its own Google environment");
  Outcome outcome = OfPvc({"snapshots"});
  EXPECT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  EXPECT_THAT(outcome.error, Not(says));
  ASSERT_TRUE(opened_.has_value());
  EXPECT_EQ(opened_->kind, storage::Location::Kind::kGoogle);
  EXPECT_THAT(OfPvc({"extend-locks"}).error,
              HasSubstr("objects are locked in buckets of S3 alone"));
  SetLocation({"spec", "credential"}, Json());
  outcome = OfPvc({"snapshots"});
  EXPECT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  EXPECT_THAT(outcome.error, says);
}

// A store of Azure or Google reads its credentials from a file.
TEST(LocationVariablesTest, AreTheLocationsAndNoneOfTheCallersForItsCloud) {
  const auto get = [](const char* name) -> const char* {
    return std::string(name) == "LANG" ? "C" : "of the caller";
  };
  datamover::RepositoryAccess access;
  access.secret_data["cloud"] = Secret("AZURE_CLIENT_ID=id\n");
  access.repository.address = "azure:c:/p";
  access.env = {{"AZURE_CREDENTIALS_FILE", "/secrets/cloud"},
                {"AZURE_AUTHORITY_HOST", "https://a"}};
  const auto own = VariablesOf(access, get);
  ASSERT_THAT(own, support::IsOk());
  for (int reads = 0; reads < 2; ++reads) {
    std::ifstream file((*own)("AZURE_CREDENTIALS_FILE"));
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "AZURE_CLIENT_ID=id\n");
  }
  EXPECT_STREQ((*own)("AZURE_AUTHORITY_HOST"), "https://a");
  EXPECT_EQ((*own)("AZURE_CLIENT_SECRET"), nullptr);
  EXPECT_STREQ((*own)("LANG"), "C");
  access.secret_data.clear();
  EXPECT_STREQ((*VariablesOf(access, get))("AZURE_CLIENT_SECRET"), "of the caller");
  access.repository.address = "s3:https://h/b";
  EXPECT_STREQ((*VariablesOf(access, get))("AZURE_AUTHORITY_HOST"), "of the caller");
}

TEST_F(ClusterRepositoryTest, AProfileOfTheLocationIsThatOfItsSecret) {
  SetLocation({"spec", "config", "profile"}, "backups");
  bed_.api.Seed(SecretType(), {{"metadata", {{"name", "creds"}, {"namespace", "velero"}}},
                               {"data",
                                {{"cloud", absl::Base64Escape("[backups]\naws_access_key_id=p\n"
                                                              "aws_secret_access_key=s\n")}}}});
  EXPECT_EQ(OfPvc({"snapshots"}).code, ExitCode::kOk);
  EXPECT_EQ(settings_.environment.keys.access_key_id, "p");
  EXPECT_EQ(settings_.region, "minio");
}

TEST_F(ClusterRepositoryTest, WhatTheCallerMayNotReadIsNamed) {
  struct Case {
    const char* verb;
    const char* plural;
    const char* in;
    const char* named;
    const char* flag;
  };
  for (const Case& one :
       {Case{"list", "protectedvolumes", "velero", "protectedvolumes.mover.csi-delta.io in velero",
             "--pvc=shop/data"},
        Case{"get", "datauploads", "velero", "datauploads.velero.io velero/up-2", "--upload=up-2"},
        Case{"get", "backupstoragelocations", "velero",
             "backupstoragelocations.velero.io velero/default", "--pvc=shop/data"},
        Case{"get", "secrets", "velero", "secrets velero/creds", "--upload=up-2"},
        Case{"get", "secrets", "mover", "secrets mover/csi-delta-keys-velero.default",
             "--upload=up-2"}}) {
    SCOPED_TRACE(one.named);
    bed_.api.Forbid(one.verb, one.plural, one.in);
    const Outcome outcome = Run({"snapshots", one.flag});
    EXPECT_EQ(outcome.code, ExitCode::kFailed);
    EXPECT_THAT(outcome.error, AllOf(HasSubstr(absl::StrCat(one.verb, " ", one.named)),
                                     HasSubstr("docs/security.md lists the rights")));
    bed_.api.ClearFaults();
  }
  bed_.api.Forbid("get", "configmaps");
  EXPECT_EQ(OfPvc({"snapshots"}).code, ExitCode::kOk) << "only writing needs the settings";
  EXPECT_THAT(OfPvc({"prune"}).error, HasSubstr("get configmaps mover/csi-delta-mover"));
}

TEST_F(ClusterRepositoryTest, WorkThatDeletesOrWritesDoesItAsTheMover) {
  bed_.api.Seed(
      ConfigMapType(),
      {{"metadata", {{"name", "csi-delta-mover"}, {"namespace", MoverBed::kMover}}},
       {"data",
        {{"config.json",
          R"({"backupStorageLocations": {"default": {"deletionCredential": {"name": "may-delete",
                        "key": "cloud"}, "immutability": {"mode": "governance", "days": 30}}}})"}}}});
  bed_.api.Seed(SecretType(), {{"metadata", {{"name", "may-delete"}, {"namespace", "velero"}}},
                               {"data",
                                {{"cloud", absl::Base64Escape("[default]\naws_access_key_id=del\n"
                                                              "aws_secret_access_key=s\n")}}}});
  OfPvc({"snapshots"});
  EXPECT_EQ(settings_.environment.keys.access_key_id, "id");
  OfPvc({"prune"});
  EXPECT_EQ(settings_.environment.keys.access_key_id, "del");
  EXPECT_EQ(settings_.s3.object_lock_duration, absl::Hours(24 * 30));
  EXPECT_THAT(OfPvc({"extend-locks"}).error, Not(HasSubstr("how long objects are locked")));
  for (const auto& [option, works] :
       {std::pair("s3.object-lock-days=29", false), std::pair("s3.object-lock-days=31", true),
        std::pair("s3.object-lock-mode=COMPLIANCE", true)}) {
    const Outcome outcome = OfPvc({"prune", "-o", option});
    EXPECT_EQ(outcome.code, works ? ExitCode::kOk : ExitCode::kFailed) << outcome.error;
    EXPECT_EQ(testing::Value(outcome.error, HasSubstr("locks objects here for 30 days")), !works);
  }
  EXPECT_EQ(settings_.s3.object_lock_mode, "COMPLIANCE");
}

TEST_F(ClusterRepositoryTest, AKeyThatIsMissingIsToBeImported) {
  const k8s::ObjectKey key = datamover::KeyringSecretKey(MoverBed::kMover, {"velero", "default"});
  bed_.api.Remove(key);
  EXPECT_THAT(OfPvc({"snapshots"}).error, HasSubstr("no keys for location velero/default"));
  EXPECT_FALSE(bed_.api.Find(key).has_value()) << "none is made";
  ASSERT_THAT(datamover::ImportKeys(bed_.ctx, bed_.api, MoverBed::kMover, {"velero", "default"},
                                    {.keys = {repository::MakeRepositoryKey(bed_.secure_random)}},
                                    /*newest=*/true),
              support::IsOk());
  const Outcome outcome = OfPvc({"snapshots"});
  EXPECT_EQ(outcome.code, ExitCode::kWrongPassword);
  EXPECT_THAT(outcome.error,
              HasSubstr("to location velero/default with csi-delta mover-key import"));
}

TEST_F(ClusterRepositoryTest, AReadOnlyLocationIsReadWithoutALockAndNotMended) {
  SetLocation({"spec", "accessMode"}, "ReadOnly");
  EXPECT_EQ(OfPvc({"check"}).code, ExitCode::kOk);
  const Outcome outcome = OfPvc({"repair", "index"});
  EXPECT_EQ(outcome.code, ExitCode::kFailed);
  EXPECT_THAT(outcome.error, HasSubstr("velero/default: its access mode is ReadOnly, so nothing"));
}

TEST_F(ClusterRepositoryTest, OfSeveralRepositoriesTheOneWithTheNewestBackupIsOpened) {
  MakeRepository(kOtherUid);
  image_ = "an older PVC of that name";
  const std::string older = Reference(Backup(kOtherUid, "velero/old"), kOtherUid);
  Record("older", older, "2026-10-01T00:00:00Z");
  const Outcome outcome = OfPvc({"snapshots"});
  EXPECT_THAT(outcome.out, HasSubstr("2 snapshots"));
  EXPECT_THAT(outcome.error, AllOf(HasSubstr("PVC shop/data has several repositories"),
                                   HasSubstr("--location default --upload " + older)));
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"prune"}, {"forget", "latest"}, {"repair", "--forget"}, {"key", "remove", "5f3a"}}) {
    const Outcome refused = OfPvc(words);
    EXPECT_EQ(refused.code, ExitCode::kFailed) << words.front();
    EXPECT_THAT(refused.error, AllOf(HasSubstr("PVC shop/data has several repositories"),
                                     HasSubstr("--location default --upload " + older)));
  }
  EXPECT_THAT(Run({"snapshots", "--location", "default", "--upload", older}).out,
              HasSubstr("1 snapshot"));
  EXPECT_THAT(OfPvc({"snapshots", "--location", "elsewhere"}).error,
              HasSubstr("no completed backup of PVC shop/data by the data mover csi-delta is known "
                        "in namespace velero at location elsewhere; csi-delta status"));
}

TEST_F(ClusterRepositoryTest, TheKeyThatOpensTheRepositoryOfAPvcStays) {
  const Outcome listed = OfPvc({"key", "list", "--json"});
  const Json keys = *ParseJson(listed.out);
  ASSERT_EQ(keys.size(), 1u) << listed.out;
  const std::string id = GetString(keys[0], {"id"});
  const Outcome refused = OfPvc({"key", "remove", id.substr(0, 8)});
  EXPECT_EQ(refused.code, ExitCode::kFailed);
  EXPECT_THAT(refused.error, HasSubstr("this key opened the repository: use another to remove it"));
  EXPECT_THAT(OfPvc({"key", "list"}).out, HasSubstr(id.substr(0, 8)));
}

TEST_F(ClusterRepositoryTest, ARepositoryIsNamedOnce) {
  for (const auto& [words, want] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--pvc", "shop/data", "--repo", Folder(uid_)}, "leave out --repo"},
           {{"--pvc", "shop/data", "--keyring-file", "/k"}, "leave out --repo, and what opens it"},
           {{"--pvc", "shop/data", "--upload", "up-2"}, "give either --pvc or --upload"},
           {{"--pvc", "data"}, "no completed backup of PVC data by"},
           {{"--upload", "up-9"}, "DataUpload velero/up-9 was not found"},
           {{"--upload", "x", "--location", "default"},
            "snapshot id \"x\": another data mover wrote it"}}) {
    std::vector<std::string> all = {"snapshots"};
    all.insert(all.end(), words.begin(), words.end());
    const Outcome outcome = Run(all);
    EXPECT_EQ(outcome.code, ExitCode::kFailed) << want;
    EXPECT_THAT(outcome.error, HasSubstr(want));
  }
  program_.variables["RESTIC_REPOSITORY"] = "/nowhere";
  EXPECT_EQ(OfPvc({"snapshots"}).code, ExitCode::kOk) << "a flag comes before a variable";
}

TEST_F(ClusterRepositoryTest, NoRuleRemovesWhatBackupsOfVeleroNeed) {
  const Outcome outcome = OfPvc({"forget", "--keep-last", "1", "--prune"});
  EXPECT_EQ(outcome.code, ExitCode::kFailed);
  EXPECT_THAT(outcome.error, HasSubstr("velero backup delete"));
}

TEST_F(ClusterRepositoryTest, CopyReadsTheRepositoryOfAPvc) {
  program_.variables["RESTIC_PASSWORD"] = "elsewhere";
  ASSERT_EQ(program_.Run({"init", "--repo", program_.Path("copy")}).code, ExitCode::kOk);
  const Outcome outcome = OfPvc({"copy", "--backup", "nightly-3", "--repo", program_.Path("copy")});
  EXPECT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  EXPECT_THAT(program_.Run({"snapshots", "--repo", program_.Path("copy")}).out,
              HasSubstr("1 snapshot"));
  EXPECT_THAT(OfPvc({"copy", "--from-repo", program_.Path("copy")}).error,
              HasSubstr("or from --from-repo, not both"));
}

TEST_F(ClusterRepositoryTest, AReportTakesFromTheRepositoryWhatTheRecordsLack) {
  for (const char* upload : {"up-2", "up-3"}) {
    ASSERT_TRUE(bed_.api.Delete(bed_.ctx, {DataUploadType(), "velero", upload}, {}).ok());
  }
  const auto backups = [this](std::vector<std::string> words) {
    words.insert(words.begin(), {"report", "--cluster", "--json", "--since", "2y"});
    const Outcome outcome = Run(std::move(words));
    EXPECT_THAT(outcome.error, HasSubstr("schedules"));  // Not served here: noted.
    std::vector<std::string> names;
    const Json result = outcome.Result();
    for (const Json& volume : result["volumes"]) {
      for (const Json& backup : volume["backups"]) {
        names.push_back(GetString(backup, {"backup"}));
      }
    }
    return absl::StrJoin(names, " ");
  };
  EXPECT_EQ(backups({}), "nightly-2 nightly-3");
  EXPECT_EQ(backups({"--only-records"}), "");
}

}  // namespace
}  // namespace csidelta::cli::cluster_repository_test

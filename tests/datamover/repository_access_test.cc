#include "datamover/repository_access.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "datamover/keyring.h"
#include "datamover/location_settings.h"
#include "k8s/object.h"
#include "objects/backup_storage_location.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_secure_random.h"
#include "tests/support/kind_names.h"
#include "tests/support/paths.h"
#include "tests/support/status_matchers.h"

namespace csidelta::datamover::repository_access_test {
namespace {

using support::IsOk;
using Kind = storage::Location::Kind;
using support::StatusIs;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::Pair;
using testing::UnorderedElementsAre;

constexpr char kCloud[] = "[default]\naws_access_key_id=id\naws_secret_access_key=shh\n";
constexpr char kAzureFile[] =
    "# of Velero\nAZURE_TENANT_ID=t\nAZURE_CLIENT_SECRET=shh\nMY_KEY=shh\n";
constexpr char kGoogleFile[] = R"({"type": "service_account", "private_key": "shh"})";
constexpr char kPath[] = "plugins/csi-delta/cluster/app/claim";

class RepositoryAccessTest : public testing::Test {
 protected:
  RepositoryAccessTest() {
    location_ = {
        {"metadata", {{"name", "default"}, {"namespace", "velero"}}},
        {"spec",
         {{"provider", "aws"},
          {"objectStorage", {{"bucket", "b"}, {"prefix", "p"}}},
          {"config",
           {{"region", "minio"}, {"s3Url", "http://s3:9000/"}, {"s3ForcePathStyle", "true"}}},
          {"credential", {{"name", "creds"}, {"key", "cloud"}}}}}};
    SeedSecret("creds", "cloud", kCloud);
  }

  void SeedSecret(const std::string& name, const std::string& key, const std::string& text) {
    api_.Seed(SecretType(), {{"metadata", {{"name", name}, {"namespace", "velero"}}},
                             {"data", {{key, absl::Base64Escape(text)}}}});
  }
  void Config(const char* setting, const char* value) {
    location_["spec"]["config"][setting] = value;
  }
  // A location of another provider, with credentials.
  void Use(const char* provider, Json config, const std::string& credentials) {
    location_["spec"]["provider"] = provider;
    location_["spec"]["config"] = std::move(config);
    SeedSecret("creds", "cloud", credentials);
  }
  absl::StatusOr<RepositoryAccess> Open(bool for_writing,
                                        const std::string& written_with_key = "") {
    api_.Seed(objects::BackupStorageLocation::Type(), location_);
    return OpenRepositoryAccess(CallContext(), api_,
                                {.velero_namespace = "velero",
                                 .location = "default",
                                 .mover_namespace = "mover",
                                 .repository_path = kPath,
                                 .for_writing = for_writing,
                                 .written_with_key = written_with_key},
                                random_);
  }
  RepositoryAccess MustOpen(bool for_writing = true) {
    absl::StatusOr<RepositoryAccess> access = Open(for_writing);
    EXPECT_THAT(access, IsOk());
    return access.ok() ? *std::move(access) : RepositoryAccess();
  }
  objects::JobRepository RepositoryOf() { return MustOpen().repository; }
  void ExpectRefused(const testing::Matcher<std::string>& message) {
    EXPECT_THAT(Open(/*for_writing=*/true),
                StatusIs(absl::StatusCode::kFailedPrecondition, message));
  }

  support::FakeApiClient api_;
  support::FakeSecureRandom random_;
  Json location_;
};

TEST_F(RepositoryAccessTest, GivesWhatAWorkerNeedsAndNoMore) {
  const RepositoryAccess access = MustOpen();
  EXPECT_EQ(access.repository,
            (objects::JobRepository{.address = absl::StrCat("s3:http://s3:9000/b/p/", kPath),
                                    .region = "minio",
                                    .bucket_lookup = "path",
                                    .has_keyring = true}));
  EXPECT_THAT(access.env,
              UnorderedElementsAre(Pair("AWS_SHARED_CREDENTIALS_FILE", "/secrets/cloud")));
  ASSERT_EQ(access.secret_data.size(), 2U);
  EXPECT_EQ(access.secret_data.at("cloud").Reveal(), kCloud);
  const auto keyring = repository::ParseKeyringFile(access.secret_data.at("keyring").Reveal());
  ASSERT_THAT(keyring, IsOk());
  EXPECT_EQ(access.key_fingerprint, keyring->newest().fingerprint);
  EXPECT_FALSE(access.key_confirmed);
}

TEST_F(RepositoryAccessTest, TheSecretHoldsIt) {
  const RepositoryAccess access = MustOpen();
  const Json secret = MakeAccessSecret("mover", "du-1", {{"l", "v"}},
                                       objects::OwnerReference{.name = "du-1"}, access)
                          .json();
  EXPECT_EQ(k8s::Name(secret), "du-1");
  EXPECT_EQ(GetString(secret, {"data", "cloud"}), absl::Base64Escape(kCloud));
  EXPECT_EQ(secret.at("metadata").at("ownerReferences").at(0).at("name"), "du-1");
}

TEST_F(RepositoryAccessTest, HonoursTheSettingsOfTheLocation) {
  Config("profile", "backup");
  Config("insecureSkipTLSVerify", "true");
  Config("kmsKeyId", "key-1");
  location_["spec"]["objectStorage"]["caCert"] = absl::Base64Escape("pem");
  SeedSecret("creds", "cloud", "[backup]\naws_access_key_id=id\naws_secret_access_key=shh\n");
  const RepositoryAccess access = MustOpen();
  EXPECT_TRUE(access.repository.insecure_tls);
  EXPECT_EQ(access.repository.encryption, "aws:kms");
  EXPECT_EQ(access.repository.kms_key_id, "key-1");
  EXPECT_TRUE(access.repository.has_certificates);
  EXPECT_EQ(access.secret_data.at("ca.crt").Reveal(), "pem");
  EXPECT_THAT(access.env, Contains(Pair("AWS_PROFILE", "backup")));
}

TEST_F(RepositoryAccessTest, EncryptionOfTheBucketsOwnIsAskedFor) {
  Config("serverSideEncryption", "AES256");
  EXPECT_EQ(RepositoryOf().encryption, "AES256");
}

TEST_F(RepositoryAccessTest, ACertificateMayLieInASecret) {
  location_["spec"]["objectStorage"]["caCertRef"] = {{"name", "ca"}, {"key", "tls"}};
  ExpectRefused(HasSubstr("Secret velero/ca is not there"));
  SeedSecret("ca", "tls", "pem");
  const RepositoryAccess access = MustOpen();
  EXPECT_EQ(access.secret_data.at("ca.crt").Reveal(), "pem");
}

TEST_F(RepositoryAccessTest, BucketsAreAskedForAsVeleroDoes) {
  Config("s3ForcePathStyle", "false");
  EXPECT_EQ(RepositoryOf().bucket_lookup, "dns");
  Config("s3Url", "http://127.0.0.1:9000");
  EXPECT_EQ(RepositoryOf().bucket_lookup, "auto");
  Config("s3Url", "http://[::1]:9000");
  EXPECT_EQ(RepositoryOf().bucket_lookup, "auto");
  Config("s3Url", "https://s3.example");
  location_["spec"]["objectStorage"]["bucket"] = "with.dots";
  EXPECT_EQ(RepositoryOf().bucket_lookup, "auto");
}

TEST_F(RepositoryAccessTest, WithoutAUrlItIsAwsOfTheRegion) {
  location_["spec"]["config"] = {{"region", "eu-west-1"}};
  EXPECT_EQ(RepositoryOf().address,
            absl::StrCat("s3:https://s3.eu-west-1.amazonaws.com/b/p/", kPath));
  location_["spec"]["config"] = {{"region", "cn-north-1"}};
  EXPECT_EQ(RepositoryOf().address,
            absl::StrCat("s3:https://s3.cn-north-1.amazonaws.com.cn/b/p/", kPath));
  location_["spec"]["config"] = {{"region", "eusc-de-east-1"}};
  EXPECT_EQ(RepositoryOf().address,
            absl::StrCat("s3:https://s3.eusc-de-east-1.amazonaws.eu/b/p/", kPath));
  location_["spec"]["config"] = Json::object();
  location_["spec"]["objectStorage"].erase("prefix");
  EXPECT_EQ(RepositoryOf().address, absl::StrCat("s3:https://s3.amazonaws.com/b/", kPath));
}

TEST_F(RepositoryAccessTest, VelerosOwnCredentialsCountWhereTheLocationNamesNone) {
  location_["spec"].erase("credential");
  const RepositoryAccess own = MustOpen();
  EXPECT_THAT(own.env, IsEmpty());
  EXPECT_FALSE(own.secret_data.contains("cloud"));
  SeedSecret("cloud-credentials", "cloud", kCloud);
  const RepositoryAccess access = MustOpen();
  EXPECT_EQ(access.secret_data.at("cloud").Reveal(), kCloud);
}

TEST_F(RepositoryAccessTest, ACredentialThatIsNotThereIsNotReplaced) {
  location_["spec"]["credential"] = {{"name", "gone"}, {"key", "cloud"}};
  SeedSecret("cloud-credentials", "cloud", kCloud);
  ExpectRefused(HasSubstr("velero/default: Secret velero/gone is not there"));
  location_["spec"]["credential"] = {{"name", "creds"}, {"key", "other"}};
  ExpectRefused(HasSubstr("creds has no key other"));
}

TEST_F(RepositoryAccessTest, CredentialsThatDoNotReadAreNamedAndNotShown) {
  SeedSecret("creds", "cloud", "[default]\naws_secret_access_key shh\n");
  ExpectRefused(AllOf(HasSubstr("Secret velero/creds, key cloud"), Not(HasSubstr("shh"))));
}

TEST_F(RepositoryAccessTest, OtherProvidersAreRefusedByName) {
  location_["spec"]["provider"] = "velero.io/alibaba";
  ExpectRefused(AllOf(HasSubstr("velero/default"), HasSubstr("\"velero.io/alibaba\""),
                      HasSubstr("velero.io/aws"), HasSubstr("velero.io/azure"),
                      HasSubstr("velero.io/gcp"), HasSubstr("back up to such a location")));
  location_["spec"]["provider"] = "velero.io/aws";
  EXPECT_THAT(Open(/*for_writing=*/true), IsOk());
}

// Opens the location with one more setting, which is refused.
struct RefusedSetting {
  const char* key;
  const char* value;
};

TEST_F(RepositoryAccessTest, SettingsThatCannotBeHonouredAreRefusedByName) {
  const RefusedSetting of_s3[] = {{"customerKeyEncryptionFile", "/k"},
                                  {"customerKeyEncryptionSecret", "s/k"},
                                  {"s3ForcePathStyle", "yes"},
                                  {"insecureSkipTLSVerify", "on"},
                                  {"checksumAlgorithm", "MD4"},
                                  {"tagging", "a"},
                                  {"tagging", "a=1&b=2=3"},
                                  {"tagging", "a=1\r\nx-amz-acl: public-read"},
                                  {"tagging", "a=1&b=1&c=1&d=1&e=1&f=1&g=1&h=1&i=1&j=1&k=1"},
                                  {"storageClass", "GLACIER"},
                                  {"storageAccount", "acct"},
                                  {"line\nbreak", "x"}};
  const RefusedSetting of_azure[] = {{"storageAccount", ""},
                                     {"storageAccount", "ab"},
                                     {"storageAccount", "Acct"},
                                     {"storageAccount", "acct.evil"},
                                     {"storageAccount", "acct567890123456789012345"},
                                     {"storageAccountURI", "acct.blob.core.windows.net"},
                                     {"storageAccountURI", "https://u:p@host"},
                                     {"storageAccountURI", "https://host/?sig=x"},
                                     {"activeDirectoryAuthorityURI", "login"},
                                     {"storageAccountKeyEnvVar", "MY KEY"},
                                     {"storageAccountKeyEnvVar", "1KEY"},
                                     {"useAAD", "yes"},
                                     {"resourceGroup", "a b"},
                                     {"subscriptionId", "a\nb"},
                                     {"blockSizeInBytes", "0"},
                                     {"blockSizeInBytes", "1Mi"},
                                     {"blockSizeInBytes", "104857601"},
                                     {"region", "westeurope"},
                                     {"insecureSkipTLSVerify", "true"}};
  const RefusedSetting of_google[] = {{"storeEndpoint", "http://storage-x.p.googleapis.com"},
                                      {"universeDomain", "example.com"},
                                      {"kmsKeyName", "projects/p\r\nx: y"},
                                      {"region", "europe-west1"}};
  const auto expect_refused = [&](absl::Span<const RefusedSetting> settings) {
    const Json config = location_["spec"]["config"];
    for (const auto& [key, value] : settings) {
      location_["spec"]["config"] = config;
      Config(key, value);
      EXPECT_THAT(Open(/*for_writing=*/true),
                  StatusIs(absl::StatusCode::kFailedPrecondition,
                           AllOf(HasSubstr("BackupStorageLocation velero/default: config."),
                                 HasSubstr(absl::CHexEscape(key)))))
          << key << value;
    }
  };
  expect_refused(of_s3);
  Use("azure", {{"storageAccount", "acct"}}, kAzureFile);
  expect_refused(of_azure);
  Use("gcp", Json::object(), kGoogleFile);
  expect_refused(of_google);
}

// What follows the slash would be taken for a folder, in a foreign bucket.
TEST_F(RepositoryAccessTest, ABucketsNameIsTakenWholeOrRefused) {
  for (const char* bucket : {"p/q", "velero/", "/velero"}) {
    location_["spec"]["objectStorage"]["bucket"] = bucket;
    EXPECT_THAT(Open(/*for_writing=*/true), StatusIs(absl::StatusCode::kFailedPrecondition))
        << bucket;
  }
}

TEST_F(RepositoryAccessTest, IgnoredSettingsChangeNothing) {
  const objects::JobRepository repository = RepositoryOf();
  for (const LocationSetting& setting : LocationSettings(Kind::kS3)) {
    if (setting.use == LocationSetting::Use::kIgnored) {
      Config(std::string(setting.key).c_str(), "x");
    }
  }
  Config("credentialsFile", "/tmp/credentials/velero/creds-cloud");  // Beside spec.credential.
  Config("customerKeyEncryptionSecret", "");
  for (const char* algorithm : {"CRC32", "SHA256"}) {
    Config("checksumAlgorithm", algorithm);
    EXPECT_EQ(RepositoryOf(), repository);
  }
}

TEST_F(RepositoryAccessTest, AnEmptyChecksumAlgorithmSendsNoChecksum) {
  EXPECT_THAT(RepositoryOf().options, IsEmpty());
  Config("checksumAlgorithm", "");
  EXPECT_THAT(RepositoryOf().options, ElementsAre("s3.checksum=none"));
}

TEST_F(RepositoryAccessTest, AFileInVelerosPodIsNoCredentialOfAWorker) {
  location_["spec"].erase("credential");
  Config("credentialsFile", "/credentials/cloud");
  SeedSecret("cloud-credentials", "cloud", kCloud);
  const RepositoryAccess access = MustOpen();
  EXPECT_EQ(access.secret_data.at("cloud").Reveal(), kCloud);
}

TEST_F(RepositoryAccessTest, AnAccessPointIsNoBucket) {
  location_["spec"]["objectStorage"]["bucket"] = "arn:aws:s3::1:accesspoint/x.mrap";
  ExpectRefused(AllOf(HasSubstr("velero/default"), HasSubstr("alias of the access point")));
}

TEST_F(RepositoryAccessTest, TagsReachEveryObject) {
  Config("tagging", "team=a&cost=b");
  EXPECT_EQ(RepositoryOf().tagging, "team=a&cost=b");
}

TEST_F(RepositoryAccessTest, ACertificateInTheSettingsCountsWhereThereIsNoOther) {
  Config("caCert", "of the settings");
  EXPECT_EQ(Open(/*for_writing=*/true)->secret_data.at("ca.crt").Reveal(), "of the settings");
  location_["spec"]["objectStorage"]["caCert"] = absl::Base64Escape("pem");
  EXPECT_EQ(Open(/*for_writing=*/true)->secret_data.at("ca.crt").Reveal(), "pem");
}

TEST_F(RepositoryAccessTest, AnAccessModeThatIsUnknownIsNotTakenForWritable) {
  location_["spec"]["accessMode"] = "readonly";
  ExpectRefused(HasSubstr("spec.accessMode"));
  location_["spec"]["accessMode"] = "ReadWrite";
  EXPECT_THAT(Open(/*for_writing=*/true), IsOk());
}

TEST_F(RepositoryAccessTest, TheDocumentationHasARowForEachSetting) {
  const std::string page = support::ReadSource("docs/data-mover-settings.md");
  const std::map<LocationSetting::Use, std::string> texts = {
      {LocationSetting::Use::kSupported, "supported"},
      {LocationSetting::Use::kIgnored, "ignored"},
      {LocationSetting::Use::kRejected, "rejected"}};
  for (const auto& [kind, heading, settings] :
       {std::tuple(Kind::kDirectory, "### Keys of every provider", 4U),
        std::tuple(Kind::kS3, "### Keys of S3", 14U),
        std::tuple(Kind::kAzure, "### Keys of Azure", 8U),
        std::tuple(Kind::kGoogle, "### Keys of Google", 4U)}) {
    ASSERT_THAT(page, HasSubstr(heading));
    const std::string section = page.substr(page.find(heading));
    const std::string table = section.substr(0, section.find("\n\n", section.find("|---|")));
    EXPECT_EQ(LocationSettings(kind).size(), settings) << heading;
    for (const LocationSetting& setting : LocationSettings(kind)) {
      EXPECT_THAT(table, HasSubstr(absl::StrCat("| `", setting.key, "` | ", texts.at(setting.use),
                                                " | ", setting.how, " |")));
    }
  }
}

// --- Azure and Google

TEST_F(RepositoryAccessTest, AWorkerForAzureGetsAccountAndCredentials) {
  Use("velero.io/azure", {{"storageAccount", "acct"}}, kAzureFile);
  const RepositoryAccess access = MustOpen();
  EXPECT_EQ(access.repository,
            (objects::JobRepository{.address = absl::StrCat("azure:b:/p/", kPath),
                                    .options = {"azure.account-name=acct", "azure.use-aad=false"},
                                    .has_keyring = true}));
  EXPECT_THAT(access.env, ElementsAre(Pair("AZURE_CREDENTIALS_FILE", "/secrets/cloud")));
  EXPECT_EQ(access.secret_data.at("cloud").Reveal(), kAzureFile);
}

TEST_F(RepositoryAccessTest, EachSettingOfAzureReachesTheWorker) {
  Use("azure",
      {{"storageAccount", "acct"},
       {"storageAccountURI", "https://acct.example/"},
       {"storageAccountKeyEnvVar", "MY_KEY"},
       {"useAAD", "true"},
       {"resourceGroup", "backup(s)"},
       {"subscriptionId", "sub"},
       {"activeDirectoryAuthorityURI", "https://login.example/"},
       {"blockSizeInBytes", "4096"},
       {"caCert", "pem"}},
      kAzureFile);
  const RepositoryAccess access = MustOpen();
  EXPECT_THAT(access.repository.options,
              UnorderedElementsAre(
                  "azure.account-name=acct", "azure.storage-account-uri=https://acct.example/",
                  "azure.account-key-variable=MY_KEY", "azure.resource-group=backup(s)",
                  "azure.subscription-id=sub", "azure.block-size=1048576"));
  EXPECT_TRUE(access.repository.has_certificates);
  EXPECT_THAT(access.env, Contains(Pair("AZURE_AUTHORITY_HOST", "https://login.example/")));
  Config("storageAccountKeyEnvVar", "");
  EXPECT_THAT(RepositoryOf().options, Contains("azure.use-aad=true"));
}

TEST_F(RepositoryAccessTest, AWorkerForGoogleGetsKeyAndCredentials) {
  Use("velero.io/gcp",
      {{"kmsKeyName", "projects/p/k"},
       {"storeEndpoint", "storage-x.p.googleapis.com"},
       {"serviceAccount", "velero@p"},
       {"universeDomain", "googleapis.com"}},
      kGoogleFile);
  const RepositoryAccess access = MustOpen();
  EXPECT_EQ(access.repository,
            (objects::JobRepository{.address = absl::StrCat("gs:b:/p/", kPath),
                                    .options = {"gs.kms-key-name=projects/p/k",
                                                "gs.endpoint=https://storage-x.p.googleapis.com"},
                                    .has_keyring = true}));
  EXPECT_THAT(access.env, ElementsAre(Pair("GOOGLE_APPLICATION_CREDENTIALS", "/secrets/cloud")));
  Config("storeEndpoint", "https://storage-y.p.googleapis.com");
  EXPECT_THAT(RepositoryOf().options, Contains("gs.endpoint=https://storage-y.p.googleapis.com"));
  EXPECT_EQ(access.secret_data.at("cloud").Reveal(), kGoogleFile);
}

TEST_F(RepositoryAccessTest, WithoutASecretTheIdentityOfTheWorkerCounts) {
  location_["spec"].erase("credential");
  for (const char* provider : {"azure", "gcp"}) {
    Use(provider, provider == std::string("azure") ? Json{{"storageAccount", "acct"}} : Json(), "");
    const RepositoryAccess access = MustOpen();
    EXPECT_THAT(access.env, IsEmpty());
    EXPECT_FALSE(access.secret_data.contains("cloud"));
  }
}

TEST_F(RepositoryAccessTest, CredentialsOfAnotherCloudAreRefusedByName) {
  struct Case {
    const char* provider;
    const char* credentials;
    const char* expected;
    const char* seems;
  };
  for (const Case& one :
       {Case{"azure", kCloud, "of Azure, which has lines such as AZURE_CLIENT_ID=VALUE", "of AWS"},
        Case{"azure", kGoogleFile, "of Azure, which has lines", "of Google"},
        Case{"azure", "shh", "of Azure, which has lines", ""},
        Case{"azure", "AZURE_TENANT_ID=shh", "has no line MY_KEY=", ""},
        Case{"gcp", kCloud, "of Google, which has a JSON object with a type", "of AWS"},
        Case{"gcp", kAzureFile, "of Google, which has a JSON", "of Azure"},
        Case{"gcp", R"({"type": "", "private_key": "shh"})", "of Google, which has a JSON", ""},
        Case{"gcp", R"({"type": "service_account", "private_key": "shh)", "of Google, which", ""},
        Case{"aws", kAzureFile, "of AWS, which has sections such as [default]", "of Azure"},
        Case{"aws", kGoogleFile, "of AWS, which has sections", "of Google"}}) {
    Use(one.provider, Json::object(), one.credentials);
    if (one.provider == std::string("azure")) {
      Config("storageAccount", "acct");
      Config("storageAccountKeyEnvVar", "MY_KEY");
    }
    const auto access = Open(/*for_writing=*/true);
    EXPECT_THAT(access, StatusIs(absl::StatusCode::kFailedPrecondition,
                                 AllOf(HasSubstr("Secret velero/creds, key cloud: "),
                                       HasSubstr(one.expected), HasSubstr(one.seems),
                                       Not(HasSubstr("shh")))));
    EXPECT_EQ(absl::StrContains(access.status().message(), "it seems to be one of"),
              *one.seems != '\0');
  }
}

TEST_F(RepositoryAccessTest, ObjectLocksAreOfS3Alone) {
  Use("gcp", Json::object(), kGoogleFile);
  ASSERT_THAT(Open(/*for_writing=*/true), IsOk());
  RepositoryAccessRequest request = {.velero_namespace = "velero",
                                     .location = "default",
                                     .mover_namespace = "mover",
                                     .repository_path = kPath,
                                     .for_writing = true,
                                     .object_lock = {{"COMPLIANCE", 30}}};
  EXPECT_THAT(OpenRepositoryAccess(CallContext(), api_, request, random_),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("velero/default: immutability is set"),
                             HasSubstr("buckets of S3 alone"),
                             HasSubstr("backupStorageLocations.default.immutability"))));
  for (const bool for_writing : {false, true}) {
    request.for_writing = for_writing;
    request.for_deleting = for_writing;
    const auto access = OpenRepositoryAccess(CallContext(), api_, request, random_);
    ASSERT_THAT(access, IsOk());
    EXPECT_FALSE(access->repository.object_lock.has_value());
  }
}

class AccessKeeperTest : public RepositoryAccessTest {
 protected:
  AccessKeeperTest() {
    clock_.SetAutoAdvance(true);
    ctx_.clock = &clock_;
    const auto access = Open(/*for_writing=*/true);
    api_.Seed(SecretType(), MakeAccessSecret("mover", "du-1", {},
                                             objects::OwnerReference{.name = "du-1"}, *access)
                                .json());
    Keep();
  }

  void Keep(const std::string& name = "du-1") {
    keeper_.Keep(ctx_, api_,
                 {.velero_namespace = "velero", .location = "default", .mover_namespace = "mover"},
                 name);
  }
  // The location has new credentials, and it is time to look.
  void Exchange() {
    SeedSecret("creds", "cloud", Cloud("new"));
    clock_.Advance(kAccessKeptEvery);
  }
  std::string Held(const char* file, const std::string& name = "du-1") {
    std::string text;
    absl::Base64Unescape(GetString(*api_.Find({SecretType(), "mover", name}), {"data", file}),
                         &text);
    return text;
  }
  static std::string Cloud(absl::string_view id) {
    return absl::StrCat("[default]\naws_access_key_id=", id, "\naws_secret_access_key=shh\n");
  }

  support::FakeClock clock_;
  CallContext ctx_;
  AccessKeeper keeper_;
};

TEST_F(AccessKeeperTest, AWorkerThatRunsGetsCredentialsThatAreExchanged) {
  const std::string keys = Held("keyring");
  Exchange();
  Keep();
  EXPECT_EQ(Held("cloud"), Cloud("new"));
  EXPECT_EQ(Held("keyring"), keys);
}

TEST_F(AccessKeeperTest, ReadsALocationOnceForAllOfItsWorkers) {
  const Json first = *api_.Find({SecretType(), "mover", "du-1"});
  const auto keep_all = [&] {
    for (int i = 1; i <= 20; ++i) {
      Keep(absl::StrCat("du-", i));
    }
  };
  for (int i = 2; i <= 20; ++i) {
    Json secret = first;
    secret["metadata"] = {{"name", absl::StrCat("du-", i)}, {"namespace", "mover"}};
    api_.Seed(SecretType(), secret);
  }
  keep_all();  // Each Secret is compared once.
  api_.ClearCalls();
  for (int i = 0; i < 10; ++i) {
    clock_.Advance(kAccessKeptEvery);
    keep_all();
    keep_all();
  }
  EXPECT_EQ(api_.CallCount("get", "backupstoragelocations"), 10);
  EXPECT_EQ(api_.calls().size(), 20U) << "the location and its credentials";
  Exchange();
  keep_all();
  for (int i = 1; i <= 20; ++i) {
    EXPECT_EQ(Held("cloud", absl::StrCat("du-", i)), Cloud("new")) << i;
  }
}

TEST_F(AccessKeeperTest, ASecretThatWasJustMadeIsNotCompared) {
  const RepositoryAccess access = MustOpen();
  keeper_.RecordMade(access, "du-2", clock_.Now());
  api_.ClearCalls();
  Keep("du-2");
  EXPECT_THAT(api_.calls(), testing::IsEmpty());
  api_.Seed(SecretType(),
            MakeAccessSecret("mover", "du-2", {}, objects::OwnerReference{.name = "du-2"}, access)
                .json());
  Exchange();
  Keep("du-2");
  EXPECT_EQ(Held("cloud", "du-2"), Cloud("new"));
}

TEST_F(AccessKeeperTest, AFailedWriteIsDoneAgain) {
  Exchange();
  api_.FailNext("patch", "secrets", absl::UnavailableError("away"));
  Keep();
  EXPECT_EQ(Held("cloud"), kCloud);
  clock_.Advance(kAccessKeptEvery);
  Keep();
  EXPECT_EQ(Held("cloud"), Cloud("new"));
}

TEST_F(AccessKeeperTest, ASecretThatOthersChangedIsMendedInTime) {
  const std::string before = Held("cloud");
  api_.SetField({SecretType(), "mover", "du-1"}, {"data", "cloud"}, absl::Base64Escape("nonsense"));
  for (absl::Duration passed; passed < kAccessComparedEvery; passed += kAccessKeptEvery) {
    clock_.Advance(kAccessKeptEvery);
    Keep();
  }
  EXPECT_EQ(Held("cloud"), before);
}

TEST_F(AccessKeeperTest, LooksNowAndThen) {
  SeedSecret("creds", "cloud", Cloud("new"));
  Keep();
  EXPECT_EQ(Held("cloud"), kCloud);
}

TEST_F(AccessKeeperTest, AWorkerKeepsWhatItHasWhenTheLocationCannotBeRead) {
  for (const char* key : {"cloud", "another"}) {
    SeedSecret("creds", key, "no credentials");
    clock_.Advance(kAccessKeptEvery);
    Keep();
    EXPECT_EQ(Held("cloud"), kCloud);
  }
}

TEST_F(RepositoryAccessTest, AReadOnlyLocationIsNeverWrittenTo) {
  ASSERT_THAT(Open(/*for_writing=*/true), IsOk());
  location_["spec"]["accessMode"] = "ReadOnly";
  ExpectRefused(HasSubstr("ReadOnly"));
  const RepositoryAccess access = MustOpen(/*for_writing=*/false);
  EXPECT_TRUE(access.repository.is_read_only);
  location_["spec"]["accessMode"] = "ReadWrite";
  const RepositoryAccess writable = MustOpen(/*for_writing=*/false);
  EXPECT_FALSE(writable.repository.is_read_only);
}

// After a change of keys the repository opens with the new one, whatever older backups name.
TEST_F(RepositoryAccessTest, TheKeyThatTheDataWasWrittenWithIsAHint) {
  EXPECT_THAT(Open(/*for_writing=*/false),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("mover-key import")));
  const RepositoryAccess written = MustOpen();
  const auto with_it = Open(/*for_writing=*/false, written.key_fingerprint);
  ASSERT_THAT(with_it, IsOk());
  EXPECT_EQ(with_it->missing_key, "");
  for (const bool for_writing : {false, true}) {
    const auto without = Open(for_writing, "0123456789abcdef");
    ASSERT_THAT(without, IsOk());
    EXPECT_THAT(without->missing_key, AllOf(HasSubstr("written with key 0123456789abcdef"),
                                            HasSubstr("mover-key import")));
    EXPECT_EQ(without->secret_data.at("keyring").Reveal(),
              with_it->secret_data.at("keyring").Reveal());
  }
}

TEST_F(RepositoryAccessTest, HostileAddressesAreRefused) {
  for (const char* url :
       {"ftp://host", "http://host/path", "host", "http://user:pw@host", "http://"}) {
    Config("s3Url", url);
    EXPECT_THAT(Open(/*for_writing=*/true), StatusIs(absl::StatusCode::kFailedPrecondition)) << url;
  }
  Config("s3Url", "http://host");
  location_["spec"]["objectStorage"]["bucket"] = "../other";
  EXPECT_THAT(Open(/*for_writing=*/true), StatusIs(absl::StatusCode::kFailedPrecondition));
}

// --- Two Veleros on one bucket and prefix

class SharedLocationTest : public RepositoryAccessTest {
 protected:
  SharedLocationTest() {
    location_["metadata"]["creationTimestamp"] = "2026-01-02T00:00:00Z";
    other_ = location_;
    other_["metadata"]["namespace"] = "velero-two";
    other_["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z";
  }
  absl::StatusOr<RepositoryAccess> OpenOf(const std::string& velero_namespace,
                                          const std::string& written_with_key = "") {
    api_.Seed(objects::BackupStorageLocation::Type(), location_);
    api_.Seed(objects::BackupStorageLocation::Type(), other_);
    api_.Seed(SecretType(), {{"metadata", {{"name", "creds"}, {"namespace", "velero-two"}}},
                             {"data", {{"cloud", absl::Base64Escape(kCloud)}}}});
    return OpenRepositoryAccess(CallContext(), api_,
                                {.velero_namespace = velero_namespace,
                                 .location = "default",
                                 .mover_namespace = "mover",
                                 .repository_path = kPath,
                                 .for_writing = true,
                                 .written_with_key = written_with_key,
                                 .velero_namespaces = {"velero", "velero-two"}},
                                random_);
  }

  Json other_;
};

TEST_F(SharedLocationTest, UploadsUseTheOlderOneAndTheOtherIsRefusedByName) {
  EXPECT_THAT(OpenOf("velero-two"), IsOk());
  EXPECT_THAT(OpenOf("velero"),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("BackupStorageLocation velero/default: its bucket and "
                                       "prefix are those of the older location velero-two/default"),
                             HasSubstr("give it another prefix"))));
  EXPECT_FALSE(
      api_.Find(KeyringSecretKey("mover", {.velero_namespace = "velero", .location = "default"}))
          .has_value());
}

TEST_F(SharedLocationTest, OfTheSameAgeOneIsRefused) {
  other_["metadata"]["creationTimestamp"] = location_["metadata"]["creationTimestamp"];
  EXPECT_THAT(OpenOf("velero-two"), IsOk());
  EXPECT_THAT(OpenOf("velero"), StatusIs(absl::StatusCode::kFailedPrecondition,
                                         HasSubstr("location velero-two/default")));
}

TEST_F(SharedLocationTest, AnotherPrefixOrALocationThatIsOnlyReadIsNone) {
  other_["spec"]["objectStorage"]["prefix"] = "q";
  EXPECT_THAT(OpenOf("velero"), IsOk());
  other_["spec"]["objectStorage"]["prefix"] = "p";
  other_["spec"]["accessMode"] = "ReadOnly";
  EXPECT_THAT(OpenOf("velero"), IsOk());
}

TEST_F(SharedLocationTest, ContainersOfTwoAccountsAreTwo) {
  const auto shared = [&](const char* account) {
    location_["spec"]["provider"] = "velero.io/azure";
    other_["spec"]["provider"] = "azure";
    location_["spec"]["config"] = {{"storageAccount", "acct"}};
    other_["spec"]["config"] = {{"storageAccount", account}};
    return FindSharedAddresses({*objects::BackupStorageLocation::Parse(objects::Object(location_)),
                                *objects::BackupStorageLocation::Parse(objects::Object(other_))});
  };
  EXPECT_EQ(shared("acct").size(), 1U);
  EXPECT_THAT(shared("acct2"), IsEmpty());
}

TEST_F(SharedLocationTest, WhatWasWrittenBeforeCanBeDeleted) {
  EXPECT_THAT(OpenOf("velero-two"), IsOk());
  const auto ring = OpenKeyring(CallContext(), api_, "mover",
                                {.velero_namespace = "velero", .location = "default"},
                                /*make=*/true, random_);
  ASSERT_THAT(ring, IsOk());
  EXPECT_THAT(OpenOf("velero", ring->newest().fingerprint), IsOk());
}

TEST_F(RepositoryAccessTest, ALocationThatIsGoneIsNotFound) {
  EXPECT_THAT(OpenRepositoryAccess(CallContext(), api_,
                                   {.velero_namespace = "velero", .location = "gone"}, random_),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("velero/gone")));
}

}  // namespace
}  // namespace csidelta::datamover::repository_access_test

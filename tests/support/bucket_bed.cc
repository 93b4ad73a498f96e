#include "tests/support/bucket_bed.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/random.h"
#include "tests/support/fake_azure_server.h"
#include "tests/support/fake_google_server.h"
#include "tests/support/fake_s3_server.h"

namespace csidelta::support {
namespace {

constexpr std::size_t kBedPageObjects = 100;
constexpr int64_t kBedBlockBytes = int64_t{1} << 20;  // the least, so that packs have several

}  // namespace

BucketBed::BucketBed(Dialect dialect, const Clock& clock, const BucketBedOptions& options) {
  const TestServerOptions http{.tls = options.tls};
  if (dialect == Dialect::kS3) {
    const FakeS3Options s3{.page_objects_max = kBedPageObjects, .clock = &clock, .http = http};
    server = std::make_unique<FakeS3Server>(s3);
    location = {.kind = storage::Location::Kind::kS3,
                .endpoint = *net::ParseUrl(server->url()),
                .bucket = s3.bucket};
    settings.environment.keys = {.access_key_id = s3.access_key_id,
                                 .secret_access_key = Secret(s3.secret_access_key),
                                 .session_token = Secret()};
  } else if (dialect == Dialect::kAzure) {
    const FakeAzureOptions azure{
        .page_objects_max = kBedPageObjects, .clock = &clock, .http = http};
    server = std::make_unique<FakeAzureServer>(azure);
    location = {.kind = storage::Location::Kind::kAzure, .bucket = azure.container};
    settings.azure.account.uri = absl::StrCat(server->url(), "/", azure.account);
    settings.azure.block_bytes = kBedBlockBytes;
    settings.azure_environment.variables = {{"AZURE_ACCOUNT_NAME", azure.account},
                                            {"AZURE_ACCOUNT_KEY", azure.key}};
  } else {
    const FakeGoogleOptions google{.page_objects_max = kBedPageObjects,
                                   .accepts = options.accepts,
                                   .clock = &clock,
                                   .http = http};
    server = std::make_unique<FakeGoogleServer>(google);
    location = {.kind = storage::Location::Kind::kGoogle, .bucket = google.bucket};
    settings.google_environment.emulator_host = server->url();
  }
  location.prefix = options.prefix;
  settings.tls.ca_pem = options.tls ? server->authority().ca_pem() : "";
}

absl::StatusOr<std::unique_ptr<storage::OpenedStore>> BucketBed::Open() const {
  return storage::OpenStore(location, settings, Random::Real());
}

std::string ErrorOf(Dialect dialect, absl::string_view error) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(error, absl::MaxSplits(": ", 1));
  const auto& [code, message] = parts;
  if (dialect == Dialect::kGoogle) {
    return absl::StrCat(R"({"error":{"message":")", message, R"(","errors":[{"reason":")", code,
                        R"("}]}})");
  }
  const bool is_azure = dialect == Dialect::kAzure;
  return absl::StrCat("<Error><Code>", code, "</Code><Message>", message, "</Message>",
                      is_azure ? "<AuthenticationErrorDetail>" : "", is_azure ? message : "",
                      is_azure ? "</AuthenticationErrorDetail>" : "", "</Error>");
}

}  // namespace csidelta::support

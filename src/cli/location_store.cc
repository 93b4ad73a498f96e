#include "cli/location_store.h"

#include <string>
#include <vector>

#include "base/status_macros.h"
#include "cli/arguments.h"
#include "cli/certificates.h"
#include "storage/shared_credentials.h"

namespace csidelta::cli {

absl::StatusOr<std::unique_ptr<storage::OpenedStore>> OpenLocationStore(
    const ProgramEnvironment& environment, const datamover::RepositoryAccess& access) {
  GlobalOptions options;
  const ProgramSyntax program = DeclareFlags(options);
  const VerbSyntax any = {.name = "check",
                          .summary = "",
                          .details = "",
                          .table = {},
                          .family = VerbFamily::kRepository};
  std::vector<std::string> words = {any.name};
  words.insert(words.end(), access.flags.begin(), access.flags.end());
  RETURN_IF_ERROR(ParseCommandLine(words, program, {&any, 1}).status());
  options.added_ca_file.clear();
  ASSIGN_OR_RETURN(storage::StoreSettings settings, MakeStoreSettings(options, environment.get));
  if (const auto pem = access.secret_data.find(datamover::kCaFile);
      pem != access.secret_data.end()) {
    RETURN_IF_ERROR(TrustBesides(pem->second.Reveal(), "the location's caCert", settings));
  }
  if (const auto cloud = access.secret_data.find(datamover::kCloudFile);
      cloud != access.secret_data.end()) {
    const auto profile = access.env.find("AWS_PROFILE");
    ASSIGN_OR_RETURN(
        const storage::SharedProfile found,
        storage::ParseSharedCredentials(cloud->second.Reveal(),
                                        profile == access.env.end() ? "default" : profile->second));
    if (found.credentials.has_value()) {
      settings.environment = {};
      settings.environment.access_key_id = found.credentials->access_key_id;
      settings.environment.secret_access_key = found.credentials->secret_access_key;
      settings.environment.session_token = found.credentials->session_token;
    }
  }
  ASSIGN_OR_RETURN(const storage::Location location,
                   storage::ParseLocation(options.choice.repository));
  return environment.open_store(location, settings, *environment.random);
}

}  // namespace csidelta::cli

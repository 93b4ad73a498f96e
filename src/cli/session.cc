#include "cli/session.h"

#include <array>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "cli/location_store.h"
#include "net/http_client.h"
#include "net/listen_address.h"

namespace csidelta::cli {
namespace {

// Not the folder that many systems keep in memory.
constexpr char kPodUidVariable[] = "POD_UID";
constexpr char kScratchFolder[] = "/var/tmp";
constexpr int64_t kLimitKibMax = int64_t{1} << 40;

// Settings of a bucket that are one text each.
template <typename Options>
struct TextOption {
  absl::string_view name;
  std::string Options::*target;
};
constexpr std::array<TextOption<storage::S3Options>, 5> kS3Texts = {{
    {"s3.storage-class", &storage::S3Options::storage_class},
    {"s3.sse", &storage::S3Options::server_side_encryption},
    {"s3.sse-kms-key-id", &storage::S3Options::kms_key_id},
    {"s3.tagging", &storage::S3Options::tagging},
    {"s3.object-lock-mode", &storage::S3Options::object_lock_mode},
}};
constexpr std::array<TextOption<storage::GoogleOptions>, 4> kGoogleTexts = {{
    {"gs.storage-class", &storage::GoogleOptions::storage_class},
    {"gs.kms-key-name", &storage::GoogleOptions::kms_key_name},
    {"gs.service-account", &storage::GoogleOptions::service_account},
    {"gs.endpoint", &storage::GoogleOptions::endpoint_url},
}};
constexpr int kObjectLockDaysMax = 36'500;
constexpr absl::string_view kPemCertificate = "-----BEGIN CERTIFICATE-----";
constexpr char kLocksPrefix[] = "locks/";  // A lock that cannot go would stop everybody.

// Whether `name` is one of `known`; it is set then.
template <typename Options, std::size_t kCount>
bool SetText(const std::array<TextOption<Options>, kCount>& known, absl::string_view name,
             absl::string_view value, Options& options) {
  for (const TextOption<Options>& each : known) {
    if (name == each.name) {
      options.*each.target = std::string(value);
      return true;
    }
  }
  return false;
}

template <typename Options, std::size_t kCount>
std::string NamesOf(const std::array<TextOption<Options>, kCount>& known) {
  return absl::StrJoin(known, ", ", [](std::string* out, const TextOption<Options>& each) {
    absl::StrAppend(out, each.name);
  });
}

absl::Status SetBucketLookup(absl::string_view value, storage::BucketStyle& style) {
  if (value == "auto") {
    style = storage::BucketStyle::kAuto;
  } else if (value == "path") {
    style = storage::BucketStyle::kPath;
  } else if (value == "dns") {
    style = storage::BucketStyle::kVirtualHost;
  } else {
    return absl::InvalidArgumentError("s3.bucket-lookup is auto, dns or path");
  }
  return absl::OkStatus();
}

absl::Status SetObjectLockDays(absl::string_view value, storage::S3Options& options) {
  int days = 0;
  if (!absl::SimpleAtoi(value, &days) || days <= 0 || days > kObjectLockDaysMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("s3.object-lock-days is a number from 1 to ", kObjectLockDaysMax));
  }
  options.object_lock_duration = absl::Hours(24) * days;
  options.object_lock_exempt_prefixes = {kLocksPrefix};
  return absl::OkStatus();
}

// Whether `name` is a setting of Azure; an error if its value is malformed.
absl::StatusOr<bool> SetAzureOption(absl::string_view name, absl::string_view value,
                                    storage::AzureOptions& options) {
  storage::AzureAccount& account = options.account;
  const std::pair<absl::string_view, std::string*> texts[] = {
      {"azure.access-tier", &options.access_tier},
      {"azure.account-key-variable", &account.key_variable},
      {"azure.account-name", &account.variables["AZURE_ACCOUNT_NAME"]},
      {"azure.cloud-name", &account.variables["AZURE_CLOUD_NAME"]},
      {"azure.resource-group", &account.variables["AZURE_RESOURCE_GROUP"]},
      {"azure.storage-account-uri", &account.uri},
      {"azure.subscription-id", &account.variables["AZURE_SUBSCRIPTION_ID"]}};
  for (const auto& [known, target] : texts) {
    if (name == known) {
      *target = std::string(value);
      return true;
    }
  }
  if (name == "azure.block-size") {
    return absl::SimpleAtoi(value, &options.block_bytes)
               ? absl::StatusOr<bool>(true)
               : absl::InvalidArgumentError("azure.block-size is a number of bytes");
  }
  if (name == "azure.use-aad") {
    return absl::SimpleAtob(value, &account.use_aad)
               ? absl::StatusOr<bool>(true)
               : absl::InvalidArgumentError("azure.use-aad is true or false");
  }
  return false;
}

// The flags of verbs on a repository; `exists`: also those that find it in a cluster.
ArgumentTable RepositoryTable(GlobalOptions& options, bool exists) {
  ArgumentTable table;
  table.Add("-r,--repo", "REPO",
            "the repository: a path, s3:https://HOST/BUCKET/PREFIX or azure:CONTAINER:/PREFIX "
            "(default: $RESTIC_REPOSITORY)",
            options.choice.repository);
  table.Add("--repository-file", "FILE", "a file that names it (default: $RESTIC_REPOSITORY_FILE)",
            options.choice.repository_file);
  if (exists) {
    options.in_cluster.Declare(table);
  }
  table.Add("-p,--password-file", "FILE",
            "a file with its password (default: $RESTIC_PASSWORD_FILE)",
            options.choice.password_file);
  table.Add("--password-command", "COMMAND",
            "a command that prints its password, run without a shell (default: "
            "$RESTIC_PASSWORD_COMMAND)",
            options.choice.password_command);
  table.Add("--keyring-file", "FILE",
            "a file with several keys, \"FINGERPRINT PASSWORD\" a line, the newest first: any of "
            "them opens the repository; verbs that write also add the newest to it",
            options.choice.keyring_file);
  table.AddWait("--retry-lock",
                "how long to wait for other clients' locks; a stale lock expires after 30 minutes "
                "(default: 31m)",
                options.retry_lock);
  table.Add("--no-lock", "take no lock; only for verbs that only read", options.no_lock);
  table.Add("--scratch-dir", "DIR",
            "a folder on a disk, not a tmpfs, for what does not fit into memory: the index of a "
            "repository with millions of blobs, 50 to 100 bytes for each (default: $TMPDIR, else "
            "/var/tmp)",
            options.scratch_folder);
  table.AddBytes("--memory-budget",
                 "memory for buffers, packs and tables; at most 32MiB less than the limit of this "
                 "process's cgroup",
                 options.memory_budget_bytes);
  table.Add("--cacert", "FILE",
            "certificates to trust for a bucket, as PEM (default: $RESTIC_CACERT)",
            options.ca_file);
  table.Add("--add-cacert", "FILE", "certificates to trust in addition, as PEM",
            options.added_ca_file);
  table.Add("--insecure-tls", "do not verify the certificate of a bucket's server",
            options.insecure_tls);
  table.AddNumber("--limit-upload", "KIB",
                  "upload at most so many KiB a second (default: no limit)", 0, kLimitKibMax,
                  options.limit_upload_kib);
  table.AddNumber("--limit-download", "KIB",
                  "download at most so many KiB a second (default: no limit)", 0, kLimitKibMax,
                  options.limit_download_kib);
  table.AddList(
      "-o,--option", "KEY=VALUE",
      "a setting of the bucket. s3.: region, bucket-lookup (auto, dns, path), "
      "storage-class (of data packs alone), sse, sse-kms-key-id, tagging "
      "(KEY=VALUE&KEY=VALUE), checksum (sha256, none), object-lock-mode (GOVERNANCE, "
      "COMPLIANCE), object-lock-days. azure.: access-tier (of data packs alone: Hot, Cool, "
      "Cold), account-name, account-key-variable, block-size, cloud-name, resource-group, "
      "storage-account-uri, subscription-id, use-aad. gs.: storage-class (of data packs "
      "alone), kms-key-name, service-account (to impersonate), endpoint",
      options.store_options);
  return table;
}

// The keys of --keyring-file, the newest first; none without it.
absl::StatusOr<std::optional<repository::Keyring>> ReadKeyring(const RepositoryChoice& choice) {
  const std::string& file = choice.keyring_file;
  if (file.empty()) {
    return std::nullopt;
  }
  if (!choice.password_file.empty() || !choice.password_command.empty()) {
    return absl::InvalidArgumentError(
        "both a keyring and a password are given; leave one of them out");
  }
  ASSIGN_OR_RETURN(const std::string text, ReadSmallText(file));
  return Annotate(repository::ParseKeyringFile(text), file);
}

}  // namespace

bool HasColors(const ProgramEnvironment& environment) {
  const char* const refused = environment.get("NO_COLOR");
  return environment.out_is_terminal && (refused == nullptr || *refused == '\0');
}

std::string ProgramVersion() { return "csi-delta " CSIDELTA_VERSION; }

std::string UserName(const GetVariable& get) {
  const std::string user = Variable(get, "USER");
  return user.empty() ? Variable(get, "LOGNAME") : user;
}

engine::Listener ListenerOf(Console& console) {
  return {.note = [&console](absl::string_view sentence) { console.Info(sentence); },
          .warn = [&console](absl::string_view sentence) { console.Warn(sentence); }};
}

ProgramSyntax DeclareFlags(GlobalOptions& options) {
  ProgramSyntax program;
  program.shared.Add("--json", "print JSON: progress once a second, the result on the last line",
                     options.json);
  program.shared.Add("-q,--quiet", "no progress and no notes", options.quiet);
  program.of.emplace_back(VerbFamily::kNewRepository, RepositoryTable(options, /*exists=*/false));
  program.of.emplace_back(VerbFamily::kRepository, RepositoryTable(options, /*exists=*/true));
  ArgumentTable cluster;
  options.cluster.Declare(cluster);
  program.of.emplace_back(VerbFamily::kCluster, std::move(cluster));
  ArgumentTable mover;
  options.cluster.DeclareForMover(mover);
  program.of.emplace_back(VerbFamily::kMover, std::move(mover));
  return program;
}

absl::Status ApplyStoreOption(absl::string_view option, storage::StoreSettings& settings) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(option, absl::MaxSplits('=', 1));
  if (parts.first == "s3.region") {
    settings.region = std::string(parts.second);
    return absl::OkStatus();
  }
  if (parts.first == "s3.bucket-lookup") {
    return SetBucketLookup(parts.second, settings.style);
  }
  if (parts.first == "s3.checksum") {
    settings.s3.sends_checksum = parts.second == "sha256";
    return settings.s3.sends_checksum || parts.second == "none"
               ? absl::OkStatus()
               : absl::InvalidArgumentError("s3.checksum is sha256 or none");
  }
  if (parts.first == "s3.object-lock-days") {
    return SetObjectLockDays(parts.second, settings.s3);
  }
  if (SetText(kS3Texts, parts.first, parts.second, settings.s3) ||
      SetText(kGoogleTexts, parts.first, parts.second, settings.google)) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const bool is_azure, SetAzureOption(parts.first, parts.second, settings.azure));
  if (is_azure) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("no such option: ", parts.first,
                   "; there are those of azure (--help lists them), s3.region, s3.bucket-lookup, "
                   "s3.checksum, "
                   "s3.object-lock-days, ",
                   NamesOf(kS3Texts), ", ", NamesOf(kGoogleTexts)));
}

absl::Status TrustBesides(const std::string& pem, absl::string_view source,
                          storage::StoreSettings& settings) {
  if (!absl::StrContains(pem, kPemCertificate)) {
    return absl::InvalidArgumentError(absl::StrCat(source, " holds no certificate as PEM"));
  }
  for (net::TlsOptions* tls : {&settings.tls, &settings.sts_tls}) {
    // In this order: what is behind a malformed one is not read, and the bundle is no fallback.
    tls->ca_pem = absl::StrCat(pem, "\n", tls->ca_pem.empty() ? net::SystemBundle() : tls->ca_pem);
  }
  return absl::OkStatus();
}

absl::StatusOr<storage::StoreSettings> MakeStoreSettings(const GlobalOptions& options,
                                                         const GetVariable& get,
                                                         storage::Location::Kind kind) {
  storage::StoreSettings settings;
  settings.environment = storage::CredentialsEnvironment::Read(get);
  settings.azure_environment = storage::AzureEnvironment::Read(get);
  settings.google_environment = storage::GoogleEnvironment::Read(get);
  settings.proxy = net::ProxySettings::FromEnvironment();
  settings.limits = {.upload_bytes_per_second = options.limit_upload_kib * 1024,
                     .download_bytes_per_second = options.limit_download_kib * 1024,
                     .bytes = options.byte_limiters};
  settings.tls.insecure_skip_verify = options.insecure_tls;
  const bool in_s3 = kind == storage::Location::Kind::kS3;
  const bool in_bucket = kind != storage::Location::Kind::kDirectory;
  const std::string bundle = in_s3 ? Variable(get, "AWS_CA_BUNDLE") : "";
  if (!bundle.empty()) {
    ASSIGN_OR_RETURN(settings.sts_tls.ca_pem, ReadCertificates(bundle));
    settings.tls.ca_pem = settings.sts_tls.ca_pem;
  }
  const std::string ca_file =
      options.ca_file.empty() && in_bucket ? Variable(get, "RESTIC_CACERT") : options.ca_file;
  if (!ca_file.empty()) {
    ASSIGN_OR_RETURN(settings.tls.ca_pem, ReadCertificates(ca_file));
  }
  if (!options.added_ca_file.empty()) {
    ASSIGN_OR_RETURN(const std::string added, ReadCertificates(options.added_ca_file));
    RETURN_IF_ERROR(TrustBesides(added, options.added_ca_file, settings));
  }
  for (const std::string& option : options.store_options) {
    RETURN_IF_ERROR(ApplyStoreOption(option, settings));
  }
  return settings;
}

absl::StatusOr<std::string> ChooseRepository(const RepositoryChoice& choice,
                                             const GetVariable& get) {
  std::string text = choice.repository;
  std::string file = choice.repository_file;
  if (text.empty() && file.empty()) {
    text = Variable(get, "RESTIC_REPOSITORY");
    file = Variable(get, "RESTIC_REPOSITORY_FILE");
  }
  if (!text.empty() && !file.empty()) {
    return absl::InvalidArgumentError(
        "the repository is given twice, as text and as a file; leave one of them out");
  }
  if (!file.empty()) {
    ASSIGN_OR_RETURN(text, ReadSmallText(file));
  }
  if (text.empty()) {
    return absl::InvalidArgumentError(
        "no repository is named; give --repo or RESTIC_REPOSITORY, or to read, --pvc NS/NAME");
  }
  return text;
}

engine::SessionOptions Session::EngineOptions() {
  const GetVariable& get = environment_.get;
  std::string scratch_folder = options_.scratch_folder;
  if (scratch_folder.empty()) {
    scratch_folder = Variable(get, "TMPDIR");
  }
  return {.place = [this](const CallContext& ctx, LockKind kind) { return Target(ctx, kind); },
          .keyring = [this]() -> absl::StatusOr<std::optional<repository::Keyring>> {
            if (!found_.has_value()) {
              return ReadKeyring(choice());
            }
            return repository::ParseKeyringFile(
                found_->access.secret_data.at(datamover::kKeyringFile).Reveal());
          },
          .keyring_name =
              [this] {
                return found_.has_value() ? absl::StrCat("location ", found_->access.location,
                                                         " with csi-delta mover-key import")
                                          : choice().keyring_file;
              },
          .password = [this](const CallContext& ctx, const std::string& location,
                             bool twice) { return Password(ctx, location, twice); },
          .program_version = ProgramVersion(),
          .host = net::HostName(),
          .user = UserName(get),
          .pod_uid = Variable(get, kPodUidVariable),
          .scratch_folder = scratch_folder.empty() ? kScratchFolder : scratch_folder,
          .memory_budget_bytes = options_.memory_budget_bytes,
          .no_lock = options_.no_lock,
          .retry_lock = options_.retry_lock,
          .scrypt = environment_.scrypt,
          .random = environment_.random,
          .open_store = environment_.open_store,
          .liveness_probes = environment_.liveness_probes,
          .await_writing = environment_.await_writing,
          .listener = ListenerOf(console_)};
}

absl::Status Session::Ask(const CallContext& ctx, absl::string_view question) {
  if (environment_.confirm == nullptr) {
    return absl::InvalidArgumentError(
        "there is no terminal to ask on; add --yes, and --dry-run to see first what it does");
  }
  const std::shared_ptr<void> hold = console_.HoldLines();
  ASSIGN_OR_RETURN(const bool is_yes, environment_.confirm(ctx, question));
  return is_yes ? absl::OkStatus()
                : absl::FailedPreconditionError("nothing is changed; --yes does not ask");
}

std::string Session::Opening() const {
  if (!choice_.has_value() && options_.in_cluster.are_given()) {
    const ClusterRepositoryFlags& named = options_.in_cluster;
    return absl::StrCat("opening the repository of ", named.pvc.empty() ? named.upload : named.pvc);
  }
  // A file may be a pipe, which is read once.
  const bool is_text = choice().repository_file.empty() &&
                       Variable(environment_.get, "RESTIC_REPOSITORY_FILE").empty();
  const absl::StatusOr<std::string> text =
      is_text ? ChooseRepository(choice(), environment_.get) : absl::NotFoundError("");
  return absl::StrCat("opening ",
                      text.ok() && storage::ParseLocation(*text).ok() ? *text : "the repository");
}

absl::StatusOr<std::string> Session::NameSnapshot(const CallContext& ctx, const std::string& id,
                                                  const engine::SnapshotFilter& filter) {
  if (!id.empty()) {
    return id;
  }
  if (!filter.backup.empty() || filter.until.has_value()) {
    return "latest";
  }
  if (options_.in_cluster.upload.empty()) {
    return absl::InvalidArgumentError(
        "name a snapshot by its id, as \"latest\", or by its Backup of Velero with --backup");
  }
  RETURN_IF_ERROR(LookUp(ctx, LockKind::kRead));
  return found_->snapshot;
}

absl::Status Session::LookUp(const CallContext& ctx, LockKind kind) {
  const ClusterRepositoryFlags& flags = options_.in_cluster;
  if (found_.has_value() || choice_.has_value() || !flags.are_given()) {
    return absl::OkStatus();
  }
  if (choice() != RepositoryChoice()) {
    return absl::InvalidArgumentError(
        "--pvc and --upload name a repository with its key: leave out --repo, and what opens it");
  }
  ASSIGN_OR_RETURN(
      ClusterRepository found,
      FindClusterRepository(ctx, *flags.cluster.MakeClient(), flags, kind, ListenerOf(console_)));
  ASSIGN_OR_RETURN(const absl::string_view cloud, CloudOfCaller(found.access));
  if (!cloud.empty()) {
    console_.Info(absl::StrCat("BackupStorageLocation ", found.access.location,
                               " has no credentials of its own: its workers use those of their ",
                               "node or service account, and this program those of its own ", cloud,
                               " environment"));
  }
  found_ = std::move(found);
  return absl::OkStatus();
}

absl::StatusOr<engine::RepositoryTarget> Session::Target(const CallContext& ctx, LockKind kind) {
  RETURN_IF_ERROR(LookUp(ctx, kind));
  if (found_.has_value()) {
    ASSIGN_OR_RETURN(auto target, TargetOf(found_->access, options_, environment_.get));
    target.settings.read_only = found_->access.repository.is_read_only;
    return target;
  }
  ASSIGN_OR_RETURN(const std::string text, ChooseRepository(choice(), environment_.get));
  ASSIGN_OR_RETURN(storage::Location location, storage::ParseLocation(text));
  ASSIGN_OR_RETURN(storage::StoreSettings settings,
                   MakeStoreSettings(options_, environment_.get, location.kind));
  return engine::RepositoryTarget{.location = std::move(location), .settings = std::move(settings)};
}

absl::StatusOr<Secret> Session::Password(const CallContext& ctx, const std::string& location,
                                         bool twice) const {
  ASSIGN_OR_RETURN(
      const PasswordSource source,
      ChoosePasswordSource(
          {.command = choice().password_command, .file = choice().password_file, .text = Secret()},
          environment_.get));
  const std::shared_ptr<void> hold = console_.HoldLines();
  return ReadPassword(ctx, source, absl::StrCat("password for ", location), twice);
}

}  // namespace csidelta::cli

#include "cli/session.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "cli/certificates.h"
#include "cli/resume.h"

namespace csidelta::cli {
namespace {

using repository::Repository;

// Not the folder that many systems keep in memory.
constexpr char kPodUidVariable[] = "POD_UID";
constexpr char kScratchFolder[] = "/var/tmp";
constexpr int64_t kLimitKibMax = int64_t{1} << 40;

// Settings of a bucket that are one text each.
struct TextOption {
  absl::string_view name;
  std::string storage::S3Options::*target;
};
constexpr std::array<TextOption, 5> kS3Texts = {{
    {"s3.storage-class", &storage::S3Options::storage_class},
    {"s3.sse", &storage::S3Options::server_side_encryption},
    {"s3.sse-kms-key-id", &storage::S3Options::kms_key_id},
    {"s3.tagging", &storage::S3Options::tagging},
    {"s3.object-lock-mode", &storage::S3Options::object_lock_mode},
}};
constexpr int kObjectLockDaysMax = 36'500;
constexpr char kLocksPrefix[] = "locks/";  // A lock that cannot go would stop everybody.

bool OnlyReads(LockKind kind) { return kind == LockKind::kRead || kind == LockKind::kReadAlone; }

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

}  // namespace

std::string ProgramVersion() { return "csi-delta " CSIDELTA_VERSION; }

std::string HostName() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') {
    return "localhost";
  }
  return name.data();
}

std::string UserName(const GetVariable& get) {
  const std::string user = Variable(get, "USER");
  return user.empty() ? Variable(get, "LOGNAME") : user;
}

ProgramSyntax DeclareFlags(GlobalOptions& options) {
  ProgramSyntax program;
  program.shared.Add("--json", "print JSON: progress once a second, the result on the last line",
                     options.json);
  program.shared.Add("-q,--quiet", "no progress and no notes", options.quiet);
  ArgumentTable table;
  table.Add("-r,--repo", "REPO",
            "the repository: a path, or s3:https://HOST/BUCKET/PREFIX (RESTIC_REPOSITORY)",
            options.choice.repository);
  table.Add("--repository-file", "FILE", "a file that names it (RESTIC_REPOSITORY_FILE)",
            options.choice.repository_file);
  table.Add("-p,--password-file", "FILE", "a file with its password (RESTIC_PASSWORD_FILE)",
            options.choice.password_file);
  table.Add("--password-command", "COMMAND",
            "a command that prints its password, run without a shell (RESTIC_PASSWORD_COMMAND)",
            options.choice.password_command);
  table.Add("--keyring-file", "FILE",
            "a file with several keys, \"FINGERPRINT PASSWORD\" a line, the newest first: any of "
            "them opens the repository, and who writes adds the newest to it",
            options.choice.keyring_file);
  table.AddWait("--retry-lock",
                "how long to wait for the locks of others; a dead one is known for it after half "
                "an hour (31m)",
                options.retry_lock);
  table.Add("--no-lock", "take no lock; only for verbs that only read", options.no_lock);
  table.Add("--scratch-dir", "DIR",
            "where to put what memory should not hold: the index of a repository with millions of "
            "blobs, 50 to 100 bytes for each (TMPDIR, else /var/tmp)",
            options.scratch_folder);
  table.Add("--cacert", "FILE", "certificates to trust for a bucket, as PEM (RESTIC_CACERT)",
            options.ca_file);
  table.Add("--add-cacert", "FILE", "certificates to trust besides, as PEM", options.added_ca_file);
  table.Add("--insecure-tls", "do not verify the certificate of a bucket's server",
            options.insecure_tls);
  table.AddNumber("--limit-upload", "KIB", "upload at most so many KiB a second", 0, kLimitKibMax,
                  options.limit_upload_kib);
  table.AddNumber("--limit-download", "KIB", "download at most so many KiB a second", 0,
                  kLimitKibMax, options.limit_download_kib);
  table.AddList("-o,--option", "KEY=VALUE",
                "a setting of the bucket: s3.region, s3.bucket-lookup (auto, dns, path), "
                "s3.storage-class, s3.sse, s3.sse-kms-key-id, s3.tagging (KEY=VALUE&KEY=VALUE), "
                "s3.object-lock-mode (GOVERNANCE, "
                "COMPLIANCE), s3.object-lock-days",
                options.store_options);
  program.of.emplace_back(VerbFamily::kRepository, std::move(table));
  ArgumentTable cluster;
  options.cluster.Declare(cluster);
  program.of.emplace_back(VerbFamily::kCluster, std::move(cluster));
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
  if (parts.first == "s3.object-lock-days") {
    return SetObjectLockDays(parts.second, settings.s3);
  }
  for (const TextOption& known : kS3Texts) {
    if (parts.first == known.name) {
      settings.s3.*known.target = std::string(parts.second);
      return absl::OkStatus();
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("no such option: ", parts.first,
                   "; there are s3.region, s3.bucket-lookup, "
                   "s3.object-lock-days, ",
                   absl::StrJoin(kS3Texts, ", ", [](std::string* out, const TextOption& known) {
                     absl::StrAppend(out, known.name);
                   })));
}

absl::StatusOr<storage::StoreSettings> MakeStoreSettings(const GlobalOptions& options,
                                                         const GetVariable& get) {
  storage::StoreSettings settings;
  settings.environment = storage::CredentialsEnvironment::Read(get);
  settings.proxy = net::ProxySettings::FromEnvironment();
  settings.limits = {.upload_bytes_per_second = options.limit_upload_kib * 1024,
                     .download_bytes_per_second = options.limit_download_kib * 1024};
  settings.tls.insecure_skip_verify = options.insecure_tls;
  if (const std::string bundle = Variable(get, "AWS_CA_BUNDLE"); !bundle.empty()) {
    ASSIGN_OR_RETURN(settings.sts_tls.ca_pem, ReadCertificates(bundle));
    settings.tls.ca_pem = settings.sts_tls.ca_pem;
  }
  const std::string ca_file =
      options.ca_file.empty() ? Variable(get, "RESTIC_CACERT") : options.ca_file;
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
        "no repository is named; give one with --repo or RESTIC_REPOSITORY");
  }
  return text;
}

absl::Status Session::OpenStore(bool read_only) {
  ASSIGN_OR_RETURN(const std::string text, ChooseRepository(choice(), environment_.get));
  ASSIGN_OR_RETURN(const storage::Location location, storage::ParseLocation(text));
  in_bucket_ = location.kind == storage::Location::Kind::kS3;
  ASSIGN_OR_RETURN(storage::StoreSettings settings, MakeStoreSettings(options_, environment_.get));
  settings.read_only = read_only;
  settings.retry.on_wait = [this](const absl::Status& reason) {
    if (!has_told_of_waiting_.exchange(true)) {
      console_.Note(absl::StrCat("waiting for ", place_, ", trying again: ", reason.message()));
    }
  };
  ASSIGN_OR_RETURN(store_, environment_.open_store(location, settings, *environment_.random));
  place_ = store_->store().Describe();
  return absl::OkStatus();
}

absl::StatusOr<Secret> Session::Password(const CallContext& ctx, bool twice) const {
  ASSIGN_OR_RETURN(
      const PasswordSource source,
      ChoosePasswordSource(
          {.command = choice().password_command, .file = choice().password_file, .text = Secret()},
          environment_.get));
  return ReadPassword(ctx, source, absl::StrCat("password for ", place_), twice);
}

repository::Environment Session::KeyEnvironment() const {
  repository::Environment environment;
  environment.scrypt = environment_.scrypt;
  environment.hostname = HostName();
  if (const std::string user = UserName(environment_.get); !user.empty()) {
    environment.username = user;
  }
  environment.scratch.folder = options_.scratch_folder;
  if (environment.scratch.folder.empty()) {
    environment.scratch.folder = Variable(environment_.get, "TMPDIR");
  }
  if (environment.scratch.folder.empty()) {
    environment.scratch.folder = kScratchFolder;
  }
  return environment;
}

absl::StatusOr<std::optional<datamover::Keyring>> Session::ReadKeyring() const {
  const std::string& file = choice().keyring_file;
  if (file.empty()) {
    return std::nullopt;
  }
  if (!choice().password_file.empty() || !choice().password_command.empty()) {
    return absl::InvalidArgumentError(
        "both a keyring and a password are given; leave one of them out");
  }
  ASSIGN_OR_RETURN(const std::string text, ReadSmallText(file));
  absl::StatusOr<datamover::Keyring> keyring = datamover::ParseKeyringFile(text);
  if (!keyring.ok()) {
    return Annotate(keyring.status(), file);
  }
  return *std::move(keyring);
}

absl::StatusOr<Repository*> Session::Init(const CallContext& ctx) {
  RETURN_IF_ERROR(OpenStore());
  repository::Environment environment = KeyEnvironment();
  Secret password;
  ASSIGN_OR_RETURN(const std::optional<datamover::Keyring> keyring, ReadKeyring());
  if (keyring.has_value()) {
    password = keyring->newest().password;
    environment.username = keyring->newest().fingerprint;
  } else {
    ASSIGN_OR_RETURN(password, Password(ctx, /*twice=*/true));
  }
  ASSIGN_OR_RETURN(repository_,
                   Repository::Init(ctx, store_->store(), password.Reveal(), environment));
  return repository_.get();
}

absl::StatusOr<Repository*> Session::Open(const CallContext& ctx, LockKind kind) {
  if (options_.no_lock && !OnlyReads(kind)) {
    return absl::InvalidArgumentError(
        "--no-lock is for verbs that only read: this one writes, and must keep others from "
        "removing what it uses; leave it out");
  }
  RETURN_IF_ERROR(OpenStore());
  ASSIGN_OR_RETURN(std::optional<datamover::Keyring> keyring, ReadKeyring());
  if (keyring.has_value()) {
    ASSIGN_OR_RETURN(Opened opened, OpenWithKeyring(ctx, store_->store(), *std::move(keyring)));
    repository_ = std::move(opened.repository);
    key_to_add_ = std::move(opened.key_to_add);
  } else {
    RETURN_IF_ERROR(OpenWithPassword(ctx));
  }
  if (!OnlyReads(kind) || !options_.no_lock) {
    RETURN_IF_ERROR(TakeLock(ctx, kind));
  }
  if (!OnlyReads(kind)) {
    RETURN_IF_ERROR(AddNewestKey(ctx));
  }
  return repository_.get();
}

absl::Status Session::OpenWithPassword(const CallContext& ctx) {
  const absl::StatusOr<Secret> password = Password(ctx, /*twice=*/false);
  if (!password.ok()) {
    // Where there is nothing to open, no password would have helped.
    const absl::Status opened =
        Repository::Open(ctx, store_->store(), "", KeyEnvironment()).status();
    return repository::IsNoRepository(opened) ? opened : password.status();
  }
  ASSIGN_OR_RETURN(repository_,
                   Repository::Open(ctx, store_->store(), password->Reveal(), KeyEnvironment()));
  return absl::OkStatus();
}

absl::StatusOr<storage::ObjectStore*> Session::OpenPlace() {
  RETURN_IF_ERROR(OpenStore(/*read_only=*/true));
  return &store_->store();
}

absl::StatusOr<RepositoryKeys> Session::ReadKeys(const CallContext& ctx) const {
  RepositoryKeys keys;
  ASSIGN_OR_RETURN(keys.keyring, ReadKeyring());
  if (!keys.keyring.has_value()) {
    ASSIGN_OR_RETURN(keys.password, Password(ctx, /*twice=*/false));
  }
  return keys;
}

absl::StatusOr<std::unique_ptr<Repository>> Session::OpenIn(const CallContext& ctx,
                                                            storage::ObjectStore& store,
                                                            const RepositoryKeys& keys) const {
  if (!keys.keyring.has_value()) {
    return Repository::Open(ctx, store, keys.password.Reveal(), KeyEnvironment());
  }
  ASSIGN_OR_RETURN(Opened opened, OpenWithKeyring(ctx, store, *keys.keyring));
  return std::move(opened.repository);
}

absl::StatusOr<Session::Opened> Session::OpenWithKeyring(const CallContext& ctx,
                                                         storage::ObjectStore& store,
                                                         datamover::Keyring keyring) const {
  repository::Environment environment = KeyEnvironment();
  const datamover::RepositoryKey newest = keyring.newest();
  environment.username = newest.fingerprint;
  std::vector<std::string> names;
  if (keyring.keys.size() > 1) {
    ASSIGN_OR_RETURN(names, Repository::ListKeyNames(ctx, store));
    // Trying one takes a moment: first those whose names are there.
    std::stable_partition(keyring.keys.begin(), keyring.keys.end(),
                          [&](const datamover::RepositoryKey& key) {
                            return absl::c_linear_search(names, key.fingerprint);
                          });
  }
  for (const datamover::RepositoryKey& key : keyring.keys) {
    absl::StatusOr<std::unique_ptr<Repository>> opened =
        Repository::Open(ctx, store, key.password.Reveal(), environment);
    if (opened.ok()) {
      const bool is_newest = key.fingerprint == newest.fingerprint;
      return Opened{.repository = *std::move(opened),
                    .key_to_add = is_newest ? std::nullopt : std::optional(newest)};
    }
    if (!repository::IsWrongPassword(opened.status())) {
      return opened.status();
    }
  }
  ASSIGN_OR_RETURN(names, Repository::ListKeyNames(ctx, store));
  return repository::AsWrongPassword(absl::UnauthenticatedError(
      absl::StrCat("none of the keys ",
                   absl::StrJoin(keyring.keys, ", ",
                                 [](std::string* out, const datamover::RepositoryKey& key) {
                                   absl::StrAppend(out, key.fingerprint);
                                 }),
                   " opens ", store.Describe(), "; add the key that it was made with to ",
                   choice().keyring_file, ", its own are called ", absl::StrJoin(names, ", "))));
}

absl::Status Session::AddNewestKey(const CallContext& ctx) {
  if (!key_to_add_.has_value()) {
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(repository_->AddKey(ctx, key_to_add_->password.Reveal()).status());
  console_.Note(absl::StrCat("added key ", key_to_add_->fingerprint, " to ", place_));
  key_to_add_.reset();
  return absl::OkStatus();
}

absl::Status Session::TakeLock(const CallContext& ctx, LockKind kind) {
  repository::LockOptions lock;
  lock.exclusive = kind == LockKind::kExclusive || kind == LockKind::kReadAlone;
  lock.required = !OnlyReads(kind);
  lock.wait_max = options_.retry_lock.value_or(repository::kLockWaitForStale);
  lock.owner.name = absl::StrReplaceAll(HostName(), {{"_", "-"}});
  lock.witnesses = environment_.witnesses();
  lock.owner.process = lock.witnesses.self;
  lock.owner.pod_uid = Variable(environment_.get, kPodUidVariable);
  if (const std::string user = UserName(environment_.get); !user.empty()) {
    lock.username = user;
  }
  lock.on_wait = [this, wait_max = lock.wait_max](const std::string& sentence) {
    console_.Warn(absl::StrCat(sentence, ", for at most ", absl::FormatDuration(wait_max)));
  };
  ASSIGN_OR_RETURN(lock_, repository::Lock::Acquire(ctx, *repository_, lock));
  if (lock_->unfinished().removed > 0) {
    MarkUnfinished(ctx, *repository_);  // The locks said it until now.
  }
  if (!lock_->held()) {
    console_.Note(absl::StrCat(place_, " lets us write no lock; going on without one"));
  }
  return absl::OkStatus();
}

incremental::StoreNumbers Session::Numbers() const {
  if (store_ == nullptr) {
    return {};
  }
  const storage::StoreUsage usage = store_->meter().Snapshot();
  return {.requests = usage.requests(),
          .writes = usage.write_requests(),
          .retries = usage.retries,
          .put_bytes = usage.put_bytes};
}

}  // namespace csidelta::cli

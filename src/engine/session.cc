#include "engine/session.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/status_macros.h"
#include "engine/resume.h"
#include "incremental/mover/process_limits.h"

namespace csidelta::engine {
namespace {

using repository::Repository;

bool OnlyReads(LockKind kind) { return kind == LockKind::kRead || kind == LockKind::kReadAlone; }

}  // namespace

Session::Session(SessionOptions options)
    : options_(std::move(options)),
      memory_(std::make_shared<MemoryBudget>(incremental::BudgetWithin(
          options_.memory_budget_bytes, incremental::ReadProcessLimits()))) {}

absl::StatusOr<std::unique_ptr<storage::OpenedStore>> Session::NewStore(const CallContext& ctx,
                                                                        LockKind kind,
                                                                        bool read_only) {
  ASSIGN_OR_RETURN(RepositoryTarget place, options_.place(ctx, kind));
  in_bucket_ = place.location.kind != storage::Location::Kind::kDirectory;
  place.settings.read_only |= read_only;
  place.settings.retry.on_wait = [this](const absl::Status& reason) {
    if (!has_reported_waiting_.exchange(true)) {
      options_.listener.note(
          absl::StrCat("waiting for ", place_, ", trying again: ", reason.message()));
    }
  };
  return options_.open_store(place.location, place.settings, *options_.random);
}

absl::Status Session::OpenStore(const CallContext& ctx, LockKind kind, bool read_only) {
  ASSIGN_OR_RETURN(store_, NewStore(ctx, kind, read_only));
  place_ = store_->store().Describe();
  return absl::OkStatus();
}

repository::Environment Session::KeyEnvironment() const {
  repository::Environment environment;
  environment.scrypt = options_.scrypt;
  environment.hostname = options_.host;
  if (!options_.user.empty()) {
    environment.username = options_.user;
  }
  environment.scratch.folder = options_.scratch_folder;
  environment.memory = memory_.get();
  return environment;
}

absl::StatusOr<Repository*> Session::Init(const CallContext& ctx) {
  RETURN_IF_ERROR(OpenStore(ctx, LockKind::kWrite));
  repository::Environment environment = KeyEnvironment();
  Secret password;
  ASSIGN_OR_RETURN(const std::optional<repository::Keyring> keyring, options_.keyring());
  if (keyring.has_value()) {
    password = keyring->newest().password;
    environment.username = keyring->newest().fingerprint;
  } else {
    ASSIGN_OR_RETURN(password, options_.password(ctx, place_, /*twice=*/true));
  }
  ASSIGN_OR_RETURN(repository_,
                   Repository::Init(ctx, store_->store(), password.Reveal(), environment));
  return repository_.get();
}

absl::StatusOr<Repository*> Session::RepairConfig(const CallContext& ctx) {
  RETURN_IF_ERROR(OpenStore(ctx, LockKind::kWrite));
  ASSIGN_OR_RETURN(std::optional<repository::Keyring> keyring, options_.keyring());
  if (!keyring.has_value()) {
    ASSIGN_OR_RETURN(Secret password, options_.password(ctx, place_, /*twice=*/false));
    keyring = repository::Keyring{.keys = {{.fingerprint = "", .password = std::move(password)}}};
  }
  absl::Status last;
  for (const repository::RepositoryKey& key : keyring->keys) {
    auto repaired =
        Repository::RepairConfig(ctx, store_->store(), key.password.Reveal(), KeyEnvironment());
    if (repaired.ok()) {
      repository_ = *std::move(repaired);
      return repository_.get();
    }
    last = repaired.status();
    if (!repository::IsWrongPassword(last)) {
      break;
    }
  }
  return last;
}

absl::StatusOr<Repository*> Session::Open(const CallContext& ctx, LockKind kind) {
  if (options_.no_lock && !OnlyReads(kind)) {
    return absl::InvalidArgumentError(
        "--no-lock is for verbs that only read: this one writes, and must keep others from "
        "removing what it uses; leave it out");
  }
  RETURN_IF_ERROR(OpenStore(ctx, kind));
  ASSIGN_OR_RETURN(std::optional<repository::Keyring> keyring, options_.keyring());
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

absl::StatusOr<Repository*> Session::OpenAgain(const CallContext& ctx) {
  ASSIGN_OR_RETURN(store_again_, NewStore(ctx, LockKind::kRead, /*read_only=*/true));
  repository_->DropIndex();
  repository_again_ = repository_->Again(store_again_->store());
  return repository_again_.get();
}

absl::Status Session::OpenWithPassword(const CallContext& ctx) {
  const absl::StatusOr<Secret> password = options_.password(ctx, place_, /*twice=*/false);
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

absl::StatusOr<storage::ObjectStore*> Session::OpenLocation(const CallContext& ctx,
                                                            bool read_only) {
  RETURN_IF_ERROR(OpenStore(ctx, read_only ? LockKind::kRead : LockKind::kExclusive, read_only));
  return &store_->store();
}

absl::StatusOr<RepositoryKeys> Session::ReadKeys(const CallContext& ctx) const {
  RepositoryKeys keys;
  ASSIGN_OR_RETURN(keys.keyring, options_.keyring());
  if (!keys.keyring.has_value()) {
    ASSIGN_OR_RETURN(keys.password, options_.password(ctx, place_, /*twice=*/false));
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
                                                         repository::Keyring keyring) const {
  repository::Environment environment = KeyEnvironment();
  const repository::RepositoryKey newest = keyring.newest();
  environment.username = newest.fingerprint;
  std::vector<std::string> names;
  if (keyring.keys.size() > 1) {
    ASSIGN_OR_RETURN(names, Repository::ListKeyNames(ctx, store));
    // Trying one takes a moment: first those whose names are there.
    std::stable_partition(keyring.keys.begin(), keyring.keys.end(),
                          [&](const repository::RepositoryKey& key) {
                            return absl::c_linear_search(names, key.fingerprint);
                          });
  }
  for (const repository::RepositoryKey& key : keyring.keys) {
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
                                 [](std::string* out, const repository::RepositoryKey& key) {
                                   absl::StrAppend(out, key.fingerprint);
                                 }),
                   " opens ", store.Describe(), "; add the key that it was made with to ",
                   options_.keyring_name(), ", its own are called ", absl::StrJoin(names, ", "))));
}

absl::Status Session::AddNewestKey(const CallContext& ctx) {
  if (!key_to_add_.has_value()) {
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(repository_->AddKey(ctx, key_to_add_->password.Reveal()).status());
  options_.listener.note(absl::StrCat("added key ", key_to_add_->fingerprint, " to ", place_));
  key_to_add_.reset();
  return absl::OkStatus();
}

absl::Status Session::TakeLock(const CallContext& ctx, LockKind kind) {
  repository::LockOptions lock;
  lock.exclusive = kind == LockKind::kExclusive || kind == LockKind::kReadAlone;
  lock.required = !OnlyReads(kind);
  lock.wait_max = options_.retry_lock.value_or(repository::kLockWaitForStale);
  lock.owner.name = absl::StrReplaceAll(options_.host, {{"_", "-"}});
  lock.liveness_probes = options_.liveness_probes();
  lock.owner.process = lock.liveness_probes.self;
  lock.owner.pod_uid = options_.pod_uid;
  if (!options_.user.empty()) {
    lock.username = options_.user;
  }
  lock.on_wait = [this, wait_max = lock.wait_max](const std::string& sentence) {
    options_.listener.warn(
        absl::StrCat(sentence, ", for at most ", absl::FormatDuration(wait_max)));
  };
  ASSIGN_OR_RETURN(lock_, repository::Lock::Acquire(ctx, *repository_, lock));
  if (lock_->unfinished().removed > 0) {
    MarkUnfinished(ctx, *repository_);  // The locks said it until now.
  }
  if (!lock_->held()) {
    options_.listener.note(absl::StrCat(place_, " is read-only; continuing without a lock"));
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

incremental::StoreNumbers Session::NumbersOfAll() const {
  incremental::StoreNumbers all = Numbers();
  if (lock_ != nullptr && lock_->held()) {
    ++all.requests;
    ++all.writes;
  }
  return all;
}

}  // namespace csidelta::engine

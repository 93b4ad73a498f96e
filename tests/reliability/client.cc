#include "tests/reliability/client.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "engine/check.h"
#include "engine/resume.h"
#include "incremental/mover/block_uploader.h"
#include "incremental/mover/chunk_journal.h"
#include "incremental/mover/copy_note.h"
#include "incremental/mover/volume_record.h"
#include "repository/chain.h"
#include "repository/forget.h"
#include "tests/repository/test_volume.h"
#include "tests/support/cheap_scrypt.h"
#include "tests/support/fake_clock.h"

namespace csidelta::reliability {
namespace {

using incremental::BackupResult;
using incremental::UploadOptions;
using repository::Id;
using repository::Lock;
using repository::Repository;

constexpr char kPassword[] = "password";
constexpr int64_t kBackupMemoryBytes = int64_t{96} << 20;
constexpr int64_t kPackBytes = int64_t{1} << 20;
constexpr absl::Duration kPlainStaleAfter = absl::Minutes(30);

repository::Environment EnvironmentOf(SecureRandom& random) {
  repository::Environment environment;
  environment.random = &random;
  environment.scrypt = support::kCheapScrypt;
  return environment;
}

Objects MakeRepository(int number) {
  support::FakeClock clock;
  clock.SetAutoAdvance(true);
  CallContext ctx;
  ctx.clock = &clock;
  SharedStore store;
  support::FakeSecureRandom random(static_cast<uint64_t>(1000 + number));
  const auto made = Repository::Init(ctx, store, kPassword, EnvironmentOf(random));
  CSIDELTA_CHECK(made.ok());
  return store.objects();
}

}  // namespace

const Objects& Client::FreshRepository(int number) {
  static const std::vector<Objects>& made =
      *new std::vector<Objects>{MakeRepository(0), MakeRepository(1)};
  return made.at(static_cast<std::size_t>(number));
}

Client::Client(storage::ObjectStore& store, const ClientOptions& options)
    : store_(store),
      options_(options),
      secure_random_(options.seed),
      random_(options.seed),
      environment_(EnvironmentOf(secure_random_)) {
  ctx_.clock = options.clock;
}

absl::StatusOr<std::unique_ptr<Repository>> Client::Open(storage::ObjectStore& store) {
  return Repository::Open(ctx_, store, kPassword, environment_);
}

absl::StatusOr<Client::Session> Client::OpenLocked(bool exclusive) {
  Session session;
  ASSIGN_OR_RETURN(session.repository, Open(store_));
  repository::LockOptions options;
  options.exclusive = exclusive;
  options.wait_max = options_.wait_max;
  options.liveness_probes = options_.liveness_probes;
  options.owner.process = options_.liveness_probes.self;
  options.refresh_by_thread = options_.refresh_by_thread;
  ASSIGN_OR_RETURN(session.lock, Lock::Acquire(ctx_, *session.repository, options));
  if (session.lock->unfinished().removed > 0) {
    engine::MarkUnfinished(ctx_, *session.repository);
  }
  return session;
}

absl::StatusOr<BackupResult> Client::Backup(const std::string& volume, const VolumeState& state,
                                            const KnownVolumes& known, const std::string& handle,
                                            const BackupChoice& choice) {
  ASSIGN_OR_RETURN(const Session session, OpenLocked(/*exclusive=*/false));
  Repository& repository = *session.repository;
  UploadOptions options;
  options.snapshot.paths = {volume};
  options.snapshot.hostname = "cluster";
  options.manifest.snapshot_handle = handle;
  const auto note_damage = [&](const Id&, const absl::Status& why) { options.parent_damage = why; };
  ASSIGN_OR_RETURN(
      options.parent,
      repository::FindChainEnd(
          ctx_, repository, repository::ChainOf(options.snapshot.hostname, options.snapshot.paths),
          note_damage));
  if (options.parent.has_value()) {
    options.parent_damage = absl::OkStatus();
  }
  options.chunk_bytes = kModelChunkBytes;
  options.incremental_asked = choice.incremental;
  options.fail_on_fallback = choice.fail_on_fallback;
  options.memory = {.budget_bytes = kBackupMemoryBytes,
                    .cores = 1,
                    .pack_bytes_max = kPackBytes,
                    .uploads_in_flight_max = 1};
  // Sources are true here: one audited chunk is enough.
  options.audit_one_in = int64_t{1} << 40;
  options.audit_first_chunks = 1;
  options.fence = [&session](const CallContext& ctx) { return session.lock->Fence(ctx); };
  options.fence_if_old = session.lock->AsFence();
  options.proof_limits = options_.limits;
  bool has_journal = false;
  if (!choice.immutable_id.empty()) {
    options.immutable_identity = absl::StrCat(volume, "\n", choice.immutable_id);
    options.journal.step_bytes = 1;
    has_journal = incremental::ChunkJournal::Exists(ctx_, repository, options.immutable_identity);
  }
  engine::OrphanScope scope = {
      .all = session.lock->unfinished().others == 0, .own = {}, .fence = options.fence_if_old};
  if (has_journal && !scope.all) {
    scope.own = incremental::ChunkJournal::Blobs(ctx_, repository, options.immutable_identity,
                                                 kBackupMemoryBytes);
  }
  ASSIGN_OR_RETURN(
      const engine::ResumeAnswer unfinished,
      engine::FindUnfinished(ctx_, repository, !options.parent.has_value() || has_journal,
                             kBackupMemoryBytes, scope));
  options.known = unfinished.known;
  const std::unique_ptr<support::FakeBlockDevice> device = MakeDevice(state);
  ModelSource source(state, known);
  absl::StatusOr<BackupResult> result =
      incremental::UploadBlocks(ctx_, repository, *device, source, random_, options);
  engine::RecordEnd(ctx_, repository, unfinished, result.ok());
  return result;
}

absl::Status Client::Forget(const std::vector<Id>& ids) {
  ASSIGN_OR_RETURN(const Session session, OpenLocked(/*exclusive=*/true));
  return repository::RemoveSnapshots(ctx_, *session.repository, *session.lock, ids);
}

absl::Status Client::Prune() {
  ASSIGN_OR_RETURN(const Session session, OpenLocked(/*exclusive=*/true));
  RETURN_IF_ERROR(session.repository->LoadIndex(ctx_));
  repository::PruneOptions options;
  options.unused_max = {.percent = 0};
  options.pack_target_bytes = kPackBytes;
  ASSIGN_OR_RETURN(const repository::PrunePlan plan,
                   repository::PlanPrune(ctx_, *session.repository, options));
  return repository::RunPrune(ctx_, *session.repository, *session.lock, plan, options).status();
}

absl::StatusOr<repository::CheckReport> Client::Check(bool read_data) {
  ASSIGN_OR_RETURN(const Session session, OpenLocked(/*exclusive=*/true));
  repository::CheckOptions options;
  if (read_data) {
    options.read_data = repository::ReadEverything{};
  }
  return repository::CheckRepository(ctx_, *session.repository, options);
}

absl::StatusOr<repository::RepairIndexResult> Client::RepairIndex(bool read_all_packs,
                                                                  bool assume_ended) {
  ASSIGN_OR_RETURN(const Session session, OpenLocked(/*exclusive=*/true));
  repository::RepairIndexOptions options;
  options.assume_ended = assume_ended;
  options.read_all_packs = read_all_packs;
  return repository::RepairIndex(ctx_, *session.repository, *session.lock, options);
}

absl::StatusOr<repository::RepairPacksResult> Client::RepairPacks(const VolumeState* live) {
  ASSIGN_OR_RETURN(const Session session, OpenLocked(/*exclusive=*/true));
  repository::RepairPacksOptions options;
  options.writer.pack_target_bytes = kPackBytes;
  if (live != nullptr) {
    options.repair_source =
        [live](const CallContext&,
               const repository::BlobHandle& handle) -> absl::StatusOr<std::string> {
      for (const auto& [chunk, filling] : live->chunks) {
        const auto length = std::min(kModelChunkBytes, live->size_bytes - chunk * kModelChunkBytes);
        std::string bytes = length <= 0
                                ? std::string()
                                : FillingOf(filling).substr(0, static_cast<std::size_t>(length));
        if (Id::Of(bytes) == handle.id) {
          return bytes;
        }
      }
      return absl::NotFoundError("the volume does not have it");
    };
  }
  return repository::RepairPacks(ctx_, *session.repository, *session.lock, {}, options);
}

absl::StatusOr<std::vector<Id>> Client::RepairSnapshots() {
  ASSIGN_OR_RETURN(const Session session, OpenLocked(/*exclusive=*/true));
  ASSIGN_OR_RETURN(const repository::CheckReport report,
                   repository::CheckRepository(ctx_, *session.repository, {}));
  if (!report.complete) {
    return absl::FailedPreconditionError("the index does not read");
  }
  findings_.clear();
  for (const repository::Finding& finding : report.findings) {
    absl::StrAppend(&findings_, " [", finding.thing, ": ", finding.detail, "]");
  }
  const std::vector<Id>& lost = report.lost_volumes;
  if (!lost.empty()) {
    const std::unique_ptr<Repository> again = session.repository->Again(store_);
    RETURN_IF_ERROR(engine::ConfirmLost(ctx_, *again, {}, report));
  }
  RETURN_IF_ERROR(repository::RemoveSnapshots(ctx_, *session.repository, *session.lock, lost));
  return lost;
}

absl::StatusOr<std::vector<repository::CopiedSnapshot>> Client::CopyFrom(
    storage::ObjectStore& from) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Repository> source, Open(from));
  ASSIGN_OR_RETURN(const Session session, OpenLocked(/*exclusive=*/false));
  const engine::OrphanScope scope = {
      .all = session.lock->unfinished().others == 0, .own = {}, .fence = session.lock->AsFence()};
  ASSIGN_OR_RETURN(const engine::ResumeAnswer unfinished,
                   engine::FindUnfinished(ctx_, *session.repository, false,
                                          std::numeric_limits<int64_t>::max(), scope));
  repository::CopyOptions options;
  options.writer.pack_target_bytes = kPackBytes;
  options.limits = options_.limits;
  options.note = [&](const CallContext& ctx, const repository::CopyToNote& note) {
    return incremental::RecordCopy(ctx, *source, *session.repository, note);
  };
  auto copied =
      repository::CopySnapshots(ctx_, *source, *session.repository, *session.lock, {}, options);
  engine::RecordEnd(ctx_, *session.repository, unfinished, copied.ok());
  return copied;
}

absl::StatusOr<Id> Client::PlainBackup(const std::string& image) {
  ASSIGN_OR_RETURN(const Session session, OpenLocked(/*exclusive=*/false));
  RETURN_IF_ERROR(session.repository->LoadIndex(ctx_));
  repository::BlobWriterOptions options;
  const repository::BlobIndex& index = session.repository->index();
  options.known =
      std::make_shared<repository::StoredBlobs>(index, repository::PackBits(index.pack_count()));
  options.pack_target_bytes = kPackBytes;
  return repository::BackUpImage(ctx_, *session.repository, image, kModelChunkBytes, options);
}

absl::Status Client::PlainUnlock() {
  ASSIGN_OR_RETURN(const std::unique_ptr<Repository> repository, Open(store_));
  ASSIGN_OR_RETURN(const std::vector<repository::FileInfo> files,
                   repository->ListFiles(ctx_, repository::FileKind::kLock));
  for (const repository::FileInfo& file : files) {
    const absl::StatusOr<std::string> text =
        repository->LoadFile(ctx_, repository::FileKind::kLock, file.id);
    const absl::StatusOr<repository::LockFile> lock =
        text.ok() ? repository::DecodeLock(*text) : text.status();
    if (lock.ok() && ctx_.clock->Now() - lock->time > kPlainStaleAfter) {
      RETURN_IF_ERROR(repository->RemoveFile(ctx_, repository::FileKind::kLock, file.id));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<repository::StoredSnapshot>> Client::Snapshots() {
  ASSIGN_OR_RETURN(const std::unique_ptr<Repository> repository, Open(store_));
  return repository->ListSnapshots(ctx_, [](const Id&, const absl::Status&) {});
}

absl::Status Client::Restores(const Id& id, const VolumeState& state) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Repository> repository, Open(store_));
  ASSIGN_OR_RETURN(repository::RepoSnapshot snapshot, repository->LoadSnapshot(ctx_, id));
  ASSIGN_OR_RETURN(const auto record,
                   incremental::OpenVolumeRecord(ctx_, *repository,
                                                 {.id = id, .snapshot = std::move(snapshot)}));
  support::FakeBlockDevice target(state.size_bytes, 512, 0xA5);
  if (record->layout.size_bytes() != state.size_bytes) {
    return absl::DataLossError(absl::StrCat("the volume is one of ", record->layout.size_bytes(),
                                            " bytes, not of ", state.size_bytes));
  }
  incremental::DownloadOptions options;
  options.memory_budget_bytes = kBackupMemoryBytes;
  options.workers_max = 1;
  RETURN_IF_ERROR(
      incremental::DownloadBlocks(ctx_, *repository, target, random_, *record, options).status());
  return target.Equals(*MakeDevice(state), state.size_bytes)
             ? absl::OkStatus()
             : absl::DataLossError("what is restored has other bytes");
}

}  // namespace csidelta::reliability

#pragma once

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "repository/checker.h"
#include "repository/forget.h"
#include "repository/lock.h"
#include "repository/pruner.h"
#include "tests/repository/repository_fixture.h"
#include "tests/repository/test_volume.h"
#include "tests/support/encode_tree.h"
#include "tests/support/index_lookup.h"

namespace csidelta::repository {

inline constexpr int64_t kTestChunkBytes = kChunkBytesMin;

// Repositories in memory with some generations of a small volume. Each step opens the repository
// again, as programs do.
class MaintenanceFixture : public RepositoryFixture {
 protected:
  MaintenanceFixture() {
    Init();
    writer_options_.pack_target_bytes = 2 * kTestChunkBytes;
  }

  // A volume with a short last chunk; `seeds` say what the chunks hold.
  static std::string Image(const std::vector<uint64_t>& seeds) {
    std::string image;
    for (const uint64_t seed : seeds) {
      image += support::Noise(kTestChunkBytes, seed);
    }
    return image + support::Noise(1000, 99);
  }

  // Backs up, writing only blobs that are not there yet unless told otherwise.
  Id BackUp(const std::string& image, bool skip_known = true) {
    clock_.Advance(absl::Hours(24));
    std::unique_ptr<Repository> repository = Open();
    EXPECT_THAT(repository->LoadIndex(ctx_), support::IsOk());
    BlobWriterOptions options = writer_options_;
    options.known = skip_known ? KnownIn(*repository) : nullptr;
    const absl::StatusOr<Id> id = BackUpImage(ctx_, *repository, image, kTestChunkBytes, options);
    EXPECT_THAT(id, support::IsOk());
    return id.value_or(Id());
  }

  // Saves a snapshot of a root with these nodes, tagged like ours.
  void SaveRoot(const std::vector<Node>& nodes, const std::vector<std::string>& data) {
    std::unique_ptr<Repository> repository = Open();
    BlobWriter writer(ctx_, *repository, {});
    for (const std::string& blob : data) {
      ASSERT_THAT(writer.AddBlob(BlobType::kData, Id::Of(blob), blob), support::IsOk());
    }
    const std::string text = support::EncodeTree(nodes);
    ASSERT_THAT(writer.AddBlob(BlobType::kTree, Id::Of(text), text), support::IsOk());
    ASSERT_THAT(writer.Flush(), support::IsOk());
    RepoSnapshot snapshot;
    snapshot.time = clock_.Now();
    snapshot.tree = Id::Of(text);
    snapshot.paths = {"/x"};
    ASSERT_THAT(repository->SaveSnapshot(ctx_, snapshot, support::Unproven()), support::IsOk());
  }

  // Waits for locks of the dead; the clock moves by itself.
  absl::StatusOr<std::unique_ptr<Lock>> TakeLock(Repository& repository, bool exclusive = true) {
    LockOptions options;
    options.exclusive = exclusive;
    options.wait_max = kLockWaitForStale;
    options.refresh_by_thread = false;
    return Lock::Acquire(ctx_, repository, options);
  }

  // Without waiting.
  absl::StatusOr<std::unique_ptr<Lock>> TakeLockNow(Repository& repository, bool exclusive) {
    LockOptions options;
    options.exclusive = exclusive;
    options.refresh_by_thread = false;
    return Lock::Acquire(ctx_, repository, options);
  }

  absl::Status Forget(const Id& id) {
    std::unique_ptr<Repository> repository = Open();
    ASSIGN_OR_RETURN(const std::unique_ptr<Lock> lock, TakeLock(*repository));
    return RemoveSnapshots(ctx_, *repository, *lock, absl::MakeConstSpan(&id, 1));
  }

  absl::StatusOr<PrunePlan> Prune(Repository& repository, const PruneOptions& options) {
    ASSIGN_OR_RETURN(const std::unique_ptr<Lock> lock, TakeLock(repository));
    ASSIGN_OR_RETURN(PrunePlan plan, PlanPrune(ctx_, repository, options));
    RETURN_IF_ERROR(RunPrune(ctx_, repository, *lock, plan, options).status());
    return plan;
  }

  absl::StatusOr<PrunePlan> Prune(const PruneOptions& options) {
    std::unique_ptr<Repository> repository = Open();
    return Prune(*repository, options);
  }

  // Packs as small as the backups', and not a byte unused.
  PruneOptions Thorough() const {
    PruneOptions options;
    options.unused_max = {.percent = 0};
    options.pack_target_bytes = writer_options_.pack_target_bytes;
    return options;
  }

  CheckReport Check(bool read_data = true) {
    std::unique_ptr<Repository> repository = Open();
    CheckOptions options;
    if (read_data) {
      options.read_data = ReadEverything{};
    }
    const absl::StatusOr<CheckReport> report = CheckRepository(ctx_, *repository, options);
    EXPECT_THAT(report, support::IsOk());
    return report.value_or(CheckReport());
  }

  // "index-unreadable", ... of all findings, each once.
  static std::set<std::string> KindsOf(const CheckReport& report) {
    std::set<std::string> kinds;
    for (const Finding& finding : report.findings) {
      kinds.insert(std::string(NameOf(finding.kind)));
    }
    return kinds;
  }

  static std::string Describe(const CheckReport& report) {
    std::string text;
    for (const Finding& finding : report.findings) {
      absl::StrAppend(&text, NameOf(finding.kind), " ", finding.thing, ": ", finding.detail, "\n");
    }
    return text;
  }

  void ExpectClean(bool read_data = true) {
    const CheckReport report = Check(read_data);
    EXPECT_TRUE(report.complete);
    EXPECT_EQ(report.errors, 0) << Describe(report);
  }

  void ExpectRestores(const Id& id, const std::string& image) {
    std::unique_ptr<Repository> repository = Open();
    ASSERT_THAT(repository->LoadIndex(ctx_), support::IsOk());
    const absl::StatusOr<std::string> restored = RestoreImage(ctx_, *repository, id);
    ASSERT_THAT(restored, support::IsOk());
    EXPECT_TRUE(*restored == image);
  }

  // The pack that holds `plaintext` as data.
  PackId PackOf(const std::string& plaintext) {
    std::unique_ptr<Repository> repository = Open();
    EXPECT_THAT(repository->LoadIndex(ctx_), support::IsOk());
    BlobLocation location;
    EXPECT_THAT(
        support::FindAny(repository->index(), {BlobType::kData, Id::Of(plaintext)}, location),
        support::IsOkAndHolds(true));
    return location.pack;
  }

  // The pack of a snapshot's root tree.
  PackId TreePackOf(const Id& snapshot) {
    std::unique_ptr<Repository> repository = Open();
    EXPECT_THAT(repository->LoadIndex(ctx_), support::IsOk());
    BlobLocation location;
    EXPECT_THAT(support::FindAny(repository->index(),
                                 {BlobType::kTree, repository->LoadSnapshot(ctx_, snapshot)->tree},
                                 location),
                support::IsOkAndHolds(true));
    return location.pack;
  }

  void Flip(const std::string& key, std::size_t offset) {
    std::string bytes = store_.objects().at(key);
    bytes[offset] = static_cast<char>(bytes[offset] ^ 1);
    store_.SetObject(key, bytes);
  }

  BlobWriterOptions writer_options_;
};

}  // namespace csidelta::repository

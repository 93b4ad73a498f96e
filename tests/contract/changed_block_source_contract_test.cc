#include "tests/contract/changed_block_source_contract.h"

#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "incremental/sources/csi_metadata_source.h"
#include "incremental/sources/differential_request.h"
#include "tests/contract/bed_subject.h"
#include "tests/diffsnap/differential_cluster.h"
#include "tests/diffsnap/fake_driver.h"
#include "tests/support/fake_metadata_server.h"
#include "tests/support/metadata_cluster.h"

namespace csidelta::contract::changed_block_source_contract_test {
namespace {

using incremental::CsiMetadataSource;
using incremental::DiffRequest;
using support::FakeMetadataServer;
using support::ServedQuery;
using support::ServedStream;

// The client of snapshot metadata, with a driver that reports blocks of one length, or runs.
class CsiMetadataSubject : public ChangedBlockSubject {
 public:
  explicit CsiMetadataSubject(bool fixed_length) : fixed_length_(fixed_length) {}

  DiffRequest Play(const VolumeWorkload& story) override {
    story_ = story;
    server_ = std::make_unique<FakeMetadataServer>(
        authority_.IssueServer("IP:127.0.0.1"),
        [this](const ServedQuery& query, ServedStream& stream) { return Serve(query, stream); });
    cluster_.Advertise(server_->address(), authority_.ca_pem());
    return {.base = "handle-old", .target = "app/new", .size_bytes = story.size_bytes};
  }

  incremental::ChangedBlockSource* source() override { return &source_; }

  void RemoveBase() override {
    base_gone_ = true;
    cluster_.api.Remove(VolumeSnapshotKey("app", "old"));
    cluster_.api.Remove(VolumeSnapshotContentKey("content-old"));
  }

  void RemoveTarget() override { cluster_.api.Remove(VolumeSnapshotKey("app", "new")); }

 private:
  absl::Status Serve(const ServedQuery& query, ServedStream& stream) {
    if (query.is_delta && base_gone_) {
      return absl::NotFoundError("no such base");
    }
    std::vector<Extent> written = story_.after_base;
    if (!query.is_delta) {
      written.insert(written.end(), story_.before_base.begin(), story_.before_base.end());
    }
    written = MergeExtents(std::move(written));
    return ServeTuples(query, stream, story_.size_bytes,
                       fixed_length_ ? InBlocks(written) : written);
  }

  static std::vector<Extent> InBlocks(const std::vector<Extent>& runs) {
    std::vector<Extent> blocks;
    for (const Extent& run : runs) {
      for (int64_t at = run.offset_bytes; at < run.end_bytes(); at += kStoryBlockBytes) {
        blocks.push_back({at, kStoryBlockBytes});
      }
    }
    return blocks;
  }

  const bool fixed_length_;
  VolumeWorkload story_;
  std::atomic<bool> base_gone_ = false;
  support::MetadataCluster cluster_;
  support::TestAuthority authority_;
  csi::AudienceTokens tokens_{cluster_.api, {}};
  CsiMetadataSource source_{cluster_.api, tokens_, Random::Real(), {}};
  std::unique_ptr<FakeMetadataServer> server_;
};

// The client of DifferentialSnapshots, in front of the server of its lists and a driver that goes
// on by offset, or by a token of its own.
class DifferentialSubject : public ChangedBlockSubject, private diffsnap::DifferentialDriver {
 public:
  explicit DifferentialSubject(bool has_tokens) {
    changed_.has_tokens = allocated_.has_tokens = has_tokens;
  }

  DiffRequest Play(const VolumeWorkload& story) override {
    for (diffsnap::FakeDriver* const half : {&changed_, &allocated_}) {
      half->volume_size_bytes = story.size_bytes;
    }
    AddBlocks(changed_, story.after_base);
    std::vector<Extent> written = story.after_base;
    written.insert(written.end(), story.before_base.begin(), story.before_base.end());
    AddBlocks(allocated_, MergeExtents(std::move(written)));
    return {.base = "handle-old", .target = "app/new", .size_bytes = story.size_bytes};
  }

  incremental::ChangedBlockSource* source() override { return &source_; }

  void RemoveBase() override {
    base_gone_ = true;
    cluster_.api.Remove(VolumeSnapshotKey("app", "old"));
    cluster_.api.Remove(VolumeSnapshotContentKey("content-old"));
  }

  void RemoveTarget() override { cluster_.api.Remove(VolumeSnapshotKey("app", "new")); }

 private:
  absl::StatusOr<diffsnap::DriverPage> GetPage(const CallContext& ctx,
                                               const diffsnap::DriverRequest& request) override {
    if (!request.base_handle.empty() && base_gone_) {
      return absl::NotFoundError("no such base");
    }
    return (request.base_handle.empty() ? allocated_ : changed_).GetPage(ctx, request);
  }

  static void AddBlocks(diffsnap::FakeDriver& half, const std::vector<Extent>& extents) {
    for (const Extent& extent : extents) {
      half.blocks.push_back({.extent = extent});
    }
  }

  diffsnap::FakeDriver changed_;
  diffsnap::FakeDriver allocated_;
  std::atomic<bool> base_gone_ = false;
  diffsnap::DifferentialCluster cluster_{*this};
  csi::AudienceTokens tokens_{cluster_.api, {}};
  // The cluster's clock stands still, that of listings does not: each object looks old to others.
  incremental::DifferentialRequestSource source_{
      cluster_.api,
      tokens_,
      Random::Real(),
      {.entries_max = 99, .leftover_age_max = absl::InfiniteDuration()}};
};

ChangedBlockCase MetadataCase(const char* name, bool fixed_length) {
  return {name, [fixed_length] { return std::make_unique<CsiMetadataSubject>(fixed_length); }};
}

// With CSI_DELTA_TEST_METADATA_BED also against upstream's sidecar in a test bed.
std::vector<ChangedBlockCase> Cases() {
  std::vector<ChangedBlockCase> cases = {MetadataCase("Fixed", true),
                                         MetadataCase("Variable", false)};
  if (const char* bed = std::getenv("CSI_DELTA_TEST_METADATA_BED"); bed != nullptr) {
    cases.push_back({"Real", [path = std::string(bed)] { return MakeBedSubject(path); }});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(CsiMetadata, ChangedBlockContract, testing::ValuesIn(Cases()),
                         [](const auto& test) { return std::string(test.param.name); });

ChangedBlockCase DifferentialCase(const char* name, bool has_tokens) {
  return {name, [has_tokens] { return std::make_unique<DifferentialSubject>(has_tokens); }};
}

INSTANTIATE_TEST_SUITE_P(Differential, ChangedBlockContract,
                         testing::Values(DifferentialCase("ByOffset", false),
                                         DifferentialCase("ByToken", true)),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace csidelta::contract::changed_block_source_contract_test

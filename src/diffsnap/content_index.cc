#include "diffsnap/content_index.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

namespace csidelta::diffsnap {
namespace {

using objects::VolumeSnapshotContent;

std::optional<IndexedContent> ReadContent(const VolumeSnapshotContent& content) {
  IndexedContent indexed{.volume_handle = content.source_volume(),
                         .namespace_name = content.snapshot_namespace(),
                         .handles = {}};
  for (std::string handle : {content.handle(), content.source_handle()}) {
    if (!handle.empty() && handle.size() <= ContentIndex::kHandleBytesMax) {
      indexed.handles.insert(std::move(handle));
    }
  }
  return indexed.handles.empty() ? std::nullopt : std::optional(std::move(indexed));
}

}  // namespace

ContentIndex::ContentIndex(std::string driver, std::size_t contents_max)
    : Index(
          [this](const VolumeSnapshotContent& content) {
            return content.driver() == driver_ ? ReadContent(content) : std::nullopt;
          },
          [](const IndexedContent& content) { return content.handles; }, contents_max),
      driver_(std::move(driver)),
      contents_max_(contents_max) {}

absl::StatusOr<std::vector<IndexedContent>> ContentIndex::FindByHandle(
    const std::string& handle) const {
  if (!is_synced()) {
    return absl::AbortedError("the VolumeSnapshotContents are still being listed");
  }
  if (!is_complete()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the cluster has more than ", contents_max_, " VolumeSnapshotContents of ",
                     driver_, ": a base cannot be looked up by its handle; delete old ones"));
  }
  return Find(handle);
}

}  // namespace csidelta::diffsnap

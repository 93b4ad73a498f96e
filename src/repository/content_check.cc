#include "repository/content_check.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <mutex>
#include <utility>

#include "base/status_macros.h"

namespace csidelta::repository {
namespace {

constexpr std::size_t kFilesMax = std::size_t{1} << 20;

}  // namespace

ContentCheck::ContentCheck(const BlobIndex& index, ScratchSpace& scratch, VolumeCheck& volumes,
                           const Findings& findings)
    : index_(index),
      scratch_(scratch),
      volumes_(volumes),
      findings_(findings),
      references_(std::make_unique<BlobReferences>(scratch)) {}

absl::Status ContentCheck::Add(uint32_t tree, uint32_t node, const Node& file) {
  const File noted = {.absent_bytes = file.size_bytes,
                      .tree = tree,
                      .node = node,
                      .shortest_bytes = std::numeric_limits<uint32_t>::max(),
                      .maybe_leaf = VolumeCheck::MayBeWholeLeaf(file)};
  while (true) {
    {
      std::shared_lock adding(gate_);
      if (const std::optional<uint32_t> number = NumberOf(noted)) {
        return references_->Add(*number, *file.content);
      }
    }
    std::unique_lock alone(gate_);
    if (files_.size() >= kFilesMax) {
      RETURN_IF_ERROR(ResolveAll());
    }
  }
}

absl::Status ContentCheck::Finish() {
  std::unique_lock alone(gate_);
  return ResolveAll();
}

std::optional<uint32_t> ContentCheck::NumberOf(const File& file) {
  const MutexLock lock(mutex_);
  if (files_.size() >= kFilesMax) {
    return std::nullopt;
  }
  files_.push_back(file);
  return static_cast<uint32_t>(files_.size() - 1);
}

absl::Status ContentCheck::ResolveAll() {
  RETURN_IF_ERROR(references_->Resolve(
      index_, [this](const BlobId& blob, uint32_t number, const IndexedCopy* copy) {
        File& file = files_[number];
        if (copy == nullptr) {
          file.incomplete = true;
          return findings_.missing(blob, file.tree);
        }
        const uint32_t bytes = copy->entry.span.plaintext_bytes();
        file.absent_bytes -= bytes;
        file.shortest_bytes = std::min(file.shortest_bytes, bytes);
        file.longest_bytes = std::max(file.longest_bytes, bytes);
        return findings_.listed(*copy, file.tree);
      }));
  for (const File& file : std::exchange(files_, {})) {
    RETURN_IF_ERROR(Judge(file));
  }
  references_ = std::make_unique<BlobReferences>(scratch_);
  return absl::OkStatus();
}

absl::Status ContentCheck::Judge(const File& file) {
  if (file.incomplete) {
    return absl::OkStatus();
  }
  if (file.maybe_leaf && file.shortest_bytes == file.longest_bytes) {
    volumes_.AddWholeLeaf(file.tree, file.longest_bytes);
  }
  if (file.absent_bytes == 0) {
    return absl::OkStatus();
  }
  return findings_.wrong_size(
      {.tree = file.tree, .node = file.node, .absent_bytes = file.absent_bytes});
}

}  // namespace csidelta::repository

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "base/mutex.h"
#include "repository/blob_references.h"
#include "repository/index.h"
#include "repository/scratch.h"
#include "repository/tree.h"
#include "repository/volume_check.h"

namespace csidelta::repository {

// Proves that every file's content is in the index and adds up to the file's size.
//
//   Add()* --> Finish()
//
// Files are collected and their content looked up together, some millions of files at a time. Add()
// may be called by many threads; Finish() once, after the last of them. Memory: that of
// BlobReferences, and 32 bytes a file for a million files at most.
class ContentCheck {
 public:
  // A file whose content has another length than it says: the number of its tree in the index, and
  // which of the tree's nodes it is.
  struct WrongSize {
    uint32_t tree = 0;
    uint32_t node = 0;
    uint64_t absent_bytes = 0;  // Its size less that of its content, modulo 2^64.
  };
  struct Findings {
    // `blob` is in no index.
    absl::FunctionRef<absl::Status(const BlobId& blob, uint32_t tree)> missing;
    // Told of each blob that is, by its first copy.
    absl::FunctionRef<absl::Status(const IndexedCopy& first, uint32_t tree)> listed;
    absl::FunctionRef<absl::Status(const WrongSize&)> wrong_size;
  };

  // Borrows all of it. Findings are told by one thread at a time.
  ContentCheck(const BlobIndex& index, ScratchSpace& scratch, VolumeCheck& volumes,
               const Findings& findings);

  // Takes a file that has content, which is node number `node` of tree number `tree`.
  absl::Status Add(uint32_t tree, uint32_t node, const Node& file);

  absl::Status Finish();

 private:
  struct File {
    uint64_t absent_bytes = 0;  // Its size less its content; wraps where there is too much.
    uint32_t tree = 0;
    uint32_t node = 0;
    uint32_t shortest_bytes = 0;  // Of the blobs of its content.
    uint32_t longest_bytes = 0;
    bool maybe_leaf = false;
    bool incomplete = false;  // Some of its content is missing.
  };

  // The file's place among those collected; nothing when these are to be resolved first.
  std::optional<uint32_t> NumberOf(const File& file);
  // REQUIRES that nothing adds.
  absl::Status ResolveAll();
  absl::Status Judge(const File& file);

  const BlobIndex& index_;
  ScratchSpace& scratch_;
  VolumeCheck& volumes_;
  const Findings findings_;
  std::shared_mutex gate_;  // Shared by those who add, and closed while all is resolved.
  Mutex mutex_;             // Guards files_ among those who add.
  std::vector<File> files_;
  std::unique_ptr<BlobReferences> references_;
};

}  // namespace csidelta::repository

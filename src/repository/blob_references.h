#pragma once

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "repository/blob.h"
#include "repository/index.h"
#include "repository/record_sorter.h"
#include "repository/scratch.h"

namespace csidelta::repository {

// Looks up the data blobs that files name, tens of millions of them, with one pass over the index:
// they are collected, sorted, and compared with it side by side.
//
//   Add()* --> Resolve()
//
// Add() may be called by many threads; Resolve() once, after the last of them. Memory and scratch
// space are those of a RecordSorter, with 36 bytes for each blob named.
class BlobReferences {
 public:
  explicit BlobReferences(ScratchSpace& scratch) : sorter_(scratch) {}

  // `content` as file number `file` names it.
  absl::Status Add(uint32_t file, absl::Span<const BlobId> content) {
    std::vector<Reference> references;
    references.reserve(content.size());
    for (const BlobId& blob : content) {
      references.push_back({.blob = blob, .file = file});
    }
    return sorter_.Add(references);
  }

  // Calls `visit` once for each time that a blob was named, with its first copy or null, in no
  // order that the caller knows. An error of it ends the pass and is returned.
  absl::Status Resolve(
      const BlobIndex& index,
      absl::FunctionRef<absl::Status(const BlobId& blob, uint32_t file, const IndexedCopy* copy)>
          visit) {
    BlobIndex::Cursor cursor(index);
    return sorter_.Drain([&](absl::Span<const Reference> references) -> absl::Status {
      for (const Reference& reference : references) {
        ASSIGN_OR_RETURN(const IndexedCopy* copy,
                         cursor.Find({.type = BlobType::kData, .id = reference.blob}));
        RETURN_IF_ERROR(visit(reference.blob, reference.file, copy));
      }
      return absl::OkStatus();
    });
  }

 private:
  struct Reference {
    BlobId blob;
    uint32_t file = 0;

    uint64_t SortPrefix() const { return blob.OrderedPrefix64(); }
    friend bool operator<(const Reference& a, const Reference& b) { return a.blob < b.blob; }
  };

  RecordSorter<Reference> sorter_;
};

}  // namespace csidelta::repository

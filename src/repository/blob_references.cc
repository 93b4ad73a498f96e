#include "repository/blob_references.h"

#include <vector>

#include "base/status_macros.h"

namespace csidelta::repository {

absl::Status BlobReferences::Add(uint32_t file, absl::Span<const BlobId> content) {
  std::vector<Reference> references;
  references.reserve(content.size());
  for (const BlobId& blob : content) {
    references.push_back({.blob = blob, .file = file});
  }
  return sorter_.Add(references);
}

absl::Status BlobReferences::Resolve(
    const BlobIndex& index,
    absl::FunctionRef<absl::Status(const BlobId&, uint32_t, const IndexedCopy*)> visit) {
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

}  // namespace csidelta::repository

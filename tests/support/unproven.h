#pragma once

#include "repository/snapshot_proof.h"

namespace csidelta::repository {

// The friend of SnapshotProof that only tests have.
struct SnapshotProofForTest {
  static SnapshotProof Make() { return SnapshotProof(SnapshotNeeds{}); }
  // The text of a file that may be a snapshot, good or not.
  static absl::StatusOr<Id> Put(Repository& repository, const CallContext& ctx, FileKind kind,
                                absl::string_view text) {
    return repository.PutFile(ctx, kind, text, nullptr);
  }
};

}  // namespace csidelta::repository

namespace csidelta::support {

// A proof of nothing, for snapshots that tests save as they like.
inline repository::SnapshotProof Unproven() { return repository::SnapshotProofForTest::Make(); }

}  // namespace csidelta::support

#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/crypto.h"
#include "repository/blob.h"
#include "repository/blob_codec.h"
#include "repository/byte_buffer.h"

namespace csidelta::repository {

// A finished pack, as it is stored.
struct Pack {
  PackId id;
  ByteBuffer bytes;
  std::vector<PackEntry> entries;
};

// Collects sealed blobs of one type into a pack. Every blob is read back (opened, decompressed,
// hashed) before it counts, and so is the header. Thread-compatible.
//
//   empty --Add--> open --Add until bytes() >= target--> --Finish--> empty
class PackBuilder {
 public:
  // `codec` outlives the builder and is not used by others at the same time.
  PackBuilder(BlobType type, BlobCodec& codec) : type_(type), codec_(&codec) {}

  // Memory for the pack to grow in, such as that of a pack that was uploaded.
  void UseBuffer(ByteBuffer buffer, int64_t reserve_bytes);

  // Appends a blob that `codec` has compressed. DATA_LOSS when its id is not that of its plaintext,
  // or when what was sealed does not read back: memory or processor are not to be trusted; the pack
  // is then as before the call.
  absl::Status Add(const BlobCodec::Compressed& blob, BlobCodec& codec);

  // Moves the sealed blobs of `other`, of the same type and key, to the end of this pack.
  void Append(PackBuilder& other);

  // Appends a sealed blob that another pack held. The caller has verified it.
  void AddSealed(const PackEntry& entry, absl::string_view envelope);

  // Writes the header, reads it back and returns the pack; the builder is empty then. DATA_LOSS
  // when the header does not read back. REQUIRES at least one blob.
  absl::StatusOr<Pack> Finish();

  BlobType type() const { return type_; }
  bool empty() const { return entries_.empty(); }
  // The length of the pack, were it finished now.
  int64_t bytes() const;
  const std::vector<PackEntry>& entries() const { return entries_; }

 private:
  void Count(const PackEntry& entry);

  BlobType type_;
  BlobCodec* codec_;
  ByteBuffer bytes_;
  int64_t header_bytes_ = 0;  // Of the plaintext header, so far.
  std::vector<PackEntry> entries_;
  Sha256Hasher hasher_;
};

}  // namespace csidelta::repository

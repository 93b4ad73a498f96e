#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/crypto.h"
#include "base/random.h"
#include "repository/blob.h"
#include "repository/byte_buffer.h"
#include "repository/compression.h"
#include "repository/sealer.h"

namespace csidelta::repository {

// Whether a blob can lie and be as long as an index says.
bool IsPossible(BlobType type, const BlobSpan& span);
// Whether it is so long that memory should hold one of them at a time.
bool IsLarge(const BlobSpan& span);

// Turns plaintext into sealed blobs and back, with contexts and buffers that are kept between
// calls. Thread-compatible: one per thread.
class BlobCodec {
 public:
  // `data_level`: zstd level for data blobs, kNoCompression for none. Trees are always compressed.
  BlobCodec(const SealKey& key, int data_level, SecureRandom& random);

  // A blob that is ready to be sealed: its frame, or where that is empty its plaintext. Both are
  // borrowed, the frame from the codec until its next Compress().
  struct Compressed {
    BlobHandle handle;
    absl::string_view plaintext;
    absl::Span<const uint8_t> frame;
  };

  // Compresses data where that makes it shorter, trees always. INVALID_ARGUMENT for a length beyond
  // format.h's limits.
  absl::StatusOr<Compressed> Compress(const BlobHandle& handle, absl::string_view plaintext);

  // Appends the envelope of `blob` to `out` and returns its lengths; offset_bytes is where it
  // begins in `out`. The envelope is opened, decompressed and hashed again before it counts:
  // DATA_LOSS when it does not come back as the blob's id, and `out` is then as before.
  // `pack_hasher` takes in the envelope, because that costs little beside the other hash; after an
  // error it has taken in anything or nothing.
  absl::StatusOr<BlobSpan> AppendSealed(const Compressed& blob, ByteBuffer& out,
                                        Sha256Hasher& pack_hasher);

  // The plaintext of an envelope, proven by its hash; valid until the next call. DATA_LOSS when
  // MAC, frame, length or hash are wrong. `pack_hasher` takes in the envelope in any case, because
  // that costs little beside the other hash.
  absl::StatusOr<absl::string_view> Decode(const BlobHandle& handle, const BlobSpan& span,
                                           absl::string_view envelope,
                                           Sha256Hasher* pack_hasher = nullptr);

  // What the blob of the last Decode() was compressed to, valid as long as its plaintext; empty
  // where it was not.
  absl::Span<const uint8_t> frame() const { return frame_; }

  // Decode() into `out`, which has exactly span.plaintext_bytes() bytes: for buffers that a device
  // wants aligned.
  absl::Status DecodeInto(const BlobHandle& handle, const BlobSpan& span,
                          absl::string_view envelope, absl::Span<uint8_t> out);

  // An envelope, and where its plaintext goes.
  struct Sealed {
    BlobHandle handle;
    BlobSpan span;
    absl::string_view envelope;
    absl::Span<uint8_t> out;
  };

  // DecodeInto() of each, which costs less than one after the other: their hashes are taken at
  // once.
  std::pair<absl::Status, absl::Status> DecodeTwo(const Sealed& first, const Sealed& second);

  Sealer& sealer() { return sealer_; }

 private:
  // All of DecodeInto() but the hash.
  absl::Status Unseal(const BlobHandle& handle, const BlobSpan& span, absl::string_view envelope,
                      absl::Span<uint8_t> out);

  Sealer sealer_;
  int data_level_;
  Compressor data_compressor_;
  Compressor tree_compressor_;
  Decompressor decompressor_;
  std::string tree_frame_;
  std::vector<uint8_t> opened_;
  absl::Span<const uint8_t> frame_;
  std::vector<uint8_t> plain_;
};

}  // namespace csidelta::repository

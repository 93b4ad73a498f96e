#pragma once

#include <cstdint>

#include "absl/time/time.h"

// Constants of restic's repository format, version 2, and our limits on what we accept of it.
namespace csidelta::repository {

inline constexpr int kRepositoryVersion = 2;

// Envelope: IV, ciphertext, MAC.
inline constexpr int64_t kIvBytes = 16;
inline constexpr int64_t kMacBytes = 16;
inline constexpr int64_t kEnvelopeBytes = kIvBytes + kMacBytes;

// Pack: blobs, sealed header, length of the sealed header as a little-endian uint32.
inline constexpr int64_t kPlainEntryBytes = 1 + 4 + 32;
inline constexpr int64_t kCompressedEntryBytes = 1 + 4 + 4 + 32;
inline constexpr int64_t kHeaderLengthBytes = 4;
inline constexpr int64_t kPackHeaderBytesMax = int64_t{16} << 20;
inline constexpr int64_t kPackBytesMin = kHeaderLengthBytes + kEnvelopeBytes + kPlainEntryBytes;
// More do not fit into a header.
inline constexpr int64_t kPackEntriesMax = kPackHeaderBytesMax / kPlainEntryBytes;
// Lengths and offsets in a pack are uint32.
inline constexpr int64_t kPackBytesMax = (int64_t{4} << 30) - 1;
// A pack that is read as a whole; restic's --pack-size ends at 128 MiB, plus one blob and a header.
inline constexpr int64_t kPackReadBytesMax = int64_t{256} << 20;

// Our targets; a pack is closed once it is as long or longer, or has so many blobs that its
// header stays far below the limit, however little is left of the blobs.
inline constexpr int64_t kPackEntriesTarget = 200'000;
static_assert(kPackEntriesTarget * kCompressedEntryBytes < kPackHeaderBytesMax);
inline constexpr int64_t kPackTargetBytesLocal = int64_t{16} << 20;
inline constexpr int64_t kPackTargetBytesRemote = int64_t{32} << 20;

// An envelope is longer than its plaintext by this at most, whatever wrote it.
inline constexpr int64_t kSealedExtraBytesMax = int64_t{64} << 10;

// A plaintext longer than this is refused, written or read. restic's chunks end at 8 MiB; a tree of
// a directory with a million entries has some hundred MiB.
inline constexpr int64_t kDataBlobBytesMax = int64_t{64} << 20;
inline constexpr int64_t kTreeBlobBytesMax = int64_t{512} << 20;

// Longer than any that backup programs write, but for the trees of huge directories.
inline constexpr int64_t kLargeBlobBytes = int64_t{16} << 20;

// Files that are sealed by themselves, as text; none is stored longer than that.
inline constexpr int64_t kIndexTextBytesMax = int64_t{512} << 20;
inline constexpr int64_t kLocatorTextBytesMax = int64_t{128} << 20;
inline constexpr int64_t kSnapshotTextBytesMax = int64_t{16} << 20;
inline constexpr int64_t kLockTextBytesMax = int64_t{64} << 10;
inline constexpr int64_t kSnapshotValuesMax = int64_t{1} << 18;
inline constexpr int64_t kKeyFileBytesMax = 64 << 10;
inline constexpr int64_t kConfigBytesMax = 64 << 10;

inline constexpr int64_t kIndexBlobsTarget = 50'000;
inline constexpr absl::Duration kIndexAgeMax = absl::Minutes(10);

// zstd levels: data may choose, all else is always compressed.
inline constexpr int kDataCompressionLevel = 1;
inline constexpr int kMetadataCompressionLevel = 3;
inline constexpr int kNoCompression = 0;

}  // namespace csidelta::repository

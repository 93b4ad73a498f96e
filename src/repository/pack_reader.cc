#include "repository/pack_reader.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "repository/byte_buffer.h"
#include "repository/format.h"
#include "repository/maintenance_memory.h"
#include "repository/range_fetcher.h"

namespace csidelta::repository {
namespace {

// What the first request fetches: the headers of most small packs, and of csi-delta with 512 KiB
// chunks.
constexpr int64_t kTailBytes = 4 << 10;

constexpr uint8_t kTreeKindBit = 1;
constexpr uint8_t kCompressedBit = 2;

int64_t EntryBytes(const PackEntry& entry) {
  return entry.span.compressed() ? kCompressedEntryBytes : kPlainEntryBytes;
}

absl::Status Malformed(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("pack header: ", what));
}

// Takes one entry from the front of `header`.
absl::StatusOr<PackEntry> TakeEntry(absl::string_view& header, int64_t offset_bytes) {
  const auto kind = static_cast<uint8_t>(header[0]);
  if (kind > (kTreeKindBit | kCompressedBit)) {
    return Malformed("unknown type of blob");
  }
  const bool compressed = (kind & kCompressedBit) != 0;
  const int64_t entry_bytes = compressed ? kCompressedEntryBytes : kPlainEntryBytes;
  if (static_cast<int64_t>(header.size()) < entry_bytes) {
    return Malformed("ends inside an entry");
  }
  PackEntry entry;
  entry.handle.type = (kind & kTreeKindBit) != 0 ? BlobType::kTree : BlobType::kData;
  entry.span.offset_bytes = static_cast<uint32_t>(offset_bytes);
  entry.span.sealed_bytes = ReadLe32(header, 1);
  entry.span.uncompressed_bytes = compressed ? ReadLe32(header, 5) : 0;
  std::array<uint8_t, Id::kBytes> id;
  std::memcpy(id.data(), header.data() + entry_bytes - Id::kBytes, id.size());
  entry.handle.id = Id(id);
  if (entry.span.sealed_bytes < kEnvelopeBytes || (compressed && !entry.span.compressed())) {
    return Malformed("impossible length of a blob");
  }
  header.remove_prefix(static_cast<std::size_t>(entry_bytes));
  return entry;
}

// A header of as many entries as our packs have, in three forms.
constexpr int64_t kBytesPerThread = int64_t{2} << 20;

absl::Status CheckLength(const PackId& id, int64_t pack_bytes) {
  return pack_bytes >= kPackBytesMin && pack_bytes <= kPackBytesMax
             ? absl::OkStatus()
             : absl::DataLossError(absl::StrCat("pack ", id.ShortHex(), ": impossible length"));
}

// OpenPackTail() of `tail`, or of as much as it says the header takes.
absl::StatusOr<std::vector<PackEntry>> OpenWhole(const CallContext& ctx,
                                                 storage::ObjectStore& store, const PackId& id,
                                                 int64_t pack_bytes, absl::string_view tail,
                                                 Sealer& sealer) {
  absl::StatusOr<std::vector<PackEntry>> entries = OpenPackTail(tail, pack_bytes, sealer);
  if (absl::IsOutOfRange(entries.status())) {
    const int64_t whole_bytes =
        kHeaderLengthBytes + ReadLe32(tail, tail.size() - kHeaderLengthBytes);
    ASSIGN_OR_RETURN(const std::string whole,
                     store.GetRange(ctx, PackKey(id), {pack_bytes - whole_bytes, whole_bytes}));
    entries = OpenPackTail(whole, pack_bytes, sealer);
  }
  return absl::IsOutOfRange(entries.status()) ? Malformed("changed between two requests")
                                              : std::move(entries);
}

}  // namespace

int64_t PackBytes(absl::Span<const PackEntry> entries) {
  int64_t bytes = kEnvelopeBytes + kHeaderLengthBytes;
  for (const PackEntry& entry : entries) {
    bytes += entry.span.sealed_bytes + EntryBytes(entry);
  }
  return bytes;
}

std::string EncodePackHeader(absl::Span<const PackEntry> entries) {
  CSIDELTA_CHECK(!entries.empty());
  std::string header;
  header.reserve(entries.size() * kCompressedEntryBytes);
  for (const PackEntry& entry : entries) {
    const bool tree = entry.handle.type == BlobType::kTree;
    const bool compressed = entry.span.compressed();
    header.push_back(
        static_cast<char>((tree ? kTreeKindBit : 0) | (compressed ? kCompressedBit : 0)));
    AppendLe32(header, entry.span.sealed_bytes);
    if (compressed) {
      AppendLe32(header, entry.span.uncompressed_bytes);
    }
    absl::StrAppend(&header, AsText(entry.handle.id.bytes()));
  }
  return header;
}

absl::StatusOr<std::vector<PackEntry>> DecodePackHeader(absl::string_view header,
                                                        int64_t pack_bytes) {
  if (header.empty() || static_cast<int64_t>(header.size()) > kPackHeaderBytesMax) {
    return Malformed("impossible length");
  }
  const int64_t blobs_end =
      pack_bytes - kHeaderLengthBytes - kEnvelopeBytes - static_cast<int64_t>(header.size());
  std::vector<PackEntry> entries;
  entries.reserve(header.size() / kPlainEntryBytes);
  int64_t offset_bytes = 0;
  while (!header.empty()) {
    ASSIGN_OR_RETURN(const PackEntry entry, TakeEntry(header, offset_bytes));
    offset_bytes += entry.span.sealed_bytes;
    if (offset_bytes > blobs_end) {
      return Malformed("blobs reach beyond the pack");
    }
    entries.push_back(entry);
  }
  if (offset_bytes != blobs_end) {
    return Malformed("a gap between blobs and header");
  }
  return entries;
}

absl::StatusOr<std::vector<PackEntry>> ReadPackHeader(const CallContext& ctx,
                                                      storage::ObjectStore& store, const PackId& id,
                                                      int64_t pack_bytes, Sealer& sealer) {
  RETURN_IF_ERROR(CheckLength(id, pack_bytes));
  const int64_t tail_bytes = std::min(kTailBytes, pack_bytes);
  ASSIGN_OR_RETURN(const std::string tail,
                   store.GetRange(ctx, PackKey(id), {pack_bytes - tail_bytes, tail_bytes}));
  return OpenWhole(ctx, store, id, pack_bytes, tail, sealer);
}

absl::StatusOr<std::vector<PackEntry>> OpenPackTail(absl::string_view tail, int64_t pack_bytes,
                                                    Sealer& sealer) {
  if (std::ssize(tail) < kHeaderLengthBytes) {
    return Malformed("too short");
  }
  const int64_t sealed_bytes = ReadLe32(tail, tail.size() - kHeaderLengthBytes);
  if (sealed_bytes < kEnvelopeBytes + kPlainEntryBytes || sealed_bytes > kPackHeaderBytesMax ||
      sealed_bytes + kHeaderLengthBytes > pack_bytes || pack_bytes > kPackBytesMax) {
    return Malformed("impossible length");
  }
  if (sealed_bytes + kHeaderLengthBytes > std::ssize(tail)) {
    return absl::OutOfRangeError("the header of the pack begins before these bytes");
  }
  tail.remove_suffix(kHeaderLengthBytes);
  ASSIGN_OR_RETURN(const std::string header,
                   sealer.Open(tail.substr(tail.size() - static_cast<std::size_t>(sealed_bytes))));
  return DecodePackHeader(header, pack_bytes);
}

absl::Status ReadPackHeaders(const CallContext& ctx, const Repository& repository,
                             absl::Span<const FileInfo> packs, PackHeaderSink sink) {
  Mutex mutex;
  ASSIGN_OR_RETURN(FetchRoom room,
                   TakeFetchRoom(repository.memory(), kTailBytes, kBytesPerThread,
                                 "reading the headers of packs", std::ssize(packs)));
  RangeFetcher fetcher(ctx, repository, std::move(room));
  absl::Status status;
  for (const FileInfo& pack : packs) {
    const auto take = [&](const CallContext& own, const RangeFetcher::Decoder& decoder,
                          const absl::StatusOr<std::string>& tail) {
      absl::StatusOr<std::vector<PackEntry>> entries =
          tail.ok() ? OpenWhole(own, repository.store(), pack.id, pack.size_bytes, *tail,
                                decoder.codec.sealer())
                    : tail.status();
      const MutexLock lock(mutex);
      return sink(pack, std::move(entries));
    };
    const int64_t tail_bytes = std::min(kTailBytes, pack.size_bytes);
    if (const absl::Status possible = CheckLength(pack.id, pack.size_bytes); !possible.ok()) {
      const MutexLock lock(mutex);
      status = sink(pack, possible);
    } else if (!fetcher.Add(pack.id, {pack.size_bytes - tail_bytes, tail_bytes}, take)) {
      break;
    }
    if (!status.ok()) {
      break;
    }
  }
  return fetcher.Finish(status);
}

}  // namespace csidelta::repository

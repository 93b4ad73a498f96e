#include "repository/pack_writer.h"

#include <utility>

#include "base/check.h"
#include "base/status_macros.h"
#include "repository/format.h"
#include "repository/pack_reader.h"

namespace csidelta::repository {

void PackBuilder::UseBuffer(ByteBuffer buffer, int64_t reserve_bytes) {
  CSIDELTA_CHECK(empty());
  bytes_ = std::move(buffer);
  bytes_.Truncate(0);
  bytes_.Reserve(static_cast<std::size_t>(reserve_bytes));
}

absl::Status PackBuilder::Add(const BlobCodec::Compressed& blob, BlobCodec& codec) {
  CSIDELTA_CHECK(blob.handle.type == type_);
  const absl::StatusOr<BlobSpan> span = codec.AppendSealed(blob, bytes_, hasher_);
  if (!span.ok()) {
    hasher_.Finish();
    hasher_.Update(bytes_.view());
    return span.status();
  }
  Count({.handle = blob.handle, .span = *span});
  return absl::OkStatus();
}

void PackBuilder::AddSealed(const PackEntry& entry, absl::string_view envelope) {
  CSIDELTA_CHECK(entry.handle.type == type_ && envelope.size() == entry.span.sealed_bytes);
  PackEntry moved = entry;
  moved.span.offset_bytes = static_cast<uint32_t>(bytes_.size());
  bytes_.Append(envelope);
  hasher_.Update(envelope);
  Count(moved);
}

void PackBuilder::Append(PackBuilder& other) {
  for (const PackEntry& entry : other.entries_) {
    AddSealed(entry, other.bytes_.view().substr(entry.span.offset_bytes, entry.span.sealed_bytes));
  }
  other.bytes_.Truncate(0);
  other.entries_.clear();
  other.header_bytes_ = 0;
  other.hasher_.Finish();
}

void PackBuilder::Count(const PackEntry& entry) {
  header_bytes_ += entry.span.compressed() ? kCompressedEntryBytes : kPlainEntryBytes;
  entries_.push_back(entry);
}

absl::StatusOr<Pack> PackBuilder::Finish() {
  CSIDELTA_CHECK(!empty());
  const std::size_t blobs_end = bytes_.size();
  const std::string sealed = codec_->sealer().Seal(EncodePackHeader(entries_));
  bytes_.Append(sealed);
  std::string length;
  AppendLe32(length, static_cast<uint32_t>(sealed.size()));
  bytes_.Append(length);

  // Read back what everyone will have to trust.
  ASSIGN_OR_RETURN(const std::string header,
                   codec_->sealer().Open(bytes_.view().substr(blobs_end, sealed.size())));
  ASSIGN_OR_RETURN(const std::vector<PackEntry> decoded,
                   DecodePackHeader(header, static_cast<int64_t>(bytes_.size())));
  if (decoded != entries_) {
    return absl::DataLossError("a pack header does not read back as it was written");
  }
  hasher_.Update(bytes_.view().substr(blobs_end));
  Pack pack = {
      .id = Id(hasher_.Finish()), .bytes = std::move(bytes_), .entries = std::move(entries_)};
  bytes_ = ByteBuffer();
  entries_.clear();
  header_bytes_ = 0;
  return pack;
}

int64_t PackBuilder::bytes() const {
  return static_cast<int64_t>(bytes_.size()) + header_bytes_ + kEnvelopeBytes + kHeaderLengthBytes;
}

}  // namespace csidelta::repository

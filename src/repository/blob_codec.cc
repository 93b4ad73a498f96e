#include "repository/blob_codec.h"

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "repository/format.h"

namespace csidelta::repository {
namespace {

int64_t PlaintextBytesMax(BlobType type) {
  return type == BlobType::kTree ? kTreeBlobBytesMax : kDataBlobBytesMax;
}

// The first `count` bytes of memory that only grows.
absl::Span<uint8_t> Scratch(std::vector<uint8_t>& memory, std::size_t count) {
  if (memory.size() < count) {
    memory.resize(count);
  }
  return {memory.data(), count};
}

absl::Status WrongHash(const BlobHandle& handle) {
  return absl::DataLossError(absl::StrCat(Describe(handle), ": content does not hash to its id"));
}

absl::Status Prove(const BlobHandle& handle, const Id& content) {
  return content == handle.id ? absl::OkStatus() : WrongHash(handle);
}

}  // namespace

bool IsLarge(const BlobSpan& span) { return span.plaintext_bytes() > kLargeBlobBytes; }

bool IsPossible(BlobType type, const BlobSpan& span) {
  const int64_t plaintext_bytes_max = PlaintextBytesMax(type);
  return span.plaintext_bytes() <= plaintext_bytes_max && span.sealed_bytes >= kEnvelopeBytes &&
         span.sealed_bytes <= plaintext_bytes_max + kSealedExtraBytesMax;
}

BlobCodec::BlobCodec(const SealKey& key, int data_level, SecureRandom& random)
    : sealer_(key, random),
      data_level_(data_level),
      data_compressor_(data_level == kNoCompression ? kMetadataCompressionLevel : data_level),
      tree_compressor_(kMetadataCompressionLevel) {}

absl::StatusOr<BlobCodec::Compressed> BlobCodec::Compress(const BlobHandle& handle,
                                                          absl::string_view plaintext) {
  if (plaintext.empty() ||
      static_cast<int64_t>(plaintext.size()) > PlaintextBytesMax(handle.type)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a ", BlobTypeName(handle.type), " blob of ", plaintext.size(), " bytes"));
  }
  Compressed blob{.handle = handle, .plaintext = plaintext, .frame = {}};
  if (handle.type == BlobType::kTree) {
    tree_frame_ = tree_compressor_.Compress(plaintext);
    blob.frame = AsBytes(tree_frame_);
  } else if (data_level_ != kNoCompression) {
    blob.frame = data_compressor_.Shrink(AsBytes(plaintext));
  }
  return blob;
}

absl::StatusOr<BlobSpan> BlobCodec::AppendSealed(const Compressed& blob, ByteBuffer& out,
                                                 Sha256Hasher& pack_hasher) {
  const absl::Span<const uint8_t> payload =
      blob.frame.empty() ? AsBytes(blob.plaintext) : blob.frame;
  const std::size_t offset = out.size();
  const BlobSpan span = {
      .offset_bytes = static_cast<uint32_t>(offset),
      .sealed_bytes = static_cast<uint32_t>(payload.size() + kEnvelopeBytes),
      .uncompressed_bytes = blob.frame.empty() ? 0 : static_cast<uint32_t>(blob.plaintext.size())};
  const absl::Span<uint8_t> envelope = out.Extend(span.sealed_bytes);
  sealer_.Seal(payload, envelope);
  // Read back what others will have to trust.
  const absl::Span<uint8_t> read = Scratch(plain_, blob.plaintext.size());
  absl::Status verified = Unseal(blob.handle, span, AsText(envelope), read);
  if (verified.ok() &&
      Id(pack_hasher.UpdateBeside(AsText(envelope), AsText(read))) != blob.handle.id) {
    verified = WrongHash(blob.handle);
  }
  if (!verified.ok()) {
    out.Truncate(offset);
    return Annotate(verified, "reading back what was just sealed");
  }
  return span;
}

absl::StatusOr<absl::string_view> BlobCodec::Decode(const BlobHandle& handle, const BlobSpan& span,
                                                    absl::string_view envelope,
                                                    Sha256Hasher* pack_hasher) {
  absl::Cleanup hash_pack = [&] {
    if (pack_hasher != nullptr) {
      pack_hasher->Update(envelope);
    }
  };
  if (!IsPossible(handle.type, span) || envelope.size() != span.sealed_bytes) {
    return absl::DataLossError(absl::StrCat(Describe(handle), ": impossible length"));
  }
  if (span.compressed() && IsLarge(span)) {
    // The index may lie: no memory is taken before the frame, which its MAC proves, says the same.
    const absl::Span<uint8_t> frame = Scratch(opened_, envelope.size() - kEnvelopeBytes);
    RETURN_IF_ERROR(sealer_.Open(AsBytes(envelope), frame));
    if (!MayExpandTo(frame, span.uncompressed_bytes)) {
      return absl::DataLossError(absl::StrCat(Describe(handle), ": wrong length"));
    }
  }
  const absl::Span<uint8_t> plaintext = Scratch(plain_, span.plaintext_bytes());
  RETURN_IF_ERROR(Unseal(handle, span, envelope, plaintext));
  Id content;
  if (pack_hasher != nullptr) {
    std::move(hash_pack).Cancel();
    content = Id(pack_hasher->UpdateBeside(envelope, AsText(plaintext)));
  } else {
    content = Id::Of(AsText(plaintext));
  }
  RETURN_IF_ERROR(Prove(handle, content));
  frame_ = Scratch(opened_, span.compressed() ? envelope.size() - kEnvelopeBytes : 0);
  return AsText(plaintext);
}

absl::Status BlobCodec::DecodeInto(const BlobHandle& handle, const BlobSpan& span,
                                   absl::string_view envelope, absl::Span<uint8_t> out) {
  RETURN_IF_ERROR(Unseal(handle, span, envelope, out));
  return Prove(handle, Id::Of(AsText(out)));
}

std::pair<absl::Status, absl::Status> BlobCodec::DecodeTwo(const Sealed& first,
                                                           const Sealed& second) {
  absl::Status of_first = Unseal(first.handle, first.span, first.envelope, first.out);
  absl::Status of_second = Unseal(second.handle, second.span, second.envelope, second.out);
  const auto [first_id, second_id] = Id::OfTwo(AsText(first.out), AsText(second.out));
  of_first.Update(Prove(first.handle, first_id));
  of_second.Update(Prove(second.handle, second_id));
  return {std::move(of_first), std::move(of_second)};
}

absl::Status BlobCodec::Unseal(const BlobHandle& handle, const BlobSpan& span,
                               absl::string_view envelope, absl::Span<uint8_t> out) {
  if (envelope.size() != span.sealed_bytes || out.size() != span.plaintext_bytes() ||
      envelope.size() < std::size_t{kEnvelopeBytes}) {
    return absl::DataLossError(absl::StrCat(Describe(handle), ": wrong length"));
  }
  absl::Status status;
  if (!span.compressed()) {
    status = sealer_.Open(AsBytes(envelope), out);
  } else {
    const absl::Span<uint8_t> frame = Scratch(opened_, envelope.size() - kEnvelopeBytes);
    status = sealer_.Open(AsBytes(envelope), frame);
    if (status.ok()) {
      status = decompressor_.DecompressExactly(frame, out);
    }
  }
  return status.ok() ? status : Annotate(status, Describe(handle));
}

}  // namespace csidelta::repository

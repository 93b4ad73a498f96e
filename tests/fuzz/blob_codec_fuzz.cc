// What lies in an envelope, sealed by another client who has the key: the bytes as they are, and a
// frame of any kind, under lengths that lie. What is taken hashes to its id; no more memory is
// taken than was allowed.

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "base/check.h"
#include "repository/blob_codec.h"
#include "repository/byte_buffer.h"
#include "repository/compression.h"

namespace csidelta::repository::blob_codec_fuzz {
namespace {

constexpr int64_t kTextBytesMax = 1 << 20;

void CheckBlob(absl::string_view payload, uint32_t plaintext_bytes) {
  SecureRandom& random = SecureRandom::Real();
  const SealKey key = {};
  BlobCodec codec(key, kNoCompression, random);
  const std::string envelope = codec.sealer().Seal(payload);
  const BlobSpan span = {.offset_bytes = 0,
                         .sealed_bytes = static_cast<uint32_t>(envelope.size()),
                         .uncompressed_bytes = plaintext_bytes};
  for (const BlobType type : {BlobType::kData, BlobType::kTree}) {
    const BlobHandle handle = {type, Id::Of(payload)};
    const auto blob = codec.Decode(handle, span, envelope);
    CSIDELTA_CHECK(blob.ok() ? Id::Of(*blob) == handle.id : absl::IsDataLoss(blob.status()));
  }
  const std::string spoiled = std::string(envelope.size() - 1, '\0') + "\1";
  CSIDELTA_CHECK(!codec.Decode({BlobType::kData, Id::Of(payload)}, span, spoiled).ok());
}

void Check(absl::string_view bytes) {
  if (bytes.size() < 4) {
    return;
  }
  const absl::string_view payload = bytes.substr(4);
  CheckBlob(payload, 0);
  CheckBlob(payload, ReadLe32(bytes, 0) % (uint32_t{1} << 25));
  const auto text = Decompressor().Decompress(payload, kTextBytesMax);
  CSIDELTA_CHECK(!text.ok() || std::ssize(*text) <= kTextBytesMax);
}

}  // namespace
}  // namespace csidelta::repository::blob_codec_fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t bytes) {
  csidelta::repository::blob_codec_fuzz::Check({reinterpret_cast<const char*>(data), bytes});
  return 0;
}

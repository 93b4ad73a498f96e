#include "repository/compression.h"

#include <zstd.h>

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "repository/sealer.h"

namespace csidelta::repository {
namespace {

constexpr int kLevelMin = 1;
constexpr int kLevelMax = 19;
// A frame may ask for a window of this size at most: 2^27 bytes, what zstd's own tool accepts.
constexpr int kWindowLogMax = 27;
constexpr int kWindowLogMin = 10;

ZSTD_DCtx* MakeContext(int window_log) {
  ZSTD_DCtx* context = ZSTD_createDCtx();
  CSIDELTA_CHECK(context != nullptr &&
                 !ZSTD_isError(ZSTD_DCtx_setParameter(context, ZSTD_d_windowLogMax, window_log)));
  return context;
}

}  // namespace

void FreeContext::operator()(ZSTD_CCtx_s* context) const { ZSTD_freeCCtx(context); }
void FreeContext::operator()(ZSTD_DCtx_s* context) const { ZSTD_freeDCtx(context); }

Compressor::Compressor(int level) : context_(ZSTD_createCCtx()) {
  CSIDELTA_CHECK(level >= kLevelMin && level <= kLevelMax && context_ != nullptr);
  CSIDELTA_CHECK(
      !ZSTD_isError(ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_compressionLevel, level)));
}

absl::Span<const uint8_t> Compressor::Shrink(absl::Span<const uint8_t> plaintext) {
  if (plaintext.size() < 2) {
    return {};
  }
  // No room for a frame that is not shorter: the library gives up when it runs out.
  const std::size_t room = plaintext.size() - 1;
  if (frame_.size() < room) {
    frame_.resize(room);
  }
  const std::size_t written =
      ZSTD_compress2(context_.get(), frame_.data(), room, plaintext.data(), plaintext.size());
  if (ZSTD_isError(written)) {
    return {};
  }
  return {frame_.data(), written};
}

std::string Compressor::Compress(absl::string_view plaintext) {
  std::string frame(ZSTD_compressBound(plaintext.size()), '\0');
  const std::size_t written = ZSTD_compress2(context_.get(), frame.data(), frame.size(),
                                             plaintext.data(), plaintext.size());
  CSIDELTA_CHECK(!ZSTD_isError(written));  // Only too little memory could make it fail.
  frame.resize(written);
  return frame;
}

int64_t WindowBytesOf(absl::string_view frames) {
  // RFC 8878, 3.1.1.1: magic number, descriptor, and a window where there is not a single segment.
  constexpr absl::string_view kMagic = "\x28\xB5\x2F\xFD";
  constexpr uint8_t kSingleSegment = 0x20;
  const absl::Span<const uint8_t> bytes = AsBytes(frames);
  if (bytes.size() < 6 || frames.substr(0, kMagic.size()) != kMagic) {
    return 0;
  }
  if ((bytes[4] & kSingleSegment) != 0) {
    const unsigned long long said = ZSTD_getFrameContentSize(frames.data(), frames.size());
    return said <= (uint64_t{1} << kWindowLogMax) ? static_cast<int64_t>(said) : 0;
  }
  const int window_log = kWindowLogMin + (bytes[5] >> 3);
  const int64_t base = int64_t{1} << window_log;
  return window_log <= kWindowLogMax ? base + base / 8 * (bytes[5] & 7) : 0;
}

bool MayExpandTo(absl::Span<const uint8_t> frame, int64_t plaintext_bytes) {
  const unsigned long long said = ZSTD_getFrameContentSize(frame.data(), frame.size());
  return said == ZSTD_CONTENTSIZE_UNKNOWN || said == static_cast<uint64_t>(plaintext_bytes);
}

Decompressor::Decompressor() : context_(MakeContext(kWindowLogMax)) {}

absl::Status Decompressor::DecompressExactly(absl::Span<const uint8_t> frame,
                                             absl::Span<uint8_t> out) {
  const std::size_t written =
      ZSTD_decompressDCtx(context_.get(), out.data(), out.size(), frame.data(), frame.size());
  if (ZSTD_isError(written)) {
    return absl::DataLossError(absl::StrCat("zstd: ", ZSTD_getErrorName(written)));
  }
  if (written != out.size()) {
    return absl::DataLossError(
        absl::StrCat("decompresses to ", written, " bytes, not ", out.size()));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> Decompressor::Decompress(absl::string_view frames, int64_t bytes_max) {
  FrameReader reader(frames, bytes_max);
  std::string out;
  for (;;) {
    ASSIGN_OR_RETURN(const absl::string_view piece, reader.Next());
    if (piece.empty()) {
      return out;
    }
    if (out.capacity() - out.size() < piece.size()) {
      out.reserve(out.size() + std::max(piece.size(), out.size() / 2));
    }
    out.append(piece.data(), piece.size());
  }
}

FrameReader::FrameReader(absl::string_view frames, int64_t bytes_max)
    : left_(frames),
      bytes_left_(bytes_max),
      bytes_max_(bytes_max),
      piece_(ZSTD_DStreamOutSize(), '\0') {
  const auto window = static_cast<uint64_t>(WindowBytesOf(frames));
  context_.reset(
      MakeContext(std::clamp(static_cast<int>(std::bit_width(std::max<uint64_t>(window, 1) - 1)),
                             kWindowLogMin, kWindowLogMax)));
}

absl::StatusOr<absl::string_view> FrameReader::Next() {
  while (!left_.empty() || hint_ != 0) {
    ZSTD_outBuffer output = {piece_.data(), piece_.size(), 0};
    ZSTD_inBuffer input = {left_.data(), left_.size(), 0};
    hint_ = ZSTD_decompressStream(context_.get(), &output, &input);
    left_.remove_prefix(input.pos);
    if (ZSTD_isError(hint_)) {
      return absl::DataLossError(absl::StrCat("zstd: ", ZSTD_getErrorName(hint_)));
    }
    if (hint_ != 0 && input.pos == 0 && output.pos == 0) {
      return absl::DataLossError("zstd: the frame ends early");
    }
    bytes_left_ -= static_cast<int64_t>(output.pos);
    if (bytes_left_ < 0) {
      return absl::ResourceExhaustedError(
          absl::StrCat("decompresses to more than ", bytes_max_, " bytes"));
    }
    if (output.pos > 0) {
      return absl::string_view(piece_.data(), output.pos);
    }
  }
  return absl::string_view();
}

}  // namespace csidelta::repository

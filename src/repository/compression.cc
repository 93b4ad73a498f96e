#include "repository/compression.h"

#include <zstd.h>

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace csidelta::repository {
namespace {

constexpr int kLevelMin = 1;
constexpr int kLevelMax = 19;
// A frame may ask for a window of this size at most: 2^27 bytes, what zstd's own tool accepts.
constexpr int kWindowLogMax = 27;

}  // namespace

struct Compressor::State {
  ZSTD_CCtx* context = ZSTD_createCCtx();
  std::vector<uint8_t> frame;

  ~State() { ZSTD_freeCCtx(context); }
};

Compressor::Compressor(int level) : state_(std::make_unique<State>()) {
  CSIDELTA_CHECK(level >= kLevelMin && level <= kLevelMax && state_->context != nullptr);
  CSIDELTA_CHECK(
      !ZSTD_isError(ZSTD_CCtx_setParameter(state_->context, ZSTD_c_compressionLevel, level)));
}
Compressor::~Compressor() = default;
Compressor::Compressor(Compressor&&) noexcept = default;
Compressor& Compressor::operator=(Compressor&&) noexcept = default;

absl::Span<const uint8_t> Compressor::Shrink(absl::Span<const uint8_t> plaintext) {
  if (plaintext.size() < 2) {
    return {};
  }
  // No room for a frame that is not shorter: the library gives up when it runs out.
  const std::size_t room = plaintext.size() - 1;
  if (state_->frame.size() < room) {
    state_->frame.resize(room);
  }
  const std::size_t written = ZSTD_compress2(state_->context, state_->frame.data(), room,
                                             plaintext.data(), plaintext.size());
  if (ZSTD_isError(written)) {
    return {};
  }
  return {state_->frame.data(), written};
}

std::string Compressor::Compress(absl::string_view plaintext) {
  std::string frame(ZSTD_compressBound(plaintext.size()), '\0');
  const std::size_t written = ZSTD_compress2(state_->context, frame.data(), frame.size(),
                                             plaintext.data(), plaintext.size());
  CSIDELTA_CHECK(!ZSTD_isError(written));  // Only too little memory could make it fail.
  frame.resize(written);
  return frame;
}

bool MayExpandTo(absl::Span<const uint8_t> frame, int64_t plaintext_bytes) {
  const unsigned long long said = ZSTD_getFrameContentSize(frame.data(), frame.size());
  return said == ZSTD_CONTENTSIZE_UNKNOWN || said == static_cast<uint64_t>(plaintext_bytes);
}

struct Decompressor::State {
  ZSTD_DCtx* context = ZSTD_createDCtx();

  ~State() { ZSTD_freeDCtx(context); }
};

Decompressor::Decompressor() : state_(std::make_unique<State>()) {
  CSIDELTA_CHECK(state_->context != nullptr);
  CSIDELTA_CHECK(
      !ZSTD_isError(ZSTD_DCtx_setParameter(state_->context, ZSTD_d_windowLogMax, kWindowLogMax)));
}
Decompressor::~Decompressor() = default;
Decompressor::Decompressor(Decompressor&&) noexcept = default;
Decompressor& Decompressor::operator=(Decompressor&&) noexcept = default;

absl::Status Decompressor::DecompressExactly(absl::Span<const uint8_t> frame,
                                             absl::Span<uint8_t> out) {
  const std::size_t written =
      ZSTD_decompressDCtx(state_->context, out.data(), out.size(), frame.data(), frame.size());
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
  ZSTD_DCtx_reset(state_->context, ZSTD_reset_session_only);
  std::string out;
  const std::size_t step = ZSTD_DStreamOutSize();
  ZSTD_inBuffer input = {frames.data(), frames.size(), 0};
  std::size_t used = 0;
  std::size_t hint = 1;  // Zero: a frame has ended.
  while (input.pos < input.size || hint != 0) {
    if (out.size() - used < step) {
      if (static_cast<int64_t>(used) > bytes_max) {
        return absl::ResourceExhaustedError(
            absl::StrCat("decompresses to more than ", bytes_max, " bytes"));
      }
      out.resize(used + std::max(step, used / 2));
    }
    ZSTD_outBuffer output = {out.data(), out.size(), used};
    const std::size_t before = input.pos;
    hint = ZSTD_decompressStream(state_->context, &output, &input);
    if (ZSTD_isError(hint)) {
      return absl::DataLossError(absl::StrCat("zstd: ", ZSTD_getErrorName(hint)));
    }
    if (hint != 0 && input.pos == before && output.pos == used) {
      return absl::DataLossError("zstd: the frame ends early");
    }
    used = output.pos;
  }
  if (static_cast<int64_t>(used) > bytes_max) {
    return absl::ResourceExhaustedError(
        absl::StrCat("decompresses to more than ", bytes_max, " bytes"));
  }
  out.resize(used);
  return out;
}

}  // namespace csidelta::repository

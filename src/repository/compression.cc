#include "repository/compression.h"

#include <zstd.h>

#include <algorithm>
#include <bit>
#include <vector>

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

struct FrameReader::State {
  ZSTD_DCtx* context = ZSTD_createDCtx();
  ZSTD_inBuffer input;
  int64_t bytes_left;
  const int64_t bytes_max;
  std::size_t hint = 1;  // Zero: a frame has ended.
  std::string piece = std::string(ZSTD_DStreamOutSize(), '\0');

  ~State() { ZSTD_freeDCtx(context); }
};

FrameReader::FrameReader(absl::string_view frames, int64_t bytes_max)
    : state_(new State{.input = {frames.data(), frames.size(), 0},
                       .bytes_left = bytes_max,
                       .bytes_max = bytes_max}) {
  const auto window = static_cast<uint64_t>(WindowBytesOf(frames));
  const int window_log =
      std::clamp(static_cast<int>(std::bit_width(std::max<uint64_t>(window, 1) - 1)), kWindowLogMin,
                 kWindowLogMax);
  CSIDELTA_CHECK(state_->context != nullptr);
  CSIDELTA_CHECK(
      !ZSTD_isError(ZSTD_DCtx_setParameter(state_->context, ZSTD_d_windowLogMax, window_log)));
}
FrameReader::~FrameReader() = default;

absl::StatusOr<absl::string_view> FrameReader::Next() {
  State& state = *state_;
  while (state.input.pos < state.input.size || state.hint != 0) {
    ZSTD_outBuffer output = {state.piece.data(), state.piece.size(), 0};
    const std::size_t before = state.input.pos;
    state.hint = ZSTD_decompressStream(state.context, &output, &state.input);
    if (ZSTD_isError(state.hint)) {
      return absl::DataLossError(absl::StrCat("zstd: ", ZSTD_getErrorName(state.hint)));
    }
    if (state.hint != 0 && state.input.pos == before && output.pos == 0) {
      return absl::DataLossError("zstd: the frame ends early");
    }
    state.bytes_left -= static_cast<int64_t>(output.pos);
    if (state.bytes_left < 0) {
      return absl::ResourceExhaustedError(
          absl::StrCat("decompresses to more than ", state.bytes_max, " bytes"));
    }
    if (output.pos > 0) {
      return absl::string_view(state.piece.data(), output.pos);
    }
  }
  return absl::string_view();
}

}  // namespace csidelta::repository

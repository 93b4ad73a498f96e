#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

struct ZSTD_CCtx_s;
struct ZSTD_DCtx_s;

namespace csidelta::repository {

struct FreeContext {
  void operator()(ZSTD_CCtx_s* context) const;
  void operator()(ZSTD_DCtx_s* context) const;
};

// zstd frames, one per call. Keeps its working memory (about 1 MiB at level 1, more above) between
// calls. Thread-compatible: one per thread.
class Compressor {
 public:
  // REQUIRES a level from 1 to 19.
  explicit Compressor(int level);

  // A frame of `plaintext` that is shorter than it, valid until the next call; empty when none
  // exists.
  absl::Span<const uint8_t> Shrink(absl::Span<const uint8_t> plaintext);

  // A frame of `plaintext`, whether shorter or not.
  std::string Compress(absl::string_view plaintext);

 private:
  std::unique_ptr<ZSTD_CCtx_s, FreeContext> context_;
  std::vector<uint8_t> frame_;
};

// The memory that decoding takes by the header of the first frame: its window. 0 when it is no
// frame.
int64_t WindowBytesOf(absl::string_view frames);

// False when a frame's own header says that it holds another number of bytes.
bool MayExpandTo(absl::Span<const uint8_t> frame, int64_t plaintext_bytes);

// The way back, for frames from anyone. Thread-compatible: one per thread.
class Decompressor {
 public:
  Decompressor();

  // Fills `out` exactly. DATA_LOSS when the frame is malformed, has another length or is followed
  // by anything.
  absl::Status DecompressExactly(absl::Span<const uint8_t> frame, absl::Span<uint8_t> out);

  // The content of frames of unknown length. DATA_LOSS when malformed, RESOURCE_EXHAUSTED when it
  // is longer than `bytes_max`; never allocates more than about that.
  absl::StatusOr<std::string> Decompress(absl::string_view frames, int64_t bytes_max);

 private:
  std::unique_ptr<ZSTD_DCtx_s, FreeContext> context_;
};

// The same content, piece by piece. Memory: a piece of 128 KiB, and the window that the first frame
// asks for: a later one that asks for more is DATA_LOSS. `frames` outlives it. Thread-compatible.
class FrameReader {
 public:
  FrameReader(absl::string_view frames, int64_t bytes_max);

  // Valid until the next call; empty at the end. Errors as Decompress().
  absl::StatusOr<absl::string_view> Next();

 private:
  std::unique_ptr<ZSTD_DCtx_s, FreeContext> context_;
  absl::string_view left_;
  int64_t bytes_left_;
  const int64_t bytes_max_;
  std::size_t hint_ = 1;  // Zero: a frame has ended.
  std::string piece_;
};

}  // namespace csidelta::repository

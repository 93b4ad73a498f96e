#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

// The inner part of SHA-256 on the processor's own instructions, for one or two messages at a time.
// One message leaves half of such a processor idle, because each instruction waits for the one
// before; two that take turns nearly double the bytes per second. For base/crypto.cc only.
namespace csidelta {

using Sha256State = std::array<uint32_t, 8>;

inline constexpr std::size_t kSha256BlockBytes = 64;
inline constexpr Sha256State kSha256Initial = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                               0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

// Whether the functions below may be called.
bool HasSha256Instructions();

// Whole blocks that go into a state.
struct Sha256Lane {
  Sha256State* state;
  const uint8_t* blocks;
};

void AddSha256Blocks(const Sha256Lane& lane, std::size_t count);
// The same for two lanes, `count` blocks each.
void AddSha256Blocks(const Sha256Lane& first, const Sha256Lane& second, std::size_t count);

}  // namespace csidelta

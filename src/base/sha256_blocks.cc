#include "base/sha256_blocks.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#else
#include "base/check.h"
#endif

namespace csidelta {

#if defined(__x86_64__)
namespace {

alignas(16) constexpr std::array<uint32_t, 64> kRoundConstants = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

// Four rounds each.
constexpr int kRoundGroups = 16;

// A state in the order that the instructions want: (a, b, e, f) and (c, d, g, h).
struct Registers {
  __m128i abef;
  __m128i cdgh;
};

[[gnu::target("sha,sse4.1")]] inline Registers Load(const Sha256State& state) {
  const auto* words = reinterpret_cast<const __m128i*>(state.data());
  const __m128i cdab = _mm_shuffle_epi32(_mm_loadu_si128(words), 0xB1);
  const __m128i efgh = _mm_shuffle_epi32(_mm_loadu_si128(words + 1), 0x1B);
  return {.abef = _mm_alignr_epi8(cdab, efgh, 8), .cdgh = _mm_blend_epi16(efgh, cdab, 0xF0)};
}

[[gnu::target("sha,sse4.1")]] inline void Store(const Registers& registers, Sha256State& state) {
  auto* words = reinterpret_cast<__m128i*>(state.data());
  const __m128i feba = _mm_shuffle_epi32(registers.abef, 0x1B);
  const __m128i dchg = _mm_shuffle_epi32(registers.cdgh, 0xB1);
  _mm_storeu_si128(words, _mm_blend_epi16(feba, dchg, 0xF0));
  _mm_storeu_si128(words + 1, _mm_alignr_epi8(dchg, feba, 8));
}

// The words of the last four groups, in a ring.
struct Schedule {
  __m128i words[4];
};

// Everything about one message while blocks go in.
struct Message {
  Registers registers;
  Registers before;  // As they were before the block.
  Schedule schedule;
  const uint8_t* block;
};

// The words of group kGroup, in the place of those of four groups before.
template <int kGroup>
[[gnu::target("sha,sse4.1"), gnu::always_inline]] inline void Expand(Message& message) {
  __m128i(&w)[4] = message.schedule.words;
  constexpr int kIndex = kGroup % 4;
  if constexpr (kGroup < 4) {
    const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    const auto* words = reinterpret_cast<const __m128i*>(message.block) + kGroup;
    w[kIndex] = _mm_shuffle_epi8(_mm_loadu_si128(words), big_endian);
  } else {
    const __m128i before = w[(kIndex + 3) % 4];
    const __m128i sum = _mm_add_epi32(_mm_sha256msg1_epu32(w[kIndex], w[(kIndex + 1) % 4]),
                                      _mm_alignr_epi8(before, w[(kIndex + 2) % 4], 4));
    w[kIndex] = _mm_sha256msg2_epu32(sum, before);
  }
}

// Four rounds. Which ones is a template argument, so that the schedule stays in registers. The
// words of the next group are made between the rounds, where the processor would wait.
template <int kGroup>
[[gnu::target("sha,sse4.1"), gnu::always_inline]] inline void AddGroup(Message& message) {
  const auto* constants = reinterpret_cast<const __m128i*>(kRoundConstants.data()) + kGroup;
  const __m128i input =
      _mm_add_epi32(message.schedule.words[kGroup % 4], _mm_load_si128(constants));
  Registers& r = message.registers;
  r.cdgh = _mm_sha256rnds2_epu32(r.cdgh, r.abef, input);
  if constexpr (kGroup + 1 < kRoundGroups) {
    Expand<kGroup + 1>(message);
  }
  r.abef = _mm_sha256rnds2_epu32(r.abef, r.cdgh, _mm_shuffle_epi32(input, 0x0E));
}

// The groups from kGroup on, of one message, or of two in turn.
template <int kGroup, bool kTwo>
[[gnu::target("sha,sse4.1"), gnu::always_inline]] inline void AddGroups(Message& first,
                                                                        Message& second) {
  AddGroup<kGroup>(first);
  if constexpr (kTwo) {
    AddGroup<kGroup>(second);
  }
  if constexpr (kGroup + 1 < kRoundGroups) {
    AddGroups<kGroup + 1, kTwo>(first, second);
  }
}

[[gnu::target("sha,sse4.1"), gnu::always_inline]] inline void EndBlock(Message& message) {
  message.registers.abef = _mm_add_epi32(message.registers.abef, message.before.abef);
  message.registers.cdgh = _mm_add_epi32(message.registers.cdgh, message.before.cdgh);
  message.before = message.registers;
  message.block += kSha256BlockBytes;
}

[[gnu::target("sha,sse4.1"), gnu::always_inline]] inline Message Begin(const Sha256Lane& lane) {
  const Registers registers = Load(*lane.state);
  return {.registers = registers, .before = registers, .schedule = {}, .block = lane.blocks};
}

[[gnu::target("sha,sse4.1")]] void AddToOne(const Sha256Lane& lane, std::size_t count) {
  Message message = Begin(lane);
  for (; count > 0; --count) {
    Expand<0>(message);
    AddGroups<0, false>(message, message);
    EndBlock(message);
  }
  Store(message.registers, *lane.state);
}

[[gnu::target("sha,sse4.1")]] void AddToTwo(const Sha256Lane& lane, const Sha256Lane& other_lane,
                                            std::size_t count) {
  Message message = Begin(lane);
  Message other = Begin(other_lane);
  for (; count > 0; --count) {
    Expand<0>(message);
    Expand<0>(other);
    AddGroups<0, true>(message, other);
    EndBlock(message);
    EndBlock(other);
  }
  Store(message.registers, *lane.state);
  Store(other.registers, *other_lane.state);
}

// CPUID's leaf 7: bit 29 of EBX.
bool AskProcessor() {
  unsigned int eax = 0;
  unsigned int ebx = 0;
  unsigned int ecx = 0;
  unsigned int edx = 0;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (ebx >> 29 & 1) != 0 &&
         __builtin_cpu_supports("sse4.1") != 0;
}

}  // namespace

bool HasSha256Instructions() {
  static const bool has = AskProcessor();
  return has;
}

void AddSha256Blocks(const Sha256Lane& lane, std::size_t count) { AddToOne(lane, count); }

void AddSha256Blocks(const Sha256Lane& first, const Sha256Lane& second, std::size_t count) {
  AddToTwo(first, second, count);
}

#else

// Other processors: OpenSSL alone.
bool HasSha256Instructions() { return false; }
void AddSha256Blocks(const Sha256Lane&, std::size_t) { CSIDELTA_CHECK(HasSha256Instructions()); }
void AddSha256Blocks(const Sha256Lane&, const Sha256Lane&, std::size_t) {
  CSIDELTA_CHECK(HasSha256Instructions());
}

#endif

}  // namespace csidelta

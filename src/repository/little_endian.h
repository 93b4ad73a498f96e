#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "repository/blob.h"
#include "repository/sealer.h"

// Numbers and ids of packs and sidecars: little-endian, whatever the machine is.
namespace csidelta::repository {

inline void AppendLe32(std::string& out, uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) {
    out.push_back(static_cast<char>(static_cast<uint8_t>(value >> shift)));
  }
}

// REQUIRES four bytes at `at`.
inline uint32_t ReadLe32(absl::string_view bytes, std::size_t at) {
  uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    value |= uint32_t{static_cast<uint8_t>(bytes[at + i])} << (8 * i);
  }
  return value;
}

inline void AppendId(std::string& out, const Id& id) { absl::StrAppend(&out, AsText(id.bytes())); }

// REQUIRES Id::kBytes bytes at `at`.
inline Id ReadId(absl::string_view bytes, std::size_t at) {
  std::array<uint8_t, Id::kBytes> id;
  std::memcpy(id.data(), bytes.data() + at, id.size());
  return Id(id);
}

}  // namespace csidelta::repository

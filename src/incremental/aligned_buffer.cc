#include "incremental/aligned_buffer.h"

#include <cstring>

namespace csidelta::incremental {

bool IsZero(absl::string_view bytes) {
  // Each byte equals its neighbour and the first is zero.
  return bytes.empty() ||
         (bytes[0] == 0 && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

}  // namespace csidelta::incremental

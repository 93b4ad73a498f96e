#pragma once

#include "base/cipher.h"

namespace csidelta::support {

// For keys of tests, of which each opening would else take a tenth of a second.
inline constexpr ScryptParameters kCheapScrypt = {.n = 2, .r = 8, .p = 1};

}  // namespace csidelta::support

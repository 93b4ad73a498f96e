#pragma once

#include <google/protobuf/message.h>

#include <algorithm>
#include <cstdint>
#include <string>

namespace csidelta::csi_driver {

inline constexpr int64_t kMessageExtentsMax = int64_t{1} << 16;
inline constexpr size_t kHugeMessageBytes = size_t{5} << 20;  // gRPC takes 4 MiB by default.

// How many extents go into a message when the caller wants `asked` at most; 0: it does not say.
inline int64_t ExtentsPerMessage(int64_t asked, int64_t page_extents) {
  return asked == 0 ? page_extents : std::min(asked, kMessageExtentsMax);
}

// Makes a message larger than kHugeMessageBytes by a member that the protocol does not have.
inline void MakeHuge(google::protobuf::Message& message) {
  constexpr int kUnknownField = 1000;
  message.GetReflection()->MutableUnknownFields(&message)->AddLengthDelimited(
      kUnknownField, std::string(kHugeMessageBytes, 'x'));
}

}  // namespace csidelta::csi_driver

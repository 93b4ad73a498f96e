#pragma once

namespace csidelta {

// A member of a struct by the name that it has in JSON: one table of these serves the writer and
// the reader.
template <typename Struct, typename Value>
struct JsonField {
  const char* name;
  Value Struct::*member;
};

}  // namespace csidelta

#pragma once

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace csidelta::support {

// Which objects of a list a request asks for: from `from` to before `end`.
struct ListPage {
  int from = 0;
  int end = 0;
};

// Of `count` objects, by the parameters `continue`, which is the number of the first, and `limit`
// of a request's target.
inline ListPage PageIn(absl::string_view target, int count) {
  int from = 0;
  int limit = count;
  for (const absl::string_view part : absl::StrSplit(target, absl::ByAnyChar("?&"))) {
    const std::pair<absl::string_view, absl::string_view> pair =
        absl::StrSplit(part, absl::MaxSplits('=', 1));
    if (pair.first == "continue") {
      (void)absl::SimpleAtoi(pair.second, &from);
    } else if (pair.first == "limit") {
      (void)absl::SimpleAtoi(pair.second, &limit);
    }
  }
  return {.from = from, .end = std::min(count, from + limit)};
}

}  // namespace csidelta::support

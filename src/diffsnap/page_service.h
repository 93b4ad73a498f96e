#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/call_context.h"
#include "diffsnap/cursor.h"
#include "diffsnap/driver.h"
#include "diffsnap/pair_table.h"
#include "incremental/sources/differential_wire.h"

namespace csidelta::diffsnap {

// What a GET asks for: /{namespace}/{name}?startOffset=..&maxEntries=..
struct PageQuery {
  std::string namespace_name;
  std::string name;
  std::string start_offset;  // "": from the beginning, or where the object says
  int64_t entries_max = 0;   // from 1 to kPageEntriesMax

  friend bool operator==(const PageQuery&, const PageQuery&) = default;
};

// The query in a request's target. nextOffset is another name of startOffset. More entries than the
// limit are taken for the limit. NOT_FOUND when the path cannot be that of an object;
// INVALID_ARGUMENT, naming it, when a parameter is unknown, malformed, or said twice.
absl::StatusOr<PageQuery> ParsePageQuery(absl::string_view target);

using PageResult = std::variant<incremental::DifferentialPage, incremental::DifferentialError>;

// Which page comes next: finds the pair, reads the cursor, asks the driver, checks what it says and
// writes the next cursor. Keeps nothing between two pages: what the next one is checked against is
// in the cursor, so that any replica goes on after any other, and after a restart. Who asks must
// have been let in before. Thread-safe.
//
// A page goes out only if its blocks ascend, do not overlap, and follow those of the page before,
// if the volume's size is what it was, and if there is progress; else the driver broke its contract
// and the answer says so.
//
// If the driver does not compare with the base any more, the answer is an error, or, for an object
// that asks for it, one block: all that follows the pages before.
class PageService {
 public:
  // Borrows the table, the driver and, if there are any, what reads the secrets for it.
  PageService(const PairTable& pairs, DifferentialDriver& driver, CursorCodec codec,
              ClassSecrets* secrets = nullptr);

  PageResult GetPage(const CallContext& ctx, const PageQuery& query);

 private:
  // One call of the driver; a second one for a base that it does not compare with any more. Takes
  // the base out of `request` then.
  absl::StatusOr<DriverPage> AskDriver(const CallContext& ctx, const ResolvedPair& pair,
                                       DriverRequest& request);

  const PairTable& pairs_;
  DifferentialDriver& driver_;
  const CursorCodec codec_;
  ClassSecrets* const secrets_;
};

}  // namespace csidelta::diffsnap

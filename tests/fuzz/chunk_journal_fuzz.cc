// A file of the journal from anybody: what is taken lies in the volume and can be written again.

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "base/check.h"
#include "incremental/chunk_journal.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t bytes) {
  using csidelta::incremental::JournalEntry;
  static const auto layout =
      csidelta::repository::VolumeLayout::Make(int64_t{100} << 20, int64_t{512} << 10).value();
  const auto entries =
      csidelta::incremental::DecodeJournal(layout, {reinterpret_cast<const char*>(data), bytes});
  if (!entries.ok()) {
    CSIDELTA_CHECK(entries.status().code() == absl::StatusCode::kInvalidArgument);
    return 0;
  }
  for (const JournalEntry& entry : *entries) {
    CSIDELTA_CHECK(entry.chunk < layout.chunk_count());
  }
  const auto again = csidelta::incremental::DecodeJournal(
      layout, csidelta::incremental::EncodeJournal(layout, *entries));
  CSIDELTA_CHECK(again.ok() && *again == *entries);
  return 0;
}

// A file of the journal from anybody: what is taken lies in the volume and can be written again.

#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "incremental/mover/chunk_journal.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t bytes) {
  using csidelta::incremental::JournalEntry;
  static const auto layout =
      csidelta::repository::VolumeLayout::Make(int64_t{100} << 20, int64_t{512} << 10).value();
  const auto file =
      csidelta::incremental::DecodeJournal(layout, {reinterpret_cast<const char*>(data), bytes});
  if (!file.ok()) {
    CSIDELTA_CHECK(file.status().code() == absl::StatusCode::kInvalidArgument);
    return 0;
  }
  for (const JournalEntry& entry : file->entries) {
    CSIDELTA_CHECK(entry.chunk < layout.chunk_count());
  }
  const auto again = csidelta::incremental::DecodeJournal(
      layout, csidelta::incremental::EncodeJournal(layout, *file));
  CSIDELTA_CHECK(again.ok() && *again == *file);
  return 0;
}

// The small JSON files of a repository from anybody: snapshot, key, config, lock, volume.json; and
// the reader of the large ones.
// What is taken can be written, and is then taken again.

#include <cstddef>
#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "base/check.h"
#include "base/json.h"
#include "base/json_reader.h"
#include "repository/config.h"
#include "repository/key.h"
#include "repository/lock.h"
#include "repository/repo_snapshot.h"
#include "repository/volume_layout.h"

namespace csidelta::repository::repository_json_fuzz {
namespace {

// The reader without a document takes whatever the one with a document takes, up to its depth.
void CheckReader(absl::string_view text) {
  JsonReader reader(text);
  reader.Skip();
  const absl::Status status = reader.Finish();
  CSIDELTA_CHECK(status.ok() || !ParseJson(text).ok() ||
                 absl::StrContains(status.message(), "nested too deep"));
}

void Check(absl::string_view text) {
  CheckReader(text);
  if (const auto snapshot = DecodeSnapshot(text); snapshot.ok()) {
    CSIDELTA_CHECK(DecodeSnapshot(EncodeSnapshot(*snapshot)).ok());
  }
  if (const auto key = DecodeKeyFile(text); key.ok()) {
    CSIDELTA_CHECK(DecodeKeyFile(EncodeKeyFile(*key)).ok());
  }
  if (const auto config = DecodeConfig(text); config.ok()) {
    CSIDELTA_CHECK(DecodeConfig(EncodeConfig(*config)).ok());
  }
  if (const auto lock = DecodeLock(text); lock.ok()) {
    CSIDELTA_CHECK(DecodeLock(EncodeLock(*lock)).ok());
  }
  if (const auto manifest = DecodeManifest(text); manifest.ok()) {
    CSIDELTA_CHECK(DecodeManifest(EncodeManifest(*manifest)).ok());
  }
  if (const auto owner = DecodeLockHostname(text); owner.has_value()) {
    IsProvenDead(*owner, {.self = {}, .start_ticks_of = [](int64_t) { return 0; }});
  }
}

}  // namespace
}  // namespace csidelta::repository::repository_json_fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t bytes) {
  csidelta::repository::repository_json_fuzz::Check({reinterpret_cast<const char*>(data), bytes});
  return 0;
}

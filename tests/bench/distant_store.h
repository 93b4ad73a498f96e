#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "storage/object_store.h"

namespace csidelta::bench {

// How far away a bucket is.
struct Distance {
  absl::Duration latency;           // of each request
  int64_t upload_bytes_per_second;  // of each connection; 0 for no limit
};

// What was asked of it, counted where no clock matters.
struct DistantCounts {
  int64_t packs = 0;
  int64_t pack_bytes = 0;
  int64_t pack_bytes_max = 0;       // of the largest
  int packs_in_flight_max = 0;      // puts of packs at the same time
  int64_t bytes_in_flight_max = 0;  // that these carried
  int64_t requests = 0;
};

// A bucket that is far away: each request takes the latency, and a put besides what its bytes take
// on a connection of its own. Of packs it keeps the length alone, of all else the bytes, so that
// its memory is not the program's. Thread-safe.
class DistantStore : public storage::ObjectStore {
 public:
  explicit DistantStore(const Distance& distance) : distance_(distance) {}

  absl::Status Put(const CallContext& ctx, const std::string& key, absl::string_view bytes,
                   const storage::PutOptions& options) override;
  absl::StatusOr<std::string> Get(const CallContext& ctx, const std::string& key,
                                  int64_t size_bytes_max) override;
  absl::StatusOr<std::string> GetRange(const CallContext& ctx, const std::string& key,
                                       storage::ByteRange range) override;
  absl::StatusOr<storage::ObjectInfo> Stat(const CallContext& ctx, const std::string& key) override;
  absl::Status List(const CallContext& ctx, const std::string& prefix,
                    storage::ObjectSink sink) override;
  absl::Status ListFolder(const CallContext& ctx, const std::string& prefix,
                          storage::ObjectSink sink) override;
  absl::Status Delete(const CallContext& ctx, const std::string& key) override;
  std::string Describe() const override { return "distant"; }

  DistantCounts counts() const;

 private:
  struct Object {
    int64_t size_bytes = 0;
    std::string bytes;  // not of a pack
  };

  // Lets the time of a request pass.
  absl::Status Travel(const CallContext& ctx, int64_t sent_bytes);

  const Distance distance_;
  mutable std::mutex mutex_;
  std::map<std::string, Object> objects_;  // under mutex_, as what follows
  DistantCounts counts_;
  int packs_in_flight_ = 0;
  int64_t bytes_in_flight_ = 0;
};

}  // namespace csidelta::bench

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/secret.h"
#include "conformance/listing.h"

namespace csidelta::conformance {

// What a driver says of itself.
struct DriverInfo {
  std::string name;
  std::string version;
  bool controller = false;
  bool metadata = false;      // SNAPSHOT_METADATA_SERVICE
  bool differential = false;  // DIFFERENTIAL_SNAPSHOT_SERVICE
  bool expands = false;       // the controller
  bool expands_node = false;
  bool stages = false;
  bool snapshot_topology = false;  // SNAPSHOT_ACCESSIBILITY_CONSTRAINTS
};

struct VolumeInfo {
  std::string id;
  std::map<std::string, std::string> context;
};

struct VolumeRequest {
  std::string name;
  int64_t size_bytes = 0;
  std::string snapshot_id = {};  // what it is made of; "": nothing
};

struct SnapshotInfo {
  std::string id;
  bool ready = false;
  int64_t size_bytes = 0;     // that a volume of it needs; 0: not said
  bool has_topology = false;  // it says from where a volume can be made of it
};

// Where a node puts a volume.
struct Mount {
  VolumeInfo volume;
  std::string staging_path;
  std::string target_path;
};

// What is compared.
struct Pair {
  std::string base = {};  // with delta
  std::string target = {};
  bool delta = false;
};

struct PageQuery {
  std::string base = {};
  std::string target = {};
  std::string mode = {};
  std::string volume_id = {};
  std::string start_offset = {};
  uint64_t entries_max = 0;
};

struct Page {
  Message message;
  std::string next_offset;
  uint64_t timeout_s = 0;
};

struct LinkOptions {
  std::string address;                                          // unix:///path
  std::map<std::string, std::string> parameters = {};           // of CreateVolume
  std::map<std::string, std::string> snapshot_parameters = {};  // of CreateSnapshot
  std::map<std::string, Secret> secrets = {};                   // of every call that takes some
  absl::Duration call_time_max;
};

// A driver behind its socket, one method per call of its services. Errors are the driver's, with
// the name of the call before them; a call that takes longer than it may is DEADLINE_EXCEEDED, one
// whose ctx is stopped CANCELLED. Thread-safe.
class DriverLink {
 public:
  virtual ~DriverLink() = default;

  // Connects with the first call.
  static std::unique_ptr<DriverLink> Make(const LinkOptions& options);

  // Waits until the driver is there.
  virtual absl::StatusOr<DriverInfo> Probe(const CallContext& ctx) = 0;

  virtual absl::StatusOr<VolumeInfo> CreateVolume(const CallContext& ctx,
                                                  const VolumeRequest& wish) = 0;
  virtual absl::Status DeleteVolume(const CallContext& ctx, const std::string& id) = 0;
  // Whether the node must be told, too.
  virtual absl::StatusOr<bool> ExpandVolume(const CallContext& ctx, const std::string& id,
                                            int64_t size_bytes) = 0;
  virtual absl::Status ExpandOnNode(const CallContext& ctx, const Mount& mount,
                                    int64_t size_bytes) = 0;
  virtual absl::StatusOr<SnapshotInfo> CreateSnapshot(const CallContext& ctx,
                                                      const std::string& name,
                                                      const std::string& volume_id) = 0;
  virtual absl::Status DeleteSnapshot(const CallContext& ctx, const std::string& id) = 0;
  virtual absl::Status Stage(const CallContext& ctx, const Mount& mount) = 0;
  virtual absl::Status Unstage(const CallContext& ctx, const Mount& mount) = 0;
  virtual absl::Status Publish(const CallContext& ctx, const Mount& mount) = 0;
  virtual absl::Status Unpublish(const CallContext& ctx, const Mount& mount) = 0;

  // As it came, and how it ended. `results_max`: in one message; 0: the driver chooses.
  virtual Listing List(const CallContext& ctx, const Pair& pair, int64_t from_bytes,
                       int64_t results_max) = 0;
  virtual absl::StatusOr<Page> GetPage(const CallContext& ctx, const PageQuery& query) = 0;
};

struct PageMark {
  std::string start_offset;  // of the page
  std::string next_offset;
  uint64_t timeout_s = 0;
};

// A driver's answers to one question, whichever service gives them.
struct Answer {
  Listing listing;
  std::vector<PageMark> pages = {};  // of a service that answers in pages, one per message
  std::string cursor_fault = {};     // why there was no going on
};

// Asks one of the two services. Thread-safe.
class Lister {
 public:
  virtual ~Lister() = default;

  // "SnapshotMetadata".
  virtual absl::string_view name() const = 0;
  // Whether a list has as many calls as pages, and the driver's own cursors between them.
  virtual bool in_pages() const = 0;
  // The whole list from `from_bytes` on. `results_max`: in one message or page; 0: the driver
  // chooses.
  virtual Answer Ask(const CallContext& ctx, const Pair& pair, int64_t from_bytes,
                     int64_t results_max) = 0;
};

std::unique_ptr<Lister> MakeMetadataLister(DriverLink& link);

// Also begins in the middle, at a driver's own cursor.
class PageLister : public Lister {
 public:
  explicit PageLister(DriverLink& link) : link_(link) {}

  absl::string_view name() const override { return "DifferentialSnapshot"; }
  bool in_pages() const override { return true; }
  Answer Ask(const CallContext& ctx, const Pair& pair, int64_t from_bytes,
             int64_t results_max) override;
  Answer AskFrom(const CallContext& ctx, const Pair& pair, const std::string& start_offset,
                 int64_t results_max);

 private:
  DriverLink& link_;
};

}  // namespace csidelta::conformance

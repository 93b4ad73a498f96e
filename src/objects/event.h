#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/json.h"
#include "objects/volume_snapshot.h"

namespace csidelta::objects {

// An Event of core/v1: what a controller or a driver reported about an object. A thin view, as
// those of volume_snapshot.h.
class Event : public ObjectView {
 public:
  static absl::StatusOr<Event> Of(Json json);

  std::string involved_uid() const;
  std::string type() const;  // Normal or Warning
  std::string reason() const;
  std::string message() const;
  std::string reporter() const;  // the component, such as csi-snapshotter
  int64_t count() const;         // how often it was seen: at least 1
  // The last time; by whichever of its fields the reporter filled in.
  std::optional<absl::Time> last_seen_at() const;

 private:
  using ObjectView::ObjectView;
};

}  // namespace csidelta::objects

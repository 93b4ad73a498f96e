#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/json.h"

// Longhorn's two admission webhooks for snapshots.longhorn.io, and the one rule of volumes that
// concerns these, as pure functions: an AdmissionReview in, one out (admission.k8s.io/v1). From
// longhorn-manager: webhook/resources/snapshot/{mutator,validator}.go,
// webhook/resources/volume/validator.go and webhook/error/error.go; the texts of
// refusals have its shape. Patches say "add" where Longhorn's say "replace" of absent paths, which
// the API server takes for the same.
namespace csidelta::longhorn_stand_in {

enum class Webhook { kMutator, kValidator };

inline const char* NameOf(Webhook webhook) {
  return webhook == Webhook::kMutator ? "mutator.longhorn.io" : "validator.longhorn.io";
}

// The Volumes of Longhorn's own namespace, whatever namespace the object is in.
class VolumeLookup {
 public:
  virtual ~VolumeLookup() = default;
  virtual std::optional<Json> FindVolume(const std::string& name) const = 0;
  // The name of a Volume with this label; "" when none exists.
  virtual std::string VolumeWithLabel(const std::string& key, const std::string& value) const = 0;
  // How many snapshots the object of its engine shows, without removed ones and the volume head:
  // what the monitor saw last, up to 5 s ago.
  virtual int ShownSnapshots(const std::string& volume) const = 0;
};

struct AdmissionRules {
  // Of the original proposal: the whole spec and all labels are immutable.
  bool as_proposed = false;
};

// Answers a review that the API server sent to `webhook`: allowed, with a patch from the mutator,
// or refused with 422 Invalid, 403 Forbidden or 500 InternalError. Other kinds than these are
// allowed. INVALID_ARGUMENT when `review` has no request: HTTP 400.
absl::StatusOr<Json> AnswerReview(Webhook webhook, const Json& review, const VolumeLookup& volumes,
                                  const AdmissionRules& rules);

// What the API server makes of an answer: `object` with the patch applied, or the error of the
// request, with the message that its client gets. Errors as ApiClient has them: INVALID_ARGUMENT
// for 422, PERMISSION_DENIED for 403, FAILED_PRECONDITION for 500.
absl::StatusOr<Json> ApplyAnswer(Webhook webhook, const Json& answer, Json object);

// The same where the webhook cannot be reached and its failurePolicy is Fail.
absl::Status UnreachableError(Webhook webhook);

}  // namespace csidelta::longhorn_stand_in

#pragma once

#include "absl/strings/string_view.h"

// What an API server's refusal says of admission. Both kinds of a webhook may come as HTTP 500, and
// only the text tells them apart (k8s.io/apiserver: ToStatusErr() in
// pkg/admission/plugin/webhook/errors/statuserror.go, the dispatchers beside it). `message` may
// have words before it, as a Status of ApiClient has. Pure.
namespace csidelta::k8s {

// `admission webhook "NAME" denied the request: ...`: the webhook was asked, and this is its
// answer, whatever HTTP status it chose. The same request is denied again.
bool IsDeniedByWebhook(absl::string_view message);

// `failed calling webhook "NAME": ...`: it was not asked, and the request was not done. It may
// succeed once the webhook is there.
bool IsWebhookAway(absl::string_view message);

// `... because it is being terminated`: a namespace that is being deleted takes no new objects, and
// will take none (plugin/pkg/admission/namespace/lifecycle/admission.go).
bool IsNamespaceTerminating(absl::string_view message);

}  // namespace csidelta::k8s

#pragma once

#include <memory>

#include "base/random.h"
#include "k8s/api_client.h"
#include "k8s/config.h"

namespace csidelta::k8s {

// A client of a real API server, over HTTPS. Does no I/O and reads no file before the first call,
// which then reports what is wrong with the configuration; a later call tries again.
//
// What it does beside the seam's contract:
//   - Keeps connections; sends settings.qps requests per second at most. Watches and deletions go
//     on with work that is under way, and do not wait behind requests that begin more.
//   - Tries again, with jittered backoff and at least the server's Retry-After, up to 12 times and
//     while the deadline allows: whatever the server turned away unseen (429, any 5xx with
//     Retry-After, "failed calling webhook"), and after other 5xx or a lost connection everything
//     that may be done twice:
//     get, list, watch, update, merge patch, delete, and create under a name of the caller's. So
//     delete may say NOT_FOUND of an object that it deleted, and update ABORTED though it was done.
//     When a create without an answer is repeated and meets an object, that is read: it counts as
//     created when it has all that was sent, and is ALREADY_EXISTS when not.
//   - After a lost connection a create without a name (generateName) and a JSON patch return
//     UNAVAILABLE, and whether they were done is unknown.
//   - For 20 s after the server was away (no connection, 5xx) a 403 is not an answer and is tried again
//     like these: a kube-apiserver that has just started serves before it has read its roles, and
//     refuses everybody. The same holds once a server refuses GET /version, too.
//   - Reads a token file again when it is 10 s old, and once when the server says 401.
//   - Gives one request at most a minute; a watch ends after about five, as callers expect anyway.
std::unique_ptr<ApiClient> MakeClient(ClientSettings settings, Random& random = Random::Real());

}  // namespace csidelta::k8s

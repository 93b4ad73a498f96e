#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "k8s/api_client.h"
#include "net/http_client.h"
#include "net/http_server.h"
#include "tests/support/longhorn/engine.h"
#include "tests/support/longhorn/manager.h"

namespace csidelta::longhorn_stand_in {

// What tests request of the stand-in itself, over HTTP, by any method. README.md lists the
// requests. 200 with what was asked for; else 400 with a text. Thread-safe; borrows what it is
// given.
class Control {
 public:
  Control(k8s::ApiClient& api, Engines& engines, Manager& manager, std::string namespace_name);

  net::HttpResponse Handle(const CallContext& ctx, const net::HttpCall& call);

 private:
  using Segments = std::vector<std::string>;

  absl::StatusOr<std::string> Perform(const CallContext& ctx, const Segments& segments,
                                      const std::string& body);
  absl::StatusOr<std::string> PerformOnVolume(const CallContext& ctx, const Segments& segments);
  absl::StatusOr<std::string> SetTicket(const CallContext& ctx, const std::string& volume,
                                        bool is_wanted);
  absl::StatusOr<std::string> SetSwitches(const std::string& body);

  k8s::ApiClient& api_;
  Engines& engines_;
  Manager& manager_;
  const std::string namespace_;
};

}  // namespace csidelta::longhorn_stand_in

#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "diffsnap/rest_server.h"
#include "k8s/object.h"
#include "net/http_server.h"
#include "objects/differential_snapshot.h"
#include "tests/diffsnap/fake_reviews.h"
#include "tests/support/metadata_cluster.h"

namespace csidelta::diffsnap {

// A cluster in which DifferentialSnapshots are served: the real REST server over TLS in front of a
// driver that is given, and a controller that takes up every object as soon as it is made.
class DifferentialCluster : public support::MetadataCluster {
 public:
  static constexpr char kAudience[] = "changes-of-hostpath";

  explicit DifferentialCluster(DifferentialDriver& driver)
      : pages_(pairs, driver, CursorCodec(Secret(std::string(32, 'k')))) {
    for (int i = 1; i < 200; ++i) {
      reviews.bearers[absl::StrCat("token-", i)] = {.user = "mover", .audience = kAudience};
    }
    reviews.Allow("mover volumesnapshots app");
    const support::Credentials own = authority.IssueServer("IP:127.0.0.1");
    net::HttpServerOptions options;
    options.read_certificate = [own]() -> absl::StatusOr<net::ServerCertificate> {
      return net::ServerCertificate{.certificate_pem = own.certificate_pem, .key_pem = own.key_pem};
    };
    http_ =
        *net::HttpServer::Start(options, [this](const CallContext& ctx, const net::HttpCall& call) {
          if (on_page) {
            on_page(call);
          }
          return rest_.Handle(ctx, call);
        });
    pairs.SetSynced();
    api.SetStatusSubresource(kPlural, true);
    api.OnCreate(kPlural, [this](support::FakeApiClient&, const Json& object) {
      if (controls) {
        Answer(object);
      }
    });
    api.OnEvent(kPlural, [this](support::FakeApiClient&, const k8s::WatchEvent& event) {
      if (event.kind == k8s::WatchEvent::Kind::kDeleted) {
        pairs.Remove("app", k8s::Name(event.object));
      }
    });
  }

  static constexpr char kPlural[] = "differentialsnapshots";

  // What a controller does that knows the answer at once.
  void Answer(const Json& object) {
    const std::string name = k8s::Name(object);
    const std::string base = GetString(object, {"spec", "baseSnapshotHandle"});
    const std::string target =
        absl::StrCat("handle-", GetString(object, {"spec", "targetVolumeSnapshotName"}));
    pairs.Put("app", name,
              {.scope = {.namespace_name = "app",
                         .uid = k8s::Uid(object),
                         .base_handle = base,
                         .target_handle = target},
               .volume_handle = "volume-1",
               .parameters = {},
               .start_offset = ""});
    reviews.Allow(absl::StrCat("mover differentialsnapshots app/", name));
    Json status = {{"state", "Success"},
                   {"url", absl::StrCat("https://127.0.0.1:", http_->port(), "/app/", name)},
                   {"caBundle", absl::Base64Escape(authority.ca_pem())},
                   {"audience", kAudience},
                   {"resolved",
                    {{"driver", support::kDriver},
                     {"baseHandle", base},
                     {"targetHandle", target},
                     {"volumeHandle", "volume-1"}}}};
    if (spoil) {
      spoil(status);
    }
    SetStatus(name, status);
  }

  void SetStatus(const std::string& name, const Json& status) {
    api.Mutate(Key(name), [&](Json& object) { object["status"] = status; });
  }

  static k8s::ObjectKey Key(const std::string& name) {
    return {.type = objects::DifferentialSnapshot::Type(), .namespace_name = "app", .name = name};
  }

  support::TestAuthority authority;
  FakeReviews reviews;
  PairTable pairs;
  bool controls = true;
  std::function<void(Json& status)> spoil;                 // what the controller says
  std::function<void(const net::HttpCall& call)> on_page;  // runs first, before each answer

 private:
  AccessReviewer access_{
      reviews, kAudience, {.reviews_per_second = 0, .unknown_tokens_per_second = 0}};
  PageService pages_;
  RestServer rest_{pairs, access_, pages_};
  std::unique_ptr<net::HttpServer> http_;  // Last: it ends first.
};

}  // namespace csidelta::diffsnap

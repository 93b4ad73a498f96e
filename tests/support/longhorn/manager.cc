#include "tests/support/longhorn/manager.h"

#include <algorithm>
#include <utility>

#include "base/call_context.h"
#include "base/clock.h"
#include "base/status_macros.h"
#include "k8s/informer.h"
#include "tests/support/longhorn/kinds.h"
#include "tests/support/longhorn/webhook_server.h"

namespace csidelta::longhorn_stand_in {
namespace {

// How often it is looked whether events made something due.
constexpr absl::Duration kLookInterval = absl::Milliseconds(50);

}  // namespace

Manager::Manager(k8s::ApiClient& api, Engines& engines, ControllerOptions options,
                 net::ServerCertificate certificate, uint16_t port)
    : api_(api),
      engines_(engines),
      options_(std::move(options)),
      certificate_(std::move(certificate)),
      port_(port) {}

Manager::~Manager() { Stop(); }

absl::Status Manager::Start() {
  std::scoped_lock lock(mutex_);
  if (controller_ != nullptr) {
    return absl::OkStatus();
  }
  auto controller = std::make_unique<Controller>(api_, engines_, Clock::Real(), options_);
  ASSIGN_OR_RETURN(server_, StartWebhookServer(port_, certificate_, *controller,
                                               {.as_proposed = options_.as_proposed}));
  port_ = server_->port();
  controller->SetSwitches(switches_);
  controller_ = std::move(controller);
  StartThreads();
  return absl::OkStatus();
}

void Manager::StartThreads() {
  const std::vector<std::pair<k8s::ResourceType, k8s::ObjectEventHandler*>> kinds = {
      {VolumeType(), &controller_->volumes()},
      {EngineType(), &controller_->engines()},
      {AttachmentType(), &controller_->attachments()},
      {SnapshotType(), &controller_->snapshots()}};
  for (const auto& [type, handler] : kinds) {
    threads_.emplace_back([this,
                           followed = k8s::WatchedObjects{.type = type,
                                                          .namespace_name = options_.namespace_name,
                                                          .label_selector = ""},
                           to = handler](const std::stop_token& stop) {
      k8s::Informer(followed, {to}).Run({.stop = stop}, api_).IgnoreError();
    });
  }
  threads_.emplace_back(
      [controller = controller_.get()](const std::stop_token& stop) { Work(*controller, stop); });
}

void Manager::Work(Controller& controller, const std::stop_token& stop) {
  const Clock& clock = Clock::Real();
  while (!stop.stop_requested()) {
    const absl::Time next = controller.Work({.stop = stop});
    clock.SleepUntil(std::min(next, clock.Now() + kLookInterval), stop);
  }
}

void Manager::Stop() {
  std::scoped_lock lock(mutex_);
  server_.reset();
  for (std::jthread& thread : threads_) {
    thread.request_stop();
  }
  threads_.clear();
  controller_.reset();
}

void Manager::SetSwitches(const Switches& switches) {
  std::scoped_lock lock(mutex_);
  switches_ = switches;
  if (controller_ != nullptr) {
    controller_->SetSwitches(switches);
  }
}

uint16_t Manager::port() const {
  std::scoped_lock lock(mutex_);
  return port_;
}

int64_t Manager::queued() const {
  std::scoped_lock lock(mutex_);
  return controller_ == nullptr ? 0 : controller_->queued();
}

}  // namespace csidelta::longhorn_stand_in

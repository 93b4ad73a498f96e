#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "cli/cluster_access.h"
#include "cli/command.h"
#include "diffsnap/service.h"
#include "incremental/sources/differential_wire.h"
#include "k8s/config.h"
#include "k8s/rest_client.h"

namespace csidelta::cli {
namespace {

constexpr int64_t kPageSecondsDefault = 60;
constexpr int64_t kConnectionsDefault = 256;
constexpr int64_t kKeepSecondsDefault = 24 * 3600;

class DiffsnapCommand : public Command {
 public:
  VerbSyntax Describe(ArgumentTable& table) override {
    DeclareService(table);
    DeclareLimits(table);
    return {.name = "diffsnap",
            .summary = "Serve the DifferentialSnapshots of one CSI driver",
            .details =
                "Runs alongside a CSI driver until it is stopped. The controller looks up the "
                "VolumeSnapshots that a DifferentialSnapshot names, and writes the address of the "
                "list of changed blocks to its status. The server asks the driver and answers in "
                "pages. With several replicas one leads and all serve. Logs to stderr, one JSON "
                "object per line.",
            .examples = {
                "diffsnap --csi-address unix:///csi.sock --role controller",
                "diffsnap --csi-address unix:///csi.sock --tls-cert-file crt --tls-key-file key"}};
  }

  absl::StatusOr<ExitCode> Run(const CallContext& ctx, Session&) override {
    SetLogLevel(LogLevel::kInfo);
    if (csi_address_.empty()) {
      return absl::InvalidArgumentError("give --csi-address: the socket of the driver");
    }
    if (settings_.lease_namespace.empty()) {
      settings_.lease_namespace = OwnNamespace();
    }
    diffsnap::CsiDriverOptions driver_options;
    driver_options.page_time_max = absl::Seconds(settings_.page_seconds_max) * 3 / 4;
    absl::StatusOr<diffsnap::CsiDriver> driver =
        diffsnap::MakeDifferentialDriver(ctx, csi_address_, driver_options);
    RETURN_IF_ERROR(driver.status());
    const std::unique_ptr<k8s::ApiClient> api = k8s::MakeClient(access_.Settings());
    RETURN_IF_ERROR(diffsnap::RunService(ctx, *api, *driver, settings_));
    return ExitCode::kOk;
  }

 private:
  void DeclareService(ArgumentTable& table) {
    table.Add("--csi-address", "unix:///PATH", "the socket of the CSI driver", csi_address_);
    table.AddChoice("--role", {"both", "controller", "server"}, "what this process does",
                    settings_.role);
    table.Add("--listen", "ADDR:PORT", "where to serve", settings_.listen);
    table.Add("--url", "https://HOST:PORT",
              "what status.url begins with: the Service in front of the servers", settings_.url);
    table.Add("--tls-cert-file", "FILE",
              "the server's certificate, then its issuers; reloaded when it is renewed",
              settings_.tls_cert_file);
    table.Add("--tls-key-file", "FILE", "its key", settings_.tls_key_file);
    table.Add("--ca-file", "FILE",
              "the certificate authorities for status.caBundle, which clients then trust for this "
              "server (default: those that clients trust already)",
              settings_.ca_file);
    table.Add(
        "--audience", "TEXT",
        "the audience of the tokens that readers show (default: diffsnap.csi-delta.io/DRIVER)",
        settings_.audience);
    table.Add("--cursor-key-file", "FILE",
              "the key that cursors are made with, 32 bytes or more, the same for all servers",
              settings_.cursor_key_file);
    table.Add("--leader-election-namespace", "NS",
              "the namespace of the controllers' Lease (default: the Pod's)",
              settings_.lease_namespace);
    access_.Declare(table);
  }

  void DeclareLimits(ArgumentTable& table) {
    settings_.page_entries_max = incremental::kPageEntriesMax;
    settings_.page_seconds_max = kPageSecondsDefault;
    settings_.connections_max = kConnectionsDefault;
    settings_.keep_seconds = kKeepSecondsDefault;
    table.AddNumber("--page-entries", "N", "blocks in a page, at most", 1,
                    incremental::kPageEntriesMax, settings_.page_entries_max);
    table.AddNumber("--page-seconds", "N", "what answering a page may take", 1, 600,
                    settings_.page_seconds_max);
    table.AddNumber("--connections", "N", "clients at once", 1, 10000, settings_.connections_max);
    table.AddNumber("--keep-seconds", "N",
                    "how long a DifferentialSnapshot is kept once it was made", 1,
                    int64_t{366} * kKeepSecondsDefault, settings_.keep_seconds);
  }

  static std::string OwnNamespace() {
    const auto text =
        k8s::ReadFile(absl::StrCat(k8s::ClientSettings().service_account_dir, "/namespace"));
    return text.ok() ? std::string(absl::StripAsciiWhitespace(*text)) : "";
  }

  std::string csi_address_;
  ClusterAccess access_;
  diffsnap::ServiceSettings settings_;
};

}  // namespace

void AddDiffsnapCommand(Commands& all) { AddEach<DiffsnapCommand>(all); }

}  // namespace csidelta::cli

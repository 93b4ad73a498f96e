#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/keep_rules.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "base/unique_fd.h"
#include "base/worker_pool.h"
#include "cli/command.h"
#include "cli/location_store.h"
#include "cli/progress.h"
#include "cli/repository/group_listing.h"
#include "cli/text.h"
#include "datamover/repository_access.h"
#include "report/collect.h"
#include "report/page.h"
#include "report/summary.h"
#include "repository/find_repositories.h"
#include "repository/keyring.h"
#include "storage/folder_object_store.h"

namespace csidelta::cli {
namespace {

constexpr std::size_t kReadAtOnce = 4;  // repositories; each opens with 32 MiB of scrypt

class ReportCommand : public RepositoryCommand {
 public:
  VerbSyntax Describe(ArgumentTable& table) override;
  absl::StatusOr<ExitCode> Run(const CallContext& ctx, Session& session) override;

 private:
  absl::Status ReadFile();
  absl::Status ReadRepositories(const CallContext& ctx, Session& session);
  absl::Status ReadCluster(const CallContext& ctx, Session& session);
  // Adds to `volume` what its repository has, and its records lack.
  absl::Status ReadRest(const CallContext& ctx, Session& session, k8s::ApiClient& api,
                        const report::RecordedRepository& repository, report::VolumeEntry& volume);
  absl::Status ReadOne(const CallContext& ctx, Session& session, storage::ObjectStore& store,
                       const RepositoryKeys& keys, std::vector<report::VolumeEntry>& volumes);
  absl::Status WriteHtml(Session& session) const;
  // In any order, from any thread. The exit code is kIncomplete then.
  void Note(const std::string& text) {
    const MutexLock lock(mutex_);
    report_.notes.push_back(text);
  }

  std::string html_, from_json_, since_ = "90d", namespace_;
  bool is_of_cluster_ = false;
  bool only_records_ = false;
  report::Report report_;
  Mutex mutex_;  // of report_, while several repositories are read
};

VerbSyntax ReportCommand::Describe(ArgumentTable& table) {
  table.Add("--html", "FILE", "write the page into this file, which is replaced", html_);
  table.Add("--from-json", "FILE", "read what report --json printed, instead of any backup",
            from_json_);
  table.Add("--cluster",
            "report on the cluster: DataUploads, ProtectedVolumes, Backups and Schedules, and the "
            "repositories where these records do not reach back",
            is_of_cluster_);
  table.Add("--only-records", "with --cluster: read no repository", only_records_);
  table.Add("--since", "AGE", "the length of time to report on: \"30d\", \"1y2m\", at most 3 years",
            since_);
  table.Add("-n,--namespace", "NS", "only PVCs of this namespace", namespace_);
  return {
      .name = "report",
      .summary = "Report on the backups of all volumes, as a page or as JSON",
      .details =
          "What is wrong comes first: volumes without a good backup, failures by cause with "
          "the next step, then a calendar of all volumes, and what each backup read, changed "
          "and stored. The page loads nothing and has no scripts.\n\n--repo is one repository, "
          "or a folder with repositories up to three folders further down. No lock is taken. "
          "With --cluster the records are read with your rights, and --velero-namespace may "
          "name several. A backup is missing if a Schedule ran on that day; without Schedules, "
          "if the usual time since the last one is over. What cannot be read is noted on the "
          "page, and the exit code is 3.\n\nWith --json: one object with all data, which "
          "--from-json reads.",
      .examples = {"report --cluster --html report.html", "report --since 30d --json > report.json",
                   "report --from-json report.json --html report.html"}};
}

absl::StatusOr<ExitCode> ReportCommand::Run(const CallContext& ctx, Session& session) {
  if (!from_json_.empty() && (is_of_cluster_ || !namespace_.empty())) {
    return absl::InvalidArgumentError("--from-json has all data: leave out --cluster and -n");
  }
  ASSIGN_OR_RETURN(const CalendarSpan span, Annotate(ParseCalendarSpan(since_), "--since"));
  report_.made_at = ctx.clock->Now();
  report_.since = GoBack(report_.made_at, span, absl::UTCTimeZone());
  RETURN_IF_ERROR(report::Normalize(report_));
  std::optional<ProgressMeter> meter;
  if (!session.options().json) {  // The result is one value.
    meter.emplace(session.console(), *ctx.clock,
                  is_of_cluster_ ? "reading the cluster" : session.Opening());
  }
  RETURN_IF_ERROR(!from_json_.empty() ? ReadFile()
                  : is_of_cluster_    ? ReadCluster(ctx, session)
                                      : ReadRepositories(ctx, session));
  meter.reset();
  RETURN_IF_ERROR(report::Normalize(report_));
  if (!html_.empty()) {
    RETURN_IF_ERROR(WriteHtml(session));
  }
  Console& console = session.console();
  for (const std::string& note : report_.notes) {
    console.Warn(note);
  }
  if (session.options().json) {
    report::WriteJson(report_, [&](absl::string_view text) { console.Print(text); });
  } else {
    const report::Summary summary = report::Summarize(report_);
    std::string text = absl::StrCat(summary.headline, "\n");
    for (const report::Problem& problem : summary.problems) {
      absl::StrAppend(&text, "  ", problem.title, " (",
                      Counted(std::ssize(problem.volumes), "volume"),
                      ")\n    next: ", problem.next_step, "\n");
    }
    console.Print(text);
  }
  return report_.notes.empty() ? ExitCode::kOk : ExitCode::kIncomplete;
}

absl::Status ReportCommand::ReadFile() {
  const UniqueFd file(::open(from_json_.c_str(), O_RDONLY | O_CLOEXEC));
  std::string buffer(std::size_t{64} << 10, '\0');
  const auto more = [&]() -> absl::StatusOr<absl::string_view> {
    const ssize_t bytes = file.valid() ? ::read(file.get(), buffer.data(), buffer.size()) : -1;
    return bytes < 0 ? absl::StatusOr<absl::string_view>(absl::NotFoundError(std::strerror(errno)))
                     : absl::string_view(buffer.data(), static_cast<std::size_t>(bytes));
  };
  absl::StatusOr<report::Report> read = report::ReadJson(more);
  RETURN_IF_ERROR(Annotate(read.status(), from_json_));
  report_ = *std::move(read);
  return absl::OkStatus();
}

absl::Status ReportCommand::ReadOne(const CallContext& ctx, Session& session,
                                    storage::ObjectStore& store, const RepositoryKeys& keys,
                                    std::vector<report::VolumeEntry>& volumes) {
  ASSIGN_OR_RETURN(const std::unique_ptr<repository::Repository> repository,
                   session.engine().OpenIn(ctx, store, keys));
  const std::string location = store.Describe();
  ASSIGN_OR_RETURN(volumes, report::ReadRepository(
                                ctx, *repository, location, report_.since,
                                [&](const repository::Id& id, const absl::Status& why) {
                                  Note(absl::StrCat("snapshot ", id.ShortHex(), " in ", location,
                                                    " is damaged: ", why.message()));
                                }));
  return absl::OkStatus();
}

absl::Status ReportCommand::ReadRepositories(const CallContext& ctx, Session& session) {
  ASSIGN_OR_RETURN(storage::ObjectStore* const location, session.engine().OpenLocation(ctx));
  ASSIGN_OR_RETURN(const RepositoryKeys keys, session.engine().ReadKeys(ctx));
  report_.subject = location->Describe();
  const auto unseen = [&](const std::string& folder, const absl::Status& why) {
    const std::string at = storage::FolderObjectStore(*location, folder).Describe();
    Note(absl::StrCat("not read: ", at, ": ", Explain(why, at)));
  };
  ASSIGN_OR_RETURN(const std::vector<std::string> folders,
                   repository::FindRepositories(ctx, *location, kRepositoryDepthMax, unseen));
  if (folders.empty()) {
    return repository::AsNoRepository(absl::NotFoundError(
        absl::StrCat("there is no repository in ", report_.subject, ", nor up to ",
                     kRepositoryDepthMax, " folders below it")));
  }
  const bool is_one = folders.size() == 1;
  return ParallelFor(folders.size(), kReadAtOnce, [&](std::size_t i) {
    storage::FolderObjectStore store(*location, folders[i]);
    std::vector<report::VolumeEntry> volumes;
    const absl::Status read = ReadOne(ctx, session, store, keys, volumes);
    RETURN_IF_ERROR(ctx.Check());
    if (!read.ok() && is_one) {
      return read;
    }
    if (!read.ok()) {
      unseen(folders[i], read);
    }
    const MutexLock lock(mutex_);
    for (report::VolumeEntry& volume : volumes) {
      if (namespace_.empty() || absl::StartsWith(volume.name, namespace_ + "/")) {
        report_.volumes.push_back(std::move(volume));
      }
    }
    return absl::OkStatus();
  });
}

absl::Status ReportCommand::ReadCluster(const CallContext& ctx, Session& session) {
  const ClusterRepositoryFlags& flags = session.options().in_cluster;
  const std::unique_ptr<k8s::ApiClient> api = flags.cluster.MakeClient();
  ASSIGN_OR_RETURN(report::ClusterVolumes found,
                   report::ReadCluster(ctx, *api,
                                       {.velero_namespaces = absl::StrSplit(flags.velero_namespace,
                                                                            ',', absl::SkipEmpty()),
                                        .namespace_name = namespace_,
                                        .since = report_.since}));
  report_.subject = absl::StrCat("the cluster", flags.cluster.kubecontext.empty() ? "" : " ",
                                 flags.cluster.kubecontext);
  report_.notes = std::move(found.notes);
  report_.volumes = std::move(found.volumes);
  if (only_records_) {
    return absl::OkStatus();
  }
  return ParallelFor(report_.volumes.size(), kReadAtOnce, [&](std::size_t i) {
    const report::RecordedRepository& repository = found.repositories[i];
    if (!repository.path.empty() && repository.has_more) {
      const absl::Status read = ReadRest(ctx, session, *api, repository, report_.volumes[i]);
      RETURN_IF_ERROR(ctx.Check());
      if (!read.ok()) {
        Note(absl::StrCat("backups of ", report_.volumes[i].name,
                          " before its records are not known: ", read.message()));
      }
    }
    return absl::OkStatus();
  });
}

absl::Status ReportCommand::ReadRest(const CallContext& ctx, Session& session, k8s::ApiClient& api,
                                     const report::RecordedRepository& repository,
                                     report::VolumeEntry& volume) {
  const ProgramEnvironment& environment = session.environment();
  ASSIGN_OR_RETURN(const datamover::RepositoryAccess access,
                   datamover::OpenRepositoryAccess(
                       ctx, api,
                       {.velero_namespace = repository.velero_namespace,
                        .location = repository.location,
                        .mover_namespace = session.options().in_cluster.mover_namespace,
                        .repository_path = repository.path,
                        .written_with_key = repository.key},
                       SecureRandom::Real()));
  ASSIGN_OR_RETURN(engine::RepositoryTarget target,
                   TargetOf(access, session.options(), environment.get));
  target.settings.read_only = true;
  ASSIGN_OR_RETURN(const std::unique_ptr<storage::OpenedStore> store,
                   environment.open_store(target.location, target.settings, *environment.random));
  RepositoryKeys keys;
  ASSIGN_OR_RETURN(keys.keyring, repository::ParseKeyringFile(
                                     access.secret_data.at(datamover::kKeyringFile).Reveal()));
  std::vector<report::VolumeEntry> volumes;
  RETURN_IF_ERROR(ReadOne(ctx, session, store->store(), keys, volumes));
  for (const report::VolumeEntry& one : volumes) {
    report::AddBackups(one, volume);
  }
  return absl::OkStatus();
}

absl::Status ReportCommand::WriteHtml(Session& session) const {
  constexpr mode_t kMode = S_IRUSR | S_IWUSR | S_IRGRP | S_IROTH;
  const UniqueFd file(::open(html_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kMode));
  if (!file.valid() || !FdSink(file.get())(report::RenderPage(report_))) {
    return absl::FailedPreconditionError(absl::StrCat(html_, ": ", std::strerror(errno)));
  }
  session.console().Info(absl::StrCat("wrote ", html_));
  return absl::OkStatus();
}

}  // namespace

void AddReportCommand(Commands& all) { AddEach<ReportCommand>(all); }

}  // namespace csidelta::cli

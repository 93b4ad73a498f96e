#include "datamover/controller/service.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <initializer_list>
#include <memory>
#include <thread>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/log.h"
#include "base/random.h"
#include "base/retry.h"
#include "base/status_macros.h"
#include "csi/base_index.h"
#include "csi/base_snapshots.h"
#include "csi/expose/exposed_snapshot.h"
#include "csi/kept_snapshots.h"
#include "datamover/controller/archive_reconciler.h"
#include "datamover/controller/deletion_reconciler.h"
#include "datamover/controller/download_reconciler.h"
#include "datamover/controller/leftover_reconcilers.h"
#include "datamover/controller/mover_kinds.h"
#include "datamover/controller/mover_metrics.h"
#include "datamover/controller/rate_sharing.h"
#include "datamover/controller/upload_reconciler.h"
#include "datamover/mover_environment.h"
#include "datamover/records/base_reconciler.h"
#include "datamover/records/check_reconciler.h"
#include "datamover/records/group_windows.h"
#include "datamover/records/kept_reconciler.h"
#include "datamover/records/volume_record_writer.h"
#include "datamover/records/volume_records.h"
#include "datamover/settings.h"
#include "datamover/transfer_scheduler.h"
#include "datamover/worker/deletion_queue.h"
#include "datamover/worker/task_watch.h"
#include "k8s/cached_client.h"
#include "k8s/informer.h"
#include "k8s/leader_lease.h"
#include "k8s/object_cache.h"
#include "net/http_server.h"
#include "net/listen_address.h"
#include "objects/client.h"
#include "objects/data_deletion.h"
#include "objects/data_transfer.h"
#include "objects/event_handler.h"
#include "objects/keys.h"
#include "objects/persistent_volume.h"
#include "objects/protected_volume.h"
#include "objects/storage_class.h"
#include "objects/volume_snapshot.h"
#include "objects/volume_task.h"
#include "objects/workload.h"
#include "velero/data_reference.h"

namespace csidelta::datamover {
namespace {

constexpr int kConnectionsMax = 32;
// Of kinds whose objects look at their siblings: at DataDeletions that run, at members of a group.
constexpr int kOneAfterTheOther = 1;
// How often what is needed at the start is asked for again.
constexpr absl::Duration kStartAgainAfter = absl::Seconds(2);
// Of what is only worth its time at the start when it is had soon.
constexpr absl::Duration kListedAtStartWithin = absl::Seconds(10);

// The service, wired: what a kind needs stands at its member, what delivers it in the constructor.
// Each informer has a thread, each queue several that work.
class Service {
 public:
  // `api` without the cache, which that of `env` writes into.
  Service(k8s::ApiClient& api, k8s::ObjectCache& cache, csi::BaseIndex& bases, MoverEnvironment env,
          const ServiceSettings& settings);
  absl::Status Run(const CallContext& ctx, const std::string& listen_text);

 private:
  // Of one kind, and of one namespace of Velero if its objects have one. `name`: for metrics.
  struct Queue {
    template <typename... Arguments>
    explicit Queue(std::string queue_name, Arguments&&... arguments)
        : name(std::move(queue_name)), loop(std::forward<Arguments>(arguments)...) {}

    const std::string name;
    k8s::ReconcileLoop loop;
  };

  // The loop of a new queue, for the informer of the objects.
  k8s::ReconcileLoop& Loop(const char* queue, const k8s::ResourceType& type,
                           k8s::Reconciler& reconciler, int concurrent = kOneAfterTheOther,
                           const k8s::ObjectCache* own_writes = nullptr) {
    return queues_
        .emplace_back(queue, type, reconciler, Leads(), Clock::Real(), concurrent, own_writes)
        .loop;
  }
  k8s::Informer& Uncached(const k8s::WatchedObjects& objects);
  k8s::Informer& Cached(const k8s::WatchedObjects& objects, k8s::ObjectCache::Filter filter = {});
  std::function<bool()> Leads() const;
  // In whichever of these queues it is.
  void Enqueue(absl::string_view queue, const std::string& namespace_name, const std::string& name);

  void WatchNamespace(const std::string& velero_namespace);
  // Objects of Velero that wait for admission. Returns the informer, for further handlers.
  k8s::Informer& WatchTransfers(const char* queue, const k8s::ResourceType& type,
                                const std::string& velero_namespace, k8s::Reconciler& reconciler,
                                TransferReader read);
  // `loop` gets the objects, which are in the table of tasks while `subjects` takes them.
  void AddSubjects(k8s::Informer& informer, TaskSubjects subjects, k8s::ReconcileLoop& loop);
  void WatchDeletions(const std::string& velero_namespace);
  void WatchRecords(const std::string& velero_namespace);

  bool MayCheck() const;  // whether nothing is more urgent than checks
  MoverState State() const;
  bool AreSynced(std::initializer_list<absl::string_view> queues) const;
  bool TransfersAreKnown() const { return AreSynced({"uploads", "downloads"}); }
  // Whether all objects that tasks are done for are known.
  bool IsSynced() const { return AreSynced({"uploads", "downloads", "deletions", "checks"}); }
  std::vector<k8s::LoopAge> LoopAges() const;
  net::HttpResponse Answer(const net::HttpCall& call) const;

  k8s::ApiClient& api_;
  k8s::ObjectCache& cache_;
  const MoverEnvironment env_;
  const int concurrent_;  // reconciles of one kind
  const absl::Duration loop_age_max_;
  std::atomic<const k8s::LeaderLease*> lease_ = nullptr;  // of Run()
  MoverMetrics metrics_;

  // --- What is known of objects

  VolumeRecords records_{[this](const VolumeRecordKey& key) { record_writer_.Enqueue(key); }};
  DeletedSnapshots deleted_snapshots_;
  VolumeRecordWriter record_writer_{
      env_,
      records_,
      {.leads = Leads(),
       .is_synced = [this] { return TransfersAreKnown() && records_.is_synced(); },
       .is_deleted = [this](absl::string_view id) { return deleted_snapshots_.Has(id); }}};
  TransferScheduler scheduler_{LimitsOf(env_.settings), Clock::Real(),
                               [this] { return Leads()() && TransfersAreKnown(); },
                               [this](const std::string& task) { enqueue_table_.Enqueue(task); }};
  EnqueueTable enqueue_table_{[this](const std::string& task) {
    Enqueue("tasks", env_.mover_namespace, task);
    Enqueue("contents", "", task);
  }};
  DeletionQueue deletion_queue_{env_.settings.deletions.workers_max, Clock::Real(),
                                [this](const DeletionQueue::Name& name) {
                                  Enqueue("deletions", name.namespace_name, name.name);
                                }};
  CheckQueue check_queue_{[this](const std::string& task) { enqueue_table_.Enqueue(task); }};
  GroupWindows group_windows_{env_.velero_namespaces, Clock::Real().Now(), Leads()};

  // --- Reconcilers, and the queues that they work on

  UploadReconciler uploads_{
      env_, scheduler_, [this](const TransferEnd& end) { metrics_.CountUpload(end); }, &records_};
  DownloadReconciler downloads_{env_, scheduler_,
                                [this](const TransferEnd& end) { metrics_.CountDownload(end); }};
  DeletionReconciler deletions_{env_, deletion_queue_, &records_};
  CheckReconciler checks_{env_, check_queue_, [this] { return MayCheck(); }};
  ArchiveReconciler archives_{env_};
  TaskReconciler tasks_{env_, enqueue_table_, [this] { return IsSynced(); }};
  ClaimReconciler claims_{env_};
  ContentReconciler contents_{env_, enqueue_table_, [this] { return IsSynced(); }};
  BaseReconciler bases_{env_, deleted_snapshots_, records_};
  RoomReconciler room_{env_};
  GroupReconciler groups_{env_};
  KeptReconciler kept_{env_};
  RateSharing rate_sharing_{env_, Leads()};
  std::deque<Queue> queues_;

  // --- Event handlers

  objects::Index<objects::VolumeTask, std::string> task_names_{
      [](const objects::VolumeTask& task) { return task.name(); }};
  objects::Index<objects::DataDeletion, DeletionState> deletion_states_{
      [this](const objects::DataDeletion& deletion) {
        deleted_snapshots_.Record(deletion);
        record_writer_.Record(deletion);  // asks the one before it
        return DeletionStateOf(deletion);
      }};
  objects::Index<objects::VolumeSnapshotContent, csi::KeptSnapshot> kept_index_{csi::ReadKept};
  PodEventHandler pod_handler_{enqueue_table_, &cache_, *env_.ended_pods, *env_.running};
  EnqueueingEventHandler<objects::VolumeSnapshot> snapshot_handler_{enqueue_table_, &cache_};
  EnqueueingEventHandler<objects::PersistentVolumeClaim> claim_handler_{enqueue_table_, &cache_};
  std::deque<SubjectEventHandler> subject_handlers_;
  std::deque<k8s::Informer> informers_;
};

Service::Service(k8s::ApiClient& api, k8s::ObjectCache& cache, csi::BaseIndex& bases,
                 MoverEnvironment env, const ServiceSettings& settings)
    : api_(api),
      cache_(cache),
      env_(std::move(env)),
      concurrent_(static_cast<int>(settings.concurrent_reconciles)),
      loop_age_max_(settings.loop_age_max) {
  const k8s::ResourceType& content = objects::VolumeSnapshotContent::Type();
  k8s::Informer& base_contents = Uncached(csi::BaseContents());
  base_contents.Add(Loop("bases", content, bases_));
  base_contents.Add(bases);
  Uncached({.type = objects::VolumeSnapshot::Type(), .label_selector = objects::kBackupNameLabel})
      .Add(Loop("room", objects::VolumeSnapshot::Type(), room_));
  Uncached(GroupMemberContents()).Add(Loop("groups", content, groups_));
  k8s::Informer& kept = Uncached({.type = content, .label_selector = objects::kKeptLabel});
  kept.Add(kept_index_);
  kept.Add(Loop("kept", content, kept_));
  Uncached({.type = content, .label_selector = objects::kBackupNameLabel})
      .Add(Loop("kept-contents", content, kept_));
  k8s::Informer& tasks =
      Cached({.type = objects::VolumeTask::Type(), .namespace_name = env_.mover_namespace});
  tasks.Add(task_names_);
  tasks.Add(rate_sharing_.tasks());
  tasks.Add(Loop("tasks", objects::VolumeTask::Type(), tasks_, concurrent_));
  Cached(MadeForTasks(content, "")).Add(Loop("contents", content, contents_));
  Cached(MadeForTasks(objects::Pod::Type(), env_.mover_namespace)).Add(pod_handler_);
  Cached(MadeForTasks(objects::VolumeSnapshot::Type(), env_.mover_namespace))
      .Add(snapshot_handler_);
  const k8s::ResourceType& claim = objects::PersistentVolumeClaim::Type();
  k8s::Informer& claims = Cached(MadeForTasks(claim, env_.mover_namespace));
  claims.Add(claim_handler_);
  claims.Add(Loop("claims", claim, claims_, k8s::kConcurrentReconciles));
  Cached(csi::SourceSnapshots());
  Cached({.type = objects::StorageClass::Type()});
  Cached({.type = objects::VolumeSnapshotClass::Type()});
  for (const std::string& velero_namespace : env_.velero_namespaces) {
    WatchNamespace(velero_namespace);
  }
}

void Service::WatchNamespace(const std::string& velero_namespace) {
  k8s::Informer& uploads =
      WatchTransfers("uploads", objects::DataUpload::Type(), velero_namespace, uploads_,
                     [this](const objects::Object& object) {
                       if (const auto upload = objects::DataUpload::From(object); upload.ok()) {
                         metrics_.Record(*upload);
                         record_writer_.Record(*upload);
                         RecordGoodBackup(*upload, scheduler_);
                       }
                       return QueuedUpload(object);
                     });
  // For what becomes of them when they are over.
  uploads.Add(Loop("archives", uploads.objects().type, archives_));
  WatchTransfers("downloads", objects::DataDownload::Type(), velero_namespace, downloads_,
                 [this](const objects::Object& object) {
                   if (const auto download = objects::DataDownload::From(object); download.ok()) {
                     record_writer_.Record(*download);
                   }
                   return QueuedDownload(object);
                 });
  WatchDeletions(velero_namespace);
  WatchRecords(velero_namespace);
}

absl::Status Service::Run(const CallContext& ctx, const std::string& listen_text) {
  ASSIGN_OR_RETURN(const net::ListenAddress listen, net::ParseListenAddress(listen_text));
  if (const k8s::WatchedObjects natives = csi::NativesOfBackups();  // if Longhorn is there now
      objects::List<objects::Object>(ctx.WithTimeout(kListedAtStartWithin), api_, natives.type, "",
                                     {.label_selector = natives.label_selector})
          .ok()) {
    Uncached(natives).Add(Loop("kept-natives", natives.type, kept_));
  }
  net::HttpServerOptions options;
  options.address = listen.address;
  options.port = listen.port;
  options.limits.connections_max = kConnectionsMax;
  ASSIGN_OR_RETURN(const std::unique_ptr<net::HttpServer> http,
                   net::HttpServer::Start(std::move(options),
                                          [this](const CallContext&, const net::HttpCall& call) {
                                            return Answer(call);
                                          }));
  CSIDELTA_LOG(kInfo, "moving volumes", {"namespace", env_.mover_namespace},
               {"listen", absl::StrCat(listen.address, ":", http->port())});
  k8s::LeaderLease lease(
      api_, k8s::LeaderLeaseOptions{.namespace_name = env_.mover_namespace,
                                    .name = kMoverLease,
                                    .holder = absl::StrCat(net::HostName(), ":", http->port())});
  lease_ = &lease;
  std::stop_source lease_stop;
  CallContext lease_ctx = ctx;
  lease_ctx.stop = lease_stop.get_token();
  std::jthread leading([&] { lease.Run(lease_ctx); });
  if (const absl::Status noted = archives_.RecordBackups(ctx.WithTimeout(kListedAtStartWithin));
      !noted.ok()) {
    CSIDELTA_LOG(kInfo, "Backups cannot be listed, so DataUploads of earlier nights take memory",
                 {"error", std::string(noted.message())});
  }
  std::vector<std::jthread> threads;
  for (k8s::Informer& informer : informers_) {
    threads.emplace_back([this, &ctx, &informer] { informer.Run(ctx, api_).IgnoreError(); });
  }
  threads.emplace_back([this, &ctx] { WatchGroups(ctx, api_, group_windows_).IgnoreError(); });
  threads.emplace_back([this, &ctx] { record_writer_.Work(ctx); });
  threads.emplace_back([this, &ctx] { rate_sharing_.FollowSettings(ctx); });
  threads.emplace_back([this, &ctx] { rate_sharing_.Work(ctx); });
  for (Queue& queue : queues_) {
    threads.emplace_back([&ctx, &queue] { queue.loop.Work(ctx); });
  }
  ctx.clock->SleepFor(absl::InfiniteDuration(), ctx.stop);
  CSIDELTA_LOG(kInfo, "stopping");
  threads.clear();
  lease_stop.request_stop();
  http->Stop();
  return absl::OkStatus();
}

k8s::Informer& Service::Uncached(const k8s::WatchedObjects& objects) {
  return informers_.emplace_back(objects);
}

k8s::Informer& Service::Cached(const k8s::WatchedObjects& objects,
                               k8s::ObjectCache::Filter filter) {
  k8s::Informer& informer = Uncached(objects);
  cache_.Add(informer, std::move(filter));
  return informer;
}

std::function<bool()> Service::Leads() const {
  return [this] {
    const k8s::LeaderLease* const lease = lease_;
    return lease != nullptr && lease->leads(Clock::Real());
  };
}

void Service::Enqueue(absl::string_view queue, const std::string& namespace_name,
                      const std::string& name) {
  for (Queue& one : queues_) {
    if (one.name == queue) {
      one.loop.Enqueue(namespace_name, name);
    }
  }
}

k8s::Informer& Service::WatchTransfers(const char* queue, const k8s::ResourceType& type,
                                       const std::string& velero_namespace,
                                       k8s::Reconciler& reconciler, TransferReader read) {
  const auto is_to_be_moved = objects::FilterOf<objects::DataTransfer>(
      [](const objects::DataTransfer& transfer) { return IsToBeMoved(transfer); });
  k8s::Informer& informer =
      Cached({.type = type, .namespace_name = velero_namespace}, is_to_be_moved);
  AddSubjects(informer, TransferSubjects(type.kind, std::move(read), scheduler_),
              Loop(queue, type, reconciler, concurrent_, &cache_));
  return informer;
}

void Service::AddSubjects(k8s::Informer& informer, TaskSubjects subjects,
                          k8s::ReconcileLoop& loop) {
  informer.Add(subject_handlers_.emplace_back(std::move(subjects), enqueue_table_, loop));
  informer.Add(loop);
}

void Service::WatchDeletions(const std::string& velero_namespace) {
  const k8s::ResourceType& type = objects::DataDeletion::Type();
  k8s::Informer& informer = Cached({.type = type, .namespace_name = velero_namespace});
  informer.Add(deletion_states_);
  AddSubjects(informer, DeletionSubjects(deletion_queue_),
              Loop("deletions", type, deletions_, kOneAfterTheOther, &cache_));
}

void Service::WatchRecords(const std::string& velero_namespace) {
  const k8s::ResourceType& type = objects::ProtectedVolume::Type();
  k8s::Informer& informer = Uncached({.type = type, .namespace_name = velero_namespace});
  records_.Add(informer);
  AddSubjects(informer, CheckSubjects(env_.settings.checks, check_queue_),
              Loop("checks", type, checks_));
}

bool Service::MayCheck() const {
  if (!TransfersAreKnown()) {
    return false;
  }
  // What these wait for is not what a check would take.
  constexpr std::array<WaitReason, 3> kIgnored = {WaitReason::kUploadWindow,
                                                  WaitReason::kPrerequisite, WaitReason::kOther};
  const TransferScheduler::Counts counts = scheduler_.counts();
  int waiting = counts.waiting;
  for (const WaitReason reason : kIgnored) {
    const auto found = counts.waiting_for.find(reason);
    waiting -= found == counts.waiting_for.end() ? 0 : found->second;
  }
  return waiting <= 0;
}

MoverState Service::State() const {
  MoverState state = {
      .leads = Leads()(), .transfers = scheduler_.counts(), .deletions = deletion_states_.All()};
  const std::vector<std::string> task_names = task_names_.All();
  state.leftover_tasks = std::count_if(
      task_names.begin(), task_names.end(),
      [this](const std::string& task_name) { return !enqueue_table_.Has(task_name); });
  state.groups = group_windows_.figures();
  for (const csi::KeptSnapshot& kept : kept_index_.All()) {
    ++state.kept[kept.state];
  }
  for (const Queue& queue : queues_) {
    state.queues[queue.name] += queue.loop.figures();
  }
  state.records = &records_;
  state.settings = &env_.settings;
  if (env_.bases != nullptr) {
    state.bases = env_.bases->counts();
  }
  return state;
}

bool Service::AreSynced(std::initializer_list<absl::string_view> queues) const {
  return absl::c_all_of(queues_, [&](const Queue& queue) {
    return !absl::c_linear_search(queues, queue.name) || queue.loop.is_synced();
  });
}

std::vector<k8s::LoopAge> Service::LoopAges() const {
  const Clock& clock = Clock::Real();
  std::vector<k8s::LoopAge> loops = {
      {.name = "the writer of records", .age = record_writer_.heartbeat().Age(clock)}};
  if (const k8s::LeaderLease* const lease = lease_; lease != nullptr) {
    loops.push_back({.name = "the lease", .age = lease->heartbeat().Age(clock)});
  }
  for (const k8s::Informer& informer : informers_) {
    loops.push_back({.name = absl::StrCat("the informer of ", informer.objects().type.plural),
                     .age = informer.heartbeat().Age(clock)});
  }
  for (const Queue& queue : queues_) {
    loops.push_back({.name = absl::StrCat("a reconcile of the queue ", queue.name),
                     .age = queue.loop.oldest_reconcile()});
  }
  return loops;
}

net::HttpResponse Service::Answer(const net::HttpCall& call) const {
  if (call.target == "/healthz") {
    return k8s::HealthOf(LoopAges(), loop_age_max_);
  }
  net::HttpResponse response;
  response.headers["content-type"] = "text/plain; charset=utf-8";
  response.status = 200;
  response.body = "ok\n";
  if (call.target == "/readyz" && !IsSynced()) {
    response.status = 503;
    response.body = "the DataUploads are not known yet\n";
  } else if (call.target == "/metrics") {
    response.headers["content-type"] = "text/plain; version=0.0.4";
    response.body = metrics_.Text(Clock::Real().Now(), State());
  } else if (call.target != "/readyz") {
    response.status = 404;
    response.body = "there are /healthz, /readyz and /metrics\n";
  }
  return response;
}

// Calls until the answer is one that stays: an API server that is away for a moment does not make
// it right to give up.
template <typename Call>
auto AwaitAnswer(const CallContext& ctx, const Call& call) -> decltype(call()) {
  constexpr BackoffOptions kAgain = {.delay_first = kStartAgainAfter,
                                     .delay_max = kStartAgainAfter,
                                     .attempts_max = kAttemptsWithoutEnd,
                                     .jitter = 0};
  auto answer =
      Retry(ctx, kAgain, Random::Real(), IsRetryable, call, [](const absl::Status& status) {
        CSIDELTA_LOG(kWarn, "the API server does not answer; trying again",
                     {"error", std::string(status.message())});
      });
  RETURN_IF_ERROR(ctx.Check());
  return answer;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ParseVeleroNamespaces(absl::string_view text) {
  std::vector<std::string> names = absl::StrSplit(text, ',');
  for (const std::string& name : names) {
    if (!velero::IsNamespaceName(name) || std::count(names.begin(), names.end(), name) != 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the namespaces of Velero, \"", text, "\", are not a list such as velero,velero-two"));
    }
  }
  return names;
}

absl::Status RunService(const CallContext& ctx, k8s::ApiClient& api,
                        const ServiceSettings& settings) {
  ASSIGN_OR_RETURN(const std::vector<std::string> velero_namespaces,
                   ParseVeleroNamespaces(settings.velero_namespaces));
  if (!velero::IsNamespaceName(settings.mover_namespace)) {
    return MissingFlag("--namespace", "where workers run");
  }
  if (settings.image.empty()) {
    return MissingFlag("--image", "what workers run");
  }
  ASSIGN_OR_RETURN(const std::string cluster,
                   AwaitAnswer(ctx, [&] { return ReadClusterUid(ctx, api); }));
  RETURN_IF_ERROR(AwaitAnswer(ctx, [&] { return CheckMoverKinds(ctx, api); }));
  ASSIGN_OR_RETURN(const MoverSettings mover_settings,
                   ReadMoverSettings(ctx, api, settings.mover_namespace));
  k8s::ObjectCache cache;
  k8s::RecentReads recent_reads(kAccessReadAgain);
  csi::BaseIndex bases;
  k8s::RecordingClient noting(api, cache);
  return Service(api, cache, bases,
                 {.api = noting,
                  .random = Random::Real(),
                  .secure_random = SecureRandom::Real(),
                  .mover_namespace = settings.mover_namespace,
                  .cluster = cluster,
                  .image = settings.image,
                  .worker_service_account = settings.worker_service_account,
                  .settings = mover_settings,
                  .velero_namespaces = {velero_namespaces.begin(), velero_namespaces.end()},
                  .cache = &cache,
                  .recent_reads = &recent_reads,
                  .bases = &bases},
                 settings)
      .Run(ctx, settings.listen);
}

}  // namespace csidelta::datamover

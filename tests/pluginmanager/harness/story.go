package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	api "github.com/vmware-tanzu/velero/pkg/apis/velero/v1"
	"github.com/vmware-tanzu/velero/pkg/features"
	"github.com/vmware-tanzu/velero/pkg/plugin/clientmgmt"
	"github.com/vmware-tanzu/velero/pkg/plugin/velero"
	biav2 "github.com/vmware-tanzu/velero/pkg/plugin/velero/backupitemaction/v2"
	riav2 "github.com/vmware-tanzu/velero/pkg/plugin/velero/restoreitemaction/v2"
	"github.com/vmware-tanzu/velero/pkg/util/collections"
)

const (
	firstPause         = 20 * time.Millisecond // between two looks
	lastPause          = 200 * time.Millisecond
	namespaceOfVelero  = "velero"
	claims             = "persistentvolumeclaims"
	mustIncludeAdded   = "backup.velero.io/must-include-additional-items"
	skipFromBackup     = "velero.io/skip-from-backup"
	restoreNameLabel   = "velero.io/restore-name"
	backupNameLabel    = "velero.io/backup-name"
	operationUnit      = time.Millisecond
	readyTimeoutAtMost = 20 * time.Second
)

// firstSkipping is the minor version of 1.18.1, the first Velero that leaves out of a backup which items an action marked so.
const firstSkipping = 18

// Since Velero 1.14 a restore has two phases more; older releases have no words for them.
const (
	firstFinalizingRestores = 14
	finalizingRestore       = api.RestorePhase("Finalizing")
	finalizingFailedRestore = api.RestorePhase("FinalizingPartiallyFailed")
)

// backedUp are the resources that a backup of a namespace begins with, in Velero's order.
var backedUp = []string{"pods", claims, "configmaps", "secrets", "volumesnapshots.snapshot.storage.k8s.io",
	"snapshots.longhorn.io"}

// restoreOrder is Velero's, as far as stories go.
var restoreOrder = []string{"volumesnapshotclasses.snapshot.storage.k8s.io", "volumegroupsnapshotclasses.groupsnapshot.storage.k8s.io",
	"volumesnapshotcontents.snapshot.storage.k8s.io", "volumesnapshots.snapshot.storage.k8s.io", "datauploads.velero.io", claims,
	"secrets", "configmaps", "pods", "volumegroupsnapshotcontents.groupsnapshot.storage.k8s.io",
	"volumegroupsnapshots.groupsnapshot.storage.k8s.io",
	"engines.longhorn.io", "settings.longhorn.io", "snapshots.longhorn.io", "volumes.longhorn.io"}

// archive is what a backup holds: items by "resource/namespace/name".
type archive map[string]json.RawMessage

func archiveKey(resource, namespace, name string) string {
	return resource + "/" + namespace + "/" + name
}

func (a archive) put(resource, namespace, name string, item *unstructured.Unstructured) {
	a[archiveKey(resource, namespace, name)] = json.RawMessage(marshal(item))
}

// operation is one that an action began.
type operation struct {
	action string
	id     string
	name   string
	post   []velero.ResourceIdentifier
	failed string
}

// teller tells one story: Velero's server as far as one backup or restore needs it.
type teller struct {
	host    *host
	cluster *cluster
	mutex   sync.Mutex // of errors, and of what a backup gathers
	errors  []string
	// stopAtError: the server ends with its plugin, instead of going on with the next item.
	stopAtError bool
}

var errServerEnded = errors.New("the server ended")

// pause waits for the next look: the longer, the more there were.
func pause(looks *int) {
	*looks++
	time.Sleep(min(firstPause*time.Duration(*looks), lastPause))
}

// fail notes an error, as a backup or restore that goes on does.
func (t *teller) fail(what string, err error) error {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.errors = append(t.errors, what+": "+err.Error())
	if t.stopAtError {
		return errServerEnded
	}
	return nil
}

// selected is an action with what it applies to, which Velero asks once in a phase.
type selected[T velero.Applicable] struct {
	action     T
	resources  *collections.IncludesExcludes // as Velero reads them: a name may be a pattern
	namespaces *collections.IncludesExcludes
	itemLabels labels.Selector
}

func selectAll[T velero.Applicable](actions []T, err error) ([]selected[T], error) {
	if err != nil {
		return nil, err
	}
	var all []selected[T]
	for _, action := range actions {
		selector, err := action.AppliesTo()
		if err != nil {
			return nil, err
		}
		chosen, err := labels.Parse(selector.LabelSelector)
		if err != nil {
			return nil, err
		}
		resources := collections.NewIncludesExcludes().Includes(selector.IncludedResources...).Excludes(selector.ExcludedResources...)
		namespaces := collections.NewIncludesExcludes().Includes(selector.IncludedNamespaces...).Excludes(selector.ExcludedNamespaces...)
		all = append(all, selected[T]{action, resources, namespaces, chosen})
	}
	return all, nil
}

// wants tells whether the action is called for an item.
func (s selected[T]) wants(resource, namespace string, itemLabels map[string]string) bool {
	return s.resources.ShouldInclude(resource) && s.namespaces.ShouldInclude(namespace) && s.itemLabels.Matches(labels.Set(itemLabels))
}

// --- Backup

type backupRun struct {
	*teller
	backup     *api.Backup
	actions    []selected[biav2.BackupItemAction]
	archive    archive
	operations []*operation
	finalizing bool
	workers    int
}

// item backs up one item with what its actions add, as itemBackupper does.
func (r *backupRun) item(resource string, item *unstructured.Unstructured) error {
	key := archiveKey(resource, item.GetNamespace(), item.GetName())
	if !r.begin(key) {
		return nil
	}
	item, err := r.act(resource, item)
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if err != nil || item == nil {
		if r.archive[key] == nil { // Else the finalizing phase keeps what the first one archived.
			delete(r.archive, key)
		}
		return err
	}
	r.archive.put(resource, item.GetNamespace(), item.GetName(), item)
	return nil
}

// begin tells whether an item is still to be backed up; an action may name one that is under way.
func (r *backupRun) begin(key string) bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if _, known := r.archive[key]; known {
		return r.finalizing
	}
	r.archive[key] = nil
	return true
}

// act calls the actions of an item, one after the other; nil: one of them left it out.
func (r *backupRun) act(resource string, item *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	for _, chosen := range r.actions {
		if !chosen.wants(resource, item.GetNamespace(), item.GetLabels()) {
			continue
		}
		action := chosen.action
		updated, more, id, post, err := action.Execute(item, r.backup)
		if err != nil {
			return nil, fmt.Errorf("error executing custom action (groupResource=%s, namespace=%s, name=%s): %w", resource,
				item.GetNamespace(), item.GetName(), err)
		}
		item = &unstructured.Unstructured{Object: updated.UnstructuredContent()}
		if _, skipped := item.GetAnnotations()[skipFromBackup]; skipped && r.host.minor >= firstSkipping {
			return nil, nil
		}
		unstructured.RemoveNestedField(item.Object, "metadata", "annotations", mustIncludeAdded)
		if id != "" && r.finalizing {
			return nil, fmt.Errorf("operation %s in the finalizing phase", id)
		}
		if id != "" {
			r.mutex.Lock()
			r.operations = append(r.operations, &operation{action: action.Name(), id: id,
				name: item.GetNamespace() + "/" + item.GetName(), post: post})
			r.mutex.Unlock()
		}
		if err := r.additional(more); err != nil {
			return nil, err
		}
	}
	return item, nil
}

func (r *backupRun) additional(more []velero.ResourceIdentifier) error {
	for _, other := range more {
		resource := other.GroupResource.String()
		item, err := r.cluster.get(resource, other.Namespace, other.Name)
		if errors.Is(err, errNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		if err := r.item(resource, item); err != nil {
			return err
		}
	}
	return nil
}

// collected is an item as a backup lists it before it backs up the first one.
type collected struct {
	resource string
	item     *unstructured.Unstructured
}

func (r *backupRun) collect(namespaces []string) ([]collected, error) {
	var all []collected
	for _, namespace := range namespaces {
		for _, resource := range backedUp {
			items, err := r.cluster.list(resource, namespace)
			if err != nil {
				return nil, err
			}
			for _, item := range items {
				all = append(all, collected{resource, item})
			}
		}
	}
	return all, nil
}

// related asks about the items that are to be backed up together.
func (r *backupRun) related(m clientmgmt.Manager, all []collected) error {
	var items []*unstructured.Unstructured
	for _, one := range all {
		if one.resource == claims {
			items = append(items, one.item)
		}
	}
	if err := relatedItems(m, items, r.backup); err != nil {
		return r.fail("item block", err)
	}
	return nil
}

// items backs up what was collected, as many at a time as there are workers.
func (r *backupRun) items(all []collected) error {
	queue := make(chan collected, len(all))
	for _, one := range all {
		queue <- one
	}
	close(queue)
	ended := make(chan error, r.workers)
	for range r.workers {
		go func() {
			for one := range queue {
				if err := r.item(one.resource, one.item); err != nil {
					if err := r.fail(one.item.GetNamespace()+"/"+one.item.GetName(), err); err != nil {
						ended <- err
						return
					}
				}
			}
			ended <- nil
		}()
	}
	var err error
	for range r.workers {
		err = errors.Join(err, <-ended)
	}
	return err
}

func (t *teller) setPhase(resource, name string, object any, set func()) error {
	set()
	text, err := json.Marshal(object)
	if err != nil {
		return err
	}
	var fields struct {
		Status map[string]any `json:"status"`
	}
	if err := json.Unmarshal(text, &fields); err != nil {
		return err
	}
	return t.cluster.patch(resource, namespaceOfVelero, name, map[string]any{"status": fields.Status})
}

func (r *backupRun) phase(phase api.BackupPhase) error {
	return r.setPhase("backups.velero.io", r.backup.Name, r.backup, func() { r.backup.Status.Phase = phase })
}

// awaitOperations polls the operations until the last one has ended, as the controller of a backup's operations does.
func (r *backupRun) awaitOperations(m clientmgmt.Manager, timeout time.Duration) {
	open := append([]*operation{}, r.operations...)
	for deadline, looks := time.Now().Add(timeout), 0; len(open) > 0; pause(&looks) {
		var left []*operation
		for _, one := range open {
			action, err := m.GetBackupItemActionV2(one.action)
			if err == nil {
				var progress velero.OperationProgress
				progress, err = action.Progress(one.id, r.backup)
				if err == nil && progress.Completed {
					one.failed = progress.Err
				} else if err == nil && time.Now().After(deadline) {
					_ = action.Cancel(one.id, r.backup)
					one.failed = "asynchronous action timed out: " + progress.Description
				} else if err == nil {
					left = append(left, one)
				}
			}
			if err != nil {
				one.failed = err.Error()
			}
			if one.failed != "" {
				r.errors = append(r.errors, "operation of "+one.name+": "+one.failed)
			}
		}
		open = left
	}
}

// finalize backs up again what the operations named, as it is when the phase begins.
func (r *backupRun) finalize() error {
	r.finalizing = true
	var all []collected
	for _, one := range r.operations {
		for _, post := range one.post {
			resource := post.GroupResource.String()
			item, err := r.cluster.get(resource, post.Namespace, post.Name)
			if errors.Is(err, errNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			all = append(all, collected{resource, item})
		}
	}
	return r.items(all)
}

type backupAsked struct {
	Backup     json.RawMessage
	Namespaces []string
	TimeoutMs  int64 // of operations
	Workers    int   // --item-block-worker-count; 0: 1
}

// tellBackup makes a backup from New to its last phase.
func (t *teller) tellBackup(asked backupAsked) (map[string]any, error) {
	r := &backupRun{teller: t, backup: &api.Backup{}, archive: archive{}, workers: max(asked.Workers, 1)}
	if err := json.Unmarshal(asked.Backup, r.backup); err != nil {
		return nil, err
	}
	item := object(string(asked.Backup))
	if err := t.cluster.create("backups.velero.io", namespaceOfVelero, item); err != nil {
		return nil, err
	}
	made, err := t.cluster.get("backups.velero.io", namespaceOfVelero, r.backup.Name)
	if err != nil {
		return nil, err
	}
	r.backup.UID, r.backup.CreationTimestamp = made.GetUID(), made.GetCreationTimestamp()
	ended := r.run(asked)
	answer := map[string]any{"archive": r.archive, "uid": r.backup.UID}
	if ended != nil && !errors.Is(ended, errServerEnded) {
		return answer, ended
	}
	if ended == nil {
		if err := r.phase(r.worse(api.BackupPhaseCompleted, api.BackupPhasePartiallyFailed)); err != nil {
			return answer, err
		}
	}
	answer["phase"] = string(r.backup.Status.Phase)
	for key, item := range r.archive {
		if item == nil {
			delete(r.archive, key)
		}
	}
	return answer, nil
}

func (r *backupRun) run(asked backupAsked) error {
	if err := r.phase(api.BackupPhaseInProgress); err != nil {
		return err
	}
	if err := r.withActions(func(m clientmgmt.Manager) error {
		all, err := r.collect(asked.Namespaces)
		if err == nil {
			err = r.related(m, all)
		}
		if err == nil {
			err = r.items(all)
		}
		return err
	}); err != nil {
		return err
	}
	if len(r.operations) > 0 {
		if err := r.phase(r.worse(api.BackupPhaseWaitingForPluginOperations,
			api.BackupPhaseWaitingForPluginOperationsPartiallyFailed)); err != nil {
			return err
		}
		r.host.withManager(func(m clientmgmt.Manager) {
			r.awaitOperations(m, time.Duration(asked.TimeoutMs)*operationUnit)
		})
	}
	if err := r.phase(r.worse(api.BackupPhaseFinalizing, api.BackupPhaseFinalizingPartiallyFailed)); err != nil {
		return err
	}
	return r.withActions(func(clientmgmt.Manager) error { return r.finalize() })
}

// worse is the phase of a backup with errors, if there are any.
func (r *backupRun) worse(good, bad api.BackupPhase) api.BackupPhase {
	if len(r.errors) > 0 {
		return bad
	}
	return good
}

// withActions runs one phase with a manager and the actions of its own.
func (r *backupRun) withActions(body func(clientmgmt.Manager) error) (err error) {
	r.host.withManager(func(m clientmgmt.Manager) {
		if r.actions, err = selectAll(m.GetBackupItemActionsV2()); err == nil {
			err = body(m)
		}
	})
	return err
}

// --- Restore

type restoreRun struct {
	*teller
	restore *api.Restore
	archive archive
	asked   restoreAsked
	actions []selected[riav2.RestoreItemAction]
	done    map[string]bool // Does the item exist? Of those that were restored, or tried.
	started []restoreOperation
}

type restoreOperation struct{ action, id, name string }

type restoreAsked struct {
	Restore   json.RawMessage
	Archive   archive
	Mapping   map[string]string
	TimeoutMs int64
}

func (r *restoreRun) mapped(namespace string) string {
	if other, found := r.asked.Mapping[namespace]; found {
		return other
	}
	return namespace
}

// resetMetadataAndStatus is Velero's: what is left has its finalizers, and no status.
func resetMetadataAndStatus(item *unstructured.Unstructured) {
	for _, field := range []string{"generateName", "selfLink", "uid", "resourceVersion", "generation", "creationTimestamp",
		"deletionTimestamp", "deletionGracePeriodSeconds", "ownerReferences"} {
		unstructured.RemoveNestedField(item.Object, "metadata", field)
	}
	unstructured.RemoveNestedField(item.Object, "status")
}

// skipped tells whether a server without EnableCSI leaves an action out.
func skipped(action string) bool {
	return !features.IsEnabled(api.CSIFeatureFlag) && strings.Contains(action, "velero.io/csi-")
}

// item restores one item of the archive with what its actions add, as restoreItem does; false: the server ends.
// The item's errors are those of the restore. exists tells whether the cluster has the item then.
func (r *restoreRun) item(key string) (exists bool, ended error) {
	if exists, tried := r.done[key]; tried {
		return exists, nil
	}
	r.done[key] = false
	resource, rest, _ := strings.Cut(key, "/")
	original, _, _ := strings.Cut(rest, "/")
	namespace := r.mapped(original)
	fromBackup := object(string(r.archive[key]))
	item := fromBackup.DeepCopy()
	resetMetadataAndStatus(item)
	for _, chosen := range r.actions {
		action := chosen.action
		if !chosen.wants(resource, namespace, item.GetLabels()) || skipped(action.Name()) {
			continue
		}
		output, err := action.Execute(&velero.RestoreItemActionExecuteInput{Item: item, ItemFromBackup: fromBackup, Restore: r.restore})
		if err != nil {
			return false, r.fail(key, fmt.Errorf("error preparing %s: %w", key, err))
		}
		if output.OperationID != "" {
			r.started = append(r.started, restoreOperation{action.Name(), output.OperationID, key})
		}
		if output.SkipRestore {
			return false, nil
		}
		item = &unstructured.Unstructured{Object: output.UpdatedItem.UnstructuredContent()}
		if ended := r.additional(key, action, output); ended != nil {
			return false, ended
		}
	}
	if resource == claims {
		annotations := item.GetAnnotations()
		delete(annotations, "pv.kubernetes.io/bind-completed")
		delete(annotations, "pv.kubernetes.io/bound-by-controller")
		item.SetAnnotations(annotations)
	}
	if namespace != "" {
		item.SetNamespace(namespace)
	}
	if err := r.create(resource, item); err != nil {
		return false, r.fail(key, fmt.Errorf("error restoring %s: %w", key, err))
	}
	r.done[key] = true
	return true, nil
}

// additional restores what an action adds to an item, and waits for it if the action says so. The item is made whatever
// comes of that.
func (r *restoreRun) additional(key string, action riav2.RestoreItemAction, output *velero.RestoreItemActionExecuteOutput) error {
	var there []velero.ResourceIdentifier
	for _, more := range output.AdditionalItems {
		other := archiveKey(more.GroupResource.String(), more.Namespace, more.Name)
		if _, found := r.archive[other]; !found {
			continue // A warning.
		}
		exists, ended := r.item(other)
		if ended != nil {
			return ended
		}
		if exists {
			there = append(there, more)
		}
	}
	if !output.WaitForAdditionalItems {
		return nil
	}
	timeout := readyTimeoutAtMost
	if output.AdditionalItemsReadyTimeout != 0 {
		timeout = min(timeout, output.AdditionalItemsReadyTimeout)
	}
	for deadline, looks := time.Now().Add(timeout), 0; ; pause(&looks) {
		ready, err := action.AreAdditionalItemsReady(there, r.restore)
		if err != nil {
			return r.fail(key, fmt.Errorf("error verifying additional items are ready to use: %w", err))
		}
		if ready {
			return nil
		}
		if time.Now().After(deadline) {
			return r.fail(key, fmt.Errorf("additional items for %s are not ready to use", key))
		}
	}
}

// create makes a restored item, unless the cluster has it.
func (r *restoreRun) create(resource string, item *unstructured.Unstructured) error {
	all := item.GetLabels()
	if all == nil {
		all = map[string]string{}
	}
	all[restoreNameLabel], all[backupNameLabel] = r.restore.Name, r.restore.Spec.BackupName
	item.SetLabels(all)
	if _, err := r.cluster.get(resource, item.GetNamespace(), item.GetName()); err == nil {
		return nil // A warning, if it differs.
	}
	err := r.cluster.create(resource, item.GetNamespace(), item)
	if errors.Is(err, errAlreadyExists) {
		return nil // A warning.
	}
	return err
}

// tellRestore makes a restore of an archive.
func (t *teller) tellRestore(asked restoreAsked) (map[string]any, error) {
	r := &restoreRun{teller: t, restore: &api.Restore{}, archive: asked.Archive, asked: asked, done: map[string]bool{}}
	if err := json.Unmarshal(asked.Restore, r.restore); err != nil {
		return nil, err
	}
	item := object(string(asked.Restore))
	if err := t.cluster.create("restores.velero.io", namespaceOfVelero, item); err != nil {
		return nil, err
	}
	made, err := t.cluster.get("restores.velero.io", namespaceOfVelero, r.restore.Name)
	if err != nil {
		return nil, err
	}
	r.restore.UID, r.restore.CreationTimestamp = made.GetUID(), made.GetCreationTimestamp()
	phase := func(phase api.RestorePhase) error {
		return t.setPhase("restores.velero.io", r.restore.Name, r.restore, func() { r.restore.Status.Phase = phase })
	}
	if err := phase(api.RestorePhaseInProgress); err != nil {
		return nil, err
	}
	t.host.withManager(func(m clientmgmt.Manager) {
		if r.actions, err = selectAll(m.GetRestoreItemActionsV2()); err == nil {
			err = r.items()
		}
	})
	if err == nil && len(r.started) > 0 {
		if err = phase(r.worse(api.RestorePhaseWaitingForPluginOperations,
			api.RestorePhaseWaitingForPluginOperationsPartiallyFailed)); err == nil {
			t.host.withManager(func(m clientmgmt.Manager) { r.awaitOperations(m) })
		}
	}
	if err == nil && t.host.minor >= firstFinalizingRestores {
		err = phase(r.worse(finalizingRestore, finalizingFailedRestore))
	}
	answer := map[string]any{}
	if err != nil {
		if errors.Is(err, errServerEnded) {
			err = nil
		}
		return answer, err
	}
	last := r.worse(api.RestorePhaseCompleted, api.RestorePhasePartiallyFailed)
	if err := phase(last); err != nil {
		return answer, err
	}
	answer["phase"] = string(last)
	return answer, nil
}

// worse is the phase of a restore with errors, if there are any.
func (r *restoreRun) worse(good, bad api.RestorePhase) api.RestorePhase {
	if len(r.errors) > 0 {
		return bad
	}
	return good
}

func (r *restoreRun) items() error {
	for _, resource := range restoreOrder {
		var keys []string
		for key := range r.archive {
			if strings.HasPrefix(key, resource+"/") {
				keys = append(keys, key)
			}
		}
		sort.Strings(keys)
		for _, key := range keys {
			if _, ended := r.item(key); ended != nil {
				return ended
			}
		}
	}
	return nil
}

func (r *restoreRun) awaitOperations(m clientmgmt.Manager) {
	open := r.started
	timeout := time.Duration(r.asked.TimeoutMs) * operationUnit
	for deadline, looks := time.Now().Add(timeout), 0; len(open) > 0; pause(&looks) {
		var left []restoreOperation
		for _, one := range open {
			failed := ""
			action, err := m.GetRestoreItemActionV2(one.action)
			if err == nil {
				var progress velero.OperationProgress
				progress, err = action.Progress(one.id, r.restore)
				if err == nil && progress.Completed {
					failed = progress.Err
				} else if err == nil && time.Now().After(deadline) {
					_ = action.Cancel(one.id, r.restore)
					failed = "asynchronous action timed out: " + progress.Description
				} else if err == nil {
					left = append(left, one)
				}
			}
			if err != nil {
				failed = err.Error()
			}
			if failed != "" {
				r.errors = append(r.errors, "operation of "+one.name+": "+failed)
			}
		}
		open = left
	}
}

// --- Deletion

type deleteAsked struct {
	Backup  json.RawMessage
	Archive archive
	Seed    int64 // of the order
}

// inSomeOrder returns the keys of an archive as a deletion comes to them: resources, and the namespaces of each, are in
// the order of a Go map, which the seed stands for.
func inSomeOrder(items archive, seed int64) []string {
	groups := map[string][]string{} // by "resource/namespace"
	for key := range items {
		group := key[:strings.LastIndex(key, "/")]
		groups[group] = append(groups[group], key)
	}
	order := slices.Sorted(maps.Keys(groups))
	ranks := map[string]int{}
	random := rand.New(rand.NewSource(seed))
	random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	for i, group := range order {
		resource, _, _ := strings.Cut(group, "/")
		if _, known := ranks[resource]; !known {
			ranks[resource] = i
		}
	}
	sort.SliceStable(order, func(i, j int) bool {
		first, _, _ := strings.Cut(order[i], "/")
		second, _, _ := strings.Cut(order[j], "/")
		return ranks[first] < ranks[second]
	})
	var keys []string
	for _, group := range order {
		sort.Strings(groups[group])
		keys = append(keys, groups[group]...)
	}
	return keys
}

// tellDelete calls the delete actions for all of an archive. Velero logs their errors and goes on, and
// deletes the Backup in any case.
func (t *teller) tellDelete(asked deleteAsked) (map[string]any, error) {
	backup := &api.Backup{}
	if err := json.Unmarshal(asked.Backup, backup); err != nil {
		return nil, err
	}
	if err := t.setPhase("backups.velero.io", backup.Name, backup, func() { backup.Status.Phase = api.BackupPhaseDeleting }); err != nil &&
		!errors.Is(err, errNotFound) {
		return nil, err
	}
	var err error
	t.host.withManager(func(m clientmgmt.Manager) { err = t.deleteItems(m, backup, asked) })
	if errors.Is(err, errServerEnded) {
		return nil, nil
	}
	if err == nil {
		err = t.cluster.delete("backups.velero.io", namespaceOfVelero, backup.Name)
	}
	if errors.Is(err, errNotFound) {
		err = nil
	}
	return nil, err
}

func (t *teller) deleteItems(m clientmgmt.Manager, backup *api.Backup, asked deleteAsked) error {
	actions, err := selectAll(m.GetDeleteItemActions())
	if err != nil {
		return err
	}
	for _, key := range inSomeOrder(asked.Archive, asked.Seed) {
		resource, rest, _ := strings.Cut(key, "/")
		namespace, _, _ := strings.Cut(rest, "/")
		item := object(string(asked.Archive[key]))
		for _, chosen := range actions {
			if !chosen.wants(resource, namespace, item.GetLabels()) {
				continue
			}
			if err := chosen.action.Execute(&velero.DeleteItemActionExecuteInput{Item: item, Backup: backup}); err != nil {
				if err := t.fail(key, err); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"sort"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	api "github.com/vmware-tanzu/velero/pkg/apis/velero/v1"
	"github.com/vmware-tanzu/velero/pkg/plugin/clientmgmt"
	"github.com/vmware-tanzu/velero/pkg/plugin/velero"
	biav2 "github.com/vmware-tanzu/velero/pkg/plugin/velero/backupitemaction/v2"
)

const (
	pollInterval       = 20 * time.Millisecond
	namespaceOfVelero  = "velero"
	claims             = "persistentvolumeclaims"
	mustIncludeAdded   = "backup.velero.io/must-include-additional-items"
	restoreNameLabel   = "velero.io/restore-name"
	backupNameLabel    = "velero.io/backup-name"
	operationUnit      = time.Millisecond
	readyTimeoutAtMost = 20 * time.Second
)

// backedUp are the resources that a backup of a namespace begins with, in Velero's order.
var backedUp = []string{"pods", claims, "configmaps", "secrets", "volumesnapshots.snapshot.storage.k8s.io"}

// restoreOrder is Velero's, as far as stories go.
var restoreOrder = []string{"volumesnapshotclasses.snapshot.storage.k8s.io", "volumegroupsnapshotclasses.groupsnapshot.storage.k8s.io",
	"volumesnapshotcontents.snapshot.storage.k8s.io", "volumesnapshots.snapshot.storage.k8s.io", "datauploads.velero.io", claims,
	"secrets", "configmaps", "pods", "volumegroupsnapshotcontents.groupsnapshot.storage.k8s.io",
	"volumegroupsnapshots.groupsnapshot.storage.k8s.io"}

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
	action   string
	id       string
	resource string
	name     string
	post     []velero.ResourceIdentifier
	failed   string
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

// applies tells whether an action wants an item.
func applies(action velero.Applicable, resource, namespace string, itemLabels map[string]string) (bool, error) {
	selector, err := action.AppliesTo()
	if err != nil {
		return false, err
	}
	chosen, err := labels.Parse(selector.LabelSelector)
	if err != nil {
		return false, err
	}
	for _, excluded := range selector.ExcludedNamespaces {
		if excluded == namespace {
			return false, nil
		}
	}
	for _, included := range selector.IncludedResources {
		if included == resource || included == "*" {
			return chosen.Matches(labels.Set(itemLabels)), nil
		}
	}
	return false, nil
}

// --- Backup

type backupRun struct {
	*teller
	backup     *api.Backup
	actions    []biav2.BackupItemAction
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
	if err != nil {
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

// act calls the actions of an item, one after the other.
func (r *backupRun) act(resource string, item *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	for _, action := range r.actions {
		wanted, err := applies(action, resource, item.GetNamespace(), item.GetLabels())
		if err != nil {
			return nil, err
		}
		if !wanted {
			continue
		}
		updated, more, id, post, err := action.Execute(item, r.backup)
		if err != nil {
			return nil, fmt.Errorf("error executing custom action (groupResource=%s, namespace=%s, name=%s): %w", resource,
				item.GetNamespace(), item.GetName(), err)
		}
		item = &unstructured.Unstructured{Object: updated.UnstructuredContent()}
		unstructured.RemoveNestedField(item.Object, "metadata", "annotations", mustIncludeAdded)
		if id != "" && r.finalizing {
			return nil, fmt.Errorf("operation %s in the finalizing phase", id)
		}
		if id != "" {
			r.mutex.Lock()
			r.operations = append(r.operations, &operation{action: action.Name(), id: id, resource: resource,
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

func (r *backupRun) namespace(m clientmgmt.Manager, namespace string) error {
	for _, resource := range backedUp {
		items, err := r.cluster.list(resource, namespace)
		if err != nil {
			return err
		}
		if resource == claims {
			if err := relatedItems(m, items, r.backup); err != nil {
				if err := r.fail("item block", err); err != nil {
					return err
				}
			}
		}
		if err := r.items(resource, items); err != nil {
			return err
		}
	}
	return nil
}

// items backs up what a namespace has of a resource, as many at a time as there are workers.
func (r *backupRun) items(resource string, items []*unstructured.Unstructured) error {
	queue := make(chan *unstructured.Unstructured, len(items))
	for _, item := range items {
		queue <- item
	}
	close(queue)
	ended := make(chan error, r.workers)
	for range r.workers {
		go func() {
			for item := range queue {
				current, err := r.cluster.get(resource, item.GetNamespace(), item.GetName())
				if errors.Is(err, errNotFound) {
					continue
				}
				if err == nil {
					err = r.item(resource, current)
				}
				if err == nil {
					continue
				}
				if err := r.fail(item.GetNamespace()+"/"+item.GetName(), err); err != nil {
					ended <- err
					return
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
	for deadline := time.Now().Add(timeout); len(open) > 0; time.Sleep(pollInterval) {
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

func (r *backupRun) finalize() error {
	r.finalizing = true
	for _, one := range r.operations {
		for _, post := range one.post {
			resource := post.GroupResource.String()
			item, err := r.cluster.get(resource, post.Namespace, post.Name)
			if errors.Is(err, errNotFound) {
				continue
			}
			if err == nil {
				err = r.item(resource, item)
			}
			if err != nil {
				if err := r.fail(post.Namespace+"/"+post.Name, err); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

type backupAsked struct {
	Backup     json.RawMessage
	Namespaces []string
	TimeoutMs  int64 // of operations
	Phases     int   // after so many the server ends: 1 items, 2 operations; 0: all
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
	answer := map[string]any{"archive": r.archive, "uid": r.backup.UID, "operations": len(r.operations), "ended": ended == nil}
	if ended != nil && !errors.Is(ended, errServerEnded) {
		return answer, ended
	}
	if ended == nil {
		last := api.BackupPhaseCompleted
		if len(t.errors) > 0 {
			last = api.BackupPhasePartiallyFailed
		}
		if err := r.phase(last); err != nil {
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
		for _, namespace := range asked.Namespaces {
			if err := r.namespace(m, namespace); err != nil {
				return err
			}
		}
		return nil
	}); err != nil || asked.Phases == 1 {
		return ended(err)
	}
	if len(r.operations) > 0 {
		if err := r.phase(api.BackupPhaseWaitingForPluginOperations); err != nil {
			return err
		}
		r.host.withManager(func(m clientmgmt.Manager) {
			r.awaitOperations(m, time.Duration(asked.TimeoutMs)*operationUnit)
		})
	}
	if asked.Phases == 2 {
		return errServerEnded
	}
	finalizing := api.BackupPhaseFinalizing
	if len(r.errors) > 0 {
		finalizing = api.BackupPhaseFinalizingPartiallyFailed
	}
	if err := r.phase(finalizing); err != nil {
		return err
	}
	return r.withActions(func(clientmgmt.Manager) error { return r.finalize() })
}

func ended(err error) error {
	if err == nil {
		return errServerEnded
	}
	return err
}

// withActions runs one phase with a manager and the actions of its own.
func (r *backupRun) withActions(body func(clientmgmt.Manager) error) (err error) {
	r.host.withManager(func(m clientmgmt.Manager) {
		if r.actions, err = m.GetBackupItemActionsV2(); err == nil {
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
	done    map[string]bool
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

// prepared is an item of the archive as Velero hands it to actions.
func (r *restoreRun) prepared(item *unstructured.Unstructured) *unstructured.Unstructured {
	fresh := item.DeepCopy()
	metadata := map[string]any{"name": item.GetName()}
	if namespace := item.GetNamespace(); namespace != "" {
		metadata["namespace"] = r.mapped(namespace)
	}
	fresh.Object["metadata"] = metadata
	fresh.SetLabels(item.GetLabels())
	fresh.SetAnnotations(item.GetAnnotations())
	if item.GetKind() != "VolumeSnapshot" && item.GetKind() != "VolumeSnapshotContent" {
		delete(fresh.Object, "status")
	}
	return fresh
}

func (r *restoreRun) item(m clientmgmt.Manager, key string) error {
	if r.done[key] {
		return nil
	}
	r.done[key] = true
	resource, rest, _ := strings.Cut(key, "/")
	namespace, _, _ := strings.Cut(rest, "/")
	fromBackup := object(string(r.archive[key]))
	item := r.prepared(fromBackup)
	actions, err := m.GetRestoreItemActionsV2()
	if err != nil {
		return err
	}
	for _, action := range actions {
		wanted, err := applies(action, resource, namespace, item.GetLabels())
		if err != nil {
			return err
		}
		if !wanted {
			continue
		}
		output, err := action.Execute(&velero.RestoreItemActionExecuteInput{Item: item, ItemFromBackup: fromBackup, Restore: r.restore})
		if err != nil {
			return fmt.Errorf("error preparing %s: %w", key, err)
		}
		if output.OperationID != "" {
			r.started = append(r.started, restoreOperation{action.Name(), output.OperationID, key})
		}
		if output.SkipRestore {
			return nil
		}
		item = &unstructured.Unstructured{Object: output.UpdatedItem.UnstructuredContent()}
		for _, more := range output.AdditionalItems {
			other := archiveKey(more.GroupResource.String(), more.Namespace, more.Name)
			if _, found := r.archive[other]; !found {
				continue
			}
			if err := r.item(m, other); err != nil {
				return err
			}
		}
		if output.WaitForAdditionalItems {
			for deadline := time.Now().Add(readyTimeoutAtMost); ; time.Sleep(pollInterval) {
				ready, err := action.AreAdditionalItemsReady(output.AdditionalItems, r.restore)
				if err != nil {
					return err
				}
				if ready || time.Now().After(deadline) {
					break
				}
			}
		}
	}
	return r.create(resource, item)
}

func (r *restoreRun) create(resource string, item *unstructured.Unstructured) error {
	all := item.GetLabels()
	if all == nil {
		all = map[string]string{}
	}
	all[restoreNameLabel], all[backupNameLabel] = r.restore.Name, r.restore.Spec.BackupName
	item.SetLabels(all)
	item.SetResourceVersion("")
	item.SetUID("")
	if resource != "volumesnapshots.snapshot.storage.k8s.io" && resource != "volumesnapshotcontents.snapshot.storage.k8s.io" {
		delete(item.Object, "status")
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
	t.host.withManager(func(m clientmgmt.Manager) { err = r.items(m) })
	if err == nil && len(r.started) > 0 {
		if err = phase(api.RestorePhaseWaitingForPluginOperations); err == nil {
			t.host.withManager(func(m clientmgmt.Manager) { r.awaitOperations(m) })
		}
	}
	answer := map[string]any{"ended": err == nil, "operations": len(r.started)}
	if err != nil && !errors.Is(err, errServerEnded) {
		return answer, err
	}
	last := api.RestorePhaseCompleted
	if len(t.errors) > 0 {
		last = api.RestorePhasePartiallyFailed
	}
	if err := phase(last); err != nil {
		return answer, err
	}
	answer["phase"] = string(last)
	return answer, nil
}

func (r *restoreRun) items(m clientmgmt.Manager) error {
	for _, resource := range restoreOrder {
		var keys []string
		for key := range r.archive {
			if strings.HasPrefix(key, resource+"/") {
				keys = append(keys, key)
			}
		}
		sort.Strings(keys)
		for _, key := range keys {
			if err := r.item(m, key); err != nil {
				if err := r.fail(key, err); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (r *restoreRun) awaitOperations(m clientmgmt.Manager) {
	open := r.started
	for deadline := time.Now().Add(time.Duration(r.asked.TimeoutMs) * operationUnit); len(open) > 0; time.Sleep(pollInterval) {
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
	keys := make([]string, 0, len(asked.Archive))
	for key := range asked.Archive {
		keys = append(keys, key)
	}
	sort.Strings(keys) // Velero's order is that of a Go map: any.
	var err error
	t.host.withManager(func(m clientmgmt.Manager) { err = t.deleteItems(m, backup, asked.Archive, keys) })
	answer := map[string]any{"ended": err == nil}
	if err != nil && !errors.Is(err, errServerEnded) {
		return answer, err
	}
	if err == nil {
		if err := t.cluster.delete("backups.velero.io", namespaceOfVelero, backup.Name); err != nil && !errors.Is(err, errNotFound) {
			return answer, err
		}
	}
	return answer, nil
}

func (t *teller) deleteItems(m clientmgmt.Manager, backup *api.Backup, items archive, keys []string) error {
	actions, err := m.GetDeleteItemActions()
	if err != nil {
		return err
	}
	for _, key := range keys {
		resource, rest, _ := strings.Cut(key, "/")
		namespace, _, _ := strings.Cut(rest, "/")
		item := object(string(items[key]))
		for _, action := range actions {
			wanted, err := applies(action, resource, namespace, item.GetLabels())
			if err == nil && wanted {
				err = action.Execute(&velero.DeleteItemActionExecuteInput{Item: item, Backup: backup})
			}
			if err != nil {
				if err := t.fail(key, err); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

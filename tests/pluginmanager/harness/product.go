package main

import (
	"fmt"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	api "github.com/vmware-tanzu/velero/pkg/apis/velero/v1"
	"github.com/vmware-tanzu/velero/pkg/features"
	"github.com/vmware-tanzu/velero/pkg/plugin/clientmgmt"
	"github.com/vmware-tanzu/velero/pkg/plugin/velero"
)

// handsOffTime is what a call may take that has nothing to do, or no server to ask.
const handsOffTime = 5 * time.Second

// ours are the names that the product registers, with the resource that each is for.
var ours = []struct{ name, resource string }{
	{"velero.io/csi-pvc", "persistentvolumeclaims"},
	{"velero.io/csi-vs", "volumesnapshots.snapshot.storage.k8s.io"},
	{"velero.io/csi-vsc", "volumesnapshotcontents.snapshot.storage.k8s.io"},
	{"velero.io/csi-vsclass", "volumesnapshotclasses.snapshot.storage.k8s.io"},
}

// standIns are the names that Velero 1.13 wants registered before it restores a CSI snapshot.
var standIns = struct{ backup, restore string }{"velero.io/csi-pvc-backupper", "velero.io/csi-pvc-restorer"}

func standsIn(h *host) bool {
	return h.minor == 13 && features.IsEnabled(api.CSIFeatureFlag)
}

// samples are items as a server passes them, with unknown fields and large numbers.
var samples = map[string]string{
	"velero.io/csi-pvc": `{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"c","namespace":"n","uid":"u1",` +
		`"generation":` + bigNumber + `},"spec":{"volumeName":"pv","storageClassName":"s","resources":{"requests":{"storage":"1Gi"}},` +
		`"unknown":[1.5,{}]},"status":{"phase":"Bound"}}`,
	"velero.io/csi-vs": `{"apiVersion":"snapshot.storage.k8s.io/v1","kind":"VolumeSnapshot","metadata":{"name":"s","namespace":"n","uid":"u2"},` +
		`"spec":{"source":{"persistentVolumeClaimName":"c"}},"status":{"readyToUse":true,"unknown":` + bigNumber + `}}`,
	"velero.io/csi-vsc": `{"apiVersion":"snapshot.storage.k8s.io/v1","kind":"VolumeSnapshotContent","metadata":{"name":"sc","uid":"u3"},` +
		`"spec":{"driver":"d","deletionPolicy":"Delete","source":{"volumeHandle":"h"},"volumeSnapshotRef":{"name":"s","namespace":"n"}},` +
		`"status":{"restoreSize":` + bigNumber + `}}`,
	"velero.io/csi-vsclass": `{"apiVersion":"snapshot.storage.k8s.io/v1","kind":"VolumeSnapshotClass","metadata":{"name":"k","uid":"u4"},` +
		`"driver":"d","deletionPolicy":"Delete","parameters":{"a":"b"}}`,
}

func runProduct(r *report, h *host) {
	r.run("discovery lists every action under its kind", func() { checkListing(h) })
	r.run("AppliesTo names one resource each", func() { h.withManager(func(m clientmgmt.Manager) { checkResources(h, m) }) })
	if standsIn(h) {
		r.run("stand-ins are found and asked for no item", func() { h.withManager(checkStandIns) })
	}
	r.run("backup leaves alone what it has no part in", func() { h.withManager(checkBackupHandsOff) })
	r.run("restore leaves a class without secrets alone", func() { h.withManager(checkRestoreHandsOff) })
	r.run("an API server that is not there is an error, soon", func() { h.withManager(checkNoServer) })
	r.run("Progress and Cancel of an unknown operation", func() { h.withManager(checkUnknownOperation) })
	r.run("no error and no warning in the host's log", func() {
		// Before the kill: the host may stumble over the pipes of a process that was killed.
		for _, line := range h.recorder.worst() {
			check(strings.Contains(line, "kubeconfig"), "%s", line)
		}
	})
	r.run("after kill -9 the manager starts the plugin again", func() { checkProductRestart(h) })
	r.run("CleanupClients leaves nothing, in time", func() {
		took := h.withManager(func(m clientmgmt.Manager) {
			_, err := m.GetBackupItemActionV2(ours[0].name)
			checkNoError(err, "get")
		})
		check(took < killGrace && len(h.pids()) == 0, "took %v, processes %v", took, h.pids())
		_, unwilling := h.recorder.find("failed to exit gracefully")
		check(!unwilling, "the host had to kill the plugin")
	})
}

func checkListing(h *host) {
	checkNoError(h.registry.DiscoverPlugins(), "DiscoverPlugins")
	want := map[string]string{
		"BackupItemActionV2": "[velero.io/csi-pvc velero.io/csi-vs velero.io/csi-vsc velero.io/csi-vsclass " +
			"velero.io/csi-vgs velero.io/csi-vgsc velero.io/csi-vgsclass velero.io/csi-dataupload " +
			"velero.io/unclaimed-volumes velero.io/longhorn-volume velero.io/longhorn-snapshot]",
		"RestoreItemActionV2": "[velero.io/csi-pvc velero.io/csi-pv velero.io/csi-vs velero.io/csi-vsc velero.io/csi-vsclass " +
			"velero.io/csi-vgs velero.io/csi-vgsc velero.io/csi-vgsclass velero.io/longhorn-guard " +
			"velero.io/longhorn-restore]",
		"DeleteItemAction": "[velero.io/csi-dataupload velero.io/csi-vs velero.io/csi-vsc velero.io/csi-vgsc " +
			"velero.io/longhorn-snapshot]",
		"ItemBlockAction":   "[velero.io/csi-pvc]",
		"BackupItemAction":  "[]",
		"RestoreItemAction": "[]",
	}
	if h.minor < 15 {
		want["ItemBlockAction"] = "[]"
	}
	if standsIn(h) {
		want["BackupItemActionV2"] = strings.Replace(want["BackupItemActionV2"], "]", " "+standIns.backup+"]", 1)
		want["RestoreItemActionV2"] = strings.Replace(want["RestoreItemActionV2"], "]", " "+standIns.restore+"]", 1)
	}
	for kind, names := range want {
		check(fmt.Sprint(h.names(kind)) == names, "%s: %v, want %s", kind, h.names(kind), names)
	}
}

func checkResources(h *host, m clientmgmt.Manager) {
	for _, action := range ours {
		want := fmt.Sprint([]string{action.resource})
		backup, err := m.GetBackupItemActionV2(action.name)
		checkNoError(err, action.name)
		selector, err := backup.AppliesTo()
		check(err == nil && fmt.Sprint(selector.IncludedResources) == want, "backup %s: %v %v", action.name, selector, err)
		restore, err := m.GetRestoreItemActionV2(action.name)
		checkNoError(err, action.name)
		selector, err = restore.AppliesTo()
		check(err == nil && fmt.Sprint(selector.IncludedResources) == want, "restore %s: %v %v", action.name, selector, err)
	}
	for _, action := range ours[1:3] {
		deletion, err := m.GetDeleteItemAction(action.name)
		checkNoError(err, action.name)
		selector, err := deletion.AppliesTo()
		check(err == nil && fmt.Sprint(selector.IncludedResources) == fmt.Sprint([]string{action.resource}),
			"delete %s: %v %v", action.name, selector, err)
	}
	if h.minor >= 15 {
		checkProductItemBlock(m)
	}
}

// checkStandIns: the selectors match no claim, whatever its labels, and a call changes nothing.
func checkStandIns(m clientmgmt.Manager) {
	backup, err := m.GetBackupItemActionV2(standIns.backup)
	checkNoError(err, "get")
	restore, err := m.GetRestoreItemActionV2(standIns.restore)
	checkNoError(err, "get")
	for _, action := range []velero.Applicable{backup, restore} {
		resources, err := action.AppliesTo()
		checkNoError(err, "AppliesTo")
		selector, err := labels.Parse(resources.LabelSelector)
		checkNoError(err, "selector")
		check(!selector.Matches(labels.Set{}) && !selector.Matches(labels.Set{"velero.io/csi-delta": ""}), "selector %v", selector)
	}
	item := object(samples["velero.io/csi-pvc"])
	got, more, operation, post, err := backup.Execute(item, newBackup())
	checkNoError(err, "backup")
	check(marshal(got.(*unstructured.Unstructured)) == marshal(item), "item %v", got)
	check(len(more)+len(post) == 0 && operation == "", "%v %v %q", more, post, operation)
	output, err := restore.Execute(&velero.RestoreItemActionExecuteInput{Item: item, ItemFromBackup: item, Restore: newRestore()})
	checkNoError(err, "restore")
	check(marshal(output.UpdatedItem.(*unstructured.Unstructured)) == marshal(item), "item %v", output.UpdatedItem)
}

// checkBackupHandsOff: in the finalizing phase, and anywhere without EnableCSI, a claim, a content
// and a class come back as they are, and nothing is asked of anybody.
func checkBackupHandsOff(m clientmgmt.Manager) {
	backup := newBackup()
	if features.IsEnabled(api.CSIFeatureFlag) {
		backup.Status.Phase = api.BackupPhaseFinalizing
	}
	for _, action := range ours {
		if action.name == "velero.io/csi-vs" && features.IsEnabled(api.CSIFeatureFlag) {
			continue // In that phase it deletes or keeps the snapshot, which takes an API server.
		}
		client, err := m.GetBackupItemActionV2(action.name)
		checkNoError(err, action.name)
		start := time.Now()
		item, more, operation, post, err := client.Execute(object(samples[action.name]), backup)
		checkNoError(err, action.name)
		check(marshal(item.(*unstructured.Unstructured)) == marshal(object(samples[action.name])), "%s: %v", action.name, item)
		check(len(more)+len(post) == 0 && operation == "", "%s: %v %v %q", action.name, more, post, operation)
		check(time.Since(start) < handsOffTime, "%s took %v", action.name, time.Since(start))
	}
}

func checkRestoreHandsOff(m clientmgmt.Manager) {
	client, err := m.GetRestoreItemActionV2("velero.io/csi-vsclass")
	checkNoError(err, "get")
	item := object(samples["velero.io/csi-vsclass"])
	output, err := client.Execute(&velero.RestoreItemActionExecuteInput{Item: item, ItemFromBackup: item, Restore: newRestore()})
	checkNoError(err, "Execute")
	check(marshal(output.UpdatedItem.(*unstructured.Unstructured)) == marshal(item), "item %v", output.UpdatedItem)
	check(!output.SkipRestore && output.OperationID == "", "output %+v", output)
}

func checkNoServer(m clientmgmt.Manager) {
	if !features.IsEnabled(api.CSIFeatureFlag) {
		return
	}
	client, err := m.GetBackupItemActionV2("velero.io/csi-pvc")
	checkNoError(err, "get")
	start := time.Now()
	_, _, _, _, err = client.Execute(object(samples["velero.io/csi-pvc"]), newBackup())
	checkError(err, "none") // The path of the kubeconfig that is not there.
	check(time.Since(start) < handsOffTime, "took %v", time.Since(start))
}

func checkUnknownOperation(m clientmgmt.Manager) {
	for _, action := range ours {
		backup, err := m.GetBackupItemActionV2(action.name)
		checkNoError(err, action.name)
		progress, err := backup.Progress("no-operation", newBackup())
		check(err != nil || !progress.Completed || progress.Err != "", "backup %s: %+v", action.name, progress)
		restore, err := m.GetRestoreItemActionV2(action.name)
		checkNoError(err, action.name)
		progress, err = restore.Progress("no-operation", newRestore())
		check(err != nil || !progress.Completed || progress.Err != "", "restore %s: %+v", action.name, progress)
	}
}

func checkProductRestart(h *host) {
	h.withManager(func(m clientmgmt.Manager) {
		client, err := m.GetBackupItemActionV2(ours[0].name)
		checkNoError(err, "get")
		before := h.pids()
		check(len(before) == 1, "processes %v", before)
		checkNoError(syscall.Kill(before[0], syscall.SIGKILL), "kill")
		check(waitUntil(10*time.Second, func() bool {
			_, err := client.AppliesTo()
			return err == nil && len(h.pids()) == 1 &&
				h.pids()[0] != before[0]
		}), "no restart, processes %v", h.pids())
	})
}

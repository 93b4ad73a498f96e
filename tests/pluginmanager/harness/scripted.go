package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vmware-tanzu/velero/pkg/plugin/clientmgmt"
	"github.com/vmware-tanzu/velero/pkg/plugin/velero"
	biav2 "github.com/vmware-tanzu/velero/pkg/plugin/velero/backupitemaction/v2"
	riav2 "github.com/vmware-tanzu/velero/pkg/plugin/velero/restoreitemaction/v2"
)

const (
	scripted        = "example.io/scripted"
	cleanupTriesMax = 3
	killGrace       = 2 * time.Second // What the host leaves a plugin between its request and SIGKILL.
	hugeBytes       = 32 << 20
	bigNumber       = "9007199254740993" // 2^53+1: lost by readers of numbers as doubles.
	parallelism     = 16
)

// wish is an item whose annotation tells the scripted plugin what to do.
func wish(what string) *unstructured.Unstructured {
	return object(`{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"n","namespace":"ns",` +
		`"generation":` + bigNumber + `,"annotations":{"do":"` + what + `"}},"spec":{"unknown":{"deep":[1,2.5,null,true]}}}`)
}

func getBackup(m clientmgmt.Manager) biav2.BackupItemAction {
	action, err := m.GetBackupItemActionV2(scripted)
	checkNoError(err, "get the backup action")
	return action
}

func getRestore(m clientmgmt.Manager) riav2.RestoreItemAction {
	action, err := m.GetRestoreItemActionV2(scripted)
	checkNoError(err, "get the restore action")
	return action
}

// describe writes items as "resource.group/namespace/name".
func describe(items []velero.ResourceIdentifier) string {
	var texts []string
	for _, item := range items {
		texts = append(texts, item.GroupResource.String()+"/"+item.Namespace+"/"+item.Name)
	}
	return strings.Join(texts, " ")
}

func checkError(err error, text string) {
	check(err != nil && strings.Contains(err.Error(), text), "want an error with %q, got %v", text, err)
}

func checkSelector(selector velero.ResourceSelector, err error) {
	checkNoError(err, "AppliesTo")
	check(fmt.Sprint(selector) == "{[] [kube-system] [persistentvolumeclaims] [] a=b}", "selector %v", selector)
}

func runScripted(r *report, h *host) {
	r.run("discovery finds every kind this host knows", func() {
		checkNoError(h.registry.DiscoverPlugins(), "DiscoverPlugins")
		for _, kind := range []string{"BackupItemActionV2", "RestoreItemActionV2", "DeleteItemAction"} {
			check(fmt.Sprint(h.names(kind)) == "["+scripted+"]", "%s: %v", kind, h.names(kind))
		}
		wantBlock := "[]"
		if h.minor >= 15 {
			wantBlock = "[" + scripted + "]"
		}
		check(fmt.Sprint(h.names("ItemBlockAction")) == wantBlock, "ItemBlockAction: %v", h.names("ItemBlockAction"))
	})
	r.run("discovery leaves no process and no error", func() {
		check(waitUntil(killGrace, func() bool { return len(h.pids()) == 0 }), "processes %v", h.pids())
		check(len(h.recorder.worst()) == 0, "log %v", h.recorder.worst())
	})
	runScriptedBackup(r, h)
	runScriptedRestore(r, h)
	runScriptedOthers(r, h)
	runScriptedProcess(r, h)
}

func runScriptedBackup(r *report, h *host) {
	r.run("backup AppliesTo", func() {
		h.withManager(func(m clientmgmt.Manager) { checkSelector(getBackup(m).AppliesTo()) })
	})
	r.run("backup an item left alone comes back unchanged", func() {
		h.withManager(func(m clientmgmt.Manager) {
			item := object(`{"kind":"X","apiVersion":"v1","n":` + bigNumber + `,"f":1.5,"e":{},"a":[],"z":null}`)
			back, more, operation, post, err := getBackup(m).Execute(item, newBackup())
			checkNoError(err, "Execute")
			check(marshal(back.(*unstructured.Unstructured)) == marshal(item), "item %v", back)
			check(len(more) == 0 && len(post) == 0 && operation == "", "extras %v %v %q", more, post, operation)
		})
	})
	r.run("backup a changed item keeps what was not touched", func() {
		h.withManager(func(m clientmgmt.Manager) {
			back, more, operation, post, err := getBackup(m).Execute(wish("operation"), newBackup())
			checkNoError(err, "Execute")
			want := wish("operation")
			want.SetAnnotations(map[string]string{"do": "operation", "seen": "yes"})
			check(marshal(back.(*unstructured.Unstructured)) == marshal(want), "item %v", back)
			check(operation == "op-1", "operation %q", operation)
			check(describe(more) == "persistentvolumes//pv1 datauploads.velero.io/velero/du1", "more %s", describe(more))
			check(describe(post) == "datauploads.velero.io/velero/du1", "post %s", describe(post))
		})
	})
	r.run("backup errors and exceptions are errors, and the process lives on", func() {
		h.withManager(func(m clientmgmt.Manager) {
			action := getBackup(m)
			before := h.pids()
			for what, text := range map[string]string{"fail": "asked to fail", "throw": "plugin panicked: asked to throw",
				"throw-int": "plugin panicked", "fail-badly": "bad bytes", "not-an-object": "no Kubernetes object"} {
				_, _, _, _, err := action.Execute(wish(what), newBackup())
				checkError(err, text)
			}
			check(fmt.Sprint(h.pids()) == fmt.Sprint(before), "processes %v, before %v", h.pids(), before)
		})
	})
	r.run("backup Progress and Cancel", func() {
		h.withManager(func(m clientmgmt.Manager) { checkProgress(getBackup(m)) })
	})
	r.run("backup 32 MiB both ways", func() {
		h.withManager(func(m clientmgmt.Manager) {
			item := wish("huge")
			checkNoError(unstructured.SetNestedField(item.Object, strings.Repeat("u", hugeBytes), "spec", "up"), "item")
			back, _, _, _, err := getBackup(m).Execute(item, newBackup())
			checkNoError(err, "Execute")
			annotations := back.(*unstructured.Unstructured).GetAnnotations()
			check(len(annotations["huge"]) == hugeBytes, "%d bytes came back", len(annotations["huge"]))
		})
	})
}

// checkProgress covers every answer of Progress that the host tells apart.
func checkProgress(action biav2.BackupItemAction) {
	done, err := action.Progress("done", newBackup())
	checkNoError(err, "Progress of a finished operation")
	check(done.Completed && done.Err == "" && done.NCompleted == 1 && done.NTotal == 2 && done.OperationUnits == "Bytes" &&
		done.Description == "half way" && done.Started.Unix() == 1 && done.Updated.UnixNano() == 2000000003, "progress %+v", done)
	failed, err := action.Progress("failed", newBackup())
	checkNoError(err, "Progress of a failed operation")
	check(failed.Completed && strings.HasPrefix(failed.Err, "it failed"), "progress %+v", failed)
	transient, err := action.Progress("transient", newBackup())
	checkNoError(err, "Progress in passing trouble")
	check(!transient.Completed && strings.Contains(transient.Description, "away"), "progress %+v", transient)
	unknown, err := action.Progress("unknown", newBackup())
	checkNoError(err, "Progress of an operation not started")
	check(unknown.Started.IsZero() && !unknown.Completed, "progress %+v", unknown)
	_, err = action.Progress("lost", newBackup())
	checkError(err, "no such operation")
	_, err = action.Progress("throw", newBackup())
	checkError(err, "plugin panicked")
	checkNoError(action.Cancel("running", newBackup()), "Cancel")
	checkError(action.Cancel("lost", newBackup()), "no such operation")
}

func runScriptedRestore(r *report, h *host) {
	execute := func(m clientmgmt.Manager, item *unstructured.Unstructured) (*velero.RestoreItemActionExecuteOutput, error) {
		return getRestore(m).Execute(&velero.RestoreItemActionExecuteInput{Item: item, ItemFromBackup: wish(""), Restore: newRestore()})
	}
	r.run("restore AppliesTo", func() {
		h.withManager(func(m clientmgmt.Manager) { checkSelector(getRestore(m).AppliesTo()) })
	})
	r.run("restore an item left alone comes back unchanged", func() {
		h.withManager(func(m clientmgmt.Manager) {
			output, err := execute(m, wish(""))
			checkNoError(err, "Execute")
			check(marshal(output.UpdatedItem.(*unstructured.Unstructured)) == marshal(wish("")), "item %v", output.UpdatedItem)
			check(!output.SkipRestore && !output.WaitForAdditionalItems && output.OperationID == "", "output %+v", output)
		})
	})
	r.run("restore operation, additional items, waiting, skipping", func() {
		h.withManager(func(m clientmgmt.Manager) {
			output, err := execute(m, wish("operation"))
			checkNoError(err, "Execute")
			check(output.OperationID == "op-2" && output.WaitForAdditionalItems && len(output.AdditionalItems) == 2 &&
				output.AdditionalItemsReadyTimeout == time.Minute+5*time.Millisecond, "output %+v", output)
			ready, err := getRestore(m).AreAdditionalItemsReady(output.AdditionalItems, newRestore())
			check(err == nil && ready, "ready %v %v", ready, err)
			ready, err = getRestore(m).AreAdditionalItemsReady(nil, newRestore())
			check(err == nil && !ready, "ready %v %v", ready, err)
			output, err = execute(m, wish("skip"))
			check(err == nil && output.SkipRestore, "skip %+v %v", output, err)
		})
	})
	r.run("restore errors, Progress and Cancel", func() {
		h.withManager(func(m clientmgmt.Manager) {
			_, err := execute(m, wish("fail"))
			checkError(err, "asked to fail")
			_, err = execute(m, wish("throw"))
			checkError(err, "plugin panicked: asked to throw")
			progress, err := getRestore(m).Progress("done", newRestore())
			check(err == nil && progress.Completed && progress.NTotal == 2, "progress %+v %v", progress, err)
			checkNoError(getRestore(m).Cancel("running", newRestore()), "Cancel")
			checkError(getRestore(m).Cancel("lost", newRestore()), "no such operation")
		})
	})
}

func runScriptedOthers(r *report, h *host) {
	r.run("delete AppliesTo, Execute and errors", func() {
		h.withManager(func(m clientmgmt.Manager) {
			action, err := m.GetDeleteItemAction(scripted)
			checkNoError(err, "get the delete action")
			checkSelector(action.AppliesTo())
			checkNoError(action.Execute(&velero.DeleteItemActionExecuteInput{Item: wish(""), Backup: newBackup()}), "Execute")
			checkError(action.Execute(&velero.DeleteItemActionExecuteInput{Item: wish("fail"), Backup: newBackup()}), "asked to fail")
		})
	})
	r.run("item block AppliesTo, related items and errors", func() {
		if h.minor >= 15 {
			h.withManager(checkItemBlock)
		}
	})
	r.run("log lines arrive with level and fields, none of them fatal to the host", func() {
		h.withManager(func(m clientmgmt.Manager) {
			_, _, _, _, err := getBackup(m).Execute(wish("log"), newBackup())
			checkNoError(err, "Execute")
			for text, level := range map[string]logrus.Level{"an info line": logrus.InfoLevel,
				"a warn line": logrus.WarnLevel, "an error line": logrus.ErrorLevel} {
				line, found := h.recorder.await(text)
				check(found && line.level == level, "%s: %v %v", text, found, line.level)
			}
			info, _ := h.recorder.find("an info line")
			check(info.fields["name"] == "7", "fields %v", info.fields)
			_, found := h.recorder.find("a debug line")
			check(found == pluginLogsDebug(h), "debug line found: %v", found)
		})
	})
}

// pluginLogsDebug tells whether the command line asked the plugin for debug lines: before 1.15 the
// manager passes its own level on, afterwards the server's arguments.
func pluginLogsDebug(h *host) bool {
	return h.minor < 15 || strings.Contains(strings.Join(os.Args, " "), "--log-level=debug")
}

func runScriptedProcess(r *report, h *host) {
	r.run("16 calls at once, in one process", func() {
		h.withManager(func(m clientmgmt.Manager) {
			action := getBackup(m)
			errors := make(chan error, parallelism)
			var group sync.WaitGroup
			for range parallelism {
				group.Add(1)
				go func() {
					defer group.Done()
					_, _, _, _, err := action.Execute(wish("operation"), newBackup())
					errors <- err
				}()
			}
			group.Wait()
			close(errors)
			for err := range errors {
				checkNoError(err, "Execute")
			}
			check(len(h.pids()) == 1, "processes %v", h.pids())
		})
	})
	r.run("two managers have two processes", func() {
		h.withManager(func(first clientmgmt.Manager) {
			getBackup(first)
			h.withManager(func(second clientmgmt.Manager) {
				getBackup(second)
				check(len(h.pids()) == 2, "processes %v", h.pids())
			})
			_, _, _, _, err := getBackup(first).Execute(wish(""), newBackup())
			checkNoError(err, "Execute after the other ended")
		})
	})
	for _, how := range []string{"kill -9", "crash"} {
		r.run("after "+how+" the manager starts the plugin again", func() { checkRestart(h, how) })
	}
	for _, what := range []string{"idle", "hang", "hang-deaf"} {
		r.run("CleanupClients with a plugin that is "+what+" leaves nothing, in time", func() { checkCleanup(h, what) })
	}
}

func checkRestart(h *host, how string) {
	h.withManager(func(m clientmgmt.Manager) {
		action := getBackup(m)
		before := h.pids()
		check(len(before) == 1, "processes %v", before)
		if how == "crash" {
			_, _, _, _, err := action.Execute(wish("crash"), newBackup())
			check(err != nil, "the crash went unnoticed")
			line, found := h.recorder.await("plugin terminated")
			check(found && line.level == logrus.ErrorLevel, "the crash was not reported: %v", line)
		} else {
			checkNoError(syscall.Kill(before[0], syscall.SIGKILL), "kill")
		}
		restarted := waitUntil(10*time.Second, func() bool {
			_, _, _, _, err := action.Execute(wish(""), newBackup())
			return err == nil
		})
		check(restarted, "no restart")
		check(len(h.pids()) == 1 && h.pids()[0] != before[0], "processes %v, before %v", h.pids(), before)
	})
	// A process that did not end by itself leaves its socket; that is the one thing to sweep here.
	for _, socket := range sockets() {
		checkNoError(os.Remove(socket), "remove a dead socket")
	}
}

func sockets() []string {
	found, err := filepath.Glob(filepath.Join(os.TempDir(), "plugin*"))
	checkNoError(err, "list sockets")
	return found
}

// The host leaves a plugin two seconds, which a busy machine may not: of three times once will do.
func checkCleanup(h *host, what string) {
	took := cleanUp(h, what)
	for tries := 1; took >= killGrace && tries < cleanupTriesMax; tries++ {
		for _, socket := range sockets() { // Of one that was killed.
			checkNoError(os.Remove(socket), "remove a dead socket")
		}
		h.recorder.forget()
		took = cleanUp(h, what)
	}
	check(took < killGrace, "CleanupClients took %v", took)
	check(len(h.pids()) == 0, "processes %v", h.pids())
	check(len(sockets()) == 0, "sockets %v", sockets())
	_, unwilling := h.recorder.find("failed to exit gracefully")
	check(!unwilling, "the host had to kill the plugin")
}

// cleanUp ends a plugin that is idle, or hangs in a call, and returns how long that took.
func cleanUp(h *host, what string) time.Duration {
	ended := make(chan error, 1)
	took := h.withManager(func(m clientmgmt.Manager) {
		action := getBackup(m)
		if what == "idle" {
			ended <- nil
			return
		}
		go func() {
			_, _, _, _, err := action.Execute(wish(what), newBackup())
			ended <- err
		}()
		_, running := h.recorder.await("hanging in " + what)
		check(running, "the call did not start")
	})
	<-ended
	return took
}

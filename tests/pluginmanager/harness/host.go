package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	api "github.com/vmware-tanzu/velero/pkg/apis/velero/v1"
	"github.com/vmware-tanzu/velero/pkg/plugin/clientmgmt"
	"github.com/vmware-tanzu/velero/pkg/plugin/clientmgmt/process"
	"github.com/vmware-tanzu/velero/pkg/plugin/framework/common"
)

// logLine is one line of the host's log.
type logLine struct {
	level  logrus.Level
	text   string
	fields logrus.Fields
}

// logRecorder is a logrus hook that keeps every line; safe for many goroutines.
type logRecorder struct {
	mutex sync.Mutex
	lines []logLine
}

func (r *logRecorder) Levels() []logrus.Level { return logrus.AllLevels }

func (r *logRecorder) Fire(entry *logrus.Entry) error {
	fields := logrus.Fields{}
	for key, value := range entry.Data {
		fields[key] = value
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.lines = append(r.lines, logLine{entry.Level, entry.Message, fields})
	return nil
}

// find returns the first line that contains text.
func (r *logRecorder) find(text string) (logLine, bool) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, line := range r.lines {
		if strings.Contains(line.text, text) {
			return line, true
		}
	}
	return logLine{}, false
}

// waitUntil polls for at most `grace`: the plugin's stderr is read beside its answers.
func (r *logRecorder) await(text string) (line logLine, found bool) {
	waitUntil(5*time.Second, func() bool {
		line, found = r.find(text)
		return found
	})
	return line, found
}

// hostRace is what go-plugin 1.6 logs when it reaps an ended plugin before its own reader of stdout has seen
// the end: a race between two goroutines of the host, on a loaded machine. No plugin can cause or avoid it.
const hostRace = "error encountered while scanning stdout"

// worst returns the lines at warning level and above, but for hostRace.
func (r *logRecorder) worst() []string {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	var texts []string
	for _, line := range r.lines {
		if line.level <= logrus.WarnLevel && !strings.Contains(line.text, hostRace) {
			texts = append(texts, line.level.String()+": "+line.text)
		}
	}
	return texts
}

// waitUntil polls a condition of another process; false when it never held.
func waitUntil(grace time.Duration, condition func() bool) bool {
	for deadline := time.Now().Add(grace); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if condition() {
			return true
		}
	}
	return condition()
}

// host is the part of a Velero server that deals with plugins.
type host struct {
	dir      string
	minor    int
	log      *logrus.Logger
	recorder *logRecorder
	registry process.Registry
}

// newHost is a host that logs at a level, and has its plugins log.
func newHost(dir string, minor int, level logrus.Level) *host {
	logger := logrus.New()
	logger.SetOutput(&bytes.Buffer{})
	logger.SetLevel(level)
	h := &host{dir: dir, minor: minor, log: logger, recorder: &logRecorder{}}
	logger.AddHook(h.recorder)
	h.registry = process.NewRegistry(dir, logger, logger.Level)
	return h
}

// withManager runs body with a manager as one backup or restore has it, and returns how long the
// manager took to end its processes.
func (h *host) withManager(body func(clientmgmt.Manager)) time.Duration {
	manager := clientmgmt.NewManager(h.log, h.log.Level, h.registry)
	var took time.Duration
	func() {
		defer func() {
			start := time.Now()
			manager.CleanupClients()
			took = time.Since(start)
		}()
		body(manager)
	}()
	return took
}

// names returns the registered names of one kind, in order.
func (h *host) names(kind string) []string {
	var names []string
	for _, id := range h.registry.List(common.PluginKind(kind)) {
		names = append(names, id.Name)
	}
	return names
}

// pids returns the processes that run the binary under test.
func (h *host) pids() []int {
	var pids []int
	entries, err := filepath.Glob("/proc/[0-9]*/exe")
	checkNoError(err, "list processes")
	for _, entry := range entries {
		target, err := os.Readlink(entry)
		if err == nil && filepath.Dir(target) == h.dir {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(entry)))
			checkNoError(err, "process id")
			pids = append(pids, pid)
		}
	}
	return pids
}

// object parses an item as the host holds it: integers stay int64.
func object(text string) *unstructured.Unstructured {
	item := &unstructured.Unstructured{}
	checkNoError(item.UnmarshalJSON([]byte(text)), "parse the item of a case")
	return item
}

// marshal is how the host writes an item to the archive.
func marshal(item interface{ MarshalJSON() ([]byte, error) }) string {
	text, err := item.MarshalJSON()
	checkNoError(err, "marshal")
	return string(text)
}

func newBackup() *api.Backup {
	backup := &api.Backup{}
	backup.Namespace, backup.Name, backup.UID = "velero", "b1", "0d9bd6e5-6b6b-4b6d-9d6e-000000000001"
	backup.Status.Phase = api.BackupPhaseInProgress
	return backup
}

func newRestore() *api.Restore {
	restore := &api.Restore{}
	restore.Namespace, restore.Name, restore.UID = "velero", "r1", "0d9bd6e5-6b6b-4b6d-9d6e-000000000002"
	restore.Spec.BackupName = "b1"
	restore.Status.Phase = api.RestorePhaseInProgress
	return restore
}

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"

	"github.com/sirupsen/logrus"

	"github.com/vmware-tanzu/velero/pkg/plugin/clientmgmt/process"
	"github.com/vmware-tanzu/velero/pkg/plugin/framework"
	"github.com/vmware-tanzu/velero/pkg/plugin/framework/common"
)

// A request is one line of input: {"seq", "op", "server", ...}, something that a Velero server does in
// one cluster. "server" makes one from a folder of plugins and a kubeconfig, "end" forgets it; "backup",
// "restore" and "delete" are told by story.go.

// server is one Velero server of a story.
type server struct {
	host    *host
	cluster *cluster
}

// stories holds the servers by name.
type stories struct {
	minor      int
	mutex      sync.Mutex
	servers    map[string]*server
	discovered process.Registry // of the first server: all have the same plugin
}

// movedRegistry has what another one discovered, with the plugin in a folder of its own: discovering takes two processes.
type movedRegistry struct {
	process.Registry
	folder string
}

func (r movedRegistry) moved(id framework.PluginIdentifier) framework.PluginIdentifier {
	if id.Command != os.Args[0] { // That one has the plugins of the server itself.
		id.Command = filepath.Join(r.folder, filepath.Base(id.Command))
	}
	return id
}

func (r movedRegistry) List(kind common.PluginKind) []framework.PluginIdentifier {
	all := slices.Clone(r.Registry.List(kind))
	for i := range all {
		all[i] = r.moved(all[i])
	}
	return all
}

func (r movedRegistry) Get(kind common.PluginKind, name string) (framework.PluginIdentifier, error) {
	id, err := r.Registry.Get(kind, name)
	return r.moved(id), err
}

// discover gives a host the registry that it works with.
func (s *stories) discover(h *host) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.discovered == nil {
		if err := h.registry.DiscoverPlugins(); err != nil {
			return err
		}
		s.discovered = h.registry
	}
	h.registry = movedRegistry{s.discovered, h.dir}
	return nil
}

// runStories answers requests, many at a time: each a line, in the order in which they end.
func runStories(minor int) {
	all := &stories{minor: minor, servers: map[string]*server{}}
	input := bufio.NewScanner(os.Stdin)
	input.Buffer(nil, itemBytesMax)
	answers := json.NewEncoder(os.Stdout)
	var writing sync.Mutex
	var running sync.WaitGroup
	for input.Scan() {
		line := append([]byte{}, input.Bytes()...)
		running.Add(1)
		go func() {
			defer running.Done()
			answer := all.answer(line)
			writing.Lock()
			defer writing.Unlock()
			if answers.Encode(answer) != nil {
				os.Exit(1)
			}
		}()
	}
	running.Wait()
}

func (s *stories) answer(line []byte) (answer map[string]any) {
	var asked struct{ Seq int }
	answer = map[string]any{}
	defer func() {
		switch problem := recover().(type) {
		case nil:
		case failure:
			answer["broken"] = problem.text
		default:
			answer["broken"] = fmt.Sprintf("the host panicked: %v", problem)
		}
		answer["seq"] = asked.Seq
	}()
	checkNoError(json.Unmarshal(line, &asked), "parse a request")
	var command struct {
		Op, Server, Folder, Kubeconfig, GroupVersion string
		StopAtError                                  bool
	}
	checkNoError(json.Unmarshal(line, &command), "parse a request")
	if command.Op == "server" {
		made := &server{host: newHost(command.Folder, s.minor, logrus.InfoLevel)}
		var err error
		made.cluster, err = newCluster(command.Kubeconfig, command.GroupVersion)
		checkNoError(err, "kubeconfig")
		checkNoError(s.discover(made.host), "DiscoverPlugins")
		s.mutex.Lock()
		defer s.mutex.Unlock()
		s.servers[command.Server] = made
		return answer
	}
	s.mutex.Lock()
	found := s.servers[command.Server]
	if command.Op == "end" {
		delete(s.servers, command.Server)
	}
	s.mutex.Unlock()
	check(found != nil, "no server %s", command.Server)
	if command.Op == "end" {
		found.cluster.close()
		return answer
	}
	teller := &teller{host: found.host, cluster: found.cluster, stopAtError: command.StopAtError}
	found.host.recorder.forget()
	told, err := teller.tell(command.Op, line)
	for key, value := range told {
		answer[key] = value
	}
	checkNoError(err, command.Op)
	answer["errors"] = teller.errors
	answer["log"] = found.host.recorder.told()
	return answer
}

func (t *teller) tell(op string, line []byte) (map[string]any, error) {
	switch op {
	case "backup":
		var asked backupAsked
		checkNoError(json.Unmarshal(line, &asked), "parse")
		return t.tellBackup(asked)
	case "restore":
		var asked restoreAsked
		checkNoError(json.Unmarshal(line, &asked), "parse")
		return t.tellRestore(asked)
	case "delete":
		var asked deleteAsked
		checkNoError(json.Unmarshal(line, &asked), "parse")
		return t.tellDelete(asked)
	}
	return nil, fmt.Errorf("no request is called %q", op)
}

// forget drops the lines of earlier requests.
func (r *logRecorder) forget() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.lines = nil
}

// told returns the plugin's lines above debug, as "level message key=value...".
func (r *logRecorder) told() []string {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	texts := []string{}
	for _, line := range r.lines {
		if line.level > logrus.InfoLevel {
			continue
		}
		var fields []string
		for key, value := range line.fields {
			fields = append(fields, fmt.Sprintf("%s=%v", key, value))
		}
		sort.Strings(fields)
		texts = append(texts, line.level.String()+" "+line.text+" "+strings.Join(fields, " "))
	}
	return texts
}

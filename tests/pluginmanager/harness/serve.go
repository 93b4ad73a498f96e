package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strings"
	"sync"

	"github.com/sirupsen/logrus"
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
	minor   int
	mutex   sync.Mutex
	servers map[string]*server
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
		made := &server{host: newHost(command.Folder, s.minor)}
		var err error
		made.cluster, err = newCluster(command.Kubeconfig, command.GroupVersion)
		checkNoError(err, "kubeconfig")
		checkNoError(made.host.registry.DiscoverPlugins(), "DiscoverPlugins")
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

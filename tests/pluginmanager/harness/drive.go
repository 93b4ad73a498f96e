package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	api "github.com/vmware-tanzu/velero/pkg/apis/velero/v1"
	"github.com/vmware-tanzu/velero/pkg/plugin/clientmgmt"
)

// itemBytesMax is how long a line of the drive's input may be.
const itemBytesMax = 16 << 20

// answer is one line of the drive's output.
type answer struct {
	Namespace, Name  string
	StartedNs, EndNs int64 // since 1970
	Additional       int
	Error            string
}

// runDrive has one plugin process back up claims, as many at a time as HARNESS_WORKERS says. Its
// input is a Backup, then claims, one JSON object a line; its output is the id of the process, then
// one answer a line for each claim, in the order in which they end.
func runDrive(h *host) {
	workers, err := strconv.Atoi(os.Getenv("HARNESS_WORKERS"))
	checkNoError(err, "HARNESS_WORKERS")
	checkNoError(h.registry.DiscoverPlugins(), "DiscoverPlugins")
	h.withManager(func(m clientmgmt.Manager) {
		action, err := m.GetBackupItemActionV2(ours[0].name)
		checkNoError(err, "get")
		_, err = action.AppliesTo() // Now the process runs.
		checkNoError(err, "AppliesTo")
		pids := h.pids()
		check(len(pids) == 1, "processes %v", pids)
		fmt.Println(pids[0])

		input := bufio.NewScanner(os.Stdin)
		input.Buffer(nil, itemBytesMax)
		check(input.Scan(), "no backup: %v", input.Err())
		backup := &api.Backup{}
		checkNoError(json.Unmarshal(input.Bytes(), backup), "parse the backup")
		claims := make(chan *unstructured.Unstructured)
		answers := json.NewEncoder(os.Stdout)
		var done sync.WaitGroup
		var writing sync.Mutex
		for range workers {
			done.Add(1)
			go func() {
				defer done.Done()
				for claim := range claims {
					found := answer{Namespace: claim.GetNamespace(), Name: claim.GetName(), StartedNs: time.Now().UnixNano()}
					_, more, _, _, err := action.Execute(claim, backup)
					found.EndNs = time.Now().UnixNano()
					found.Additional = len(more)
					if err != nil {
						found.Error = err.Error()
					}
					writing.Lock()
					checkNoError(answers.Encode(found), "write an answer")
					writing.Unlock()
				}
			}()
		}
		for input.Scan() {
			claims <- object(input.Text())
		}
		close(claims)
		done.Wait()
		checkNoError(input.Err(), "read claims")
	})
}

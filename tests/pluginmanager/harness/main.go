// Command harness plays the Velero server for one plugin binary: it finds, starts and calls it with
// Velero's own plugin manager, and prints one line per case.
//
//	harness server [flags of a Velero server...]
//
// The first word has to be "server": the manager cuts it off and, from Velero 1.15 on, hands the rest
// to the plugin. Its settings are in the environment:
//
//	HARNESS_SUITE      product | scripted, or drive: no cases, but as many calls as its input asks for, or stories:
//	                   backups, restores and deletions that its input asks for
//	HARNESS_PLUGIN_DIR the folder with the one binary under test
//	HARNESS_PREFIX     what stands before the name of each case
//	HARNESS_VELERO     the minor version this harness was built with: 13, 14, 16, 18
//	HARNESS_WORKERS    how many calls the drive has under way at a time
package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/vmware-tanzu/velero/pkg/features"
	"github.com/vmware-tanzu/velero/pkg/plugin/framework"
)

// caseTimeout ends the whole run: no host call has a deadline of its own. It finds what hangs; beside
// the journeys a case may get a tenth of a core.
const caseTimeout = 5 * time.Minute

type failure struct{ text string }

// check ends the running case unless ok.
func check(ok bool, format string, args ...any) {
	if !ok {
		panic(failure{fmt.Sprintf(format, args...)})
	}
}

// checkNoError ends the running case on an error.
func checkNoError(err error, what string) {
	if err != nil {
		panic(failure{fmt.Sprintf("%s: %v", what, err)})
	}
}

type report struct {
	prefix         string
	passed, failed int
}

// run runs one case and prints its line. A case that hangs ends the program.
func (r *report) run(name string, body func()) {
	name = r.prefix + name
	start := time.Now()
	watchdog := time.AfterFunc(caseTimeout, func() {
		fmt.Printf("FAIL %s: no answer within %v\n", name, caseTimeout)
		os.Exit(1)
	})
	defer watchdog.Stop()
	defer func() {
		ms := time.Since(start).Milliseconds()
		switch problem := recover().(type) {
		case nil:
			r.passed++
			fmt.Printf("PASS %s: %d ms\n", name, ms)
		case failure:
			r.failed++
			fmt.Printf("FAIL %s: %s\n", name, problem.text)
		default:
			r.failed++
			fmt.Printf("FAIL %s: the host panicked: %v\n", name, problem)
		}
	}()
	body()
}

// serverFeatures takes the features out of our own command line as the server does.
func serverFeatures(args []string) []string {
	for i, arg := range args {
		if value, found := strings.CutPrefix(arg, "--features="); found {
			return strings.Split(value, ",")
		}
		if arg == "--features" && i+1 < len(args) {
			return strings.Split(args[i+1], ",")
		}
	}
	return nil
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "run-plugins" {
		framework.NewServer().Serve() // The host's built-in plugins: none.
		return
	}
	minor, err := strconv.Atoi(os.Getenv("HARNESS_VELERO"))
	if err != nil || len(os.Args) < 2 || os.Args[1] != "server" {
		fmt.Fprintln(os.Stderr, "usage: HARNESS_VELERO=N HARNESS_PLUGIN_DIR=D HARNESS_SUITE=S harness server [flag...]")
		os.Exit(2)
	}
	features.Enable(serverFeatures(os.Args[2:])...)

	if os.Getenv("HARNESS_SUITE") == "stories" {
		runStories(minor)
		return
	}
	results := &report{prefix: os.Getenv("HARNESS_PREFIX")}
	host := newHost(os.Getenv("HARNESS_PLUGIN_DIR"), minor, logrus.DebugLevel)
	switch suite := os.Getenv("HARNESS_SUITE"); suite {
	case "product":
		runProduct(results, host)
	case "scripted":
		runScripted(results, host)
	case "drive":
		runDrive(host)
		return
	default:
		fmt.Fprintf(os.Stderr, "no suite %q\n", suite)
		os.Exit(2)
	}
	fmt.Printf("%d passed, %d failed\n", results.passed, results.failed)
	if results.failed > 0 {
		os.Exit(1)
	}
}

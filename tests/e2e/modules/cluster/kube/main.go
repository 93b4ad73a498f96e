// Program kube is all of Kubernetes that the test bed runs, and its etcd, in one executable: the name it is called by says
// which program it is. They have most packages in common, and a link takes 7 s of a processor.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	_ "time/tzdata"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	manager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// run ends with the exit code of a server.
func run(command *cobra.Command) error {
	os.Exit(cli.Run(command))
	return nil
}

var programs = map[string]func() error{
	"etcd":                    func() error { etcdmain.Main(os.Args); return nil },
	"kube-apiserver":          func() error { return run(apiserver.NewAPIServerCommand()) },
	"kube-controller-manager": func() error { return run(manager.NewControllerManagerCommand()) },
	"kube-scheduler":          func() error { return run(scheduler.NewSchedulerCommand()) },
	"kubelet":                 func() error { return run(kubelet.NewKubeletCommand(context.Background())) },
	"kubectl":                 func() error { return cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()) },
	"csi-registrar":           func() error { return register(os.Args[1:]) },
}

func main() {
	name := filepath.Base(os.Args[0])
	program, known := programs[name]
	if !known {
		fmt.Fprintf(os.Stderr, "%s: no program of that name is in here\n", name)
		os.Exit(2)
	}
	if err := program(); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %s\n", name, err)
		os.Exit(1)
	}
}

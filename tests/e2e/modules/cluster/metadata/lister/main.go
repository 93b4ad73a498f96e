// lister prints, as JSON, what the iterator of the metadata sidecar's module gets of one volume snapshot:
//
//	lister -kubeconfig FILE -namespace NS -snapshot NAME [-base HANDLE] [-starting-offset N] [-max-results N] [-count]
//
// A list of messages, each {"block_metadata_type", "volume_capacity_bytes", "block_metadata": [{"byte_offset",
// "size_bytes"}]}. Numbers that are 0 are left out. With -count the number of extents, alone. The user of the kubeconfig
// must be a service account.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/kubernetes-csi/external-snapshot-metadata/pkg/iterator"
	"k8s.io/client-go/tools/clientcmd"
)

func list(kubeconfig string, args iterator.Args) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	if args.Clients, err = iterator.BuildClients(config); err != nil {
		return err
	}
	return iterator.GetSnapshotMetadata(context.Background(), args)
}

// counter is an emitter that keeps nothing.
type counter struct{ extents int64 }

func (c *counter) SnapshotMetadataIteratorRecord(_ int, metadata iterator.IteratorMetadata) error {
	c.extents += int64(len(metadata.BlockMetadata))
	return nil
}

func (c *counter) SnapshotMetadataIteratorDone(int) error {
	fmt.Println(c.extents)
	return nil
}

func main() {
	args := iterator.Args{Emitter: &iterator.JSONEmitter{Writer: os.Stdout}}
	kubeconfig := flag.String("kubeconfig", "", "kubeconfig of a service account")
	flag.StringVar(&args.Namespace, "namespace", "", "namespace of the VolumeSnapshot")
	flag.StringVar(&args.SnapshotName, "snapshot", "", "VolumeSnapshot to list")
	flag.StringVar(&args.PrevSnapshotID, "base", "", "CSI handle of the base; none: what is allocated")
	flag.Int64Var(&args.StartingOffset, "starting-offset", 0, "byte to begin with")
	maxResults := flag.Int("max-results", 0, "extents in one message; 0: the driver chooses")
	count := flag.Bool("count", false, "print how many extents there are, not which")
	flag.Parse()
	if *count {
		args.Emitter = &counter{}
	}
	args.MaxResults = int32(*maxResults)
	if err := list(*kubeconfig, args); err != nil {
		fmt.Fprintln(os.Stderr, "lister:", err)
		os.Exit(1)
	}
}

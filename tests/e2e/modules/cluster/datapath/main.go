// datapath is the data path of Velero's own mover as a program: what its worker Pods do with a block volume, between
// the opening of the repository and the saved snapshot, and nothing of the cluster around it:
//
//	datapath create|backup|restore -endpoint HOST:PORT -bucket NAME -prefix PATH/ [-device PATH] [-parallel N] [-snapshot ID]
//
// Credentials are AWS's variables. Prints one JSON object: the snapshot, bytes, and seconds of opening and of moving.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/kopia/kopia/snapshot/upload"
	"github.com/sirupsen/logrus"

	"github.com/vmware-tanzu/velero/pkg/repository/udmrepo"
	"github.com/vmware-tanzu/velero/pkg/repository/udmrepo/service"
	"github.com/vmware-tanzu/velero/pkg/uploader"
	"github.com/vmware-tanzu/velero/pkg/uploader/kopia"
)

const (
	progressEvery = 10 * time.Second
	source        = "snapshot-data-upload-download/kopia/shop/orders"
)

type place struct{ endpoint, bucket, prefix, region string }

func (p place) options(config string) udmrepo.RepoOptions {
	return udmrepo.RepoOptions{
		StorageType:    udmrepo.StorageTypeS3,
		RepoPassword:   "static-passw0rd",
		ConfigFilePath: config,
		Description:    "bench",
		GeneralOptions: map[string]string{udmrepo.GenOptionOwnerName: udmrepo.GetRepoUser(),
			udmrepo.GenOptionOwnerDomain: udmrepo.GetRepoDomain()},
		StorageOptions: map[string]string{
			udmrepo.StoreOptionS3KeyID:      os.Getenv("AWS_ACCESS_KEY_ID"),
			udmrepo.StoreOptionS3SecretKey:  os.Getenv("AWS_SECRET_ACCESS_KEY"),
			udmrepo.StoreOptionS3Endpoint:   p.endpoint,
			udmrepo.StoreOptionS3DisableTLS: "true",
			udmrepo.StoreOptionOssBucket:    p.bucket,
			udmrepo.StoreOptionOssRegion:    p.region,
			udmrepo.StoreOptionPrefix:       p.prefix,
		},
	}
}

// quiet takes what the uploader says of its progress.
type quiet struct{}

func (quiet) UpdateProgress(*uploader.Progress) {}

type result struct {
	Snapshot    string  `json:"snapshot"`
	Bytes       int64   `json:"bytes"`
	OpenSeconds float64 `json:"open_seconds"`
	MoveSeconds float64 `json:"move_seconds"`
}

func backup(ctx context.Context, repo udmrepo.BackupRepo, device string, parallel int, log logrus.FieldLogger) (string, int64, error) {
	writer := kopia.NewShimRepo(repo)
	up := upload.NewUploader(writer)
	up.Progress = kopia.NewProgress(quiet{}, progressEvery, log)
	up.FailFast = true
	config := map[string]string{}
	if parallel > 0 {
		config["ParallelFilesUpload"] = strconv.Itoa(parallel)
	}
	if repo.GetAdvancedFeatures().MultiPartBackup {
		config[kopia.UploaderConfigMultipartKey] = "true"
	}
	tags := map[string]string{uploader.SnapshotRequesterTag: "snapshot-data-upload-download",
		uploader.SnapshotUploaderTag: uploader.KopiaType}
	info, _, err := kopia.Backup(ctx, up, writer, device, source, false, "", uploader.PersistentVolumeBlock, config, tags, log)
	if err != nil {
		return "", 0, err
	}
	return info.ID, info.Size, nil
}

func restore(ctx context.Context, repo udmrepo.BackupRepo, device, snapshot string, log logrus.FieldLogger) (int64, error) {
	size, _, err := kopia.Restore(ctx, kopia.NewShimRepo(repo), kopia.NewProgress(quiet{}, progressEvery, log), snapshot,
		device, uploader.PersistentVolumeBlock, map[string]string{}, log, make(chan struct{}))
	return size, err
}

func run(ctx context.Context, verb string, p place, device, snapshot string, parallel int) (result, error) {
	log := logrus.New()
	log.SetOutput(os.Stderr)
	log.SetLevel(logrus.WarnLevel)
	folder, err := os.MkdirTemp("", "datapath")
	if err != nil {
		return result{}, err
	}
	defer os.RemoveAll(folder)
	os.Setenv("HOME", folder) // Its cache lies below, cold.
	options := p.options(folder + "/repo.config")
	repositories := service.Create("kopia", log)
	if verb == "create" {
		return result{}, repositories.Create(ctx, options)
	}
	begun := time.Now()
	if err := repositories.Connect(ctx, options); err != nil {
		return result{}, err
	}
	repo, err := repositories.Open(ctx, options)
	if err != nil {
		return result{}, err
	}
	defer repo.Close(ctx)
	done := result{Snapshot: snapshot, OpenSeconds: time.Since(begun).Seconds()}
	begun = time.Now()
	if verb == "backup" {
		done.Snapshot, done.Bytes, err = backup(ctx, repo, device, parallel, log)
	} else {
		done.Bytes, err = restore(ctx, repo, device, snapshot, log)
	}
	done.MoveSeconds = time.Since(begun).Seconds()
	return done, err
}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "datapath create|backup|restore ...")
		os.Exit(2)
	}
	flags := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	var p place
	flags.StringVar(&p.endpoint, "endpoint", "", "HOST:PORT of the S3 server")
	flags.StringVar(&p.bucket, "bucket", "", "bucket")
	flags.StringVar(&p.prefix, "prefix", "", "prefix, ending in /")
	flags.StringVar(&p.region, "region", "us-east-1", "region")
	device := flags.String("device", "", "block device")
	snapshot := flags.String("snapshot", "", "what to restore")
	parallel := flags.Int("parallel", 0, "ParallelFilesUpload; 0: the default")
	flags.Parse(os.Args[2:])
	done, err := run(context.Background(), os.Args[1], p, *device, *snapshot, *parallel)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	json.NewEncoder(os.Stdout).Encode(done)
}

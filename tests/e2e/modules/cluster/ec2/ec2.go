// Package ec2 stands where Velero's AWS plugin takes the client of EC2 from. The plugin's other half cuts snapshots of
// EBS volumes, which no bed has. The real client is a fifteenth of all Go that the bed is built of.
package ec2

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

type (
	Client              struct{}
	CreateSnapshotInput struct {
		VolumeId          *string
		TagSpecifications []types.TagSpecification
	}
	CreateSnapshotOutput struct{ SnapshotId *string }
	CreateVolumeInput    struct {
		AvailabilityZone, KmsKeyId, SnapshotId *string
		Encrypted                              *bool
		Iops                                   *int32
		TagSpecifications                      []types.TagSpecification
		VolumeType                             types.VolumeType
	}
	CreateVolumeOutput      struct{ VolumeId *string }
	DeleteSnapshotInput     struct{ SnapshotId *string }
	DeleteSnapshotOutput    struct{}
	DescribeSnapshotsInput  struct{ SnapshotIds []string }
	DescribeSnapshotsOutput struct{ Snapshots []types.Snapshot }
	DescribeVolumesInput    struct{ VolumeIds []string }
	DescribeVolumesOutput   struct{ Volumes []types.Volume }
)

var errNone = errors.New("the bed's AWS plugin is built without the client of EC2")

func NewFromConfig(any) *Client { return &Client{} }

func (*Client) CreateSnapshot(context.Context, *CreateSnapshotInput) (*CreateSnapshotOutput, error) {
	return nil, errNone
}

func (*Client) CreateVolume(context.Context, *CreateVolumeInput) (*CreateVolumeOutput, error) {
	return nil, errNone
}

func (*Client) DeleteSnapshot(context.Context, *DeleteSnapshotInput) (*DeleteSnapshotOutput, error) {
	return nil, errNone
}

func (*Client) DescribeSnapshots(context.Context, *DescribeSnapshotsInput) (*DescribeSnapshotsOutput, error) {
	return nil, errNone
}

func (*Client) DescribeVolumes(context.Context, *DescribeVolumesInput) (*DescribeVolumesOutput, error) {
	return nil, errNone
}

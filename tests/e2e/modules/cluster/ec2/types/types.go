// Package types has what Velero's AWS plugin says to EC2.
package types

type (
	ResourceType     string
	VolumeType       string
	Tag              struct{ Key, Value *string }
	TagSpecification struct {
		ResourceType ResourceType
		Tags         []Tag
	}
	Snapshot struct {
		Encrypted *bool
		Tags      []Tag
	}
	Volume struct {
		Iops       *int32
		Tags       []Tag
		VolumeType VolumeType
	}
)

const (
	ResourceTypeSnapshot ResourceType = "snapshot"
	ResourceTypeVolume   ResourceType = "volume"
)

// Package versioned reads SnapshotMetadataServices. It stands in for the package of that name; see v1beta1.
package versioned

import (
	"context"
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/kubernetes-csi/external-snapshot-metadata/client/apis/snapshotmetadataservice/v1beta1"
)

const collection = "/apis/cbt.storage.k8s.io/v1beta1/snapshotmetadataservices"

// Interface is what the programs ask for: clientset.CbtV1beta1().SnapshotMetadataServices().Get(...).
type Interface interface {
	CbtV1beta1() CbtV1beta1Interface
}

// CbtV1beta1Interface is one version of the group.
type CbtV1beta1Interface interface {
	SnapshotMetadataServices() SnapshotMetadataServiceInterface
}

// SnapshotMetadataServiceInterface reads objects by the name of the driver.
type SnapshotMetadataServiceInterface interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (*v1beta1.SnapshotMetadataService, error)
}

// Clientset is the Interface over one connection to the API server.
type Clientset struct {
	client *rest.RESTClient
}

// NewForConfig makes a Clientset; the config stays as it is.
func NewForConfig(config *rest.Config) (*Clientset, error) {
	own := rest.CopyConfig(config)
	own.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	client, err := rest.UnversionedRESTClientFor(own)
	if err != nil {
		return nil, err
	}
	return &Clientset{client}, nil
}

// CbtV1beta1 is the only version there is.
func (c *Clientset) CbtV1beta1() CbtV1beta1Interface { return c }

// SnapshotMetadataServices are the only objects there are.
func (c *Clientset) SnapshotMetadataServices() SnapshotMetadataServiceInterface { return c }

// Get returns the API server's error when there is no such object.
func (c *Clientset) Get(ctx context.Context, name string, _ metav1.GetOptions) (*v1beta1.SnapshotMetadataService, error) {
	body, err := c.client.Get().AbsPath(collection, name).SetHeader("Accept", "application/json").Do(ctx).Raw()
	if err != nil {
		return nil, err
	}
	service := &v1beta1.SnapshotMetadataService{}
	if err := json.Unmarshal(body, service); err != nil {
		return nil, err
	}
	return service, nil
}

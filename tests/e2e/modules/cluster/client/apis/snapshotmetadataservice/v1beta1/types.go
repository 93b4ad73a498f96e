// Package v1beta1 has the object with which a CSI driver says where its SnapshotMetadata service is.
//
// It stands in for the package of that name, which no module proxy serves: what the sidecar and the
// iterator use of it, and nothing more.
package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// SnapshotMetadataServiceSpec says where the service is, whom it trusts and whom to trust.
type SnapshotMetadataServiceSpec struct {
	Audience string `json:"audience"`
	Address  string `json:"address"`
	CACert   []byte `json:"caCert"` // PEM; in JSON the base64 of it.
}

// SnapshotMetadataService is cluster-wide and named as the CSI driver is.
type SnapshotMetadataService struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              SnapshotMetadataServiceSpec `json:"spec"`
}

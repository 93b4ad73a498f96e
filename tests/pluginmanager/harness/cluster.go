package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// resourceVersions are the API paths of the resources that stories touch, by "resource.group"; those
// of groups of volumes depend on the cluster.
var resourceVersions = map[string]string{
	"persistentvolumeclaims": "api/v1",
	"persistentvolumes":      "api/v1",
	"namespaces":             "api/v1",
	"secrets":                "api/v1",
	"configmaps":             "api/v1",
	"pods":                   "api/v1",
	"volumesnapshots.snapshot.storage.k8s.io":        "apis/snapshot.storage.k8s.io/v1",
	"volumesnapshotcontents.snapshot.storage.k8s.io": "apis/snapshot.storage.k8s.io/v1",
	"volumesnapshotclasses.snapshot.storage.k8s.io":  "apis/snapshot.storage.k8s.io/v1",
	"backups.velero.io":                              "apis/velero.io/v1",
	"restores.velero.io":                             "apis/velero.io/v1",
	"datauploads.velero.io":                          "apis/velero.io/v2alpha1",
	"datadownloads.velero.io":                        "apis/velero.io/v2alpha1",
}

const (
	groupSnapshotGroup = "groupsnapshot.storage.k8s.io"
	longhornGroup      = "longhorn.io"
)

var (
	errNotFound      = errors.New("not found")
	errAlreadyExists = errors.New("already exists")
)

// cluster is what Velero itself asks an API server for.
type cluster struct {
	url          string
	client       *http.Client
	groupVersion string // of groupsnapshot.storage.k8s.io, or ""
}

// newCluster reads a kubeconfig as ApiTestServer writes it.
func newCluster(kubeconfig, groupVersion string) (*cluster, error) {
	text, err := os.ReadFile(kubeconfig)
	if err != nil {
		return nil, err
	}
	url := regexp.MustCompile(`server: "([^"]+)"`).FindSubmatch(text)
	if url == nil {
		return nil, fmt.Errorf("cannot read %s", kubeconfig)
	}
	pool := x509.NewCertPool()
	if authority := regexp.MustCompile(`certificate-authority-data: ([^}]+)\}`).FindSubmatch(text); authority != nil {
		pem, err := base64.StdEncoding.DecodeString(string(authority[1]))
		if err != nil {
			return nil, err
		}
		pool.AppendCertsFromPEM(pem)
	}
	return &cluster{url: string(url[1]), groupVersion: groupVersion,
		client: &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, MaxIdleConnsPerHost: 8}}}, nil
}

func (c *cluster) close() { c.client.CloseIdleConnections() }

func (c *cluster) path(resource, namespace, name string) (string, error) {
	plural, group, _ := strings.Cut(resource, ".")
	prefix, found := resourceVersions[resource]
	if group == groupSnapshotGroup {
		prefix, found = "apis/"+group+"/"+c.groupVersion, c.groupVersion != ""
	}
	if group == longhornGroup {
		prefix, found = "apis/"+group+"/v1beta2", true
	}
	if !found {
		return "", fmt.Errorf("unknown resource %s", resource)
	}
	if namespace != "" {
		prefix += "/namespaces/" + namespace
	}
	return c.url + "/" + prefix + "/" + plural + map[bool]string{true: "", false: "/" + name}[name == ""], nil
}

func (c *cluster) ask(method, resource, namespace, name string, body any) ([]byte, error) {
	path, err := c.path(resource, namespace, name)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequest(method, path, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer velero")
	request.Header.Set("Content-Type", map[bool]string{true: "application/merge-patch+json", false: "application/json"}[method == "PATCH"])
	response, err := c.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
		return nil, err
	case response.StatusCode == http.StatusNotFound:
		return nil, fmt.Errorf("%s %s: %w", method, path, errNotFound)
	case response.StatusCode == http.StatusConflict && method == "POST":
		return nil, fmt.Errorf("%s %s: %w", method, path, errAlreadyExists)
	case response.StatusCode >= 300:
		return nil, fmt.Errorf("%s %s: %d %s", method, path, response.StatusCode, answer)
	}
	return answer, nil
}

func (c *cluster) get(resource, namespace, name string) (*unstructured.Unstructured, error) {
	answer, err := c.ask("GET", resource, namespace, name, nil)
	if err != nil {
		return nil, err
	}
	item := &unstructured.Unstructured{}
	return item, item.UnmarshalJSON(answer)
}

func (c *cluster) list(resource, namespace string) ([]*unstructured.Unstructured, error) {
	answer, err := c.ask("GET", resource, namespace, "", nil)
	if err != nil {
		return nil, err
	}
	var list struct {
		Kind  string
		Items []json.RawMessage
	}
	if err := json.Unmarshal(answer, &list); err != nil {
		return nil, err
	}
	_, version, _ := strings.Cut(resourceVersions[resource], "/")
	items := make([]*unstructured.Unstructured, 0, len(list.Items))
	for _, text := range list.Items { // Items of a list have no kind.
		fields := map[string]any{}
		if err := utiljson.Unmarshal(text, &fields); err != nil {
			return nil, err
		}
		fields["apiVersion"], fields["kind"] = version, strings.TrimSuffix(list.Kind, "List")
		items = append(items, &unstructured.Unstructured{Object: fields})
	}
	return items, nil
}

func (c *cluster) create(resource, namespace string, item *unstructured.Unstructured) error {
	_, err := c.ask("POST", resource, namespace, "", item.Object)
	return err
}

func (c *cluster) patch(resource, namespace, name string, change any) error {
	_, err := c.ask("PATCH", resource, namespace, name, change)
	return err
}

func (c *cluster) delete(resource, namespace, name string) error {
	_, err := c.ask("DELETE", resource, namespace, name, map[string]any{})
	return err
}

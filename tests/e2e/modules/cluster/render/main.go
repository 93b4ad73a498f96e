// render prints, as a JSON list, what `helm install` would send to a cluster: the chart's definitions, then its templates.
//
//	render -chart FOLDER -namespace NS [-release NAME] [-values JSON] [-without GROUP/VERSION]
//
// Values are checked against the chart's schema. Documents come in the order of their files' names.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path"
	"sort"
	"strings"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/releaseutil"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

func documents(name, text string, into []any) ([]any, error) {
	parts := releaseutil.SplitManifests(text)
	keys := make([]string, 0, len(parts))
	for key := range parts {
		keys = append(keys, key)
	}
	sort.Sort(releaseutil.BySplitManifestsOrder(keys))
	for _, key := range keys {
		var document any
		if err := yaml.UnmarshalStrict([]byte(parts[key]), &document); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if document != nil {
			into = append(into, document)
		}
	}
	return into, nil
}

// capabilities are what Helm would find in a cluster of its own Kubernetes version: its API groups, and their kinds. Those of
// `without`, a GROUP/VERSION, are left out, as in an older cluster.
func capabilities(without string) *chartutil.Capabilities {
	found := *chartutil.DefaultCapabilities
	found.APIVersions = chartutil.VersionSet{}
	for _, version := range chartutil.DefaultVersionSet {
		if version == without {
			continue
		}
		found.APIVersions = append(found.APIVersions, version)
		group, err := schema.ParseGroupVersion(version)
		if err != nil {
			continue
		}
		for kind := range scheme.Scheme.KnownTypes(group) {
			found.APIVersions = append(found.APIVersions, version+"/"+kind)
		}
	}
	return &found
}

func render(folder, release, namespace, values, without string) ([]any, error) {
	chart, err := loader.Load(folder)
	if err != nil {
		return nil, err
	}
	given := map[string]any{}
	if err := json.Unmarshal([]byte(values), &given); err != nil {
		return nil, fmt.Errorf("-values: %w", err)
	}
	options := chartutil.ReleaseOptions{Name: release, Namespace: namespace, IsInstall: true, Revision: 1}
	merged, err := chartutil.ToRenderValues(chart, given, options, capabilities(without))
	if err != nil {
		return nil, err
	}
	files, err := engine.Engine{Strict: true}.Render(chart, merged)
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(files))
	for name := range files {
		if extension := path.Ext(name); extension == ".yaml" && !strings.HasPrefix(path.Base(name), "_") {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	list := []any{}
	for _, definition := range chart.CRDObjects() {
		if list, err = documents(definition.Name, string(definition.File.Data), list); err != nil {
			return nil, err
		}
	}
	for _, name := range names {
		if list, err = documents(name, files[name], list); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func main() {
	folder := flag.String("chart", "", "the chart's folder")
	release := flag.String("release", "csi-delta", "the release's name")
	namespace := flag.String("namespace", "", "where it is installed")
	values := flag.String("values", "{}", "values that are not the chart's own, as JSON")
	without := flag.String("without", "", "GROUP/VERSION that the cluster does not serve")
	flag.Parse()
	list, err := render(*folder, *release, *namespace, *values, *without)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(list)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "render:", err)
		os.Exit(1)
	}
}

//go:build itemblock

package main

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	api "github.com/vmware-tanzu/velero/pkg/apis/velero/v1"
	"github.com/vmware-tanzu/velero/pkg/plugin/clientmgmt"
)

// checkItemBlock covers the kind that hosts know from Velero 1.15 on.
func checkItemBlock(m clientmgmt.Manager) {
	action, err := m.GetItemBlockAction(scripted)
	checkNoError(err, "get the item block action")
	checkSelector(action.AppliesTo())
	related, err := action.GetRelatedItems(wish(""), newBackup())
	checkNoError(err, "GetRelatedItems")
	check(describe(related) == "persistentvolumes//pv1 datauploads.velero.io/velero/du1", "related %s", describe(related))
	_, err = action.GetRelatedItems(wish("fail"), newBackup())
	checkError(err, "asked to fail")
}

func checkProductItemBlock(m clientmgmt.Manager) {
	action, err := m.GetItemBlockAction(ours[0].name)
	checkNoError(err, ours[0].name)
	selector, err := action.AppliesTo()
	check(err == nil && fmt.Sprint(selector.IncludedResources) == "["+ours[0].resource+"]", "item block: %v %v", selector, err)
}

// relatedItems asks the item block actions about claims, as a backup does before it takes them.
func relatedItems(m clientmgmt.Manager, items []*unstructured.Unstructured, backup *api.Backup) error {
	actions, err := m.GetItemBlockActions()
	if err != nil {
		return err
	}
	for _, item := range items {
		for _, action := range actions {
			if _, err := action.GetRelatedItems(item, backup); err != nil {
				return err
			}
		}
	}
	return nil
}

//go:build !itemblock

package main

import "github.com/vmware-tanzu/velero/pkg/plugin/clientmgmt"

// checkItemBlock: this host does not know the kind.
func checkItemBlock(clientmgmt.Manager) {}

func checkProductItemBlock(clientmgmt.Manager) {}

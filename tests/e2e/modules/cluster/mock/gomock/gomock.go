// Package gomock gives the metadata sidecar, which is built with mocks of csi-test, the controller that those of csi-test
// 5.6 take: golang/mock's successor has the same types.
package gomock

import "go.uber.org/mock/gomock"

type (
	Call         = gomock.Call
	Controller   = gomock.Controller
	Matcher      = gomock.Matcher
	TestReporter = gomock.TestReporter
)

var NewController = gomock.NewController

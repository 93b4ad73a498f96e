module e2e.test/pluginmanager

go 1.26

module github.com/golang/mock

go 1.26

require go.uber.org/mock v0.6.0

module github.com/relock-go/relock/cmd/relock

go 1.25.0

require (
	github.com/gomodule/redigo v1.9.3
	github.com/relock-go/relock v0.1.0
	github.com/spf13/cobra v1.10.2
	github.com/spf13/pflag v1.0.10
	github.com/stretchr/testify v1.12.1
	go.uber.org/goleak v1.3.0
	golang.org/x/sys v0.45.0
)

require (
	github.com/google/uuid v1.6.0 // indirect
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/petermattis/goid v0.0.0-20260820044319-269ab09b5261 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
)

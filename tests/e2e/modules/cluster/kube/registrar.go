package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

const nameTimeout = 30 * time.Second

// registrar answers the kubelet's plugin watcher for one CSI driver: its name, and where it listens.
type registrar struct {
	registration.UnimplementedRegistrationServer
	driver, socket string
	refused        chan error
}

func (r *registrar) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{Type: registration.CSIPlugin, Name: r.driver, Endpoint: r.socket,
		SupportedVersions: []string{"1.0.0"}}, nil
}

func (r *registrar) NotifyRegistrationStatus(_ context.Context, status *registration.RegistrationStatus) (
	*registration.RegistrationStatusResponse, error) {
	if !status.PluginRegistered {
		r.refused <- errors.New("the kubelet refuses the driver: " + status.Error)
	}
	log.Printf("driver %s registered: %t", r.driver, status.PluginRegistered)
	return &registration.RegistrationStatusResponse{}, nil
}

// driverName asks the driver behind a socket for its name.
func driverName(socket string) (string, error) {
	connection, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return "", err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(context.Background(), nameTimeout)
	defer cancel()
	info, err := csi.NewIdentityClient(connection).GetPluginInfo(ctx, &csi.GetPluginInfoRequest{}, grpc.WaitForReady(true))
	return info.GetName(), err
}

// register serves the registration of the driver at the first argument, a socket, below the second
// one, the folder that the kubelet watches. It returns when the kubelet refuses the driver.
func register(arguments []string) error {
	if len(arguments) != 2 {
		return errors.New("call me with the driver's socket and the kubelet's plugins_registry")
	}
	socket, folder := arguments[0], arguments[1]
	name, err := driverName(socket)
	if err != nil {
		return fmt.Errorf("the driver at %s does not tell its name: %w", socket, err)
	}
	path := filepath.Join(folder, name+"-reg.sock")
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return err
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	self := &registrar{driver: name, socket: socket, refused: make(chan error, 1)}
	server := grpc.NewServer()
	registration.RegisterRegistrationServer(server, self)
	go func() { self.refused <- server.Serve(listener) }()
	return <-self.refused
}

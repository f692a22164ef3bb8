// Command crictl stands in for the program of that name inside a kind node: it knows the two
// commands that kind and kubeadm's images need there, and rejects any other.
//
//	crictl inspecti IMAGE   the image's id and tags as JSON; exit code 1 if it is not there
//	crictl images           one line per image: tags, id, bytes
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	socket  = "unix:///run/containerd/containerd.sock"
	timeout = 30 * time.Second
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "crictl:", err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	connection, err := grpc.NewClient(socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return fmt.Errorf("cannot reach containerd at %s: %w", socket, err)
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()

	images := cri.NewImageServiceClient(connection)
	switch {
	case len(arguments) == 2 && arguments[0] == "inspecti":
		return inspect(ctx, images, arguments[1])
	case len(arguments) == 1 && arguments[0] == "images":
		return list(ctx, images)
	default:
		return fmt.Errorf("this crictl knows only `inspecti IMAGE` and `images`; "+
			"for anything else use ctr --namespace=k8s.io (asked for: %q)", arguments)
	}
}

func inspect(ctx context.Context, images cri.ImageServiceClient, name string) error {
	answer, err := images.ImageStatus(ctx, &cri.ImageStatusRequest{Image: &cri.ImageSpec{Image: name}})
	if err != nil {
		return err
	}
	if answer.Image == nil {
		return fmt.Errorf("no such image %q present", name)
	}
	status := map[string]any{"id": answer.Image.Id, "repoTags": answer.Image.RepoTags}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{"status": status})
}

func list(ctx context.Context, images cri.ImageServiceClient) error {
	answer, err := images.ListImages(ctx, &cri.ListImagesRequest{})
	if err != nil {
		return err
	}
	for _, image := range answer.Images {
		fmt.Println(strings.Join(image.RepoTags, ","), image.Id, image.Size)
	}
	return nil
}

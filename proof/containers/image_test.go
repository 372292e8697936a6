package containers

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ory/dockertest/v3"
	"github.com/ory/dockertest/v3/docker"
	"github.com/stretchr/testify/require"
)

const (
	defaultImage = "redis:7-alpine"
	localImage   = "relock-redis:local"
)

// found is the image that the first test found or built, for later tests.
var found struct {
	once sync.Once
	name string
	err  error
}

// image returns the name of an image that Docker has. It is the one that
// RELOCK_REDIS_IMAGE names, pulled if necessary, or else one built from this
// machine's redis-server.
func image(t *testing.T, pool *dockertest.Pool) string {
	t.Helper()
	found.once.Do(func() {
		name := os.Getenv("RELOCK_REDIS_IMAGE")
		if name == "" {
			name = defaultImage
		}
		found.name, found.err = name, fetch(pool, name)
		if found.err == nil {
			return
		}
		t.Logf("no image %s, making %s: %v", name, localImage, found.err)
		if err := build(pool); err != nil {
			found.err = errors.Join(found.err, err)
			return
		}
		found.name, found.err = localImage, nil
	})
	require.NoError(t, found.err, "there is no image of Redis")
	t.Logf("image %s", found.name)
	return found.name
}

func fetch(pool *dockertest.Pool, name string) error {
	if _, err := pool.Client.InspectImage(name); err == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	repository, tag := docker.ParseRepositoryTag(name)
	if tag == "" {
		tag = "latest" // without one all tags are pulled
	}
	return pool.Client.PullImage(docker.PullImageOptions{Context: ctx, Repository: repository, Tag: tag},
		docker.AuthConfiguration{})
}

// build builds localImage: the redis-server on PATH and the libraries that it
// loads, nothing else.
func build(pool *dockertest.Pool) error {
	if runtime.GOOS != "linux" {
		return errors.New("an image can be made from redis-server on Linux only")
	}
	server, err := exec.LookPath("redis-server")
	if err != nil {
		return err
	}
	libraries, err := librariesOf(server)
	if err != nil {
		return err
	}
	files := map[string]string{"/redis-server": server}
	for _, name := range libraries {
		files[name] = name
	}
	input, err := archive(files)
	if err != nil {
		return err
	}
	return pool.Client.BuildImage(docker.BuildImageOptions{
		Name: localImage, InputStream: input, OutputStream: io.Discard, RmTmpContainer: true, ForceRmTmpContainer: true,
	})
}

// libraryPath finds the libraries in what ldd prints, the loader among them:
//
//	libm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x00007f...)
//	/lib64/ld-linux-x86-64.so.2 (0x00007f...)
var libraryPath = regexp.MustCompile(`(?m)(?:^|=>)\s*(/\S+) \(0x`)

func librariesOf(program string) ([]string, error) {
	out, err := exec.Command("ldd", program).CombinedOutput()
	if err != nil {
		if bytes.Contains(out, []byte("not a dynamic executable")) {
			return nil, nil
		}
		return nil, fmt.Errorf("ldd %s: %w: %s", program, err, out)
	}
	var names []string
	for _, match := range libraryPath.FindAllSubmatch(out, -1) {
		names = append(names, string(match[1]))
	}
	return names, nil
}

// archive returns the files as Docker's build context. Keys are names in the
// image. Times are omitted, so that the same files build the same image.
func archive(files map[string]string) (io.Reader, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	add := func(name string, content []byte) error {
		header := &tar.Header{Name: strings.TrimPrefix(name, "/"), Mode: 0o755, Size: int64(len(content))}
		if err := w.WriteHeader(header); err != nil {
			return err
		}
		_, err := w.Write(content)
		return err
	}
	dockerfile := "FROM scratch\nCOPY root /\nEXPOSE 6379\nENTRYPOINT [\"/redis-server\"]\n"
	if err := add("Dockerfile", []byte(dockerfile)); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		content, err := os.ReadFile(files[name])
		if err != nil {
			return nil, err
		}
		if err := add(path.Join("root", name), content); err != nil {
			return nil, err
		}
	}
	return &out, w.Close()
}

package containers

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/ory/dockertest/v3"
	"github.com/ory/dockertest/v3/docker"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	port = "6379/tcp"

	// expiry is in seconds, for containers whose test run was killed.
	expiry = 120
)

// container is a Redis of one test.
type container struct {
	pool     *dockertest.Pool
	resource *dockertest.Resource
}

// start runs a container until the test ends. The arguments are redis-server's.
func start(t *testing.T, args ...string) *container {
	t.Helper()
	pool := connect(t)
	c := &container{pool: pool, resource: create(t, pool, args)}
	t.Cleanup(func() { c.remove(t) })
	require.NoError(t, pool.Client.StartContainer(c.resource.Container.ID, nil))
	started, err := pool.Client.InspectContainer(c.resource.Container.ID)
	require.NoError(t, err)
	c.resource.Container = started                // with the port
	require.NoError(t, c.resource.Expire(expiry)) // asks Docker, in the background, to stop it when that time is over
	pool.MaxWait = 30 * time.Second
	require.NoError(t, pool.Retry(func() error { return c.ping(t.Context()) }), "the server does not answer")
	return c
}

// connect returns Docker. Without it the test is skipped, except under CI,
// where it fails.
func connect(t *testing.T) *dockertest.Pool {
	t.Helper()
	pool, err := dockertest.NewPool("")
	if err == nil {
		err = pool.Client.Ping()
	}
	if err != nil {
		redistest.Lacks(t, "Docker does not answer: "+err.Error())
	}
	return pool
}

// create makes a container that ignores the signal by which Docker stops it.
// Expire sends that signal immediately and kills the container only later, and
// a Redis would obey. Dockertest's own way to run a container cannot change the
// signal.
func create(t *testing.T, pool *dockertest.Pool, args []string) *dockertest.Resource {
	t.Helper()
	name := "relock-test-" + uuid.NewString()
	_, err := pool.Client.CreateContainer(docker.CreateContainerOptions{
		Name: name,
		Config: &docker.Config{
			Image:        image(t, pool),
			Cmd:          append([]string{"--save", "", "--protected-mode", "no"}, args...),
			ExposedPorts: map[docker.Port]struct{}{port: {}},
			StopSignal:   "SIGURG",
		},
		HostConfig: &docker.HostConfig{
			AutoRemove:   true,
			PortBindings: map[docker.Port][]docker.PortBinding{port: {{HostIP: "127.0.0.1"}}},
		},
	})
	require.NoError(t, err)
	resource, ok := pool.ContainerByName(name)
	require.True(t, ok, "container %s is not listed", name)
	return resource
}

// remove waits until the container is removed. If the test has killed it,
// Docker removes it.
func (c *container) remove(t *testing.T) {
	t.Helper()
	if err := c.pool.Purge(c.resource); err == nil {
		return
	}
	require.Eventually(t, func() bool {
		var none *docker.NoSuchContainer
		_, err := c.pool.Client.InspectContainer(c.resource.Container.ID)
		return errors.As(err, &none)
	}, soon, 10*time.Millisecond, "the container is still there")
}

// kill ends the server immediately, as a crash does.
func (c *container) kill(t *testing.T) {
	t.Helper()
	require.NoError(t,
		c.pool.Client.KillContainer(docker.KillContainerOptions{ID: c.resource.Container.ID, Signal: docker.SIGKILL}))
}

func (c *container) address() string { return c.resource.GetHostPort(port) }

// ping reports whether the server answers. A request for a password is an
// answer.
func (c *container) ping(ctx context.Context) error {
	client, err := relock.NewClient("tcp", c.address(), "")
	if err != nil {
		return err
	}
	err = client.Ping(ctx)
	if errors.Is(err, relock.ErrDenied) {
		err = nil
	}
	return errors.Join(err, client.Close())
}

// dial returns a client that is closed when the test ends.
func (c *container) dial(t *testing.T, password string, opts ...relock.ClientOption) *relock.Client {
	t.Helper()
	client, err := relock.NewClient("tcp", c.address(), password, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return client
}

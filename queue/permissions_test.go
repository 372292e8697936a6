package queue_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
	"github.com/relock-go/relock/queue"
)

// Without the permission to publish or to subscribe, workers poll.
func TestWithoutMessages(t *testing.T) {
	for _, rule := range []string{"-publish", "-subscribe", "resetchannels"} {
		t.Run(rule, func(t *testing.T) {
			s := redistest.Start(t)
			s.Do(t, "ACL", "SETUSER", "less", "on", ">secret", "~*", "&*", "+@all", rule)
			c, err := relock.NewClient(s.Network, s.Address, "secret", relock.WithUsername("less"))
			require.NoError(t, err)
			t.Cleanup(func() { _ = c.Close() })
			q := queueOf(t, c)
			got := make(chan struct{})
			stop := processing(t, q, func(context.Context, *queue.Delivery) error {
				close(got)
				return nil
			})
			eventually(t, q, "it waits", func(s queue.Stats) bool { return s.Idle == 1 })
			enqueue(t, q, "", "a")
			testkit.Next(t, got)
			require.NoError(t, stop())
		})
	}
}

// A user without the commands of the queue gets ErrDenied.
func TestDenied(t *testing.T) {
	s := redistest.Start(t)
	s.Do(t, "ACL", "SETUSER", "less", "on", ">secret", "~*", "&*", "+@all", "-evalsha", "-eval")
	c, err := relock.NewClient(s.Network, s.Address, "secret", relock.WithUsername("less"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	q := queueOf(t, c)
	require.ErrorIs(t, put(t.Context(), q, queue.Task{}), relock.ErrDenied)
	_, err = q.Receive(t.Context(), 1)
	require.ErrorIs(t, err, relock.ErrDenied)
	require.ErrorIs(t, q.Process(t.Context(), func(context.Context, *queue.Delivery) error { return nil }),
		relock.ErrDenied)
	_, err = q.Stats(t.Context())
	require.ErrorIs(t, err, relock.ErrDenied)
	for _, err := range q.DeadLetters(t.Context()) {
		require.ErrorIs(t, err, relock.ErrDenied)
	}
	for _, err := range q.Tasks(t.Context(), queue.StateReady) {
		require.ErrorIs(t, err, relock.ErrDenied)
	}
	_, err = q.Get(t.Context(), "a")
	require.ErrorIs(t, err, relock.ErrDenied)
	for _, err := range q.PausedKeys(t.Context()) {
		require.ErrorIs(t, err, relock.ErrDenied)
	}
	require.ErrorIs(t, q.Pause(t.Context()), relock.ErrDenied)
	require.ErrorIs(t, q.ResumeKey(t.Context(), "k"), relock.ErrDenied)
}

// The permissions in docs/queue.md are enough for everything, and each of them
// is needed.
func TestPermissions(t *testing.T) {
	s := redistest.Start(t)
	text, err := os.ReadFile("../docs/queue.md")
	require.NoError(t, err)
	line := regexp.MustCompile(`(?m)^ACL SETUSER app on >password (.* -@all) (.*)$`).FindStringSubmatch(string(text))
	require.NotNil(t, line)
	commands := strings.Fields(line[2])
	require.Greater(t, len(commands), 20)
	allow := func(commands ...string) {
		args := []any{"SETUSER", "worker", "reset", "on", ">secret"}
		for _, rule := range append(strings.Fields(strings.Replace(line[1], "{mails}", "{"+t.Name()+"}", 1)), commands...) {
			args = append(args, rule)
		}
		s.Do(t, "ACL", args...)
	}
	allow(commands...)
	var log bytes.Buffer
	c, err := relock.NewClient(s.Network, s.Address, "secret",
		relock.WithUsername("worker"), relock.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	q := queueOf(t, c, queue.WithUnique(time.Millisecond), queue.WithMaxAttempts(2))
	plain := queueOf(t, c)
	renewal := 1 // 0 where it may be refused
	all := func() error {
		ctx := t.Context()
		err := errors.Join(
			put(ctx, q, queue.Task{ID: "a", Key: "k"}, queue.Task{ID: "b", Key: "k"}, queue.Task{ID: "c", Key: "k"},
				queue.Task{ID: "late", Delay: time.Hour}),
			put(ctx, plain, queue.Task{ID: "plain", Delay: time.Hour}))
		err = errors.Join(err, put(ctx, plain, queue.Task{ID: "now"}), plain.Remove(ctx, "now"))
		if err != nil {
			return err
		}
		for range 3 {
			got, err := q.TryReceive(ctx, 1)
			if err != nil {
				return err
			}
			if len(got) == 0 {
				break
			}
			until := got[0].ValidUntil()
			got[0].RenewNow()
			for range renewal {
				testkit.Eventually(t, testkit.Patience, func() bool { return got[0].ValidUntil().After(until) }, "renewed")
			}
			switch got[0].ID {
			case "a":
				err = got[0].DeadLetter(ctx, nil)
			case "b":
				err = errors.Join(got[0].Release(ctx), q.Remove(ctx, "b"))
			default:
				err = got[0].Ack(ctx)
			}
			if err != nil {
				return err
			}
		}
		err1 := errors.Join(plain.Pause(ctx), plain.PauseKey(ctx, "k"), plain.ResumeKey(ctx, "k"), plain.Resume(ctx))
		_, err2 := q.Stats(ctx)
		err1 = errors.Join(err1, err2)
		_, err2 = plain.Get(ctx, "plain")
		err1 = errors.Join(err1, err2)
		for _, err := range plain.Tasks(ctx, queue.StateBehind) {
			err1 = errors.Join(err1, err)
		}
		for _, err := range plain.PausedKeys(ctx) {
			err1 = errors.Join(err1, err)
		}
		for _, err := range q.DeadLetters(ctx) {
			err1 = errors.Join(err1, err)
		}
		_, err3 := plain.RequeueDied(ctx, time.Time{}, time.Time{})
		_, err2 = q.Requeue(ctx, "a")
		return errors.Join(err1, err2, err3, q.Remove(ctx, "late"), plain.Remove(ctx, "plain"))
	}
	require.NoError(t, all())
	s.Do(t, "FLUSHALL")
	allow(locktest.ReadCategories(t, "README.md").Least[3:]...)
	require.NoError(t, all(), "the README's line by categories")
	require.NotContains(t, log.String(), "NOPERM")

	renewal = 0
	for i, command := range commands {
		switch command {
		case "+eval", "+evalsha", "+publish", "+subscribe": // TestDenied, TestWithoutMessages
			continue
		}
		s.Do(t, "FLUSHALL")
		allow(slices.Delete(slices.Clone(commands), i, i+1)...)
		require.ErrorIs(t, all(), relock.ErrDenied, command)
	}
}

package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/relock-go/relock"
	relockotel "github.com/relock-go/relock/otel"
	"github.com/relock-go/relock/queue"
)

// service is a program that uses all that is measured.
type service struct {
	*relockotel.Telemetry
	handler http.Handler
	client  *relock.Client
	mails   *queue.Queue
	stop    func()
}

func newService(url string, opts ...queue.Option) (*service, error) {
	handler, t, err := measured()
	if err != nil {
		return nil, err
	}
	s := &service{Telemetry: t, handler: handler}
	if s.client, err = relock.NewClientURL(url, relock.WithObserver(t.Locks())); err != nil {
		return nil, err
	}
	own := []queue.Option{queue.WithObserver(t.Queues()), queue.WithMaxAttempts(2), queue.WithBackoff(noPause)}
	if s.mails, err = queue.New("mails", s.client, append(own, opts...)...); err != nil {
		return nil, err
	}
	s.stop, err = t.Watch(s.client, s.mails)
	return s, err
}

func noPause(int, error) time.Duration { return 0 }

func (s *service) close() {
	s.stop()
	_ = s.client.Close()
}

func (s *service) enqueue(ctx context.Context, ids ...string) (err error) {
	for _, id := range ids {
		_, failed := s.Enqueue(ctx, s.mails, queue.Task{ID: id})
		err = errors.Join(err, failed)
	}
	return err
}

// use causes at least one point of each metric.
func (s *service) use(ctx context.Context) error {
	h, err := relock.NewRedisLock("order/42", s.client).Acquire(ctx)
	if err != nil {
		return err
	}
	err = errors.Join(h.Extend(ctx, time.Minute), h.Unlock(ctx), s.enqueue(ctx, "1", "2"))
	if err != nil {
		return err
	}
	s.Queues().Overdue(ctx, queue.Overdue{Queue: s.mails.Name()}) // a real one takes a second
	ctx, stop := context.WithCancel(ctx)
	return s.mails.Process(ctx, s.Process(s.mails, func(_ context.Context, d *queue.Delivery) error {
		if d.ID == "1" {
			return nil
		}
		if d.Attempt == 2 {
			stop()
		}
		return errors.New("no such customer")
	}), queue.WithWorkers(1))
}

// sample is a line of a scrape.
type sample struct {
	name   string
	labels map[string]string
	value  float64
}

var (
	sampleLine = regexp.MustCompile(`^(\w+)(?:\{(.*)\})? (\S+)$`)
	label      = regexp.MustCompile(`(\w+)="([^"]*)"`)
)

// scrape returns what Prometheus would get.
func (s *service) scrape() ([]sample, error) {
	answer := httptest.NewRecorder()
	s.handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if answer.Code != http.StatusOK {
		return nil, errors.New(answer.Body.String())
	}
	return parse(answer.Body)
}

// parse reads the text of a scrape.
func parse(text io.Reader) (all []sample, err error) {
	lines := bufio.NewScanner(text)
	for lines.Scan() {
		found := sampleLine.FindStringSubmatch(lines.Text())
		if strings.HasPrefix(lines.Text(), "#") || found == nil {
			continue
		}
		one := sample{name: found[1], labels: map[string]string{}}
		for _, pair := range label.FindAllStringSubmatch(found[2], -1) {
			one.labels[pair[1]] = pair[2]
		}
		if one.value, err = strconv.ParseFloat(found[3], 64); err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, lines.Err()
}

// sum adds up the samples of a name with these labels.
func sum(all []sample, name string, labels map[string]string) (total float64) {
	for _, one := range all {
		matches := one.name == name
		for key, value := range labels {
			matches = matches && one.labels[key] == value
		}
		if matches {
			total += one.value
		}
	}
	return total
}

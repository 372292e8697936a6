package main

import (
	"context"
	"errors"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/fence"
	"github.com/relock-go/relock/queue"
)

// shop is what all processes share: the line, the stock and its lock. A sale
// reads the stock, waits for the payment, and writes the stock. The lock is for
// all three steps. The fence refuses a write whose lock has gone meanwhile.
type shop struct {
	client *relock.Client
	line   *queue.Queue // of orders; the ID of an order is its buyer
	locker relock.Locker
	run    string
	keys   []string // phones that are left, buyers that have one
}

// stock is the name of the lock, and of the one key that all orders have.
const stock = "stock"

func newShop(r role) (*shop, error) {
	client, err := relock.NewClientURL(r.URL, relock.WithKeyPrefix(r.Run+":"))
	if err != nil {
		return nil, err
	}
	s := &shop{client: client, run: r.Run, keys: []string{r.Run + ":{shop}left", r.Run + ":{shop}sold"}}
	// An ID stays in use when the order is done, so that nobody buys twice.
	s.line, err = queue.New("line", client, queue.WithLease(lease), queue.WithUnique(time.Hour))
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	s.locker, err = relock.NewLocker(client, relock.WithFencing(), relock.WithWatchdog(lease))
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return s, nil
}

func (s *shop) open(ctx context.Context) error {
	_, err := s.client.Eval(ctx, relock.NewScript("return redis.call('SET', KEYS[1], ARGV[1])"), s.keys[:1], phones)
	return err
}

var look = relock.NewScript("return {tonumber(redis.call('GET', KEYS[1])), redis.call('LRANGE', KEYS[2], 0, -1)}")

// count returns how many phones are left, and which buyers have one.
func (s *shop) count(ctx context.Context) (left int, sold []string, err error) {
	values, err := redis.Values(s.client.Eval(ctx, look, s.keys))
	if err == nil {
		_, err = redis.Scan(values, &left, &sold)
	}
	return left, sold, err
}

const sale = `
redis.call('SET', KEYS[1], ARGV[1])
if not redis.call('LPOS', KEYS[2], ARGV[2]) then
  redis.call('RPUSH', KEYS[2], ARGV[2])
end`

// sell writes that the buyer has a phone, and how many are left. ctx carries
// the hold of the lock. The payment is made, so its end does not stop the
// write: the fence decides.
func (s *shop) sell(ctx context.Context, buyer string, left int) error {
	hold, ok := relock.HoldFromContext(ctx, stock)
	if !ok {
		return errors.New("a sale needs the lock")
	}
	_, err := fence.Eval(context.WithoutCancel(ctx), s.client, s.run+":{shop}fence",
		hold.Fence(), sale, s.keys, left, buyer)
	return err
}

const swept = 1000 // keys looked at together

var sweep = relock.NewScript(`
local found = redis.call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', ARGV[3])
for _, key in ipairs(found[2]) do
  redis.call('DEL', key)
end
return found[1]`)

// close deletes all keys of the run.
func (s *shop) close() error {
	for cursor := "0"; ; {
		next, err := redis.String(s.client.Eval(context.Background(), sweep, nil, cursor, s.run+"*", swept))
		if err != nil || next == "0" {
			return errors.Join(err, s.client.Close())
		}
		cursor = next
	}
}

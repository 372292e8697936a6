package relock

import (
	"context"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// warnOfEviction says in the log, once, that the server may throw locks away when its memory is full. INFO may be denied:
// then nothing is known.
func (c *Client) warnOfEviction(ctx context.Context) {
	if c.seen.Load() {
		return
	}
	o := c.driver.call(ctx, limits{}, request{cmd: "INFO", args: []any{"memory"}})
	if !o.answered || !c.seen.CompareAndSwap(false, true) {
		return
	}
	text, _ := redis.String(o.reply, o.err)
	if policy := evicts(text); policy != "" {
		c.logger.Warn("relock: Redis may evict locks, which are lost then; set maxmemory-policy to noeviction", "policy", policy)
	}
}

// evicts is the policy of a server that evicts keys, from INFO; "" for any other. One without a limit evicts none.
func evicts(info string) (policy string) {
	limited := false
	for line := range strings.Lines(info) {
		switch name, value, _ := strings.Cut(strings.TrimSpace(line), ":"); name {
		case "maxmemory":
			limited = value != "0"
		case "maxmemory_policy":
			policy = value
		}
	}
	if !limited || policy == "noeviction" {
		return ""
	}
	return policy
}

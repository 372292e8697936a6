package relock

import (
	"slices"
	"time"
)

// giveAllBack releases leases that Close has ended, pipelined over a connection of its own, for as long as one command may
// take. What is not answered by then stays until its lease ends.
func (c *Client) giveAllBack(leases []*lease) {
	end := time.Now().Add(c.config.commandTimeout)
	link := c.driver.link()
	defer time.AfterFunc(time.Until(end), link.close).Stop() // a dial may take longer, and each batch would dial anew
	defer link.close()
	for batch := range slices.Chunk(leases, maxBatch) {
		requests := make([]scripted, len(batch))
		for i, l := range batch {
			requests[i] = l.lastRelease()
		}
		for i, o := range exchange(link, max(time.Until(end), time.Millisecond), requests, nil) {
			if o.err != nil || !isOurs(o.reply) {
				c.logger.Warn("relock: closed before a lock was released", "key", batch[i].key)
			}
		}
	}
}

// lastRelease gives all levels back.
func (l *lease) lastRelease() scripted {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seq++
	return l.release(0, l.seq, l.keep)(time.Now())
}

package waitqueue

import "time"

// Reached reports whether messages about the key reach the client, as far as it
// knows. It subscribes if the client has not done so yet.
func (s *subscriptions) Reached(redisKey string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.use(redisKey).reaches()
}

// Heartbeat notes how many receivers a heartbeat for the key had, which was
// sent at sent, or -1 if it may not be published.
func (s *subscriptions) Heartbeat(redisKey string, sent time.Time, receivers int64) {
	s.mu.Lock()
	c := s.of(redisKey)
	news := c != nil && c.hear(sent, receivers)
	s.mu.Unlock()
	if news {
		s.host.Logger.Warn("relock: no permission to publish, waiters poll")
	}
}

// Epoch returns the epoch of the channel for a key at the node of the key.
func (s *subscriptions) Epoch(redisKey string) Epoch {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of(redisKey).now()
}

package driver

import "time"

// A worker without a connection uses those of its client. The server, or the
// system, may have no room for one more connection, or packets of a new one may
// get lost, while open ones work. The batch goes over an idle connection of the
// pool, or else over the next one that a caller returns, or else over the
// shared one. The next batch dials again.
//
// The goroutine that sends the batch owns the borrowed connection and returns
// it to the pool. Any error in the middle of the batch is the result of all
// requests behind it. The pool then closes the connection. A batch is sent
// again if a borrowed connection is silent.

// BatchLimit limits how long a batch waits for its answers.
type BatchLimit struct {
	Own      time.Duration // over the worker's connection
	Borrowed time.Duration // over a borrowed one, which callers lack meanwhile
}

// Link is a connection for one worker.
type Link interface {
	// Pipeline sends the requests together, and returns a result for each
	// within limit. While it cannot connect, it uses a connection of the
	// callers.
	Pipeline(limit BatchLimit, requests []Request) []Result
	// Subscribe listens to channels until the connection is closed, and
	// returns the reason.
	Subscribe(to Listener) error
	// Listen adds a channel to the subscription under way, and Ignore drops
	// one. They do not block, and the listener learns of the result.
	// Without a subscription they do nothing.
	Listen(c Channel)
	Ignore(c Channel)
	// Shorten gives up the pipeline under way by then, as if it had been
	// its limit. It adds what replicas may take. It changes nothing if the
	// limit is earlier, or on a connection of the callers.
	Shorten(by time.Time)
	// Cut closes the connection. The next use opens another one.
	Cut()
	// Close closes the connection permanently.
	Close()
}

// Channel is what a subscription listens to.
type Channel struct {
	Name    string
	Sharded bool // it is in the slot of a key of a Cluster
}

// Listener is what a subscription reports to. One goroutine calls its
// functions, which must not block.
type Listener interface {
	// Open returns the channels to begin with. From then on, [Link.Listen]
	// and [Link.Ignore] change them.
	Open() []Channel
	// Confirmed is called when messages to the channel arrive from now on.
	Confirmed(Channel)
	// Message takes a message.
	Message(text string)
	// Lost is called when messages to a sharded channel no longer arrive.
	// err is nil if the server has ended it because its slot has moved, or
	// if it was to be ignored. Otherwise the server has refused it.
	Lost(c Channel, err error)
}

// OneChannel is the listener of a subscription to a single channel.
type OneChannel struct {
	Name        string
	OnConfirmed func()
	OnMessage   func(text string)
}

// Open returns the channel.
func (o OneChannel) Open() []Channel { return []Channel{{Name: o.Name}} }

// Confirmed calls OnConfirmed.
func (o OneChannel) Confirmed(Channel) { o.OnConfirmed() }

// Message calls OnMessage.
func (o OneChannel) Message(text string) { o.OnMessage(text) }

// Lost is never called: the channel is not sharded.
func (OneChannel) Lost(Channel, error) {}

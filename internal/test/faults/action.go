package faults

import "time"

// Action is what the proxy does with one request. The zero value drops it.
type Action struct {
	copies       int  // sent to the server now; the reply to the first counts
	hold         bool // keeps one more copy until Release
	requestDelay time.Duration
	answerDelay  time.Duration
	requestGate  <-chan struct{} // delays the request until it is closed
	answerGate   <-chan struct{} // and the reply
	answer       string          // an error line, sent instead of the server's reply
	again        bool            // the reply is sent twice
	swallow      bool            // no reply to this request or later ones of the connection
	last         bool            // nothing is sent after the reply
	cut          bool            // closes the client's connection instead of replying
	reset        bool            // with a TCP reset, if it is TCP

	halfRequest, halfAnswer bool          // forwards half of the bytes before the connection is closed
	requestTime, answerTime time.Duration // for all bytes, sent one by one
	answerRate              int           // bytes in a second; 0 is no limit
}

var forward = Action{copies: 1}

// The faults that need no argument.
var (
	// DropRequest forwards nothing and sends no reply. The connection stays
	// open, and is silent from then on.
	DropRequest = Action{swallow: true}
	// DropAnswer lets the server execute the request and drops the reply. The
	// connection stays open, and is silent from then on.
	DropAnswer = Action{copies: 1, swallow: true}
	// ThenSilent forwards the request and its reply. The connection stays open,
	// and is silent from then on.
	ThenSilent = Action{copies: 1, last: true}
	// CutBefore closes the connection and forwards nothing.
	CutBefore = Action{cut: true}
	// CutAfter closes the connection once the server has executed the request.
	// The reply is dropped.
	CutAfter = Action{copies: 1, cut: true}
	// CutInRequest closes the connection once the server has half of the
	// request's bytes.
	CutInRequest = Action{halfRequest: true, cut: true}
	// CutInAnswer lets the server execute the request. It closes the connection
	// once the client has half of the reply's bytes.
	CutInAnswer = Action{copies: 1, halfAnswer: true, cut: true}
	// ResetInAnswer is CutInAnswer with a TCP reset, if the connection is TCP.
	ResetInAnswer = Action{copies: 1, halfAnswer: true, cut: true, reset: true}
	// Double sends the request to the server twice and drops the second reply.
	Double = Action{copies: 2}
	// DoubleAnswer sends the reply to the client twice, in one write.
	DoubleAnswer = Action{copies: 1, again: true}
	// Hold forwards the request and its reply, and keeps a copy of the request
	// until Release.
	Hold = Action{copies: 1, hold: true}
	// HoldOnly keeps the request until Release. It gets no reply, and the
	// connection is silent from then on.
	HoldOnly = Action{hold: true, swallow: true}
	// HoldAndCut keeps the request until Release, and closes the connection.
	HoldAndCut = Action{hold: true, cut: true}
)

// Delay delays the reply by d, and with it the later ones on the same
// connection.
func Delay(d time.Duration) Action { return Action{copies: 1, answerDelay: d} }

// DelayRequest delays the request by d, and with it the later ones on the same
// connection. The server gets it even if the client has closed its connection
// by then.
func DelayRequest(d time.Duration) Action { return Action{copies: 1, requestDelay: d} }

// Far is a server that is d away: the request takes so long, and the reply too.
func Far(d time.Duration) Action { return Action{copies: 1, requestDelay: d, answerDelay: d} }

// DelayUntil is Delay until open is closed.
func DelayUntil(open <-chan struct{}) Action { return Action{copies: 1, answerGate: open} }

// DelayRequestUntil is DelayRequest until open is closed.
func DelayRequestUntil(open <-chan struct{}) Action { return Action{copies: 1, requestGate: open} }

// Gated is the action for a request that waits until open is closed, before
// anything else is done with it.
func (a Action) Gated(open <-chan struct{}) Action {
	a.requestGate = open
	return a
}

// SlowRequest forwards the request byte by byte, over d in total.
func SlowRequest(d time.Duration) Action { return Action{copies: 1, requestTime: d} }

// SlowAnswer sends the reply byte by byte, over d in total.
func SlowAnswer(d time.Duration) Action { return Action{copies: 1, answerTime: d} }

// AnswerRate sends the reply at this many bytes in a second, as a slow link
// does.
func AnswerRate(bytes int) Action { return Action{copies: 1, answerRate: bytes} }

// ErrorLine replies with the error line and forwards nothing.
func ErrorLine(text string) Action { return Action{answer: text} }

// HoldThenError replies with the error line, and keeps the request until
// Release.
func HoldThenError(text string) Action { return Action{hold: true, answer: text} }

// ExecuteThenError lets the server execute the request, and replies with the
// error line.
func ExecuteThenError(text string) Action { return Action{copies: 1, answer: text} }

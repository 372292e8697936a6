package faults

import "time"

// Action is what becomes of one request. The zero value drops it.
type Action struct {
	copies       int  // sent to the server now; the answer to the first one counts
	hold         bool // one more copy is kept until Release
	requestDelay time.Duration
	answerDelay  time.Duration
	answer       string // an error line, in place of the server's answer
	again        bool   // the answer comes twice
	swallow      bool   // no answer, to later requests of the connection neither
	last         bool   // nothing comes after the answer
	cut          bool   // the client's connection is closed in place of an answer
	reset        bool   // by a TCP reset, where it is TCP

	halfRequest, halfAnswer bool          // that many bytes come before the connection is closed
	requestTime, answerTime time.Duration // for all bytes of it, sent one by one
}

var forward = Action{copies: 1}

// The faults that need no argument.
var (
	// DropRequest forwards nothing and answers nothing. The connection stays, and is silent from then on.
	DropRequest = Action{swallow: true}
	// DropAnswer lets the server execute the request and swallows the answer. The connection stays, and is silent from then on.
	DropAnswer = Action{copies: 1, swallow: true}
	// ThenSilent forwards and answers the request. The connection stays, and is silent from then on.
	ThenSilent = Action{copies: 1, last: true}
	// CutBefore closes the connection and forwards nothing.
	CutBefore = Action{cut: true}
	// CutAfter closes the connection when the server has executed the request, without the answer.
	CutAfter = Action{copies: 1, cut: true}
	// CutInRequest closes the connection when the server has half of the request's bytes.
	CutInRequest = Action{halfRequest: true, cut: true}
	// CutInAnswer closes the connection when the server has executed the request and the client has half of the answer's bytes.
	CutInAnswer = Action{copies: 1, halfAnswer: true, cut: true}
	// ResetInAnswer is CutInAnswer with a TCP reset, where the connection is TCP.
	ResetInAnswer = Action{copies: 1, halfAnswer: true, cut: true, reset: true}
	// Double sends the request to the server twice and swallows the second answer.
	Double = Action{copies: 2}
	// DoubleAnswer gives the client the answer twice, at once.
	DoubleAnswer = Action{copies: 1, again: true}
	// Hold forwards and answers the request, and keeps a copy back until Release.
	Hold = Action{copies: 1, hold: true}
	// HoldOnly keeps the request back until Release. It gets no answer, and the connection is silent from then on.
	HoldOnly = Action{hold: true, swallow: true}
	// HoldAndCut keeps the request back until Release, and closes the connection.
	HoldAndCut = Action{hold: true, cut: true}
)

// Delay keeps the answer back for d, and with it the later ones on the same connection.
func Delay(d time.Duration) Action { return Action{copies: 1, answerDelay: d} }

// DelayRequest keeps the request back for d, and with it the later ones on the same connection. The server gets it even when the client has
// closed its connection meanwhile.
func DelayRequest(d time.Duration) Action { return Action{copies: 1, requestDelay: d} }

// SlowRequest forwards the request byte by byte, over d in all.
func SlowRequest(d time.Duration) Action { return Action{copies: 1, requestTime: d} }

// SlowAnswer answers byte by byte, over d in all.
func SlowAnswer(d time.Duration) Action { return Action{copies: 1, answerTime: d} }

// ErrorLine answers with the error line and forwards nothing.
func ErrorLine(text string) Action { return Action{answer: text} }

// ExecuteThenError lets the server execute the request and answers with the error line.
func ExecuteThenError(text string) Action { return Action{copies: 1, answer: text} }

package faults

import "time"

// Action is what becomes of one request. The zero value drops it.
type Action struct {
	copies       int  // sent to the server now; the answer to the first one counts
	hold         bool // one more copy is kept until Release
	requestDelay time.Duration
	answerDelay  time.Duration
	answer       string // an error line, in place of the server's answer
	swallow      bool   // no answer
	cut          bool   // the client's connection is closed in place of an answer
}

var forward = Action{copies: 1}

// The faults that need no argument.
var (
	// DropRequest forwards nothing and answers nothing. The connection stays.
	DropRequest = Action{swallow: true}
	// DropAnswer lets the server execute the request and swallows the answer. The connection stays.
	DropAnswer = Action{copies: 1, swallow: true}
	// CutBefore closes the connection and forwards nothing.
	CutBefore = Action{cut: true}
	// CutAfter closes the connection when the server has executed the request, without the answer.
	CutAfter = Action{copies: 1, cut: true}
	// Double sends the request to the server twice and swallows the second answer.
	Double = Action{copies: 2}
	// Hold forwards and answers the request, and keeps a copy back until Release.
	Hold = Action{copies: 1, hold: true}
	// HoldOnly keeps the request back until Release. It gets no answer.
	HoldOnly = Action{hold: true, swallow: true}
	// HoldAndCut keeps the request back until Release, and closes the connection.
	HoldAndCut = Action{hold: true, cut: true}
)

// Delay keeps the answer back for d, and with it the later ones on the same connection.
func Delay(d time.Duration) Action { return Action{copies: 1, answerDelay: d} }

// DelayRequest keeps the request back for d, and with it the later ones on the same connection. The server gets it even when the client has
// closed its connection meanwhile.
func DelayRequest(d time.Duration) Action { return Action{copies: 1, requestDelay: d} }

// ErrorLine answers with the error line and forwards nothing.
func ErrorLine(text string) Action { return Action{answer: text} }

// ExecuteThenError lets the server execute the request and answers with the error line.
func ExecuteThenError(text string) Action { return Action{copies: 1, answer: text} }

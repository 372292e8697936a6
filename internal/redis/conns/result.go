package conns

import (
	"time"

	"github.com/relock-go/relock/internal/redis/driver"
)

// isBreak reports whether the connection must not be used again after this
// answer, nor those that are idle. After READONLY, another one may lead to the
// new master. After NOAUTH, another one logs in again, if the credentials can
// change.
func (d *server) isBreak(err error) bool {
	return driver.IsReadOnly(err) || d.rotates && driver.HasCode(err, "NOAUTH")
}

// newResult returns the result of a command that was answered, or failed.
func (d *server) newResult(sent time.Time, reply any, err error) driver.Result {
	if err == nil || driver.IsAnswer(err) {
		d.noteAnswered()
	}
	if err == nil {
		d.repeats.Succeeded()
		return driver.Result{Reply: reply, Sent: sent, Answered: true}
	}
	return driver.Result{Reply: reply, Err: d.explain(err), Sent: sent, Answered: driver.IsKnown(err)}
}

// explain explains an error of this server. It says if the server may want TLS.
// An unknown error that has repeated for too long is final.
func (d *server) explain(err error) error {
	return d.repeats.Judge(driver.Sanitize(d.orEncrypted(err)))
}

// WaitsOf returns how long the server may take for the requests on top of the
// time of a command.
func WaitsOf(requests []driver.Request) (sum time.Duration) {
	for _, r := range requests {
		sum += r.Waits
	}
	return sum
}

func fill(outcomes []driver.Result, o driver.Result) {
	for i := range outcomes {
		outcomes[i] = o
	}
}

// Same returns a result for each request, all the same.
func Same(requests []driver.Request, o driver.Result) []driver.Result {
	outcomes := make([]driver.Result, len(requests))
	fill(outcomes, o)
	return outcomes
}

package acquire

import "time"

// begin counts the call as waiting. The first time, it sets the timer of the
// hint that the call waits for its own client.
func (w *wait) begin() {
	w.client.Counts.Waiting.Add(1)
	if w.owner != nil && w.hint == nil {
		w.hint = time.AfterFunc(w.Settings.Lease, w.owner.WarnOfOwnClient)
	}
}

// end undoes begin, except for the timer.
func (w *wait) end() { w.client.Counts.Waiting.Add(-1) }

func (w *wait) stopHint() {
	if w.hint != nil {
		w.hint.Stop()
	}
}

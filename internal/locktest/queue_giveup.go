package locktest

// IsOver says whether the call has ended.
func (w *Waiting) IsOver() bool {
	select {
	case <-w.Ended:
		return true
	default:
		return false
	}
}

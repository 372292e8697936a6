package lease

// About adds the node of a RedLock.
func (l *Lease) About(more ...any) []any {
	if n, ok := l.memberOf.node(l); ok {
		more = append([]any{"node", n}, more...)
	}
	return l.Renewal.About(more...)
}

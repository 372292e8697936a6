// Package search is what packages sentinel and cluster share: a goroutine that
// looks for servers, the callers that wait for what it finds, and the errors of
// a look that found nothing. Its mutex is never held while something is sent.
package search

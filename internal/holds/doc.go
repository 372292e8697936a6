// Package holds owns what a hold is to its user, whatever backend has granted
// it: the contexts that are cancelled with it, its levels, and the report of its
// end to an observer. The Redis engine and etcdlock share it.
//
// It has no goroutines. [Contexts] and [Levels] are guarded by the mutex of the
// backend; a [Report] has its own, which is never held while a hook runs.
package holds

// Package holds implements what all backends share of a hold: the contexts that
// it cancels, its levels, the object that has it, and the report of its end.
// The Redis engine, etcdlock and relocktest share it.
//
// # Contexts and levels
//
// [Contexts] ends once, for one reason. A context that is added later is
// cancelled immediately. The context of a hold is made on the first request,
// because most holds never need one.
//
// [Levels] are the holds that share one grant, oldest first. Live counts those
// that have not ended. A level that has ended stays in All until its Unlock.
//
// # Objects
//
// An [Object] is the lock of a user that goroutines share. It has the hold of
// the last Lock until the matching Unlock, lost or not. A call that acquired
// the lock meanwhile releases it, and waits for that Unlock.
//
// # Reports
//
// A hold carries a [Report] if the client has an observer or puts its holds
// into the profile of the process, see [OfProcess]. A report has two
// flags: known, once the call that acquired has announced the grant, and over,
// once the hold has ended.
//
// The first goroutine that ends the hold sets the end, and only that one.
// Unlock does so when the server has answered, a loss as part of its follow-up
// work. So each announced grant has one reported end, however many goroutines
// find it together. An end that comes before the announcement is reported right
// after it. Holds that no caller has seen are never announced, and never
// reported: members of a group, and grants that came too late.
//
// [WarnOfHeld] logs what a Close leaves at the server.
//
// # Goroutines and locks
//
// It has no goroutines. [Contexts] and [Levels] are guarded by the mutex of the
// backend. An [Object] and a [Report] have their own, which is never held while
// a hook runs. The observer is called without the mutex of a lease.
package holds

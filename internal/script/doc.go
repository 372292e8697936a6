// Package script owns the Lua scripts of the locks: how they are put together
// from the files of package lua, how they are called, and what they answer.
//
// A [Call] is one script with its lock and arguments. [Run] sends it for a
// caller, by its digest, and in full if the server does not know that; it may
// send it twice, so every script can be executed twice. [RunBatch] does the
// same for a worker. What may have been executed without an answer is an
// [Indeterminate].
package script

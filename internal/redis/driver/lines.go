package driver

import (
	"slices"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// The error lines that Redis, Valkey and our scripts send. A line that is not
// here may be that of a proxy whose server is away.

// The first words of lines, which are their codes.
var (
	passingCodes = []string{
		"LOADING", "BUSY", "READONLY", "OOM", "MISCONF", "NOREPLICAS", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN",
	}
	finalCodes = []string{
		"WRONGTYPE", "NOSCRIPT", "MOVED", "ASK", "CROSSSLOT", "BUSYKEY", "BUSYGROUP", "NOGROUP", "EXECABORT", "NOPROTO",
		"NOTBUSY",
		"UNKILLABLE", "UNBLOCKED", "IDONTKNOW",
	}
)

// finalLines are the beginnings of lines with the code ERR, without it, and of
// what Redis 6.2 says of a script.
var finalLines = []string{
	"relock: ", // our scripts
	"unknown command", "unknown subcommand", "Unknown subcommand", "Unknown Redis", "Unknown Valkey", "Unknown command",
	"wrong number of arg", "Wrong number of arg", "syntax error", "value is not ", "value is out of range",
	"invalid expire", "invalid cursor", "invalid DB index", "DB index is out of range", "SELECT is not allowed",
	"Number of keys", "Protocol error", "timeout is ", "increment or decrement", "string exceeds maximum",
	"hash value is not",
	"no such key", "index out of range", "min or max is not", "Bad data format", "numkeys ",
	"Error compiling script", "Error running script", "user_script:", "Lua ", "Script attempted", "Write commands ",
	"This Redis command", "This Valkey command", "Can't execute", "only (P)SUBSCRIBE", "WAIT cannot be used",
	"command not allowed",
	"This instance has cluster support disabled", "No such master with that name", "Unrecognized option", "Unsupported ",
}

// classOfLine returns the class of a server's error line.
func classOfLine(line redis.Error) class {
	word, rest, _ := strings.Cut(inner(line), " ")
	switch {
	case slices.Contains(passingCodes, word), IsFull(line), isTorn(line), isKilled(line):
		return passing
	case slices.Contains(finalCodes, word), isDenied(line):
		return final
	}
	if word != "ERR" {
		rest = inner(line)
	}
	if slices.ContainsFunc(finalLines, func(begin string) bool { return strings.HasPrefix(rest, begin) }) {
		return final
	}
	return unknown
}

// isKilled reports whether an operator has ended the script.
func isKilled(line redis.Error) bool {
	return strings.Contains(string(line), "Script killed by user with SCRIPT KILL")
}

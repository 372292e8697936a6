package driver

import (
	"context"
	"net"
	"strings"
)

// Caller sends a request to a server: a [Node], or a [Driver] of any of its
// nodes.
type Caller interface {
	Call(ctx context.Context, limit Limits, r Request) Result
}

// RoleUnlessMaster asks a server what it is, if it is no master: "a replica of
// host:port" or "a sentinel". It returns "" for a master, and if the server
// does not say, such as without the permission.
func RoleUnlessMaster(ctx context.Context, limit Limits, c Caller) string {
	info := infoOf(ctx, limit, c, "replication")
	switch {
	case info == nil || info["role"] == "master":
		return ""
	case info["master_host"] != "":
		return "a replica of " + net.JoinHostPort(info["master_host"], info["master_port"])
	case info["role"] != "":
		return "a " + info["role"]
	case infoOf(ctx, limit, c, "server")["redis_mode"] == "sentinel":
		return "a sentinel"
	}
	return ""
}

// infoOf returns the fields of a section of INFO, or nil if the server does not
// answer.
func infoOf(ctx context.Context, limit Limits, c Caller, section string) map[string]string {
	o := c.Call(ctx, limit, Request{Cmd: "INFO", Args: []any{section}})
	text, err := String(o.Reply, o.Err)
	if err != nil {
		return nil
	}
	return fieldsOf(text)
}

// fieldsOf returns the fields of an answer to INFO.
func fieldsOf(text string) map[string]string {
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		fields[name] = value
	}
	return fields
}

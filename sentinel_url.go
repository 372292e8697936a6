package relock

import (
	"net"
	"net/url"
	"strings"

	"github.com/relock-go/relock/internal/lockspec"
)

// fromSentinelURL sets master and sentinels from a URL of sentinels, and
// reports whether it is one. It returns the rest as a URL of one server. A
// package for URLs knows no list of hosts.
func (c *clientConfig) fromSentinelURL(rawURL string, m *lockspec.Problems) (rest string, is bool) {
	scheme, after, found := strings.Cut(rawURL, "://")
	scheme, is = strings.CutSuffix(strings.ToLower(scheme), "+sentinel")
	if !found || !is || scheme != "redis" && scheme != "rediss" {
		return "", false
	}
	authority, tail := cutAny(after, "/?#")
	path, query := cutAny(tail, "?#")
	user, hosts := "", authority
	if at := strings.LastIndex(authority, "@"); at >= 0 {
		user, hosts = authority[:at+1], authority[at+1:]
	}
	name, database, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	master, err := url.PathUnescape(name)
	m.Check(err == nil && master != "", "URL: it names no master; write redis+sentinel://host:port/master")
	m.Check(!strings.Contains(path, "@"), "URL: is not scheme://[user:password@]host:port[,host:port...]/master[/database]") // perhaps part of a password
	c.sentinel.master = master
	for host := range strings.SplitSeq(hosts, ",") {
		c.sentinel.addresses = append(c.sentinel.addresses, addressOf(host, m))
	}
	return scheme + "://" + user + "localhost/" + database + query, true
}

// cutAny cuts text before the first of some characters.
func cutAny(text, chars string) (before, rest string) {
	if at := strings.IndexAny(text, chars); at >= 0 {
		return text[:at], text[at:]
	}
	return text, ""
}

// addressOf returns the address of a sentinel from its place in a URL.
func addressOf(host string, m *lockspec.Problems) string {
	u, err := url.Parse("redis://" + host)
	if err != nil || u.Host != host || strings.Contains(u.Hostname(), ":") && host[0] != '[' {
		m.Check(false, "URL: a sentinel is not host:port") // not quoted: it may be part of a password
		return ""
	}
	name, port := u.Hostname(), u.Port()
	if name == "" {
		name = "localhost"
	}
	if port == "" {
		port = "26379"
	}
	return net.JoinHostPort(name, port)
}

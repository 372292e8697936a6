package relock

import (
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/relock-go/relock/internal/lockspec"
)

// fromURL sets network, address, user, password, database and TLS from a URL.
// Its errors do not contain the URL, because the URL may contain a password.
func (c *clientConfig) fromURL(rawURL string, m *lockspec.Problems) {
	u, err := url.Parse(rawURL)
	if err != nil {
		m.Check(false, "URL: cannot be parsed")
		return
	}
	switch u.Scheme {
	case "redis", "rediss":
		c.fromTCP(u, m)
	case "unix":
		c.fromUnix(u, m)
	default:
		m.Check(false, "URL: its scheme is not redis, rediss, unix or redis+sentinel") // not quoted: a wrong scheme may be a password
		return
	}
	m.Check(u.Opaque == "" && u.Fragment == "", "URL: is not scheme://[user:password@]host:port[/database]")
	if u.User != nil {
		c.Username = u.User.Username()
		*c.Password, _ = u.User.Password()
		m.Check(*c.Password != "", "URL: a user needs a password")
	}
}

func (c *clientConfig) fromTCP(u *url.URL, m *lockspec.Problems) {
	c.Network = "tcp"
	host, port := u.Hostname(), u.Port()
	if host == "" {
		host = "localhost"
	}
	if port == "" {
		port = "6379"
	}
	c.Address = net.JoinHostPort(host, port)
	c.UseTLS = u.Scheme == "rediss"
	c.fromDatabase(strings.TrimPrefix(u.Path, "/"), m)
	c.fromQuery(u, m)
}

func (c *clientConfig) fromUnix(u *url.URL, m *lockspec.Problems) {
	c.Network, c.Address = "unix", u.Path
	m.Check(u.Host == "", "URL: a unix socket has no host; write unix:///path")
	c.fromQuery(u, m)
}

// fromQuery reads ?db=n. It refuses all other parameters: an unknown setting
// must not be ignored.
func (c *clientConfig) fromQuery(u *url.URL, m *lockspec.Problems) {
	query, err := url.ParseQuery(u.RawQuery)
	m.Check(err == nil, "URL: its parameters cannot be parsed")
	for name, values := range query {
		switch {
		case name == "db":
			m.Check(len(values) == 1 && (u.Scheme == "unix" || strings.Trim(u.Path, "/") == ""), "URL: more than one database")
			c.fromDatabase(values[0], m)
		case strings.Contains(u.Path+u.RawQuery, "@"): // not quoted: it may be the rest of an unescaped password
			m.Check(false, "URL: a parameter is not known")
		default:
			m.Check(false, "URL: parameter %q is not known", name)
		}
	}
}

func (c *clientConfig) fromDatabase(text string, m *lockspec.Problems) {
	if text == "" {
		return
	}
	n, err := strconv.Atoi(text)
	m.Check(err == nil && n >= 0, "URL: database is not a number from 0")
	c.Database = n
}

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

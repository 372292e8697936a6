package relock

import (
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/relock-go/relock/internal/lockspec"
)

// schemes says of each scheme of servers whether connections are encrypted.
var schemes = map[string]bool{"redis": false, "rediss": true, "valkey": false, "valkeys": true}

// fromURL sets what a URL says, and returns the function that makes its client.
func (c *clientConfig) fromURL(
	rawURL string, m *lockspec.Problems,
) func(*clientConfig, lockspec.Problems) (*Client, error) {
	scheme, after, found := strings.Cut(rawURL, "://")
	scheme, kind, _ := strings.Cut(strings.ToLower(scheme), "+")
	if _, known := schemes[scheme]; found && known {
		switch kind {
		case "sentinel":
			c.fromServer(scheme+"://"+c.fromSentinels(after, m), m)
			return newSentinelClient
		case "cluster":
			c.fromServer(scheme+"://"+c.fromCluster(after, m), m)
			return newClusterClient
		}
	}
	c.fromServer(rawURL, m)
	return newOwnClient
}

// fromServer sets network, address, user, password, database and TLS from a URL
// of one server. Its errors do not contain the URL, because the URL may contain
// a password.
func (c *clientConfig) fromServer(rawURL string, m *lockspec.Problems) {
	u, err := url.Parse(rawURL)
	if err != nil {
		m.Check(false, "URL: cannot be parsed")
		return
	}
	_, isTCP := schemes[u.Scheme]
	switch {
	case isTCP:
		c.fromTCP(u, m)
	case u.Scheme == "unix":
		c.fromUnix(u, m)
	default: // not quoted: a wrong scheme may be a password
		m.Check(false, "URL: its scheme is not redis, rediss, unix, redis+sentinel or redis+cluster; redis may be valkey")
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
	c.UseTLS = schemes[u.Scheme]
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
	m.Check(err == nil && n >= 0, "URL: database is not a number such as 0 or 1")
	c.Database = n
}

// fromSentinels sets master and sentinels from a URL of sentinels, without its
// scheme. It returns the rest as a URL of one server: a package for URLs knows
// no list of hosts.
func (c *clientConfig) fromSentinels(after string, m *lockspec.Problems) (rest string) {
	user, hosts, path, query := splitURL(after)
	name, database, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	master, err := url.PathUnescape(name)
	m.Check(err == nil && master != "", "URL: it names no master; write redis+sentinel://host:port/master")
	m.Check(!strings.Contains(path, "@"),
		"URL: is not scheme://[user:password@]host:port[,host:port...]/master[/database]") // perhaps part of a password
	c.servers.master = master
	c.fromHosts(hosts, "sentinel", "26379", m)
	return user + "localhost/" + database + query
}

// fromCluster sets the servers from a URL of a Cluster; see fromSentinels.
func (c *clientConfig) fromCluster(after string, m *lockspec.Problems) (rest string) {
	user, hosts, path, query := splitURL(after)
	// perhaps part of a password
	m.Check(!strings.Contains(path, "@"), "URL: is not scheme://[user:password@]host:port[,host:port...]")
	c.fromHosts(hosts, "server", "6379", m)
	return user + "localhost" + path + query
}

// splitURL returns the parts of a URL with several hosts, without its scheme.
// The user ends with its @, and the others begin with what divides them.
func splitURL(after string) (user, hosts, path, query string) {
	authority, tail := cutAny(after, "/?#")
	path, query = cutAny(tail, "?#")
	at := strings.LastIndex(authority, "@") + 1
	return authority[:at], authority[at:], path, query
}

func (c *clientConfig) fromHosts(hosts, who, port string, m *lockspec.Problems) {
	for host := range strings.SplitSeq(hosts, ",") {
		c.servers.addresses = append(c.servers.addresses, addressOf(host, who, port, m))
	}
}

// cutAny cuts text before the first of some characters.
func cutAny(text, chars string) (before, rest string) {
	if at := strings.IndexAny(text, chars); at >= 0 {
		return text[:at], text[at:]
	}
	return text, ""
}

// addressOf returns the address of a sentinel or a server from its place in a
// URL.
func addressOf(host, who, defaultPort string, m *lockspec.Problems) string {
	u, err := url.Parse("redis://" + host)
	if err != nil || u.Host != host || strings.Contains(u.Hostname(), ":") && host[0] != '[' {
		m.Check(false, "URL: a %s is not host:port", who) // not quoted: it may be part of a password
		return ""
	}
	name, port := u.Hostname(), u.Port()
	if name == "" {
		name = "localhost"
	}
	if port == "" {
		port = defaultPort
	}
	return net.JoinHostPort(name, port)
}

func checkAddress(m *lockspec.Problems, network, address string) {
	m.Check(address != "", "address: is empty")
	switch network {
	case "tcp", "tcp4", "tcp6":
		m.Check(!strings.Contains(address, "@"), "address: has an @; it is host:port")
		_, port, err := net.SplitHostPort(address)
		m.Check(address == "" || err == nil, "address: %s is not host:port", shown(address))
		n, bad := strconv.ParseUint(port, 10, 16)
		m.Check(err != nil || (bad == nil && n > 0), "address: %s has no port from 1 to 65535", shown(address))
	case "unix":
	default:
		m.Check(false, "network: %s is not tcp, tcp4, tcp6 or unix", shown(network))
	}
}

// shown quotes an address, unless it may be a URL that contains a password.
func shown(text string) string {
	if strings.Contains(text, "@") {
		return "what was given"
	}
	return strconv.Quote(text)
}

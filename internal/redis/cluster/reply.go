package cluster

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/redis/search"
)

// view is what one server says about its Cluster.
type view struct {
	table *table
	nodes []string // the servers that are online, masters and replicas
	// err is the first error of WithAddressMap, which is a mistake in the
	// settings.
	err error
}

// reader reads the reply of a server about its Cluster.
type reader struct {
	asked string // the address of the server
	tls   bool
	use   func(address string) string // see WithAddressMap
	view
}

var errOdd = fmt.Errorf("%w: the answer is not that of a Cluster", errs.ErrInvalid)

// read returns the view in a reply that parse understands.
func (r *reader) read(parse func(*reader, any) error, reply any) (*view, error) {
	r.view = view{table: &table{}}
	switch err := parse(r, reply); {
	case err != nil:
		return nil, err
	case r.err != nil:
		return nil, r.err
	case len(r.table.masters) == 0:
		return nil, errEmpty
	}
	return &r.view, nil
}

var errEmpty = search.NewReason("it knows no master that has slots and is online", driver.ErrTimeout)

// shards reads CLUSTER SHARDS: shards with slots and nodes.
func (r *reader) shards(reply any) error {
	all, err := driver.Values(reply, nil)
	if err != nil {
		return errOdd
	}
	for _, one := range all {
		shard := fieldsOf(one)
		ranges, err := driver.Values(shard["slots"], nil)
		if err != nil || len(ranges)%2 != 0 {
			return errOdd
		}
		master := r.masterOf(shard["nodes"])
		for i := 0; i < len(ranges); i += 2 {
			if err := r.assign(ranges[i], ranges[i+1], master); err != nil {
				return err
			}
		}
	}
	return nil
}

// masterOf returns the address of the master of a shard, or "" if none is
// online. It notes all nodes that are online.
func (r *reader) masterOf(nodes any) (master string) {
	all, _ := driver.Values(nodes, nil)
	for _, one := range all {
		node := fieldsOf(one)
		if driver.Word(node["health"]) != "online" { // or "fail", "loading"
			continue
		}
		port := node["port"]
		if encrypted := node["tls-port"]; r.tls && encrypted != nil {
			port = encrypted
		}
		address := r.note(node["endpoint"], port)
		if driver.Word(node["role"]) == "master" && master == "" {
			master = address
		}
	}
	return master
}

// ranges reads CLUSTER SLOTS: ranges of slots, each with its master and its
// replicas. The port is the one for connections such as that of the request.
func (r *reader) ranges(reply any) error {
	all, err := driver.Values(reply, nil)
	if err != nil {
		return errOdd
	}
	for _, one := range all {
		parts, err := driver.Values(one, nil)
		if err != nil || len(parts) < 3 {
			return errOdd
		}
		master := ""
		for i, node := range parts[2:] {
			values, err := driver.Values(node, nil)
			if err != nil || len(values) < 2 {
				return errOdd
			}
			if address := r.note(values[0], values[1]); i == 0 {
				master = address
			}
		}
		if err := r.assign(parts[0], parts[1], master); err != nil {
			return err
		}
	}
	return nil
}

// assign gives slots to a master, if it has an address.
func (r *reader) assign(first, last any, master string) error {
	from, err := driver.Int64(first, nil)
	to, err2 := driver.Int64(last, nil)
	if err != nil || err2 != nil || from < 0 || from > to || to >= slots {
		return errOdd
	}
	if master != "" {
		r.table.assign(int(from), int(to), master)
	}
	return nil
}

// note notes the address of a node, and returns it. It returns "" if the node
// has none.
func (r *reader) note(host, port any) string {
	address, err := named(r.use, r.asked, driver.Word(host), driver.Word(port))
	if err != nil && r.err == nil {
		r.err = err
	}
	if address != "" {
		r.nodes = append(r.nodes, address)
	}
	return address
}

// named returns the address to use for one that the server at asked names. A
// host that this one does not know is its own. A loopback address is its own as
// well, unless the user maps it: on the client's machine it would be another
// server. The address is "" if there is no port.
func named(use func(address string) string, asked, host, port string) (address string, err error) {
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", nil
	}
	asker, _, err := net.SplitHostPort(asked)
	unknown := host == "" || host == "?"
	switch {
	case unknown && err != nil:
		return "", nil // a path has no host
	case unknown, use == nil && isLoopback(host) && asker != "" && !isLoopback(asker):
		host = asker
	}
	return search.Translate(use, net.JoinHostPort(host, port))
}

func isLoopback(host string) bool {
	return strings.EqualFold(host, "localhost") || net.ParseIP(host).IsLoopback()
}

// fieldsOf returns an array of names and values as a map.
func fieldsOf(reply any) map[string]any {
	values, err := driver.Values(reply, nil)
	if err != nil {
		return nil
	}
	fields := map[string]any{}
	for i := 0; i+1 < len(values); i += 2 {
		fields[driver.Word(values[i])] = values[i+1]
	}
	return fields
}

package sentinel

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/redis/conns"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/redis/search"
)

// configOf returns the settings of connections to a sentinel. Sentinels have a
// separate log-in, and no databases.
func (s *Sentinel) configOf(sentinel string, limit time.Duration) *driver.Config {
	c := search.ShortConfig(s.config.Servers, sentinel, limit)
	c.Username, c.Password, c.Login, c.Database = s.config.Username, s.config.Password, nil, 0
	return c
}

// askOne asks a sentinel for the master, and for other sentinels. A sentinel
// that does not name others is no failure.
func (s *Sentinel) askOne(ctx context.Context, sentinel string, limit time.Duration) (word, error) {
	p := conns.NewPool(s.configOf(sentinel, limit))
	defer p.Close() //nolint:errcheck // nothing is under way
	w, err := s.masterOf(ctx, p)
	if err != nil {
		return word{}, s.orLogin(err)
	}
	o := p.Call(ctx, driver.Limits{}, search.Command("SENTINEL", "SENTINELS", s.config.Name))
	w.others = s.othersIn(o.Reply)
	return w, nil
}

// addressIn returns the address of the master from the answer of a sentinel.
func (s *Sentinel) addressIn(reply any) (string, error) {
	if reply == nil {
		return "", search.NewReason(fmt.Sprintf("knows no master %q; see NewClientSentinel", s.config.Name), errs.ErrInvalid)
	}
	if parts, err := driver.Strings(reply, nil); err == nil && len(parts) == 2 {
		return s.mapped(parts[0], parts[1])
	}
	return "", errWild
}

var errWild = fmt.Errorf("%w: the answer is not that of a sentinel", errs.ErrInvalid)

// othersIn returns the sentinels in an answer. Those without an address are
// omitted.
func (s *Sentinel) othersIn(reply any) []string {
	all, err := driver.Values(reply, nil)
	if err != nil {
		return nil
	}
	others := []string{}
	for _, one := range all {
		fields, _ := driver.StringMap(one, nil)
		if address, err := s.mapped(fields["ip"], fields["port"]); err == nil {
			others = append(others, address)
		}
	}
	return others
}

// mapped returns an address as the client has to use it.
func (s *Sentinel) mapped(host, port string) (address string, err error) {
	if host == "" || port == "" || port == "0" {
		return "", errWild
	}
	return search.Translate(s.config.Map, net.JoinHostPort(host, port))
}

// checkRole asks a server whether it is a master. A server that answers with an
// error may be one: the user need not have the permission, and what a lock
// sends will fail with a better error.
func (s *Sentinel) checkRole(ctx context.Context, address string, limit time.Duration) error {
	c := search.ShortConfig(s.config.Servers, address, limit)
	c.Database = 0
	p := conns.NewPool(c)
	defer p.Close() //nolint:errcheck // nothing is under way
	o := p.Call(ctx, driver.Limits{}, search.Command("ROLE"))
	switch {
	case driver.IsAnswer(o.Err):
		return nil
	case o.Err != nil:
		return fmt.Errorf("server %s: %w", address, o.Err)
	}
	values, err := driver.Values(o.Reply, nil)
	if err != nil || len(values) == 0 {
		return nil
	}
	if role, _ := driver.String(values[0], nil); role != "master" {
		return search.NewReason(fmt.Sprintf("server %s is no master: its role is %q", address, role), driver.ErrTimeout)
	}
	return nil
}

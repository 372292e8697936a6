package doctor

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/redis/driver"
)

const (
	trips     = 20
	measuring = 2 * time.Second // what slow trips may take together
	slow      = renewal / 10
	// renewal is after a third of the default lease.
	renewal = 10 * time.Second
)

// roundTrip measures how long a lock takes at least.
func (d *doctor) roundTrip(ctx context.Context) {
	var took []time.Duration
	for begin := time.Now(); len(took) < trips && (len(took) == 0 || time.Since(begin) < measuring); {
		start := time.Now()
		if _, err := d.eval(ctx, "return 1"); err != nil {
			d.find("round trip", Fail, "see docs/operations.md, Permissions", "%v", err)
			return
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	median, longest := took[len(took)/2], took[len(took)-1]
	level, remedy := OK, ""
	if median > slow {
		level, remedy = Warn, "use longer leases, or look at the load of the server and the network"
	}
	d.find("round trip", level, remedy, "%v, the slowest of %d %v; by default a hold is renewed each %v",
		median.Round(time.Microsecond), len(took), longest.Round(time.Microsecond), renewal)
}

// info is what INFO says.
type info map[string]string

func parseInfo(text string) info {
	all := info{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			all[name] = value
		}
	}
	return all
}

func (i info) number(name string) int64 {
	n, _ := strconv.ParseInt(i[name], 10, 64) // what is missing is 0
	return n
}

// server checks the settings of each master.
func (d *doctor) server(ctx context.Context) {
	masters, err := d.masters(ctx)
	var infos []info
	for _, m := range masters {
		var i info
		if i, err = d.readInfo(ctx, m); err != nil {
			break
		}
		infos = append(infos, i)
	}
	if err != nil {
		d.find("settings", Warn, "give the user +info", "unknown: %v", err)
		return
	}
	var each [][]Finding
	for n, i := range infos {
		one := &doctor{Options: d.Options}
		one.version(i)
		one.eviction(i)
		one.persistence(i, d.appendfsync(ctx, masters[n], i))
		one.connections(i)
		each = append(each, one.findings)
	}
	d.findings = append(d.findings, worst(each)...)
	d.replicas(infos)
	if len(infos) > 0 && infos[0].number("cluster_enabled") == 1 {
		d.slots(ctx, masters)
	}
}

// worst returns of each check what is worst among the masters, and how many of
// them have that level.
func worst(each [][]Finding) (all []Finding) {
	severity := []Level{OK, Warn, Fail}
	for n, one := range each {
		for check, f := range one {
			switch {
			case n == 0:
				all = append(all, f)
			case slices.Index(severity, f.Level) > slices.Index(severity, all[check].Level):
				all[check] = f
			}
		}
	}
	for check, f := range all {
		same := 0
		for _, one := range each {
			if one[check].Level == f.Level {
				same++
			}
		}
		if f.Level != OK && len(each) > 1 {
			all[check].Found = fmt.Sprintf("%d of %d masters: %s", same, len(each), f.Found)
		}
	}
	return all
}

func (d *doctor) readInfo(ctx context.Context, n driver.Node) (info, error) {
	text, err := driver.String(d.ask(ctx, n, "INFO"))
	return parseInfo(text), err
}

// appendfsync returns a setting that INFO lacks, or "" if it is not known.
func (d *doctor) appendfsync(ctx context.Context, n driver.Node, i info) string {
	if d.key == "" || i.number("aof_enabled") != 1 {
		return ""
	}
	values, err := driver.StringMap(d.ask(ctx, n, "CONFIG", "GET", "appendfsync"))
	if err != nil {
		return "" // most users may not read it
	}
	return values["appendfsync"]
}

func (d *doctor) version(i info) {
	var major, minor int
	parts := strings.Split(i["redis_version"]+"..", ".")
	major, _ = strconv.Atoi(parts[0]) // what cannot be read is too old
	minor, _ = strconv.Atoi(parts[1])
	if major < 6 || major == 6 && minor < 2 {
		d.find("version", Fail, "use 6.2 or newer", "%q", i["redis_version"])
		return
	}
	d.find("version", OK, "", "%s", i["redis_version"])
}

// eviction finds settings under which the server drops keys. All locks have an
// expiry, so each policy but noeviction may drop them.
func (d *doctor) eviction(i info) {
	const remedy = "set maxmemory-policy noeviction"
	policy := i["maxmemory_policy"]
	switch {
	case policy == "noeviction":
		d.find("eviction", OK, "", "%s", policy)
	case policy == "":
		d.find("eviction", Warn, remedy, "the server does not name its policy")
	case i.number("maxmemory") > 0:
		dropped := i.number("evicted_keys")
		d.find("eviction", Fail, remedy, "%s drops locks when memory is full; %d keys were dropped so far", policy, dropped)
	default:
		d.find("eviction", Warn, remedy, "%s drops locks once maxmemory is set", policy)
	}
}

func (d *doctor) persistence(i info, appendfsync string) {
	const better = "appendfsync always loses nothing, and makes each lock wait for the disk"
	switch {
	case i.number("aof_enabled") != 1:
		const remedy = "set appendonly yes, or check fencing tokens where work is written"
		d.find("persistence", Warn, remedy, "a restart of the server forgets locks that are held")
	case appendfsync == "always":
		d.find("persistence", OK, "", "append-only file, appendfsync always: a crash forgets no lock that was granted")
	case appendfsync == "everysec":
		d.find("persistence", OK, better,
			"append-only file, appendfsync everysec: a crash of the machine forgets the last second or two")
	case appendfsync == "no":
		d.find("persistence", Warn, "set appendfsync everysec or always",
			"append-only file, appendfsync no: a crash of the machine forgets what the system has not written, some 30s")
	default:
		d.find("persistence", OK, "+config|get shows appendfsync", "append-only file; appendfsync is not known")
	}
}

func (d *doctor) connections(i info) {
	now, most := i.number("connected_clients"), i.number("maxclients")
	switch {
	case most == 0:
		d.find("connections", OK, "", "%d, the limit is not known", now)
	case now*5 >= most*4:
		d.find("connections", Warn, "raise maxclients, or find who opens them", "%d of at most %d", now, most)
	default:
		d.find("connections", OK, "", "%d of at most %d", now, most)
	}
}

package doctor

import "strings"

// replicas says which number WithReplicas needs.
func (d *doctor) replicas(infos []info) {
	if len(infos) == 0 {
		return
	}
	least, most, waits := infos[0].number("connected_slaves"), int64(0), int64(0)
	for _, i := range infos {
		n := i.number("connected_slaves")
		least, most = min(least, n), max(most, n)
		waits += n - i.online()
	}
	switch {
	case least != most:
		const remedy = "give each master as many, for WithReplicas(n, timeout): with fewer than n it grants nothing"
		d.find("replicas", Warn, remedy, "%d to %d, by master", least, most)
	case waits > 0:
		const remedy = "see their logs; until they have copied the data, WithReplicas for all of them grants nothing"
		d.find("replicas", Warn, remedy, "%d, but %d are not online", most, waits)
	case most == 0:
		d.find("replicas", OK, "do not set WithReplicas: it would grant nothing", "none")
	default:
		d.find("replicas", OK,
			"set WithReplicas(n, timeout) with n as the number of all replicas, or a failover can lose a lock",
			"%d online", most)
	}
}

// online returns how many replicas have copied the data.
func (i info) online() (n int64) {
	for name, value := range i {
		if strings.HasPrefix(name, "slave") && strings.Contains(value, ",state=online,") {
			n++
		}
	}
	return n
}

package cluster

import (
	"slices"
	"time"

	"github.com/relock-go/relock/internal/redis/driver"
)

// slots is the number of slots of a Cluster. Each key is in one of them.
const slots = 16384

// slotOf returns the slot of a key: the CRC16 of its tag.
func slotOf(key string) int {
	crc := uint16(0)
	for _, c := range []byte(driver.TagOf(key)) {
		crc = crc<<8 ^ crc16[byte(crc>>8)^c]
	}
	return int(crc % slots)
}

// crc16 is the table of CRC16/XMODEM, which Redis uses.
var crc16 = func() (table [256]uint16) {
	for i := range table {
		crc := uint16(i) << 8
		for range 8 {
			carry := crc >> 15
			crc = crc<<1 ^ carry*0x1021
		}
		table[i] = crc
	}
	return table
}()

// table says which master has which slots. A table in use is never changed.
type table struct {
	of      [slots]uint16 // one more than the index in masters; 0 if the slot has no master
	masters []string      // addresses; after a correction, one may have no slot
	// holeAt is when slots lost their masters, or when it became known that
	// slots have none. It is zero if all slots have one.
	holeAt time.Time
}

// master returns the address of the master of a slot, or "".
func (t *table) master(slot int) string {
	if at := t.of[slot]; at > 0 {
		return t.masters[at-1]
	}
	return ""
}

// assign gives the slots from first to last to a master.
func (t *table) assign(first, last int, address string) {
	at := slices.Index(t.masters, address)
	if at < 0 {
		at = len(t.masters)
		t.masters = append(t.masters, address)
	}
	for slot := first; slot <= last; slot++ {
		t.of[slot] = uint16(at + 1)
	}
}

// with returns a copy in which a slot has another master.
func (t *table) with(slot int, address string) *table {
	changed := &table{of: t.of, masters: slices.Clone(t.masters), holeAt: t.holeAt}
	changed.assign(slot, slot, address)
	return changed
}

// owners returns the masters that have slots, sorted.
func (t *table) owners() (all []string) {
	has := make([]bool, len(t.masters)+1)
	for _, at := range t.of {
		has[at] = true
	}
	for i, address := range t.masters {
		if has[i+1] {
			all = append(all, address)
		}
	}
	slices.Sort(all)
	return all
}

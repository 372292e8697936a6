package proof

import "pgregory.net/rapid"

// command is one kind of step.
type command struct {
	name   string
	weight int
	ready  bool // it can be made now
	run    func(*machineT)
}

// commands are ordered by how often they are wanted, since rapid prefers the
// first ones a little.
func (m *machine) commands() []command {
	granted, held, levels := len(m.grants) > 0, len(m.holders()) > 0, len(m.levels()) > 0
	return []command{
		{"acquire", 3, true, m.tryAcquireCommand},
		{"wait", 3, len(m.mayWait()) > 0, m.waitCommand},
		{"enter", 5, held, m.tryAcquireAgainCommand},
		{"late copy of a request", 6, granted, m.lateCopyCommand},
		{"unlock the newest hold", 5, true, m.unlockCommand},
		{"unlock any hold, or again", 5, levels, m.unlockLevelCommand},
		{"extend", 5, levels, m.extendCommand},
		{"release and stop waiting together", 5, len(m.quickWaits()) > 0, m.unlockAndStopWaitingCommand},
		{"enter with the context of a hold", 4, levels, m.tryAcquireInsideCommand},
		{"stop waiting", 2, len(m.waits) > 0, m.stopWaitingCommand},
		{"clock jumps", 4, true, m.advanceClockCommand},
		{"operator deletes the key", 2, true, m.deleteCommand},
		{"another program takes the key", 1, true, m.overwriteCommand},
		{"scripts are forgotten", 1, true, m.forgetScriptsCommand},
		{"subscriptions are cut", 1, true, m.cutSubscriptionsCommand},
		{"client crashes", 1, true, m.crashClientCommand},
		{"server is killed and restarts", 1, true, m.restartServerCommand},
		{"mistake", 1, true, m.mistakeCommand},
		{"context that has ended", 1, true, m.endedContextCommand},
	}
}

// step makes one call.
func (m *machine) step(t *machineT) {
	if m.isLate() {
		return
	}
	byName := map[string]func(*machineT){}
	var names []string
	for _, c := range m.commands() {
		byName[c.name] = c.run
		for range c.weight {
			if c.ready {
				names = append(names, c.name)
			}
		}
	}
	name := rapid.SampledFrom(names).Draw(t.T, "command")
	m.trail = append(m.trail, name)
	byName[name](t)
	m.steps[name]++
}

func (m *machine) checkInTime(t *machineT) {
	if !m.isLate() {
		m.check(t)
	}
}

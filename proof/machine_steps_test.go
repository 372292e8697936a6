package proof

import "pgregory.net/rapid"

// command is one kind of step.
type command[F any] struct {
	name   string
	weight int
	ready  bool // it can be made now
	run    F
}

// draw returns one of the commands that can be made now.
func draw[F any](r *rapid.T, all []command[F]) command[F] {
	var chosen []int
	for i, c := range all {
		for range c.weight {
			if c.ready {
				chosen = append(chosen, i)
			}
		}
	}
	return all[rapid.SampledFrom(chosen).Draw(r, "step")]
}

// commands are ordered by how often they are wanted, since rapid prefers the
// first ones a little.
func (m *machine) commands() []command[func(*machineT)] {
	granted, held, levels := len(m.grants) > 0, len(m.holders()) > 0, len(m.levels()) > 0
	return []command[func(*machineT)]{
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
	c := draw(t.T, m.commands())
	m.trail = append(m.trail, c.name)
	c.run(t)
	m.steps[c.name]++
}

func (m *machine) checkInTime(t *machineT) {
	if !m.isLate() {
		m.check(t)
	}
}

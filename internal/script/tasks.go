package script

// TaskScript is a script of the task queue. docs/queue-design.md describes the
// keys of a queue.
type TaskScript struct {
	*Script
	suffixes string // of its keys, one letter each
}

// The scripts of the task queue.
var (
	TaskEnqueue = taskScript("ndpkoiu", "number", "task_number", "message", "task_wake", "task_key", "task_enqueue")
	TaskPut     = taskScript("dpi", "task_put_one", "message", "task_wake", "task_put") // without keys
	TaskReceive = taskScript("ndlpmkoizc", "number", "task_number", "message", "task_wake", "task_key", "task_bury", "task_may", "task_receive")
	TaskSettle  = taskScript("ndlpmkoizu", "absent", "number", "task_number", "message", "task_wake", "task_key", "task_bury", "task_may", "task_settle")
	TaskRenew   = taskScript("lm", "absent", "number", "task_renew")
	TaskRemove  = taskScript("dlpmkoiz", "absent", "message", "task_wake", "task_key", "task_may", "task_remove")
	TaskStats   = taskScript("dlpiz", "task_stats")
	TaskDead    = taskScript("pmz", "number", "task_dead")
	TaskRequeue = taskScript("ndpmkoiz", "task_number", "message", "task_wake", "task_key", "task_may", "task_requeue")
)

func taskScript(suffixes string, files ...string) *TaskScript {
	return &TaskScript{luaScript(files...), suffixes}
}

// On returns the keys of the script in the queue with this name in Redis.
// receiver is the one whose last receive is among them.
func (s *TaskScript) On(queue, receiver string) []string {
	keys := make([]string, len(s.suffixes))
	for i, suffix := range s.suffixes {
		keys[i] = queue + ":" + string(suffix)
		if suffix == 'c' {
			keys[i] += ":" + receiver
		}
	}
	return keys
}

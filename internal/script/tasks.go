package script

// TaskScript is a script of the task queue. docs/internals/queue-design.md
// describes the keys of a queue.
type TaskScript struct {
	*Script
	suffixes string // of its keys, one letter each
}

// The scripts of the task queue.
var (
	TaskEnqueue = taskScript("ndpkoiuw", "number", "task_number", "message", "task_wake", "task_key", "task_enqueue")
	TaskPut     = taskScript("dpi", "task_put_one", "message", "task_wake", "task_put") // without keys
	TaskReceive = taskScript("ndlpmkoizcwusbghv", "number", "task_number", "message", "task_wake", "task_key", "task_meta",
		"task_behind", "task_bury", "task_may", "task_join", "task_kept", "task_receive")
	TaskSettle = taskScript("ndlpmkoizuwsbg", "absent", "number", "task_number", "message", "task_wake", "task_key",
		"task_meta", "task_behind", "task_bury", "task_may", "task_settle")
	TaskGate   = taskScript("bgi", "number", "message", "task_wake", "task_key", "task_meta", "task_behind", "task_gate")
	TaskRenew  = taskScript("lm", "absent", "number", "task_meta", "task_renew")
	TaskRemove = taskScript("dlpmkoizwsb", "absent", "message", "task_wake", "task_key", "task_may", "task_remove")
	TaskStats  = taskScript("dlpizwsv", "number", "task_kept", "task_stats")
	TaskPause  = taskScript("vdmsbi", "message", "task_wake", "task_key", "task_meta", "task_behind", "task_may",
		"task_pause")
	TaskGet     = taskScript("dlpmozwsbv", "number", "task_kept", "task_key", "task_meta", "task_behind", "task_get")
	TaskList    = taskScript("dlzwsbov", "task_list")
	TaskDead    = taskScript("pmz", "number", "task_kept", "task_dead")
	TaskRequeue = taskScript("ndpmkoiz", "task_number", "message", "task_wake", "task_key", "task_may",
		"task_revive", "task_requeue")
	// TaskRequeueDied is for dead letters by the time at which they died.
	TaskRequeueDied = taskScript("ndpmkoiz", "number", "task_number", "message", "task_wake", "task_key", "task_may",
		"task_kept", "task_revive", "task_requeue_died")
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

package cli

// changedRow is the object of --output json of a command that changes a task.
// Those of what is read are in package display.
type changedRow struct {
	ID     string `json:"id"`
	Result string `json:"result"`
}

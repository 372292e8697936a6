package driver

import (
	"context"
	"strconv"
)

// ClusterSize asks a server how many masters with slots its Cluster has. It
// reports whether the server has said so, or that it is part of none. A server
// may refuse to answer: then no Cluster is known.
func ClusterSize(ctx context.Context, c Caller) (masters int, known bool) {
	o := c.Call(ctx, Limits{}, Request{Cmd: "CLUSTER", Args: []any{"INFO"}})
	if o.Err != nil {
		return 0, o.Answered && !IsTransient(o.Err)
	}
	info, _ := String(o.Reply, nil)
	if size, ok := fieldsOf(info)["cluster_size"]; ok {
		masters, _ = strconv.Atoi(size)
		return masters, masters > 0 // it has slots soon
	}
	return 0, true
}

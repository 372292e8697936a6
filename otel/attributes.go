package relockotel

import (
	"go.opentelemetry.io/otel/attribute"

	"github.com/relock-go/relock/queue"
)

// The attributes of locks.
const (
	keyKey     = attribute.Key("relock.key") // of spans only
	kindKey    = attribute.Key("relock.kind")
	outcomeKey = attribute.Key("relock.outcome")
	waitedKey  = attribute.Key("relock.waited")
	nameKey    = attribute.Key("relock.name")
)

// The attributes of tasks. All but the first three are of the semantic
// conventions v1.37.0, whose package has hundreds more.
const (
	taskOutcomeKey = attribute.Key("relock.task.outcome")
	retryKey       = attribute.Key("relock.task.retry")
	attemptKey     = attribute.Key("relock.task.attempt") // of spans only
	systemKey      = attribute.Key("messaging.system")
	operationKey   = attribute.Key("messaging.operation.name")
	kindOfOpKey    = attribute.Key("messaging.operation.type") // of spans only
	destinationKey = attribute.Key("messaging.destination.name")
	messageKey     = attribute.Key("messaging.message.id")          // of spans only
	batchKey       = attribute.Key("messaging.batch.message_count") // of spans only
	errorKey       = attribute.Key("error.type")
)

// The values of messaging.operation.name.
const (
	opSend    = "send"
	opReceive = "receive"
	opProcess = "process"
)

// callLabels are those of a call that acquires a lock.
type callLabels struct {
	kind, outcome string
	waited        bool
	name          string
}

func (l callLabels) attributes() []attribute.KeyValue {
	return named(l.name, kindKey.String(l.kind), outcomeKey.String(l.outcome), waitedKey.Bool(l.waited))
}

func (l callLabels) renamed() callLabels {
	l.name = rename(l.name)
	return l
}

// holdLabels are those of a hold.
type holdLabels struct{ kind, outcome, name string }

func (l holdLabels) attributes() []attribute.KeyValue {
	return named(l.name, kindKey.String(l.kind), outcomeKey.String(l.outcome))
}

func (l holdLabels) renamed() holdLabels {
	l.name = rename(l.name)
	return l
}

// renewalLabels are those of a renewal: its outcome.
type renewalLabels string

func (l renewalLabels) attributes() []attribute.KeyValue {
	return []attribute.KeyValue{outcomeKey.String(string(l))}
}

func (l renewalLabels) renamed() renewalLabels { return l }

// taskLabels are those of what is done with a task. The outcome of an operation
// without an end is empty, and so is the failure of one that has not failed.
type taskLabels struct {
	queue, operation string
	outcome          queue.Outcome
	failure          string
}

func (l taskLabels) attributes() []attribute.KeyValue {
	all := []attribute.KeyValue{
		systemKey.String("relock"), operationKey.String(l.operation), destinationKey.String(l.queue),
	}
	if l.outcome != "" {
		all = append(all, taskOutcomeKey.String(string(l.outcome)))
	}
	if l.failure != "" {
		all = append(all, errorKey.String(l.failure))
	}
	return all
}

func (l taskLabels) renamed() taskLabels {
	l.queue = rename(l.queue)
	return l
}

// waitLabels are those of the wait of a task, and of one that is overdue.
type waitLabels struct {
	queue string
	retry bool
}

func (l waitLabels) attributes() []attribute.KeyValue {
	return []attribute.KeyValue{destinationKey.String(l.queue), retryKey.Bool(l.retry)}
}

func (l waitLabels) renamed() waitLabels {
	l.queue = rename(l.queue)
	return l
}

// named adds the name of a lock, if there is one.
func named(name string, all ...attribute.KeyValue) []attribute.KeyValue {
	if name == "" {
		return all
	}
	return append(all, nameKey.String(name))
}

func rename(name string) string {
	if name == "" {
		return ""
	}
	return other
}

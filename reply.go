package relock

import "github.com/gomodule/redigo/redis"

// What follows reads replies, so that only this package knows redigo's types.

// replyValues returns the values of an array.
func replyValues(reply any, err error) ([]any, error) { return redis.Values(reply, err) }

// replyInt64 returns an integer, also one written in decimal.
func replyInt64(reply any, err error) (int64, error) { return redis.Int64(reply, err) }

// replyInt64s returns an array of integers.
func replyInt64s(reply any, err error) ([]int64, error) { return redis.Int64s(reply, err) }

// replyString returns a string.
func replyString(reply any, err error) (string, error) { return redis.String(reply, err) }

// replyStrings returns an array of strings.
func replyStrings(reply any, err error) ([]string, error) { return redis.Strings(reply, err) }

// replyStringMap returns an array of names and values as a map.
func replyStringMap(reply any, err error) (map[string]string, error) {
	return redis.StringMap(reply, err)
}

// replyScan copies values to what dest points to, and returns the rest of them.
func replyScan(values []any, dest ...any) ([]any, error) { return redis.Scan(values, dest...) }

// replyText turns the bytes and error lines in a reply into strings.
func replyText(reply any) any {
	switch r := reply.(type) {
	case []byte:
		return string(r)
	case redis.Error:
		return string(r)
	case []any:
		for i := range r {
			r[i] = replyText(r[i])
		}
	}
	return reply
}

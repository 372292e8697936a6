package driver

import (
	"strconv"

	"github.com/gomodule/redigo/redis"
)

// The functions below read replies, so that only this package knows redigo's
// types.

// Values returns the values of an array.
func Values(reply any, err error) ([]any, error) { return redis.Values(reply, err) }

// Int64 returns an integer. The reply may be an integer or a decimal string.
func Int64(reply any, err error) (int64, error) { return redis.Int64(reply, err) }

// Int64s returns an array of integers. A single integer is an array of one.
func Int64s(reply any, err error) ([]int64, error) {
	if n, single := reply.(int64); single && err == nil {
		return []int64{n}, nil
	}
	return redis.Int64s(reply, err)
}

// String returns a string.
func String(reply any, err error) (string, error) { return redis.String(reply, err) }

// Strings returns an array of strings.
func Strings(reply any, err error) ([]string, error) { return redis.Strings(reply, err) }

// StringMap returns an array of names and values as a map.
func StringMap(reply any, err error) (map[string]string, error) {
	return redis.StringMap(reply, err)
}

// Scan copies values to the variables that dest points to, and returns the
// remaining values.
func Scan(values []any, dest ...any) ([]any, error) { return redis.Scan(values, dest...) }

// Status returns the number that an answer is or begins with, and reports
// whether there is one.
func Status(reply any) (code int64, ok bool) {
	if values, array := reply.([]any); array && len(values) > 0 {
		reply = values[0]
	}
	code, ok = reply.(int64)
	return code, ok
}

// Word returns a string or an integer as a text, and "" for anything else.
func Word(reply any) string {
	switch r := reply.(type) {
	case []byte:
		return string(r)
	case string:
		return r
	case int64:
		return strconv.FormatInt(r, 10)
	}
	return ""
}

// Size returns how many bytes the strings of an array have.
func Size(values []any) (bytes int) {
	for _, value := range values {
		if text, ok := value.([]byte); ok {
			bytes += len(text)
		}
	}
	return bytes
}

// Text converts the bytes and error lines in a reply to strings.
func Text(reply any) any {
	switch r := reply.(type) {
	case []byte:
		return string(r)
	case redis.Error:
		return string(r)
	case []any:
		for i := range r {
			r[i] = Text(r[i])
		}
	}
	return reply
}

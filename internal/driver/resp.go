package driver

import (
	"fmt"
	"strconv"

	"github.com/gomodule/redigo/redis"
)

// appendRequest appends a request as appendCommand does.
func appendRequest(b []byte, r *Request) []byte {
	h := &r.head
	switch {
	case !h.used:
		return appendCommand(b, r.Cmd, r.Args)
	case r.Cmd == "SET":
		b = appendString(appendHead(b, '*', 6), r.Cmd)
		b = appendString(appendString(b, h.key), h.text)
		return appendString(appendInt(appendString(b, "PX"), h.expiry), "NX")
	}
	b = appendHead(b, '*', 4+len(h.beside)+len(r.Args))
	b = appendString(appendString(b, r.Cmd), h.text)
	b = appendString(appendInt(b, int64(1+len(h.beside))), h.key)
	for _, end := range h.beside {
		b = appendHead(b, '$', len(h.key)+len(end))
		b = append(append(append(b, h.key...), end...), "\r\n"...)
	}
	for _, arg := range r.Args {
		b = appendArg(b, arg)
	}
	return b
}

// appendCommand appends a request in the protocol of Redis. It writes the
// arguments as redigo does.
func appendCommand(b []byte, command string, args []any) []byte {
	b = appendHead(b, '*', 1+len(args))
	b = appendString(b, command)
	for _, arg := range args {
		b = appendArg(b, arg)
	}
	return b
}

func appendHead(b []byte, kind byte, n int) []byte {
	return append(strconv.AppendInt(append(b, kind), int64(n), 10), "\r\n"...)
}

func appendString(b []byte, s string) []byte {
	return append(append(appendHead(b, '$', len(s)), s...), "\r\n"...)
}

func appendArg(b []byte, arg any) []byte {
	switch v := arg.(type) {
	case string:
		return appendString(b, v)
	case []byte:
		return append(append(appendHead(b, '$', len(v)), v...), "\r\n"...)
	case int:
		return appendInt(b, int64(v))
	case int64:
		return appendInt(b, v)
	case float64:
		return appendString(b, strconv.FormatFloat(v, 'g', -1, 64))
	case bool:
		if v {
			return appendString(b, "1")
		}
		return appendString(b, "0")
	case nil:
		return appendString(b, "")
	case redis.Argument:
		if arg = v.RedisArg(); !isArgument(arg) {
			return appendArg(b, arg)
		}
	}
	return appendString(b, fmt.Sprint(arg))
}

func isArgument(arg any) bool {
	_, ok := arg.(redis.Argument)
	return ok
}

func appendInt(b []byte, n int64) []byte {
	var digits [20]byte
	text := strconv.AppendInt(digits[:0], n, 10)
	return append(append(appendHead(b, '$', len(text)), text...), "\r\n"...)
}

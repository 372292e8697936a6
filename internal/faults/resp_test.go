package faults

import (
	"bufio"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func reader(text string) *bufio.Reader { return bufio.NewReader(strings.NewReader(text)) }

func TestReadRequestTakesOneAtATime(t *testing.T) {
	r := reader("*2\r\n$3\r\nGET\r\n$0\r\n\r\n*1\r\n$4\r\nPING\r\n")
	raw, args, err := readRequest(r)
	require.NoError(t, err)
	require.Equal(t, []string{"GET", ""}, args)
	require.Equal(t, "*2\r\n$3\r\nGET\r\n$0\r\n\r\n", string(raw))
	_, args, err = readRequest(r)
	require.NoError(t, err)
	require.Equal(t, []string{"PING"}, args)
}

func TestReadRequestRefusesWhatIsNoRequest(t *testing.T) {
	for _, text := range []string{
		"", "PING\r\n", "*1\n", "*x\r\n", "*0\r\n", "*-1\r\n", "*1\r\n:1\r\n", "*1\r\n$-1\r\n", "*1\r\n$1\r\nab\r\n", "*1\r\n$9\r\nab\r\n",
		"*1\r\n$99999999999\r\n",
	} {
		_, _, err := readRequest(reader(text))
		require.Error(t, err, "%q", text)
	}
}

func TestReadAnswerTakesOneAtATime(t *testing.T) {
	for _, text := range []string{
		"+OK\r\n", "+\r\n", "-ERR no\r\n", ":-7\r\n", "$2\r\n\r\n\r\n", "$-1\r\n", "*-1\r\n", "*0\r\n", "*2\r\n*1\r\n$1\r\na\r\n*2\r\n$-1\r\n:3\r\n",
	} {
		r := reader(text + "+NEXT\r\n")
		raw, err := readAnswer(r, nil)
		require.NoError(t, err, "%q", text)
		require.Equal(t, text, string(raw))
		raw, err = readAnswer(r, nil)
		require.NoError(t, err)
		require.Equal(t, "+NEXT\r\n", string(raw))
	}
}

func TestReadAnswerRefusesWhatIsNoAnswer(t *testing.T) {
	for _, text := range []string{"", "\r\n", "?1\r\n", "$x\r\n", "$2\r\na\r\n", "$1\r\nabc", "*2\r\n:1\r\n"} {
		_, err := readAnswer(reader(text), nil)
		require.Error(t, err, "%q", text)
	}
}

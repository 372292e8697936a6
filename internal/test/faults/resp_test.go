package faults

import (
	"bufio"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func reader(text string) *bufio.Reader { return bufio.NewReader(strings.NewReader(text)) }

func TestReadRequestRefusesWhatIsNoRequest(t *testing.T) {
	for _, text := range []string{
		"", "PING\r\n", "*1\n", "*x\r\n", "*0\r\n", "*-1\r\n", "*1\r\n:1\r\n", "*1\r\n$-1\r\n", "*1\r\n$1\r\nab\r\n",
		"*1\r\n$9\r\nab\r\n",
		"*1\r\n$99999999999\r\n",
	} {
		_, _, err := readRequest(reader(text))
		require.Error(t, err, "%q", text)
	}
}

func TestReadAnswerRefusesWhatIsNoAnswer(t *testing.T) {
	for _, text := range []string{"", "\r\n", "?1\r\n", "$x\r\n", "$2\r\na\r\n", "$1\r\nabc", "*2\r\n:1\r\n"} {
		_, err := readAnswer(reader(text), nil)
		require.Error(t, err, "%q", text)
	}
}

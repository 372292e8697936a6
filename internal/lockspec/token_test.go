package lockspec

import (
	"encoding/base64"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/errs"
)

// detached returns a hold that was detached, with all fields set.
func detached() *Detached {
	return &Detached{
		Key: []byte("k\xff|{"), Family: ReentrantFamily, Fair: true, Hold: "af0b63e8-5d3c-4c39-9a41-7f6f2b1f6f5e",
		Fence: 1_700_000_000_000_000, Stay: time.Hour, Keep: time.Minute,
	}
}

// tokenOf returns a token with this text, whose checksum is right.
func tokenOf(text string) string {
	return summed(tokenMark + base64.RawURLEncoding.EncodeToString([]byte(text)))
}

// A text whose checksum is right is refused if it is not the one that Detach
// writes: it may come from a later version.
func TestTokenOfAnotherVersion(t *testing.T) {
	t.Parallel()
	token := detached().Token()
	d, err := ReadToken(token)
	require.NoError(t, err)
	require.Equal(t, detached(), d)
	encoded, _, _ := strings.Cut(strings.TrimPrefix(token, tokenMark), ".")
	whole, err := base64.RawURLEncoding.DecodeString(encoded)
	require.NoError(t, err)
	text := string(whole)
	require.Equal(t, token, tokenOf(text))
	for name, other := range map[string]string{
		"one more field":     strings.Replace(text, "{", `{"New":1,`, 1),
		"a field twice":      strings.Replace(text, "{", `{"Fence":7,`, 1),
		"a name in capitals": strings.Replace(text, "Fence", "FENCE", 1),
		"a space":            text + " ",
		"two values":         text + "{}",
		"a default written":  strings.Replace(text, `"Fair":true`, `"Fair":false`, 1),
		"no JSON":            "text",
		"empty":              "",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ReadToken(tokenOf(other))
			require.ErrorIs(t, err, errs.ErrInvalid)
			require.ErrorIs(t, err, errOtherVersion)
		})
	}
	_, err = ReadToken(summed(tokenMark + encoded[:5] + "\n" + encoded[5:]))
	require.ErrorIs(t, err, errOtherVersion, "the decoder omits ends of lines")
	_, err = ReadToken("relock1." + encoded)
	require.ErrorIs(t, err, errNoToken)
}

// A field out of its range is refused.
func TestTokenWithABadField(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Detached){
		"no key":       func(d *Detached) { d.Key = nil },
		"another kind": func(d *Detached) { d.Family = 99 },
		"no hold":      func(d *Detached) { d.Hold = "" },
		"a bar":        func(d *Detached) { d.Hold = "a|b" },
		"fence":        func(d *Detached) { d.Fence = -1 },
		"short":        func(d *Detached) { d.Stay, d.Keep = MinLease-1, 0 },
		"keep":         func(d *Detached) { d.Keep = math.MinInt64 },
		"keep longer":  func(d *Detached) { d.Keep = d.Stay + 1 },
	} {
		t.Run(name, func(t *testing.T) {
			d := detached()
			change(d)
			_, err := ReadToken(d.Token())
			require.ErrorIs(t, err, errs.ErrInvalid)
		})
	}
}

// No text other than what Token returns is read, and no error has the text.
func FuzzToken(f *testing.F) {
	token := detached().Token()
	for _, text := range []string{
		token, "", tokenMark, token + "=", token[:len(token)-1], tokenOf("{}"), tokenOf("text"), strings.ToUpper(token),
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, one := range []string{text, tokenOf(text)} {
			d, err := ReadToken(one)
			if err == nil {
				require.Equal(t, d.Token(), one)
				continue
			}
			require.ErrorIs(t, err, errs.ErrInvalid)
			require.Nil(t, d)
			require.False(t, len(one) > 20 && strings.Contains(err.Error(), one))
		}
	})
}

package lockspec

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/errs"
)

// Detached is a hold that was detached: what its token says. It is enough to
// resume the hold.
type Detached struct {
	Key    []byte        // the name that the user gave, of any bytes
	Family Family        // plain or reentrant
	Fair   bool          `json:",omitempty"`
	Hold   string        // the id that is stored
	Fence  int64         `json:",omitempty"` // 0 without fencing
	Stay   time.Duration // how long the key stays, from the Detach on
	Keep   time.Duration `json:",omitempty"` // how much of that is minimum hold
}

var (
	errNoToken      = errors.New("token: was not returned by this version's Detach")
	errChanged      = errors.New("token: was changed or cut, its checksum is wrong")
	errOtherVersion = errors.New("token: has what this version does not know")
)

const tokenMark = "relock2."

// Token returns d as a text of letters, digits, and the marks -_. only. There
// is one text for each d.
func (d *Detached) Token() string {
	text, _ := json.Marshal(d) // never fails for these fields
	return summed(tokenMark + base64.RawURLEncoding.EncodeToString(text))
}

// summed returns the text with its checksum. That finds mistakes. It is no
// signature, as anybody can compute it.
func summed(text string) string {
	sum := sha256.Sum256([]byte(text))
	return text + "." + base64.RawURLEncoding.EncodeToString(sum[:12])
}

// ReadToken reads a token. Its error contains nothing of the token.
func ReadToken(token string) (*Detached, error) {
	body := token[:max(0, strings.LastIndexByte(token, '.'))]
	switch text, known := strings.CutPrefix(body, tokenMark); {
	case !strings.HasPrefix(token, tokenMark):
		return nil, errs.Join(errs.ErrInvalid, errNoToken)
	case token != summed(body):
		return nil, errs.Join(errs.ErrInvalid, errChanged)
	case known:
		if d := read(text); d.valid() && d.Token() == token { // else it has another field
			return d, nil
		}
	}
	return nil, errs.Join(errs.ErrInvalid, errOtherVersion)
}

// read reads the text of a token, as far as it can be read.
func read(text string) *Detached {
	d := &Detached{}
	if plain, err := base64.RawURLEncoding.DecodeString(text); err == nil {
		_ = json.Unmarshal(plain, d) // then d has another text
	}
	return d
}

func (d *Detached) valid() bool {
	return len(d.Key) > 0 && (d.Family == PlainFamily || d.Family == ReentrantFamily) && d.Hold != "" &&
		!strings.Contains(d.Hold, "|") &&
		d.Fence >= 0 && d.Stay >= MinLease && d.Keep >= 0 && d.Keep <= d.Stay
}

// Kind returns the kind of the resumed hold.
func (d *Detached) Kind() *Kind {
	if d.Family == ReentrantFamily {
		return resumedReentrant
	}
	return resumedPlain
}

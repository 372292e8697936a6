package lockspec

import (
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

var errToken = errors.New("token: is none that Detach returned")

const tokenMark = "relock1."

// Token returns d as a text of letters, digits, and the marks -_. only.
func (d *Detached) Token() string {
	text, _ := json.Marshal(d) // never fails for these fields
	return tokenMark + base64.RawURLEncoding.EncodeToString(text)
}

// ReadToken reads a token. Its error contains nothing of the token.
func ReadToken(token string) (*Detached, error) {
	d := &Detached{}
	text, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(token, tokenMark))
	if !strings.HasPrefix(token, tokenMark) || err != nil || json.Unmarshal(text, d) != nil || !d.valid() {
		return nil, errs.Both(errs.ErrInvalid, errToken)
	}
	return d, nil
}

func (d *Detached) valid() bool {
	return len(d.Key) > 0 && (d.Family == PlainFamily || d.Family == ReentrantFamily) && d.Hold != "" && !strings.Contains(d.Hold, "|") &&
		d.Fence >= 0 && d.Stay >= MinLease && d.Keep >= 0 && d.Keep <= d.Stay
}

// Kind returns the kind of the resumed hold.
func (d *Detached) Kind() *Kind {
	if d.Family == ReentrantFamily {
		return resumedReentrant
	}
	return resumedPlain
}

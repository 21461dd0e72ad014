package view

import (
	"encoding/base64"
	"encoding/binary"

	"github.com/muster-fleet/muster/internal/model"
)

// NextPage returns the token of the page that begins behind place. Page tokens and ETags are places
// in one incarnation of the data: after a restore from a backup, revisions, ids and times are given
// again to other things, so tokens of another incarnation are refused. (Tokens of events contain
// their incarnation already.)
func (v *View) NextPage(place string) string {
	b := binary.BigEndian.AppendUint64(nil, v.Incarnation)
	return base64.RawURLEncoding.EncodeToString(append(b, place...))
}

// PagePlace returns the place of a page token.
func (v *View) PagePlace(token string) (place string, err error) {
	b, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(b) < 8 {
		return "", BadToken()
	}
	if binary.BigEndian.Uint64(b) != v.Incarnation {
		return "", model.Errorf(model.Conflict, "the page token belongs to another incarnation of this server's data").
			WithHint("list again without it")
	}
	return string(b[8:]), nil
}

// BadToken is the error about a page token that this API did not make.
func BadToken() error {
	return model.Errorf(model.Invalid, "after: not a page token of this list").WithHint("list again without it")
}

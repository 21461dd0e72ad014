package api

import (
	"encoding/base64"
	"encoding/binary"

	"github.com/muster-fleet/muster/internal/model"
)

// Page tokens and ETags are places in one life of the data. After a restore from a
// backup revisions, ids and times are given again for other things: those of the life
// before are refused. (Tokens of events carry their life by themselves.)

// next is the token of a page that goes on behind place.
func (s *server) next(place string) string {
	b := binary.BigEndian.AppendUint64(nil, s.Incarnation)
	return base64.RawURLEncoding.EncodeToString(append(b, place...))
}

// after is the place that a token names.
func (s *server) after(token string) (place string, err error) {
	b, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(b) < 8 {
		return "", noToken()
	}
	if binary.BigEndian.Uint64(b) != s.Incarnation {
		return "", model.Errorf(model.Conflict, "the page token is of another life of this server's data").
			WithHint("list again without it")
	}
	return string(b[8:]), nil
}

func noToken() error {
	return model.Errorf(model.Invalid, "after: this is no token of a page before").WithHint("list again without it")
}

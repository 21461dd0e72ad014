package api

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

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

func (s *server) etag(revision int64) string {
	return fmt.Sprintf(`"%016x-%d"`, s.Incarnation, revision)
}

// revisionOf is the revision that an ETag stands for.
func (s *server) revisionOf(etag string) (int64, error) {
	life, number, ok := strings.Cut(strings.Trim(strings.TrimPrefix(etag, "W/"), `"`), "-")
	revision, err := strconv.ParseInt(number, 10, 64)
	if !ok || err != nil || revision <= 0 {
		return 0, model.Errorf(model.Invalid, "If-Match %q is no ETag of ours", etag).WithHint("send the ETag that GET gave")
	}
	if life != fmt.Sprintf("%016x", s.Incarnation) {
		return 0, model.Errorf(model.Stale, "the ETag is of another life of this server's data").WithHint("GET it again, and look what it is now")
	}
	return revision, nil
}
